//! What a server tells of itself: queries and states, slots, what waits, and how long states are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pipeann_cluster::relay::{ServerCounters, ServerHost};
use pipeann_cluster::walker::{IndexWalker, QueueFigures, StateSizes};
use serde_json::{Map, Value, json};

use crate::table::print_json;

/// Prints a line every so often until the server ends, and one then. Whoever ends it wakes this thread.
pub(super) fn tell_every(
    every: Duration,
    server: u32,
    host: &ServerHost<IndexWalker>,
    ending: &AtomicBool,
) {
    let mut due = Instant::now() + every;
    loop {
        let is_ending = ending.load(Ordering::Relaxed);
        let early = due.saturating_duration_since(Instant::now());
        if !is_ending && !early.is_zero() {
            std::thread::park_timeout(early);
            continue;
        }
        let figures = host.of_walker(IndexWalker::figures);
        // Whoever reads it may have gone, and the server serves on.
        let _ = print_json(&line(server, host.counters(), host.slots_in_use(), figures));
        if is_ending {
            return;
        }
        due = Instant::now() + every;
    }
}

fn line(server: u32, counters: ServerCounters, slots: usize, of: QueueFigures) -> Value {
    let ServerCounters {
        begun,
        arrived,
        left,
        answered,
        scored,
        failed,
        repeated,
        beyond_grant,
        out_of_place,
        most_slots,
    } = counters;
    json!({
        "server": server, "begun": begun, "arrived": arrived, "left": left, "answered": answered,
        "scored": scored, "failed": failed, "repeated": repeated, "beyond_grant": beyond_grant,
        "out_of_place": out_of_place, "slots": slots, "most_slots": most_slots,
        "waiting": of.waiting, "most_waiting": of.most_waiting, "states": states(of.state_bytes),
    })
}

/// How many states had at most so many bytes and more than the bucket before.
fn states(sizes: StateSizes) -> Value {
    let most = StateSizes::AT_MOST.iter().map(usize::to_string);
    let names = most.chain(["more".to_owned()]);
    let counts = sizes.buckets().iter().map(|&count| Value::from(count));
    Value::Object(Map::from_iter(names.zip(counts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_of_states_is_named() {
        let told =
            line(3, ServerCounters { left: 2, ..Default::default() }, 5, QueueFigures::default());
        assert_eq!(
            (&told["server"], &told["left"], &told["slots"]),
            (&3.into(), &2.into(), &5.into())
        );
        let states = told["states"].as_object().unwrap();
        assert_eq!(states.len(), StateSizes::AT_MOST.len() + 1);
        assert!(states.contains_key("1024") && states.contains_key("more"), "{states:?}");
    }
}
