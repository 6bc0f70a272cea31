//! Why a search that was to be scheduled has no answer.

use crate::collection::CollectionError;
use crate::ids::ErrorClass;

/// Why a search has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// As much waits as may.
    #[error("{waiting} searches wait already; send it again a little later")]
    Full {
        /// Searches that wait, of the collection or of all.
        waiting: usize,
    },
    /// Its time passed before it was begun, or too little was left of it, or would be.
    #[error("too many searches wait for this one to be answered before its deadline")]
    Late,
    /// The scheduler ends.
    #[error("no search is begun any more, since the server is ending")]
    Ending,
    /// No thread can be made for it.
    #[error("no thread can be made for a search: {0}")]
    NoThread(String),
    /// A defect of this program.
    #[error("the search panicked: {0}")]
    Panicked(String),
    /// What the collection says.
    #[error(transparent)]
    Search(#[from] CollectionError),
}

impl ScheduleError {
    /// What helps.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Full { .. } | Self::Late | Self::Ending | Self::NoThread(_) => ErrorClass::Retry,
            Self::Panicked(_) => ErrorClass::Stop,
            Self::Search(error) => error.class(),
        }
    }
}
