//! Time that passes when nothing else can happen, chance from a seed, and tasks that take turns.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::dice::SimulatedDice;
use crate::objects::Surroundings;

/// A run that takes longer, by its own clock, hangs.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// The clock and the dice of one run.
#[derive(Debug)]
pub(super) struct SimulatedWorld(Mutex<Ticking>);

#[derive(Debug)]
struct Ticking {
    now: Duration,
    dice: SimulatedDice,
    timers: BinaryHeap<Reverse<Timer>>,
    counted: u64,
}

#[derive(Debug)]
struct Timer {
    at: Duration,
    order: u64,
    waker: Waker,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl SimulatedWorld {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
        let dice = SimulatedDice(dice);
        let (now, timers) = (Duration::ZERO, BinaryHeap::new());
        Arc::new(Self(Mutex::new(Ticking { now, dice, timers, counted: 0 })))
    }

    fn inside(&self) -> MutexGuard<'_, Ticking> {
        self.0.lock().expect("nothing panics while it is held")
    }

    pub(super) fn draw(&self) -> u64 {
        self.inside().dice.draw()
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// Whether something happens that does so `share` times in a thousand.
    pub(super) fn happens(&self, share: u64) -> bool {
        self.below(1000) < share
    }

    /// A time of mostly a few `typical`, and rarely much longer.
    pub(super) async fn pause(&self, typical: Duration) {
        let times = [1, 1, 1, 2, 2, 4, 8, 30][self.below(8) as usize];
        let wait = typical * times * (self.below(1000) as u32) / 1000;
        self.wait(wait).await;
    }

    pub(super) async fn wait(&self, wait: Duration) {
        self.sleep(wait).await;
    }

    /// Runs all tasks to their ends.
    pub(super) fn run<'a>(&self, tasks: Vec<Pin<Box<dyn Future<Output = ()> + 'a>>>) {
        let mut tasks: FuturesUnordered<_> = tasks.into_iter().collect();
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            while woken.0.swap(false, Ordering::SeqCst) {
                let mut context = Context::from_waker(&waker);
                while let Poll::Ready(done) = tasks.poll_next_unpin(&mut context) {
                    if done.is_none() {
                        return;
                    }
                }
            }
            let mut inside = self.inside();
            let Reverse(timer) = inside.timers.pop().expect("who does not wait for time hangs");
            inside.now = inside.now.max(timer.at);
            assert!(inside.now < LONGEST, "the run does not end");
            drop(inside);
            timer.waker.wake();
        }
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The world as the crate's core is given it.
#[derive(Clone)]
pub(super) struct OfWorld(pub(super) Arc<SimulatedWorld>);

impl Surroundings for OfWorld {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, wait: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(WorldSleep { until: self.0.now() + wait, world: Arc::clone(&self.0) })
    }

    fn random(&self) -> u128 {
        u128::from(self.0.draw()) << 64 | u128::from(self.0.draw())
    }
}

impl SimulatedWorld {
    pub(super) fn now(&self) -> Duration {
        self.inside().now
    }

    fn sleep(&self, wait: Duration) -> impl Future<Output = ()> + '_ {
        let until = self.now() + wait;
        std::future::poll_fn(move |context| self.poll_until(until, context))
    }

    fn poll_until(&self, until: Duration, context: &mut Context<'_>) -> Poll<()> {
        let mut inside = self.inside();
        if inside.now >= until {
            return Poll::Ready(());
        }
        inside.counted += 1;
        let timer = Timer { at: until, order: inside.counted, waker: context.waker().clone() };
        inside.timers.push(Reverse(timer));
        Poll::Pending
    }
}

struct WorldSleep {
    until: Duration,
    world: Arc<SimulatedWorld>,
}

impl Future for WorldSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.world.poll_until(self.until, context)
    }
}
