//! The life of a thread of a pool: a driver that breaks is followed by another as soon as there can be
//! one.
//!
//! What breaks a queue is commonly a shortage that passes, and under it no other queue can be made
//! at once. So a thread does not end by it: it asks again. Searches that wait are for the other threads
//! meanwhile; where none of them can search, they are told so instead of waiting for nobody.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::worker::RingWorker;
use crate::index::QueryError;
use crate::io::IoError;
use crate::search::{Driver, SearchError};

/// Between two times that another driver is asked for.
const PAUSE: Duration = Duration::from_millis(100);

impl RingWorker {
    /// Searches until the pool closes. A queue that breaks, or a search that panics, takes the
    /// searches in flight with it.
    pub(super) fn run(mut self, mut driver: Driver, in_flight: usize) {
        let index = Arc::clone(&self.index);
        index.backend().enter_search_thread();
        loop {
            let work = || driver.work(index.as_ref(), in_flight, &mut self);
            let error = match catch_unwind(AssertUnwindSafe(work)) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error,
                Err(_) => SearchError::Panicked,
            };
            tracing::error!("a thread of searches begins anew: {error}");
            // Its queue and buffers are free before others are asked for.
            drop(driver);
            self.fail_all(&error);
            match self.next_driver(in_flight) {
                Some(next) => driver = next,
                None => return,
            }
        }
    }

    /// Another driver, as soon as there can be one; `None` where the pool closes before.
    fn next_driver(&mut self, in_flight: usize) -> Option<Driver> {
        let refused = match self.driver(in_flight) {
            Ok(driver) => return Some(driver),
            Err(refused) => refused,
        };
        tracing::error!("a thread of searches waits until it can have a queue: {refused}");
        let outage = Arc::clone(&self.outage);
        outage.begin();
        let found = self.driver_in_time(in_flight, refused);
        outage.end();
        found
    }

    fn driver_in_time(&mut self, in_flight: usize, mut refused: QueryError) -> Option<Driver> {
        loop {
            if self.outage.is_whole() {
                self.fail_waiting(&search_error(refused));
            }
            if self.inbox.rest(PAUSE) {
                return None;
            }
            match self.driver(in_flight) {
                Ok(driver) => return Some(driver),
                Err(again) => refused = again,
            }
        }
    }
}

/// Why there is no driver, as searches are told it.
fn search_error(refused: QueryError) -> SearchError {
    match refused {
        QueryError::Io(error) => SearchError::Queue(error),
        QueryError::Search(error) => error,
        _ => SearchError::Queue(IoError::Broken),
    }
}
