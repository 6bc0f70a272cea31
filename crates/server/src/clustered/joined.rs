//! A server that knows its store and the others, before and while its database is opened.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pipeann_db::database::DatabaseOptions;
use pipeann_milvus::{PeerTls, Peers};
use pipeann_replica::{
    Alone, ClusterMembership, Elected, Election, JoinedGeneration, PinnedGeneration, ReadFreshness,
    Replica, ReplicaFile, ReplicaOptions, ServerDirectory,
};
use pipeann_store::{ClusterStore, Position};

use super::Opened;
use super::peers::DistantPeers;
use crate::interrupt;
use crate::opening::now;
use crate::process::say;

/// How often the clock is compared with the store's, which takes three requests.
const CLOCK: Duration = Duration::from_secs(60);
/// How long a start that comes no further in the log goes on, before it says so.
const START: Duration = Duration::from_secs(600);
/// How soon it is noticed that it is to end while files are fetched.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long it waits before it looks whether it is to end: at first, and later.
const FIRST_STEP: Duration = Duration::from_secs(1);
const LONGEST_STEP: Duration = Duration::from_secs(8);

/// See the module's description.
pub(crate) struct JoinedServer {
    pub(super) dir: PathBuf,
    pub(super) store: ClusterStore,
    pub(super) file: ReplicaFile,
    pub(super) members: Option<Arc<ClusterMembership>>,
    pub(super) tls: Option<Arc<PeerTls>>,
    pub(super) generation_bytes: Option<u64>,
    pub(super) keep_log: Option<Duration>,
    pub(super) gc_grace: Option<Duration>,
    /// What came from the store, until the log behind it is read.
    pub(super) held: Mutex<Option<PinnedGeneration>>,
}

impl JoinedServer {
    fn directory(&self) -> ServerDirectory {
        ServerDirectory::new(&self.dir, &self.store, self.file)
    }

    /// Whether files have to come from the store before the database can be opened.
    pub(crate) fn wants_generation(&self) -> Result<bool> {
        let wants = self.directory().wants_generation();
        wants.with_context(|| format!("looking at {}", self.dir.display()))
    }

    /// Has them come; the directory then holds the database as it was at some position of the log. Who is
    /// `interrupted` meanwhile waits no longer: a later start goes on with what has come.
    pub(crate) fn take_generation(&self, interrupted: &AtomicBool) -> Result<()> {
        let (directory, name) = (self.directory(), self.name());
        let (tell, taken) = sync_channel(1);
        let take = move || {
            // Where nobody waits any more the process ends.
            let _ = tell.send(directory.take_generation(&name, now()));
        };
        thread::Builder::new().name("fetch".into()).spawn(take).context("no thread")?;
        let taken = loop {
            interrupt::check(interrupted)?;
            match taken.recv_timeout(LOOK_AGAIN) {
                Ok(taken) => break taken,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("fetching the database panicked"),
            }
        };
        let JoinedGeneration { position, fetched, held } =
            taken.with_context(|| format!("fetching the database to {}", self.dir.display()))?;
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
        say(format_args!(
            "{} files of {} bytes came from the store, {} were here; the log is read from object {} on",
            fetched.files, fetched.bytes, fetched.kept, position.number
        ));
        interrupt::check(interrupted)?;
        Ok(())
    }

    /// The others, for a server that has not all data yet; `None` where there are none.
    pub(crate) fn distant_peers(&self) -> Option<Arc<dyn Peers>> {
        let (members, tls) = (Arc::clone(self.members.as_ref()?), self.tls.clone());
        Some(Arc::new(DistantPeers { members, tls }))
    }

    /// Whether another server is known to lead.
    pub(crate) fn sees_leader(&self) -> bool {
        let elected = self.members.as_ref().map(|members| members.elected());
        matches!(elected, Some(Elected::Other { .. }))
    }

    fn name(&self) -> String {
        let named = self.members.as_ref().map(|members| members.name().to_owned());
        named.unwrap_or_else(|| "the only server".into())
    }

