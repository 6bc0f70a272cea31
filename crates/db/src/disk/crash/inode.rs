//! The bytes of one file: what was written, what is durable, and which pages wait between.

use std::collections::BTreeSet;

use super::power_cut::PowerCut;
use super::random::CrashChance;

/// What the system writes back as a whole.
const PAGE_BYTES: usize = 4096;
/// What the device writes as a whole.
const SECTOR_BYTES: usize = 512;

/// Invariants: `durable` is never longer than `written`, and equals it in all pages that are
/// not dirty, but for those whose sync failed.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    written: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
    /// The length up to which the disk has kept room.
    kept: usize,
}

impl Inode {
    /// A file that is all on the disk.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { written: bytes.clone(), durable: bytes, ..Self::default() }
    }

    /// What a process reads.
    pub(super) fn written(&self) -> &[u8] {
        &self.written
    }

    /// Bytes of the disk that nobody else can have.
    pub(super) fn held_bytes(&self) -> usize {
        self.kept.max(self.written.len())
    }

    /// Bytes that can be appended on a full disk.
    pub(super) fn kept_bytes(&self) -> usize {
        self.held_bytes() - self.written.len()
    }

    pub(super) fn reserve(&mut self, bytes: usize) {
        self.kept = self.kept.max(self.written.len().saturating_add(bytes));
    }

    pub(super) fn give_back(&mut self) {
        self.kept = 0;
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.write_at(self.written.len(), bytes);
    }

    /// Writes anywhere; zeros fill a gap before it.
    pub(super) fn write_at(&mut self, offset: usize, bytes: &[u8]) {
        let (end, grown_from) = (offset + bytes.len(), self.written.len());
        if end > grown_from {
            self.written.resize(end, 0);
        }
        self.written[offset..end].copy_from_slice(bytes);
        let first = offset.min(grown_from);
        if first < end {
            self.dirty.extend(first / PAGE_BYTES..=(end - 1) / PAGE_BYTES);
        }
    }

    pub(super) fn sync(&mut self) {
        self.durable.resize(self.written.len(), 0);
        for page in std::mem::take(&mut self.dirty) {
            let end = self.written.len().min((page + 1) * PAGE_BYTES);
            let range = page * PAGE_BYTES..end;
            self.durable[range.clone()].copy_from_slice(&self.written[range]);
        }
    }

    /// The pages count as written back from now on, and are not.
    pub(super) fn fail_sync(&mut self) {
        self.dirty.clear();
    }

    pub(super) fn after(&self, cut: PowerCut, random: &mut CrashChance) -> Self {
        Self::durable(match cut {
            PowerCut::Drop => self.durable.clone(),
            PowerCut::Keep => self.written.clone(),
            PowerCut::Torn(_) => self.torn(random),
        })
    }

    fn torn(&self, random: &mut CrashChance) -> Vec<u8> {
        let safe = self.durable.len();
        let grown = self.written.len() - safe;
        let length = match random.up_to(3) {
            0 => self.written.len(),
            _ => safe + random.up_to(grown),
        };
        let (lottery, rubbish) = (random.coin(), random.coin());
        let mut bytes = self.durable.clone();
        bytes.resize_with(length, || if rubbish { random.next() as u8 } else { 0 });
        for page in &self.dirty {
            for sector in 0..PAGE_BYTES / SECTOR_BYTES {
                let start = page * PAGE_BYTES + sector * SECTOR_BYTES;
                let end = (start + SECTOR_BYTES).min(length);
                if start < end && !(lottery && random.coin()) {
                    bytes[start..end].copy_from_slice(&self.written[start..end]);
                }
            }
        }
        bytes
    }
}
