//! A server that knows its store and the others, before and while its database is opened.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use pipeann_db::database::DatabaseOptions;
use pipeann_milvus::{PeerTls, Peers};
use pipeann_replica::{
    Alone, ClusterMembership, Elected, Election, JoinedGeneration, PinnedGeneration, ReadFreshness,
    Replica, ReplicaFile, ReplicaOptions, ServerDirectory,
};
use pipeann_store::ClusterStore;

use super::Opened;
use super::peers::DistantPeers;
use crate::interrupt;
use crate::opening::now;

/// How long a start waits until the log has been read to its end, before it says that it has not.
const START: Duration = Duration::from_secs(600);
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

    /// Has them come; the directory then holds the database as it was at some position of the log.
    pub(crate) fn take_generation(&self) -> Result<()> {
        let name = self.name();
        let taken = self.directory().take_generation(&name, now());
        let JoinedGeneration { position, fetched, held } =
            taken.with_context(|| format!("fetching the database to {}", self.dir.display()))?;
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
        eprintln!(
            "pipeann: {} files of {} bytes came from the store, {} were here; the log is read from \
             object {} on",
            fetched.files, fetched.bytes, fetched.kept, position.number
        );
        Ok(())
    }

    /// The others, for a server that has no data; `None` where there are none.
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

    /// Opens the database, and returns when it has all that is in the log. `cut_off` is told when it
    /// has to be opened anew. Who is `interrupted` meanwhile waits no longer.
    pub(crate) fn open(
        self,
        options: DatabaseOptions,
        cut_off: SyncSender<()>,
        interrupted: &AtomicBool,
    ) -> Result<Opened> {
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
        let server = self.file.server();
        let replica = Replica::open(&self.dir, options, settings, server).with_context(opening)?;
        let replica = Arc::new(replica);
        catch_up(&replica, interrupted)?;
        // From here on the log may be cut above what came.
        drop(self.held);
        Ok(Opened::Clustered { replica, members: self.members, tls: self.tls })
    }
}

/// Waits until the server has all that is in the log, and leads or knows who does. What keeps it from
/// that is told meanwhile.
fn catch_up(replica: &Replica, interrupted: &AtomicBool) -> Result<()> {
    let until = Instant::now() + START;
    let (mut told, mut step) = (None, FIRST_STEP / 2);
    loop {
        interrupt::check(interrupted)?;
        // Each step asks anew, and a distant store takes its time for all that is written meanwhile.
        step = (2 * step).min(LONGEST_STEP);
        let step = (Instant::now() + step).min(until);
        let caught_up = replica.catch_up(ReadFreshness::Latest, step);
        let knows = |it: &Replica| !matches!(it.elected(), Elected::Nobody { .. });
        if caught_up.is_ok() && replica.wait_until(step, knows) {
            return Ok(());
        }
        let why = match (caught_up, replica.elected()) {
            (Err(error), _) => error.to_string(),
            (Ok(()), Elected::Nobody { why }) => why,
            (Ok(()), _) => continue,
        };
        if replica.status().cut_off || Instant::now() >= until {
            bail!("this server did not begin in {} s: {why}", START.as_secs());
        }
        if told.as_ref() != Some(&why) {
            eprintln!("pipeann: {why}; trying again");
        }
        told = Some(why);
    }
}
