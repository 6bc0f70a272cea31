//! Making a run out of pending rows, or out of other runs without the rows that are gone.
//!
//! The entries of a column are merged twice: once to count the rows of each key, from which the
//! code of the signatures is learned, and once to write entries and signatures.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::ScalarError;
use super::buckets::{Bucket, Buckets, starts};
use super::column::ScalarColumn;
use super::cursor::{ColumnCursor, RunCursor, merge};
use super::directory::{BlockAt, Directory, RunColumn, SignatureCode, Trailer};
use super::elements::{ElementCode, ElementCounts};
use super::entries::EntryWriter;
use super::pending::{PendingRows, SortedColumn};
use super::row_map::RowMap;
use super::run::{Run, SignatureColumn, Signatures, block_sum};
use super::value_keys::ValueKeys;
use crate::files::checksum;

/// A block is closed when it has so many bytes.
const BLOCK_BYTES: usize = 16 << 10;

/// Where the rows of a new run come from.
#[derive(Clone, Copy)]
pub(super) enum RunSource<'s> {
    Pending(&'s PendingRows),
    Run(&'s Run),
}

/// A run that is to be made.
pub(super) struct RunPlan<'s> {
    /// In ascending order of their rows.
    pub(super) sources: Vec<RunSource<'s>>,
    pub(super) columns: Arc<[ScalarColumn]>,
    /// The upper half of all row ids.
    pub(super) high: u32,
    /// The lower halves of those that stay: one at least.
    pub(super) lows: RoaringBitmap,
    pub(super) collection: [u8; 16],
    pub(super) number: u64,
}

impl RunSource<'_> {
    fn rows(&self) -> u64 {
        match self {
            Self::Pending(rows) => rows.len() as u64,
            Self::Run(run) => run.map().rows().into(),
        }
    }

    fn nulls(&self, column: &ScalarColumn) -> RoaringBitmap {
        match self {
            Self::Pending(rows) => match rows.column(column.field) {
                Some(at) => rows.nulls(at).clone(),
                None if column.absent.as_ref().is_null() => rows.lows(),
                None => RoaringBitmap::new(),
            },
            Self::Run(run) => match run.column(column.field) {
                Some(at) => run.columns()[at].nulls.clone(),
                None if column.absent.as_ref().is_null() => run.map().all(),
                None => RoaringBitmap::new(),
            },
        }
    }
}

/// A column of a source, ready to be read more than once.
enum ColumnInput<'s> {
    Run(&'s Run, usize),
    Sorted(SortedColumn<'s>),
    /// Of a source that is older than the field. Keys descend.
    Constant {
        keys: Vec<Vec<u8>>,
        rows: RoaringBitmap,
    },
}

impl<'s> ColumnInput<'s> {
    fn new(source: RunSource<'s>, column: &ScalarColumn) -> Self {
        let constant = |rows| {
            let mut keys = ValueKeys::default();
            keys.set(column.absent.as_ref());
            let mut keys: Vec<_> = keys.iter().map(<[u8]>::to_vec).collect();
            keys.sort_unstable_by(|a, b| b.cmp(a));
            keys.dedup();
            Self::Constant { keys, rows }
        };
        match source {
            RunSource::Pending(rows) => match rows.column(column.field) {
                Some(at) => Self::Sorted(rows.sorted(at)),
                None => constant(rows.lows()),
            },
            RunSource::Run(run) => match run.column(column.field) {
                Some(at) => Self::Run(run, at),
                None => constant(run.map().all()),
            },
        }
    }

    fn cursor(&self, with_rows: bool) -> Result<ColumnCursor<'_>, ScalarError> {
        Ok(match self {
            Self::Run(run, column) => {
                ColumnCursor::Run(Box::new(RunCursor::new(run, *column, with_rows)?))
            }
            Self::Sorted(column) => {
                let next = if column.key(0).is_some() { column.next(0) } else { 0 };
                ColumnCursor::Sorted { column, at: 0, next }
            }
            Self::Constant { keys, rows } => ColumnCursor::Constant { keys: keys.clone(), rows },
        })
    }
}

