//! The servers that are up, and which of them serve the index that is searched.
//!
//! Nodes of different indexes, or generations of one, have nothing to do with each other. So what the
//! first server serves is searched as long as a server of it is up, and others are not there meanwhile.

use std::collections::BTreeMap;

use crate::wire::Hello;

/// An index by its uuid, and its generation.
type ServedIndex = ([u8; 16], u64);

struct Connected {
    served: ServedIndex,
    /// What it grants.
    slots: u32,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Servers {
    up: BTreeMap<u32, Connected>,
    searched: Option<ServedIndex>,
}

impl Servers {
    /// A server is up. Says whether another index is searched from now on.
    pub(super) fn came(&mut self, server: u32, hello: &Hello<'_>) -> bool {
        let served = (hello.index, hello.generation);
        self.up.insert(server, Connected { served, slots: hello.slots });
        self.choose()
    }

    /// A server is not up any more. Says whether another index is searched from now on.
    pub(super) fn went(&mut self, server: u32) -> bool {
        self.up.remove(&server);
        self.choose()
    }

    /// Keeps to an index while it is served.
    fn choose(&mut self) -> bool {
        let mut served = self.up.values().map(|of| of.served);
        let first = served.next();
        if first.is_none() || first == self.searched || served.any(|of| Some(of) == self.searched) {
            return false;
        }
        let had = std::mem::replace(&mut self.searched, first);
        had.is_some()
    }

    /// How many are up.
    pub(super) fn len(&self) -> usize {
        self.up.len()
    }

    /// Whether one is up.
    pub(super) fn is_up(&self, server: u32) -> bool {
        self.up.contains_key(&server)
    }

    /// Whether one is up that serves something else than what is searched.
    pub(super) fn is_other(&self, server: u32) -> bool {
        self.up.get(&server).is_some_and(|of| Some(of.served) != self.searched)
    }

    /// Those that serve what is searched, with the slots that they grant.
    pub(super) fn there(&self) -> impl Iterator<Item = (u32, u32)> {
        let there = self.up.iter().filter(|(_, of)| Some(of.served) == self.searched);
        there.map(|(server, of)| (*server, of.slots))
    }
}
