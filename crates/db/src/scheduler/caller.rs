//! What can be searched, and whoever waits for a search.

use super::ScheduleError;
use crate::collection::{BatchProgress, Collection, CollectionError, SearchAnswer, SearchRequest};

/// What can be searched.
pub trait Searchable: Send + Sync {
    /// Does several searches as one; see [`Collection::search_batch`].
    ///
    /// # Errors
    /// See there.
    fn search_batch(
        &self,
        requests: &[&SearchRequest<'_>],
        tell: &mut dyn FnMut(BatchProgress),
    ) -> Result<(), CollectionError>;
}

impl Searchable for Collection {
    fn search_batch(
        &self,
        requests: &[&SearchRequest<'_>],
        tell: &mut dyn FnMut(BatchProgress),
    ) -> Result<(), CollectionError> {
        Self::search_batch(self, requests, tell)
    }
}

/// Somebody who waits for a search. A caller that is dropped unanswered has gone before.
pub trait Caller: Send {
    /// Whether nobody waits any more.
    fn is_gone(&self) -> bool;

    /// Takes the answer, on the thread of the search: others wait meanwhile.
    fn answer(self: Box<Self>, outcome: Result<SearchAnswer, ScheduleError>);
}
