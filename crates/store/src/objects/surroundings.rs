//! Time and chance of the machine.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::Surroundings;

/// The timer of the tokio runtime that a call is made in, and the system's random numbers.
#[derive(Clone, Copy, Debug)]
pub struct OfThisMachine {
    start: Instant,
}

impl Default for OfThisMachine {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Surroundings for OfThisMachine {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, wait: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(wait))
    }

    fn random(&self) -> u128 {
        Uuid::new_v4().as_u128()
    }
}
