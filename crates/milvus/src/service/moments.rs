//! Moments at which iterators of clients began.
//!
//! The first page of an iterator is answered with a timestamp, which the client sends with each later
//! one. The timestamp stands for the moment, which is kept as long as pages are asked for, within
//! bounds; pages behind that are read as of now. Timestamps of moments are odd and all others even,
//! so that a moment that is kept no more is told from a read that has just begun.
//!
//! Of several servers each keeps its own moments. Their timestamps then have the number of the
//! server above the lowest bit, so that whoever is asked for a page knows whom to ask for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeann_db::catalog::{CollectionId, UnixMs};
use pipeann_db::collection::{Collection, PinnedSnapshot};
use pipeann_db::ids::RowId;

use crate::convert::read_time::EVENTUALLY;
use crate::status::CallFailure;

/// Moments that are kept at most; those that were not read for longest give way.
pub(super) const MOST_MOMENTS: usize = 256;
/// How long a moment is kept that nobody reads.
pub(super) const IDLE_MS: u64 = 10 * 60 * 1000;

struct Begun {
    timestamp: u64,
    read: UnixMs,
    moment: Arc<PinnedSnapshot>,
    /// Of the last two pages of a search that ended with different distances.
    borders: [PageBorder; 2],
}

/// The distance with which pages of a search have ended, and all rows of them that are so far: the
/// client tells the distance alone when it asks for the next page, and more rows may be as far.
#[derive(Clone, Default)]
struct PageBorder {
    distance: Option<f32>,
    /// Ascending.
    rows: Arc<[RowId]>,
}

/// All that are kept, the one that was read last at the end.
#[derive(Default)]
pub(super) struct Moments(Mutex<Vec<Begun>>);

/// Whether a timestamp is that of a moment. Clients name an odd one for a level, too.
pub(super) fn is_moment(timestamp: u64) -> bool {
    timestamp & 1 == 1 && timestamp != EVENTUALLY
}

/// Between two moments of one server at least.
const MOMENTS_APART: u64 = 1 << 9;

/// The first timestamp, not before this one, for a moment that the server with this number keeps.
fn owned(timestamp: u64, owner: u8) -> u64 {
    timestamp.next_multiple_of(MOMENTS_APART) | u64::from(owner) << 1 | 1
}

/// The number of the server that keeps the moment of a timestamp.
pub(super) fn owner(timestamp: u64) -> Option<u8> {
    let [low, ..] = (timestamp >> 1).to_le_bytes();
    is_moment(timestamp).then_some(low)
}

impl Moments {
    /// Keeps the present of a collection under this timestamp, made odd, which is answered; where there
    /// are several servers, as the one with this number.
    pub(super) fn begin(
        &self,
        collection: &Collection,
        (timestamp, owner): (u64, Option<u8>),
        now: UnixMs,
    ) -> Result<(Arc<PinnedSnapshot>, u64), CallFailure> {
        let moment = collection.hold_moment()?;
        let mut begun = self.begun();
        forget_idle(&mut begun, now);
        let is_free = |at: &u64| begun.iter().all(|begun| begun.timestamp != *at);
        let timestamp = match owner {
            // Those that are given out are even and differ.
            None => timestamp | 1,
            Some(owner) => (0..)
                .map(|after| owned(timestamp, owner) + after * MOMENTS_APART)
                .find(is_free)
                .expect("fewer are kept than there are numbers"),
        };
        if begun.len() == MOST_MOMENTS {
            begun.remove(0);
        }
        let borders = Default::default();
        begun.push(Begun { timestamp, read: now, moment: Arc::clone(&moment), borders });
        Ok((moment, timestamp))
    }

    /// The moment of a timestamp, if it is of this collection and is kept.
    pub(super) fn find(
        &self,
        collection: CollectionId,
        timestamp: u64,
        now: UnixMs,
    ) -> Option<Arc<PinnedSnapshot>> {
        if !is_moment(timestamp) {
            return None;
        }
        let mut begun = self.begun();
        let at = begun.iter().position(|begun| begun.timestamp == timestamp)?;
        let mut found = begun.remove(at);
        found.read = now;
        let moment = Arc::clone(&found.moment);
        begun.push(found);
        Some(moment).filter(|moment| moment.collection() == collection)
    }

    /// The rows that pages of a moment have given which are as far as one of them has ended.
    pub(super) fn border(&self, timestamp: u64, distance: f32) -> Arc<[RowId]> {
        let begun = self.begun();
        let moment = begun.iter().find(|begun| begun.timestamp == timestamp);
        let mut borders = moment.iter().flat_map(|begun| &begun.borders);
        let border = borders.find(|border| border.distance == Some(distance));
        border.map_or_else(Arc::default, |border| Arc::clone(&border.rows))
    }

    /// A page of a moment ends at this distance; `rows`, ascending, are all so far that are that far.
    pub(super) fn note_border(&self, timestamp: u64, distance: f32, rows: Arc<[RowId]>) {
        let mut begun = self.begun();
        let moment = begun.iter_mut().find(|begun| begun.timestamp == timestamp);
        let Some(Begun { borders: [before, last], .. }) = moment else { return };
        if last.distance != Some(distance) {
            *before = std::mem::take(last);
        }
        *last = PageBorder { distance: Some(distance), rows };
    }

    /// Drops those that nobody reads any more.
    pub(super) fn forget_idle(&self, now: UnixMs) {
        forget_idle(&mut self.begun(), now);
    }

    /// Drops those of other collections than these.
    pub(super) fn keep(&self, is_there: impl Fn(CollectionId) -> bool) {
        self.begun().retain(|begun| is_there(begun.moment.collection()));
    }

    /// Drops those of a collection, which is no more.
    pub(super) fn forget(&self, collection: CollectionId) {
        self.begun().retain(|begun| begun.moment.collection() != collection);
    }

    fn begun(&self) -> MutexGuard<'_, Vec<Begun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_idle(begun: &mut Vec<Begun>, now: UnixMs) {
    begun.retain(|begun| now.0.saturating_sub(begun.read.0) < IDLE_MS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_one_of_several_servers_names_it() {
        for number in [0, 1, 77, 255] {
            for timestamp in [2, 510, 512, 1 << 40, (1 << 40) + 2] {
                let moment = owned(timestamp, number);
                assert!(moment >= timestamp && moment < timestamp + 2 * MOMENTS_APART);
                assert_eq!(owner(moment), Some(number));
            }
        }
        assert_eq!((owner(512), owner(EVENTUALLY)), (None, None));
    }
}
