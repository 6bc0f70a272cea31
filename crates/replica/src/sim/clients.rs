//! Clients, and the way of a change from the server that was called to the one that leads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pipeann_db::catalog::{CatalogError, NewCollection};
use pipeann_db::collection::{RowQuery, keys_of_request};
use pipeann_db::database::{Database, DatabaseError};
use pipeann_db::replication::requests::{self, BegunRequest, CurrentRequest, RequestId};
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{
    Column, ColumnValues, DataType, DenseVectors, ScalarType, Value, VectorKind,
};

use super::history::{RegisterEffect, RegisterOperation};
use super::servers::{Cluster, RunningServer};
use super::world::ServerWorld;
use crate::planted::ServerFault;
use crate::{Elected, ReadFreshness};

/// How long a call goes on.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between attempts of a call.
const AGAIN: Duration = Duration::from_millis(50);
/// Messages between servers that are lost, in a thousand.
const LOST: u64 = 30;
/// How much older a bounded read may be than its begin.
const STALENESS: Duration = Duration::from_secs(1);

/// Registers from this number on are collections that are there, with the value 1, or are not.
const COLLECTIONS: i64 = 2000;

/// What a client changes.
#[derive(Clone, Copy, Debug)]
pub(super) enum ClientChange {
    /// A key has a value, or none.
    Key(i64, Option<i64>),
    /// A row whose key the server gives.
    Row(i64),
    /// A collection of this number is there, or is not.
    Collection(i64, bool),
    /// A collection of this number has a row.
    Within(i64),
}

/// What was made of a change.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// It is made; the key of the row, where it was given one, and the leader's timestamp.
    Made { key: Option<PrimaryKey>, timestamp: u64 },
    /// Nobody knows.
    Unknown,
    /// It was not sent to anybody.
    Unsent,
}

/// A read of a key that may lack what was answered lately.
#[derive(Debug)]
pub(super) struct BoundedRead {
    pub(super) key: i64,
    pub(super) seen: Option<i64>,
    /// All that was answered up to this number has to be in it.
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// All that clients saw.
#[derive(Default)]
pub(super) struct History {
    pub(super) operations: BTreeMap<i64, Vec<RegisterOperation>>,
    pub(super) bounded: Vec<BoundedRead>,
    /// Rows that were asked for, and the keys that they got where that was answered.
    pub(super) rows: BTreeMap<i64, Option<PrimaryKey>>,
    pub(super) wrong: Option<String>,
    pub(super) happened: BTreeMap<&'static str, u64>,
    /// The time of each number that was given out.
    ticks: Vec<Duration>,
}

impl History {
    /// A number above all before.
    fn tick(&mut self, now: Duration) -> u64 {
        let before = self.ticks.last().copied().unwrap_or_default();
        self.ticks.push(now.max(before));
        self.ticks.len() as u64
    }

    /// The last number up to a time.
    fn number_at(&self, time: Duration) -> u64 {
        self.ticks.partition_point(|at| *at <= time) as u64
    }
}

/// The operations of one run.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) cluster: Arc<Cluster>,
    pub(super) history: Arc<Mutex<History>>,
}

impl Clients {
    fn world(&self) -> &Arc<ServerWorld> {
        &self.cluster.world
    }

    pub(super) fn count(&self, what: &'static str) {
        *self.history.lock().unwrap().happened.entry(what).or_default() += 1;
    }

    pub(super) fn wrong(&self, why: String) {
        self.history.lock().unwrap().wrong.get_or_insert(why);
    }

    /// A number above all before.
    fn tick(&self) -> u64 {
        let now = self.world().now();
        self.history.lock().unwrap().tick(now)
    }

    fn note(&self, key: i64, effect: RegisterEffect, begin: u64, end: Option<u64>) {
        let operation = RegisterOperation { effect, begin, end };
        self.history.lock().unwrap().operations.entry(key).or_default().push(operation);
    }

