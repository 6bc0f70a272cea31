//! The thread that publishes generations of the database, and cuts the log below them.
//!
//! A generation is all files of the database as hard links hold them, at a position of the log up to
//! which all changes are in them; some later ones may be, too, since applying is idempotent. It is
//! published while this server leads, after so many bytes of the log, and once more when the lead ends in
//! order, where enough has come since. It is current by being there: a server's disk has nothing that the
//! log lacks, so whatever a leader of before publishes late is a beginning of the same history, and has a
//! lower number than what those after it publish.
//!
//! The log is cut at the generation before the newest: so a server that is no further behind than one
//! generation reads on, and a newest one that turns out to be damaged can be done without. Generations
//! that somebody has pinned keep the log from there on; and where the log is to be kept for a time, the
//! newest generation that is older does, with all that came after it.
//!
//! Files go to the store by a thread that knows the links alone, so that an end of this server waits for
//! it only so long.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pipeann_db::access::ACCESS_FILE;
use pipeann_db::database::Database;
use pipeann_store::{
    GenerationId, LogError, ObjectsError, Position, ShardGeneration, ShardGenerations, ShardLeader,
};

use crate::ReplicaError;
use crate::folder::{GENERATIONS_DIR, clear, files_below};
use crate::header::GenerationHeader;
use crate::held::readable;
use crate::objects::moment;
use crate::options::ReplicaOptions;
use crate::requests_file::{self, REQUESTS_FILE};
use crate::state::{SharedState, WorkSignal};
use crate::store_clock::StoreClock;
use crate::work::{LedTerm, LedTerms, SHARD};

/// How often it is looked whether a generation is due.
const LOOK: Duration = Duration::from_secs(1);
/// After a failure it is tried again so much later.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// So many objects of the log since the newest generation make the next one due, however small.
const OBJECTS: u64 = 20_000;
/// When the lead ends, such a part of what makes a generation due is enough.
const PART_AT_END: u64 = 8;
/// How long an end of this server waits for the files of its last generation.
const LAST_FILES: Duration = Duration::from_secs(20);
/// How often the end of the server is looked for, while files are put.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// What the thread has.
pub(crate) struct GenerationWork {
    pub(crate) dir: PathBuf,
    pub(crate) database: Arc<Database>,
    pub(crate) options: ReplicaOptions,
    pub(crate) state: Arc<SharedState>,
    pub(crate) terms: Arc<Mutex<LedTerms>>,
    pub(crate) clock: Arc<StoreClock>,
    /// When the clock was compared with the store's.
    pub(crate) compared: Instant,
    /// Bytes of the log that a generation has, of those that were counted.
    pub(crate) included: u64,
    /// Position of the newest generation that is known here, and by which term it was looked for.
    pub(crate) newest: Option<Position>,
    pub(crate) term: u64,
    /// Directories of moments that were taken, each with a name of its own.
    pub(crate) taken: u64,
}

/// The files of a moment, with second names.
struct TakenFiles {
    dir: PathBuf,
    position: Position,
    header: Vec<u8>,
    log_bytes: u64,
}

