//! Which runs a flush writes once more.

/// Rows from which on a run is merged no more.
const SETTLED_ROWS: u64 = 1 << 21;

/// A run on disk, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunSize {
    pub(super) rows: u64,
    /// Those that live.
    pub(super) live: u64,
    pub(super) high: u32,
}

/// How many runs at the end of the list are merged with `new` rows, whose ids have the upper half
/// `high`: those that are no larger than what they are merged with. So each run is at least twice
/// as large as the next one, and a row is rewritten a logarithmic number of times.
pub(super) fn merged(runs: &[RunSize], new: u64, high: u32) -> usize {
    let (mut count, mut sum) = (0, new);
    for run in runs.iter().rev() {
        if run.live > sum || run.rows >= SETTLED_ROWS && !is_sparse(run) || run.high != high {
            break;
        }
        sum += run.live;
        count += 1;
    }
    count
}

/// Whether a run is worth writing again for its own sake: most of its rows are gone.
pub(super) fn is_sparse(run: &RunSize) -> bool {
    run.live * 2 < run.rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(rows: u64) -> RunSize {
        RunSize { rows, live: rows, high: 0 }
    }

    #[test]
    fn flushes_of_one_size_leave_few_runs_and_rewrite_little() {
        let (mut runs, mut written) = (Vec::new(), 0);
        for flush in 1..=1000 {
            let at = runs.len() - merged(&runs, 10, 0);
            let rows = runs.drain(at..).map(|run: RunSize| run.rows).sum::<u64>() + 10;
            runs.push(full(rows));
            written += rows;
            assert!(runs.len() <= 10, "{runs:?}");
            assert_eq!(runs.iter().map(|run| run.rows).sum::<u64>(), flush * 10);
        }
        assert!(written < 10 * 1000 * 11, "each row is written at most 11 times: {written}");
    }

    #[test]
    fn settled_and_foreign_runs_are_left_alone() {
        assert_eq!(merged(&[full(SETTLED_ROWS)], SETTLED_ROWS * 2, 0), 0);
        assert_eq!(merged(&[full(5)], 10, 1), 0);
        assert_eq!(merged(&[full(5)], 10, 0), 1);
        assert!(is_sparse(&RunSize { rows: 10, live: 4, high: 0 }) && !is_sparse(&full(10)));
    }
}
