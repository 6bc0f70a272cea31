//! The frontend context, what every call knows: the database, the time, and which database of it is meant.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use pipeann_db::access::ROOT;
use pipeann_db::catalog::limits::DEFAULT_DATABASE;
use pipeann_db::catalog::{
    CollectionEntry as Entry, CollectionId, CollectionPath, Snapshot, UnixMs,
};
use pipeann_db::collection::{Collection, PinnedSnapshot};
use pipeann_db::database::Database;
use pipeann_db::ids::RowId;
use pipeann_db::replication::requests::{
    self, BegunRequest, CurrentRequest, RequestAnswer, RequestId,
};
use pipeann_db::scheduler::{Scheduler, SchedulerOptions};
use tonic::metadata::MetadataValue;
use tonic::{Request, Response as GrpcResponse};

use super::access_log::AnswerCode;
use super::asking::Turns;
use super::attempts::Attempts;
use super::caller::{CallerName, named_database};
use super::edge_counts::EdgeCounts;
use super::marks::UNSETTLED;
use super::messages::{CallMemory, Messages};
use super::moments::{Moments, is_moment};
use super::peers::Peers;
use super::privileges::told_by;
use super::repeats;
use super::routes::WRITES;
use super::serve_options::MAX_ANSWER_BYTES;
use super::sight::Sight;
use super::viewer::Viewer;
use crate::convert::names;
use crate::convert::timestamps::{Timestamps, even};
use crate::metrics::{Metrics, OfCollection};
use crate::status::{CallFailure, Code, Response};

/// What is served.
#[derive(Clone)]
pub struct FrontendSettings {
    /// The database.
    pub database: Arc<Database>,
    /// The time. Clients see it as timestamps.
    pub now: Arc<dyn Fn() -> UnixMs + Send + Sync>,
}

impl fmt::Debug for FrontendSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("database", &self.database).finish_non_exhaustive()
    }
}

/// What all calls share.
pub(super) struct FrontendContext {
    pub(super) settings: FrontendSettings,
    pub(super) scheduler: Scheduler,
    pub(super) metrics: Metrics,
    pub(super) messages: Arc<Messages>,
    pub(super) turns: Arc<Turns>,
    pub(super) attempts: Arc<Attempts>,
    /// The other servers, where this one is not alone.
    pub(super) peers: Option<Arc<dyn Peers>>,
    /// What was sent on to them.
    pub(super) edge: Arc<EdgeCounts>,
    timestamps: Timestamps,
    moments: Moments,
    sessions: AtomicI64,
    /// Whether what is read before it is loaded is loaded then.
    auto_load: bool,
    /// The directory of the database, where callers are strangers to it.
    hidden: Option<String>,
}

impl FrontendContext {
    pub(super) fn new(settings: FrontendSettings, scheduler: SchedulerOptions) -> Self {
        let backend = settings.database.backend().map(Arc::downgrade);
        let enter = Arc::new(move || {
            if let Some(backend) = backend.as_ref().and_then(Weak::upgrade) {
                backend.enter_search_thread();
            }
        });
        let scheduler = Scheduler::new(SchedulerOptions { enter, ..scheduler });
        let metrics = Metrics::default();
        let messages = Messages::new(settings.database.accountant());
        Self {
            settings,
            scheduler,
            metrics,
            messages,
            turns: Turns::new(),
            attempts: Arc::default(),
            peers: None,
            edge: Arc::default(),
            timestamps: Timestamps::default(),
            moments: Moments::default(),
            sessions: AtomicI64::new(1),
            auto_load: false,
            hidden: None,
        }
    }

    /// Loads what is read before it is loaded, or refuses it.
    pub(super) fn loading_what_is_read(self, auto_load: bool) -> Self {
        Self { auto_load, ..self }
    }

    /// Is one of several servers, where these are told.
    pub(super) fn beside(self, peers: Option<Arc<dyn Peers>>) -> Self {
        Self { peers, ..self }
    }

    /// Is called over a network: what fails names no places of this machine.
    pub(super) fn on_network(self) -> Self {
        let hidden = self.settings.database.path().to_str().map(str::to_owned);
        Self { hidden, ..self }
    }

    /// Lets go of what clients have left behind, and of what nobody has asked for lately.
    pub(super) fn tidy(&self) {
        self.moments.forget_idle((self.settings.now)());
        if self.peers.is_some() {
            // Another server dropped them.
            let catalog = self.settings.database.catalog();
            self.moments.keep(|collection| catalog.collection_by_id(collection).is_some());
        }
        self.settings.database.trim();
    }
}

