//! What the way to a device costs: commands a second through a port, a poller and back, over a device
//! that does nothing, beside the same loop over one bare ring between two threads.
//!
//! `cargo run --release -p pipeann-raw --example rings -- SECONDS ROUNDS` prints, for each round, the
//! rate of the one, of the other, and the first over the second.

#![expect(unsafe_code, reason = "memory is lent to the port")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_raw::device::{DeviceAction, RawDevice};
use pipeann_raw::memory::Plain;
use pipeann_raw::sim::NullDev;
use pipeann_raw::{Answer, Devices, DevicesOptions, Idle, Pinning, PortTarget, Stripe};

/// Commands on their way.
const DEPTH: usize = 64;

fn main() {
    let mut given = std::env::args().skip(1).map(|word| word.parse::<f64>().expect("a number"));
    let seconds = Duration::from_secs_f64(given.next().unwrap_or(2.0));
    let rounds = given.next().unwrap_or(3.0) as usize;
    for _ in 0..rounds {
        let (bare, whole) = (bare(seconds), whole(seconds));
        println!("whole {whole:.0} bare {bare:.0} ratio {:.3}", whole / bare);
    }
}

/// One search thread, one poller, a device that does nothing.
fn whole(seconds: Duration) -> f64 {
    let serve = DevicesOptions {
        idle: Some(Idle::Spin),
        pinning: Pinning::Off,
        ..DevicesOptions::default()
    };
    let devices: Vec<Box<dyn RawDevice>> = vec![Box::<NullDev>::default()];
    let devices = Devices::serve(devices, Arc::new(Plain), serve).expect("a thread");
    let stripe = Stripe::new(1, 65536, 1 << 20, 1 << 40);
    let mut port = devices.port(stripe, DEPTH).expect("a port");
    let memory = devices.memory().allocate(4096).expect("memory");
    let mut out: Vec<Answer> = Vec::with_capacity(DEPTH);
    let (from, mut ended) = (Instant::now(), 0_u64);
    while from.elapsed() < seconds {
        for _ in 0..1000 {
            while port.under_way() < DEPTH {
                // SAFETY: the device touches no memory.
                unsafe {
                    port.push(DeviceAction::Read, PortTarget::Stripe, 0, 4096, memory.start(), 0)
                };
            }
            port.flush();
            port.poll(&mut out);
            ended += out.len() as u64;
            out.clear();
        }
    }
    ended as f64 / from.elapsed().as_secs_f64()
}

/// The same number on their way through one ring, to a thread that only takes them out and counts.
fn bare(seconds: Duration) -> f64 {
    pipeann_raw::bench::bare_ring(DEPTH, seconds)
}
