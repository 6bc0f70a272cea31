//! What a snapshot has to know of a collection's directory, and of one that is open.

use std::sync::{MutexGuard, PoisonError};

use crate::collection::Collection;
use crate::collection::identity::{INDEX_PREFIX, ROWS_DIR, SCALARS_DIR, VECTORS_PREFIX};

/// A component with files of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    /// The row store.
    Rows,
    /// The scalar indexes.
    Scalars,
    /// Vectors of a field.
    Vectors,
    /// A graph, in a directory of the engine.
    Index,
}

/// Which part the directory of this name inside that of a collection is; `None` for others.
pub(crate) fn part_of(name: &str) -> Option<Component> {
    let numbered = |prefix: &str| {
        let digits = name.strip_prefix(prefix);
        digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
    };
    match name {
        ROWS_DIR => Some(Component::Rows),
        SCALARS_DIR => Some(Component::Scalars),
        _ if numbered(VECTORS_PREFIX) => Some(Component::Vectors),
        _ if numbered(INDEX_PREFIX) => Some(Component::Index),
        _ => None,
    }
}

impl Collection {
    /// Keeps flushes away for as long as the guard lives, after waiting for one that is under way.
    /// Writes go on until a buffer is full.
    pub(crate) fn hold_flushes(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_by_name() {
        for (name, part) in [
            ("rows", Some(Component::Rows)),
            ("scalars", Some(Component::Scalars)),
            ("vectors-102", Some(Component::Vectors)),
            ("index-3", Some(Component::Index)),
            ("index-", None),
            ("index-3.tmp", None),
            ("rows.new", None),
            ("wal", None),
        ] {
            assert_eq!(part_of(name), part, "{name}");
        }
    }
}
