//! Whether a history of one key is that of a register: each operation has an effect at one moment between
//! its begin and its end.
//!
//! The search is that of Wing and Gong, "Testing and verifying concurrent objects" (1993), which remembers
//! where it has been as Lowe does ("Testing for linearizability", 2017).

use std::collections::HashSet;

/// What an operation did to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegisterEffect {
    /// The key has this value from now on, or none.
    Write(Option<i64>),
    /// The key was seen to have this value, or none.
    Read(Option<i64>),
}

/// An operation as its client saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegisterOperation {
    pub(super) effect: RegisterEffect,
    pub(super) begin: u64,
    /// None where its answer was lost: a write of which nobody knows whether and when it is made.
    pub(super) end: Option<u64>,
}

/// Whether these could be the operations of one register that has no value at first.
pub(super) fn is_linearizable(operations: &[RegisterOperation]) -> bool {
    assert!(operations.len() <= 128, "a set of operations is a number");
    let mut seen = HashSet::new();
    let mut ways = vec![(0u128, None)];
    let known = operations.iter().enumerate().filter(|(_, it)| it.end.is_some());
    let known = known.fold(0u128, |set, (number, _)| set | 1 << number);
    while let Some((done, value)) = ways.pop() {
        if done & known == known {
            return true;
        }
        if !seen.insert((done, value)) {
            continue;
        }
        let open = || operations.iter().enumerate().filter(|(number, _)| done & 1 << number == 0);
        // What has ended before another begins comes before it.
        let first_end = open().filter_map(|(_, it)| it.end).min().unwrap_or(u64::MAX);
        for (number, operation) in open().filter(|(_, it)| it.begin < first_end) {
            match operation.effect {
                RegisterEffect::Write(new) => ways.push((done | 1 << number, new)),
                RegisterEffect::Read(read) if read == value => {
                    ways.push((done | 1 << number, value))
                }
                RegisterEffect::Read(_) => {}
            }
        }
    }
    false
}

/// Whether a read may have seen this value: one that was written before its end, or none at first, and that no
/// write took the place of which was answered before `begin` and began after that one was answered.
pub(super) fn may_be_seen(
    operations: &[RegisterOperation],
    seen: Option<i64>,
    (begin, end): (u64, u64),
) -> bool {
    let writes = || {
        operations.iter().filter_map(|it| match it.effect {
            RegisterEffect::Write(value) => Some((value, it)),
            RegisterEffect::Read(_) => None,
        })
    };
    let is_over = |written: u64| {
        writes().any(|(_, it)| it.end.is_some_and(|end| end <= begin) && it.begin > written)
    };
    let of_write = writes()
        .filter(|(value, it)| *value == seen && it.begin < end)
        .any(|(_, it)| it.end.is_none_or(|end| !is_over(end)));
    of_write || seen.is_none() && !is_over(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_replaced_long_ago_is_not_seen() {
        let write = |value, begin, end| RegisterOperation {
            effect: RegisterEffect::Write(value),
            begin,
            end,
        };
        let operations =
            [write(Some(1), 1, Some(2)), write(Some(2), 3, Some(4)), write(None, 5, None)];
        let sees = |seen, begin| may_be_seen(&operations, seen, (begin, 9));
        assert!(sees(Some(1), 3) && !sees(Some(1), 4), "the second one is answered by then");
        assert!(sees(Some(2), 3) && sees(Some(2), 8), "nobody knows when the third one is made");
        assert!(sees(None, 8) && !sees(Some(3), 8));
        assert!(may_be_seen(&operations[..2], None, (1, 9)), "nothing was there at first");
        assert!(!may_be_seen(&operations[..2], None, (2, 9)));
        assert!(!may_be_seen(&operations[..2], Some(2), (1, 3)), "it is not written yet");
    }

    fn operation(effect: RegisterEffect, begin: u64, end: u64) -> RegisterOperation {
        RegisterOperation { effect, begin, end: (end > 0).then_some(end) }
    }

    #[test]
    fn registers_are_told_from_others() {
        use RegisterEffect::{Read, Write};
        let write = |value, begin, end| operation(Write(Some(value)), begin, end);
        let read = |value, begin, end| operation(Read(value), begin, end);
        assert!(is_linearizable(&[]));
        assert!(is_linearizable(&[write(1, 1, 2), read(Some(1), 3, 4)]));
        assert!(!is_linearizable(&[write(1, 1, 2), read(None, 3, 4)]), "stale");
        assert!(is_linearizable(&[write(1, 1, 4), read(None, 2, 3)]), "at once");
        assert!(!is_linearizable(&[read(Some(1), 1, 2), write(1, 3, 4)]), "from the future");
        let back = [write(1, 1, 8), read(Some(1), 2, 3), read(None, 4, 5)];
        assert!(!is_linearizable(&back), "seen and not seen");
        // An answer that was lost: made late, or never.
        assert!(is_linearizable(&[write(1, 1, 0), read(None, 2, 3), read(Some(1), 4, 5)]));
        assert!(is_linearizable(&[write(1, 1, 0), write(2, 2, 3), read(Some(2), 4, 5)]));
        assert!(!is_linearizable(&[write(1, 4, 0), read(Some(1), 2, 3)]));
        let gone = [write(1, 1, 2), operation(Write(None), 3, 4), read(Some(1), 5, 6)];
        assert!(!is_linearizable(&gone), "deleted");
        let twice = [write(1, 1, 0), write(2, 2, 3), read(Some(1), 4, 5), read(Some(2), 6, 7)];
        assert!(!is_linearizable(&twice), "made again");
    }
}
