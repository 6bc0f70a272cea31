//! Tests of the disks and of the lock.

mod conformance;
mod crash;
mod lock;

use super::error::{Action, DiskError};

/// Whether an error is of the kind meant.
type IsMeant = fn(&DiskError) -> bool;

#[test]
fn answers_of_the_system_keep_their_meaning() {
    use rustix::io::Errno as E;
    let table: [(&[E], IsMeant); 5] = [
        (&[E::NOSPC, E::DQUOT], |e| matches!(e, DiskError::NoSpace { .. })),
        (&[E::ACCESS, E::PERM, E::ROFS], |e| matches!(e, DiskError::Permission { .. })),
        (&[E::NOENT], DiskError::is_not_found),
        (&[E::EXIST], |e| matches!(e, DiskError::Exists { .. })),
        (&[E::IO, E::MFILE], |e| matches!(e, DiskError::Io { .. })),
    ];
    for (errnos, is_meant) in table {
        for errno in errnos {
            let error = DiskError::of(Action::Append, "f".into(), &(*errno).into());
            assert!(is_meant(&error) && error.to_string().contains("append to f"), "{error:?}");
        }
    }
}