/// One call.
pub(super) struct Call {
    door: Arc<FrontendContext>,
    /// The database that was named beside the request.
    database: Option<String>,
    /// The collection that it is about.
    about: OnceCell<CollectionId>,
    /// Who calls, where it is asked.
    user: Option<String>,
    /// The privilege that it needs, where it tells what there is.
    told_by: Option<&'static str>,
    /// Its id, where it has one, and what it was answered by, when it came before or is applied.
    request: Option<RequestId>,
    answer: OnceCell<RequestAnswer>,
    /// Whether it was applied before.
    is_repeated: Cell<bool>,
    /// The memory of its messages.
    _held: Option<CallMemory>,
}

impl Call {
    pub(super) fn new<Req>(door: Arc<FrontendContext>, name: &str, request: &Request<Req>) -> Self {
        let database = named_database(request.metadata()).map(str::to_owned);
        let user = request.extensions().get::<CallerName>().map(|CallerName(user)| user.clone());
        let held = request.extensions().get::<CallMemory>().cloned();
        let told_by = told_by(name);
        let request = repeats::id_in(request.metadata().as_ref());
        Self { request, user, told_by, _held: held, database, ..Self::within(door) }
    }

    /// A call from within the process; it names its database in the request, if any.
    pub(super) fn within(door: Arc<FrontendContext>) -> Self {
        let (database, user, told_by) = (None, None, None);
        Self {
            door,
            database,
            about: OnceCell::new(),
            user,
            told_by,
            request: None,
            answer: OnceCell::new(),
            is_repeated: Cell::new(false),
            _held: None,
        }
    }

    /// What it is answered by, where a call of its id was applied before.
    pub(super) fn applied(&self) -> Option<RequestAnswer> {
        self.answer.get().filter(|_| self.is_repeated.get()).copied()
    }

    /// Its change is made, and would be answered so again.
    pub(super) fn has_applied(&self, answer: RequestAnswer) {
        self.answer.get_or_init(|| answer);
    }

    /// Answers it, so that its change is made once, however often a call of its id comes. One that was
    /// made before is answered alike.
    pub(super) fn once<Res: Response>(
        &self,
        name: &str,
        answer: impl FnOnce() -> Result<Res, CallFailure>,
    ) -> Result<Res, CallFailure> {
        let Some(id) = self.request else { return answer() };
        let requests = self.database().requests();
        let _under_way = match requests.begin(id) {
            BegunRequest::New(under_way) => under_way,
            BegunRequest::Applied(_) if !WRITES.contains(&name) => return Ok(Res::default()),
            BegunRequest::Applied(before) => {
                self.has_applied(before);
                self.is_repeated.set(true);
                return answer();
            }
        };
        let request = CurrentRequest { id, at_ms: self.now().0 };
        let outcome = requests::within(Some(request), answer);
        if outcome.is_ok() {
            // What servers share knows it already.
            requests.remember(request.applied(self.answer.get().copied().unwrap_or_default()));
        }
        outcome
    }

    /// Whether it failed since this server leads no more: who leads next knows whether its change is made.
    fn is_unsettled(&self) -> bool {
        let over = || self.database().leadership().is_some_and(|leadership| leadership.is_over());
        self.request.is_some() && over()
    }

    /// Who calls: `root` where nobody is asked.
    pub(super) fn user(&self) -> &str {
        self.user.as_deref().unwrap_or(ROOT)
    }

    /// Whether it is asked who calls.
    pub(super) fn is_known(&self) -> bool {
        self.user.is_some()
    }

    /// Whether what is read before it is loaded is loaded then.
    pub(super) fn loads_what_is_read(&self) -> bool {
        self.door.auto_load
    }

    pub(super) fn database(&self) -> &Database {
        &self.door.settings.database
    }

    /// Who has tried wrong passwords lately.
    pub(super) fn attempts(&self) -> &Attempts {
        &self.door.attempts
    }

    /// The other servers, where there are some.
    pub(super) fn peers(&self) -> Option<&Arc<dyn Peers>> {
        self.door.peers.as_ref()
    }

    pub(super) fn now(&self) -> UnixMs {
        (self.door.settings.now)()
    }

