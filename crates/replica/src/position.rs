//! The file `REPLICA`: whose the directory is, and how much of the shared log is on its disk.
//!
//! It may be behind what was applied, since applying is idempotent, and is never ahead of what is on
//! stable storage. It is replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pipeann_db::database::REPLICA_FILE;
use pipeann_store::Position;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Version of the file that this build writes; it reads no newer one.
const FORMAT: u32 = 1;
/// More than a file of this kind can have.
const MOST_BYTES: u64 = 4096;

/// Why the file is not read or written.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaFileError {
    /// What the system said.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it was.
        source: io::Error,
    },
    /// It is not what was written.
    #[error("{}: {why}; empty the directory, and all comes from the store again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It is of another cluster.
    #[error("{} belongs to the cluster {found}, and this is {expected}", dir.display())]
    OtherCluster {
        /// The directory.
        dir: PathBuf,
        /// The cluster of the directory.
        found: Uuid,
        /// The cluster of the store.
        expected: Uuid,
    },
}

/// What stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaFile {
    format: u32,
    cluster: Uuid,
    /// Of this directory; made with it.
    server: Uuid,
    #[serde(default)]
    term: u64,
    /// Number of the last object that is applied; 0 for none.
    #[serde(default)]
    number: u64,
    /// The log could not be applied to what is there, though it was read from its begin.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    misfit: bool,
}

impl ReplicaFile {
    /// Reads the file of a directory, or makes it, with the directory, where that is missing or empty.
    ///
    /// # Errors
    /// [`ReplicaFileError`].
    pub fn open(dir: &Path, cluster: Uuid, new_server: Uuid) -> Result<Self, ReplicaFileError> {
        let path = dir.join(REPLICA_FILE);
        let io = |source| ReplicaFileError::Io { path: path.clone(), source };
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (server, term, number, misfit) = (new_server, 0, 0, false);
                let new = Self { format: FORMAT, cluster, server, term, number, misfit };
                fs::create_dir_all(dir).map_err(io)?;
                // What a crash may have left.
                let _ = fs::remove_file(beside(dir));
                // Whatever else is there is refused where the database is opened.
                if fs::read_dir(dir).map_err(io)?.next().is_none() {
                    new.save(dir)?;
                }
                Ok(new)
            }
            found => {
                let damaged = |why: String| ReplicaFileError::Damaged { path: path.clone(), why };
                if found.map_err(io)?.len() > MOST_BYTES {
                    return Err(damaged("it is too long".into()));
                }
                let bytes = fs::read(&path).map_err(io)?;
                let file: Self =
                    serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
                if file.format > FORMAT {
                    let why = format!("version {}, and {FORMAT} is known here", file.format);
                    return Err(damaged(why));
                }
                if file.cluster != cluster {
                    let (dir, found) = (dir.to_owned(), file.cluster);
                    return Err(ReplicaFileError::OtherCluster { dir, found, expected: cluster });
                }
                Ok(file)
            }
        }
    }

    /// The id of the server whose directory it is.
    pub fn server(&self) -> Uuid {
        self.server
    }

    /// How much of the log is applied, and on stable storage.
    pub fn position(&self) -> Option<Position> {
        (self.number > 0).then_some(Position { term: self.term, number: self.number })
    }

    /// The same at another position.
    #[must_use]
    pub fn at(self, position: Position) -> Self {
        Self { term: position.term, number: position.number, misfit: false, ..self }
    }

    /// The file of the same server with nothing applied; `misfit` where nothing can be, either.
    pub(crate) fn at_begin(self, misfit: bool) -> Self {
        Self { term: 0, number: 0, misfit, ..self }
    }

    /// Whether the log cannot be applied to what is there.
    pub(crate) fn is_misfit(&self) -> bool {
        self.misfit
    }

    /// Puts it on stable storage, in the place of the one that is there.
    ///
    /// # Errors
    /// [`ReplicaFileError::Io`].
    pub fn save(&self, dir: &Path) -> Result<(), ReplicaFileError> {
        let path = dir.join(REPLICA_FILE);
        let beside = beside(dir);
        let save = || {
            let mut file = File::create(&beside)?;
            file.write_all(&serde_json::to_vec(self).map_err(io::Error::other)?)?;
            file.sync_all()?;
            fs::rename(&beside, &path)?;
            File::open(dir)?.sync_all()
        };
        save().map_err(|source| ReplicaFileError::Io { path: path.clone(), source })
    }
}

/// Where it is written before it takes its place.
fn beside(dir: &Path) -> PathBuf {
    dir.join(format!("{REPLICA_FILE}.new"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_and_others_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let (cluster, server) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let made = ReplicaFile::open(dir.path(), cluster, server).unwrap();
        assert_eq!(made.position(), None);
        let position = Position { term: 3, number: 9 };
        made.at(position).save(dir.path()).unwrap();
        let found = ReplicaFile::open(dir.path(), cluster, Uuid::from_u128(7)).unwrap();
        assert_eq!((found.server(), found.position()), (server, Some(position)));
        let misfit = found.at_begin(true);
        misfit.save(dir.path()).unwrap();
        let found = ReplicaFile::open(dir.path(), cluster, server).unwrap();
        assert!(found == misfit && found.is_misfit() && found.position().is_none());
        found.at(position).save(dir.path()).unwrap();
        assert!(!ReplicaFile::open(dir.path(), cluster, server).unwrap().is_misfit());
        let other = ReplicaFile::open(dir.path(), Uuid::from_u128(5), server).unwrap_err();
        assert!(matches!(other, ReplicaFileError::OtherCluster { .. }), "{other}");
        let path = dir.path().join(REPLICA_FILE);
        let good = fs::read_to_string(&path).unwrap();
        for bad in ["", "{", &good.replace("\"format\":1", "\"format\":2"), &" ".repeat(9999)] {
            fs::write(&path, bad).unwrap();
            let refused = ReplicaFile::open(dir.path(), cluster, server).unwrap_err();
            assert!(matches!(refused, ReplicaFileError::Damaged { .. }), "{refused}");
        }
        fs::write(&path, good).unwrap();
        ReplicaFile::open(dir.path(), cluster, server).unwrap();
    }
}
