//! A server of a cluster, as those see it who open it and ask it.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pipeann_db::catalog::UnixMs;
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::replication::{BegunChanges, ChangesUnderWay, SharedLogError};
use pipeann_store::{ClusterStore, LogError, Position};
use uuid::Uuid;

use crate::ReplicaError;
use crate::commits::{CommitCounts, CommitTally};
use crate::election::{Elected, Election};
use crate::options::ReplicaOptions;
use crate::position::ReplicaFile;
use crate::publishing::GenerationWork;
use crate::requests_file::RequestsFile;
use crate::state::{CaughtUp, ReadFreshness, ReplicaStatus, SharedState};
use crate::store_clock::StoreClock;
use crate::work::{LedTerm, LedTerms, LogWork};

/// How often an election is asked by who waits for its end.
const ELECTION_LOOK: Duration = Duration::from_millis(20);

/// See the crate's description. Shared between threads by reference; dropped, it ends in order.
pub struct Replica {
    database: Arc<Database>,
    options: ReplicaOptions,
    server: Uuid,
    state: Arc<SharedState>,
    terms: Arc<Mutex<LedTerms>>,
    tally: Arc<CommitTally>,
    /// Calls that only a leader answers are not to be begun here any more.
    closing: AtomicBool,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.state.stop();
        // The one that works first: what it did last is published.
        for thread in self.threads.drain(..) {
            // A panic of the thread was reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Replica {
    /// Opens the database in `dir`, or makes one, and begins to follow the log of the store. `server` is
    /// the id of a new directory's server.
    ///
    /// # Errors
    /// [`ReplicaError`]: a directory of another cluster or of none, a database that cannot be opened.
    pub fn open(
        dir: &Path,
        mut database: DatabaseOptions,
        options: ReplicaOptions,
        server: Uuid,
    ) -> Result<Self, ReplicaError> {
        let file = ReplicaFile::open(dir, options.store.cluster_id(), server)?;
        let clock = Arc::new(StoreClock::new(Arc::clone(&database.now)));
        if options.compare_clock.is_some()
            && let Err(error) = clock.look(&options.store)
        {
            tracing::warn!("this server's clock is not compared with the store's: {error}");
        }
        let now: Arc<dyn Fn() -> UnixMs + Send + Sync> = {
            let clock = Arc::clone(&clock);
            Arc::new(move || clock.now())
        };
        database.now = Arc::clone(&now);
        database.shared = true;
        let database = Arc::new(Database::open(dir, database)?);
        let cluster = options.store.cluster_id();
        let requests = RequestsFile::open(dir, cluster, database.requests());
        let requests = requests.map_err(ReplicaError::Requests)?;
        let state = Arc::new(SharedState::new(file.position(), options.time.clone()));
        let (terms, tally) = (Arc::default(), Arc::<CommitTally>::default());
        let publisher = GenerationWork {
            dir: dir.to_owned(),
            database: Arc::clone(&database),
            options: options.clone(),
            state: Arc::clone(&state),
            terms: Arc::clone(&terms),
            compared: options.time.now(),
            clock,
            included: 0,
            newest: None,
            taken: 0,
            term: 0,
        };
        let work = LogWork {
            dir: dir.to_owned(),
            database: Arc::clone(&database),
            options: options.clone(),
            now,
            state: Arc::clone(&state),
            terms: Arc::clone(&terms),
            tally: Arc::clone(&tally),
            file,
            requests,
            noted: options.time.now(),
            opened: options.time.now(),
            from_begin: file.position().is_none(),
        };
        let ending = UnforeseenEnd {
            state: Arc::clone(&state),
            terms: Arc::clone(&terms),
            election: Arc::clone(&options.election),
        };
        let time = options.time.clone();
        let thread = time.spawn("shared-log", move || {
            let _ending = ending;
            work.run();
        });
        let thread = thread.map_err(ReplicaError::Thread)?;
        let (server, closing, threads) = (file.server(), AtomicBool::new(false), vec![thread]);
        let mut replica = Self { database, options, server, state, terms, tally, closing, threads };
        let thread = time.spawn("generations", move || publisher.run());
        replica.threads.push(thread.map_err(ReplicaError::Thread)?);
        Ok(replica)
    }

    /// The database. It takes writes only while this server leads.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// The id of this server, as its directory has it.
    pub fn server(&self) -> Uuid {
        self.server
    }

    /// What it does, and how far it has come.
    pub fn status(&self) -> ReplicaStatus {
        self.state.status()
    }

    /// How old its data may be: what was acknowledged longer ago is here. Zero where it leads, none where
    /// it has not come to the log's end yet.
    pub fn age(&self) -> Option<Duration> {
        let leads = self.state.status().leads.is_some();
        if leads { Some(Duration::ZERO) } else { self.state.age() }
    }

    /// What it has put while it led.
    pub fn commits(&self) -> CommitCounts {
        self.tally.counts()
    }

    /// Where the log is.
    pub fn store(&self) -> &ClusterStore {
        &self.options.store
    }

    /// Says from now on that another server is to lead, so that no more calls are begun that only a
    /// leader answers. Those under way may end: it leads until it is not elected any more.
    pub fn close_lead(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Whether its lead was closed.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Who leads, as far as this server knows.
    pub fn elected(&self) -> Elected {
        match self.elected_or_about_to() {
            Elected::Me if self.is_closing() => {
                Elected::Nobody { why: "this server hands its lead over".into() }
            }
            elected => elected,
        }
    }

    fn elected_or_about_to(&self) -> Elected {
        match (self.state.status().leads, self.options.election.elected()) {
            (Some(_), _) => Elected::Me,
            (None, Elected::Me) => {
                let why = self.state.status().trouble;
                let why = why.unwrap_or_else(|| "this server is about to lead".to_owned());
                Elected::Nobody { why }
            }
            (None, other) => other,
        }
    }

    fn term(&self) -> Option<LedTerm> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner).now.clone()
    }

