//! Lists of near neighbours in a file, in both directions: what is cut where memory is limited.
//!
//! Each pair is written twice, once for each of its ends, to files of rows that lie together; each of
//! these is sorted in memory and appended. A mutual neighbour stands in a list twice, which is its
//! weight. In memory stays where each list begins.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use super::progress::check_cancel;
use super::settle::{TellRow, WeightedLists};
use super::site::Site;
use super::spill::Spill;

/// Rows between looks at whether to stop.
const STEP: usize = 1 << 14;
/// The most files that pairs are sorted into.
const MOST_FILES: usize = 128;
/// Bytes of a pair, and of an entry of a list.
const PAIR_BYTES: usize = 8;
const ENTRY_BYTES: usize = 4;

/// Lists one after the other.
pub(crate) struct NearFile {
    file: File,
    path: PathBuf,
    /// The entry that each list begins with, and how many there are in all.
    offsets: Vec<u64>,
}

/// Pairs of some rows, written until all are there.
struct Pairs {
    out: BufWriter<File>,
    path: PathBuf,
}

impl Pairs {
    fn push(&mut self, from: u32, to: u32) -> Result<(), BuildError> {
        let pair = (u64::from(from) << 32 | u64::from(to)).to_le_bytes();
        self.out.write_all(&pair).map_err(BuildError::io("write", &self.path))
    }

    /// All of them, sorted.
    fn sorted(self) -> Result<Vec<u64>, BuildError> {
        let Self { out, path } = self;
        let file = out.into_inner().map_err(|e| BuildError::io("write", &path)(e.into_error()))?;
        let bytes = file.metadata().map_err(BuildError::io("read", &path))?.len() as usize;
        let mut pairs = Vec::with_capacity(bytes / PAIR_BYTES);
        let mut file = BufReader::with_capacity(1 << 18, file);
        file.seek(SeekFrom::Start(0)).map_err(BuildError::io("read", &path))?;
        let mut pair = [0; PAIR_BYTES];
        for _ in 0..bytes / PAIR_BYTES {
            file.read_exact(&mut pair).map_err(BuildError::io("read", &path))?;
            pairs.push(u64::from_le_bytes(pair));
        }
        pairs.sort_unstable();
        Ok(pairs)
    }
}

impl NearFile {
    /// Of the first `near` entries of each of `lists`; about `sorted_bytes` of them are in memory at
    /// a time.
    pub(crate) fn new(
        site: &Site,
        lists: &Spill,
        near: usize,
        sorted_bytes: usize,
        cancel: &AtomicBool,
    ) -> Result<Self, BuildError> {
        use super::reach::EdgeLists as _;
        let rows = lists.nodes();
        let all = rows * 2 * near * PAIR_BYTES;
        let files = all.div_ceil(sorted_bytes.max(1)).clamp(1, MOST_FILES);
        let span = rows.div_ceil(files).max(1);
        let open = |at: usize| {
            let (file, path) = site.scratch(&format!("pairs-{at}"))?;
            Ok(Pairs { out: BufWriter::with_capacity(1 << 17, file), path })
        };
        let pairs: Result<Vec<Pairs>, BuildError> = (0..rows.div_ceil(span)).map(open).collect();
        let mut pairs = pairs?;
        let (mut reader, mut list) = (lists.reader()?, Vec::new());
        for row in 0..rows {
            if row % STEP == 0 {
                check_cancel(cancel)?;
            }
            list.clear();
            reader.next(&mut list)?;
            for &to in list.iter().take(near) {
                pairs[row / span].push(row as u32, to)?;
                pairs[to as usize / span].push(to, row as u32)?;
            }
        }
        let (file, path) = site.scratch("near")?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let mut offsets = Vec::with_capacity(rows + 1);
        let mut written = 0;
        for pairs in pairs {
            check_cancel(cancel)?;
            for pair in pairs.sorted()? {
                let from = (pair >> 32) as usize;
                if offsets.len() <= from {
                    offsets.resize(from + 1, written);
                }
                let to = (pair as u32).to_le_bytes();
                out.write_all(&to).map_err(BuildError::io("write", &path))?;
                written += 1;
            }
        }
        offsets.resize(rows + 1, written);
        let file = out.into_inner().map_err(|e| BuildError::io("write", &path)(e.into_error()))?;
        Ok(Self { file, path, offsets })
    }

    fn entries(&self, row: usize) -> usize {
        (self.offsets[row + 1] - self.offsets[row]) as usize
    }

    /// Replaces `out` by the list of a row.
    pub(crate) fn read(&self, row: u32, out: &mut Vec<u32>) -> Result<(), BuildError> {
        let mut bytes = vec![0; self.entries(row as usize) * ENTRY_BYTES];
        let at = self.offsets[row as usize] * ENTRY_BYTES as u64;
        self.file.read_exact_at(&mut bytes, at).map_err(BuildError::io("read", &self.path))?;
        out.clear();
        out.extend(bytes.as_chunks().0.iter().map(|entry| u32::from_le_bytes(*entry)));
        Ok(())
    }
}

impl WeightedLists for NearFile {
    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    fn each(&self, tell: &mut TellRow<'_>) -> Result<(), BuildError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0)).map_err(BuildError::io("read", &self.path))?;
        let mut file = BufReader::with_capacity(1 << 20, file);
        let (mut bytes, mut list) = (Vec::new(), Vec::new());
        for row in 0..self.rows() {
            bytes.resize(self.entries(row) * ENTRY_BYTES, 0);
            file.read_exact(&mut bytes).map_err(BuildError::io("read", &self.path))?;
            list.clear();
            let entries = bytes.as_chunks().0.iter();
            list.extend(entries.map(|entry| (u32::from_le_bytes(*entry), 1)));
            tell(row as u32, &list)?;
        }
        Ok(())
    }
}
