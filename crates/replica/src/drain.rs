//! Asking a server to end in order: a value in etcd, which that server looks out for.
//!
//! It names the server and the start of its process, so that one that was started again is not meant.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pipeann_members::{Coordinator, Error as MembersError, Noticed, Notices, PutIf, ServerInfo};
use uuid::Uuid;

use crate::numbers::keep_number;

/// Names of the values; the id of the server follows.
const DRAINS: &str = "drain/";
/// How long a notice is waited for at once.
const NOTICE: Duration = Duration::from_secs(60);
/// And where etcd did not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// A process of a server: its id, and when it began.
type ServerProcess = (Uuid, u64);

pub(crate) fn drain_of(server: &ServerInfo) -> ServerProcess {
    (server.id, server.started_ms)
}

fn value_name(id: Uuid) -> String {
    format!("{DRAINS}{id}")
}

fn began(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Those that are asked to end.
pub(crate) fn drains(
    coordinator: &dyn Coordinator,
) -> Result<BTreeSet<ServerProcess>, MembersError> {
    let values = coordinator.values(DRAINS)?;
    let asked = values.iter().filter_map(|value| {
        let id = Uuid::try_parse(value.name.strip_prefix(DRAINS)?).ok()?;
        Some((id, began(&value.bytes)?))
    });
    Ok(asked.collect())
}

/// Asks a server to hand its lead over, to take no more calls, and to end when those under way are
/// answered.
///
/// # Errors
/// As [`Coordinator::put_value`].
pub fn ask_to_drain(
    coordinator: &dyn Coordinator,
    server: &ServerInfo,
) -> Result<(), MembersError> {
    let began = server.started_ms.to_string();
    coordinator.put_value(&value_name(server.id), began.as_bytes(), PutIf::Any).map(drop)
}

/// Takes that back, where the server has ended or is not to end any more; one that has begun to is not
/// held up.
///
/// # Errors
/// As [`Coordinator::remove_value`].
pub fn forget_drain(coordinator: &dyn Coordinator, server: Uuid) -> Result<(), MembersError> {
    coordinator.remove_value(&value_name(server), PutIf::Any).map(drop)
}

/// Looks out for whether this server is asked to end, as long as somebody else holds the coordinator; and for
/// whether etcd has lost the number of this server.
pub struct EndWatch {
    coordinator: Weak<dyn Coordinator>,
    notices: Notices,
    me: ServerProcess,
    number: u8,
}

impl fmt::Debug for EndWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndWatch").field("me", &self.me).finish_non_exhaustive()
    }
}

impl EndWatch {
    pub(crate) fn new(coordinator: Arc<dyn Coordinator>, me: &ServerInfo, number: u8) -> Self {
        let notices = coordinator.watch();
        Self { coordinator: Arc::downgrade(&coordinator), notices, me: drain_of(me), number }
    }

    /// Returns when this server is asked to end, or false when the coordinator has gone. What was meant for
    /// a process before this one is removed.
    pub fn wait(&self) -> bool {
        let mine = value_name(self.me.0);
        let mut due = true;
        loop {
            let Some(coordinator) = self.coordinator.upgrade() else { return false };
            if due {
                let kept = keep_number(&*coordinator, self.number, self.me.0);
                match self.asked(&*coordinator) {
                    Ok(true) => return true,
                    Ok(false) => due = kept.is_err(),
                    // A watch that goes on meanwhile tells of nothing again.
                    Err(error) => tracing::debug!("whether it is to end is not known: {error}"),
                }
            }
            drop(coordinator);
            due |= match self.notices.next(if due { AGAIN } else { NOTICE }) {
                Some(Noticed::Everything) => true,
                Some(Noticed::Value(name)) => name == mine,
                Some(Noticed::Servers | Noticed::Leader(_)) | None => false,
            };
        }
    }

