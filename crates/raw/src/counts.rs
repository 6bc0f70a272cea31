//! What a device was asked for, counted by its poller.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::{DeviceAction, Status};

/// What a device was asked for so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of the writes.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Commands that failed.
    pub errors: u64,
    /// Reads that were done from files, since the device is lost.
    pub from_files: u64,
}

/// The same while it is counted, by one thread alone but for `from_files`.
#[derive(Default)]
pub(crate) struct PollerCounters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    errors: AtomicU64,
    from_files: AtomicU64,
}

/// Adds without a locked instruction, since only one thread does.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl PollerCounters {
    /// The device took a command.
    pub(crate) fn asked(&self, action: DeviceAction, bytes: u32) {
        let (commands, moved) = match action {
            DeviceAction::Read => (&self.reads, &self.read_bytes),
            DeviceAction::Write => (&self.writes, &self.written_bytes),
            DeviceAction::Flush => return add(&self.flushes, 1),
        };
        add(commands, 1);
        add(moved, bytes.into());
    }

    /// A command has ended.
    pub(crate) fn ended(&self, result: Result<(), Status>) {
        if result.is_err() {
            add(&self.errors, 1);
        }
    }

    /// A read was done from a file instead. Returns how many were before.
    pub(crate) fn count_from_file(&self) -> u64 {
        self.from_files.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn now(&self) -> DeviceCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeviceCounts {
            reads: of(&self.reads),
            read_bytes: of(&self.read_bytes),
            writes: of(&self.writes),
            written_bytes: of(&self.written_bytes),
            flushes: of(&self.flushes),
            errors: of(&self.errors),
            from_files: of(&self.from_files),
        }
    }
}
