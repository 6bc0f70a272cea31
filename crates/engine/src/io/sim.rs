//! The simulation: files in memory behind a disk that is slow, disorderly and unreliable, all
//! from one seed.
//!
//! Time is counted in polls, never in seconds. The same seed and the same calls give the same
//! completions in the same order; queues draw from streams of their own, numbered in the
//! order they were made. It prints nothing: a failing test reports [`Sim::seed`].
//!
//! Deliberately absent: power loss for directory entries. A file that was created exists
//! afterwards, with what was synced of it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::backend::{Backend, Completion, OpenMode, Queue, QueueOptions, Transfer};
use super::buffer::{ALIGN, BufferId, BufferPool};
use super::device::{Device, File};
use super::error::{Errno, IoError};
use super::fork::ForkGuard;
use super::memory_file::{Change, MemoryFile};
use super::memory_files::MemoryFiles;
use super::memory_op::{Fault, MemoryOp, check_memory, grow_memory};
use super::op::Kind;
use super::waker::{Flag, Waker};
use crate::types::SplitMix64;

const NAME: &str = "sim";

/// What a power loss may tear a write into, in bytes.
const SECTOR_BYTES: usize = 512;

/// How the simulated disk behaves. Chances are from 0 (never) to 1 (always).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimOptions {
    /// Where all chance comes from.
    pub seed: u64,
    /// Polls an operation takes at most; it draws from 0 to this.
    pub max_delay_polls: u32,
    /// Chance that a read fails with `EIO`.
    pub read_failures: f64,
    /// Chance that a read ends early, as at the end of a file.
    pub short_reads: f64,
    /// Chance that a write fails with `EIO` or `ENOSPC`, leaving a part of it in the file.
    pub write_failures: f64,
    /// Chance that a sync fails with `EIO` and makes nothing durable.
    pub sync_failures: f64,
}

impl Default for SimOptions {
    /// Delays and reordering, no failures, seed 0.
    fn default() -> Self {
        Self {
            seed: 0,
            max_delay_polls: 8,
            read_failures: 0.0,
            short_reads: 0.0,
            write_failures: 0.0,
            sync_failures: 0.0,
        }
    }
}

/// A simulated disk. Files are found and loaded as by the memory backend.
pub struct Sim {
    options: SimOptions,
    files: MemoryFiles,
    queues: AtomicU64,
}

impl Sim {
    /// A disk that behaves like this.
    pub fn new(options: SimOptions) -> Self {
        Self { options, files: MemoryFiles::default(), queues: AtomicU64::new(0) }
    }

    /// The seed, to print where a test fails.
    pub fn seed(&self) -> u64 {
        self.options.seed
    }

    /// The disk after the power failed now and came back: of the changes that no sync covers,
    /// `seed` decides which are kept, dropped or torn between sectors of 512 bytes.
    ///
    /// This disk is left as it is, so that one run can be cut in many ways. Operations still
    /// in flight have not reached the disk.
    pub fn after_power_loss(&self, seed: u64) -> Self {
        let mut chance = Chance::new(self.options.seed ^ seed.rotate_left(32), u64::MAX);
        let after = Self::new(self.options);
        for (path, file) in self.files.sorted() {
            let (mut bytes, changes) = file.durable();
            for change in changes {
                survive(&change, &mut chance, &mut bytes);
            }
            after.files.insert(path, MemoryFile::journaled(bytes));
        }
        after
    }
}

fn survive(change: &Change, chance: &mut Chance, bytes: &mut Vec<u8>) {
    match (chance.below(3), change) {
        (0, _) => {}
        (1, Change::Write(offset, data)) => {
            let mut at = 0;
            while at < data.len() {
                let next = (offset + at + 1).next_multiple_of(SECTOR_BYTES) - offset;
                let next = next.min(data.len());
                if chance.below(2) == 0 {
                    Change::Write(offset + at, data[at..next].to_vec()).apply(bytes);
                }
                at = next;
            }
        }
        _ => change.apply(bytes),
    }
}

impl Backend for Sim {
    fn name(&self) -> &'static str {
        NAME
    }

    fn block_bytes(&self) -> usize {
        ALIGN
    }

    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<File, IoError> {
        Ok(File::from_memory(path, self.files.open(path, mode, true)?, mode.direct))
    }

    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError> {
        options.check()?;
        let stream = self.queues.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(SimQueue {
            options: self.options,
            chance: Chance::new(self.options.seed, stream),
            pool: BufferPool::new(options.buffers, options.buffer_bytes)?,
            depth: options.depth,
            noted: VecDeque::with_capacity(options.depth),
            started: Vec::with_capacity(options.depth),
            woken: Flag::default(),
            guard: ForkGuard::new()?,
        }))
    }
}

/// What goes wrong on this disk, from a seed.
struct Chance(SplitMix64);

