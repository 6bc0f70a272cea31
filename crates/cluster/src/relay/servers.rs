//! The servers that are connected, and which of them serve the index that is searched.
//!
//! Nodes of different indexes, or generations of one, have nothing to do with each other, and rows of
//! them need not either. So what the first server serves is searched as long as a server of it is
//! connected, and others are not there meanwhile.

use std::collections::BTreeMap;

use crate::wire::Hello;

/// What is said of a server that is not there for what it serves.
pub(super) const SERVES_ANOTHER: &str =
    "serves another index, or another generation of it, than the others";

/// An index by its uuid, its generation, and the codebook that its codes were made by.
type ServedIndex = ([u8; 16], u64, u32);

struct Connected {
    served: ServedIndex,
    /// What it grants.
    slots: u32,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Servers {
    connected: BTreeMap<u32, Connected>,
    searched: Option<ServedIndex>,
}

impl Servers {
    /// A server connected. Says whether another index is searched from now on.
    pub(super) fn came(&mut self, server: u32, hello: &Hello<'_>) -> bool {
        let served = (hello.index, hello.generation, hello.codebook);
        self.connected.insert(server, Connected { served, slots: hello.slots });
        self.choose()
    }

    /// A server is not connected any more. Says whether another index is searched from now on.
    pub(super) fn went(&mut self, server: u32) -> bool {
        self.connected.remove(&server);
        self.choose()
    }

    /// Keeps to an index while it is served.
    fn choose(&mut self) -> bool {
        let mut served = self.connected.values().map(|of| of.served);
        let first = served.next();
        if first.is_none() || first == self.searched || served.any(|of| Some(of) == self.searched) {
            return false;
        }
        let had = std::mem::replace(&mut self.searched, first);
        had.is_some()
    }

    /// How many are connected, those of other indexes among them.
    pub(super) fn len(&self) -> usize {
        self.connected.len()
    }

    /// All that are connected, those of other indexes among them.
    pub(super) fn connected(&self) -> impl Iterator<Item = u32> {
        self.connected.keys().copied()
    }

    /// Whether one can be asked: it is connected, and serves what is searched.
    pub(super) fn is_up(&self, server: u32) -> bool {
        self.connected.get(&server).is_some_and(|of| Some(of.served) == self.searched)
    }

    /// Whether one is connected that serves something else than what is searched.
    pub(super) fn is_other(&self, server: u32) -> bool {
        self.connected.get(&server).is_some_and(|of| Some(of.served) != self.searched)
    }

    /// Those that serve what is searched, with the slots that they grant.
    pub(super) fn there(&self) -> impl Iterator<Item = (u32, u32)> {
        let there = self.connected.iter().filter(|(_, of)| Some(of.served) == self.searched);
        there.map(|(server, of)| (*server, of.slots))
    }
}