    /// A client's life: so many calls, to any server.
    pub(super) fn call(&self, client: i64, calls: u64, keys: u64) {
        // A key that nobody else writes, and what it was written and seen with last.
        let own = 1000 + client;
        let mut written: Option<(i64, u64)> = None;
        // A collection that nobody else makes or drops; the next one has another name.
        let mut made = COLLECTIONS + 1000 * client;
        for call in 0..calls {
            self.world().pause(Duration::from_millis(600));
            let value = (client + 1) * 10_000 + call as i64;
            let key = self.world().below(keys) as i64;
            match self.world().below(13) {
                0..=2 => drop(self.write(key, Some(value))),
                3 => drop(self.write(key, None)),
                4..=5 => self.read(key),
                6 => self.read_bounded(key),
                7 => self.insert(value),
                8 => {
                    written = match self.write(own, Some(value)) {
                        Outcome::Made { timestamp, .. } => Some((value, timestamp)),
                        Outcome::Unknown => None,
                        Outcome::Unsent => written,
                    };
                }
                9..=10 => {
                    if let Some((value, timestamp)) = written {
                        self.read_own(own, value, timestamp);
                    }
                }
                11 => {
                    self.make_and_drop(made);
                    made += 1;
                }
                _ => self.read_collection(),
            }
        }
    }

    /// A collection comes, has a row, and is dropped, where all of that is answered.
    fn make_and_drop(&self, number: i64) {
        let change = |effect, change| {
            let begin = self.tick();
            let outcome = self.change(change);
            self.note_write(number, effect, begin, &outcome);
            matches!(outcome, Outcome::Made { .. })
        };
        if change(Some(1), ClientChange::Collection(number, true)) {
            self.count("collections");
            self.change(ClientChange::Within(number));
            self.world().pause(Duration::from_secs(2));
            if self.world().happens(700) {
                change(None, ClientChange::Collection(number, false));
            }
        }
    }

    /// Whether a collection that somebody has made is there, at any server.
    fn read_collection(&self) {
        let numbers: Vec<i64> =
            self.history.lock().unwrap().operations.range(COLLECTIONS..).map(|it| *it.0).collect();
        if !numbers.is_empty() {
            let number = numbers[self.world().below(numbers.len() as u64) as usize];
            self.read(number);
        }
    }

    fn write(&self, key: i64, value: Option<i64>) -> Outcome {
        let begin = self.tick();
        let outcome = self.change(ClientChange::Key(key, value));
        self.note_write(key, value, begin, &outcome);
        outcome
    }

    fn note_write(&self, key: i64, value: Option<i64>, begin: u64, outcome: &Outcome) {
        let end = self.tick();
        match outcome {
            Outcome::Made { .. } => self.note(key, RegisterEffect::Write(value), begin, Some(end)),
            Outcome::Unknown => self.note(key, RegisterEffect::Write(value), begin, None),
            Outcome::Unsent => {}
        }
    }

    fn insert(&self, value: i64) {
        match self.change(ClientChange::Row(value)) {
            Outcome::Made { key, .. } => {
                self.history.lock().unwrap().rows.insert(value, key);
            }
            Outcome::Unknown => {
                self.history.lock().unwrap().rows.insert(value, None);
            }
            Outcome::Unsent => {}
        }
    }

    /// A strong read by any server.
    fn read(&self, key: i64) {
        let Some(server) = self.any() else { return };
        let begin = self.tick();
        if let Some(value) = self.seen(&server, key, ReadFreshness::Latest) {
            self.count("strong reads");
            self.note(key, RegisterEffect::Read(value), begin, Some(self.tick()));
        }
    }

    /// A read by any server that may lack what was answered lately.
    fn read_bounded(&self, key: i64) {
        let Some(server) = self.any() else { return };
        let before = self.world().now().saturating_sub(STALENESS);
        let begin = self.history.lock().unwrap().number_at(before);
        let wanted = ReadFreshness::Bounded { staleness: STALENESS, at_least: 0 };
        if let Some(seen) = self.seen(&server, key, wanted) {
            self.count("bounded reads");
            let read = BoundedRead { key, seen, begin, end: self.tick() };
            self.history.lock().unwrap().bounded.push(read);
        }
    }

