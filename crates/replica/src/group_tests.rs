//! What is put together, in which order, and who is told of what failed.

use std::sync::atomic::{AtomicUsize, Ordering};

use pipeann_db::ids::Seq;
use pipeann_db::replication::requests::{RequestAnswer, RequestId};
use pipeann_db::replication::{AppliedRequest, ChangesUnderWay};

use super::*;

#[derive(Debug, Default)]
struct Objects {
    put: Mutex<Vec<Vec<EncodedChange>>>,
    fail_at: Option<usize>,
    /// How many of them are answered as being there.
    answered: AtomicUsize,
}

impl ObjectLog for Arc<Objects> {
    fn put(&self, changes: &[EncodedChange], _: BegunChanges) -> Result<(), SharedLogError> {
        // Others come meanwhile.
        (0..200).for_each(|_| std::thread::yield_now());
        let mut put = self.put.lock().unwrap();
        if self.fail_at.is_some_and(|at| put.len() >= at) {
            return Err(SharedLogError::Unknown { why: "gone".into() });
        }
        put.push(changes.to_vec());
        Ok(())
    }

    fn begun(&self) -> BegunChanges {
        ChangesUnderWay::default().begun()
    }

    fn note_answered(&self) {
        self.answered.store(self.put.lock().unwrap().len(), Ordering::Relaxed);
    }
}

fn log_over(objects: &Arc<Objects>, gap: Duration) -> Arc<SharedObjects> {
    SharedObjects::new(Box::new(Arc::clone(objects)), ServerTime::Machine, gap, 64 << 10, || {})
}

fn record(collection: u64, seq: u64, payload: &[u8]) -> SharedChange<'_> {
    SharedChange::Record { collection, seq: Seq(seq), kind: 2, payload }
}

#[test]
fn threads_share_objects_and_each_finds_its_changes_in_order() {
    let objects = Arc::new(Objects::default());
    let log = log_over(&objects, Duration::ZERO);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let log = &log;
            scope.spawn(move || {
                for seq in 1..=50 {
                    log.append(&[record(thread, seq, b"row")]).unwrap();
                }
            });
        }
    });
    let put = objects.put.lock().unwrap();
    assert!(put.len() < 400, "{} objects for 400 changes", put.len());
    for thread in 0..8u64 {
        let of = thread.to_le_bytes();
        let mine = put.iter().flatten().filter(|change| change.payload.starts_with(&of));
        assert_eq!(mine.map(|change| change.seq).collect::<Vec<_>>(), (1..=50).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_long_is_cut_at_changes() {
    let objects = Arc::new(Objects::default());
    let log = log_over(&objects, Duration::ZERO);
    let long = vec![7; OBJECT_BYTES / 2];
    let changes: Vec<_> = (1..=5).map(|seq| record(1, seq, &long)).collect();
    log.append(&changes).unwrap();
    let put = objects.put.lock().unwrap();
    assert!(put.len() >= 3, "{} objects", put.len());
    assert_eq!(put.iter().map(Vec::len).sum::<usize>(), 5);
    assert_eq!(put.iter().flatten().map(|change| change.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

#[test]
fn a_request_is_in_the_object_of_its_change() {
    let objects = Arc::new(Objects::default());
    let log = log_over(&objects, Duration::ZERO);
    let long = vec![7; OBJECT_BYTES];
    let request =
        AppliedRequest { id: RequestId([1; 16]), at_ms: 1, answer: RequestAnswer::default() };
    let request = SharedChange::Request(request);
    log.append(&[record(1, 1, &long), request, record(1, 2, &long), request]).unwrap();
    let put = objects.put.lock().unwrap();
    let kinds = |object: &Vec<EncodedChange>| object.iter().map(|c| c.kind).collect::<Vec<_>>();
    assert_eq!(put.iter().map(kinds).collect::<Vec<_>>(), [[18, KIND_REQUEST]; 2]);
}

#[test]
fn after_a_failure_nothing_is_put_and_everybody_is_told() {
    let objects = Arc::new(Objects { fail_at: Some(3), ..Objects::default() });
    let told = Arc::new(AtomicUsize::new(0));
    let tell = Arc::clone(&told);
    let log = SharedObjects::new(
        Box::new(Arc::clone(&objects)),
        ServerTime::Machine,
        Duration::ZERO,
        64 << 10,
        move || {
            tell.fetch_add(1, Ordering::Relaxed);
        },
    );
    let failed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let log = &log;
                scope.spawn(move || {
                    (1..=50).find(|&seq| log.append(&[record(thread, seq, b"row")]).is_err())
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).count()
    });
    assert_eq!((failed, objects.put.lock().unwrap().len()), (4, 3));
    assert!(told.load(Ordering::Relaxed) > 0);
    assert!(log.failed().is_some());
    assert!(log.append(&[record(9, 1, b"row")]).is_err());
}

#[test]
fn an_object_whose_writers_are_told_of_the_failure_of_the_next_is_not_answered() {
    let objects = Arc::new(Objects { fail_at: Some(2), ..Objects::default() });
    let log = log_over(&objects, Duration::ZERO);
    log.append(&[record(1, 1, b"row")]).unwrap();
    assert_eq!(objects.answered.load(Ordering::Relaxed), 1);
    let long = vec![7; OBJECT_BYTES];
    log.append(&[record(1, 2, &long), record(1, 3, &long)]).unwrap_err();
    assert_eq!(objects.put.lock().unwrap().len(), 2, "the first of the two is there");
    assert_eq!(objects.answered.load(Ordering::Relaxed), 1);
}

#[test]
fn a_lone_change_is_put_at_once_and_busy_writers_share_what_a_gap_gathers() {
    let objects = Arc::new(Objects::default());
    // Whoever waits for this gap does not end.
    let day = Duration::from_secs(86_400);
    let log = log_over(&objects, day);
    log.append(&[record(1, 1, b"row")]).unwrap();
    assert_eq!(objects.put.lock().unwrap().len(), 1);
    // Who waits is told of the end.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| log.append(&[record(1, 2, b"row")]));
        while log.waiting().changes.is_empty() {
            std::thread::yield_now();
        }
        log.end(SharedLogError::NotLeading { why: "over".into() });
        waiting.join().unwrap().unwrap_err();
    });
    assert_eq!(objects.put.lock().unwrap().len(), 1);

    let objects = Arc::new(Objects::default());
    let gap = Duration::from_millis(50);
    let log = log_over(&objects, gap);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let log = &log;
            scope.spawn(move || {
                for seq in 1..=5 {
                    log.append(&[record(thread, seq, b"row")]).unwrap();
                }
            });
        }
    });
    let gaps = began.elapsed().as_millis() / gap.as_millis();
    let put = objects.put.lock().unwrap();
    assert!(put.len() as u128 <= gaps + 1, "{} objects in {gaps} gaps", put.len());
    assert_eq!(put.iter().map(Vec::len).sum::<usize>(), 40);
}
