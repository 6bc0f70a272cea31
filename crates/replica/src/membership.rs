//! An election by the members of a cluster: whoever can lead stands for it, and one is chosen.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeann_members::{
    ClusterMember, Coordinator, Error as MembersError, ServerInfo, SharedFormats, Traffic,
};
use uuid::Uuid;

use crate::drain::{EndWatch, drain_of, drains};
use crate::election::{Elected, Election};
use crate::numbers::{numbers, take_number};
use crate::work::SHARD;

/// What this version writes and reads of what servers share. A version that makes a new format reads it
/// first, and writes it when all servers read it: so a cluster is upgraded server by server.
pub const FORMATS: SharedFormats = SharedFormats { writes: 1, oldest_read: 1, newest_read: 1 };

/// Numbers of servers that are not there are asked for so often at most.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

/// See the module's description. Shared between threads by reference.
pub struct ClusterMembership {
    coordinator: Arc<dyn Coordinator>,
    member: Arc<dyn ClusterMember>,
    number: u8,
    /// The newest term for which it stands, if it does.
    standing: Mutex<Option<u64>>,
    /// It stands no more.
    withdrawn: AtomicBool,
    numbers: Mutex<KnownNumbers>,
}

#[derive(Default)]
struct KnownNumbers {
    servers: BTreeMap<u8, Uuid>,
    asked: Option<Instant>,
}

impl fmt::Debug for ClusterMembership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterMembership")
            .field("server", self.member.server())
            .finish_non_exhaustive()
    }
}

impl ClusterMembership {
    /// Joins, and gets the number by which timestamps name this server; a server keeps its number.
    ///
    /// # Errors
    /// As [`Coordinator::join`]; where 256 live servers have all numbers;
    /// [`Incompatible`](MembersError::Incompatible) where a live server does not read what this one
    /// writes, or the other way round.
    pub fn join(
        coordinator: Arc<dyn Coordinator>,
        server: ServerInfo,
    ) -> Result<Self, MembersError> {
        let id = server.id;
        check_beside_all(&*coordinator, &server)?;
        let member = coordinator.join(server)?;
        // One that joined meanwhile has not seen this one, or has.
        check_beside_all(&*coordinator, member.server())?;
        let (number, servers) = take_number(&*coordinator, id)?;
        let numbers = Mutex::new(KnownNumbers { servers, asked: None });
        let (standing, withdrawn) = (Mutex::new(None), AtomicBool::new(false));
        Ok(Self { coordinator, member, number, standing, withdrawn, numbers })
    }

    /// What people call this server.
    pub fn name(&self) -> &str {
        &self.member.server().name
    }

    /// The number of this server.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// The server with a number, where it is there.
    pub fn server(&self, number: u8) -> Option<ServerInfo> {
        let there = || {
            let id = self.numbers().servers.get(&number).copied()?;
            self.coordinator.servers().into_iter().find(|server| server.id == id)
        };
        // It may be that of another one since.
        there().or_else(|| {
            self.learn_numbers();
            there()
        })
    }

    /// The other servers whose leases run.
    pub fn others(&self) -> Vec<ServerInfo> {
        let me = self.member.server().id;
        let mut servers = self.coordinator.servers();
        servers.retain(|server| server.id != me);
        servers
    }

    /// What this server has told of itself.
    pub fn info(&self) -> &ServerInfo {
        self.member.server()
    }

    /// What was sent to etcd and lost so far.
    pub fn traffic(&self) -> Traffic {
        self.coordinator.traffic()
    }

    /// For how long this server's lease certainly runs.
    pub fn lease_left(&self) -> Duration {
        self.member.lease_left()
    }

    /// Which of its leases this server certainly stands under now: each has a greater number than those
    /// before, and the first is 1 or more.
    pub fn lease(&self) -> Option<u64> {
        let before = self.traffic().lease_losses;
        let runs = !self.lease_left().is_zero();
        // One that has begun between the looks may be either.
        (runs && self.traffic().lease_losses == before).then_some(before + 1)
    }

