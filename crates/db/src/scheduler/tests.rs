//! What is done together, in which order, and who is answered how: over collections that only note
//! what they are asked.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pipeann_engine::search::DistanceRange;

use super::alike::are_alike;
use super::*;
use crate::collection::{
    BatchProgress, CollectionError, Filter, QueryVectors, SearchAnswer, SearchHit,
};
use crate::ids::VectorType;

/// A collection that holds searches up until it is opened, and notes which it did together.
#[derive(Default)]
struct Noted {
    open: Mutex<bool>,
    opened: Condvar,
    begun: AtomicUsize,
    /// The `k` of the searches of each group.
    groups: Mutex<Vec<Vec<usize>>>,
    /// What is wrong with a search of this `k`.
    panics_at: Option<usize>,
    fails_at: Option<usize>,
}

impl Noted {
    fn shut() -> Arc<Self> {
        Arc::default()
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn shut_again(&self) {
        *self.open.lock().unwrap() = false;
    }

    fn groups(&self) -> Vec<Vec<usize>> {
        self.groups.lock().unwrap().clone()
    }

    fn wait_until_begun(&self, searches: usize) {
        while self.begun.load(Ordering::SeqCst) < searches {
            std::thread::yield_now();
        }
    }
}

impl Searchable for Noted {
    fn search_batch(
        &self,
        requests: &[&SearchRequest<'_>],
        tell: &mut dyn FnMut(BatchProgress),
    ) -> Result<(), CollectionError> {
        self.begun.fetch_add(requests.len(), Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
        drop(open);
        let ks: Vec<usize> = requests.iter().map(|request| request.k).collect();
        self.groups.lock().unwrap().push(ks.clone());
        tell(BatchProgress::Found);
        for (place, request) in requests.iter().enumerate() {
            assert!(self.panics_at != Some(ks[place]), "no search of {}", ks[place]);
            if self.fails_at == Some(ks[place]) {
                return Err(CollectionError::BlankDelete);
            }
            let hits: Vec<Vec<SearchHit>> = vec![Vec::new(); request.vectors.as_set().rows()];
            let answer = SearchAnswer { hits, ..SearchAnswer::default() };
            tell(BatchProgress::Answered(place, answer));
        }
        Ok(())
    }
}

/// Somebody who passes the answer on, with the `k` that it is for.
struct Asker {
    k: usize,
    answers: Sender<(usize, Result<SearchAnswer, ScheduleError>)>,
    gone: Arc<AtomicBool>,
}

impl Caller for Asker {
    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    fn answer(self: Box<Self>, outcome: Result<SearchAnswer, ScheduleError>) {
        self.answers.send((self.k, outcome)).unwrap();
    }
}

type Answers = Receiver<(usize, Result<SearchAnswer, ScheduleError>)>;

/// A scheduler, and what its callers share.
struct Bench {
    scheduler: Scheduler,
    sender: Sender<(usize, Result<SearchAnswer, ScheduleError>)>,
    answers: Answers,
    /// Time that has passed.
    passed_ms: Arc<AtomicUsize>,
    start: Instant,
}

impl Bench {
    fn new(options: SchedulerOptions) -> Self {
        let (sender, answers) = channel();
        let (start, passed_ms) = (Instant::now(), Arc::<AtomicUsize>::default());
        let passed = Arc::clone(&passed_ms);
        let now = move || start + Duration::from_millis(passed.load(Ordering::SeqCst) as u64);
        let scheduler = Scheduler::new(SchedulerOptions { clock: Arc::new(now), ..options });
        Self { scheduler, sender, answers, passed_ms, start }
    }

    /// One thread, so that what comes while it is held up waits.
    fn of_one_thread() -> Self {
        Self::new(SchedulerOptions { at_once: 1, ..SchedulerOptions::default() })
    }

    fn submit(&self, collection: &Arc<Noted>, request: SearchRequest<'static>) -> Arc<AtomicBool> {
        let gone = Arc::<AtomicBool>::default();
        let (answers, asker) = (self.sender.clone(), Arc::clone(&gone));
        let caller = Asker { k: request.k, answers, gone: asker };
        self.scheduler.submit(collection.clone(), request, Box::new(caller));
        gone
    }

    /// The next answers, by `k`.
    fn answers(&self, count: usize) -> Vec<(usize, Result<SearchAnswer, ScheduleError>)> {
        let mut all: Vec<_> = (0..count).map(|_| self.answers.recv().unwrap()).collect();
        all.sort_by_key(|(k, _)| *k);
        all
    }
}

fn request(k: usize) -> SearchRequest<'static> {
    queries(k, 1)
}

fn queries(k: usize, count: usize) -> SearchRequest<'static> {
    let vectors = QueryVectors::new(vec![0; 8 * count], 2, VectorType::F32).unwrap();
    SearchRequest::new("v", vectors, k)
}

#[test]
fn what_waits_is_done_together_and_nothing_waits_for_company() {
    let bench = Bench::of_one_thread();
    let noted = Noted::shut();
    bench.submit(&noted, request(1));
    noted.wait_until_begun(1);
    (2..=60).for_each(|k| drop(bench.submit(&noted, request(k))));
    assert_eq!(bench.scheduler.waiting(), 59);
    noted.open();
    let answers = bench.answers(60);
    assert_eq!(noted.groups(), [vec![1], (2..=60).collect()]);
    let joined =
        |(_, outcome): &(usize, Result<SearchAnswer, _>)| outcome.as_ref().unwrap().stages.joined;
    assert_eq!(joined(&answers[0]), 1);
    assert!(answers[1..].iter().all(|answer| joined(answer) == 59));
    assert_eq!(bench.scheduler.waiting(), 0);
}

#[test]
fn groups_are_bounded_in_queries_and_in_how_far_k_is_apart() {
    let bench = Bench::of_one_thread();
    let noted = Noted::shut();
    bench.submit(&noted, request(1));
    noted.wait_until_begun(1);
    for (k, count) in [(10, 100), (210, 50), (211, 1), (20, 60), (30, 50), (40, 201), (50, 200)] {
        bench.submit(&noted, queries(k, count));
    }
    noted.open();
    bench.answers(8);
    // 211 is 201 apart from 10; 60 more queries than 150 are too many, 50 are not.
    let groups = noted.groups();
    assert_eq!(groups[1..], [vec![10, 210, 30], vec![211, 20], vec![40], vec![50]]);
}

#[test]
fn only_searches_that_are_alike_are_done_together() {
    let noted = Noted::shut();
    let filter = |expression: &'static str| Some(Filter::new(expression));
    let same = || request(5);
    let mut templates = filter("a > 1");
    let given = templates.as_mut().unwrap().templates.to_mut();
    given.insert("t".into(), crate::expr::Constant::Int(1));
    let near = DistanceRange { to: std::ops::Bound::Excluded(1.0), ..DistanceRange::default() };
    let different = [
        SearchRequest { field: "w".into(), ..same() },
        SearchRequest { metric: Some(crate::ids::Metric::Cosine), ..same() },
        SearchRequest { list: Some(64), ..same() },
        SearchRequest { partitions: Some(["p"].into()), ..same() },
        SearchRequest { filter: filter("a > 1"), ..same() },
        SearchRequest { filter: filter("a > 2"), ..same() },
        SearchRequest { filter: templates, ..same() },
        SearchRequest { within: near, ..same() },
    ];
    for (at, one) in different.iter().enumerate() {
        assert!(are_alike(one, one) && !are_alike(one, &same()), "{at}");
        assert!(!are_alike(&same(), one), "{at}");
        assert!(different[..at].iter().all(|other| !are_alike(one, other)), "{at}");
    }
    // What is read of the rows is each one's own affair.
    assert!(are_alike(&same(), &SearchRequest { output: ["a"].into(), ..same() }));
    let without = SchedulerOptions { at_once: 1, merge: false, ..SchedulerOptions::default() };
    let bench = Bench::new(without);
    (0..4).for_each(|k| drop(bench.submit(&noted, request(k))));
    noted.open();
    bench.answers(4);
    assert_eq!(noted.groups(), [[0], [1], [2], [3]]);
}

#[test]
fn collections_take_turns() {
    let bench = Bench::of_one_thread();
    let (busy, other) = (Noted::shut(), Noted::shut());
    other.open();
    bench.submit(&busy, request(1));
    busy.wait_until_begun(1);
    // Too far apart to be done together.
    (1..=5).for_each(|k| drop(bench.submit(&busy, request(1000 * k))));
    bench.submit(&other, request(7));
    busy.open();
    let order: Vec<usize> = (0..7).map(|_| bench.answers.recv().unwrap().0).collect();
    assert_eq!(order, [1, 1000, 7, 2000, 3000, 4000, 5000]);
}

#[test]
fn what_nobody_waits_for_is_not_searched() {
    let bench = Bench::of_one_thread();
    let noted = Noted::shut();
    bench.submit(&noted, request(1));
    noted.wait_until_begun(1);
    let at = |ms| Some(bench.start + Duration::from_millis(ms));
    bench.submit(&noted, SearchRequest { deadline: at(50), ..request(2) });
    bench.submit(&noted, SearchRequest { deadline: at(500), ..request(3) });
    let gone = bench.submit(&noted, request(4));
    bench.submit(&noted, request(5));
    gone.store(true, Ordering::SeqCst);
    bench.passed_ms.store(50, Ordering::SeqCst);
    noted.open();
    let answers = bench.answers(4);
    assert!(matches!(answers[1], (2, Err(ScheduleError::Late))));
    assert_eq!(answers[2].1.as_ref().unwrap().stages.queue, Duration::from_millis(50));
    assert_eq!(answers[3].0, 5);
    assert_eq!(noted.groups(), [vec![1], vec![3, 5]]);
    drop(bench.scheduler);
    assert!(bench.answers.try_recv().is_err(), "who is gone is not answered");
}

#[test]
fn what_has_waited_and_cannot_be_done_in_time_is_not_begun() {
    let bench = Bench::of_one_thread();
    let noted = Noted::shut();
    bench.submit(&noted, queries(1, 4));
    noted.wait_until_begun(1);
    let at = |ms| Some(bench.start + Duration::from_millis(ms));
    // The four take 200 ms; one is given twice its share.
    for (k, deadline) in [(2, 290), (3, 310), (4, 1_000)] {
        bench.submit(&noted, SearchRequest { deadline: at(deadline), ..request(k) });
    }
    bench.passed_ms.store(200, Ordering::SeqCst);
    noted.open();
    let answers = bench.answers(4);
    assert!(matches!(answers[1], (2, Err(ScheduleError::Late))));
    assert!(answers[2..].iter().all(|(_, outcome)| outcome.is_ok()));
    // What has not waited is tried, however little time it has.
    bench.submit(&noted, SearchRequest { deadline: at(201), ..request(5) });
    assert!(bench.answers(1)[0].1.is_ok());
}

#[test]
fn what_would_wait_for_most_of_its_time_is_refused_at_once() {
    let bench = Bench::of_one_thread();
    let noted = Noted::shut();
    bench.submit(&noted, queries(1, 4));
    noted.wait_until_begun(1);
    bench.passed_ms.store(200, Ordering::SeqCst);
    noted.open();
    assert_eq!(bench.answers(1)[0].0, 1);
    noted.shut_again();
    bench.submit(&noted, request(2));
    noted.wait_until_begun(2);
    // By now one takes 50 ms. Of those that come at once, each waits for those before it.
    let at = |ms: u64| Some(bench.start + Duration::from_millis(200 + ms));
    let come = [(3, None), (4, at(101)), (5, at(199)), (6, at(201)), (7, at(299)), (8, None)];
    for (k, deadline) in come {
        bench.submit(&noted, SearchRequest { deadline, ..request(k) });
    }
    for refused in bench.answers(2) {
        assert!(matches!(refused, (5 | 7, Err(ScheduleError::Late))), "{refused:?}");
    }
    noted.open();
    let answers = bench.answers(5);
    assert!(answers.iter().all(|(_, outcome)| outcome.is_ok()));
    // Nothing waits any more, so whatever comes is tried.
    bench.submit(&noted, SearchRequest { deadline: at(1), ..request(9) });
    assert!(bench.answers(1)[0].1.is_ok());
}

#[test]
fn lines_are_bounded_and_what_comes_beyond_is_refused_at_once() {
    let options = SchedulerOptions { at_once: 1, line: 3, lines: 5, ..SchedulerOptions::default() };
    let bench = Bench::new(options);
    let (one, other) = (Noted::shut(), Noted::shut());
    bench.submit(&one, request(0));
    one.wait_until_begun(1);
    (1..=4).for_each(|k| drop(bench.submit(&one, request(k))));
    let refused = bench.answers(1);
    assert!(matches!(refused[0], (4, Err(ScheduleError::Full { waiting: 3 }))));
    (5..=7).for_each(|k| drop(bench.submit(&other, request(k))));
    let refused = bench.answers(1);
    assert!(matches!(refused[0], (7, Err(ScheduleError::Full { waiting: 5 }))));
    one.open();
    other.open();
    assert!(bench.answers(6).iter().all(|(_, outcome)| outcome.is_ok()));
    // There is room again.
    bench.submit(&one, request(8));
    assert!(bench.answers(1)[0].1.is_ok());
}

#[test]
fn bytes_that_wait_are_bounded() {
    let options = SchedulerOptions { at_once: 1, bytes: 100, ..SchedulerOptions::default() };
    let bench = Bench::new(options);
    let noted = Noted::shut();
    bench.submit(&noted, request(0));
    noted.wait_until_begun(1);
    bench.submit(&noted, queries(1, 20));
    bench.submit(&noted, request(2));
    let refused = bench.answers(1);
    assert!(matches!(refused[0], (2, Err(ScheduleError::Full { waiting: 1 }))));
    noted.open();
    assert!(bench.answers(2).iter().all(|(_, outcome)| outcome.is_ok()));
    bench.submit(&noted, request(3));
    assert!(bench.answers(1)[0].1.is_ok());
}

#[test]
fn a_search_that_fails_or_panics_has_its_own_outcome_and_others_theirs() {
    let bench = Bench::of_one_thread();
    let noted = Arc::new(Noted { panics_at: Some(4), fails_at: Some(2), ..Noted::default() });
    bench.submit(&noted, request(0));
    noted.wait_until_begun(1);
    (1..=5).for_each(|k| drop(bench.submit(&noted, request(k))));
    noted.open();
    let outcomes: Vec<_> = bench.answers(6).into_iter().map(|(_, outcome)| outcome).collect();
    for (k, outcome) in outcomes.iter().enumerate() {
        match k {
            2 => {
                assert!(matches!(outcome, Err(ScheduleError::Search(CollectionError::BlankDelete))))
            }
            4 => assert!(
                matches!(outcome, Err(ScheduleError::Panicked(why)) if why == "no search of 4")
            ),
            _ => assert!(outcome.is_ok(), "{k}: {outcome:?}"),
        }
    }
    // The thread goes on.
    bench.submit(&noted, request(6));
    assert!(bench.answers(1)[0].1.is_ok());
}

#[test]
fn the_end_answers_what_waits_and_waits_for_what_is_done() {
    let bench = Bench::of_one_thread();
    let noted = Noted::shut();
    bench.submit(&noted, request(0));
    noted.wait_until_begun(1);
    bench.submit(&noted, request(1));
    let Bench { scheduler, sender, answers, .. } = bench;
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| scheduler.end());
        assert!(matches!(answers.recv().unwrap(), (1, Err(ScheduleError::Ending))));
        assert!(!ended.is_finished(), "a search is under way");
        noted.open();
        ended.join().unwrap();
        assert!(matches!(answers.recv().unwrap(), (0, Ok(_))));
    });
    let late = Asker { k: 2, answers: sender, gone: Arc::default() };
    scheduler.submit(noted.clone(), request(2), Box::new(late));
    assert!(matches!(answers.recv().unwrap(), (2, Err(ScheduleError::Ending))));
    assert_eq!(noted.groups(), [[0]]);
}

#[test]
fn threads_are_made_as_they_are_needed_and_work_side_by_side() {
    let bench = Bench::new(SchedulerOptions { at_once: 3, ..SchedulerOptions::default() });
    let noted = Noted::shut();
    (0..3).for_each(|k| {
        bench.submit(&noted, request(k));
        noted.wait_until_begun(k + 1);
    });
    bench.submit(&noted, request(3));
    assert_eq!(bench.scheduler.waiting(), 1);
    noted.open();
    assert!(bench.answers(4).iter().all(|(_, outcome)| outcome.is_ok()));
}
