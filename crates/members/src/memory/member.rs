//! A server of a [`SharedMemory`].

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::shared::{SharedMemory, unreachable};
use crate::coordinator::check_term;
use crate::{ClusterMember, Error, Lead, LeadingServer, ServerInfo, Standing};

pub(super) struct Joined {
    pub(super) shared: Arc<SharedMemory>,
    /// Which membership it is, and by which end.
    pub(super) number: u64,
    pub(super) end: usize,
    pub(super) server: ServerInfo,
}

impl ClusterMember for Joined {
    fn server(&self) -> &ServerInfo {
        &self.server
    }

    fn standing(&self) -> Standing {
        let now = self.shared.clock.now();
        self.shared.settled().standing(self.number, now)
    }

    fn campaign(&self, shard: u64, at_least: u64) -> Result<(), Error> {
        check_term(at_least)?;
        self.shared.settled().want(self.number, shard, at_least)?;
        drop(self.shared.settled());
        Ok(())
    }

    fn resign(&self, shard: u64) -> Result<(), Error> {
        let mut world = self.shared.settled();
        world.renounce(self.number, shard);
        drop(world);
        let world = self.shared.settled();
        if world.is_reached(self.end) { Ok(()) } else { Err(unreachable()) }
    }

    fn transfer(&self, shard: u64, to: Uuid) -> Result<LeadingServer, Error> {
        let now = self.shared.clock.now();
        let mut world = self.shared.settled();
        if !world.is_reached(self.end) {
            return Err(unreachable());
        }
        world.transfer(self.number, shard, to, now)
    }

    fn leads(&self, shard: u64) -> Option<Lead> {
        let now = self.shared.clock.now();
        self.shared.settled().leads(self.number, shard, now)
    }

    fn led(&self) -> Vec<LeadingServer> {
        let now = self.shared.clock.now();
        self.shared.settled().led(self.number, now)
    }

    fn lease_left(&self) -> Duration {
        let now = self.shared.clock.now();
        self.shared.settled().lease_left(self.number, now)
    }

    fn leave(&self) -> Result<(), Error> {
        let mut world = self.shared.settled();
        world.leave(self.number);
        if world.is_reached(self.end) { Ok(()) } else { Err(unreachable()) }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.shared.settled().leave(self.number);
    }
}
