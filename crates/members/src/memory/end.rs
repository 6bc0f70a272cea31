//! One server's end of what all share in memory.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use uuid::Uuid;

use super::member::Joined;
use super::shared::{SharedMemory, unreachable};
use super::world::World;
use crate::coordinator::{check_value, check_value_name};
use crate::notices::{Noticed, Subscribers};
use crate::{
    ClusterMember, Coordinator, Error, LeadingServer, Notices, PutIf, ServerInfo, StoredValue,
    Traffic, VALUES_MAX,
};

impl SharedMemory {
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
