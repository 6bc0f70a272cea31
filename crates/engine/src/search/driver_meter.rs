//! What one driver measures of its device and of its own time.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::load::{CountedThread, UnderWay};
use super::pace::{Lap, UNDECIDED};
use super::stats::SearchStats;

/// Processors that this process may use.
static PROCESSORS: LazyLock<u32> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32));

/// Reads and searches that are remembered, roughly: of older ones the part is forgotten.
const READS: f32 = 512.0;
const SEARCHES: f32 = 16.0;
/// Reads of one window, and windows that are remembered.
const WINDOW: u32 = 64;
const WINDOWS: f32 = 16.0;
/// Reads, or windows, from which a slope is told.
const FEW: f32 = 32.0;
const FEW_WINDOWS: f32 = 4.0;
/// Variance of the logarithm of the reads in flight from which a slope is told.
const SPREAD: f32 = 1e-3;
const SPREAD_OF_WINDOWS: f32 = 4e-3;

/// See the module's description. Tags are those of the driver's reads.
#[derive(Debug)]
pub(super) struct Meter {
    /// By tag: when a read was started, and the reads in flight then; none where it was not counted.
    reads: Vec<(Instant, u32)>,
    /// Tags of reads that were pushed and not yet started.
    pushed: Vec<u32>,
    depths: Depths,
    windows: Windows,
    naps: Naps,
    joined: Option<CountedThread>,
}

impl Meter {
    /// For a driver with so many reads in flight at most.
    pub(super) fn new(depth: usize) -> Self {
        Self {
            reads: vec![(Instant::now(), 0); depth],
            pushed: Vec::with_capacity(depth),
            depths: Depths::of_reads(),
            windows: Windows::default(),
            naps: Naps::new(),
            joined: None,
        }
    }

    /// The driver runs from now on.
    pub(super) fn begin(&mut self) {
        self.naps.resume();
    }

    /// Counts the thread among those that search, from the first search on.
    pub(super) fn join(&mut self, under_way: Option<&UnderWay>) {
        if let (None, Some(under_way)) = (&self.joined, under_way) {
            self.joined = Some(under_way.load().join());
        }
    }

    /// The driver has nothing more to do.
    pub(super) fn leave(&mut self) {
        self.joined = None;
    }

    /// A read was pushed.
    pub(super) fn pushed(&mut self, tag: u32) {
        self.reads[tag as usize].1 = 0;
        self.pushed.push(tag);
    }

    /// What was pushed goes to the device now.
    pub(super) fn started(&mut self) {
        if self.pushed.is_empty() {
            return;
        }
        let Some(joined) = &mut self.joined else { return self.pushed.clear() };
        let before = joined.started(self.pushed.len() as u32);
        let now = Instant::now();
        for (i, tag) in self.pushed.drain(..).enumerate() {
            self.reads[tag as usize] = (now, before + i as u32 + 1);
        }
    }

    /// The driver slept.
    pub(super) fn slept(&mut self, time: Duration) {
        self.naps.slept(time);
    }

    /// Reads were found to have ended.
    pub(super) fn finished(&mut self, tags: impl Iterator<Item = u32>) {
        let now = Instant::now();
        let mut counted = 0;
        for tag in tags {
            let (since, among) = self.reads[tag as usize];
            if among > 0 {
                let took = now.saturating_duration_since(since);
                let (depth, time) = logs(among, took.as_nanos() as u64);
                self.depths.note(depth, time);
                self.windows.note(depth, time);
                counted += 1;
            }
        }
        if let Some(joined) = &mut self.joined {
            joined.ended(counted);
        }
    }

    /// A search ended that began among so many; hands on what was measured.
    pub(super) fn ended(&mut self, stats: &SearchStats, searches: u32) {
        let Some(joined) = &self.joined else { return };
        let pages = stats.reads + stats.resident_pages;
        let (slept, awake_ns) = self.naps.share(Instant::now(), pages);
        // One that is alone may look out for its reads while it is awake.
        let alone_ns = (stats.compute_ns / pages.max(1)) as f32;
        let page_ns = if searches > 1 { awake_ns } else { alone_ns };
        joined.note(Lap {
            searches,
            slept,
            threads: 0,
            processors: *PROCESSORS,
            crowding: match self.depths.slope() {
                reads if searches > 1 => self.windows.cautious(reads, UNDECIDED),
                reads => reads,
            },
            pages_per_read: self.depths.read_ns().map(|read_ns| read_ns / page_ns.max(1.0)),
            in_flight: self.depths.in_flight(),
        });
    }
}

/// Logarithms of the reads in flight when one started, itself among them, and of its time.
fn logs(in_flight: u32, ns: u64) -> (f32, f32) {
    ((in_flight.max(1) as f32).ln(), (ns.max(1) as f32).ln())
}

