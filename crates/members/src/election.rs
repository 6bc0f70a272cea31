//! Which term comes next, and who goes first where several want a shard.
//!
//! There are no keys for candidates: each wanting server sees who lives and how much each leads, and
//! waits the longer, the more live servers lead less than it does. Where nobody before it wants the
//! shard, that costs a moment and no write. Two that find each other equal are put in order by a
//! hash of shard and server, so that shards of a dead server spread over those that are left.

use std::time::Duration;

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::TERM_MAX;

/// How long one waits for each server before it, and at the most.
const TURN: Duration = Duration::from_millis(60);
const TURN_MAX: Duration = Duration::from_millis(480);

/// The term above all that are known: what is stored, what was ever seen here, and the newest in the
/// log as the candidate says. Nothing follows the last term that there can be.
pub(crate) fn next_term(stored: u64, seen: u64, at_least: u64) -> Option<u64> {
    let newest = stored.max(seen).max(at_least);
    (newest < TERM_MAX).then(|| newest + 1)
}

/// Who goes first has the least of these.
pub(crate) fn order(shard: u64, server: Uuid, led: usize) -> (usize, u64, Uuid) {
    (led, xxh3_64_with_seed(server.as_bytes(), shard), server)
}

/// How long `me`, who leads `led` shards, leaves `shard` to others, each with how many it leads.
pub(crate) fn patience(
    shard: u64,
    me: Uuid,
    led: usize,
    others: impl IntoIterator<Item = (Uuid, usize)>,
) -> Duration {
    let mine = order(shard, me, led);
    let before =
        others.into_iter().filter(|&(id, led)| id != me && order(shard, id, led) < mine).count();
    TURN_MAX.min(TURN * u32::try_from(before).unwrap_or(u32::MAX).min(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_grow_above_whatever_is_known() {
        assert_eq!(next_term(0, 0, 0), Some(1));
        assert_eq!(next_term(7, 3, 5), Some(8));
        assert_eq!(next_term(0, 9, 5), Some(10));
        assert_eq!(next_term(0, 0, 41), Some(42));
        assert_eq!(next_term(0, TERM_MAX, 0), None);
    }

    #[test]
    fn who_leads_least_goes_first() {
        let [a, b, c] = [1, 2, 3].map(Uuid::from_u128);
        let led = [(a, 2), (b, 0), (c, 1)];
        assert_eq!(patience(5, b, 0, led), Duration::ZERO);
        assert_eq!(patience(5, c, 1, led), TURN);
        assert_eq!(patience(5, a, 2, led), TURN * 2);
        let many = (10..1000).map(|n| (Uuid::from_u128(n), 0));
        assert_eq!(patience(5, a, 2, many), TURN_MAX);
    }

    #[test]
    fn equals_share_shards() {
        let [a, b] = [1, 2].map(Uuid::from_u128);
        let first = |shard: &u64| patience(*shard, a, 1, [(a, 1), (b, 1)]).is_zero();
        let of_a = (0..1000).filter(first).count();
        assert!((400..600).contains(&of_a), "{of_a}");
    }
}