    /// A hybrid timestamp, milliseconds since 1970 above 18 bits that count, and even: that of the last
    /// object that is here. Of a server that leads it names all that was answered, and what the log takes
    /// from now on is later.
    pub fn timestamp(&self) -> u64 {
        self.term().map_or_else(|| self.state.newest(), |term| term.time.newest().1)
    }

    /// How far the log goes, where this server leads for certain: whoever has applied it up to there has
    /// all that was answered before the call.
    pub fn leads_up_to(&self) -> Option<Position> {
        let term = self.term()?;
        let position = term.time.newest().0;
        // Looked at behind the position, so that nobody led in between.
        (self.is_certain_of(&term) && self.database.stopped().is_none()).then_some(position)
    }

    /// Whether nobody else leads for certain since this server has opened a term.
    fn is_certain_of(&self, term: &LedTerm) -> bool {
        self.options.election.certain_for(term.election) > Duration::ZERO
    }

    /// Returns where this server leads, and led still when it was asked: before a change is made, so that one
    /// which finds nothing to do, and so puts nothing into the log, is answered by whoever has all that was
    /// answered before.
    ///
    /// # Errors
    /// As [`catch_up`](Self::catch_up), and [`ReplicaError::Behind`] where it does not lead.
    pub fn confirm_lead(&self, deadline: Instant) -> Result<(), ReplicaError> {
        if self.leads_up_to().is_some() {
            return Ok(());
        }
        self.catch_up(ReadFreshness::Latest, deadline)?;
        let why = || "this server does not lead".to_owned();
        if self.term().is_some() { Ok(()) } else { Err(ReplicaError::Behind { why: why() }) }
    }

    /// A moment now, by a clock that goes on while the machine is suspended.
    pub fn moment(&self) -> Duration {
        self.options.time.moment()
    }

    /// The leader said, asked at this [moment](Self::moment), that the log goes so far.
    pub fn heard(&self, position: Position, asked: Duration) {
        self.state.heard(position, asked);
    }

    /// Whether [`catch_up`](Self::catch_up) would return at once.
    pub fn has(&self, wanted: ReadFreshness) -> bool {
        if self.state.has_died() {
            return false;
        }
        match self.term() {
            // In this order: a change that failed meanwhile has ended the term.
            Some(term) => self.applied_all_of(&term, wanted) && self.leads_with(&term, wanted),
            None => self.state.has(wanted),
        }
    }

    /// Whether a read may rely on what this server has put itself.
    fn leads_with(&self, term: &LedTerm, wanted: ReadFreshness) -> bool {
        #[cfg(test)]
        if self.options.planted == Some(crate::planted::ServerFault::LeaseTakenForGranted) {
            return true;
        }
        let has = term.has(wanted) || term.log.failed().is_none() && self.is_certain_of(term);
        has && self.takes_changes(wanted)
    }

    /// Whether what this server has put is applied here too, where a read depends on that: to be asked when
    /// the changes have ended that the read has to see, since one that failed on this disk has ended as well.
    fn takes_changes(&self, wanted: ReadFreshness) -> bool {
        wanted == ReadFreshness::Any || self.database.stopped().is_none()
    }

    /// Whether nothing is under way that others may have read from the log and that a read would miss here
    /// which asks for it.
    fn applied_all_of(&self, term: &LedTerm, wanted: ReadFreshness) -> bool {
        let Some(changes) = self.under_way() else { return true };
        to_be_seen(changes, term, wanted).is_none_or(|begun| changes.are_over(begun))
    }

    fn under_way(&self) -> Option<&Arc<ChangesUnderWay>> {
        self.database.leadership().map(|leadership| leadership.under_way())
    }

