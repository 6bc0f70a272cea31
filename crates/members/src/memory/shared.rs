//! What all servers of a cluster in memory share, and the switches for what may happen to them.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use uuid::Uuid;

use super::world::World;
use crate::lease::{TTL_MAX, TTL_MIN};
use crate::{BootClock, Error};

/// What all servers of a cluster share.
pub struct SharedMemory {
    world: Mutex<World>,
    pub(super) clock: Arc<dyn BootClock>,
    pub(super) cluster: Uuid,
}

impl SharedMemory {
    /// An empty one, with leases of `ttl`. Like any that is empty, it lets the first elections wait
    /// for as long.
    pub fn new(cluster: Uuid, ttl: Duration, clock: Arc<dyn BootClock>) -> Arc<Self> {
        let now = clock.now();
        let world = Mutex::new(World::new(ttl.clamp(TTL_MIN, TTL_MAX), now));
        Arc::new(Self { world, clock, cluster })
    }

    /// Ends the lease of a server at once, as a clock of etcd that runs ahead would.
    pub fn lose_lease(&self, server: Uuid) {
        self.settled().lose_lease(server);
    }

    /// Cuts the end by which a server joined off, or joins it again.
    pub fn cut_off(&self, server: Uuid, is_cut: bool) {
        self.settled().cut_off(server, is_cut);
    }

    /// Answers nobody any more, and lets no lease end, or goes on.
    pub fn halt(&self, is_halted: bool) {
        self.settled().halt(is_halted);
    }

    /// Loses all its data, as an etcd that is restarted with an empty directory.
    pub fn empty(&self) {
        let now = self.clock.now();
        self.settled().empty(now);
    }

    /// What it knows, after what has happened until now.
    pub(super) fn settled(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().expect("nothing panics under this lock");
        world.settle(self.clock.now());
        world
    }
}

/// What is said at an end that is cut off.
pub(super) fn unreachable() -> Error {
    Error::Unreachable { urls: "memory".into(), why: "it is cut off".into() }
}