impl Drop for TakenFiles {
    fn drop(&mut self) {
        // What is left goes at the next start.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl GenerationWork {
    /// Works until the server ends.
    pub(crate) fn run(mut self) {
        let mut rest = LOOK;
        loop {
            let stops = self.state.rest(rest) == WorkSignal::Stop;
            rest = LOOK;
            let (term, leads) = self.led();
            if let Some(term) = term
                && self.is_due(&term, stops || !leads)
                && let Err(error) = self.publish(&term)
            {
                tracing::warn!("no generation was published: {error}");
                rest = AFTER_FAILURE;
            }
            if stops {
                return;
            }
            self.compare_clock();
        }
    }

    /// Compares the clock with the store's, where that is due.
    fn compare_clock(&mut self) {
        let time = &self.options.time;
        if self.options.compare_clock.is_none_or(|every| time.since(self.compared) < every) {
            return;
        }
        self.compared = time.now();
        if let Err(error) = self.clock.look(&self.options.store) {
            tracing::debug!("the clock is not compared with the store's: {error}");
        }
    }

    /// The term that this server leads by, or that has ended since this was asked last; and which it is.
    fn led(&self) -> (Option<LedTerm>, bool) {
        let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        match terms.now.clone() {
            Some(term) => (Some(term), true),
            None => (terms.last.take(), false),
        }
    }

    fn leads_by(&self, term: &LedTerm) -> bool {
        let terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        terms.now.as_ref().is_some_and(|now| Arc::ptr_eq(&now.leader, &term.leader))
    }

    /// Where the newest generation stands; where that is not told, as if there were none.
    fn newest_position(&self) -> Option<Position> {
        let newest = ShardGenerations::new(&self.options.store, SHARD).newest();
        newest.ok().flatten().map(|generation| generation.position)
    }

    fn is_due(&mut self, term: &LedTerm, ends: bool) -> bool {
        if self.term != term.leader.term() {
            (self.newest, self.term) = (self.newest_position(), term.leader.term());
        }
        let part = if ends { PART_AT_END } else { 1 };
        let bytes = self.state.log_bytes() - self.included;
        let before = self.newest.map_or(0, |position| position.number);
        let objects = term.leader.position().number.saturating_sub(before);
        // Openings alone are nothing to be published.
        bytes > 0 && (bytes >= self.options.generation_bytes / part || objects >= OBJECTS)
    }

    fn publish(&mut self, term: &LedTerm) -> Result<(), ReplicaError> {
        let generations = ShardGenerations::new(&self.options.store, SHARD);
        let began = self.options.time.now();
        let taken = Arc::new(self.take(term)?);
        let Some(published) = self.put(&generations, term, &taken)? else { return Ok(()) };
        let (bytes, files) =
            published.files.iter().fold((0, 0), |(sum, count), it| (sum + it.length, count + 1));
        let took = self.options.time.since(began);
        tracing::info!(id = ?published.id, position = ?published.position, bytes, files, ?took,
            "a generation is published");
        (self.included, self.newest) = (taken.log_bytes, Some(published.position));
        drop(taken);
        if self.leads_by(term) {
            cut(&generations, &term.leader, published.id, &self.options)?;
        }
        Ok(())
    }

    /// Gives the files of now second names.
    fn take(&mut self, term: &LedTerm) -> Result<TakenFiles, ReplicaError> {
        let log_bytes = self.state.log_bytes();
        let (position, from) = term.time.applied();
        // What was put up to there is written here after this, unless this disk has failed.
        self.database.sync_applied()?;
        if let Some(why) = self.database.stopped() {
            return Err(ReplicaError::Stopped { why });
        }
        let inside = self.dir.join(GENERATIONS_DIR);
        fs::create_dir_all(&inside).map_err(ReplicaError::files(&inside))?;
        self.taken += 1;
        let dir = inside.join(format!("taken-{}", self.taken));
        // Of a run before.
        clear(&dir)?;
        let mut taken = TakenFiles { dir, position, header: Vec::new(), log_bytes };
        self.database.snapshot_to(&taken.dir)?;
        #[cfg(test)]
        if self.options.planted == Some(crate::planted::ServerFault::GenerationNamedLate) {
            self.state.rest(Duration::from_secs(1));
            taken.position = term.leader.position();
        }
        let access = self.dir.join(ACCESS_FILE);
        if fs::exists(&access).map_err(ReplicaError::files(&access))? {
            // It is replaced as a whole.
            let copied = fs::copy(&access, taken.dir.join(ACCESS_FILE));
            copied.map_err(ReplicaError::files(&access))?;
        }
        // Those that were applied up to the position, for a server that reads the log from there on.
        let requests = taken.dir.join(REQUESTS_FILE);
        let cluster = self.options.store.cluster_id();
        requests_file::write_all(&requests, cluster, self.database.requests())
            .map_err(ReplicaError::files(&requests))?;
        // Whoever does not lead any more has changes of others.
        let through = (term.leader.position(), term.leader.stamp().timestamp);
        let through = self.leads_by(term).then_some(through);
        taken.header = GenerationHeader::new(from, through).encode();
        Ok(taken)
    }

    /// Puts the files into the store; `None` where this server has ended before they were there.
    fn put(
        &self,
        generations: &ShardGenerations,
        term: &LedTerm,
        taken: &Arc<TakenFiles>,
    ) -> Result<Option<ShardGeneration>, ReplicaError> {
        let mut files = Vec::new();
        for path in files_below(&taken.dir)? {
            files.push((path.clone(), taken.dir.join(path)));
        }
        let (sender, receiver) = sync_channel(1);
        let (generations, taken, number) =
            (generations.clone(), Arc::clone(taken), term.leader.term());
        let put = move || {
            let put = generations.publish(number, taken.position, &taken.header, &files);
            // Nobody waits for it where the server has ended.
            let _ = sender.send(put);
        };
        self.options.time.spawn("generation-files", put).map_err(ReplicaError::Thread)?;
        Ok(self.wait(&receiver).transpose()?)
    }

    fn wait<T>(&self, receiver: &Receiver<T>) -> Option<T> {
        let time = &self.options.time;
        let mut until: Option<Instant> = None;
        loop {
            match time.receive(receiver, BETWEEN_LOOKS) {
                Ok(done) => return Some(done),
                // It panicked, and has said so.
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.state.is_stopping()
                && *until.get_or_insert_with(|| time.now() + LAST_FILES) <= time.now()
            {
                tracing::info!("the last generation is not whole, and is left");
                return None;
            }
        }
    }
}

/// Cuts the log at the generation before `newest`, or below it where others are pinned or the log is kept for
/// longer, and collects what nobody wants any more.
fn cut(
    generations: &ShardGenerations,
    leader: &ShardLeader,
    newest: GenerationId,
    options: &ReplicaOptions,
) -> Result<(), LogError> {
    let mut kept = vec![newest];
    let begin = first_kept(generations, leader, &mut kept, options.keep_log)?;
    let Some(begin) = begin else { return Ok(()) };
    // A position of no log of ours is no reason to end.
    if let Some(begin) = below_pinned(generations, begin)?
        && begin <= leader.position()
    {
        let deleted = leader.truncate_before(begin)?;
        tracing::info!(begin = begin.number, deleted, "the log is cut");
    }
    let keep: Vec<_> = kept.into_iter().map(|id| (SHARD, id)).collect();
    let collected = ShardGenerations::collect(leader, &keep, options.gc_grace)?;
    tracing::debug!(?collected, "the store is cleared");
    Ok(())
}

/// Where the log may be cut, at most at `begin`: what is pinned keeps it from there on. `None` where
/// nobody can tell from where on that is.
fn below_pinned(
    generations: &ShardGenerations,
    mut begin: Position,
) -> Result<Option<Position>, ObjectsError> {
    for id in generations.pinned()? {
        match generations.get(id) {
            Err(error) if error.is_of_contents() => {
                tracing::warn!(?id, "the log is not cut while this generation is pinned: {error}");
                return Ok(None);
            }
            found => begin = found?.map_or(begin, |pinned| begin.min(pinned.position)),
        }
    }
    Ok(Some(begin))
}

/// Where the newest generation stands that is older than those in `kept` and than `keep`; it and those
/// between them are added to `kept`, but for those that cannot be read. `None` where all are younger: then
/// nothing is to be cut.
fn first_kept(
    generations: &ShardGenerations,
    leader: &ShardLeader,
    kept: &mut Vec<GenerationId>,
    keep: Duration,
) -> Result<Option<Position>, ObjectsError> {
    let now = moment(leader.stamp().timestamp).0;
    let since = now.saturating_sub(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
    let newest = kept.first().copied();
    for id in generations.ids()?.into_iter().rev().filter(|id| Some(*id) < newest) {
        let Some(generation) = readable(generations, id)? else { continue };
        kept.push(id);
        // Of one that does not tell how far its contents go, no moment is known that it comes before.
        let through = GenerationHeader::decode(&generation.header).and_then(|it| it.through());
        if keep.is_zero() || through.is_some_and(|(_, at)| moment(at).0 <= since) {
            return Ok(Some(generation.position));
        }
    }
    Ok(None)
}
