//! Rows that have lived as long as the collection lets them.
//!
//! Readers pass over them from the moment on at which their time is over. They are deleted as rows
//! are that somebody deletes, by the background thread, which whoever meets some wakes; a reader
//! beside the writer passes over them only.

use std::sync::Arc;

use crate::catalog::{CollectionEntry as Entry, UnixMs};
use crate::collection::components::ReadSnapshot;
use crate::collection::live::LiveRows;
use crate::collection::write::delete::ROWS_OF_RECORD;
use crate::collection::{Collection, CollectionError};
use crate::ids::RowId;

impl Collection {
    /// The first row that lives, of those below `end`.
    fn first_alive(&self, entry: &Entry, end: RowId) -> RowId {
        let Some(ttl_ms) = entry.time_to_live_ms() else { return RowId(0) };
        self.ages.first_alive(end, (self.now)(), ttl_ms)
    }

    /// Rows of which nobody knows when they were written count as written now.
    pub(in crate::collection) fn meet_rows(&self, entry: &Entry) {
        self.first_alive(entry, self.components.live().next_row);
    }

    /// Notes when rows from the first to before the second were written; under the order of writes.
    pub(in crate::collection) fn note_age(
        &self,
        entry: &Entry,
        rows: (RowId, RowId),
        written: UnixMs,
    ) {
        let (first, end) = rows;
        if let Some(ttl_ms) = entry.time_to_live_ms()
            && first < end
            && self.ages.note(first, end, written, ttl_ms)
        {
            self.wake_background();
        }
    }

    /// The live rows without those whose time is over.
    pub(in crate::collection) fn unexpired(
        &self,
        entry: &Entry,
        live: Arc<LiveRows>,
    ) -> Arc<LiveRows> {
        let first = self.first_alive(entry, live.next_row);
        if first == RowId(0) || !live.has_before(first) {
            return live;
        }
        self.wake_background();
        let mut hidden = self.hidden.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((of, shown)) = &*hidden
            && Arc::ptr_eq(of, &live)
            && shown.hidden_before == first
        {
            return Arc::clone(shown);
        }
        let shown = Arc::new(live.without_before(first));
        *hidden = Some((live, Arc::clone(&shown)));
        shown
    }

    /// A moment without rows whose time is over.
    pub(in crate::collection) fn showing<'c>(
        &self,
        entry: &Entry,
        moment: ReadSnapshot<'c>,
    ) -> ReadSnapshot<'c> {
        ReadSnapshot { live: self.unexpired(entry, moment.live), ..moment }
    }

    /// For the background thread: saves ages, and deletes some of the rows whose time is over;
    /// `false` where there were none.
    pub(in crate::collection) fn delete_expired(&self) -> Result<bool, CollectionError> {
        let Ok(entry) = self.entry() else { return Ok(false) };
        if entry.time_to_live_ms().is_none() || self.turns.stopped().is_some() || self.follows() {
            return Ok(false);
        }
        self.ages.save(&*self.disk)?;
        let live = self.components.live();
        let first = self.first_alive(&entry, live.next_row);
        if !live.has_before(first) {
            return Ok(false);
        }
        let order = self.order_when_applied()?;
        let live = self.components.live();
        let all = live.among(None);
        let over = all.iter().take_while(|row| *row < first.0).take(ROWS_OF_RECORD);
        let over: Vec<RowId> = over.map(RowId).collect();
        Ok(self.delete_rows(order, over)?.rows > 0)
    }
}