    fn asked(&self, coordinator: &dyn Coordinator) -> Result<bool, MembersError> {
        let name = value_name(self.me.0);
        let Some(value) = coordinator.value(&name)? else { return Ok(false) };
        match began(&value.bytes) {
            Some(began) if began == self.me.1 => return Ok(true),
            // One that has begun since looks out itself.
            Some(began) if began > self.me.1 => return Ok(false),
            _ => {}
        }
        // Changed meanwhile, it is looked at again.
        let _ = coordinator.remove_value(&name, PutIf::At(value.revision));
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use pipeann_members::memory::{SharedMemory, SharedMemoryEnd};
    use pipeann_members::{Boottime, ClusterMember, LeadingServer, StoredValue, Traffic};

    use super::*;
    use crate::tests::server_info as server;

    #[test]
    fn a_server_that_is_asked_to_end_learns_it_and_one_started_again_does_not() {
        let cluster = Uuid::from_u128(9);
        let memory = SharedMemory::new(cluster, Duration::from_secs(1), Arc::new(Boottime));
        let coordinator: Arc<dyn Coordinator> = memory.connect(cluster).unwrap();
        let (one, again) = (server(1, 10), server(1, 11));
        let watch = EndWatch::new(Arc::clone(&coordinator), &one, 0);
        thread::scope(|scope| {
            scope.spawn(|| watch.wait());
            ask_to_drain(&*coordinator, &server(2, 10)).unwrap();
            ask_to_drain(&*coordinator, &one).unwrap();
        });
        assert_eq!(drains(&*coordinator).unwrap().len(), 2);
        let watch = EndWatch::new(Arc::clone(&coordinator), &again, 0);
        assert!(!watch.asked(&*coordinator).unwrap());
        assert_eq!(drains(&*coordinator).unwrap(), BTreeSet::from([(Uuid::from_u128(2), 10)]));
        forget_drain(&*coordinator, Uuid::from_u128(2)).unwrap();
        assert!(drains(&*coordinator).unwrap().is_empty());
        // What is meant for it is not taken away by one that still looks out for its forerunner.
        ask_to_drain(&*coordinator, &again).unwrap();
        let forerunner = EndWatch::new(Arc::clone(&coordinator), &one, 0);
        assert!(!forerunner.asked(&*coordinator).unwrap());
        assert!(watch.asked(&*coordinator).unwrap());
    }

    #[test]
    fn one_that_looks_out_keeps_nothing_of_a_membership_that_has_ended() {
        let cluster = Uuid::from_u128(9);
        let memory = SharedMemory::new(cluster, Duration::from_secs(1), Arc::new(Boottime));
        let coordinator: Arc<dyn Coordinator> = memory.connect(cluster).unwrap();
        let held = Arc::downgrade(&coordinator);
        let watch = EndWatch::new(coordinator, &server(1, 10), 0);
        assert!(held.upgrade().is_none());
        assert!(!watch.wait());
    }

    /// One that does not say a few times whether a server is asked to end.
    struct Hesitant {
        end: Arc<SharedMemoryEnd>,
        times: AtomicUsize,
    }

    impl Coordinator for Hesitant {
        fn join(&self, server: ServerInfo) -> Result<Arc<dyn ClusterMember>, MembersError> {
            self.end.join(server)
        }

        fn servers(&self) -> Vec<ServerInfo> {
            self.end.servers()
        }

        fn leader(&self, shard: u64) -> Option<LeadingServer> {
            self.end.leader(shard)
        }

        fn leaders(&self) -> Vec<LeadingServer> {
            self.end.leaders()
        }

        fn stale_since(&self) -> Option<Duration> {
            self.end.stale_since()
        }

        fn watch(&self) -> Notices {
            self.end.watch()
        }

        fn value(&self, name: &str) -> Result<Option<StoredValue>, MembersError> {
            let less = |times: usize| times.checked_sub(1);
            let order = Ordering::SeqCst;
            if name.starts_with(DRAINS) && self.times.fetch_update(order, order, less).is_ok() {
                return Err(MembersError::Refused("it is late".into()));
            }
            self.end.value(name)
        }

        fn values(&self, prefix: &str) -> Result<Vec<StoredValue>, MembersError> {
            self.end.values(prefix)
        }

        fn put_value(&self, name: &str, bytes: &[u8], when: PutIf) -> Result<u64, MembersError> {
            self.end.put_value(name, bytes, when)
        }

        fn remove_value(&self, name: &str, when: PutIf) -> Result<bool, MembersError> {
            self.end.remove_value(name, when)
        }

        fn traffic(&self) -> Traffic {
            self.end.traffic()
        }
    }

    #[test]
    fn one_that_is_asked_to_end_while_etcd_does_not_answer_learns_it_later() {
        let cluster = Uuid::from_u128(9);
        let memory = SharedMemory::new(cluster, Duration::from_secs(1), Arc::new(Boottime));
        let end = memory.connect(cluster).unwrap();
        let times = AtomicUsize::new(2);
        let coordinator: Arc<dyn Coordinator> = Arc::new(Hesitant { end: Arc::clone(&end), times });
        let watch = EndWatch::new(Arc::clone(&coordinator), &server(1, 10), 0);
        ask_to_drain(&*end, &server(1, 10)).unwrap();
        let (tell, told) = mpsc::channel();
        thread::Builder::new().spawn(move || tell.send(watch.wait())).unwrap();
        // By then nobody has told of anything else.
        assert!(told.recv_timeout(NOTICE / 2).expect("it is told no more"));
    }
}
