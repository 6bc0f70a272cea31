//! The time of a server, and its threads: the machine's, or those of a simulation.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pipeann_db::replication::{BegunChanges, ChangesUnderWay};
use pipeann_members::{BootClock as _, Boottime};

/// In a simulation: how often somebody looks for what nobody tells of.
const SIMULATED_LOOK: Duration = Duration::from_millis(5);
/// And for what is told of, in case that it was told by a thread of a database, which takes no turns,
/// between a look and the wait.
const SIMULATED_DOUBT: Duration = Duration::from_millis(250);

/// Time and threads of a simulation.
pub trait SimulatedTime: std::fmt::Debug + Send + Sync {
    /// The time of this server.
    fn now(&self) -> Instant;
    /// The time of this server by a clock that goes on while the machine is suspended.
    fn moment(&self) -> Duration;
    /// Returns when so much time has passed; others work meanwhile.
    fn wait(&self, time: Duration);
    /// As [`wait`](Self::wait), or until [`tell`](Self::tell) is called with the same number.
    fn wait_to_be_told(&self, signal: usize, at_most: Duration);
    /// Wakes all that wait to be told.
    fn tell(&self, signal: usize);
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

    /// Now, by the clock of leases: one that goes on while the machine is suspended, since data grows old
    /// meanwhile.
    pub(crate) fn moment(&self) -> Duration {
        match self {
            Self::Machine => Boottime.now(),
            Self::Simulated(time) => time.moment(),
        }
    }

    /// How long ago a moment of that clock was.
    pub(crate) fn age(&self, moment: Duration) -> Duration {
        self.moment().saturating_sub(moment)
    }

    /// How much time has passed since a moment.
    pub(crate) fn since(&self, moment: Instant) -> Duration {
        self.now().saturating_duration_since(moment)
    }

    /// How much time is left until a moment.
    pub(crate) fn until(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.now())
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

/// A condition variable, by the time of a server.
#[derive(Debug)]
pub(crate) struct ChangeSignal {
    told: Condvar,
    time: ServerTime,
}

impl ChangeSignal {
    pub(crate) fn new(time: ServerTime) -> Self {
        Self { told: Condvar::new(), time }
    }

    /// Which one it is, to a simulation.
    fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Wakes all that wait.
    pub(crate) fn tell(&self) {
        match &self.time {
            ServerTime::Machine => self.told.notify_all(),
            ServerTime::Simulated(time) => time.tell(self.number()),
        }
    }

    /// Waits until it is told, at most so long where that is said; or for no reason.
    pub(crate) fn wait<'g, T>(
        &self,
        mutex: &'g Mutex<T>,
        guard: MutexGuard<'g, T>,
        at_most: Option<Duration>,
    ) -> MutexGuard<'g, T> {
        match (&self.time, at_most) {
            (ServerTime::Machine, None) => {
                self.told.wait(guard).unwrap_or_else(PoisonError::into_inner)
            }
            (ServerTime::Machine, Some(time)) => {
                self.told.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
            }
            (ServerTime::Simulated(time), at_most) => {
                drop(guard);
                let at_most = at_most.unwrap_or(SIMULATED_DOUBT).min(SIMULATED_DOUBT);
                time.wait_to_be_told(self.number(), at_most);
                mutex.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }
}
