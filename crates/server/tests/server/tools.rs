//! Waiting for what comes about.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Far more than anything takes on a machine that others use too.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn pause(time: Duration) {
    let (_nobody, nothing) = channel::<()>();
    let _ = nothing.recv_timeout(time);
}

pub(crate) fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "waited for long: {what}");
        pause(Duration::from_millis(10));
    }
}
