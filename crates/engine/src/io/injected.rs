//! Files in memory behind a device whose speed is given: each operation ends a latency after it was
//! started, and not more of them start in a second than a rate allows. For measurements of how a
//! search copes with devices that the machine at hand lacks; of no use to anyone else.
//!
//! Opening a file loads all of it, which no accountant counts. The device is a queue with one
//! server: an operation waits until the one before it was begun and the gap of the rate has
//! passed, and then takes the latency, whatever else is under way. All queues of a backend share
//! it. Without a rate nobody waits.
//!
//! A thread that waits sleeps by the timer of the system and computes nothing, as it would for an
//! interrupt; it asks the kernel for timers without slack. How late it wakes up nevertheless is
//! the machine's (some 5 us on idle hardware, tens on a virtual machine), and is part of the
//! latency that a search sees. What a driver of a real device computes for a read is missing, and a
//! copy of the page stands in its place.
//!
//! Operations of one queue end in the order in which they were started. What an operation does to
//! a file or buffer happens when its completion is taken.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "timers without slack"))]

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::backend::{Backend, Completion, OpenMode, Queue, QueueOptions, Transfer, Wait};
use super::buffer::{BufferId, BufferPool};
use super::device::{Device, File};
use super::error::IoError;
use super::fork::ForkGuard;
use super::memory_files::MemoryFiles;
use super::memory_op::{MemoryOp, check_memory, grow_memory};
use super::waker::Waker;

const NAME: &str = "injected";

/// How fast a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// From the beginning of an operation to its end, microseconds.
    pub latency_us: u32,
    /// Operations begun in a second at most.
    pub per_second: Option<u32>,
}

impl Speed {
    /// Longest latency that can be asked for.
    pub const LATENCY_US_MAX: u32 = 1_000_000;

    /// Between the beginnings of two operations, nanoseconds.
    fn gap_ns(self) -> u64 {
        self.per_second.map_or(0, |rate| 1_000_000_000 / u64::from(rate.max(1)))
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.latency_us)?;
        self.per_second.map_or(Ok(()), |rate| write!(f, ":{rate}"))
    }
}

/// Reads `LATENCY_US` or `LATENCY_US:RATE`.
impl FromStr for Speed {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        let (latency, rate) = s.split_once(':').map_or((s, None), |(l, r)| (l, Some(r)));
        let latency_us = latency.parse().map_err(|_| ())?;
        let per_second = rate.map(|r| r.parse().ok().filter(|&r| r > 0).ok_or(())).transpose()?;
        (latency_us <= Self::LATENCY_US_MAX).then_some(Self { latency_us, per_second }).ok_or(())
    }
}

/// When the device begins what it is given, in nanoseconds since it was made.
struct Line {
    gap_ns: u64,
    latency_ns: u64,
    free_at: AtomicU64,
}

impl Line {
    fn new(speed: Speed) -> Self {
        let latency_ns = u64::from(speed.latency_us) * 1000;
        Self { gap_ns: speed.gap_ns(), latency_ns, free_at: AtomicU64::new(0) }
    }

    /// When an operation ends that is started now.
    fn due(&self, now_ns: u64) -> u64 {
        if self.gap_ns == 0 {
            return now_ns + self.latency_ns;
        }
        let later = |free: u64| free.max(now_ns) + self.gap_ns;
        let free =
            self.free_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |f| Some(later(f)));
        free.unwrap_or_else(|free| free).max(now_ns) + self.latency_ns
    }
}

/// See the module's description.
pub struct Injected {
    files: MemoryFiles,
    since: Instant,
    line: Arc<Line>,
}

impl Injected {
    /// A device of this speed, without files.
    pub fn new(speed: Speed) -> Self {
        let line = Arc::new(Line::new(speed));
        Self { files: MemoryFiles::default(), since: Instant::now(), line }
    }
}

impl Backend for Injected {
    fn name(&self) -> &'static str {
        NAME
    }

    fn block_bytes(&self) -> usize {
        1
    }

    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<File, IoError> {
        Ok(File::from_memory(path, self.files.open(path, mode, false)?, mode.direct))
    }

    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError> {
        options.check()?;
        Ok(Box::new(InjectedQueue {
            pool: BufferPool::new(options.buffers, options.buffer_bytes)?,
            depth: options.depth,
            noted: VecDeque::with_capacity(options.depth),
            started: VecDeque::with_capacity(options.depth),
            since: self.since,
            line: Arc::clone(&self.line),
            wait: options.wait,
            alarm: None,
            guard: ForkGuard::new()?,
        }))
    }
}

struct InjectedQueue {
    pool: BufferPool,
    depth: usize,
    noted: VecDeque<MemoryOp>,
    /// Operations by when they end, ascending.
    started: VecDeque<(u64, MemoryOp)>,
    since: Instant,
    line: Arc<Line>,
    wait: Wait,
    /// What ends a wait early, once somebody may want that.
    alarm: Option<Arc<Alarm>>,
    guard: ForkGuard,
}

