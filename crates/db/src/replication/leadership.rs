//! Whether this server leads; one for a database, known to all that it changes.

use std::sync::{Arc, PoisonError, RwLock};

use super::{SharedChange, SharedLog, SharedLogError};

/// What a server is to a shared log.
#[derive(Clone, Debug, Default)]
pub enum LogStanding {
    /// It applies what others change.
    #[default]
    Follows,
    /// It changes, by this log.
    Leads(Arc<dyn SharedLog>),
}

/// See the module's description. Shared between threads by reference.
#[derive(Debug, Default)]
pub struct Leadership {
    standing: RwLock<LogStanding>,
}

impl Leadership {
    /// What this server is now.
    pub fn standing(&self) -> LogStanding {
        self.standing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this server leads now.
    pub fn leads(&self) -> bool {
        matches!(self.standing(), LogStanding::Leads(_))
    }

    pub(crate) fn set(&self, standing: LogStanding) {
        *self.standing.write().unwrap_or_else(PoisonError::into_inner) = standing;
    }

    /// Appends changes to the log by which this server leads.
    ///
    /// # Errors
    /// As [`SharedLog::append`].
    pub(crate) fn append(&self, changes: &[SharedChange<'_>]) -> Result<(), SharedLogError> {
        match self.standing() {
            LogStanding::Leads(log) => log.append(changes),
            LogStanding::Follows => Err(SharedLogError::NotLeading { why: "it follows".into() }),
        }
    }
}
