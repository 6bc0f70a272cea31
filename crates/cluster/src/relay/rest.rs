//! Attempts that failed: how long a query rests before it is begun again, and which are not counted
//! against it.
//!
//! A connection that ended is dialled anew in milliseconds, and a slot gets free in as many. Attempts
//! that follow each other at once are spent before that.

use crate::wire::FailureCode;

/// How long a query waits before it is begun again because an attempt failed once more; doubles each time.
const REST_FIRST_US: u64 = 2_000;
/// The longest such wait.
const REST_MOST_US: u64 = 50_000;
/// How often an attempt may be lost, or find no slot, before that counts as any other failure.
const LOST_MOST: u16 = 64;

/// How long a query rests of which so many attempts have failed.
pub(super) fn rest_us(failed: u16) -> u64 {
    match failed {
        0 | 1 => 0,
        more => (REST_FIRST_US << (more - 2).min(16)).min(REST_MOST_US),
    }
}

/// Whether the last of so many failed attempts is not counted: it was lost on the way, or found a slot
/// taken by what was given up.
pub(super) fn is_excused(code: FailureCode, failed: u16) -> bool {
    matches!(code, FailureCode::Lost | FailureCode::NoRoom) && failed <= LOST_MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_rests_not_at_all_and_others_twice_as_long_each_time() {
        assert_eq!([0, 1, 2, 3, 4].map(rest_us), [0, 0, 2_000, 4_000, 8_000]);
        assert_eq!([7, 60, u16::MAX].map(rest_us), [50_000; 3]);
    }

    #[test]
    fn only_so_many_attempts_are_excused() {
        assert!(is_excused(FailureCode::NoRoom, 64) && !is_excused(FailureCode::NoRoom, 65));
        assert!(!is_excused(FailureCode::PartitionGone, 1));
    }
}
