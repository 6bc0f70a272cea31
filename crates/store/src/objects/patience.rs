//! Trying again: how long, and with what waits between.
//!
//! Waits are random, so that many servers do not come back at once after the store was away. Time and
//! chance are inputs ([`Surroundings`]), which a simulation gives from a seed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Advice, ObjectsError};

/// The first wait is at most this long, each next one twice that.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// No wait is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Time and chance.
pub trait Surroundings: Send + Sync {
    /// Time since some moment, which never runs backwards.
    fn now(&self) -> Duration;
    /// Ends when that time has passed.
    fn sleep(&self, wait: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
    /// 128 bits that do not come twice, here or at another server.
    fn random(&self) -> u128;
}

/// How long an operation is tried again.
#[derive(Clone)]
pub struct RetryPatience {
    /// From the first try to the beginning of the last.
    pub limit: Duration,
    surroundings: Arc<dyn Surroundings>,
}

impl fmt::Debug for RetryPatience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryPatience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl RetryPatience {
    /// Tries again for `limit`.
    pub fn new(limit: Duration, surroundings: Arc<dyn Surroundings>) -> Self {
        Self { limit, surroundings }
    }

    /// A number that nobody else draws.
    pub(crate) fn token(&self) -> u128 {
        self.surroundings.random()
    }

    /// The time, as a span since some moment.
    pub(crate) fn now(&self) -> Duration {
        self.surroundings.now()
    }

    /// The waits of one operation that begins now.
    pub(crate) fn waits(&self) -> Waits<'_> {
        Waits { patience: self, until: self.surroundings.now() + self.limit, next: FIRST_WAIT }
    }

    /// Tries what may be done twice until it succeeds, can't, or time is up; then tells the last error.
    pub(crate) async fn retry<T, F>(
        &self,
        mut operation: impl FnMut() -> F,
    ) -> Result<T, ObjectsError>
    where
        F: Future<Output = Result<T, ObjectsError>>,
    {
        let mut waits = self.waits();
        loop {
            match operation().await {
                Err(error) if error.advice() == Advice::Retry && waits.wait().await => {
                    tracing::debug!(%error, "the store is asked again");
                }
                result => return result,
            }
        }
    }
}

/// The waits of one operation.
pub(crate) struct Waits<'p> {
    patience: &'p RetryPatience,
    until: Duration,
    next: Duration,
}

impl Waits<'_> {
    /// Waits before the next try; `false` where time is up.
    pub(crate) async fn wait(&mut self) -> bool {
        let share = (self.patience.token() % 1000) as u32;
        let wait = self.next / 2 + self.next / 2 * share / 1000;
        self.next = (self.next * 2).min(LONGEST_WAIT);
        if self.patience.surroundings.now() + wait > self.until {
            return false;
        }
        self.patience.surroundings.sleep(wait).await;
        true
    }
}
