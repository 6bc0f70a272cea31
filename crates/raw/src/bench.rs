//! One ring alone, for the example `rings` to compare with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::device::DeviceAction;
use crate::lane::Request;
use crate::ring::ring;

/// Requests a second that one thread pushes into a ring and another takes out, with so many on their
/// way at most.
pub fn bare_ring(depth: usize, seconds: Duration) -> f64 {
    let (mut producer, mut consumer) = ring::<Request>(depth);
    let over = Arc::new(AtomicBool::new(false));
    let taken = Arc::new(AtomicU64::new(0));
    let (their_over, theirs) = (Arc::clone(&over), Arc::clone(&taken));
    let taker = std::thread::Builder::new().name("taker".into()).spawn(move || {
        let mut count = 0;
        while !their_over.load(Ordering::Relaxed) {
            match consumer.pop() {
                Some(request) => {
                    std::hint::black_box(request.tag);
                    count += 1;
                    theirs.store(count, Ordering::Release);
                }
                None => std::hint::spin_loop(),
            }
        }
    });
    let memory = std::ptr::null_mut();
    let (from, mut pushed) = (Instant::now(), 0_u64);
    while from.elapsed() < seconds {
        for _ in 0..1000 {
            let request = Request {
                action: DeviceAction::Read,
                offset: 0,
                bytes: 4096,
                memory,
                tag: pushed as u32,
            };
            if producer.push(request).is_ok() {
                pushed += 1;
            } else {
                std::hint::spin_loop();
            }
        }
    }
    let rate = taken.load(Ordering::Acquire) as f64 / from.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    // The thread only counts: it cannot have failed.
    let _ = taker.map(std::thread::JoinHandle::join);
    rate
}
