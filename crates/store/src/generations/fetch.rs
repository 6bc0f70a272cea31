//! From the store to a directory, and ranges read where they lie.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use xxhash_rust::xxh3::Xxh3;

use super::source::{blocking, digest_of, local};
use super::{Generations, LeasedPin, ShardGeneration, StoredFile, names};
use crate::objects::ObjectsError;

/// Files that are fetched at once.
const AT_ONCE: usize = 4;
/// Bytes of a file that are asked for, and in memory, at once.
const RANGE: u64 = 8 << 20;
/// What the name of a file that is not whole ends with.
const PARTIAL: &str = ".fetching";

/// What fetching came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Files that were there already, as they should be.
    pub kept: u64,
    /// Files that were fetched, some perhaps but for what an earlier call had left.
    pub files: u64,
    /// Bytes that were fetched.
    pub bytes: u64,
}

impl Generations {
    /// Fetches all files of a generation into `directory`, which is made. Files that are there with
    /// the right bytes are not fetched again, and half a file is gone on with. Each is verified, synced
    /// and only then given its name. At most 32 MiB are in memory. The caller pins the generation.
    pub async fn fetch(
        &self,
        generation: &ShardGeneration,
        directory: &Path,
    ) -> Result<Fetched, ObjectsError> {
        self.fetch_all(generation, directory, None).await
    }

    /// The same, of what a pin holds, which is renewed as time passes. Fails with `Missing` where the
    /// generation is gone or going meanwhile.
    pub async fn fetch_held(
        &self,
        pin: &mut LeasedPin,
        directory: &Path,
    ) -> Result<Fetched, ObjectsError> {
        let generation = pin.generation.clone();
        self.fetch_all(&generation, directory, Some(pin)).await
    }

    async fn fetch_all(
        &self,
        generation: &ShardGeneration,
        directory: &Path,
        mut pin: Option<&mut LeasedPin>,
    ) -> Result<Fetched, ObjectsError> {
        let stopped = AtomicBool::new(false);
        let all: Vec<_> = generation
            .files
            .iter()
            .map(|file| self.fetch_file(file.clone(), directory.join(&file.path), &stopped))
            .collect();
        let root = directory.to_owned();
        blocking(move || fs::create_dir_all(&root).map_err(|cause| local(&root, cause))).await?;
        let mut fetching = stream::iter(all).buffer_unordered(AT_ONCE);
        let (mut fetched, mut failed) = (Fetched::default(), None);
        while let Some(file) = fetching.next().await {
            let held = match (pin.as_deref_mut(), &failed) {
                (Some(pin), None) => self.renew_when_due(pin).await,
                _ => Ok(true),
            };
            match (file, held) {
                (Ok(Some(bytes)), Ok(true)) => {
                    fetched.files += 1;
                    fetched.bytes += bytes;
                }
                (Ok(None), Ok(true)) => fetched.kept += 1,
                (Err(error), _) | (_, Err(error)) => {
                    failed.get_or_insert(error);
                }
                (_, Ok(false)) => {
                    let object = ShardGeneration::object(generation.shard, generation.id);
                    failed.get_or_insert(ObjectsError::Missing { object });
                }
            }
            // Those under way are waited for: a later call may go on in the same directory.
            stopped.store(failed.is_some(), Ordering::Relaxed);
        }
        drop(fetching);
        if let Some(error) = failed {
            return Err(error);
        }
        let root = directory.to_owned();
        let mut folders: Vec<PathBuf> = generation
            .files
            .iter()
            .flat_map(|it| Path::new(&it.path).ancestors().skip(1))
            .map(|it| root.join(it))
            .collect();
        folders.push(root);
        folders.sort();
        folders.dedup();
        blocking(move || folders.iter().try_for_each(|it| sync(it))).await?;
        Ok(fetched)
    }