/// Bytes on their way out, and how many went before.
struct RunOutput<'w> {
    to: &'w mut dyn Write,
    path: &'w Path,
    at: u64,
}

impl RunOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ScalarError> {
        self.to.write_all(bytes).map_err(ScalarError::io("write", self.path))?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

impl RunPlan<'_> {
    /// Writes the run to `out`, whose name is `path`.
    pub(super) fn write(
        &self,
        out: &mut dyn Write,
        path: &Path,
    ) -> Result<(Directory, Signatures), ScalarError> {
        let mut out = RunOutput { to: out, path, at: 0 };
        let map = RowMap::new(self.high, &self.lows);
        let (mut columns, mut signatures) = (Vec::new(), Vec::new());
        for column in &*self.columns {
            let (written, marks) = self.column(column, &map, &mut out)?;
            columns.push(written);
            signatures.push(marks);
        }
        for (column, marks) in columns.iter_mut().zip(&signatures) {
            let bits: Vec<u8>;
            let bytes = match marks {
                SignatureColumn::Codes(codes) => &**codes,
                SignatureColumn::Bits(marks) => {
                    bits = marks.iter().flat_map(|bits| bits.to_le_bytes()).collect();
                    &bits
                }
            };
            column.signatures_at = out.at;
            column.signatures_sum = block_sum(bytes, self.collection, self.number, out.at);
            out.write(bytes)?;
        }
        let directory = Directory { map, columns };
        let bytes = directory.encode();
        let trailer = Trailer {
            high: self.high,
            collection: self.collection,
            number: self.number,
            directory_at: out.at,
            directory_bytes: bytes.len() as u64,
            directory_sum: checksum(&bytes),
        };
        out.write(&bytes)?;
        out.write(&trailer.encode())?;
        Ok((directory, Signatures::new(signatures)))
    }

    fn column(
        &self,
        column: &ScalarColumn,
        map: &RowMap,
        out: &mut RunOutput<'_>,
    ) -> Result<(RunColumn, SignatureColumn), ScalarError> {
        let mut nulls = RoaringBitmap::new();
        self.sources.iter().for_each(|source| nulls |= source.nulls(column));
        nulls &= &self.lows;
        let mut blocks =
            Blocks { plan: self, out, entries: EntryWriter::default(), done: Vec::new() };
        let inputs = self.sources.iter().map(|source| ColumnInput::new(*source, column));
        let inputs: Vec<_> = inputs.collect();
        let (code, marks) = match column.array {
            true => self.arrays(&inputs, map, &nulls, &mut blocks)?,
            false => self.scalars(&inputs, map, &nulls, &mut blocks)?,
        };
        blocks.end_block()?;
        let (field, scalar, blocks) = (column.field, column.scalar, blocks.done);
        let (signatures_at, signatures_sum) = (0, 0);
        let written =
            RunColumn { field, scalar, code, nulls, blocks, signatures_at, signatures_sum };
        Ok((written, marks))
    }

