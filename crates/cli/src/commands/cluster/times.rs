//! Times of queries that were asked: how late they began, and how they are spread.

use std::time::Duration;

/// Beyond this a query is late.
const LATE: Duration = Duration::from_millis(1);

/// Queries that began later than they were due, since none of those under way had ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LateBegins {
    /// Those that were late by more than a millisecond.
    pub(super) queries: usize,
    /// How late all were, on the mean.
    pub(super) mean_us: f64,
}

impl LateBegins {
    pub(super) fn of(late: impl ExactSizeIterator<Item = Duration>) -> Self {
        let of = late.len().max(1) as f64;
        let (mut queries, mut sum) = (0, 0.0);
        for late in late {
            queries += usize::from(late > LATE);
            sum += late.as_secs_f64() * 1e6;
        }
        Self { queries, mean_us: sum / of }
    }
}

/// The time that so many quarters of all times, which are sorted, are not above, microseconds.
pub(super) fn part_us(times_ns: &[u64], quarters: usize) -> f64 {
    let at = (times_ns.len() * quarters / 4).min(times_ns.len().saturating_sub(1));
    times_ns.get(at).map_or(0.0, |&ns| ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_what_begins_more_than_a_millisecond_after_it_was_due() {
        let late = [0, 1, 3, 8].map(Duration::from_millis);
        assert_eq!(LateBegins::of(late.into_iter()), LateBegins { queries: 2, mean_us: 3000.0 });
        assert_eq!(LateBegins::of([].into_iter()), LateBegins::default());
    }

    #[test]
    fn quarters_are_of_sorted_times() {
        let times = [1000, 2000, 3000, 4000];
        assert_eq!([1, 3].map(|quarters| part_us(&times, quarters)), [2.0, 4.0]);
        assert_eq!(part_us(&[], 1), 0.0);
    }
}
