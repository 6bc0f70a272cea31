//! Ports and pollers: back-pressure, errors, ends, sleep.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_raw::device::{
    Command, CommandDone, CommandRefused, DeviceAction, Geometry, RawDevice, Status,
};
use pipeann_raw::memory::{MemoryRegion, Plain};
use pipeann_raw::sim::{Platter, Power, SimDevOptions};
use pipeann_raw::{Answer, Devices, Idle, Port, PortTarget, Stripe};

use crate::rig::{Rig, quiet, read_by};

const FIRST: u64 = 4096;

/// Time in which nothing is asked for, as the keep-alive and a sleeping poller want it.
fn pause(time: Duration) {
    pipeann_raw::bell().unwrap().rest(Some(time));
}

fn filled(count: usize, options: &SimDevOptions) -> (Rig, Vec<u8>, Stripe) {
    let rig = Rig::new(count, options);
    let stripe = Stripe::new(count, 4096, FIRST, options.bytes);
    let flat: Vec<u8> = (0..stripe.capacity()).map(|i| ((i * 31) ^ (i >> 11)) as u8).collect();
    for piece in stripe.pieces(0, stripe.capacity()) {
        let bytes = &flat[piece.at as usize..(piece.at + piece.bytes) as usize];
        rig.platters[piece.device].scribble(piece.offset, bytes);
    }
    (rig, flat, stripe)
}

/// Keeps `many` reads on their way, and compares each with the flat file.
#[expect(unsafe_code, reason = "memory is lent to the port")]
fn hammer(devices: &Devices, mut port: Port, flat: &[u8], (many, reads): (usize, u64), seed: u64) {
    let mut memory: Vec<MemoryRegion> =
        (0..many).map(|_| devices.memory().allocate(65536).unwrap()).collect();
    let mut asked = vec![(0_usize, 0_usize); many];
    let mut free: Vec<usize> = (0..many).collect();
    let (mut random, mut begun, mut ended) = (seed, 0, 0);
    let mut out: Vec<Answer> = Vec::new();
    while ended < reads {
        while begun < reads
            && let Some(slot) = free.pop()
        {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let blocks = 1 + (random >> 33) as usize % 12;
            let last = flat.len() / 4096 - blocks;
            let offset = (random >> 20) as usize % last * 4096;
            asked[slot] = (offset, blocks * 4096);
            // SAFETY: the slot's memory is free, and kept until the port has settled.
            unsafe {
                let start = memory[slot].start();
                let (from, bytes) = (offset as u64, blocks * 4096);
                port.push(DeviceAction::Read, PortTarget::Stripe, from, bytes, start, slot as u64);
            }
            begun += 1;
        }
        port.wait(1 + ended as usize % 3, &mut || false, &mut out);
        for Answer { token, result } in out.drain(..) {
            result.expect("no fault");
            let slot = token as usize;
            let (offset, bytes) = asked[slot];
            // SAFETY: the read has ended.
            let got = unsafe { memory[slot].slice_mut() };
            assert!(got[..bytes] == flat[offset..offset + bytes], "read at {offset}");
            got.fill(0);
            free.push(slot);
            ended += 1;
        }
    }
    assert_eq!(port.under_way(), 0);
}

#[test]
fn many_threads_read_what_is_there_through_short_rings_and_a_busy_driver() {
    let options =
        SimDevOptions { depth: 4, full_every: 3, bytes: 1 << 20, ..SimDevOptions::default() };
    for count in [1, 2, 4] {
        let (rig, flat, stripe) = filled(count, &options);
        for idle in [Idle::Sleep, Idle::Yield] {
            let devices = rig.devices_by(&Power::default(), quiet(idle)).unwrap();
            std::thread::scope(|scope| {
                for seed in 0..3 {
                    let (devices, flat) = (&devices, &flat);
                    // A ring of two: most requests wait in the port.
                    let port = devices.port(stripe, 2).unwrap();
                    scope.spawn(move || hammer(devices, port, flat, (16, 500), seed));
                }
            });
        }
    }
}

#[test]
fn a_bad_block_fails_its_read_alone_and_says_where() {
    let (rig, flat, stripe) = filled(2, &SimDevOptions::default());
    rig.platters[1].break_block(FIRST + 4096, Status::Nvme { kind: 2, code: 0x81 });
    let devices = rig.devices(&Power::default()).unwrap();
    let port = || devices.port(stripe, 8).unwrap();
    // Turn 3 is the second of the second device.
    let why = read_by(&devices, port(), PortTarget::Stripe, 0, 5 * 4096).unwrap_err();
    assert!(
        why.starts_with("sim1: read of 4096 bytes at LBA 16 failed: NVMe status 0x2/0x81"),
        "{why}"
    );
    let got = read_by(&devices, port(), PortTarget::Stripe, 0, 3 * 4096).unwrap();
    assert_eq!(got, flat[..3 * 4096]);
}

