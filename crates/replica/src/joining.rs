//! A generation in the place of what a directory has, before its database is opened.
//!
//! Files are fetched beside the old ones, each verified by its checksum; those that the directory has
//! already are taken from there. Only when all are there does the old state go. The directory holds a
//! database again from the moment when its catalogue is in its place, which is the last step; until then
//! whoever opens it begins again, and finds what was fetched.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pipeann_db::access::ACCESS_FILE;
use pipeann_db::catalog::UnixMs;
use pipeann_db::collection::COLLECTIONS_DIR;
use pipeann_db::database::{CATALOG_FILE, REPLICA_FILE};
use pipeann_db::disk::{DirectoryLock, Holder};
use pipeann_db::snapshot::PINS_DIR;
use pipeann_store::{
    ClusterStore, Fetched, GenerationId, LogError, ObjectsError, Position, ShardGeneration,
    ShardGenerations, ShardReader,
};

use crate::ReplicaError;
use crate::folder::{GENERATIONS_DIR, clear, files_below, sync_names};
use crate::held::PinnedGeneration;
use crate::position::ReplicaFile;
use crate::requests_file::REQUESTS_FILE;
use crate::work::SHARD;

/// How long a generation is kept for who fetches it, since it was last renewed.
const LEASE: Duration = Duration::from_secs(6 * 3600);
/// How often it is tried to fetch from a store that does not answer; each time it is asked for long.
const ATTEMPTS: usize = 30;

/// A directory whose database is not open, and the store of its cluster.
#[derive(Clone, Debug)]
pub struct ServerDirectory {
    dir: PathBuf,
    store: ClusterStore,
    file: ReplicaFile,
}

/// How what is in a directory stands to the log.
enum DirectoryStanding {
    /// The log goes on from it, or it is nobody's to judge.
    Follows,
    /// It has no database, or the log was cut beyond it.
    FollowsNot,
    /// It has what the log has not; what is said of that where nothing takes its place.
    Diverged(ReplicaError),
}

/// A generation that has taken its place.
#[derive(Debug)]
pub struct JoinedGeneration {
    /// The position of the log at which it stands.
    pub position: Position,
    /// What was fetched for it.
    pub fetched: Fetched,
    /// To be kept until the log behind it is read: until then it is not cut above it.
    pub held: PinnedGeneration,
}

impl ServerDirectory {
    /// The directory `dir` with the file `REPLICA` that says `file`.
    pub fn new(dir: &Path, store: &ClusterStore, file: ReplicaFile) -> Self {
        Self { dir: dir.to_owned(), store: store.clone(), file }
    }

    /// Whether a generation has to take the place of what is there: it is empty and the store has one,
    /// or the log does not follow what it has. Where none can be read, and the log was never cut, the log
    /// has all. What an earlier fetch has left is removed where not.
    ///
    /// # Errors
    /// The store, or the directory. [`ReplicaError::Diverged`] and [`ReplicaError::Misfit`] where none can take
    /// the place of what is of another history than the log.
    pub fn wants_generation(&self) -> Result<bool, ReplicaError> {
        let wants = match self.standing()? {
            DirectoryStanding::Follows => false,
            DirectoryStanding::FollowsNot => self.needs_those_there()?,
            DirectoryStanding::Diverged(error) => {
                if !self.needs_those_there()? {
                    return Err(error);
                }
                true
            }
        };
        if !wants && self.is_ours()? {
            clear(&self.dir.join(GENERATIONS_DIR))?;
        }
        Ok(wants)
    }

    /// Whether generations are there, and one can be read, or the log does not reach back to its begin.
    fn needs_those_there(&self) -> Result<bool, ObjectsError> {
        let generations = self.generations();
        let some = !generations.ids()?.is_empty();
        Ok(some && (generations.newest()?.is_some() || self.store.log_begin(SHARD)? > 1))
    }

