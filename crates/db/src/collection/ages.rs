//! When rows were written, as far as a time to live has to know it.
//!
//! Row ids only grow, so ages are a list of ranges: the rows from `first` on, up to those of the
//! next range, were written at or before `until`. Ages are noted while the collection has a time to
//! live. Rows that came when it had none, or of which a crash lost the age, count as written when
//! they are next met: a row may stay too long, and never goes too early.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::age_ranges::{AgeRange, AgeRanges};
use super::ages_file;
use crate::catalog::UnixMs;
use crate::disk::{Disk, read_file, replace_file};
use crate::ids::RowId;

/// The list has at most about so many ranges, and a row stays longer by one in so many of its time.
const RANGES_OF_TIME: u64 = 1024;
/// No range is shorter than this.
const LEAST_MS: u64 = 100;

/// The list of a collection, which several threads look at.
#[derive(Debug)]
pub(super) struct Ages {
    state: Mutex<KnownAges>,
    /// On the disk of the collection.
    path: String,
    collection: [u8; 16],
}

#[derive(Debug)]
struct KnownAges {
    list: AgeRanges,
    /// Whether the file says something else.
    changed: bool,
}

impl AgeRanges {
    /// Rows up to `end` that were not noted are written now. Answers whether a range begins.
    fn note(&mut self, end: RowId, now: UnixMs, ttl_ms: u64, all_are_new: bool) -> bool {
        if end <= self.end {
            return false;
        }
        let width = (ttl_ms / RANGES_OF_TIME).max(LEAST_MS);
        let is_open = |range: &AgeRange| (now.0..=now.0 + 2 * width).contains(&range.until.0);
        let begins = !all_are_new || !self.ranges.last().is_some_and(is_open);
        if begins {
            self.ranges.push(AgeRange { first: self.end, until: UnixMs(now.0 + width) });
        }
        self.end = end;
        begins
    }

    /// Forgets rows from `next` on, which there are not: their ids are given out once more. Answers
    /// whether some were known.
    fn cut(&mut self, next: RowId) -> bool {
        if self.end <= next {
            return false;
        }
        self.end = next;
        self.ranges.retain(|range| range.first < next);
        true
    }

    /// The first row that lives, of a time to live; ranges of which no row does are forgotten.
    fn first_alive(&mut self, now: UnixMs, ttl_ms: u64) -> RowId {
        let is_over = |range: &AgeRange| range.until.0.saturating_add(ttl_ms) <= now.0;
        let over = self.ranges.iter().take_while(|range| is_over(range)).count();
        // One of them stays, so that what is over stays known.
        self.ranges.drain(..over.saturating_sub(1));
        match over {
            0 => RowId(0),
            _ => self.ranges.get(1).map_or(self.end, |range| range.first),
        }
    }
}

impl Ages {
    /// The ages that were saved under `path`, of rows before `next`; a file that cannot be read says
    /// nothing. It may be ahead of a log that has lost its end.
    pub(super) fn open(disk: &dyn Disk, path: String, collection: [u8; 16], next: RowId) -> Self {
        let read = read_file(disk, &path, ages_file::MAX_BYTES);
        let mut list = match read.map(|bytes| ages_file::decode(collection, &bytes)) {
            Ok(Ok(list)) => list,
            Ok(Err(why)) => {
                tracing::warn!(file = %disk.locate(&path).display(), "ages of rows are lost: {why}");
                AgeRanges::default()
            }
            Err(error) => {
                if !error.is_not_found() {
                    tracing::warn!("ages of rows are lost: {error}");
                }
                AgeRanges::default()
            }
        };
        let changed = list.cut(next);
        Self { state: Mutex::new(KnownAges { list, changed }), path, collection }
    }

    /// Rows from `first` to `end` are written now. Answers whether the list is to be saved.
    pub(super) fn note(&self, first: RowId, end: RowId, now: UnixMs, ttl_ms: u64) -> bool {
        let mut state = self.state();
        // Those before them of which nobody knows.
        let unknown = state.list.note(first, now, ttl_ms, false);
        let begun = state.list.note(end, now, ttl_ms, true);
        state.changed |= unknown | begun;
        unknown | begun
    }