impl Chance {
    fn new(seed: u64, stream: u64) -> Self {
        let start = SplitMix64::new(seed).next_u64().wrapping_add(stream);
        Self(SplitMix64::new(SplitMix64::new(start).next_u64()))
    }

    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 to `n` - 1.
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    fn happens(&mut self, probability: f64) -> bool {
        ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

/// An operation the disk works on.
struct Started {
    op: MemoryOp,
    fault: Option<Fault>,
    polls_left: u32,
}

struct SimQueue {
    options: SimOptions,
    chance: Chance,
    pool: BufferPool,
    depth: usize,
    noted: VecDeque<MemoryOp>,
    started: Vec<Started>,
    woken: Flag,
    guard: ForkGuard,
}

impl SimQueue {
    fn admit(&self) -> Result<(), IoError> {
        self.guard.check()?;
        if self.in_flight() >= self.depth {
            return Err(IoError::Full { depth: self.depth });
        }
        Ok(())
    }

    /// Draws what will go wrong with `op`.
    fn fault(&mut self, op: &MemoryOp) -> Option<Fault> {
        let SimOptions { read_failures, short_reads, write_failures, sync_failures, .. } =
            self.options;
        let eio = Errno(libc::EIO);
        let part = self.chance.below(op.bytes.max(1) as u64) as usize;
        match op.kind {
            Kind::Read if self.chance.happens(read_failures) => Some(Fault::Fail(eio)),
            Kind::Read if self.chance.happens(short_reads) => Some(Fault::Short(part)),
            Kind::Write if self.chance.happens(write_failures) => {
                let full = self.chance.below(2) == 0;
                let errno = if full { Errno(libc::ENOSPC) } else { eio };
                Some(Fault::Torn(part / SECTOR_BYTES * SECTOR_BYTES, errno))
            }
            Kind::Sync if self.chance.happens(sync_failures) => Some(Fault::Fail(eio)),
            _ => None,
        }
    }

    /// Carries out one operation that is due, if any, chosen by chance.
    fn finish_one(&mut self) -> Option<Completion> {
        let due = self.started.iter().filter(|s| s.polls_left == 0).count();
        let nth = self.chance.below(due.max(1) as u64) as usize;
        let index =
            (0..self.started.len()).filter(|&i| self.started[i].polls_left == 0).nth(nth)?;
        let Started { op, fault, .. } = self.started.swap_remove(index);
        Some(op.carry_out(&mut self.pool, fault))
    }
}

impl Queue for SimQueue {
    fn push_transfer(
        &mut self,
        transfer: Transfer,
        device: &Device,
        offset: u64,
        bytes: usize,
        buffer: BufferId,
        tag: u64,
    ) -> Result<(), IoError> {
        self.admit()?;
        check_memory(device, NAME)?;
        let place = device.locate(offset, bytes, ALIGN)?;
        let pool = &mut self.pool;
        let op = MemoryOp::transfer(pool, transfer, device, place, bytes, buffer, tag)?;
        self.noted.push_back(op);
        Ok(())
    }

    fn push_sync(&mut self, device: &Device, tag: u64) -> Result<(), IoError> {
        self.admit()?;
        check_memory(device, NAME)?;
        self.noted.push_back(MemoryOp::sync(device, tag));
        Ok(())
    }

    fn extend(&mut self, device: &Device, bytes: u64) -> Result<Device, IoError> {
        self.guard.check()?;
        device.extended(bytes, |file, offset, more| grow_memory(file, offset, more, NAME))
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.guard.check()?;
        while let Some(op) = self.noted.pop_front() {
            let polls = u64::from(self.options.max_delay_polls) + 1;
            let polls_left = self.chance.below(polls) as u32;
            let fault = self.fault(&op);
            self.started.push(Started { op, fault, polls_left });
        }
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.guard.check()?;
        while let Some(completion) = self.finish_one() {
            out.push(completion);
        }
        for started in &mut self.started {
            started.polls_left -= 1;
        }
        Ok(())
    }

    fn wait(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.flush()?;
        let before = out.len();
        while out.len() == before && !self.started.is_empty() && !self.woken.take() {
            self.poll(out)?;
        }
        Ok(())
    }

    fn waker(&mut self) -> Result<Waker, IoError> {
        Ok(self.woken.waker())
    }

    fn in_flight(&self) -> usize {
        self.noted.len() + self.started.len()
    }

    fn take_buffer(&mut self) -> Option<BufferId> {
        self.pool.take()
    }

    fn return_buffer(&mut self, buffer: BufferId) {
        self.pool.give_back(buffer);
    }

    fn buffer(&self, buffer: BufferId) -> &[u8] {
        self.pool.bytes(buffer)
    }

    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.pool.bytes_mut(buffer)
    }
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        if !self.guard.forked() {
            for Started { op, fault, .. } in self.started.drain(..) {
                op.carry_out(&mut self.pool, fault);
            }
        }
    }
}

#[cfg(test)]
#[path = "sim_tests.rs"]
mod tests;
