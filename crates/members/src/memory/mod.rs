//! A coordinator in one process, shared by its servers, for tests and simulations.
//!
//! It has no thread and takes its clock as an input: whenever it is asked something, it first does
//! what would have happened until then. A server that reaches it renews its lease all the time; one
//! that is cut off is counted down. So with a clock set by hand a run is the same each time.
//!
//! The switches: [`SharedMemory::lose_lease`], [`SharedMemory::cut_off`], [`SharedMemory::halt`] and
//! [`SharedMemory::empty`].

mod member;
mod world;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use uuid::Uuid;

use crate::coordinator::{check_value, check_value_name};
use crate::lease::{TTL_MAX, TTL_MIN};
use crate::notices::{Noticed, Subscribers};
use crate::{
    BootClock, ClusterMember, Coordinator, Error, LeadingServer, Notices, PutIf, ServerInfo,
    StoredValue, Traffic, VALUES_MAX,
};
use member::Joined;
use world::World;

/// What all servers of a cluster share.
pub struct SharedMemory {
    world: Mutex<World>,
    clock: Arc<dyn BootClock>,
    cluster: Uuid,
}

impl SharedMemory {
    /// An empty one, with leases of `ttl`. Like any that is empty, it lets the first elections wait
    /// for as long.
    pub fn new(cluster: Uuid, ttl: Duration, clock: Arc<dyn BootClock>) -> Arc<Self> {
        let now = clock.now();
        let world = Mutex::new(World::new(ttl.clamp(TTL_MIN, TTL_MAX), now));
        Arc::new(Self { world, clock, cluster })
    }

    /// An end of it, for one server. Refuses what belongs to another cluster.
    pub fn connect(self: &Arc<Self>, cluster: Uuid) -> Result<Arc<SharedMemoryEnd>, Error> {
        if cluster != self.cluster {
            let name = "in memory".into();
            return Err(Error::OtherCluster { name, ours: cluster, theirs: self.cluster });
        }
        let subscribers = Arc::new(Subscribers::default());
        let number = self.settled().add_end(Arc::downgrade(&subscribers));
        Ok(Arc::new(SharedMemoryEnd { shared: Arc::clone(self), number, subscribers }))
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
    fn settled(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().expect("nothing panics under this lock");
        world.settle(self.clock.now());
        world
    }
}

/// One server's end of an [`SharedMemory`].
pub struct SharedMemoryEnd {
    shared: Arc<SharedMemory>,
    number: usize,
    subscribers: Arc<Subscribers>,
}

impl SharedMemoryEnd {
    fn reached(&self) -> Result<MutexGuard<'_, World>, Error> {
        let world = self.shared.settled();
        if world.is_reached(self.number) { Ok(world) } else { Err(unreachable()) }
    }
}

fn unreachable() -> Error {
    Error::Unreachable { urls: "memory".into(), why: "it is cut off".into() }
}

impl Coordinator for SharedMemoryEnd {
    fn join(&self, server: ServerInfo) -> Result<Arc<dyn ClusterMember>, Error> {
        server.check()?;
        let now = self.shared.clock.now();
        let number = self.reached()?.join(self.number, server.clone(), now)?;
        Ok(Arc::new(Joined { shared: Arc::clone(&self.shared), number, end: self.number, server }))
    }

    fn servers(&self) -> Vec<ServerInfo> {
        self.shared.settled().seen_from(self.number).servers()
    }

    fn leader(&self, shard: u64) -> Option<LeadingServer> {
        self.shared.settled().seen_from(self.number).leader(shard)
    }

    fn leaders(&self) -> Vec<LeadingServer> {
        self.shared.settled().seen_from(self.number).leaders()
    }

    fn stale_since(&self) -> Option<Duration> {
        self.shared.settled().stale_since(self.number)
    }

    fn watch(&self) -> Notices {
        let shared = Arc::downgrade(&self.shared);
        let tick = move || {
            if let Some(shared) = shared.upgrade() {
                drop(shared.settled());
            }
        };
        self.subscribers.subscribe(None, Some(Box::new(tick)))
    }

    fn value(&self, name: &str) -> Result<Option<StoredValue>, Error> {
        check_value_name(name)?;
        Ok(self.reached()?.values.get(name).cloned())
    }

    fn values(&self, prefix: &str) -> Result<Vec<StoredValue>, Error> {
        let world = self.reached()?;
        let all = world.values.range(prefix.to_owned()..).map(|(_, value)| value);
        let found: Vec<_> = all
            .take_while(|it| it.name.starts_with(prefix))
            .take(VALUES_MAX + 1)
            .cloned()
            .collect();
        if found.len() > VALUES_MAX {
            let why = format!("more than {VALUES_MAX} values begin with it");
            return Err(Error::Invalid { what: "prefix", why });
        }
        Ok(found)
    }

    fn put_value(&self, name: &str, bytes: &[u8], when: PutIf) -> Result<u64, Error> {
        check_value_name(name)?;
        check_value(bytes)?;
        let mut world = self.reached()?;
        world.expect(name, when)?;
        let revision = world.next_revision();
        let value = StoredValue { name: name.to_owned(), bytes: bytes.to_vec(), revision };
        world.values.insert(name.to_owned(), value);
        world.tell(&Noticed::Value(name.to_owned()));
        Ok(revision)
    }

    fn remove_value(&self, name: &str, when: PutIf) -> Result<bool, Error> {
        check_value_name(name)?;
        let mut world = self.reached()?;
        world.expect(name, when)?;
        world.next_revision();
        let was_there = world.values.remove(name).is_some();
        if was_there {
            world.tell(&Noticed::Value(name.to_owned()));
        }
        Ok(was_there)
    }

    fn traffic(&self) -> Traffic {
        self.shared.settled().tallies.traffic()
    }
}

#[cfg(test)]
mod tests;
