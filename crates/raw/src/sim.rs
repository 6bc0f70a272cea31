//! A device in memory with delays, faults and power cuts, all from one seed; and one that does
//! nothing at all, to measure what lies above it.
//!
//! What is written stands in a cache until a flush. A cut ends the device: of what was written since
//! the last flush each block is kept or lost by chance, so that a write may be torn.

#![expect(unsafe_code, reason = "commands carry pointers")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::{
    Command, CommandDone, CommandRefused, DeviceAction, Geometry, RawDevice, Status,
};

/// How a simulated device behaves.
#[derive(Clone, Debug)]
pub struct SimDevOptions {
    /// Bytes of the device.
    pub bytes: u64,
    /// Bytes of a block.
    pub lba_bytes: u32,
    /// Commands that it holds.
    pub depth: u32,
    /// The longest transfer.
    pub max_transfer_bytes: u32,
    /// Of all that is left to chance.
    pub seed: u64,
    /// Polls that a command takes at most.
    pub delay: u32,
    /// One submission in so many is refused as full; none where it is 0.
    pub full_every: u64,
}

impl Default for SimDevOptions {
    fn default() -> Self {
        Self {
            bytes: 8 << 20,
            lba_bytes: 512,
            depth: 32,
            max_transfer_bytes: 128 << 10,
            seed: 1,
            delay: 3,
            full_every: 0,
        }
    }
}

/// Writes and flushes until the power of all devices that share it fails. Clones share.
#[derive(Clone, Debug)]
pub struct Power(Arc<AtomicU64>);

