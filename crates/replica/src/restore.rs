//! What the database was at a moment: the newest generation before it and the log up to there, applied to
//! a new directory; or put into a new store, as all of the log up to there, or as a generation of then.
//!
//! A moment is one of the leader's clock, which stamps each object before it puts it. All that was
//! acknowledged before the moment is in, nothing that began after it; what was under way is in or not.
//!
//! Nothing is changed in the store that is read but the pin of a generation, where there is one, so
//! that what begins with it is not collected meanwhile, and the mark of a file that is damaged. A moment
//! before the oldest generation is refused where the log was cut.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pipeann_db::access::ACCESS_FILE;
use pipeann_db::catalog::UnixMs;
use pipeann_db::database::{Database, DatabaseError, DatabaseOptions, REPLICA_FILE};
use pipeann_store::{
    Batch, ClusterStore, EntryRef, GenerationId, LeaderName, LogError, ObjectsError, Position,
    ShardGenerations, ShardLeader, ShardReader, Stamp,
};
use uuid::Uuid;

use crate::ReplicaError;
use crate::folder::{GENERATIONS_DIR, files_below};
use crate::header::GenerationHeader;
use crate::held::PinnedGeneration;
use crate::joining::ServerDirectory;
use crate::objects::{hybrid, moment};
use crate::position::{ReplicaFile, ReplicaFileError};
use crate::requests_file::REQUESTS_FILE;
use crate::work::{SHARD, apply};

/// Added to the name of a directory until it is whole.
const UNFINISHED: &str = ".restoring";
/// How long a generation is pinned, since that was last renewed.
const PINNED: Duration = Duration::from_secs(3600);
/// Who pins and writes, for people.
const NAME: &str = "pipeann cluster restore";

/// Why a moment is not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The store does not tell what was then.
    #[error("the store does not cover that moment: {why}")]
    NotCovered {
        /// The moment; milliseconds since 1970, which who asks shows as it was asked for.
        moment: UnixMs,
        /// From when on it does, if it does at all; milliseconds since 1970.
        from: Option<UnixMs>,
        /// For people.
        why: String,
    },
    /// Something is there already.
    #[error("{place} is not empty; name one that is, or that is not there")]
    NotEmpty {
        /// The directory, or the store.
        place: String,
    },
    /// The files of the new directory.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] ObjectsError),
    /// A generation in it, or its way into the directory.
    #[error(transparent)]
    Generation(#[from] ReplicaError),
    /// The log in it.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The database that is made.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The file that says whose it is.
    #[error(transparent)]
    File(#[from] ReplicaFileError),
}

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredLog {
    /// Objects of the log up to the moment, behind what stood in a generation.
    pub objects: u64,
    /// Changes in them.
    pub changes: u64,
    /// The last of them.
    pub position: Option<Position>,
    /// When that was put; milliseconds since 1970.
    pub written: UnixMs,
}

/// Makes a database of one server's own in `dir`, which is empty or not there, as it was at `at`. `now`
/// is the moment of asking, beyond which nothing is known.
///
/// # Errors
/// [`RestoreError`]. `dir` is made when it is whole, and not before.
pub fn restore_to_directory(
    store: &ClusterStore,
    (at, now): (UnixMs, UnixMs),
    dir: &Path,
    options: DatabaseOptions,
) -> Result<RestoredLog, RestoreError> {
    is_empty(dir)?;
    is_past(at, now)?;
    let unfinished = unfinished(dir)?;
    let MadeDatabase { database, restored, .. } = made(store, at, &unfinished, &options)?;
    drop(database);
    // From here on it is nobody else's.
    for name in [REPLICA_FILE, REQUESTS_FILE] {
        let mark = unfinished.join(name);
        match fs::remove_file(&mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(files(&mark)(error));
            }
            _ => {}
        }
    }
    drop(Database::open(&unfinished, DatabaseOptions { shared: false, ..options })?);
    File::open(&unfinished).and_then(|file| file.sync_all()).map_err(files(&unfinished))?;
    if dir.exists() {
        fs::remove_dir(dir).map_err(files(dir))?;
    }
    fs::rename(&unfinished, dir).map_err(files(dir))?;
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        File::open(parent).and_then(|file| file.sync_all()).map_err(files(parent))?;
    }
    Ok(restored)
}

