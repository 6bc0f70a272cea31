//! What one server sees of the simulation: its time, its threads, its chance.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pipeann_members::BootClock;
use pipeann_store::objects::Surroundings;

use super::world::{Life, ServerWorld};
use crate::time::SimulatedTime;

/// The world as one server sees it.
#[derive(Clone)]
pub(super) struct OfServer {
    pub(super) world: Arc<ServerWorld>,
    pub(super) life: Arc<Life>,
}

impl fmt::Debug for OfServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfServer")
    }
}

impl OfServer {
    fn time(&self) -> Duration {
        self.world.now() + self.life.ghost_time()
    }
}

impl Surroundings for OfServer {
    fn now(&self) -> Duration {
        self.time()
    }

    fn sleep(&self, wait: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(BlockingSleep(self.clone(), wait))
    }

    fn random(&self) -> u128 {
        let draw = || u128::from(self.world.below(u64::MAX));
        draw() << 64 | draw()
    }
}

/// Blocks its thread when it is polled.
struct BlockingSleep(OfServer, Duration);

impl Future for BlockingSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.0.world.wait(self.1);
        Poll::Ready(())
    }
}

impl SimulatedTime for OfServer {
    fn now(&self) -> Instant {
        self.world.began() + self.time()
    }

    fn moment(&self) -> Duration {
        self.time()
    }

    fn wait(&self, time: Duration) {
        self.world.wait(time);
    }

    fn wait_to_be_told(&self, signal: usize, at_most: Duration) {
        self.world.wait_at_most(at_most, Some(signal));
    }

    fn tell(&self, signal: usize) {
        self.world.tell(signal);
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        self.world.spawn(name, Some(Arc::clone(&self.life)), work)
    }
}

/// The clock by which leases are counted.
pub(super) struct ClockOf(pub(super) Arc<ServerWorld>);

impl BootClock for ClockOf {
    fn now(&self) -> Duration {
        self.0.now()
    }
}
