//! The thread of a server: it reads the log and applies it, and leads while it is elected.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pipeann_db::catalog::UnixMs;
use pipeann_db::collection::CollectionError;
use pipeann_db::database::{Database, DatabaseError};
use pipeann_db::replication::{SharedLog, SharedLogError};
use pipeann_db::wal::WalError;
use pipeann_store::{Batch, LeaderName, LogError, Position, ShardId, ShardLeader, ShardReader};

use crate::ReplicaError;
use crate::codec::{KIND_ACCESS, decode};
use crate::commits::CommitTally;
use crate::election::Elected;
use crate::group::SharedObjects;
use crate::objects::{TermObjects, TermTime, moment};
use crate::options::ReplicaOptions;
#[cfg(test)]
use crate::planted::ServerFault;
use crate::position::ReplicaFile;
use crate::requests_file::RequestsFile;
use crate::state::{ReadFreshness, SharedState, WorkSignal};

/// The one log of a cluster.
pub(crate) const SHARD: ShardId = ShardId(0);
/// Looks that found nothing, before they become fewer.
const QUIET: u32 = 5;
/// How often it is asked meanwhile who is elected.
const ELECTION_LOOK: Duration = Duration::from_millis(100);
/// Wait after something went wrong, before it is tried again.
const REST: Duration = Duration::from_millis(500);

/// What the thread has.
pub(crate) struct LogWork {
    pub(crate) dir: PathBuf,
    pub(crate) database: Arc<Database>,
    pub(crate) options: ReplicaOptions,
    pub(crate) now: Arc<dyn Fn() -> UnixMs + Send + Sync>,
    pub(crate) state: Arc<SharedState>,
    /// The terms that this server leads by.
    pub(crate) terms: Arc<Mutex<LedTerms>>,
    pub(crate) tally: Arc<CommitTally>,
    pub(crate) file: ReplicaFile,
    pub(crate) requests: RequestsFile,
    pub(crate) noted: Instant,
    pub(crate) opened: Instant,
    /// The log is read from its begin, and its end was not seen since.
    pub(crate) from_begin: bool,
}

/// A term that this server has opened, and does not lead by yet.
struct OpenedTerm {
    leader: Arc<ShardLeader>,
    /// The greatest timestamp before it.
    newest: u64,
}

/// A term that this server leads by.
#[derive(Clone)]
pub(crate) struct LedTerm {
    pub(crate) leader: Arc<ShardLeader>,
    pub(crate) time: Arc<TermTime>,
    pub(crate) log: Arc<SharedObjects>,
    /// The election by which it was opened.
    pub(crate) election: u64,
}

impl LedTerm {
    /// Whether the server has what a read asks for, also if another one leads by now.
    pub(crate) fn has(&self, wanted: ReadFreshness) -> bool {
        match wanted {
            ReadFreshness::Any => true,
            ReadFreshness::AtLeast(timestamp) => self.time.applied().1 >= timestamp,
            ReadFreshness::Bounded { .. } | ReadFreshness::Latest => false,
        }
    }
}

/// The term that this server leads by, and the last one until somebody has seen that it is over.
#[derive(Default)]
pub(crate) struct LedTerms {
    pub(crate) now: Option<LedTerm>,
    pub(crate) last: Option<LedTerm>,
}

impl LogWork {
    /// Works until the server ends.
    pub(crate) fn run(mut self) {
        let mut from = self.file.position();
        while !self.state.is_stopping() && !self.state.has_died() {
            let worked = match self.follow(from) {
                // Elected, with all of the log up to there.
                Ok(position) if !self.state.is_stopping() => self.lead(position),
                Ok(_) => break,
                Err(error) => Err(error),
            };
            from = match worked {
                Ok(position) => position,
                Err(error) => {
                    // Until this one stands again, which it does at the log's end.
                    self.options.election.give_up();
                    self.recover(from, &error)
                }
            };
        }
        self.note_position(true);
    }

