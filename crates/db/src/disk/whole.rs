//! Small files that are read and replaced whole, and trees that are removed whole.

use super::error::DiskError;
use super::path::parent;
use super::{AppendFile, Disk};

/// Ends the name of a file that is being written; what a crash leaves under such a name is
/// rubbish.
pub const TEMPORARY_SUFFIX: &str = ".tmp";

/// Puts `bytes` under `path`, durably: after a power cut at any moment the file holds what it
/// held before or all of `bytes`, and after success all of `bytes`. Writes `path` +
/// [`TEMPORARY_SUFFIX`] first, removing what an interrupted call left there.
///
/// # Errors
/// [`DiskError`]; the file then holds the old bytes or the new ones.
pub fn replace_file(disk: &dyn Disk, path: &str, bytes: &[u8]) -> Result<(), DiskError> {
    replace_file_to_append(disk, path, bytes).map(drop)
}

/// As [`replace_file`]; returns the new file, to be added to.
///
/// # Errors
/// As [`replace_file`].
pub fn replace_file_to_append(
    disk: &dyn Disk,
    path: &str,
    bytes: &[u8],
) -> Result<Box<dyn AppendFile>, DiskError> {
    let temporary = format!("{path}{TEMPORARY_SUFFIX}");
    match disk.remove(&temporary) {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    let file = disk.create(&temporary)?;
    file.append(bytes)?;
    file.sync()?;
    disk.rename(&temporary, path)?;
    file.renamed(&disk.locate(path));
    disk.sync_dir(parent(path))?;
    Ok(file)
}

/// All bytes of a file.
///
/// # Errors
/// [`DiskError`], `TooLarge` where the file has more than `limit_bytes`: nothing is read then.
pub fn read_file(disk: &dyn Disk, path: &str, limit_bytes: u64) -> Result<Vec<u8>, DiskError> {
    let file = disk.open(path)?;
    let found = file.bytes()?;
    if found > limit_bytes {
        return Err(DiskError::TooLarge { path: disk.locate(path), limit: limit_bytes, found });
    }
    let mut bytes = vec![0; usize::try_from(found).expect("files that fit the limit fit memory")];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Removes a directory with everything in it; it is no error where there is none. Durable when
/// this returns. A power cut in the middle leaves a part of it, to be removed by another call.
///
/// # Errors
/// [`DiskError`]; a part of the tree may be left.
pub fn remove_tree(disk: &dyn Disk, path: &str) -> Result<(), DiskError> {
    let entries = match disk.list(path) {
        Err(error) if error.is_not_found() => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let inner = format!("{path}/{}", entry.name);
        if entry.is_dir {
            remove_tree(disk, &inner)?;
        } else {
            disk.remove(&inner)?;
        }
    }
    disk.remove_dir(path)?;
    disk.sync_dir(parent(path))
}