    /// The first row, of those up to `end`, that lives.
    pub(super) fn first_alive(&self, end: RowId, now: UnixMs, ttl_ms: u64) -> RowId {
        let mut state = self.state();
        let unknown = state.list.note(end, now, ttl_ms, false);
        state.changed |= unknown;
        state.list.first_alive(now, ttl_ms)
    }

    /// Rows from `next` on there are not: what was about to write them has failed.
    pub(super) fn cut(&self, next: RowId) {
        let mut state = self.state();
        state.changed |= state.list.cut(next);
    }

    /// Saves the list where it has changed since.
    pub(super) fn save(&self, disk: &dyn Disk) -> Result<(), crate::disk::DiskError> {
        let list = {
            let mut state = self.state();
            if !std::mem::take(&mut state.changed) {
                return Ok(());
            }
            state.list.clone()
        };
        let saved = replace_file(disk, &self.path, &ages_file::encode(self.collection, &list));
        saved.inspect_err(|_| self.state().changed = true)
    }

    fn state(&self) -> MutexGuard<'_, KnownAges> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: u64 = 10_000;

    fn row(id: u64) -> RowId {
        RowId(id)
    }

    #[test]
    fn rows_are_over_when_their_time_is_and_not_before() {
        let mut list = AgeRanges::default();
        assert!(list.note(row(3), UnixMs(1_000), TTL, true));
        assert!(!list.note(row(5), UnixMs(1_050), TTL, true), "about the same time");
        assert!(list.note(row(9), UnixMs(5_000), TTL, true));
        assert_eq!(list.first_alive(UnixMs(11_000), TTL), row(0), "written at 1,050");
        assert_eq!(list.first_alive(UnixMs(11_100), TTL), row(5));
        assert_eq!(list.first_alive(UnixMs(15_100), TTL), row(9));
        assert_eq!(list.first_alive(UnixMs(15_100), TTL), row(9), "what is over stays known");
        assert_eq!(list.ranges.len(), 1);
    }

    #[test]
    fn rows_that_a_log_has_lost_have_no_age_when_their_ids_come_again() {
        let mut list = AgeRanges::default();
        list.note(row(3), UnixMs(1_000), TTL, true);
        list.note(row(9), UnixMs(5_000), TTL, true);
        assert!(!list.cut(row(9)));
        assert!(list.cut(row(3)));
        assert!(list.note(row(9), UnixMs(90_000), TTL, true));
        assert_eq!(list.first_alive(UnixMs(91_000), TTL), row(3));
    }

    #[test]
    fn rows_of_unknown_age_count_as_met_now() {
        let mut list = AgeRanges::default();
        list.note(row(3), UnixMs(1_000), TTL, true);
        assert!(list.note(row(7), UnixMs(1_001), TTL, false), "a range of their own");
        list.ranges[1].until = UnixMs(9_000);
        assert_eq!(list.first_alive(UnixMs(11_200), TTL), row(3));
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_row_older() {
        let mut list = AgeRanges::default();
        list.note(row(3), UnixMs(50_000), TTL, true);
        assert!(list.note(row(4), UnixMs(1_000), TTL, true), "a range of its own");
        assert_eq!(list.first_alive(UnixMs(12_000), TTL), row(0), "rows go in their order");
        assert_eq!(list.first_alive(UnixMs(60_100), TTL), row(4));
    }

    #[test]
    fn the_list_stays_short() {
        let mut list = AgeRanges::default();
        let hour = 3_600_000;
        for second in 0..20_000_u64 {
            let now = UnixMs(second * 1_000);
            list.note(row(second + 1), now, hour, true);
            list.first_alive(now, hour);
        }
        assert!(list.ranges.len() < 1_100, "{}", list.ranges.len());
    }
}