    /// Does what is left to do after an error; returns where it is to be read on.
    fn recover(&mut self, from: Option<Position>, error: &ReplicaError) -> Option<Position> {
        let reached = self.state.status().position.or(from);
        match error {
            ReplicaError::Log(LogError::Cut { .. }) => {
                self.cut_off("the log was cut beyond what this server has".into());
                from
            }
            // Its own history is none of the log's. Nothing of the log may be applied to it, where records
            // of the same numbers would be passed over: a generation takes its place, or nothing can.
            ReplicaError::Log(LogError::Diverged { .. }) => {
                self.cut_off("what this server has is not in the log".into());
                from
            }
            error if is_gap(error) && self.from_begin => {
                // Once more would end here again.
                self.forget_position(true);
                self.state.trouble(error.to_string());
                self.state.cut_off();
                self.state.die(ReplicaError::Misfit { dir: self.dir.clone() }.to_string());
                self.ask_to_be_opened();
                None
            }
            error if is_gap(error) => {
                self.forget_position(false);
                self.from_begin = true;
                None
            }
            error => {
                let stopped = self.database.stopped();
                match stopped.or_else(|| is_stopped(error).then(|| error.to_string())) {
                    Some(why) => self.reopen(why),
                    None => {
                        self.state.trouble(error.to_string());
                        self.state.rest(REST);
                    }
                }
                reached
            }
        }
    }

    /// Says that something else has to take the place of what it has, and rests.
    fn cut_off(&self, why: String) {
        self.state.trouble(why);
        self.state.cut_off();
        self.ask_to_be_opened();
        self.state.rest(REST);
    }

    /// Says that it has to be opened anew since the disk has failed, which it may do again: not at once.
    fn reopen(&self, why: String) {
        self.state.trouble(why);
        let ReplicaOptions { time, reopen_after, .. } = &self.options;
        if self.state.rest(reopen_after.saturating_sub(time.since(self.opened))) == WorkSignal::Look
        {
            self.ask_to_be_opened();
            self.state.rest(REST);
        }
    }

    fn ask_to_be_opened(&self) {
        if let Some(told) = &self.options.cut_off {
            // It may have been told already, or have gone.
            let _ = told.try_send(());
        }
    }

    /// Reads and applies until this server is elected, or ends; returns how far it has come.
    fn follow(&mut self, from: Option<Position>) -> Result<Option<Position>, ReplicaError> {
        let mut reader = ShardReader::open(&self.options.store, SHARD, from)?;
        if let (Some(position), Some(stamp)) = (reader.position(), reader.stamp()) {
            // It is applied, and reads by its timestamp need nothing that comes behind it.
            self.state.applied(position, stamp.timestamp);
        }
        let mut quiet = 0;
        loop {
            let before = reader.position();
            let (reading, listings) = (self.state.begin_read(), reader.listings());
            let mut more = false;
            while let Some(batch) = reader.next()? {
                #[cfg(test)]
                if self.options.planted == Some(ServerFault::SaidBeforeApplied) {
                    self.state.applied(batch.position, batch.timestamp);
                    self.state.rest(Duration::from_millis(50));
                }
                self.apply(&batch)?;
                self.state.applied(batch.position, batch.timestamp);
                if self.state.is_stopping() {
                    return Ok(reader.position());
                }
                self.note_position(false);
                // Those who wait do not wait for what comes all the time behind that.
                more = reader.listings() > listings && reader.has_given_all_listed();
                if more {
                    break;
                }
            }
            #[cfg(test)]
            let reading = if self.options.planted == Some(ServerFault::EndSeenBefore) {
                self.state.begin_read()
            } else {
                reading
            };
            self.state.end_read(reading);
            self.from_begin = false;
            self.note_position(false);
            self.options.election.stand(reader.position().map_or(0, |position| position.term));
            if self.is_elected() {
                return Ok(reader.position());
            }
            quiet = if reader.position() == before { quiet + 1 } else { 0 };
            if !more && self.pause(quiet) == WorkSignal::Stop {
                return Ok(reader.position());
            }
        }
    }

    /// Waits until the log is to be looked at, after so many looks that found nothing. That this server is
    /// elected meanwhile is no reason to wait.
    fn pause(&self, quiet: u32) -> WorkSignal {
        let ReplicaOptions { poll, idle_poll, .. } = self.options;
        let time = &self.options.time;
        let until = time.now() + if quiet < QUIET { poll } else { idle_poll };
        loop {
            let left = time.until(until);
            let slice = left.min(ELECTION_LOOK);
            let began = time.now();
            let signal = self.state.wait(slice);
            let is_asked = time.since(began) < slice;
            if signal == WorkSignal::Stop || is_asked || self.is_elected() || left <= slice {
                return signal;
            }
        }
    }

    fn is_elected(&self) -> bool {
        self.options.election.elected() == Elected::Me
    }

