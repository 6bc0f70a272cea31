//! Devices that are pulled out, or whose controller is reset: known to all, told of once, used no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pipeann_raw::device::Status;
use pipeann_raw::sim::{Platter, SimDevOptions};
use pipeann_raw::{CopyError, Store};
use tracing::span;

use crate::rig::{Index, Rig, content, read};

const SIZE: u64 = 1_000_000;
/// Turns of the stripe: of the first and of the second device.
const TURNS: [u64; 2] = [0, 64 << 10];

/// A copy over two devices, of which the second is broken by `fail`.
fn broken(fail: impl Fn(&Platter)) -> (Rig, Store, u64) {
    let rig = Rig::claimed(2, &SimDevOptions::default());
    let store = rig.store().unwrap();
    let region = store.copy(&Index::new(1).segment("s", SIZE, 5, 1), &mut |_| ()).unwrap();
    fail(&rig.platters[1]);
    (rig, store, region.start)
}

#[test]
fn a_device_that_answers_so_is_lost_and_the_others_are_not() {
    let reset = Status::Nvme { kind: 0, code: 0x08 };
    let pulled = |platter: &Platter| platter.pull_out();
    let aborted = |platter: &Platter| platter.break_block((1 << 20) + 512, reset);
    for (fail, said) in
        [(&pulled as &dyn Fn(&Platter), "the device is gone"), (&aborted, "0x0/0x08 (aborted)")]
    {
        let (rig, store, start) = broken(fail);
        // Found out by keeping it alive, or else by the first read.
        let error = read(&store, start + TURNS[1], 4096).unwrap_err();
        assert!(error.contains("sim1") && error.contains(said), "{error}");
        assert!(store.devices().is_any_lost() && store.devices().is_lost(1));
        assert!(!store.devices().is_lost(0));
        assert_eq!(read(&store, start, 4096).unwrap(), content(4096, 5), "the other one works");
        assert_eq!(store.lost_in(start + TURNS[0], 4096), None);
        assert_eq!(store.lost_in(start + TURNS[0], 64 << 10), None);
        assert_eq!(store.lost_in(start + TURNS[0], (64 << 10) + 512), Some(1));
        // It is not asked again, whatever its other blocks would answer.
        let before = rig.platters[1].reads();
        assert!(read(&store, start + TURNS[1] + 8192, 4096).is_err());
        assert_eq!(rig.platters[1].reads(), before);
        let again = store.copy(&Index::new(2).segment("t", SIZE, 6, 1), &mut |_| ());
        assert!(matches!(again, Err(CopyError::Transfer(_))), "{again:?}");
    }
}

#[test]
fn a_block_that_cannot_be_read_is_no_loss() {
    let unreadable = Status::Nvme { kind: 2, code: 0x81 };
    let (_rig, store, start) = broken(|platter| platter.break_block(1 << 20, unreadable));
    assert!(read(&store, start + TURNS[1], 4096).is_err());
    assert!(!store.devices().is_any_lost());
    assert!(read(&store, start + TURNS[1] + 4096, 4096).is_ok());
}

/// Nobody has to read for that.
#[test]
fn a_loss_is_found_out_while_nothing_is_read() {
    let (_rig, store, _) = broken(Platter::pull_out);
    while !store.devices().is_lost(1) {
        std::thread::yield_now();
    }
}

/// As a controller that fails without its device being pulled out: the driver ends nothing of what it had.
#[test]
fn what_a_failed_device_keeps_is_answered_all_the_same() {
    let (rig, store, start) = broken(Platter::keep_all);
    let reads = std::thread::scope(|scope| {
        let readers = [0, 4096].map(|at| {
            scope.spawn({
                let store = &store;
                move || read(store, start + TURNS[1] + at, 4096)
            })
        });
        while rig.platters[1].kept() < readers.len() {
            std::thread::yield_now();
        }
        rig.platters[1].pull_out();
        readers.map(|reader| reader.join().unwrap())
    });
    for read in reads {
        let error = read.unwrap_err();
        assert!(error.contains("sim1") && error.contains("the device is gone"), "{error}");
    }
    assert!(store.devices().is_lost(1) && !store.devices().alive());
    // Whoever comes later is answered too, and so is who reads from the other one.
    assert!(read(&store, start + TURNS[1], 4096).is_err());
    assert_eq!(read(&store, start, 4096).unwrap(), content(4096, 5));
}

/// Counts events.
struct Events(Arc<AtomicUsize>);

impl tracing::Subscriber for Events {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn reads_from_files_are_counted_and_told_of_once() {
    let (_rig, store, _) = broken(Platter::pull_out);
    let told = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::with_default(Events(Arc::clone(&told)), || {
        (0..5).for_each(|_| store.devices().count_from_file(1));
    });
    assert_eq!(told.load(Ordering::Relaxed), 1);
    assert_eq!(store.devices().counts(1).from_files, 5);
    assert_eq!(store.devices().counts(0).from_files, 0);
}
