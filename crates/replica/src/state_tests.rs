//! What ends a wait for the log, and what does not; how old data is.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::*;
use crate::time::SimulatedTime;

fn state() -> SharedState {
    SharedState::new(None, ServerTime::Machine)
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// Has somebody wait for the latest, and does something when he does; how it has ended.
fn ended_by(state: &SharedState, end: impl FnOnce()) -> Result<CaughtUp, String> {
    wait_ended_by(state, ReadFreshness::Latest, end)
}

fn wait_ended_by(
    state: &SharedState,
    wanted: ReadFreshness,
    end: impl FnOnce(),
) -> Result<CaughtUp, String> {
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| state.catch_up(wanted, deadline()));
        while state.begin_read().0 == 0 {
            std::thread::yield_now();
        }
        end();
        waits.join().expect("it does not panic")
    })
}

#[test]
fn a_read_to_the_end_of_the_log_answers_those_who_asked_before_it_began() {
    let state = state();
    let before = state.begin_read();
    let ended = ended_by(&state, || {
        // This one began too early.
        state.end_read(before);
        state.end_read(state.begin_read());
    });
    assert_eq!(ended, Ok(CaughtUp::Applied));
}

#[test]
fn that_a_server_comes_to_lead_is_no_answer_and_is_told_also_when_it_is_over() {
    let now = state();
    assert_eq!(ended_by(&now, || now.leads(Some(1))), Ok(CaughtUp::Leads));
    let over = state();
    let ended = ended_by(&over, || {
        over.leads(Some(1));
        over.leads(None);
    });
    assert_eq!(ended, Ok(CaughtUp::Leads));
}

#[test]
fn who_leads_is_not_woken_by_those_who_ask_for_the_log() {
    let state = state();
    state.leads(Some(1));
    assert_eq!(state.catch_up(ReadFreshness::Latest, deadline()), Ok(CaughtUp::Leads));
    let (began, rest) = (Instant::now(), Duration::from_millis(50));
    assert_eq!(state.wait(rest), WorkSignal::Look);
    assert!(began.elapsed() >= rest, "nobody asked for that");
    // Who follows again looks at once.
    state.leads(None);
    assert_eq!(state.wait(Duration::from_secs(600)), WorkSignal::Look);
}

#[test]
fn a_read_of_what_is_applied_before_the_end_of_the_log_ends_then() {
    let state = state();
    let ended = wait_ended_by(&state, ReadFreshness::AtLeast(7), || {
        state.applied(Position { term: 1, number: 1 }, 6);
        state.applied(Position { term: 1, number: 2 }, 8);
    });
    assert_eq!(ended, Ok(CaughtUp::Applied));
}

#[test]
fn what_was_applied_before_is_known_while_it_is_read_once_more() {
    let state = state();
    let at = |number| Position { term: 1, number };
    state.applied(at(5), 9);
    state.applied(at(2), 4);
    assert_eq!([2, 5, 6].map(|number| state.has_applied(at(number))), [true, true, false]);
}

/// A machine that is suspended all the time: the clock stands by which it works.
#[derive(Debug)]
struct Suspended {
    since: Instant,
    moment: Mutex<Duration>,
}

impl SimulatedTime for Suspended {
    fn now(&self) -> Instant {
        self.since
    }

    fn moment(&self) -> Duration {
        *self.moment.lock().unwrap()
    }

    fn wait(&self, _: Duration) {}

    fn wait_to_be_told(&self, _: usize, _: Duration) {}

    fn tell(&self, _: usize) {}

    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn data_grows_old_while_the_machine_is_suspended() {
    let hour = Duration::from_secs(3600);
    let time = Arc::new(Suspended { since: Instant::now(), moment: Mutex::new(hour) });
    let state = SharedState::new(None, ServerTime::Simulated(Arc::clone(&time) as _));
    let bounded = ReadFreshness::Bounded { staleness: Duration::from_secs(5), at_least: 0 };
    let pass = || *time.moment.lock().unwrap() += hour;
    state.end_read(state.begin_read());
    assert!(state.has(bounded));
    pass();
    assert_eq!((state.has(bounded), state.age()), (false, Some(hour)));
    // So does what the leader was asked before.
    let asked = time.moment();
    let end = Position { term: 1, number: 1 };
    state.applied(end, 2);
    state.heard(end, asked);
    assert!(state.has(bounded));
    let asked = time.moment();
    pass();
    state.heard(end, asked);
    assert!(!state.has(bounded));
}
