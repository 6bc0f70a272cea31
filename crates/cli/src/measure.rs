//! Figures: CPU time and peak memory of this process, percentiles, and interpolation at a recall.

use std::time::Duration;

/// CPU time of this process so far, all threads, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// In user space.
    pub user_us: f64,
    /// In the kernel on behalf of the process.
    pub sys_us: f64,
}

impl CpuTime {
    /// What was used up to now.
    #[expect(unsafe_code, reason = "getrusage fills a struct that the caller provides")]
    pub fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` is a writable rusage, and RUSAGE_SELF is a valid target.
        let failed = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0;
        assert!(!failed, "getrusage of the own process does not fail");
        // SAFETY: it was zeroed, which is a valid rusage, and then filled by the call.
        let usage = unsafe { usage.assume_init() };
        let us = |t: libc::timeval| t.tv_sec as f64 * 1e6 + t.tv_usec as f64;
        Self { user_us: us(usage.ru_utime), sys_us: us(usage.ru_stime) }
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self { user_us: self.user_us - earlier.user_us, sys_us: self.sys_us - earlier.sys_us }
    }

    /// User and kernel together, microseconds.
    pub fn total_us(self) -> f64 {
        self.user_us + self.sys_us
    }
}

/// The most memory that this process had resident (VmHWM), bytes; `None` where the kernel does
/// not say.
pub fn peak_rss_bytes() -> Option<u64> {
    high_water_mark(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The memory that this process has resident now and that is no file's (RssAnon), bytes.
pub fn anonymous_bytes() -> Option<u64> {
    number_of("RssAnon:", &std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The bytes that this process has had read from storage so far, the page cache left out; `None`
/// where the kernel does not say.
pub fn storage_read_bytes() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|l| l.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

fn high_water_mark(status: &str) -> Option<u64> {
    number_of("VmHWM:", status)
}

fn number_of(name: &str, status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Mean and percentiles of times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Mean, microseconds.
    pub mean_us: f64,
    /// Median, microseconds.
    pub p50_us: f64,
    /// 99th percentile, microseconds.
    pub p99_us: f64,
}

impl Latency {
    /// The figures of `times_ns` (nanoseconds), which are sorted by this.
    pub fn of(times_ns: &mut [u64]) -> Self {
        if times_ns.is_empty() {
            return Self::default();
        }
        times_ns.sort_unstable();
        let sum: u128 = times_ns.iter().map(|&t| u128::from(t)).sum();
        Self {
            mean_us: sum as f64 / times_ns.len() as f64 / 1e3,
            p50_us: percentile(times_ns, 0.50) as f64 / 1e3,
            p99_us: percentile(times_ns, 0.99) as f64 / 1e3,
        }
    }
}

/// The smallest value that at least `share` of all are not above (nearest rank).
fn percentile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// The index of the run with the median value; of two middle ones the lower.
pub fn median_index(values: &[f64]) -> usize {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    order[(order.len() - 1) / 2]
}

/// The value at `recall` on the line through measured (recall, value) points, which need not be
/// sorted; `None` outside of what was measured.
///
/// Where recall does not grow from one point to the next, the first of them counts, which is
/// the cheaper one when points come in the order of growing lists.
pub fn at_recall(points: &[(f64, f64)], recall: f64) -> Option<f64> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted.dedup_by(|later, earlier| later.0 == earlier.0);
    let above = sorted.iter().position(|p| p.0 >= recall)?;
    let (r1, v1) = sorted[above];
    if r1 == recall {
        return Some(v1);
    }
    let (r0, v0) = *sorted.get(above.checked_sub(1)?)?;
    Some(v0 + (v1 - v0) * (recall - r0) / (r1 - r0))
}

/// Seconds with three decimals, as they appear in JSON.
pub fn seconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64(), 3)
}

/// The most of some counts over their mean: 1 where all are equal.
pub(crate) fn most_over_mean(counts: &[u64]) -> f64 {
    let most = counts.iter().copied().max().unwrap_or_default() as f64;
    let mean = counts.iter().sum::<u64>() as f64 / counts.len().max(1) as f64;
    most / mean.max(f64::MIN_POSITIVE)
}

/// `value` to so many decimals, so that JSON stays readable.
pub fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut times: Vec<u64> = (1..=100).rev().map(|t| t * 1000).collect();
        let latency = Latency::of(&mut times);
        assert_eq!(latency, Latency { mean_us: 50.5, p50_us: 50.0, p99_us: 99.0 });
        assert_eq!(Latency::of(&mut [7000]).p99_us, 7.0);
        assert_eq!(Latency::of(&mut []), Latency::default());
    }

    #[test]
    fn interpolation_stays_within_what_was_measured() {
        let points = [(0.98, 40.0), (0.90, 20.0), (0.94, 30.0)];
        assert_eq!(at_recall(&points, 0.90), Some(20.0));
        assert!((at_recall(&points, 0.96).unwrap() - 35.0).abs() < 1e-9);
        assert_eq!(at_recall(&points, 0.99), None);
        assert_eq!(at_recall(&points, 0.89), None);
        assert_eq!(at_recall(&[], 0.5), None);
        assert_eq!(at_recall(&[(1.0, 3.0), (1.0, 9.0)], 1.0), Some(3.0));
    }

    #[test]
    fn the_median_is_one_of_the_runs() {
        assert_eq!(median_index(&[5.0, 1.0, 3.0]), 2);
        assert_eq!(median_index(&[5.0, 1.0]), 1);
        assert_eq!(median_index(&[5.0]), 0);
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        let before = CpuTime::now();
        let mut x = 1u64;
        while CpuTime::now().since(before).total_us() < 2000.0 {
            x = std::hint::black_box(x.wrapping_mul(31));
        }
        assert!(peak_rss_bytes().is_some_and(|b| b > 100_000));
        assert_eq!(high_water_mark("Name: x\nVmHWM:\t  12 kB\n"), Some(12 * 1024));
        assert_eq!(high_water_mark("Name: x\n"), None);
    }
}