    /// Whether it is elected still by this election. It may have been another server since, and this one
    /// again: then the log may be longer.
    fn is_elected_as(&self, election: u64) -> bool {
        self.options.election.elected_as() == Some(election)
    }

    /// Reads the log to its end and opens a term there; `None` where this server is not elected any more
    /// by then: it may have been stopped or asleep, and its opening would end the term of who is.
    fn open_term(
        &self,
        from: Option<Position>,
        election: u64,
    ) -> Result<Option<OpenedTerm>, ReplicaError> {
        let name = LeaderName::new(self.options.name.clone())?;
        let mut newest = self.state.status().timestamp;
        let mut take = |batch: Batch| {
            #[cfg(test)]
            if self.options.planted == Some(ServerFault::OpeningNotApplied) {
                return Ok(());
            }
            self.apply(&batch)?;
            self.state.applied(batch.position, batch.timestamp);
            newest = newest.max(batch.timestamp);
            Ok(())
        };
        let (store, mut is_wanted) = (&self.options.store, || self.is_elected_as(election));
        let opened = ShardLeader::open_while(store, SHARD, from, &name, &mut is_wanted, &mut take)?;
        Ok(opened.map(|leader| {
            let newest = newest.max(leader.stamp().timestamp);
            OpenedTerm { leader: Arc::new(leader), newest }
        }))
    }

    /// Opens a term and leads until it is over; returns how far the log was applied.
    fn lead(&mut self, from: Option<Position>) -> Result<Option<Position>, ReplicaError> {
        // By the election of now: whoever led before it has put what is read here.
        let election = self.options.election.elected_as();
        let opened = election.map(|election| self.open_term(from, election)).transpose()?.flatten();
        let (Some(election), Some(OpenedTerm { leader, newest })) = (election, opened) else {
            self.options.election.give_up();
            return Ok(self.state.status().position.or(from));
        };
        let opened = (leader.position(), newest);
        if !self.is_elected_as(election) {
            let (position, timestamp) = opened;
            self.state.applied(position, timestamp);
            self.options.election.give_up();
            return Ok(Some(position));
        }
        let term = leader.term();
        let changes = self.database.leadership().map(|it| Arc::clone(it.under_way()));
        let changes = changes.expect("the database of a replica is shared");
        let time = Arc::new(TermTime::after(opened, Arc::clone(&self.now), changes));
        let objects = TermObjects {
            leader: Arc::clone(&leader),
            time: Arc::clone(&time),
            revision: AtomicU64::new(self.database.catalog().revision()),
            state: Arc::clone(&self.state),
            tally: Arc::clone(&self.tally),
            #[cfg(test)]
            planted: self.options.planted,
        };
        let state = Arc::clone(&self.state);
        let ReplicaOptions { time: time_of_log, put_gap, object_changes, .. } = &self.options;
        let told = move || state.nudge();
        let log = SharedObjects::new(
            Box::new(objects),
            time_of_log.clone(),
            *put_gap,
            *object_changes,
            told,
        );
        self.database.lead(Arc::clone(&log) as Arc<dyn SharedLog>)?;
        tracing::info!(term, "this server leads");
        let log_of_term = Arc::clone(&log);
        self.set_term(Some(LedTerm {
            leader,
            time: Arc::clone(&time),
            log: log_of_term,
            election,
        }));
        self.state.leads(Some(term));
        let why = self.end_of_term(&log, &time, election);
        let stopped = self.database.stopped();
        tracing::info!(term, "this server leads no more: {why}");
        log.end(SharedLogError::NotLeading { why: "its term is over".into() });
        self.state.leads(None);
        self.set_term(None);
        self.options.election.give_up();
        // What was put is written here too, when those under way have ended.
        let follows = self.database.follow();
        follows.map_err(|error| ReplicaError::Stopped { why: error.to_string() })?;
        if let Some(why) = stopped {
            return Err(ReplicaError::Stopped { why });
        }
        self.note_applied(&time);
        Ok(self.state.status().position.or(from))
    }

    /// Waits for the end of a term, and says why it has come.
    fn end_of_term(&mut self, log: &SharedObjects, time: &TermTime, election: u64) -> String {
        let poll = self.options.poll.max(Duration::from_millis(100));
        loop {
            if let Some(error) = log.failed() {
                return error.to_string();
            }
            // Others read what this server has put and does not have.
            if let Some(why) = self.database.stopped() {
                return why;
            }
            if !self.is_elected_as(election) {
                return "it was not elected again".to_owned();
            }
            if self.state.wait(poll) == WorkSignal::Stop {
                return "it ends".to_owned();
            }
            self.note_applied(time);
            self.note_position(false);
        }
    }

