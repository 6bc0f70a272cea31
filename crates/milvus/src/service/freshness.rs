//! Before a call is answered by a server that is one of several: whether its caller may make it, and
//! whether the data here is as new as it asks for, or whether it is the one that leads.
//!
//! A server that is alone has all there is, and nothing is waited for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_db::catalog::limits::DEFAULT_DATABASE;
use pipeann_db::catalog::{CollectionEntry as Entry, CollectionId};
use tonic::{Request, Status};

use super::aim::Aimed;
use super::asking::timeout_in;
use super::caller::named_database;
use super::calls::Service;
use super::frontend::Call;
use super::loading::check_loaded;
use super::marks::{READ_AFTER, does_not_lead};
use super::peers::{LeaderAt, Peers, PeersError, ReadTime};
use super::routes::{LocalRead, Route};

/// How long a read waits for data whose client does not say how long it waits.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a call waits for users that are newer than those here.
const FOR_USERS: Duration = Duration::from_secs(1);

impl From<PeersError> for Status {
    fn from(error: PeersError) -> Self {
        Self::unavailable(error.to_string())
    }
}

/// Until when somebody waits for data, and at most so long; a client is to learn why it was in vain.
fn patience(timeout: Option<Duration>, most: Duration) -> Instant {
    Instant::now() + timeout.map_or(most, |timeout| most.min(timeout / 8 * 7))
}

impl Service {
    /// Lets a call be answered, when the data is as new as it asks for.
    pub(super) async fn admit<Req: Aimed + Sync>(
        &self,
        call: &'static str,
        route: Route,
        request: &Request<Req>,
    ) -> Result<(), Status> {
        let Some(peers) = &self.0.peers else { return self.check(call, request) };
        let until = patience(timeout_in(request.metadata().as_ref()), PATIENCE);
        let newest = |of| peers.catch_up(of, ReadTime::Latest, until);
        if self.check(call, request).is_err() {
            // A right may be newer than what is here.
            newest(None).await?;
            self.check(call, request)?;
        }
        match route {
            Route::Process => {}
            // Another one may have come to lead while the request came.
            Route::Leader if peers.leader() != LeaderAt::Here => return Err(does_not_lead()),
            Route::Leader => {
                // What finds nothing to do is refused by no log.
                if let Err(error) = peers.confirm_lead(until).await {
                    let leads = peers.leader() == LeaderAt::Here;
                    return Err(if leads { error.into() } else { does_not_lead() });
                }
            }
            Route::Local(LocalRead::Catalogue) => newest(None).await?,
            Route::Local(LocalRead::Database) => {
                if !self.sees_database(call, request) {
                    newest(None).await?;
                }
            }
            Route::Local(LocalRead::Counts) => {
                newest(None).await?;
                if let Some(entry) = self.entry(request) {
                    newest(Some(entry.id)).await?;
                }
            }
            Route::Local(LocalRead::Rows) => {
                if self.readable(request).is_none() {
                    newest(None).await?;
                }
                // What is refused needs no data.
                if let Some((collection, wanted)) = self.readable(request) {
                    peers.catch_up(Some(collection), wanted, until).await?;
                }
            }
        }
        // A name may be another collection's by now, and a right revoked.
        self.check(call, request)
    }

    /// Whether the database that is named beside a request is known here, and its caller may know.
    fn sees_database<Req>(&self, call: &'static str, request: &Request<Req>) -> bool {
        let call = Call::new(Arc::clone(&self.0), call, request);
        call.sight().database(call.database_name("")).is_ok()
    }

    /// The collection of a request, if it is known here.
    fn entry<Req: Aimed>(&self, request: &Request<Req>) -> Option<Arc<Entry>> {
        let (given, collection) = request.get_ref().counted()?;
        let named = named_database(request.metadata()).unwrap_or(DEFAULT_DATABASE);
        let database = if given.is_empty() { named } else { given };
        let catalog = self.0.settings.database.catalog();
        catalog.collection(database, collection).ok().cloned()
    }

    /// The collection of a read of rows and how new they have to be, if it is known here with its
    /// partitions, and loaded.
    fn readable<Req: Aimed>(&self, request: &Request<Req>) -> Option<(CollectionId, ReadTime)> {
        let entry = self.entry(request)?;
        let (guarantee, partitions) = request.get_ref().read()?;
        check_loaded(&entry, partitions).ok()?;
        // Of a server that sent it on.
        let seen = request.metadata().get(READ_AFTER).and_then(|it| it.to_str().ok()?.parse().ok());
        let read_time = guarantee.read_time(entry.consistency);
        Some((entry.id, read_time.not_before(seen.unwrap_or(0))))
    }
}

/// Waits until users and roles are as new as is wanted, where there are others. What is here counts where it
/// is not known what is newest.
pub(super) async fn users_of(
    peers: Option<&Arc<dyn Peers>>,
    wanted: ReadTime,
    timeout: Option<Duration>,
) {
    if let Some(peers) = peers
        && let Err(error) = peers.catch_up(None, wanted, patience(timeout, FOR_USERS)).await
    {
        tracing::debug!(%error, "users are looked up among those that are known here");
    }
}
