//! Whether a directory is where a file system is mounted. No rename puts another in its place, so an
//! index that is built for it would be thrown away at the end.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Whether a file system, or a directory of another place, is mounted at `dir`, which has `parent`.
pub(super) fn is_mounted(dir: &Path, parent: &Path) -> io::Result<bool> {
    if let Some(told) = told(dir)? {
        return Ok(told);
    }
    // A bind mount within one file system is not seen by this.
    Ok(fs::metadata(dir)?.dev() != fs::metadata(parent)?.dev())
}

/// What the kernel says, where it knows.
#[cfg(target_os = "linux")]
fn told(dir: &Path) -> io::Result<Option<bool>> {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    use rustix::io::Errno;

    match statx(CWD, dir, AtFlags::NO_AUTOMOUNT, StatxFlags::empty()) {
        Ok(found) if found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) => {
            Ok(Some(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)))
        }
        Ok(_) | Err(Errno::NOSYS) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn told(_: &Path) -> io::Result<Option<bool>> {
    Ok(None)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::super::error::BuildError;
    use super::super::site::Site;
    use super::*;

    /// Directories without entries where something is mounted.
    fn empty_mounts() -> Vec<std::path::PathBuf> {
        let all = fs::read_to_string("/proc/self/mountinfo").expect("Linux lists its mounts");
        let places = all.lines().filter_map(|line| line.split(' ').nth(4)).map(Into::into);
        // Another file system may be mounted over some of them.
        let is_empty = |dir: &std::path::PathBuf| {
            fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
                && dir.parent().is_some_and(|parent| is_mounted(dir, parent).unwrap_or(false))
        };
        places.filter(is_empty).collect()
    }

    #[test]
    fn where_a_file_system_is_mounted_no_build_is_begun() {
        let temp = tempfile::tempdir().expect("a directory");
        assert!(!is_mounted(temp.path(), temp.path().parent().expect("a parent")).expect("told"));
        assert!(is_mounted(Path::new("/proc"), Path::new("/")).expect("told"));
        // Docker mounts a volume that is empty at first; most machines have something like it.
        for dir in empty_mounts() {
            let refused = Site::open(&dir, true, 0).map(|_| ()).expect_err("it is refused");
            assert!(matches!(refused, BuildError::MountPoint { .. }), "{refused}");
            assert!(refused.to_string().contains("inside it"), "{refused}");
        }
    }
}
