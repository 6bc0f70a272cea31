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

#[cfg(test)]
mod tests {
    use super::*;

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
