//! Which processors threads may run on, as the system tells it.

use std::collections::BTreeMap;

use pipeann_raw::sim::{Power, SimDevOptions};
use pipeann_raw::{DevicesOptions, Idle, Pinning, PortTarget, Stripe};

use crate::rig::{Rig, quiet, read_by};

/// Numbers of a list as `0-3,8`.
fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        from.parse().unwrap()..=to.parse().unwrap()
    };
    list.trim().split(',').flat_map(range).collect()
}

/// What `status` of a thread says of its processors.
fn allowed(status: &str) -> Vec<usize> {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    numbers(line.expect("Linux says so"))
}

fn of_this_thread() -> Vec<usize> {
    allowed(&std::fs::read_to_string("/proc/thread-self/status").unwrap())
}

/// What `enter` leaves a thread that calls it.
fn entered(enter: impl Fn() + Send + Sync) -> Vec<usize> {
    let work = || {
        enter();
        of_this_thread()
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Processors of all threads of the process with a name, by thread.
fn named(name: &str) -> BTreeMap<String, Vec<usize>> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap());
    let of = |thread: std::fs::DirEntry| {
        // Threads of other tests end meanwhile.
        let comm = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let number = thread.file_name().into_string().unwrap();
        (comm.trim() == name).then(|| (number, allowed(&status)))
    };
    threads.filter_map(of).collect()
}

fn served(count: usize, pinning: Pinning) -> pipeann_raw::Devices {
    let options = SimDevOptions { bytes: 2 << 20, ..SimDevOptions::default() };
    let serve = DevicesOptions { pinning, ..quiet(Idle::Sleep) };
    Rig::new(count, &options).devices_by(&Power::default(), serve).unwrap()
}

#[test]
fn pollers_come_first_and_behind_them_what_searches_and_links() {
    let all = of_this_thread();
    if all.len() < 2 {
        println!("one processor: nothing can be told apart");
        return;
    }
    let before = named("raw-poller-0");
    let devices = served(1, Pinning::On);
    // A poller pins itself before it looks for work.
    let stripe = Stripe::new(1, 4096, 0, 1 << 20);
    read_by(&devices, devices.port(stripe, 4).unwrap(), PortTarget::Stripe, 0, 4096).unwrap();
    let after = named("raw-poller-0");
    let is_ours =
        |(thread, on): (&String, &Vec<usize>)| !before.contains_key(thread) && *on == all[..1];
    assert!(after.iter().any(is_ours), "no poller on {}: {after:?}", all[0]);
    // In turns over the processors behind it, as often as there are threads.
    for turn in 0..2 * all.len() {
        let place = all[1 + turn % (all.len() - 1)];
        assert_eq!(entered(|| devices.pin_search()), [place]);
    }
    assert_eq!(entered(|| devices.pin_link()), all[1..]);
    assert_eq!(of_this_thread(), all, "who has opened the devices stays free");
}

#[test]
fn nothing_is_pinned_where_that_is_off() {
    let all = of_this_thread();
    let devices = served(1, Pinning::Off);
    assert_eq!(entered(|| devices.pin_search()), all);
    assert_eq!(entered(|| devices.pin_link()), all);
}

#[test]
fn more_pollers_than_processors_share_them_and_work() {
    let all = of_this_thread();
    let devices = served(all.len() + 1, Pinning::On);
    let stripe = Stripe::new(devices.count(), 4096, 0, 1 << 20);
    let port = devices.port(stripe, 4).unwrap();
    let bytes = 4096 * devices.count();
    assert_eq!(read_by(&devices, port, PortTarget::Stripe, 0, bytes), Ok(vec![0; bytes]));
    assert_eq!(entered(|| devices.pin_search()), all, "nothing is left for searches");
    assert_eq!(entered(|| devices.pin_link()), all);
}