    /// A timestamp later than all before; for what was written, asked when it is visible. Of several
    /// servers, what it promises is the others' too: see [`Peers`].
    pub(super) fn timestamp(&self) -> u64 {
        match &self.door.peers {
            Some(peers) => even(peers.timestamp()),
            None => self.door.timestamps.next(self.now()),
        }
    }

    /// The moment that a read is of, where it is not now, and the timestamp of its answer. A read
    /// that `iterates` and names no moment begins one.
    pub(super) fn moment(
        &self,
        collection: &Collection,
        named: u64,
        iterates: bool,
    ) -> Result<(Option<Arc<PinnedSnapshot>>, u64), CallFailure> {
        let (id, now) = (collection.entry()?.id, self.now());
        let moments = &self.door.moments;
        let owner = self.door.peers.as_ref().map(|peers| peers.number());
        if let Some(moment) = moments.find(id, named, now) {
            return Ok((Some(moment), named));
        }
        match (iterates, is_moment(named)) {
            (false, _) => Ok((None, self.timestamp())),
            (true, true) => {
                tracing::debug!(named, "the moment of an iterator is kept no more; it reads on");
                Ok((None, named))
            }
            (true, false) => {
                let (moment, timestamp) =
                    moments.begin(collection, (self.timestamp(), owner), now)?;
                Ok((Some(moment), timestamp))
            }
        }
    }

    /// See [`Moments::border`].
    pub(super) fn border(&self, timestamp: u64, distance: f32) -> Arc<[RowId]> {
        self.door.moments.border(timestamp, distance)
    }

    /// See [`Moments::note_border`].
    pub(super) fn note_border(&self, timestamp: u64, distance: f32, rows: Arc<[RowId]>) {
        self.door.moments.note_border(timestamp, distance, rows);
    }

    /// A collection is no more.
    pub(super) fn forget(&self, collection: CollectionId) {
        self.door.moments.forget(collection);
    }

    /// A number that no other client has.
    pub(super) fn session(&self) -> i64 {
        self.door.sessions.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn catalog(&self) -> Arc<Snapshot> {
        self.database().catalog()
    }

    /// What of the catalogue the caller may be told.
    pub(super) fn sight(&self) -> Sight<'_> {
        let access = self.database().access();
        let viewer = |user| Viewer { access, user, privilege: self.told_by };
        Sight::new(self.catalog(), self.user.as_deref().map(viewer))
    }

    /// What is there for the call: what its caller may see where it tells what there is. All others
    /// were let pass by what they name.
    fn found(&self) -> Sight<'_> {
        match self.told_by {
            Some(_) => self.sight(),
            None => Sight::new(self.catalog(), None),
        }
    }

    /// The name of the database that is meant, where the request names this one or none.
    pub(super) fn database_name<'s>(&'s self, given: &'s str) -> &'s str {
        match given {
            "" => self.database.as_deref().unwrap_or(DEFAULT_DATABASE),
            given => given,
        }
    }

    /// Where a collection of this name stands, if it can have it.
    pub(super) fn place(
        &self,
        database: &str,
        collection: String,
    ) -> Result<CollectionPath, CallFailure> {
        names::collection(&collection)?;
        Ok(CollectionPath::new(self.database_name(database), collection))
    }

    pub(super) fn entry(
        &self,
        database: &str,
        collection: &str,
    ) -> Result<Arc<Entry>, CallFailure> {
        names::collection(collection)?;
        let database = self.database_name(database);
        let entry = Arc::clone(self.found().collection(database, collection)?);
        // Calls about several count for the first.
        self.about.get_or_init(|| entry.id);
        Ok(entry)
    }

    /// What is counted of the collection that it is about.
    pub(super) fn collection_counts(&self) -> Option<Arc<OfCollection>> {
        self.about.get().map(|collection| self.door.metrics.of(*collection))
    }

    /// Counts the call, and makes the answer of its outcome.
    pub(super) fn counted<Res: Response>(
        &self,
        name: &'static str,
        outcome: Result<Res, CallFailure>,
    ) -> GrpcResponse<Res> {
        let outcome = outcome.and_then(|answer| {
            let bytes = answer.encoded_len();
            let fits = bytes <= MAX_ANSWER_BYTES;
            fits.then_some(answer).ok_or_else(|| CallFailure::too_large(bytes, MAX_ANSWER_BYTES))
        });
        let code = outcome.as_ref().err().map_or(0, |failure| failure.code.number());
        self.door.metrics.called(name, self.about.get().copied(), code);
        let outcome = outcome.map_err(|failure| match &self.door.hidden {
            Some(dir) => failure.without_path(name, dir),
            None => failure,
        });
        let unsettled = outcome.is_err() && self.is_unsettled();
        let mut response = GrpcResponse::new(Res::of(outcome));
        if unsettled {
            response.metadata_mut().insert(UNSETTLED, MetadataValue::from_static("true"));
        }
        response.extensions_mut().insert(AnswerCode(code));
        response
    }

    /// A text for someone on another machine, who has no use for where files of this one are.
    pub(super) fn without_path(&self, text: String) -> String {
        match &self.door.hidden {
            Some(dir) => text.replace(dir.as_str(), "the data directory"),
            None => text,
        }
    }

    /// By name, or by id where there is no name.
    pub(super) fn named_or_numbered(
        &self,
        database: &str,
        (collection, id): (&str, i64),
    ) -> Result<Arc<Entry>, CallFailure> {
        let found = self.found();
        let numbered = found.collection_by_id(CollectionId(id.cast_unsigned()));
        match numbered.filter(|_| collection.is_empty()) {
            Some(entry) => Ok(Arc::clone(entry)),
            None if collection.is_empty() && id != 0 => Err(CallFailure::new(
                Code::CollectionNotFound,
                format!("collection not found[collection={id}]"),
            )),
            None => self.entry(database, collection),
        }
    }

    pub(super) fn collection(
        &self,
        database: &str,
        collection: &str,
    ) -> Result<Arc<Collection>, CallFailure> {
        names::collection(collection)?;
        Ok(self.database().collection(self.database_name(database), collection)?)
    }
}

