//! Threads that take turns, a clock that passes when all of them wait, and chance from a seed.
//!
//! A thread runs until it waits for time; then the one runs whose wait ends first. So the order in which
//! servers and clients act follows from the seed. A thread that waits for a lock which a waiting one
//! holds is found asleep by a look from outside, and the next one runs meanwhile.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pipeann_store::sim::SimulatedDice;

/// How often it is looked whether the running thread sleeps, and after how many looks it does.
const LOOK: Duration = Duration::from_millis(1);
const ASLEEP: u32 = 6;
/// What a turn takes at least when somebody was found asleep, and for how many turns.
const BESIDE: Duration = Duration::from_micros(200);
const BESIDE_TURNS: u64 = 50;
/// A run that takes longer, by its own clock, hangs.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// How long after it was told of something a thread goes on at the latest.
const WOKEN_WITHIN: Duration = Duration::from_millis(5);
/// Threads of killed servers end soon, but let others work meanwhile.
const GHOST_STEP: Duration = Duration::from_millis(1);

thread_local! {
    /// The number of this thread among those that take turns.
    static ME: Cell<Option<usize>> = const { Cell::new(None) };
    /// The server whose work this thread does now.
    static INSIDE: RefCell<Option<Arc<Life>>> = const { RefCell::new(None) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActorState {
    Waits,
    Runs,
    /// It was found asleep while it should run.
    Sleeps,
    Ended,
}

struct TurnTaker {
    name: String,
    turn: ActorState,
    /// When its wait ends; those of one moment in an order by chance.
    wake: (Duration, u64),
    /// What ends its wait before.
    signal: Option<usize>,
    baton: Arc<TurnBaton>,
    /// As the kernel counts threads.
    thread: Option<String>,
    life: Option<Arc<Life>>,
    /// The turn at which it was found asleep.
    asleep_at: u64,
}

/// Handed to the thread whose turn it is: by whoever holds no lock that this one takes next.
#[derive(Default)]
struct TurnBaton(Mutex<bool>, Condvar);

impl TurnBaton {
    fn give(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }

    fn take(&self) {
        let mut given = self.0.lock().unwrap();
        while !std::mem::take(&mut *given) {
            given = self.1.wait(given).unwrap();
        }
    }
}

struct WorldTurns {
    now: Duration,
    dice: SimulatedDice,
    actors: Vec<TurnTaker>,
    running: Option<usize>,
    /// How often the turn went on.
    passed: u64,
    over: bool,
    failed: Option<String>,
}

/// A server from its start to its end.
pub(super) struct Life {
    /// It was killed: what it still does reaches nobody.
    pub(super) killed: Arc<AtomicBool>,
    /// It stands still until then.
    paused_until: Mutex<Duration>,
    /// What a killed server takes for time that passes, in nanoseconds.
    ghost: AtomicU64,
}

impl Life {
    pub(super) fn new() -> Arc<Self> {
        let (killed, paused_until) = (Arc::default(), Mutex::default());
        Arc::new(Self { killed, paused_until, ghost: AtomicU64::new(0) })
    }

    pub(super) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// What has passed for a killed server alone.
    pub(super) fn ghost_time(&self) -> Duration {
        Duration::from_nanos(self.ghost.load(Ordering::SeqCst))
    }

    pub(super) fn pause_until(&self, until: Duration) {
        *self.paused_until.lock().unwrap() = until;
    }

    fn paused_until(&self) -> Duration {
        *self.paused_until.lock().unwrap()
    }

    /// Does something as this server.
    pub(super) fn within<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        struct LifeBefore(Option<Arc<Life>>);
        impl Drop for LifeBefore {
            fn drop(&mut self) {
                INSIDE.replace(self.0.take());
            }
        }
        let _before = LifeBefore(INSIDE.replace(Some(Arc::clone(self))));
        work()
    }
}

/// See the module's description.
pub(super) struct ServerWorld {
    turns: Mutex<WorldTurns>,
    began: Instant,
}

impl fmt::Debug for ServerWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerWorld")
    }
}