#[derive(Default)]
struct Alarm {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Alarm {
    /// Waits so long, or until somebody rings or has rung; says whether it was that.
    fn wait(&self, time: Duration) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(rung, time, |rung| !*rung);
        std::mem::take(&mut *waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

impl InjectedQueue {
    fn now_ns(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }

    fn admit(&self) -> Result<(), IoError> {
        self.guard.check()?;
        if self.in_flight() >= self.depth {
            return Err(IoError::Full { depth: self.depth });
        }
        Ok(())
    }

    /// Sleeps until the device has ended what is due then, or somebody wakes it.
    fn sleep_until(&self, due_ns: u64) {
        loop {
            let left = Duration::from_nanos(due_ns.saturating_sub(self.now_ns()));
            match (&self.alarm, self.wait) {
                _ if left.is_zero() => return,
                (alarm, Wait::Spin) => {
                    if alarm.as_ref().is_some_and(|alarm| alarm.wait(Duration::ZERO)) {
                        return;
                    }
                    std::hint::spin_loop();
                }
                (None, Wait::Sleep) => nap(left),
                (Some(alarm), Wait::Sleep) => {
                    make_punctual();
                    if alarm.wait(left) {
                        return;
                    }
                }
            }
        }
    }
}

/// Has the system wake this thread with as little delay as it can.
fn make_punctual() {
    #[cfg(target_os = "linux")]
    {
        thread_local! {
            // SAFETY: the call changes how late the timers of this thread may be, and no memory.
            static PUNCTUAL: i32 = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
        }
        // Where it is refused, timers are some 50 us late.
        PUNCTUAL.with(|_| ());
    }
}

/// Sleeps so long, and as little longer as the system can do.
fn nap(time: Duration) {
    make_punctual();
    #[expect(clippy::disallowed_methods, reason = "the device is a clock, not a simulation")]
    std::thread::sleep(time);
}

impl Queue for InjectedQueue {
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
        let place = device.locate(offset, bytes, 1)?;
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
        if !self.noted.is_empty() {
            let now = self.now_ns();
            while let Some(op) = self.noted.pop_front() {
                self.started.push_back((self.line.due(now), op));
            }
        }
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.guard.check()?;
        if self.started.is_empty() {
            return Ok(());
        }
        let now = self.now_ns();
        while self.started.front().is_some_and(|&(due, _)| due <= now) {
            let (_, op) = self.started.pop_front().expect("there is a first one");
            out.push(op.carry_out(&mut self.pool, None));
        }
        Ok(())
    }

    fn wait(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.wait_for(1, out)
    }

    fn wait_for(&mut self, least: usize, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.flush()?;
        let last = least.clamp(1, self.started.len().max(1)) - 1;
        if let Some(&(due, _)) = self.started.get(last) {
            self.sleep_until(due);
        }
        self.poll(out)
    }

    fn waker(&mut self) -> Result<Waker, IoError> {
        let alarm = Arc::clone(self.alarm.get_or_insert_default());
        Ok(Waker::new(move || alarm.ring()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_and_written() {
        let speed = |s: &str| s.parse::<Speed>();
        assert_eq!(speed("30"), Ok(Speed { latency_us: 30, per_second: None }));
        assert_eq!(speed("1000:20000"), Ok(Speed { latency_us: 1000, per_second: Some(20_000) }));
        for s in ["0", "30", "1000000:1"] {
            assert_eq!(speed(s).map(|s| s.to_string()), Ok(s.to_owned()));
        }
        for bad in ["", ":", "30:", "30:0", "-1", "1000001", "30:20000:1", "0.5"] {
            assert_eq!(speed(bad), Err(()), "{bad}");
        }
    }

    #[test]
    fn a_device_without_a_rate_takes_the_latency_and_one_with_a_rate_has_a_line() {
        let line = |rate| Line::new(Speed { latency_us: 100, per_second: rate });
        let (free, slow) = (line(None), line(Some(20_000)));
        assert_eq!([free.due(0), free.due(0), free.due(7)], [100_000, 100_000, 100_007]);
        // Three at once are begun 50 us apart; one that comes after a pause waits for nobody.
        assert_eq!([slow.due(0), slow.due(0), slow.due(0)], [100_000, 150_000, 200_000]);
        assert_eq!([slow.due(1_000_000), slow.due(1_010_000)], [1_100_000, 1_150_000]);
    }

    #[test]
    fn what_is_waited_for_has_had_its_time() {
        let speed = Speed { latency_us: 2_000, per_second: Some(1_000) };
        let injected = Injected::new(speed);
        let file = injected.open_file(Path::new("pages"), OpenMode::create()).unwrap();
        let mut queue = injected.queue(&QueueOptions::default()).unwrap();
        let device = queue.extend(&Device::whole(&file).unwrap(), 8192).unwrap();
        let (from, mut done) = (Instant::now(), Vec::new());
        for tag in 0..3 {
            let buffer = queue.take_buffer().unwrap();
            queue.push_read(&device, 4096, 4096, buffer, tag).unwrap();
        }
        queue.wait_for(3, &mut done).unwrap();
        assert!(from.elapsed() >= Duration::from_millis(4), "a latency and two gaps");
        assert_eq!(done.iter().map(|c| c.tag).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(queue.in_flight(), 0);
    }
}