impl Default for Power {
    /// It never fails.
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Power {
    /// It fails at the write or flush of this number, from 0.
    pub fn fails_at(number: u64) -> Self {
        Self(Arc::new(AtomicU64::new(number + 1)))
    }

    /// Whether there is power for one more. The one that it fails at may be done in part.
    fn draw(&self) -> bool {
        let next = |left: u64| left.checked_sub(1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok_and(|left| left > 1)
    }

    fn is_off(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }
}

struct SimPlatters {
    /// What a cut leaves.
    durable: Vec<u8>,
    /// What is read.
    written: Vec<u8>,
    /// Blocks that differ.
    cached: BTreeMap<u64, ()>,
    /// Blocks that fail, and how.
    bad: BTreeMap<u64, Status>,
    writes: u64,
    written_bytes: u64,
    reads: u64,
    gone: bool,
    /// Nothing ends, and so many commands have not.
    keeps: bool,
    kept: usize,
}

/// The content of a simulated device, which outlives it. Clones share.
#[derive(Clone)]
pub struct Platter {
    disk: Arc<Mutex<SimPlatters>>,
    options: SimDevOptions,
}

impl Platter {
    /// A blank one.
    pub fn new(options: SimDevOptions) -> Self {
        let blank = vec![0; options.bytes as usize];
        let disk = SimPlatters {
            durable: blank.clone(),
            written: blank,
            cached: BTreeMap::new(),
            bad: BTreeMap::new(),
            writes: 0,
            written_bytes: 0,
            reads: 0,
            gone: false,
            keeps: false,
            kept: 0,
        };
        Self { disk: Arc::new(Mutex::new(disk)), options }
    }

    fn lock(&self) -> MutexGuard<'_, SimPlatters> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device over it.
    pub fn device(&self, name: &str, power: &Power) -> SimDev {
        SimDev {
            name: name.to_owned(),
            platter: self.clone(),
            power: power.clone(),
            random: self.options.seed,
            under_way: Vec::new(),
            submitted: 0,
        }
    }

    /// Commands on this block fail so.
    pub fn break_block(&self, offset: u64, status: Status) {
        let block = offset / u64::from(self.options.lba_bytes);
        self.lock().bad.insert(block, status);
    }

    /// The device is pulled out.
    pub fn pull_out(&self) {
        self.lock().gone = true;
    }

    /// From now on it takes commands and ends none, as a controller that hangs or has failed.
    pub fn keep_all(&self) {
        self.lock().keeps = true;
    }

    /// Commands that it keeps so.
    pub fn kept(&self) -> usize {
        self.lock().kept
    }

    /// Writes so far, and their bytes.
    pub fn writes(&self) -> (u64, u64) {
        let disk = self.lock();
        (disk.writes, disk.written_bytes)
    }

    /// Reads so far.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// What is on it now, cached or not.
    pub fn content(&self) -> Vec<u8> {
        self.lock().written.clone()
    }

    /// Puts bytes there, as another program would.
    pub fn scribble(&self, offset: u64, bytes: &[u8]) {
        let mut disk = self.lock();
        let range = offset as usize..offset as usize + bytes.len();
        disk.written[range.clone()].copy_from_slice(bytes);
        disk.durable[range].copy_from_slice(bytes);
    }

    /// What a power cut now leaves: of the cache each block by chance.
    pub fn after_cut(&self, seed: u64) -> Self {
        let after = Self::new(self.options.clone());
        let (disk, mut random) = (self.lock(), seed);
        let mut durable = disk.durable.clone();
        let lba = self.options.lba_bytes as usize;
        for block in disk.cached.keys() {
            if next(&mut random) & 1 == 1 {
                let range = *block as usize * lba..(*block as usize + 1) * lba;
                durable[range.clone()].copy_from_slice(&disk.written[range]);
            }
        }
        drop(disk);
        after.scribble(0, &durable);
        after
    }
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// See the module's description.
pub struct SimDev {
    name: String,
    platter: Platter,
    power: Power,
    random: u64,
    /// Polls left, and the command.
    under_way: Vec<(u32, Command)>,
    submitted: u64,
}

impl SimDev {
    fn carry_out(&self, command: &Command) -> Result<(), Status> {
        let lba = u64::from(self.platter.options.lba_bytes);
        let mut disk = self.platter.lock();
        if disk.gone || self.power.is_off() {
            return Err(Status::Gone);
        }
        if command.action == DeviceAction::Flush {
            if !self.power.draw() {
                return Err(Status::Gone);
            }
            let SimPlatters { durable, written, cached, .. } = &mut *disk;
            durable.copy_from_slice(written);
            cached.clear();
            return Ok(());
        }
        let end = command.offset + u64::from(command.bytes);
        if !command.offset.is_multiple_of(lba)
            || !end.is_multiple_of(lba)
            || end > self.platter.options.bytes
        {
            return Err(Status::Nvme { kind: 0, code: 0x80 });
        }
        let blocks = command.offset / lba..end / lba;
        if let Some((_, status)) = disk.bad.range(blocks.clone()).next() {
            return Err(*status);
        }
        let range = command.offset as usize..end as usize;
        let bytes = command.bytes as usize;
        if command.action == DeviceAction::Read {
            disk.reads += 1;
            // SAFETY: `submit` says that this memory is lent to the command.
            let memory = unsafe { std::slice::from_raw_parts_mut(command.memory, bytes) };
            memory.copy_from_slice(&disk.written[range]);
            return Ok(());
        }
        let whole = self.power.draw();
        // SAFETY: as above.
        let memory = unsafe { std::slice::from_raw_parts(command.memory, bytes) };
        disk.written[range].copy_from_slice(memory);
        disk.cached.extend(blocks.map(|block| (block, ())));
        disk.writes += 1;
        disk.written_bytes += bytes as u64;
        if whole { Ok(()) } else { Err(Status::Gone) }
    }

    fn take(&mut self, command: Command) -> Result<(), CommandRefused> {
        let options = &self.platter.options;
        self.submitted += 1;
        let unlucky = options.full_every > 0 && self.submitted.is_multiple_of(options.full_every);
        if unlucky || self.under_way.len() >= options.depth as usize {
            return Err(CommandRefused::Full);
        }
        let delay = options.delay;
        let polls = (next(&mut self.random) % u64::from(delay + 1)) as u32;
        self.under_way.push((polls, command));
        Ok(())
    }
}

// SAFETY: the pointers of commands are lent to the device, whichever thread it is on.
unsafe impl Send for SimDev {}

impl RawDevice for SimDev {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> Geometry {
        let SimDevOptions { bytes, lba_bytes, depth, max_transfer_bytes, .. } =
            self.platter.options;
        Geometry { lba_bytes, bytes, max_transfer_bytes, depth }
    }

    unsafe fn submit(&mut self, command: &Command) -> Result<(), CommandRefused> {
        self.take(*command)
    }

    fn flush(&mut self, tag: u64) -> Result<(), CommandRefused> {
        let memory = std::ptr::null_mut();
        self.take(Command { action: DeviceAction::Flush, offset: 0, bytes: 0, memory, tag })
    }

    fn poll(&mut self, done: &mut Vec<CommandDone>) {
        {
            let mut disk = self.platter.lock();
            if disk.keeps {
                disk.kept = self.under_way.len();
                return;
            }
        }
        let mut at = 0;
        while at < self.under_way.len() {
            let (polls, command) = &mut self.under_way[at];
            if *polls > 0 {
                *polls -= 1;
                at += 1;
                continue;
            }
            let command = *command;
            self.under_way.swap_remove(at);
            done.push(CommandDone { tag: command.tag, result: self.carry_out(&command) });
        }
    }

    fn keep_alive(&mut self) -> Result<(), Status> {
        if self.platter.lock().gone { Err(Status::Gone) } else { Ok(()) }
    }

    fn needs_keep_alive(&self) -> bool {
        true
    }
}

/// A device that ends each command at the next poll and touches nothing.
#[derive(Debug, Default)]
pub struct NullDev {
    done: Vec<CommandDone>,
}

impl RawDevice for NullDev {
    fn name(&self) -> &str {
        "null"
    }

    fn geometry(&self) -> Geometry {
        Geometry { lba_bytes: 512, bytes: 1 << 40, max_transfer_bytes: 1 << 20, depth: 1 << 16 }
    }

    unsafe fn submit(&mut self, command: &Command) -> Result<(), CommandRefused> {
        self.done.push(CommandDone { tag: command.tag, result: Ok(()) });
        Ok(())
    }

    fn flush(&mut self, tag: u64) -> Result<(), CommandRefused> {
        self.done.push(CommandDone { tag, result: Ok(()) });
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<CommandDone>) {
        done.append(&mut self.done);
    }
}