    /// What a read of a key sees at a server; nothing where it is not answered.
    fn seen(&self, server: &RunningServer, key: i64, wanted: ReadFreshness) -> Option<Option<i64>> {
        let read = server.life.within(|| {
            server.replica.catch_up(wanted, deadline_of(self.world())).ok()?;
            value_of(server, key)
        });
        read.filter(|_| !server.life.is_killed())
    }

    /// A read of one's own last write, by any server.
    fn read_own(&self, key: i64, value: i64, timestamp: u64) {
        let Some(server) = self.any() else { return };
        let begin = self.tick();
        if let Some(read) = self.seen(&server, key, ReadFreshness::AtLeast(timestamp)) {
            self.count("reads of own writes");
            self.note(key, RegisterEffect::Read(read), begin, Some(self.tick()));
            if read != Some(value) {
                let seen = (&server.replica, server.replica.status());
                self.wrong(format!(
                    "{key} was written {value} at {timestamp} and is read {read:?} at {seen:?}"
                ));
            }
        }
    }

    fn any(&self) -> Option<Arc<RunningServer>> {
        let sites = &self.cluster.sites;
        sites[self.world().below(sites.len() as u64) as usize].server()
    }

    /// Sends a change to any server, which sends it on until it is answered.
    pub(super) fn change(&self, change: ClientChange) -> Outcome {
        let Some(edge) = self.any() else { return Outcome::Unsent };
        let mut id = self.new_id();
        let until = self.world().now() + PATIENCE;
        while self.world().now() < until {
            if edge.life.is_killed() {
                return Outcome::Unknown;
            }
            let leader = match edge.replica.elected() {
                Elected::Me => Some(Arc::clone(&edge)),
                Elected::Other { address } => self.cluster.at(&address),
                Elected::Nobody { .. } => None,
            };
            if let Some(leader) = leader
                && let Some(made) = self.send(&edge, &leader, id, change)
            {
                self.count("changes");
                return if edge.life.is_killed() { Outcome::Unknown } else { made };
            }
            self.world().wait(AGAIN);
            if self.cluster.planted == Some(ServerFault::RepeatedWithoutId) {
                id = self.new_id();
            }
        }
        Outcome::Unknown
    }