impl ServerWorld {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let dice = SimulatedDice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1405_7b7e_f767_814f);
        let turns = WorldTurns {
            now: Duration::ZERO,
            dice,
            actors: Vec::new(),
            running: None,
            passed: 0,
            over: false,
            failed: None,
        };
        Arc::new(Self { turns: Mutex::new(turns), began: Instant::now() })
    }

    fn turns(&self) -> MutexGuard<'_, WorldTurns> {
        self.turns.lock().expect("nothing panics while it is held")
    }

    pub(super) fn now(&self) -> Duration {
        self.turns().now
    }

    /// The moment of time zero, as threads see it.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// A moment as threads see it.
    pub(super) fn instant(&self) -> Instant {
        self.began + self.now()
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.turns().draw() % bound
    }

    /// Whether something happens that does so `share` times in a thousand.
    pub(super) fn happens(&self, share: u64) -> bool {
        self.below(1000) < share
    }

    /// Waits so long at most, by chance.
    pub(super) fn pause(&self, most: Duration) {
        self.wait(most * (self.below(1000) as u32) / 1000);
    }

    /// Lets others work for so long.
    pub(super) fn wait(&self, time: Duration) {
        self.wait_at_most(time, None);
    }

    /// Lets others work for so long, or until this is told.
    pub(super) fn wait_at_most(&self, time: Duration, signal: Option<usize>) {
        let Some(me) = ME.get() else {
            // A thread of a database, which works beside all this.
            return doze(LOOK);
        };
        let life = INSIDE.with_borrow(Clone::clone);
        let mut turns = self.turns();
        let passed = turns.passed;
        let just =
            |it: &TurnTaker| it.turn == ActorState::Sleeps && passed < it.asleep_at + BESIDE_TURNS;
        if turns.actors.iter().any(just) {
            // It may wait for what a database does beside all this: time is not to run away from it.
            drop(turns);
            doze(BESIDE);
            turns = self.turns();
        }
        let mut until = turns.now + time;
        loop {
            if let Some(life) = &life {
                if life.is_killed() {
                    life.ghost.fetch_add(time.as_nanos() as u64, Ordering::SeqCst);
                    until = turns.now + time.min(GHOST_STEP);
                } else {
                    until = until.max(life.paused_until());
                }
            }
            turns = self.take_turn(turns, me, (until, signal), life.clone());
            // It may have been stopped meanwhile.
            let stopped = life.as_ref().is_some_and(|life| life.paused_until() > turns.now);
            if !stopped || life.as_ref().is_some_and(|life| life.is_killed()) {
                return;
            }
            until = turns.now;
        }
    }

    /// Has all go on soon that wait for this.
    pub(super) fn tell(&self, signal: usize) {
        let mut turns = self.turns();
        let now = turns.now;
        for actor in 0..turns.actors.len() {
            let of = &turns.actors[actor];
            if of.turn == ActorState::Waits && of.signal == Some(signal) {
                let at = now + WOKEN_WITHIN * (turns.draw() % 1000) as u32 / 1000;
                let order = turns.draw();
                let actor = &mut turns.actors[actor];
                actor.wake = actor.wake.min((at, order));
                actor.signal = None;
            }
        }
    }

    fn take_turn<'t>(
        &'t self,
        mut turns: MutexGuard<'t, WorldTurns>,
        me: usize,
        (until, signal): (Duration, Option<usize>),
        life: Option<Arc<Life>>,
    ) -> MutexGuard<'t, WorldTurns> {
        let order = turns.draw();
        let actor = &mut turns.actors[me];
        (actor.turn, actor.life) = (ActorState::Waits, life);
        (actor.wake, actor.signal) = ((until, order), signal);
        let mine = Arc::clone(&actor.baton);
        let passes = turns.running.is_none_or(|running| running == me);
        let next = passes.then(|| turns.pass()).flatten();
        drop(turns);
        if let Some(next) = next {
            next.give();
        }
        mine.take();
        self.turns()
    }

    /// Lets the next one run.
    fn pass(&self, mut turns: MutexGuard<'_, WorldTurns>) {
        let next = turns.pass();
        drop(turns);
        if let Some(next) = next {
            next.give();
        }
    }

    /// The threads that have not ended, this one left out.
    pub(super) fn others(&self) -> Vec<String> {
        let turns = self.turns();
        let others =
            turns.actors.iter().enumerate().filter(|(number, actor)| {
                actor.turn != ActorState::Ended && Some(*number) != ME.get()
            });
        others.map(|(_, actor)| format!("{} {:?}", actor.name, actor.turn)).collect()
    }

    /// Has what threads of a killed server wait for come at once.
    pub(super) fn hurry(&self, life: &Arc<Life>) {
        let mut turns = self.turns();
        let now = turns.now;
        for actor in &mut turns.actors {
            let is_of = actor.life.as_ref().is_some_and(|it| Arc::ptr_eq(it, life));
            if is_of && actor.turn == ActorState::Waits {
                actor.wake.0 = now;
            }
        }
    }

    /// Does `work` on a thread of its own that takes turns.
    pub(super) fn spawn(
        self: &Arc<Self>,
        name: &str,
        life: Option<Arc<Life>>,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let mut turns = self.turns();
        let me = turns.actors.len();
        let (now, order) = (turns.now, turns.draw());
        turns.actors.push(TurnTaker {
            name: name.to_owned(),
            turn: ActorState::Waits,
            wake: (now, order),
            signal: None,
            baton: Arc::default(),
            thread: None,
            life: life.clone(),
            asleep_at: 0,
        });
        drop(turns);
        let world = Arc::clone(self);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            ME.set(Some(me));
            let thread = std::fs::read_link("/proc/thread-self").expect("proc is there");
            world.turns().actors[me].thread = Some(thread.display().to_string());
            let work = || {
                world.begin(me);
                INSIDE.replace(life);
                work();
            };
            let failed = catch_unwind(AssertUnwindSafe(work)).err();
            INSIDE.replace(None);
            world.end(me, failed);
        })
    }

    fn begin(&self, me: usize) {
        let turns = self.turns();
        let (now, life) = (turns.now, turns.actors[me].life.clone());
        drop(self.take_turn(turns, me, (now, None), life));
    }

    fn end(&self, me: usize, failed: Option<Box<dyn Any + Send>>) {
        let mut turns = self.turns();
        turns.actors[me].turn = ActorState::Ended;
        turns.actors[me].life = None;
        if let Some(why) = failed {
            let text = why.downcast_ref::<String>().cloned();
            let text = text.or_else(|| why.downcast_ref::<&str>().map(|&it| it.to_owned()));
            turns.failed.get_or_insert(text.unwrap_or_else(|| "a thread panicked".into()));
        }
        if turns.running == Some(me) {
            self.pass(turns);
        }
    }

    /// Runs `work` and whatever it spawns, until `work` ends.
    pub(super) fn run(
        self: &Arc<Self>,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), String> {
        let looks = Arc::clone(self);
        let looking = thread::Builder::new().name("looks".into());
        let looking = looking.spawn(move || looks.look_for_sleepers());
        let looking = looking.expect("threads can be made");
        let worked = self.spawn("director", None, work).expect("threads can be made").join();
        self.turns().over = true;
        worked.expect("what panics is caught");
        looking.join().expect("it only looks");
        self.turns().failed.take().map_or(Ok(()), Err)
    }

    /// Passes the turn on where the thread that has it sleeps on something else.
    fn look_for_sleepers(&self) {
        let mut seen = (0, 0);
        loop {
            doze(LOOK);
            let mut turns = self.turns();
            if turns.over {
                return;
            }
            let Some(running) = turns.running else { continue };
            // The look itself is only worth it where nothing went on since the last one.
            let is_asleep = seen.0 == turns.passed
                && turns.actors[running].thread.as_ref().is_some_and(|it| sleeps(it));
            seen = if is_asleep { (seen.0, seen.1 + 1) } else { (turns.passed, 0) };
            if seen.1 >= ASLEEP {
                let passed = turns.passed;
                let actor = &mut turns.actors[running];
                (actor.turn, actor.asleep_at) = (ActorState::Sleeps, passed);
                self.pass(turns);
            }
        }
    }
}

/// Lets time pass that is not the simulation's.
#[expect(
    clippy::disallowed_methods,
    reason = "databases work beside the simulation, by the machine's time"
)]
pub(super) fn doze(time: Duration) {
    thread::sleep(time);
}

/// Whether the kernel has a thread asleep.
fn sleeps(thread: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
}

impl WorldTurns {
    fn draw(&mut self) -> u64 {
        self.dice.draw()
    }

    /// The next one runs, if anybody waits for time, when it is given its baton.
    fn pass(&mut self) -> Option<Arc<TurnBaton>> {
        self.passed += 1;
        let waiting = self.actors.iter().enumerate().filter(|(_, it)| it.turn == ActorState::Waits);
        self.running = waiting.min_by_key(|(_, it)| it.wake).map(|(number, _)| number);
        let actor = &mut self.actors[self.running?];
        actor.turn = ActorState::Runs;
        let baton = Arc::clone(&actor.baton);
        self.now = self.now.max(actor.wake.0);
        if self.now > LONGEST {
            self.failed.get_or_insert("the run does not end".into());
        }
        Some(baton)
    }
}