/// How the time of reads grows with the reads in flight, where many searches keep those about even.
///
/// From read to read they waver by what has just ended, which the time of a read hardly follows: it
/// depends as much on what comes after it. So means of many reads in a row are compared, which differ
/// as widths do.
#[derive(Debug)]
struct Windows {
    reads: u32,
    depth: f32,
    time: f32,
    means: Depths,
    /// The slope when means last differed enough for one.
    known: Option<f32>,
}

impl Default for Windows {
    fn default() -> Self {
        let means = Depths::new(WINDOWS, FEW_WINDOWS, SPREAD_OF_WINDOWS);
        Self { reads: 0, depth: 0.0, time: 0.0, means, known: None }
    }
}

impl Windows {
    fn note(&mut self, depth: f32, time: f32) {
        self.reads += 1;
        self.depth += depth;
        self.time += time;
        if self.reads == WINDOW {
            let reads = WINDOW as f32;
            self.means.note(self.depth / reads, self.time / reads);
            (self.reads, self.depth, self.time) = (0, 0.0, 0.0);
            self.known = self.means.differ().then(|| self.means.slope()).flatten().or(self.known);
        }
    }

    /// Of two slopes, this and that of reads, the one that says less; what is between `bounds` says
    /// nothing, nor do two that disagree.
    fn cautious(&self, reads: Option<f32>, (least, most): (f32, f32)) -> Option<f32> {
        let (Some(reads), Some(windows)) = (reads, self.known) else { return reads };
        let middle = (least + most) / 2.0;
        let (low, high) = (reads.min(windows), reads.max(windows));
        Some(middle.clamp(low, high))
    }
}

/// Sums over reads of one driver, or over windows of them, older ones less and less.
#[derive(Debug)]
struct Depths {
    keep: f32,
    few: f32,
    spread: f32,
    n: f32,
    x: f32,
    y: f32,
    xx: f32,
    xy: f32,
}

impl Depths {
    /// Nothing yet, of which about `most` are to be remembered; a slope is told from a `few`, which
    /// differ by the variance `spread`.
    const fn new(most: f32, few: f32, spread: f32) -> Self {
        Self { keep: 1.0 - 1.0 / most, few, spread, n: 0.0, x: 0.0, y: 0.0, xx: 0.0, xy: 0.0 }
    }

    const fn of_reads() -> Self {
        Self::new(READS, FEW, SPREAD)
    }

    /// Logarithms of the reads in flight and of the time of one.
    fn note(&mut self, depth: f32, time: f32) {
        // Means are moved instead of sums kept: differences of great sums are noise.
        self.n = self.n * self.keep + 1.0;
        let part = 1.0 / self.n;
        let (dx, dy) = (depth - self.x, time - self.y);
        self.x += dx * part;
        self.y += dy * part;
        self.xx = (1.0 - part) * (self.xx + part * dx * dx);
        self.xy = (1.0 - part) * (self.xy + part * dx * dy);
    }

    fn differ(&self) -> bool {
        self.xx > self.spread
    }

    /// How the time of a read grows with the reads in flight, as a power of them; zero where as
    /// many were in flight all the time, since nothing speaks against more of them then.
    fn slope(&self) -> Option<f32> {
        let slope = if self.differ() { (self.xy / self.xx).clamp(-1.0, 2.0) } else { 0.0 };
        (self.n >= self.few).then_some(slope)
    }

    /// Reads in flight when one was started, itself among them, in the mean (of logarithms).
    fn in_flight(&self) -> f32 {
        self.x.exp()
    }

    /// Time that a read takes in the mean (of logarithms), nanoseconds.
    fn read_ns(&self) -> Option<f32> {
        (self.n >= 1.0).then(|| self.y.exp())
    }
}

/// The share of a driver's time in which it sleeps.
#[derive(Debug)]
struct Naps {
    since: Instant,
    slept: Duration,
    slept_s: f32,
    passed_s: f32,
    pages: f32,
}

