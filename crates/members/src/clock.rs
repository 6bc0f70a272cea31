//! The clock that leases are counted by: it goes on while the machine is suspended, and nobody sets
//! it. A process that was stopped for a minute finds that a minute has gone by.

use std::sync::Mutex;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since some moment before the process began.
pub trait BootClock: Send + Sync {
    /// Never less than before.
    fn now(&self) -> Duration;
}

/// `CLOCK_BOOTTIME`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Boottime;

impl BootClock for Boottime {
    fn now(&self) -> Duration {
        let time = clock_gettime(ClockId::Boottime);
        // Neither part is negative since boot.
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or(0),
            u32::try_from(time.tv_nsec).unwrap_or(0),
        )
    }
}

/// A clock that only moves when it is told to.
#[derive(Debug, Default)]
pub struct HandClock(Mutex<Duration>);

impl HandClock {
    /// Lets `by` go by.
    pub fn advance(&self, by: Duration) {
        *self.0.lock().expect("nothing panics under this lock") += by;
    }
}

impl BootClock for HandClock {
    fn now(&self) -> Duration {
        *self.0.lock().expect("nothing panics under this lock")
    }
}