    /// Looks out for whether this server is asked to end, and keeps its number in etcd meanwhile.
    pub fn drain_watch(&self) -> EndWatch {
        EndWatch::new(Arc::clone(&self.coordinator), self.member.server(), self.number)
    }

    /// Stands for the lead no more, and hands it to another server where it is led here: to the one
    /// that has run longest, which surely has read the log, of those that are not asked to end
    /// themselves. Returns which one, where the lead was handed to one.
    ///
    /// # Errors
    /// What etcd said; the lead is given up all the same.
    pub fn hand_over(&self) -> Result<Option<ServerInfo>, MembersError> {
        self.withdrawn.store(true, Ordering::SeqCst);
        let me = self.member.server().id;
        let handed = self.heirs(me).and_then(|heirs| {
            let leads = self.member.leads(SHARD.0).is_some();
            let Some(heir) = heirs.into_iter().next().filter(|_| leads) else { return Ok(None) };
            self.member.transfer(SHARD.0, heir.id).map(|_| Some(heir))
        });
        self.give_up();
        handed
    }

    /// The other servers, those first that should lead first.
    fn heirs(&self, me: Uuid) -> Result<Vec<ServerInfo>, MembersError> {
        let asked = drains(&*self.coordinator)?;
        let mut others = self.coordinator.servers();
        others.retain(|server| server.id != me && !asked.contains(&drain_of(server)));
        others.sort_by_key(|server| (server.started_ms, server.id));
        Ok(others)
    }

    /// Ends the membership, so that others need not wait for the end of its lease.
    ///
    /// # Errors
    /// As [`ClusterMember::leave`].
    pub fn leave(&self) -> Result<(), MembersError> {
        self.member.leave()
    }

    /// Reads who has which number, if that was not done a moment ago.
    fn learn_numbers(&self) {
        let mut known = self.numbers();
        if known.asked.is_some_and(|asked| asked.elapsed() < ASKED_AGAIN) {
            return;
        }
        known.asked = Some(Instant::now());
        drop(known);
        match numbers(&*self.coordinator) {
            Ok(servers) => self.numbers().servers = servers,
            Err(error) => tracing::debug!("who has which number is not known: {error}"),
        }
    }

    fn numbers(&self) -> MutexGuard<'_, KnownNumbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing(&self) -> MutexGuard<'_, Option<u64>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Election for ClusterMembership {
    fn elected(&self) -> Elected {
        if self.member.leads(SHARD.0).is_some() {
            return Elected::Me;
        }
        let me = self.member.server().id;
        match self.coordinator.leader(SHARD.0) {
            Some(leader) if leader.server != me => Elected::Other { address: leader.address },
            Some(_) => Elected::Nobody { why: "this server's lease has ended".into() },
            None => Elected::Nobody { why: "no server is elected".into() },
        }
    }

    fn stand(&self, newest_term: u64) {
        let mut standing = self.standing();
        if self.withdrawn.load(Ordering::SeqCst) {
            return;
        }
        if standing.is_some_and(|term| term >= newest_term) {
            return;
        }
        match self.member.campaign(SHARD.0, newest_term) {
            Ok(()) => *standing = Some(newest_term),
            Err(error) => tracing::debug!("this server does not stand for the lead: {error}"),
        }
    }

    fn give_up(&self) {
        *self.standing() = None;
        if let Err(error) = self.member.resign(SHARD.0) {
            tracing::debug!("this server's lead ends with its lease: {error}");
        }
    }

    fn elected_as(&self) -> Option<u64> {
        self.member.leads(SHARD.0).map(|lead| lead.term)
    }

    fn certain_for(&self, election: u64) -> Duration {
        let lead = self.member.leads(SHARD.0).filter(|lead| lead.term == election);
        lead.map_or(Duration::ZERO, |lead| lead.left)
    }
}

/// Refuses where a live server cannot stand beside this one.
fn check_beside_all(
    coordinator: &dyn Coordinator,
    server: &ServerInfo,
) -> Result<(), MembersError> {
    let others = coordinator.servers();
    let mut others = others.iter().filter(|other| other.id != server.id);
    others.try_for_each(|other| server.check_beside(other))
}

#[cfg(test)]
#[path = "membership_tests.rs"]
mod tests;
