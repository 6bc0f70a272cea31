//! What is made of a database is for its user alone: rows and hashes of passwords stand there.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pipeann_db::access::ACCESS_FILE;
use pipeann_db::database::{CATALOG_FILE, REPLICA_FILE};
use pipeann_db::disk::LOCK_NAME;
use rustix::fs::Mode;
use rustix::process::umask;

use crate::process::say;

/// What this process makes from now on is for its user alone.
pub fn begin() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// So are the directory of a database and its file of users that were made before. Any other directory
/// stays as it is: it is refused where the database is opened.
pub(crate) fn keep(dir: &Path) {
    if !is_for_database(dir) {
        return;
    }
    for path in [dir.to_owned(), dir.join(ACCESS_FILE)] {
        let Ok(found) = std::fs::metadata(&path) else { continue };
        let mode = found.permissions().mode();
        if mode & 0o077 == 0 {
            continue;
        }
        let private = Permissions::from_mode(mode & 0o700);
        if let Err(error) = std::fs::set_permissions(&path, private) {
            say(format_args!("others may read {}: {error}", path.display()));
        }
    }
}

/// Whether a directory holds a database, or is about to.
fn is_for_database(dir: &Path) -> bool {
    let is = |name: &OsString, of: &str| name == OsStr::new(of);
    let Ok(names) = names(dir) else { return false };
    names.iter().any(|name| is(name, CATALOG_FILE) || is(name, REPLICA_FILE))
        || names.iter().all(|name| is(name, LOCK_NAME))
}

fn names(dir: &Path) -> io::Result<Vec<OsString>> {
    std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mode of a directory with these files after it was kept private, and that of its file of users.
    fn kept(files: &[&str]) -> [u32; 2] {
        let dir = tempfile::tempdir().unwrap();
        for name in files {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let users = dir.path().join(ACCESS_FILE);
        std::fs::write(&users, "").unwrap();
        if files.is_empty() {
            std::fs::remove_file(&users).unwrap();
        }
        let open = |path: &Path, mode| {
            let _ = std::fs::set_permissions(path, Permissions::from_mode(mode));
        };
        open(dir.path(), 0o1755);
        open(&users, 0o644);
        keep(dir.path());
        let mode =
            |path: &Path| std::fs::metadata(path).map_or(0, |it| it.permissions().mode() & 0o7777);
        [mode(dir.path()), mode(&users)]
    }

    #[test]
    fn a_database_is_for_its_user_and_the_directory_of_a_stranger_stays_as_it_is() {
        assert_eq!(kept(&[CATALOG_FILE, "more"]), [0o700, 0o600]);
        assert_eq!(kept(&[REPLICA_FILE]), [0o700, 0o600]);
        assert_eq!(kept(&[]), [0o700, 0], "one that is about to hold a database");
        assert_eq!(kept(&["somebody's"]), [0o1755, 0o644]);
        assert_eq!(kept(&[LOCK_NAME, "somebody's"]), [0o1755, 0o644]);
        // One that is missing is made by the database.
        keep(Path::new("/nowhere"));
    }
}
