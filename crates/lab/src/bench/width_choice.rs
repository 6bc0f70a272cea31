//! The widths to take from a profile: rates by searches in flight and width, each of them wrong by
//! some percent, become one width for each number of searches.
//!
//! A rule that takes the narrowest width that is as fast as any, and lets no width grow with the
//! load, hands the error of one line to all that follow it. So what is known beforehand is put in
//! otherwise: widths next to each other do nearly the same, and so do loads. Each rate is averaged
//! with its neighbours both ways, and the highest of a line is taken.

/// Weight of what a width reads against its rate: where it reads a tenth more it has to be a
/// hundredth faster. Reads are counts without noise, so this decides between equals.
const READS_WEIGHT: f64 = 0.1;

/// What a width gives among so many searches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Taken {
    pub(super) qps: f64,
    pub(super) reads: f64,
}

/// The width for each of the lines, which have a value for each of the widths, ascending both.
/// `None` where there are no widths.
pub(super) fn best_widths(widths: &[u16], lines: &[Vec<Taken>]) -> Option<Vec<u16>> {
    let rates: Vec<Vec<f64>> = lines.iter().map(|line| relative(line)).collect();
    let by_width: Vec<Vec<f64>> = rates
        .iter()
        .map(|line| {
            (0..line.len()).map(|at| among_neighbours(at, line.len(), |i| line[i])).collect()
        })
        .collect();
    let pooled = |nth: usize, at: usize| among_neighbours(nth, lines.len(), |i| by_width[i][at]);
    let worth =
        |nth: usize, at: usize| pooled(nth, at) - READS_WEIGHT * lines[nth][at].reads.max(1.0).ln();
    let best = |nth: usize| {
        // Of equals the narrower one.
        (0..widths.len()).rev().max_by(|&a, &b| worth(nth, a).total_cmp(&worth(nth, b)))
    };
    (0..lines.len()).map(|nth| best(nth).map(|at| widths[at])).collect()
}

/// Logarithms of the rates, less their mean: lines of different loads have different rates, and
/// are alike in what a width changes.
fn relative(line: &[Taken]) -> Vec<f64> {
    let logs: Vec<f64> = line.iter().map(|taken| taken.qps.max(f64::MIN_POSITIVE).ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
    logs.iter().map(|log| log - mean).collect()
}

/// Half of a value and a quarter of each of those beside it; at an end its own counts for the
/// missing one.
fn among_neighbours(at: usize, count: usize, value: impl Fn(usize) -> f64) -> f64 {
    let (before, after) = (at.saturating_sub(1), (at + 1).min(count - 1));
    value(before) / 4.0 + value(at) / 2.0 + value(after) / 4.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: [u16; 8] = [1, 2, 3, 4, 6, 8, 16, 32];
    const READS: [f64; 8] = [18.5, 19.3, 20.2, 21.0, 21.3, 21.4, 21.5, 21.6];

    /// A million SIFT rows among 1, 2, 4, 8, 16 and 32 searches, one round of 1,000 queries each.
    const RECORDED: [[f64; 8]; 6] = [
        [635.7, 977.1, 1161.0, 1173.0, 1471.0, 1477.0, 1468.0, 1263.0],
        [881.7, 1241.0, 1669.0, 2006.0, 2131.0, 2212.0, 2160.0, 2001.0],
        [1550.0, 2306.0, 2574.0, 2492.0, 2602.0, 2671.0, 2257.0, 2632.0],
        [2423.0, 2365.0, 2858.0, 3051.0, 2631.0, 2490.0, 2886.0, 2986.0],
        [2749.0, 3265.0, 3226.0, 3194.0, 3018.0, 3217.0, 3329.0, 3217.0],
        [2743.0, 3294.0, 3926.0, 4470.0, 4033.0, 3995.0, 4526.0, 4703.0],
    ];

    fn lines(rates: &[[f64; 8]]) -> Vec<Vec<Taken>> {
        let line = |rates: &[f64; 8]| {
            rates.iter().zip(READS).map(|(&qps, reads)| Taken { qps, reads }).collect()
        };
        rates.iter().map(line).collect()
    }

    fn chosen(rates: &[[f64; 8]]) -> Vec<u16> {
        best_widths(&WIDTHS, &lines(rates)).unwrap()
    }

    /// The old rule took width 2 for the last two lines, which was 0.70 of the rate when measured
    /// longer: in pairs width 2 gave 3,665, width 4 5,079, and from 8 on some 5,400.
    #[test]
    fn a_recorded_table_with_noise_keeps_busy_searches_wide_enough() {
        let chosen = chosen(&RECORDED);
        assert!(chosen[..2].iter().all(|width| (6..=16).contains(width)), "{chosen:?}");
        assert!(chosen[4..].iter().all(|width| *width >= 4), "{chosen:?}");
    }

    #[test]
    fn one_line_that_is_wrong_moves_no_other_one_far() {
        for wrong in 0..RECORDED.len() {
            let mut rates = RECORDED;
            // A width that is narrow came out a fifth too fast.
            rates[wrong][1] *= 1.2;
            let chosen = chosen(&rates);
            for (nth, width) in chosen.iter().enumerate().filter(|(nth, _)| *nth != wrong) {
                let least = if nth < 2 { 6 } else { 3 };
                assert!(*width >= least, "line {wrong} is wrong, {nth} takes {width}: {chosen:?}");
            }
        }
    }

    #[test]
    fn of_widths_that_are_as_fast_the_one_that_reads_least_is_taken() {
        assert_eq!(chosen(&[[1000.0; 8]; 3]), [1, 1, 1]);
        let equal = vec![Taken { qps: 9.0, reads: 5.0 }; 8];
        assert_eq!(best_widths(&WIDTHS, &[equal]), Some(vec![1]));
        assert_eq!(best_widths(&[], &[vec![]]), None);
    }

    #[test]
    fn a_clear_difference_decides() {
        let rising: [f64; 8] = std::array::from_fn(|i| 1000.0 * 1.2f64.powi(i as i32));
        let falling: [f64; 8] = std::array::from_fn(|i| 5000.0 / 1.2f64.powi(i as i32));
        assert_eq!(chosen(&[rising, rising]), [32, 32]);
        assert_eq!(chosen(&[falling, falling]), [1, 1]);
        assert_eq!(chosen(&[rising, rising, falling, falling]), [32, 32, 1, 1]);
    }
}
