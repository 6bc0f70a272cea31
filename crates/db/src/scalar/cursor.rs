//! The entries of several sources as one, in the order of their keys.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use roaring::RoaringBitmap;

use super::ScalarError;
use super::entries::EntryReader;
use super::pending::SortedColumn;
use super::run::Run;

/// A column of one source, from its first key to its last.
pub(super) enum ColumnCursor<'s> {
    Run(Box<RunCursor<'s>>),
    Sorted {
        column: &'s SortedColumn<'s>,
        at: usize,
        next: usize,
    },
    /// A source that is older than the field: all its rows have these keys, which descend.
    Constant {
        keys: Vec<Vec<u8>>,
        rows: &'s RoaringBitmap,
    },
}

/// A column of a run.
pub(super) struct RunCursor<'s> {
    run: &'s Run,
    column: usize,
    /// The block that is being read.
    block: usize,
    buffer: Vec<u8>,
    /// Bytes of the block that are left behind the current entry.
    left: usize,
    key: Vec<u8>,
    count: u32,
    rows: Vec<u32>,
    /// Whether rows are wanted, and not only how many there are.
    with_rows: bool,
    ended: bool,
}

impl<'s> RunCursor<'s> {
    /// Stands at the first entry.
    pub(super) fn new(run: &'s Run, column: usize, with_rows: bool) -> Result<Self, ScalarError> {
        let (key, buffer, rows) = Default::default();
        let (block, left, count, ended) = (0, 0, 0, false);
        let mut cursor =
            Self { run, column, block, buffer, left, key, count, rows, with_rows, ended };
        cursor.advance()?;
        Ok(cursor)
    }

    fn advance(&mut self) -> Result<(), ScalarError> {
        if self.left == 0 {
            if self.block == self.run.columns()[self.column].blocks.len() {
                self.ended = true;
                return Ok(());
            }
            let mut buffer = Vec::new();
            let bytes = self.run.block(self.column, self.block, &mut buffer)?;
            self.buffer.clear();
            self.buffer.extend_from_slice(bytes);
            self.left = self.buffer.len();
            self.block += 1;
            self.key.clear();
        }
        let bytes = &self.buffer[self.buffer.len() - self.left..];
        let mut reader = EntryReader::resume(bytes, self.run.map(), std::mem::take(&mut self.key));
        let bad = |_| self.run.bad_entry();
        let rows = reader.next().map_err(bad)?.ok_or_else(|| self.run.bad_entry())?;
        self.count = rows.count;
        if self.with_rows {
            self.rows.clear();
            rows.rows_into(&mut self.rows).map_err(bad)?;
        }
        (self.key, self.left) = reader.suspend();
        Ok(())
    }
}

impl ColumnCursor<'_> {
    /// The key it stands at; `None` behind the last.
    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Run(cursor) => (!cursor.ended).then_some(cursor.key.as_slice()),
            Self::Sorted { column, at, .. } => column.key(*at),
            Self::Constant { keys, .. } => keys.last().map(Vec::as_slice),
        }
    }

    fn count(&self) -> u32 {
        match self {
            Self::Run(cursor) => cursor.count,
            Self::Sorted { at, next, .. } => (next - at) as u32,
            Self::Constant { rows, .. } => rows.len() as u32,
        }
    }

    fn rows_into(&self, out: &mut Vec<u32>) {
        match self {
            Self::Run(cursor) => out.extend(&cursor.rows),
            Self::Sorted { column, at, next } => out.extend(column.rows(*at..*next)),
            Self::Constant { rows, .. } => out.extend(*rows),
        }
    }

    fn advance(&mut self) -> Result<(), ScalarError> {
        match self {
            Self::Run(cursor) => cursor.advance()?,
            Self::Sorted { column, at, next } => {
                *at = *next;
                *next = if column.key(*at).is_some() { column.next(*at) } else { *at };
            }
            Self::Constant { keys, .. } => {
                keys.pop();
            }
        }
        Ok(())
    }
}

/// A cursor in the heap: the least key is the greatest, and of equal ones the earliest source.
struct Ranked<'s> {
    cursor: ColumnCursor<'s>,
    source: usize,
}

impl Ord for Ranked<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.cursor.key(), other.source).cmp(&(self.cursor.key(), self.source))
    }
}

impl PartialOrd for Ranked<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked<'_> {}

/// Calls `each` with every key of the sources once, in order: how many rows have it and, where
/// `with_rows` says so, which. Rows ascend if those of each source stand behind those of the
/// source before.
pub(super) fn merge(
    cursors: Vec<ColumnCursor<'_>>,
    with_rows: bool,
    mut each: impl FnMut(&[u8], u32, &[u32]) -> Result<(), ScalarError>,
) -> Result<(), ScalarError> {
    let some = cursors.into_iter().enumerate().filter(|(_, cursor)| cursor.key().is_some());
    let mut heap: BinaryHeap<_> = some.map(|(source, cursor)| Ranked { cursor, source }).collect();
    let (mut key, mut rows) = (Vec::new(), Vec::new());
    while let Some(top) = heap.peek() {
        key.clear();
        key.extend(top.cursor.key().expect("cursors at their end leave the heap"));
        rows.clear();
        let mut count = 0;
        while let Some(mut top) = heap.peek_mut() {
            if top.cursor.key() != Some(&key) {
                break;
            }
            count += top.cursor.count();
            if with_rows {
                top.cursor.rows_into(&mut rows);
            }
            top.cursor.advance()?;
            if top.cursor.key().is_none() {
                PeekMut::pop(top);
            }
        }
        each(&key, count, &rows)?;
    }
    Ok(())
}