    fn scalars(
        &self,
        inputs: &[ColumnInput<'_>],
        map: &RowMap,
        nulls: &RoaringBitmap,
        blocks: &mut Blocks<'_, '_>,
    ) -> Result<(SignatureCode, SignatureColumn), ScalarError> {
        let mut counts = Vec::new();
        self.entries(inputs, false, |_, rows, _| {
            counts.push(rows);
            Ok(())
        })?;
        let starts = starts(&counts);
        let mut buckets: Vec<Bucket> = Vec::with_capacity(starts.len());
        let mut codes = vec![Buckets::NULL; map.rows() as usize];
        let mut at = 0;
        self.entries(inputs, true, |key, count, rows| {
            if starts.get(buckets.len()) == Some(&at) {
                let (first, last) = (key.to_vec(), Vec::new());
                buckets.push(Bucket { first, last, rows: 0, keys: 0 });
            }
            at += 1;
            let code = u8::try_from(buckets.len()).expect("a byte tells the buckets");
            let bucket = buckets.last_mut().expect("the first key begins one");
            bucket.last.clear();
            bucket.last.extend(key);
            bucket.rows += count;
            bucket.keys += 1;
            for &row in rows {
                codes[map.place(row).expect("rows that are gone were passed over") as usize] = code;
            }
            blocks.push(key, rows, map.first())
        })?;
        let nulls = u32::try_from(nulls.len()).expect("rows of a run fit 32 bits");
        let code = SignatureCode::Buckets(Buckets { nulls, buckets });
        Ok((code, SignatureColumn::Codes(codes.into())))
    }

    fn arrays(
        &self,
        inputs: &[ColumnInput<'_>],
        map: &RowMap,
        nulls: &RoaringBitmap,
        blocks: &mut Blocks<'_, '_>,
    ) -> Result<(SignatureCode, SignatureColumn), ScalarError> {
        let mut counts = ElementCounts::default();
        self.entries(inputs, false, |key, rows, _| {
            counts.add(key, rows);
            Ok(())
        })?;
        let code = counts.learn(u64::from(map.rows()) - nulls.len());
        let mut marks = vec![ElementCode::NOT_NULL; map.rows() as usize];
        for row in nulls {
            marks[map.place(row).expect("nulls are rows of the run") as usize] = 0;
        }
        self.entries(inputs, true, |key, _, rows| {
            let mark = code.mark(key);
            for &row in rows {
                marks[map.place(row).expect("rows that are gone were passed over") as usize] |=
                    mark;
            }
            blocks.push(key, rows, map.first())
        })?;
        Ok((SignatureCode::Elements(code), SignatureColumn::Bits(marks.into())))
    }

    /// The entries of all sources, without rows that are gone.
    fn entries(
        &self,
        inputs: &[ColumnInput<'_>],
        with_rows: bool,
        mut each: impl FnMut(&[u8], u32, &[u32]) -> Result<(), ScalarError>,
    ) -> Result<(), ScalarError> {
        let all: u64 = self.sources.iter().map(RunSource::rows).sum();
        let some_gone = all > self.lows.len();
        let cursors = inputs.iter().map(|input| input.cursor(with_rows || some_gone));
        let cursors = cursors.collect::<Result<_, _>>()?;
        if !some_gone {
            return merge(cursors, with_rows, each);
        }
        let mut left = Vec::new();
        merge(cursors, true, |key, _, rows| {
            left.clear();
            left.extend(rows.iter().filter(|row| self.lows.contains(**row)));
            match left.len() {
                0 => Ok(()),
                count => each(key, count as u32, &left),
            }
        })
    }
}

/// The blocks of a column.
struct Blocks<'o, 'w> {
    plan: &'o RunPlan<'o>,
    out: &'o mut RunOutput<'w>,
    entries: EntryWriter,
    done: Vec<BlockAt>,
}

impl Blocks<'_, '_> {
    fn push(&mut self, key: &[u8], rows: &[u32], base: u32) -> Result<(), ScalarError> {
        self.entries.push(key, rows, base);
        if self.entries.bytes.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), ScalarError> {
        if self.entries.bytes.is_empty() {
            return Ok(());
        }
        let (first, bytes) = self.entries.take();
        let offset = self.out.at;
        let sum = block_sum(&bytes, self.plan.collection, self.plan.number, offset);
        self.out.write(&bytes)?;
        self.out.write(&sum.to_le_bytes())?;
        let bytes = u32::try_from(bytes.len()).expect("an entry has less than 4 GiB");
        self.done.push(BlockAt { first, offset, bytes });
        Ok(())
    }
}