    /// Waits for changes that this server leads and has not yet applied, where a read has to see them.
    fn wait_for_changes(
        &self,
        term: &LedTerm,
        wanted: ReadFreshness,
        deadline: Instant,
    ) -> Result<(), ReplicaError> {
        let Some(changes) = self.under_way() else { return Ok(()) };
        let Some(begun) = to_be_seen(changes, term, wanted) else { return Ok(()) };
        #[cfg(test)]
        if self.options.planted == Some(crate::planted::ServerFault::ChangesUnderWayMissed) {
            return Ok(());
        }
        let over = self.options.time.wait_for_changes(changes, begun, deadline);
        let why = || "a change is under way, and the store has not answered".to_owned();
        if over { Ok(()) } else { Err(ReplicaError::Behind { why: why() }) }
    }

    /// Returns when this server's state satisfies `comes`, or says that it did not until the deadline.
    pub fn wait_until(&self, deadline: Instant, mut comes: impl FnMut(&Self) -> bool) -> bool {
        loop {
            if comes(self) {
                return true;
            }
            let left = self.options.time.until(deadline);
            if left.is_zero() {
                return false;
            }
            // An election tells nobody of its end.
            self.state.wait_for_change(left.min(ELECTION_LOOK));
        }
    }

    /// Has the log looked at now: its leader has told that it is longer, or the election has changed.
    pub fn nudge(&self) {
        self.state.nudge();
    }

    /// Returns when this server has what a read asks for.
    ///
    /// A server that leads has everything when the changes that it has begun are applied. Before it says so of
    /// what it cannot know to have written itself, it makes sure that it leads still: by the election's word,
    /// or by a look at the log. Where another one leads by now, it reads the log as others do.
    ///
    /// # Errors
    /// [`ReplicaError::Behind`] when the deadline has come; [`ReplicaError::Log`] where the log is out of
    /// reach.
    pub fn catch_up(&self, wanted: ReadFreshness, deadline: Instant) -> Result<(), ReplicaError> {
        #[cfg(test)]
        if self.options.planted == Some(crate::planted::ServerFault::BoundNotKept)
            && matches!(wanted, ReadFreshness::Bounded { .. })
        {
            return Ok(());
        }
        let behind = |why| ReplicaError::Behind { why };
        loop {
            if let Some(term) = self.term().filter(|_| !self.state.has_died()) {
                self.wait_for_changes(&term, wanted, deadline)?;
                if self.leads_with(&term, wanted) {
                    return Ok(());
                }
                // What came of a put that failed is told by the log, and not by its leader; and a failed
                // disk does not have it.
                if term.log.failed().is_none() && self.takes_changes(wanted) {
                    match term.leader.verify() {
                        Ok(()) => return Ok(()),
                        Err(LogError::Fenced { .. } | LogError::Poisoned { .. }) => {
                            // It was stopped, or asleep, while another one came to lead.
                            let why = "another server leads".to_owned();
                            term.log.end(SharedLogError::NotLeading { why });
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                self.state.nudge();
                if !self.wait_until(deadline, |it| it.term().is_none()) {
                    return Err(behind(
                        "the term by which this server led does not end".to_owned(),
                    ));
                }
            }
            match self.state.catch_up(wanted, deadline).map_err(behind)? {
                CaughtUp::Applied => return Ok(()),
                // It came to lead meanwhile, and what the read asks for may be another leader's by now.
                CaughtUp::Leads => {}
            }
        }
    }
}

/// The changes of this term that a read has to see, as far as they are not applied for certain.
fn to_be_seen(
    changes: &ChangesUnderWay,
    term: &LedTerm,
    wanted: ReadFreshness,
) -> Option<BegunChanges> {
    match wanted {
        ReadFreshness::Latest => Some(changes.begun()),
        ReadFreshness::AtLeast(timestamp) | ReadFreshness::Bounded { at_least: timestamp, .. } => {
            term.time.to_be_applied(timestamp)
        }
        ReadFreshness::Any => None,
    }
}

/// The thread of the log ends. Where that was not asked for, nothing here can be relied on: nobody is to
/// wait for it or to read what only grows older, and another server is to lead.
struct UnforeseenEnd {
    state: Arc<SharedState>,
    terms: Arc<Mutex<LedTerms>>,
    election: Arc<dyn Election>,
}

impl Drop for UnforeseenEnd {
    fn drop(&mut self) {
        if self.state.is_stopping() {
            return;
        }
        let led = self.terms.lock().unwrap_or_else(PoisonError::into_inner).now.take();
        if let Some(term) = led {
            term.log.end(SharedLogError::NotLeading { why: "its thread has failed".into() });
        }
        self.state.die("the thread that reads the log has failed; start this server again".into());
        self.election.give_up();
    }
}