impl Naps {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            slept: Duration::ZERO,
            slept_s: 0.0,
            passed_s: 0.0,
            pages: 0.0,
        }
    }

    /// What passed before is of no account.
    fn resume(&mut self) {
        (self.since, self.slept) = (Instant::now(), Duration::ZERO);
    }

    fn slept(&mut self, time: Duration) {
        self.slept += time;
    }

    /// The share of late, and how long the driver was awake for a page, nanoseconds; told when a
    /// search ends that took so many pages.
    fn share(&mut self, now: Instant, pages: u64) -> (f32, f32) {
        let keep = 1.0 - 1.0 / SEARCHES;
        let passed = now.saturating_duration_since(self.since);
        self.slept_s = self.slept_s * keep + self.slept.as_secs_f32();
        self.passed_s = self.passed_s * keep + passed.as_secs_f32();
        self.pages = self.pages * keep + pages as f32;
        (self.since, self.slept) = (now, Duration::ZERO);
        let slept = (self.slept_s / self.passed_s.max(f32::MIN_POSITIVE)).min(1.0);
        (slept, (self.passed_s - self.slept_s).max(0.0) * 1e9 / self.pages.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slope(reads: impl Iterator<Item = (u32, u64)>) -> Option<f32> {
        let mut depths = Depths::of_reads();
        reads.map(|(in_flight, ns)| logs(in_flight, ns)).for_each(|(x, y)| depths.note(x, y));
        depths.slope()
    }

    #[test]
    fn a_line_before_the_device_is_told_from_a_device_with_room() {
        let of = |ns: fn(u32) -> u64| slope((0..600).map(|i| 20 + i % 13).map(|n| (n, ns(n))));
        assert!(of(|_| 100_000).unwrap().abs() < 0.01);
        assert!((of(|n| u64::from(n) * 50_000).unwrap() - 1.0).abs() < 0.01);
        // Half as much time for every fourfold depth.
        let root = of(|n| (f64::from(n).sqrt() * 50_000.0) as u64).unwrap();
        assert!((root - 0.5).abs() < 0.01, "{root}");
    }

    #[test]
    fn few_reads_tell_nothing_and_an_even_depth_allows_more() {
        assert_eq!(slope((1..20).map(|n| (n, u64::from(n)))), None);
        assert_eq!(slope((0..100).map(|i| (7, 1000 + i))), Some(0.0));
    }

    /// What windows and reads say together where a step of the width doubles the reads in flight now
    /// and then, each read follows its own depth as a power `own`, and all follow the mean depth as
    /// a power `mean`.
    fn both(own: f32, mean: f32) -> f32 {
        let (mut reads, mut windows) = (Depths::of_reads(), Windows::default());
        for read in 0..8 * 64 * 16_u32 {
            let level = if read / 1024 % 2 == 0 { 32.0_f32 } else { 64.0 };
            let wavers = 1.0 + (read % 13) as f32 / 13.0;
            let (depth, time) = ((level * wavers).ln(), own * wavers.ln() + mean * level.ln());
            reads.note(depth, time);
            windows.note(depth, time);
        }
        windows.cautious(reads.slope(), UNDECIDED).unwrap()
    }

    #[test]
    fn reads_and_windows_have_to_agree() {
        assert!(both(1.0, 1.0) > 0.9);
        assert!(both(0.0, 0.0).abs() < 0.1);
        // A queue that reads do not see, since others overtake them; and one that is none.
        let undecided = UNDECIDED.0..UNDECIDED.1;
        assert!(undecided.contains(&both(0.0, 1.0)) && undecided.contains(&both(1.0, 0.0)));
        let few = Windows::default();
        assert_eq!(
            (few.cautious(Some(0.9), UNDECIDED), few.cautious(None, UNDECIDED)),
            (Some(0.9), None)
        );
    }

    #[test]
    fn an_even_width_leaves_what_windows_told_before() {
        let mut windows = Windows::default();
        let told = |windows: &mut Windows, depth: f32, time: f32| {
            (0..64).for_each(|_| windows.note(depth, time));
            windows.known
        };
        for window in 0..20 {
            let depth = (window % 4) as f32;
            told(&mut windows, depth, depth);
        }
        let before = windows.known.unwrap();
        assert!(before > 0.9, "{before}");
        let after = (0..400).fold(None, |_, _| told(&mut windows, 1.0, 5.0));
        assert!(after.is_some());
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let line = (0..2000).map(|i| (1 + i % 16, u64::from(1 + i % 16) * 1000));
        let room = (0..4000).map(|i| (1 + i % 16, 9000));
        assert!(slope(line.chain(room)).unwrap().abs() < 0.1);
    }

    #[test]
    fn sleep_is_a_share_of_what_passed() {
        let mut naps = Naps::new();
        naps.since = Instant::now();
        naps.slept(Duration::from_millis(30));
        let (slept, awake_ns) = naps.share(naps.since + Duration::from_millis(40), 20);
        assert!((slept - 0.75).abs() < 1e-3, "{slept}");
        assert!((awake_ns - 500_000.0).abs() < 1e3, "{awake_ns}");
        // What passes between two runs does not count.
        naps.slept(Duration::from_secs(9));
        naps.resume();
        let (slept, _) = naps.share(naps.since, 0);
        assert!((slept - 0.75).abs() < 1e-3, "{slept}");
    }
}