    fn new_id(&self) -> RequestId {
        let (high, low) = (self.world().below(u64::MAX), self.world().below(u64::MAX));
        RequestId((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
    }

    /// One attempt; the request or its answer may be lost.
    fn send(
        &self,
        edge: &Arc<RunningServer>,
        leader: &Arc<RunningServer>,
        id: RequestId,
        change: ClientChange,
    ) -> Option<Outcome> {
        let is_sent = !Arc::ptr_eq(edge, leader);
        let travels = || {
            self.world().pause(Duration::from_millis(5));
            !is_sent || !self.world().happens(LOST)
        };
        if !travels() {
            return None;
        }
        let made = leader.life.within(|| made_by(leader, id, self.world(), change));
        if leader.life.is_killed() || !travels() {
            self.count("answers lost");
            self.cluster.restart_who_forgets(edge);
            return None;
        }
        made
    }
}

/// How long a server tries to be sure of something.
fn deadline_of(world: &ServerWorld) -> Instant {
    world.instant() + Duration::from_secs(10)
}

/// What a server makes of a change that it was sent.
fn made_by(
    server: &RunningServer,
    id: RequestId,
    world: &ServerWorld,
    change: ClientChange,
) -> Option<Outcome> {
    let database = server.replica.database();
    let at_ms = 1_700_000_000_000 + world.now().as_millis() as u64;
    // As a server does before each call that only the leader answers.
    server.replica.confirm_lead(deadline_of(world)).ok()?;
    let key = match database.requests().begin(id) {
        BegunRequest::Applied(answer) => match change {
            ClientChange::Row(value) => {
                let batch = row(None, value);
                let collection = database.collection("default", "rows").ok()?;
                keys_of_request(&collection.entry().ok()?.schema, &batch, answer).pop()
            }
            _ => None,
        },
        BegunRequest::New(_under_way) => {
            let request = Some(CurrentRequest { id, at_ms });
            requests::within(request, || apply(database, change))?
        }
    };
    Some(Outcome::Made { key, timestamp: server.replica.timestamp() })
}

fn apply(database: &Database, change: ClientChange) -> Option<Option<PrimaryKey>> {
    let collection = |name: &str| database.collection("default", name).ok();
    match change {
        ClientChange::Key(key, Some(value)) => {
            collection("keys")?.upsert(row(Some(key), value), None).ok()?;
        }
        ClientChange::Key(key, None) => {
            collection("keys")?.delete(&[PrimaryKey::Int64(key)]).ok()?;
        }
        ClientChange::Row(value) => {
            let inserted = collection("rows")?.insert(row(None, value), None);
            return Some(inserted.ok()?.keys.pop());
        }
        ClientChange::Collection(number, true) => {
            let new = NewCollection::new(schema(false));
            database.create_collection("default", &name_of(number), new).ok()?;
        }
        ClientChange::Collection(number, false) => {
            match database.drop_collection("default", &name_of(number)) {
                // Somebody has asked for it before.
                Err(DatabaseError::Catalog(CatalogError::NotFound { .. })) => {}
                dropped => dropped.ok()?,
            }
        }
        ClientChange::Within(number) => {
            collection(&name_of(number))?.upsert(row(Some(1), number), None).ok()?;
        }
    }
    Some(None)
}

fn name_of(collection: i64) -> String {
    format!("c{collection}")
}

/// That of all collections; keys are those of clients, or given by servers.
pub(super) fn schema(gives: bool) -> Schema {
    let key = FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key();
    Schema::builder()
        .field(if gives { key.auto_id() } else { key })
        .field(FieldSpec::new("n", DataType::Scalar(ScalarType::Int64)))
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(2))
        .build()
        .expect("it is a schema")
}

/// A row with a value, and a key where it is not given one.
fn row(key: Option<i64>, value: i64) -> Batch {
    let bytes = [value as f32, 1.0].into_iter().flat_map(f32::to_le_bytes).collect();
    let vector = DenseVectors::new(VectorKind::Float, 2, bytes).expect("one vector of two");
    let mut columns = vec![
        Column::new("n", ColumnValues::Int64(vec![value])),
        Column::new("v", ColumnValues::Dense(vector)),
    ];
    columns.extend(key.map(|key| Column::new("id", ColumnValues::Int64(vec![key]))));
    Batch { rows: 1, columns }
}

fn number(values: &[Value]) -> i64 {
    match values {
        [Value::Int64(value)] => *value,
        other => panic!("one number is read and not {other:?}"),
    }
}

/// The value of a key at a server, or of a collection that is there; none where it cannot be read there.
pub(super) fn value_of(server: &RunningServer, key: i64) -> Option<Option<i64>> {
    if key >= COLLECTIONS {
        let found = server.replica.database().collection("default", &name_of(key));
        return Some(found.is_ok().then_some(1));
    }
    let collection = server.replica.database().collection("default", "keys").ok()?;
    let rows = collection.get(&[PrimaryKey::Int64(key)], &["n"]).ok()?;
    Some(rows.first().map(|row| number(&row.values)))
}

/// All rows of a collection at a server: keys and values.
pub(super) fn rows_of(
    server: &RunningServer,
    name: &str,
) -> Result<Vec<(PrimaryKey, i64)>, String> {
    let collection = server.replica.database().collection("default", name);
    let collection = collection.map_err(|error| error.to_string())?;
    let query = RowQuery { fields: &["n"], ..RowQuery::default() };
    let rows = collection.query(&query).map_err(|error| error.to_string())?;
    let mut rows: Vec<_> = rows
        .into_iter()
        .map(|row| {
            let n = number(&row.values);
            (row.key, n)
        })
        .collect();
    rows.sort_by_key(|(_, value)| *value);
    Ok(rows)
}