    /// Bytes `range` of a file, which is at least that long. They are not verified: what reads parts of
    /// a file has checksums of its own in it.
    pub async fn read_range(
        &self,
        file: &StoredFile,
        range: Range<u64>,
    ) -> Result<Bytes, ObjectsError> {
        let name = file.object();
        let found = self.patience.retry(|| self.bucket.get_range(&name, range.clone())).await?;
        found.ok_or(ObjectsError::Missing { object: name })
    }

    /// The bytes that were fetched, or `None` where the file was there; or where it is to stop, which it
    /// does before the first piece and between two.
    async fn fetch_file(
        &self,
        file: StoredFile,
        path: PathBuf,
        stopped: &AtomicBool,
    ) -> Result<Option<u64>, ObjectsError> {
        if stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let partial = PathBuf::from(format!("{}{PARTIAL}", path.display()));
        let (place, wanted) = (path.clone(), file.clone());
        if blocking(move || is_right(&place, &wanted)).await? {
            return Ok(None);
        }
        let mut bytes = 0;
        // What an earlier call has left may be wrong; what this one fetched anew may not.
        for fresh in [false, true] {
            let (place, length) = (partial.clone(), file.length);
            let PartialFile { mut at, mut hash, mut out } =
                blocking(move || begin(&place, length, fresh)).await?;
            while at < file.length {
                if stopped.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let range = at..file.length.min(at + RANGE);
                let piece = self.read_range(&file, range).await?;
                bytes += piece.len() as u64;
                at += piece.len() as u64;
                hash.update(&piece);
                let place = partial.clone();
                out = blocking(move || {
                    out.write_all(&piece).map_err(|cause| local(&place, cause))?;
                    Ok(out)
                })
                .await?;
            }
            if hash.digest128() == file.hash {
                blocking(move || {
                    out.sync_all().map_err(|cause| local(&partial, cause))?;
                    fs::rename(&partial, &path).map_err(|cause| local(&path, cause))
                })
                .await?;
                return Ok(Some(bytes));
            }
        }
        let _ = blocking(move || fs::remove_file(&partial).map_err(|e| local(&partial, e))).await;
        let name = file.object();
        self.note_damage(&name).await;
        Err(ObjectsError::damaged(&name, "does not have the bytes that its name tells"))
    }

    /// Has the next publication put a file under another name.
    async fn note_damage(&self, name: &str) {
        let mark = names::damage_mark(name).expect("files have names of one folder");
        // It says all by its name, so it may be put as often as one likes.
        let put = self.patience.retry(|| self.bucket.put_over(&mark, Bytes::new())).await;
        if let Err(error) = put {
            tracing::warn!("that a file is damaged is not noted: {error}");
        }
    }
}

/// Whether a file is there with the right bytes.
fn is_right(path: &Path, file: &StoredFile) -> Result<bool, ObjectsError> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() == file.length => {
            Ok(digest_of(path, u64::MAX)?.1.digest128() == file.hash)
        }
        Ok(_) => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(local(path, error)),
    }
}

/// What there is of a file.
struct PartialFile {
    /// Its length.
    at: u64,
    /// Of its bytes.
    hash: Xxh3,
    out: File,
}

/// Opens what there is of a file, to go on with it.
fn begin(path: &Path, most: u64, fresh: bool) -> Result<PartialFile, ObjectsError> {
    let of = |cause| local(path, cause);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(of)?;
    }
    let out = OpenOptions::new().append(true).create(true).open(path).map_err(of)?;
    if fresh || out.metadata().map_err(of)?.len() > most {
        out.set_len(0).map_err(of)?;
    }
    let (at, hash) = digest_of(path, most)?;
    Ok(PartialFile { at, hash, out })
}

/// Makes the names in a folder durable.
fn sync(folder: &Path) -> Result<(), ObjectsError> {
    let of = |cause| local(folder, cause);
    File::open(folder).map_err(of)?.sync_all().map_err(of)
}