#[test]
fn a_device_pulled_out_fails_every_read_and_ends_no_wait_for_ever() {
    let (rig, flat, stripe) = filled(2, &SimDevOptions::default());
    let devices = rig.devices(&Power::default()).unwrap();
    let port = || devices.port(stripe, 8).unwrap();
    rig.platters[0].pull_out();
    let why = read_by(&devices, port(), PortTarget::Stripe, 0, 4096).unwrap_err();
    assert!(why.contains("sim0") && why.contains("the device is gone"), "{why}");
    // Told by the keep-alive, while nothing is read.
    let until = Instant::now() + Duration::from_secs(5);
    pause(Duration::from_millis(300));
    let why = read_by(&devices, port(), PortTarget::Stripe, 0, 4096).unwrap_err();
    assert!(why.contains("the device is gone") && Instant::now() < until, "{why}");
    let other = read_by(&devices, port(), PortTarget::Stripe, 4096, 4096).unwrap();
    assert_eq!(other, flat[4096..8192], "the other device answers as before");
}

/// Panics at the command of a number.
struct Breaking {
    left: u32,
}

impl RawDevice for Breaking {
    fn name(&self) -> &str {
        "breaking"
    }

    fn geometry(&self) -> Geometry {
        Geometry { lba_bytes: 512, bytes: 1 << 20, max_transfer_bytes: 4096, depth: 8 }
    }

    #[expect(unsafe_code, reason = "the seam is so")]
    unsafe fn submit(&mut self, _: &Command) -> Result<(), CommandRefused> {
        assert!(self.left > 0, "this device breaks its poller");
        self.left -= 1;
        Ok(())
    }

    fn flush(&mut self, _: u64) -> Result<(), CommandRefused> {
        Err(CommandRefused::Failed(Status::System(5)))
    }

    fn poll(&mut self, _: &mut Vec<CommandDone>) {}
}

#[test]
fn a_poller_that_ends_ends_the_reads_that_it_had() {
    let devices: Vec<Box<dyn RawDevice>> = vec![Box::new(Breaking { left: 2 })];
    let devices = Devices::serve(devices, Arc::new(Plain), quiet(Idle::Sleep)).unwrap();
    let stripe = Stripe::new(1, 4096, 0, 1 << 20);
    let port = devices.port(stripe, 8).unwrap();
    let why = read_by(&devices, port, PortTarget::Stripe, 0, 5 * 4096).unwrap_err();
    assert!(why.contains("breaking") && why.contains("the device is gone"), "{why}");
    let until = Instant::now() + Duration::from_secs(5);
    while devices.alive() {
        assert!(Instant::now() < until, "the poller has ended");
        std::thread::yield_now();
    }
    let port = devices.port(stripe, 8).unwrap();
    let why = read_by(&devices, port, PortTarget::Stripe, 0, 4096).unwrap_err();
    assert!(why.contains("the device is gone"), "who comes later learns of it too: {why}");
}

#[test]
fn no_more_ports_than_a_poller_serves() {
    let rig = Rig::new(1, &SimDevOptions::default());
    let devices = rig.devices(&Power::default()).unwrap();
    let stripe = Stripe::new(1, 4096, 0, 1 << 20);
    let ports: Vec<Port> =
        (0..pipeann_raw::MAX_LANES).map(|_| devices.port(stripe, 1).unwrap()).collect();
    assert!(devices.port(stripe, 1).is_err());
    drop(ports);
    let until = Instant::now() + Duration::from_secs(5);
    while devices.port(stripe, 1).is_err() {
        assert!(Instant::now() < until, "places of ports that are gone are given again");
        std::thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
mod threads {
    use super::*;

    /// Clock ticks that threads of this name took, and how many there are.
    fn pollers(prefix: &str) -> (u64, usize) {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let stat = |task: std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("stat")).unwrap_or_default()
        };
        let all: Vec<String> = tasks.flatten().map(stat).collect();
        let named = all.iter().filter(|stat| stat.contains(prefix));
        let ticks = named.clone().map(|stat| {
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        });
        (ticks.sum(), named.count())
    }

    #[test]
    fn each_device_has_a_thread_of_its_own_that_sleeps_when_there_is_nothing_to_do() {
        let platters = (0..5).map(|_| Platter::new(SimDevOptions::default())).collect();
        let rig = Rig { platters };
        // Other tests have pollers too, but none of them has so many.
        let devices = rig.devices(&Power::default()).unwrap();
        let until = Instant::now() + Duration::from_secs(5);
        while pollers("(raw-poller-4)").1 == 0 {
            assert!(Instant::now() < until, "pollers have names");
            pause(Duration::from_millis(10));
        }
        let (before, _) = pollers("(raw-poller-4)");
        pause(Duration::from_millis(500));
        let (after, _) = pollers("(raw-poller-4)");
        drop(devices);
        assert!(after - before <= 10, "{} ticks in half a second", after - before);
    }
}
