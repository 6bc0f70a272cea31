//! Threads whose queues break.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::{End, Pool, PoolError, PoolOptions, ResolveFilter, Sink, Task, Unresolved};
use crate::filter::AllowSet;
use crate::index::fixture::{Breaking, BuiltIndex};
use crate::search::SearchError;

struct Told(Sender<(u64, End)>);

impl Sink for Told {
    fn ended(&self, ticket: u64, end: End) {
        self.0.send((ticket, end)).unwrap();
    }
}

/// Panics at each filter.
struct Panics;

impl ResolveFilter for Panics {
    fn resolve(
        &self,
        filter: &[u8],
        _: Option<std::time::Instant>,
    ) -> Result<Arc<AllowSet>, Unresolved> {
        panic!("a filter of {} bytes", filter.len())
    }
}

struct Fixture {
    built: BuiltIndex,
    backend: Arc<Breaking>,
    pool: Pool,
    told: Receiver<(u64, End)>,
}

fn fixture(threads: usize) -> Fixture {
    let (built, backend) = (BuiltIndex::of(500), Arc::new(Breaking::default()));
    let index = built.open(&backend);
    index.wait_resident().unwrap();
    let options = PoolOptions { threads, in_flight: 2, ..PoolOptions::default() };
    let (sender, told) = channel();
    let filters: Arc<dyn ResolveFilter> = Arc::new(Panics);
    let sink = Arc::new(Told(sender));
    let pool = Pool::start_filtering(Arc::new(index), &options, sink, Some(filters)).unwrap();
    Fixture { built, backend, pool, told }
}

impl Fixture {
    fn query(&self, row: usize) -> Task {
        Task::Query(self.built.row(row).to_vec(), Box::default())
    }

    /// What becomes of a task: it has to be told.
    fn ask(&self, task: Task) -> End {
        self.pool.submit(7, task, None).unwrap();
        let (ticket, end) = self.told.recv().unwrap();
        assert_eq!(ticket, 7);
        end
    }

    /// Asks until there is an answer.
    fn ask_until_found(&self, row: usize) {
        loop {
            match self.ask(self.query(row)) {
                End::Found(hits, _) => {
                    assert_eq!(hits[0].row.0, row as u64);
                    return;
                }
                End::Failed(PoolError::Search(SearchError::Queue(_))) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn threads_without_queues_say_so_and_search_again_when_they_can_have_them() {
    for threads in [1, 3] {
        let fixture = fixture(threads);
        fixture.ask_until_found(3);
        fixture.backend.set_broken(true);
        for row in 0..10 {
            let end = fixture.ask(fixture.query(row));
            let queue = matches!(&end, End::Failed(PoolError::Search(SearchError::Queue(_))));
            assert!(queue, "{end:?}");
        }
        fixture.backend.set_broken(false);
        (0..10).for_each(|row| fixture.ask_until_found(row));
    }
}

#[test]
fn a_pool_closes_while_its_threads_wait_for_queues() {
    let fixture = fixture(2);
    fixture.backend.set_broken(true);
    fixture.ask(fixture.query(1));
    fixture.ask(fixture.query(2));
    drop(fixture.pool);
}

#[test]
fn what_panics_ends_and_others_go_on() {
    let fixture = fixture(1);
    let filter = vec![1, 2, 3];
    let query = fixture.built.row(4).to_vec();
    let task = Task::Filtered(query, Box::default(), filter);
    let end = fixture.ask(task);
    assert!(matches!(end, End::Failed(PoolError::Search(SearchError::Panicked))), "{end:?}");
    fixture.ask_until_found(4);
}
