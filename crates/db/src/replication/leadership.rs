//! Whether this server leads; one for a database, known to all that it changes.

use std::sync::{Arc, PoisonError, RwLock};

use super::requests::{self, RequestAnswer};
use super::stops::CollectionStops;
use super::{
    ChangeUnderWay, ChangesUnderWay, KnownRequests, SharedChange, SharedLog, SharedLogError,
};

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
    requests: Arc<KnownRequests>,
    under_way: Arc<ChangesUnderWay>,
    stops: Arc<CollectionStops>,
}

impl Leadership {
    /// Whether any collection may have stopped.
    pub(crate) fn stops(&self) -> &Arc<CollectionStops> {
        &self.stops
    }

    /// What this server is now.
    pub fn standing(&self) -> LogStanding {
        self.standing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this server leads now.
    pub fn leads(&self) -> bool {
        matches!(self.standing(), LogStanding::Leads(_))
    }

    /// Whether this server leads no more, or is about to: what it was about to write is another
    /// leader's to write.
    pub fn is_over(&self) -> bool {
        match self.standing() {
            LogStanding::Leads(log) => log.is_over(),
            LogStanding::Follows => true,
        }
    }

    /// The requests whose changes stand in the log.
    pub fn requests(&self) -> &Arc<KnownRequests> {
        &self.requests
    }

    /// Changes that this server has begun and not yet applied.
    pub fn under_way(&self) -> &Arc<ChangesUnderWay> {
        &self.under_way
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
            LogStanding::Leads(log) => log.append(changes)?,
            LogStanding::Follows => {
                return Err(SharedLogError::NotLeading { why: "it follows".into() });
            }
        }
        for change in changes {
            if let SharedChange::Request(request) = change {
                self.requests.remember(*request);
            }
        }
        Ok(())
    }

    /// Appends the one change of a call, with the request that this thread works for. It is under way until
    /// what is returned goes: others may read it as soon as it is in the log, so that has to be kept until
    /// it is seen here.
    ///
    /// # Errors
    /// As [`SharedLog::append`].
    pub(crate) fn change(
        &self,
        change: SharedChange<'_>,
    ) -> Result<ChangeUnderWay, SharedLogError> {
        let under_way = self.under_way.begin();
        match requests::current() {
            None => self.append(&[change])?,
            Some(request) => {
                let request = request.applied(RequestAnswer::default());
                self.append(&[change, SharedChange::Request(request)])?;
            }
        }
        Ok(under_way)
    }
}