/// Begins the log of `into`, a store without one, as that of `store` was at `at`: all of it, or where it was
/// cut, a generation of then. For that the database is made in `scratch`, a directory that is empty or not
/// there, and is removed afterwards.
///
/// # Errors
/// [`RestoreError`]. What was put until then stays: the store is to be emptied.
pub fn restore_into_store(
    store: &ClusterStore,
    (at, now): (UnixMs, UnixMs),
    into: &ClusterStore,
    scratch: Option<(&Path, DatabaseOptions)>,
) -> Result<RestoredLog, RestoreError> {
    if into.log_begin(SHARD)? > 1 || into.log_end(SHARD, 0)?.is_some() {
        return Err(RestoreError::NotEmpty { place: format!("the store of {}", into.cluster()) });
    }
    is_past(at, now)?;
    let name = LeaderName::new(NAME.to_owned())?;
    let lead = || ShardLeader::open(into, SHARD, None, &name, &mut |_| Ok(()));
    let mut from = RestoreBegin::oldest(store)?;
    let begin = store.log_begin(SHARD)?;
    if begin > 1 {
        let Some((dir, options)) = scratch else { return Err(from.was_cut(at, begin)) };
        is_empty(dir)?;
        let unfinished = unfinished(dir)?;
        let made = made(store, at, &unfinished, &options)?;
        begin_with_files(into, &lead()?, &made, &unfinished)?;
        let restored = made.restored;
        drop(made);
        fs::remove_dir_all(&unfinished).map_err(files(&unfinished))?;
        return Ok(restored);
    }
    let leader = lead()?;
    read_from(store, (None, at), &mut from, &mut |batch| {
        if batch.entries.is_empty() {
            return Ok(());
        }
        let Batch { catalogue_version, timestamp, .. } = *batch;
        let entries: Vec<_> = batch
            .entries
            .iter()
            .map(|it| EntryRef { seq: it.seq, kind: it.kind, payload: &it.payload })
            .collect();
        leader.append(Stamp { catalogue_version, timestamp }, &entries)?;
        Ok(())
    })
}

/// A database that was made as it was at a moment, still one of several servers.
struct MadeDatabase {
    database: Database,
    restored: RestoredLog,
}

/// Makes it in `dir`, which is not there.
fn made(
    store: &ClusterStore,
    at: UnixMs,
    dir: &Path,
    options: &DatabaseOptions,
) -> Result<MadeDatabase, RestoreError> {
    let file = ReplicaFile::open(dir, store.cluster_id(), Uuid::new_v4())?;
    let into = ServerDirectory::new(dir, store, file);
    let (mut from, begin) = RestoreBegin::fetched(store, at, &into)?;
    let database = Database::open(dir, DatabaseOptions { shared: true, ..options.clone() })?;
    let take = &mut |batch: &Batch| Ok(apply(&database, batch)?);
    let restored = read_from(store, (begin, at), &mut from, take)?;
    database.sync_applied()?;
    Ok(MadeDatabase { database, restored })
}

/// Puts what was made into a store as its first generation, at which its log begins: so nobody begins with
/// the log alone, which has nothing of it.
fn begin_with_files(
    into: &ClusterStore,
    leader: &ShardLeader,
    made: &MadeDatabase,
    dir: &Path,
) -> Result<(), RestoreError> {
    let timestamp = last_of(made.restored.written) & !1;
    let catalogue_version = made.database.catalog().revision();
    let position = leader.append(Stamp { catalogue_version, timestamp }, &[])?;
    let inside = dir.join(GENERATIONS_DIR);
    fs::create_dir_all(&inside).map_err(files(&inside))?;
    let taken = inside.join("taken");
    made.database.snapshot_to(&taken)?;
    let access = dir.join(ACCESS_FILE);
    if access.exists() {
        fs::copy(&access, taken.join(ACCESS_FILE)).map_err(files(&access))?;
    }
    let header = GenerationHeader::new(timestamp, Some((position, timestamp))).encode();
    let found = files_below(&taken)?.into_iter().map(|path| (path.clone(), taken.join(path)));
    let found: Vec<_> = found.collect();
    ShardGenerations::new(into, SHARD).publish(leader.term(), position, &header, &found)?;
    leader.truncate_before(position)?;
    Ok(())
}