#[cfg(test)]
mod tests {
    use pipeann_db::catalog::{EntryChange, NewCollection};
    use pipeann_db::collection::{Filter, SearchRequest};
    use pipeann_db::database::DatabaseOptions;
    use pipeann_db::ids::{Metric, VectorType};
    use pipeann_db::schema::{Batch, FieldSpec, Schema};
    use pipeann_db::value::{Column, ColumnValues, DataType, DenseVectors, ScalarType, VectorKind};
    use pipeann_engine::memory::{Accountant, Pool};
    use pipeann_engine::types::VectorSet;

    use super::*;

    #[test]
    fn what_nobody_asks_for_between_two_tidyings_is_returned() {
        let dir = tempfile::tempdir().unwrap();
        let accountant = Accountant::new(None);
        let now = || UnixMs(1_000_000);
        let mut options = DatabaseOptions::new(now);
        options.collection.accountant = Arc::clone(&accountant);
        let database = Arc::new(Database::open(dir.path(), options).unwrap());
        let id = FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key();
        let v = FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(2);
        let schema = Schema::builder().field(id).field(v).build().unwrap();
        let new = NewCollection::new(schema);
        let collection = database.create_collection("default", "c", new).unwrap();
        let place = CollectionPath::new("default", "c");
        database.apply(EntryChange::Load { place, partitions: None }).unwrap();
        let bytes: Vec<u8> = (0..2 * 100u16).flat_map(|x| f32::from(x).to_le_bytes()).collect();
        let vectors = DenseVectors::new(VectorKind::Float, 2, bytes.clone()).unwrap();
        let columns = vec![
            Column::new("id", ColumnValues::Int64((0..100).collect())),
            Column::new("v", ColumnValues::Dense(vectors)),
        ];
        collection.insert(Batch { rows: 100, columns }, None).unwrap();
        let queries = VectorSet::new(&bytes[..8], 2, VectorType::F32).unwrap();
        let search = SearchRequest {
            metric: Some(Metric::L2),
            filter: Some(Filter::new("id < 20")),
            ..SearchRequest::new("v", queries, 5)
        };
        assert_eq!(collection.search(&search).unwrap().hits[0].len(), 5);

        let kept = accountant.pool_bytes(Pool::Postings);
        let settings = FrontendSettings { database, now: Arc::new(now) };
        let door = FrontendContext::new(settings, SchedulerOptions::default());
        door.tidy();
        assert_eq!(accountant.pool_bytes(Pool::Postings), kept, "it was asked for before");
        door.tidy();
        assert!(accountant.pool_bytes(Pool::Postings) < kept, "of {kept} bytes");
    }
}