    /// Opens the database, and returns when it has all that is in the log; `None` where the log was cut
    /// meanwhile above what it has, and files from the store have to take its place. `cut_off` is told
    /// when it has to be opened anew later. Who is `interrupted` meanwhile waits no longer.
    pub(crate) fn open(
        self,
        options: DatabaseOptions,
        cut_off: SyncSender<()>,
        interrupted: &AtomicBool,
    ) -> Result<Option<Opened>> {
        let opening = || format!("opening {}", self.dir.display());
        let election: Arc<dyn Election> = match &self.members {
            Some(members) => Arc::clone(members) as Arc<dyn Election>,
            None => Arc::new(Alone),
        };
        let mut settings = ReplicaOptions::new(self.store.clone(), self.name(), election);
        settings.cut_off = Some(cut_off);
        if let Some(bytes) = self.generation_bytes {
            settings.generation_bytes = bytes;
        }
        settings.keep_log = self.keep_log.unwrap_or_default();
        settings.gc_grace = self.gc_grace.unwrap_or(settings.gc_grace);
        settings.compare_clock = Some(CLOCK);
        let server = self.file.server();
        let replica = Replica::open(&self.dir, options, settings, server).with_context(opening)?;
        let replica = Arc::new(replica);
        let cut_off = catch_up(&replica, interrupted)?;
        let opened = Opened::Clustered { replica, members: self.members, tls: self.tls };
        // From here on the log may be cut above what came.
        drop(self.held);
        let Some(why) = cut_off else { return Ok(Some(opened)) };
        opened.close();
        // What it has was noted anew.
        let file = ReplicaFile::open(&self.dir, self.store.cluster_id(), server);
        let file = file.with_context(opening)?;
        let wants = ServerDirectory::new(&self.dir, &self.store, file).wants_generation();
        ensure!(wants.with_context(opening)?, "{why}, and the store has no files in its place");
        Ok(None)
    }
}

/// How far a start has come in the log, and until when it may come no further.
struct StartProgress {
    position: Option<Position>,
    until: Instant,
}

impl StartProgress {
    fn new(position: Option<Position>, now: Instant) -> Self {
        Self { position, until: now + START }
    }

    /// Notes how far it has come; whether it has come no further for too long.
    fn has_stopped(&mut self, position: Option<Position>, now: Instant) -> bool {
        if position != self.position {
            *self = Self::new(position, now);
        }
        now >= self.until
    }
}

/// Waits until the server has all that is in the log, and leads or knows who does. What keeps it from
/// that is told meanwhile. Returns why it does not come to that, where the log does not reach back to
/// what it has.
fn catch_up(replica: &Replica, interrupted: &AtomicBool) -> Result<Option<String>> {
    let mut progress = StartProgress::new(replica.status().position, Instant::now());
    let (mut told, mut step) = (None, FIRST_STEP / 2);
    loop {
        interrupt::check(interrupted)?;
        // Each step asks anew, and a distant store takes its time for all that is written meanwhile.
        step = (2 * step).min(LONGEST_STEP);
        let step = (Instant::now() + step).min(progress.until);
        let caught_up = replica.catch_up(ReadFreshness::Latest, step);
        let knows = |it: &Replica| !matches!(it.elected(), Elected::Nobody { .. });
        if caught_up.is_ok() && replica.wait_until(step, knows) {
            return Ok(None);
        }
        let why = match (caught_up, replica.elected()) {
            (Err(error), _) => error.to_string(),
            (Ok(()), Elected::Nobody { why }) => why,
            (Ok(()), _) => continue,
        };
        let status = replica.status();
        if status.cut_off {
            return Ok(Some(why));
        }
        if progress.has_stopped(status.position, Instant::now()) {
            bail!("this server has come no further for {} s: {why}", START.as_secs());
        }
        if told.as_ref() != Some(&why) {
            say(format_args!("{why}; trying again"));
        }
        told = Some(why);
    }
}

#[cfg(test)]
#[path = "joined_tests.rs"]
mod tests;