/// For what the system says of a path.
fn files(path: &Path) -> impl FnOnce(io::Error) -> RestoreError {
    let path = path.to_owned();
    move |source| RestoreError::Io { path, source }
}

fn is_empty(dir: &Path) -> Result<(), RestoreError> {
    if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(RestoreError::NotEmpty { place: dir.display().to_string() });
    }
    Ok(())
}

/// The directory beside `dir` that is worked in, without what a restore before this one has left.
fn unfinished(dir: &Path) -> Result<PathBuf, RestoreError> {
    let mut unfinished = dir.as_os_str().to_owned();
    unfinished.push(UNFINISHED);
    let unfinished = PathBuf::from(unfinished);
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(files(&unfinished))?;
    }
    Ok(unfinished)
}

fn is_past(at: UnixMs, now: UnixMs) -> Result<(), RestoreError> {
    if at > now {
        let why = "that is yet to come".to_owned();
        return Err(RestoreError::NotCovered { moment: at, from: None, why });
    }
    Ok(())
}

/// The last timestamp of a moment.
fn last_of(at: UnixMs) -> u64 {
    hybrid(UnixMs(at.0 + 1)) - 1
}

/// Hands over the log, behind what the caller has begun with, up to the last object of the moment.
fn read_from(
    store: &ClusterStore,
    (begun, at): (Option<RestoredLog>, UnixMs),
    from: &mut RestoreBegin,
    take: &mut dyn FnMut(&Batch) -> Result<(), RestoreError>,
) -> Result<RestoredLog, RestoreError> {
    let refused = |from, why: String| Err(RestoreError::NotCovered { moment: at, from, why });
    let begin = store.log_begin(SHARD)?;
    if begun.is_none() && begin > 1 {
        return Err(from.was_cut(at, begin));
    }
    let until = last_of(at);
    let mut reader = match ShardReader::open(store, SHARD, begun.and_then(|it| it.position)) {
        Ok(reader) => reader,
        // Whoever was about to cut it had not seen the pin.
        Err(LogError::Cut { .. }) if begun.is_some() => {
            let why = "its log was cut while this restore began; asked again, it begins with a newer \
                       generation, where the moment is behind one";
            return refused(None, why.to_owned());
        }
        Err(error) => return Err(error.into()),
    };
    let nothing = RestoredLog { objects: 0, changes: 0, position: None, written: UnixMs(0) };
    let mut restored = begun.unwrap_or(nothing);
    while let Some(batch) = reader.next()? {
        if batch.timestamp > until {
            if begun.is_none() && restored.changes == 0 {
                let why = "the first object of its log is later".to_owned();
                return refused(Some(moment(batch.timestamp)), why);
            }
            break;
        }
        take(&batch)?;
        restored.objects += 1;
        restored.changes += batch.entries.len() as u64;
        restored.position = Some(batch.position);
        restored.written = moment(batch.timestamp);
        if !from.is_held()? {
            let why = "the generation that it began with went meanwhile; asked again, it begins with \
                       a newer one, where the moment is behind one";
            return refused(None, why.to_owned());
        }
    }
    if restored.position.is_none() {
        return refused(None, "it has no log".into());
    }
    Ok(restored)
}

/// A generation of the log, held while the log is read: it is cut above no pin.
struct RestoreBegin {
    held: Option<PinnedGeneration>,
    header: Option<GenerationHeader>,
    /// Whether its files have nothing that came after the moment.
    begins: bool,
}

