//! An election by the members of a cluster: whoever can lead stands for it, and one is chosen.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeann_members::{
    ClusterMember, Coordinator, Error as MembersError, PutIf, ServerInfo, SharedFormats, Traffic,
};
use uuid::Uuid;

use crate::drain::{EndWatch, drain_of, drains};
use crate::election::{Elected, Election};
use crate::work::SHARD;

/// What this version writes and reads of what servers share. A version that makes a new format reads it
/// first, and writes it when all servers read it: so a cluster is upgraded server by server.
pub const FORMATS: SharedFormats = SharedFormats { writes: 1, oldest_read: 1, newest_read: 1 };

/// Names of values that tell which server has a number.
const NUMBERS: &str = "numbers/";
/// Numbers that are not known are asked for so often at most.
const ASKED_AGAIN: Duration = Duration::from_secs(1);
/// Attempts to get a number while others get theirs.
const ATTEMPTS: usize = 300;

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
        let id = self.known(number)?;
        self.coordinator.servers().into_iter().find(|server| server.id == id)
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

    /// Looks out for whether this server is asked to end.
    pub fn drain_watch(&self) -> EndWatch {
        EndWatch::new(Arc::clone(&self.coordinator), self.member.server())
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

    fn known(&self, number: u8) -> Option<Uuid> {
        let mut numbers = self.numbers();
        let due = numbers.asked.is_none_or(|asked| asked.elapsed() >= ASKED_AGAIN);
        if !numbers.servers.contains_key(&number) && due {
            numbers.asked = Some(Instant::now());
            drop(numbers);
            let read = read_numbers(&*self.coordinator);
            numbers = self.numbers();
            if let Ok(read) = read {
                numbers.servers = read.into_iter().map(|(n, (id, _))| (n, id)).collect();
            }
        }
        numbers.servers.get(&number).copied()
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

    fn certain_for(&self) -> Duration {
        self.member.leads(SHARD.0).map_or(Duration::ZERO, |lead| lead.left)
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

/// Which server has which number, and by which revision.
fn read_numbers(coordinator: &dyn Coordinator) -> Result<BTreeMap<u8, (Uuid, u64)>, MembersError> {
    let values = coordinator.values(NUMBERS)?;
    let number = |name: &str| name.strip_prefix(NUMBERS)?.parse::<u8>().ok();
    let parsed = values.iter().filter_map(|value| {
        let id = Uuid::from_slice(&value.bytes).ok()?;
        Some((number(&value.name)?, (id, value.revision)))
    });
    Ok(parsed.collect())
}

/// The number that a server has, or the least that nobody has, or that of one that is gone.
fn take_number(
    coordinator: &dyn Coordinator,
    id: Uuid,
) -> Result<(u8, BTreeMap<u8, Uuid>), MembersError> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let taken = read_numbers(coordinator)?;
        let servers = || taken.iter().map(|(&n, &(id, _))| (n, id)).collect();
        if let Some((&number, _)) = taken.iter().find(|(_, (of, _))| *of == id) {
            return Ok((number, servers()));
        }
        let free = (0..=u8::MAX).find(|number| !taken.contains_key(number));
        let gone = || {
            let live = coordinator.servers();
            let gone = |(_, (of, _)): &(&u8, &(Uuid, u64))| !live.iter().any(|s| s.id == *of);
            taken.iter().find(gone).map(|(&n, &(_, revision))| (n, PutIf::At(revision)))
        };
        let Some((number, when)) = free.map(|n| (n, PutIf::Absent)).or_else(gone) else {
            let why = "256 servers are there, which is the most".to_owned();
            return Err(MembersError::Invalid { what: "number of the server", why });
        };
        match coordinator.put_value(&format!("{NUMBERS}{number}"), id.as_bytes(), when) {
            Ok(_) => {
                let mut servers: BTreeMap<u8, Uuid> = servers();
                servers.insert(number, id);
                return Ok((number, servers));
            }
            // Somebody else has it by now.
            Err(error @ MembersError::Conflict { .. }) => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.expect("there was an attempt"))
}

#[cfg(test)]
#[path = "membership_tests.rs"]
mod tests;
