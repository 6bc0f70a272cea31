//! Deletes of more rows than a record takes: pieces, of which a request ends with the last one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pipeann_db::collection::{Collection, Filter};
use pipeann_db::replication::requests::{
    AppliedRequest, CurrentRequest, RequestAnswer, RequestId, within,
};
use pipeann_db::replication::{MemoryLog, SharedChange, SharedLog, SharedLogError};
use pipeann_db::schema::Batch;

use crate::data::{batch, create, open};
use crate::shared::Server;

const ROWS: i64 = 150_000;
const REQUEST: CurrentRequest = CurrentRequest { id: RequestId([7; 16]), at_ms: 3 };

fn many(keys: std::ops::Range<i64>) -> Batch {
    batch(&keys.map(|key| (key, key as u32)).collect::<Vec<_>>())
}

fn fill(c: &Collection) {
    for first in (0..ROWS).step_by(10_000) {
        c.insert(many(first..first + 10_000), None).unwrap();
    }
}

/// A log that notes how large records are and which requests come with them, and takes so many more.
#[derive(Debug)]
struct Noting {
    log: Arc<dyn SharedLog>,
    left: AtomicUsize,
    noted: Mutex<Vec<(usize, Option<AppliedRequest>)>>,
}

impl Noting {
    fn new(log: &MemoryLog) -> Arc<Self> {
        let (log, left) = (log.lead().0, AtomicUsize::new(usize::MAX));
        Arc::new(Self { log, left, noted: Mutex::default() })
    }
}

impl SharedLog for Noting {
    fn append(&self, changes: &[SharedChange<'_>]) -> Result<(), SharedLogError> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(SharedLogError::NotLeading { why: "it is over".into() });
        }
        let mut noted = self.noted.lock().unwrap();
        for change in changes {
            match change {
                SharedChange::Record { payload, .. } => noted.push((payload.len(), None)),
                SharedChange::Request(request) => noted.last_mut().unwrap().1 = Some(*request),
                _ => {}
            }
        }
        self.log.append(changes)
    }
}

/// A server with rows that leads by such a log.
fn leading(dir: &std::path::Path, log: &MemoryLog) -> (Server, Arc<Noting>) {
    let mut server = Server::open(dir, log, 0);
    let noting = Noting::new(log);
    server.catch_up();
    server.database.lead(Arc::clone(&noting) as Arc<dyn SharedLog>).unwrap();
    fill(&create(&server.database));
    noting.noted.lock().unwrap().clear();
    (server, noting)
}

fn delete(c: &Collection) -> Result<u64, String> {
    let delete = || c.delete_matching(Filter::new("id >= 10"), None);
    within(Some(REQUEST), delete).map(|done| done.rows).map_err(|error| error.to_string())
}

#[test]
fn no_record_deletes_more_than_its_rows_and_the_last_one_ends_the_request() {
    let dir = tempfile::tempdir().unwrap();
    let (server, noting) = leading(dir.path(), &MemoryLog::default());
    let c = server.collection();
    let rows = ROWS as u64 - 10;
    assert_eq!(delete(&c).unwrap(), rows);
    assert_eq!(c.count(None).unwrap(), 10);
    let noted = noting.noted.lock().unwrap();
    assert_eq!(noted.len(), 3);
    assert!(noted.iter().all(|(bytes, _)| *bytes < (1 << 16) * 8 + 64), "{noted:?}");
    let answer = RequestAnswer { first_row: ROWS as u64, rows: 0, removed: rows };
    assert!(noted[..2].iter().all(|(_, request)| request.is_none()), "{noted:?}");
    assert_eq!(noted[2].1, Some(REQUEST.applied(answer)));
}

#[test]
fn a_request_that_was_done_in_part_is_done_to_its_end_by_the_next_leader() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = MemoryLog::default();
    let (server, noting) = leading(one.path(), &log);
    noting.left.store(1, Ordering::Relaxed);
    assert!(delete(&server.collection()).is_err());
    let mut next = Server::open(two.path(), &log, 0);
    next.lead();
    let c = next.collection();
    let piece = 1 << 16;
    assert_eq!(c.count(None).unwrap(), ROWS as u64 - piece);
    assert_eq!(delete(&c).unwrap(), ROWS as u64 - 10 - piece, "it was not taken for done");
    assert_eq!(c.count(None).unwrap(), 10);
}

#[test]
fn rows_that_come_while_many_are_deleted_come_before_or_after() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    fill(&c);
    let stop = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut key = ROWS;
            while stop.load(Ordering::Relaxed) == 0 {
                c.insert(many(key..key + 100), None).unwrap();
                key += 100;
            }
            key
        });
        let deleted = c.delete_matching(Filter::new("true"), None).unwrap().rows;
        let old = c.count_matching(Filter::new(format!("id < {ROWS}")), None).unwrap();
        stop.store(1, Ordering::Relaxed);
        let last = writer.join().unwrap();
        assert_eq!(old, 0, "rows that were there before are gone");
        let left = c.count(None).unwrap();
        assert_eq!(deleted + left, last as u64, "each row was deleted once, or is here");
        assert_eq!(left % 100, 0, "each write as a whole");
    });
    c.delete_matching(Filter::new("true"), None).unwrap();
    assert_eq!(c.count(None).unwrap(), 0);
}