impl RestoreBegin {
    /// The oldest one, if there is any.
    fn oldest(store: &ClusterStore) -> Result<Self, RestoreError> {
        let generations = ShardGenerations::new(store, SHARD);
        for id in generations.ids()? {
            if let Some(held) = hold(&generations, id)? {
                let header = GenerationHeader::decode(&held.generation().header);
                return Ok(Self { held: Some(held), header, begins: false });
            }
        }
        Ok(Self { held: None, header: None, begins: false })
    }

    /// The newest one that is whole and whose files have nothing that came after the moment, fetched, and
    /// what it holds; where there is none, what [`RestoreBegin::before`] says.
    fn fetched(
        store: &ClusterStore,
        at: UnixMs,
        into: &ServerDirectory,
    ) -> Result<(Self, Option<RestoredLog>), RestoreError> {
        let (mut below, mut damage) = (None, None);
        loop {
            let mut from = Self::before(store, at, below)?;
            match from.fetch(into) {
                Err(ReplicaError::Store(error)) if error.is_of_contents() => {
                    below = from.held.as_ref().map(|held| held.generation().id);
                    tracing::warn!(?below, "an older generation is taken: {error}");
                    damage = Some(error);
                }
                Ok(None) if store.log_begin(SHARD)? > 1 && damage.is_some() => {
                    return Err(damage.expect("it is there").into());
                }
                begun => return Ok((from, begun?)),
            }
        }
    }

    /// The newest one whose files have nothing that came after the moment, of those below `below`; else the
    /// oldest.
    fn before(
        store: &ClusterStore,
        at: UnixMs,
        below: Option<GenerationId>,
    ) -> Result<Self, RestoreError> {
        let generations = ShardGenerations::new(store, SHARD);
        let mut ids = generations.ids()?;
        ids.retain(|id| below.is_none_or(|below| *id < below));
        for id in ids.into_iter().rev() {
            let Some(held) = hold(&generations, id)? else { continue };
            let header = GenerationHeader::decode(&held.generation().header);
            let through = header.and_then(|header| header.through());
            if through.is_some_and(|(_, timestamp)| timestamp <= last_of(at)) {
                return Ok(Self { held: Some(held), header, begins: true });
            }
        }
        Self::oldest(store)
    }

    /// Has its files come, where the restored database begins with them; says what they hold.
    fn fetch(&mut self, into: &ServerDirectory) -> Result<Option<RestoredLog>, ReplicaError> {
        let (Some(held), Some(header), true) = (&mut self.held, self.header, self.begins) else {
            return Ok(None);
        };
        into.take(held)?;
        let position = Some(held.generation().position);
        let written = moment(header.timestamp());
        Ok(Some(RestoredLog { objects: 0, changes: 0, position, written }))
    }

    /// Why nothing begins with the log alone, of which `begin` is the first object.
    fn was_cut(&self, moment_asked: UnixMs, begin: u64) -> RestoreError {
        let from = self.header.and_then(|header| header.through()).map(|(_, at)| moment(at));
        let why = format!(
            "its log was cut, and begins with object {begin}; what was before stands in generations, \
             which a directory is restored from, or a store by way of one (--scratch), at a moment \
             behind the oldest"
        );
        RestoreError::NotCovered { moment: moment_asked, from, why }
    }

    /// Holds it on; whether it could be.
    fn is_held(&mut self) -> Result<bool, RestoreError> {
        Ok(self.held.as_mut().map(PinnedGeneration::renew).transpose()?.unwrap_or(true))
    }
}

/// Holds a generation; `None` where it is gone or going, or its manifest cannot be read.
fn hold(
    generations: &ShardGenerations,
    id: GenerationId,
) -> Result<Option<PinnedGeneration>, RestoreError> {
    match PinnedGeneration::hold(generations, id, NAME, PINNED) {
        Err(error) if error.is_of_contents() => {
            tracing::warn!(?id, "a generation is passed over: {error}");
            Ok(None)
        }
        held => Ok(held?),
    }
}
