//! A server of a cluster, as those see it who open it and ask it.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pipeann_db::database::{Database, DatabaseOptions};
use uuid::Uuid;

use crate::ReplicaError;
use crate::election::Elected;
use crate::options::ReplicaOptions;
use crate::position::ReplicaFile;
use crate::publishing::GenerationWork;
use crate::state::{ReadFreshness, ReplicaStatus, SharedState};
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
        let now = Arc::clone(&database.now);
        database.shared = true;
        let database = Arc::new(Database::open(dir, database)?);
        let state = Arc::new(SharedState::new(file.position()));
        let terms = Arc::default();
        let publisher = GenerationWork {
            dir: dir.to_owned(),
            database: Arc::clone(&database),
            options: options.clone(),
            state: Arc::clone(&state),
            terms: Arc::clone(&terms),
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
            file,
            noted: Instant::now(),
        };
        let thread = thread::Builder::new().name("shared-log".into()).spawn(move || work.run());
        let thread = thread.map_err(ReplicaError::Thread)?;
        let (server, threads) = (file.server(), vec![thread]);
        let mut replica = Self { database, options, server, state, terms, threads };
        let thread =
            thread::Builder::new().name("generations".into()).spawn(move || publisher.run());
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

    /// Who leads, as far as this server knows.
    pub fn elected(&self) -> Elected {
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

    /// A hybrid timestamp, milliseconds since 1970 above 18 bits that count, and even. Of a server that
    /// leads: later than all before it, and at or before none that the log takes from now on. Of others:
    /// that of the last object that was applied.
    pub fn timestamp(&self) -> u64 {
        self.term().map_or_else(|| self.state.status().timestamp, |term| term.time.next())
    }

    /// Whether [`catch_up`](Self::catch_up) would return at once.
    pub fn has(&self, wanted: ReadFreshness) -> bool {
        match self.term() {
            Some(_) => {
                wanted != ReadFreshness::Latest
                    || self.options.election.certain_for() > Duration::ZERO
            }
            None => self.state.has(wanted),
        }
    }

    /// Returns when this server's state satisfies `comes`, or says that it did not until the deadline.
    pub fn wait_until(&self, deadline: Instant, mut comes: impl FnMut(&Self) -> bool) -> bool {
        loop {
            if comes(self) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
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
    /// A server that leads has everything; before it says so to a read of the latest, it makes sure that
    /// it leads still: by the election's word, or by a look at the log.
    ///
    /// # Errors
    /// [`ReplicaError::Behind`] when the deadline has come; [`ReplicaError::Log`] where another server
    /// leads by now.
    pub fn catch_up(&self, wanted: ReadFreshness, deadline: Instant) -> Result<(), ReplicaError> {
        if let Some(LedTerm { leader, .. }) = self.term() {
            if wanted == ReadFreshness::Latest
                && self.options.election.certain_for() == Duration::ZERO
            {
                leader.verify()?;
            }
            return Ok(());
        }
        let behind = |why| ReplicaError::Behind { why };
        self.state.catch_up(wanted, deadline).map_err(behind)
    }
}
