//! Which segments a flush writes once more, together with the tail.

/// Rows of a segment from which on it is left alone, in bytes of vectors.
const SETTLED_BYTES: u64 = 256 << 20;

/// How many segments at the end of the list, given by their rows, are merged with `new` rows:
/// those that are no larger than what they are merged with. So each segment is at least twice as
/// large as the next one, there are few of them, and a row is rewritten a logarithmic number of
/// times.
pub(super) fn merged(segments: &[u64], new: u64, vector_bytes: usize) -> usize {
    let settled = SETTLED_BYTES / vector_bytes as u64;
    let (mut count, mut sum) = (0, new);
    for &rows in segments.iter().rev() {
        if rows > sum || rows >= settled {
            break;
        }
        sum += rows;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_of_one_size_leave_few_segments_and_rewrite_little() {
        let (mut segments, mut written) = (Vec::new(), 0);
        for flush in 1..=1000 {
            let at = segments.len() - merged(&segments, 10, 128);
            let rows = segments.drain(at..).sum::<u64>() + 10;
            segments.push(rows);
            written += rows;
            assert!(segments.len() <= 10, "{segments:?}");
            assert_eq!(segments.iter().sum::<u64>(), flush * 10);
        }
        assert!(written < 10 * 1000 * 11, "each row is written at most 11 times: {written}");
    }

    #[test]
    fn large_segments_are_left_alone() {
        assert_eq!(merged(&[3 << 20], 4 << 20, 128), 0);
        assert_eq!(merged(&[1 << 20], 4 << 20, 128), 1);
    }
}
