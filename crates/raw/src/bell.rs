//! What a thread sleeps on: rung from elsewhere, once or often, it ends one rest.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// See the module's description.
pub trait Bell: Send + Sync {
    /// Ends the rest under way, or else the next one.
    fn ring(&self);

    /// Sleeps until it is rung, or for so long.
    fn rest(&self, at_most: Option<Duration>);
}

impl fmt::Debug for dyn Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bell")
    }
}

/// A bell of the system's.
///
/// # Errors
/// What the system says where it has none left.
pub fn bell() -> std::io::Result<Arc<dyn Bell>> {
    #[cfg(target_os = "linux")]
    return Ok(Arc::new(EventBell::new()?));
    #[cfg(not(target_os = "linux"))]
    return Ok(Arc::new(plain::SignalBell::default()));
}

/// An event file, which a ring of the kernel can ring too.
#[cfg(target_os = "linux")]
pub(crate) struct EventBell(rustix::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl EventBell {
    pub(crate) fn new() -> std::io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn descriptor(&self) -> i32 {
        use std::os::fd::AsRawFd;
        self.0.as_raw_fd()
    }
}

#[cfg(target_os = "linux")]
impl Bell for EventBell {
    fn ring(&self) {
        // A file that takes no more has told already that it was rung.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn rest(&self, at_most: Option<Duration>) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let timeout = at_most.map(|d| Timespec {
            tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(d.subsec_nanos()),
        });
        // A signal ends it early, which whoever rests expects.
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], timeout.as_ref());
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

#[cfg(not(target_os = "linux"))]
mod plain {
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Duration;

    #[derive(Default)]
    pub(super) struct SignalBell {
        rung: Mutex<bool>,
        signal: Condvar,
    }

    impl super::Bell for SignalBell {
        fn ring(&self) {
            *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.signal.notify_one();
        }

        fn rest(&self, at_most: Option<Duration>) {
            let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
            if !*rung {
                let most = at_most.unwrap_or(Duration::from_secs(3600));
                let rested = self.signal.wait_timeout(rung, most);
                rung = rested.unwrap_or_else(PoisonError::into_inner).0;
            }
            *rung = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_ring_before_the_rest_ends_it_and_a_rest_alone_ends_in_time() {
        let bell = bell().unwrap();
        bell.ring();
        bell.ring();
        bell.rest(None);
        let from = Instant::now();
        bell.rest(Some(Duration::from_millis(20)));
        assert!(from.elapsed() >= Duration::from_millis(19), "the rings stood for one rest");
        std::thread::scope(|scope| {
            scope.spawn(|| bell.ring());
            bell.rest(None);
        });
    }
}
