//! The time of a server, and its threads: the machine's, or those of a simulation.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pipeann_db::replication::{BegunChanges, ChangesUnderWay};

/// In a simulation: how often somebody looks who would be woken.
const SIMULATED_LOOK: Duration = Duration::from_millis(5);

/// Time and threads of a simulation.
pub trait SimulatedTime: std::fmt::Debug + Send + Sync {
    /// The time of this server.
    fn now(&self) -> Instant;
    /// Returns when so much time has passed; others work meanwhile.
    fn wait(&self, time: Duration);
    /// Does `work` on a thread that takes turns with all others.
    ///
    /// # Errors
    /// No thread can be made.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub enum ServerTime {
    /// The machine's.
    #[default]
    Machine,
    /// A simulation's.
    Simulated(Arc<dyn SimulatedTime>),
}

impl ServerTime {
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Machine => Instant::now(),
            Self::Simulated(time) => time.now(),
        }
    }

    /// How much time has passed since a moment.
    pub(crate) fn since(&self, moment: Instant) -> Duration {
        self.now().saturating_duration_since(moment)
    }

    /// How much time is left until a moment.
    pub(crate) fn until(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.now())
    }

    /// Waits until `moved` is told, at most so long where that is said; or for no reason.
    pub(crate) fn wait_on<'g, T>(
        &self,
        (mutex, moved): (&'g Mutex<T>, &Condvar),
        guard: MutexGuard<'g, T>,
        at_most: Option<Duration>,
    ) -> MutexGuard<'g, T> {
        match (self, at_most) {
            (Self::Machine, None) => moved.wait(guard).unwrap_or_else(PoisonError::into_inner),
            (Self::Machine, Some(time)) => {
                moved.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
            }
            (Self::Simulated(time), at_most) => {
                drop(guard);
                time.wait(at_most.unwrap_or(SIMULATED_LOOK).min(SIMULATED_LOOK));
                mutex.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// Waits until these changes are over, or the deadline has come; whether they are over.
    pub(crate) fn wait_for_changes(
        &self,
        changes: &ChangesUnderWay,
        begun: BegunChanges,
        deadline: Instant,
    ) -> bool {
        match self {
            Self::Machine => changes.wait(begun, self.until(deadline)),
            Self::Simulated(time) => {
                while !changes.are_over(begun) && !self.until(deadline).is_zero() {
                    time.wait(SIMULATED_LOOK);
                }
                changes.are_over(begun)
            }
        }
    }

    /// As [`Receiver::recv_timeout`].
    pub(crate) fn receive<T>(
        &self,
        from: &Receiver<T>,
        at_most: Duration,
    ) -> Result<T, RecvTimeoutError> {
        match self {
            Self::Machine => from.recv_timeout(at_most),
            Self::Simulated(time) => {
                time.wait(at_most);
                from.recv_timeout(Duration::ZERO)
            }
        }
    }

    pub(crate) fn spawn(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        match self {
            Self::Machine => thread::Builder::new().name(name.to_owned()).spawn(work),
            Self::Simulated(time) => time.spawn(name, Box::new(work)),
        }
    }
}
