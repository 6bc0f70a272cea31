//! Reading blocks of codes: those that a search waits for, and runs of them for the stream.
//!
//! Blocks are claimed before they are read. Whatever becomes of the reads, none is left claimed:
//! when a load returns, each is there, or absent again and the reason told.

use std::iter::Peekable;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::codes::{ABSENT, PRESENT, StreamedCodes};
use crate::format::FileKind;
use crate::format::constants::{ALIGNMENT, BLOCK_BYTES};
use crate::io::{Completion, Device, IoError, Queue, QueueOptions, Wait};
use crate::search::{CodeAccess, CodesUnavailable, ReadFailure};

/// Reads in flight of a search that reads codes itself.
const DEPTH: usize = 64;
/// Longest of these reads, blocks.
const RUN: usize = 4;

/// Neighbouring blocks that are read together.
#[derive(Clone, Copy, PartialEq)]
struct BlockRun {
    first: usize,
    count: usize,
}

impl BlockRun {
    const fn tag(self) -> u64 {
        (self.first as u64) << 16 | self.count as u64
    }

    const fn of_tag(tag: u64) -> Self {
        Self { first: (tag >> 16) as usize, count: (tag & 0xFFFF) as usize }
    }

    const fn blocks(self) -> std::ops::Range<usize> {
        self.first..self.first + self.count
    }
}

impl StreamedCodes {
    /// A queue for `depth` reads of up to `blocks` blocks.
    pub(super) fn queue(
        &self,
        depth: usize,
        blocks: usize,
    ) -> Result<Box<dyn Queue>, CodesUnavailable> {
        let options = QueueOptions {
            depth,
            buffers: depth,
            buffer_bytes: blocks * BLOCK_BYTES,
            sqpoll: false,
            wait: Wait::Sleep,
        };
        self.backend.queue(&options).map_err(|e| unavailable(e.to_string(), &e))
    }

    /// Reads the blocks of `wanted`, each claimed when it is asked for, ascending, in runs of up
    /// to `most` neighbours; returns when there are no more and all have come.
    pub(super) fn load(
        &self,
        queue: &mut dyn Queue,
        wanted: impl Iterator<Item = usize>,
        most: usize,
    ) -> Result<(), CodesUnavailable> {
        let mut wanted = wanted.peekable();
        let mut completions = Vec::with_capacity(DEPTH);
        let mut under_way = Vec::with_capacity(DEPTH);
        let mut outcome = Ok(());
        loop {
            while wanted.peek().is_some()
                && let Some(buffer) = queue.take_buffer()
            {
                let run = self.next_run(&mut wanted, most);
                let (device, offset, length) = self.extent_of(run);
                if let Err(e) = queue.push_read(device, offset, length, buffer, run.tag()) {
                    queue.return_buffer(buffer);
                    outcome = Err(self.fail_run(run, &e));
                } else {
                    under_way.push(run);
                }
            }
            if under_way.is_empty() {
                return outcome;
            }
            completions.clear();
            if let Err(e) = queue.wait(&mut completions) {
                under_way.iter().for_each(|run| self.give_up(run.blocks()));
                wanted.for_each(|block| self.give_up(block..block + 1));
                return Err(unavailable(e.to_string(), &e));
            }
            for completion in &completions {
                let run = BlockRun::of_tag(completion.tag);
                under_way.retain(|other| *other != run);
                outcome = outcome.and(self.take_run(run, completion, queue));
            }
        }
    }

    fn next_run(
        &self,
        wanted: &mut Peekable<impl Iterator<Item = usize>>,
        most: usize,
    ) -> BlockRun {
        let first = wanted.next().expect("the caller has peeked");
        let file = self.place(first).file;
        let mut count = 1;
        while count < most
            && wanted.next_if(|b| *b == first + count && self.place(*b).file == file).is_some()
        {
            count += 1;
        }
        BlockRun { first, count }
    }

    /// Where a run stands on disk. The last block of a file may be shorter; the file is padded to
    /// whole sectors behind it.
    fn extent_of(&self, run: BlockRun) -> (&Device, u64, usize) {
        let place = self.place(run.first);
        let offset = FileKind::Codes.body_offset() + (place.number * BLOCK_BYTES) as u64;
        let last = self.place(run.first + run.count - 1).bytes;
        let length = ((run.count - 1) * BLOCK_BYTES + last).next_multiple_of(ALIGNMENT);
        (&self.files[place.file].device, offset, length)
    }

    /// Publishes what a finished read has brought.
    fn take_run(
        &self,
        run: BlockRun,
        completion: &Completion,
        queue: &mut dyn Queue,
    ) -> Result<(), CodesUnavailable> {
        let mut outcome = Ok(());
        match &completion.result {
            Ok(_) => {
                let bytes = queue.buffer(completion.buffer);
                for (block, bytes) in run.blocks().zip(bytes.chunks(BLOCK_BYTES)) {
                    outcome = outcome.and(self.publish(block, bytes));
                }
            }
            Err(e) => outcome = Err(self.fail_run(run, e)),
        }
        queue.return_buffer(completion.buffer);
        outcome
    }

    fn fail_run(&self, run: BlockRun, error: &IoError) -> CodesUnavailable {
        self.give_up(run.blocks());
        let path = self.files[self.place(run.first).file].path.display();
        unavailable(format!("{path}: {error}"), error)
    }

    /// Reads what is missing of the codes of `nodes`, and waits for what others are reading.
    pub(super) fn load_missing(&self, nodes: &[u32]) -> Result<(), CodesUnavailable> {
        let mut blocks: Vec<usize> = nodes.iter().flat_map(|&n| self.blocks_of(n)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        loop {
            blocks.retain(|&b| self.states[b].load(Ordering::Acquire) != PRESENT);
            let claimed: Vec<usize> = blocks.iter().copied().filter(|&b| self.claim(b)).collect();
            if blocks.is_empty() {
                return Ok(());
            }
            if claimed.is_empty() {
                std::thread::yield_now();
            } else {
                self.load_claimed(claimed)?;
            }
        }
    }

    fn load_claimed(&self, claimed: Vec<usize>) -> Result<(), CodesUnavailable> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let made = idle().pop();
        let mut queue = match made.map_or_else(|| self.queue(DEPTH, RUN), Ok) {
            Ok(queue) => queue,
            Err(e) => {
                claimed.iter().for_each(|&block| self.give_up(block..block + 1));
                return Err(e);
            }
        };
        let outcome = self.load(queue.as_mut(), claimed.into_iter(), RUN);
        // A queue that broke has reads that nobody took.
        if queue.in_flight() == 0 && !self.is_resident() {
            idle().push(queue);
        }
        outcome
    }

    fn give_up(&self, blocks: std::ops::Range<usize>) {
        blocks.for_each(|block| self.states[block].store(ABSENT, Ordering::Release));
    }
}

fn unavailable(why: String, error: &IoError) -> CodesUnavailable {
    CodesUnavailable(ReadFailure { why, fault: error.fault() })
}
