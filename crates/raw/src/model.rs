//! The rings and the sleep under loom: the same source, with loom's atomics, in every order that
//! the memory model allows.

mod sync {
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::sync::Arc;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
}

#[path = "ring.rs"]
mod ring;
#[path = "tally.rs"]
mod tally;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use self::ring::ring;
use self::tally::OpTally;

/// Rung once, it ends one rest: as the bells do.
#[derive(Default)]
struct ModelBell {
    rung: Mutex<bool>,
    signal: Condvar,
}

impl ModelBell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.signal.notify_one();
    }

    fn rest(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.signal.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// Every order with so many involuntary changes of threads: more take minutes and find nothing new.
fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

#[test]
fn values_come_out_once_and_in_order_of_a_ring_that_is_often_full() {
    model(|| {
        let (mut producer, mut consumer) = ring::<u32>(2);
        let pusher = thread::spawn(move || {
            for value in 0..3 {
                while producer.push(value).is_err() {
                    thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < 3 {
            match consumer.pop() {
                Some(value) => {
                    assert_eq!(value, next);
                    next += 1;
                }
                None => thread::yield_now(),
            }
        }
        pusher.join().unwrap();
        assert_eq!(consumer.pop(), None);
        assert!(consumer.is_closed());
    });
}

#[test]
fn what_was_pushed_before_the_end_closed_is_still_there() {
    model(|| {
        let (mut producer, mut consumer) = ring::<u32>(2);
        let pusher = thread::spawn(move || producer.push(7).unwrap());
        while !consumer.is_closed() {
            thread::yield_now();
        }
        assert_eq!(consumer.pop(), Some(7));
        pusher.join().unwrap();
    });
}

/// A poller that sleeps when there is nothing to do, and two search threads.
#[test]
fn a_sleeper_sees_everything_that_was_pushed() {
    model(|| {
        let (tally, bell) = (Arc::new(OpTally::new()), Arc::new(ModelBell::default()));
        let lanes: Vec<_> = (0..2).map(|_| ring::<u32>(1)).collect();
        let mut consumers = Vec::new();
        let threads: Vec<_> = lanes
            .into_iter()
            .map(|(mut producer, consumer)| {
                consumers.push(consumer);
                let (tally, bell) = (Arc::clone(&tally), Arc::clone(&bell));
                thread::spawn(move || {
                    producer.push(1).unwrap();
                    if tally.add(1) {
                        bell.ring();
                    }
                })
            })
            .collect();
        let mut sum = 0;
        while sum < 2 {
            let seen = tally.count();
            let found: u32 = consumers.iter_mut().filter_map(|c| c.pop()).sum();
            sum += found;
            if found == 0 {
                tally.rest(seen + 1, || bell.rest());
            }
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

/// A search thread that wants two answers before it is woken, of two pollers.
#[test]
fn a_sleeper_that_wants_several_is_woken_by_the_last() {
    model(|| {
        let (tally, bell) = (Arc::new(OpTally::new()), Arc::new(ModelBell::default()));
        let pollers: Vec<_> = (0..2)
            .map(|_| {
                let (tally, bell) = (Arc::clone(&tally), Arc::clone(&bell));
                thread::spawn(move || {
                    if tally.add(1) {
                        bell.ring();
                    }
                })
            })
            .collect();
        while tally.count() < 2 {
            tally.rest(2, || bell.rest());
        }
        pollers.into_iter().for_each(|t| t.join().unwrap());
    });
}