    /// Says how far a term's objects are applied. One may be there, and its writers told of a failure, so
    /// that it is not applied: it is read again by whoever follows.
    fn note_applied(&self, time: &TermTime) {
        let (position, timestamp) = time.applied();
        // Looked at behind that: what has ended may have failed on this disk.
        if self.database.stopped().is_none() {
            self.state.applied(position, timestamp);
        }
    }

    /// Applies what an object holds.
    fn apply(&self, batch: &Batch) -> Result<(), DatabaseError> {
        let bytes = batch.entries.iter().map(|entry| entry.payload.len() as u64).sum();
        self.state.note_log_bytes(bytes);
        // Users and roles come as a whole, so those of an object that is read once more are older ones.
        let again = self.state.has_applied(batch.position);
        apply_those(&self.database, batch, |kind| !again || kind != KIND_ACCESS)
    }

    fn set_term(&self, term: Option<LedTerm>) {
        let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        if term.is_some() {
            terms.last.clone_from(&term);
        }
        terms.now = term;
    }

    /// What is applied here does not go as far as was noted, or is of another history. It is read from
    /// the begin, unless that was done and is no use (`misfit`); where the log is cut, a generation is taken,
    /// also where this ends before.
    fn forget_position(&mut self, misfit: bool) {
        self.state.forget_position();
        let file = self.file.at_begin(misfit);
        match file.save(&self.dir) {
            Ok(()) => self.file = file,
            Err(error) => tracing::warn!("what this server has is not forgotten: {error}"),
        }
    }

    /// Notes how far it has come, now and then.
    fn note_position(&mut self, at_once: bool) {
        let Some(position) = self.state.status().position else { return };
        if self.file.position() == Some(position)
            || !at_once && self.options.time.since(self.noted) < self.options.note
        {
            return;
        }
        // Looked at behind the position: what was not applied on this disk is not passed over by a start.
        if self.database.stopped().is_some() {
            return;
        }
        self.noted = self.options.time.now();
        // What came after the position was taken does no harm.
        let noted = self.database.sync_applied().map_err(ReplicaError::from);
        let file = self.file.at(position);
        // Whoever starts at this position has to know the requests before it.
        let noted = noted.and_then(|()| {
            #[cfg(test)]
            if self.options.planted == Some(ServerFault::RequestsNotNoted) {
                return Ok(());
            }
            self.requests.save(self.database.requests()).map_err(ReplicaError::Requests)
        });
        match noted.and_then(|()| Ok(file.save(&self.dir)?)) {
            Ok(()) => self.file = file,
            Err(error) => tracing::warn!("how much of the log is applied is not noted: {error}"),
        }
    }
}

/// Whether what comes does not follow what is applied, in the catalogue or in a collection.
fn is_gap(error: &ReplicaError) -> bool {
    let ReplicaError::Database(error) = error else { return false };
    let shared = match error {
        DatabaseError::Shared(shared) => shared,
        DatabaseError::Collection { source, .. } => match &**source {
            CollectionError::Shared(shared) => shared,
            _ => return false,
        },
        _ => return false,
    };
    matches!(shared, SharedLogError::Gap { .. })
}

/// Whether a collection takes no changes any more until it is opened anew.
fn is_stopped(error: &ReplicaError) -> bool {
    match error {
        ReplicaError::Stopped { .. } => true,
        ReplicaError::Database(DatabaseError::Collection { source, .. }) => matches!(
            **source,
            CollectionError::Stopped { .. } | CollectionError::Log(WalError::Poisoned { .. })
        ),
        _ => false,
    }
}

/// Applies what an object holds.
pub(crate) fn apply(database: &Database, batch: &Batch) -> Result<(), DatabaseError> {
    apply_those(database, batch, |_| true)
}

/// Applies what an object holds of these kinds.
fn apply_those(
    database: &Database,
    batch: &Batch,
    is_applied: impl Fn(u8) -> bool,
) -> Result<(), DatabaseError> {
    let written = moment(batch.timestamp);
    batch.entries.iter().filter(|entry| is_applied(entry.kind)).try_for_each(|entry| {
        database.apply_shared(&decode(entry.seq, entry.kind, &entry.payload)?, written)
    })
}