    fn standing(&self) -> Result<DirectoryStanding, ReplicaError> {
        // Whatever else is there is refused where the database is opened.
        if !self.is_ours()? {
            return Ok(DirectoryStanding::Follows);
        }
        let catalog = self.dir.join(CATALOG_FILE);
        if !fs::exists(&catalog).map_err(ReplicaError::files(&catalog))? {
            return Ok(DirectoryStanding::FollowsNot);
        }
        let dir = self.dir.clone();
        if self.file.is_misfit() {
            return Ok(DirectoryStanding::Diverged(ReplicaError::Misfit { dir }));
        }
        match ShardReader::open(&self.store, SHARD, self.file.position()) {
            Ok(_) => Ok(DirectoryStanding::Follows),
            Err(LogError::Cut { .. }) => Ok(DirectoryStanding::FollowsNot),
            Err(LogError::Diverged { number, term, .. }) => {
                Ok(DirectoryStanding::Diverged(ReplicaError::Diverged { dir, number, term }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it is the directory of a server of several.
    fn is_ours(&self) -> Result<bool, ReplicaError> {
        let file = self.dir.join(REPLICA_FILE);
        fs::exists(&file).map_err(ReplicaError::files(&file))
    }

    fn generations(&self) -> ShardGenerations {
        ShardGenerations::new(&self.store, SHARD)
    }

    /// Fetches the newest generation that is whole into its place. One whose manifest cannot be read is
    /// not. `owner` is for people, `now` for the note of who has the directory.
    ///
    /// # Errors
    /// [`ReplicaError::DiskFull`]; a directory that is in use; [`ReplicaError::Store`] where the store
    /// does not answer for long, or has no generation that is whole. A later call goes on.
    pub fn take_generation(
        &self,
        owner: &str,
        UnixMs(now): UnixMs,
    ) -> Result<JoinedGeneration, ReplicaError> {
        let _lock = DirectoryLock::take(&self.dir, &Holder::this_process(now / 1000))?;
        let generations = self.generations();
        let mut worst = None;
        for _ in 0..ATTEMPTS {
            for id in generations.ids()?.into_iter().rev() {
                match self.take_if_there(&generations, id, owner) {
                    Ok(Some(joined)) => return Ok(joined),
                    Ok(None) => {}
                    Err(ReplicaError::Store(error)) if error.is_of_contents() => {
                        tracing::error!(?id, "a generation is not whole: {error}");
                        worst = Some(error);
                    }
                    Err(ReplicaError::Store(error @ ObjectsError::Unavailable { .. })) => {
                        tracing::warn!(?id, "a generation is fetched again: {error}");
                        worst = Some(error);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            if !matches!(worst, Some(ObjectsError::Unavailable { .. })) {
                break;
            }
        }
        let none = || ObjectsError::Missing { object: "any generation".to_owned() };
        Err(worst.unwrap_or_else(none).into())
    }

    /// Fetches a generation into its place; `None` where it is gone or going.
    fn take_if_there(
        &self,
        generations: &ShardGenerations,
        id: GenerationId,
        owner: &str,
    ) -> Result<Option<JoinedGeneration>, ReplicaError> {
        let Some(mut held) = PinnedGeneration::hold(generations, id, owner, LEASE)? else {
            return Ok(None);
        };
        let fetched = self.take(&mut held)?;
        Ok(Some(JoinedGeneration { position: held.generation().position, fetched, held }))
    }

    /// Fetches a generation that is held into its place.
    pub(crate) fn take(&self, held: &mut PinnedGeneration) -> Result<Fetched, ReplicaError> {
        let generation = held.generation();
        check(generation)?;
        let inside = self.dir.join(GENERATIONS_DIR);
        let fetching = inside.join("fetching");
        fs::create_dir_all(&fetching).map_err(ReplicaError::files(&fetching))?;
        clear_others(&fetching, generation)?;
        let position = generation.position;
        for file in &generation.files {
            // What is not the same is fetched, and takes the link's name.
            link_same_length(&self.dir.join(&file.path), &fetching.join(&file.path), file.length);
        }
        let fetched = held.fetch(&fetching)?;
        self.put_in_place(&fetching, position)?;
        Ok(fetched)
    }

    /// The catalogue goes first and comes last: without it there is nothing here.
    fn put_in_place(&self, fetched: &Path, position: Position) -> Result<(), ReplicaError> {
        clear(&self.dir.join(CATALOG_FILE))?;
        sync_names(&self.dir)?;
        for name in [ACCESS_FILE, PINS_DIR, COLLECTIONS_DIR] {
            clear(&self.dir.join(name))?;
        }
        let rename = |name: &str| {
            let (from, to) = (fetched.join(name), self.dir.join(name));
            let there = fs::exists(&from).map_err(ReplicaError::files(&from))?;
            if there { fs::rename(&from, &to).map_err(ReplicaError::files(&to)) } else { Ok(()) }
        };
        rename(ACCESS_FILE)?;
        rename(REQUESTS_FILE)?;
        rename(COLLECTIONS_DIR)?;
        // On stable storage before the catalogue is, with what was renamed.
        self.file.at(position).save(&self.dir)?;
        rename(CATALOG_FILE)?;
        sync_names(&self.dir)?;
        clear(&self.dir.join(GENERATIONS_DIR))
    }
}

/// A generation has what belongs to a database, and nothing else of a server's directory.
fn check(generation: &ShardGeneration) -> Result<(), ReplicaError> {
    let is_known = |path: &str| {
        let inside = path.strip_prefix(COLLECTIONS_DIR).is_some_and(|rest| rest.starts_with('/'));
        inside || [CATALOG_FILE, ACCESS_FILE, REQUESTS_FILE].contains(&path)
    };
    let stranger = generation.files.iter().find(|file| !is_known(&file.path));
    let why = match stranger {
        Some(file) => format!("it has {}", file.path),
        None if generation.files.iter().any(|file| file.path == CATALOG_FILE) => return Ok(()),
        None => "it has no catalogue".to_owned(),
    };
    let (term, number) = (generation.id.term, generation.id.number);
    Err(ReplicaError::Generation { term, number, why })
}

/// Removes what another generation has left.
fn clear_others(fetching: &Path, generation: &ShardGeneration) -> Result<(), ReplicaError> {
    let wanted: HashSet<&str> = generation.files.iter().map(|file| file.path.as_str()).collect();
    for path in files_below(fetching)? {
        let whole = path.strip_suffix(".fetching").unwrap_or(&path);
        if !wanted.contains(path.as_str()) && !wanted.contains(whole) {
            clear(&fetching.join(path))?;
        }
    }
    Ok(())
}

/// Gives a file a second name where its length is right and that name is free. Nothing depends on it.
fn link_same_length(from: &Path, to: &Path, length: u64) {
    let same = fs::symlink_metadata(from).is_ok_and(|it| it.is_file() && it.len() == length);
    if same
        && let Some(folder) = to.parent()
        && fs::create_dir_all(folder).is_ok()
    {
        let _ = fs::hard_link(from, to);
    }
}

#[cfg(test)]
#[path = "joining_tests.rs"]
mod tests;
