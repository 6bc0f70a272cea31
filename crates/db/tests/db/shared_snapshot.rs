//! A snapshot of a database that several servers have: with the log that they share from a position on
//! that was noted before it was taken, it is what all have.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pipeann_db::replication::MemoryLog;

use crate::data::{create, keys, rows};
use crate::shared::{Server, graph, insert};

#[test]
fn a_snapshot_beside_a_writer_goes_on_from_a_position_that_was_noted_before_it() {
    let root = tempfile::tempdir().unwrap();
    let log = MemoryLog::default();
    let dir = root.path().join("leader");
    std::fs::create_dir(&dir).unwrap();
    let mut a = Server::open(&dir, &log, 0);
    a.lead();
    let c = create(&a.database);
    insert(&c, 0..900);
    a.database.apply(graph()).unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();
    let stop = AtomicBool::new(false);
    let mut taken = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = 10_000;
            while !stop.load(Ordering::Relaxed) {
                insert(&c, next..next + 20);
                c.delete(&keys(&[next])).unwrap();
                next += 20;
            }
        });
        for number in 0..4 {
            let dir = root.path().join(format!("taken-{number}"));
            let at = log.len();
            // What was put there before is in the files after this.
            a.database.sync_applied().unwrap();
            a.database.snapshot_to(&dir).unwrap();
            taken.push((dir, at));
        }
        stop.store(true, Ordering::Relaxed);
    });
    for (dir, at) in taken {
        let mut b = Server::open(&dir, &log, at);
        let d = b.collection();
        assert!(d.count(None).unwrap() >= 900);
        let graph = d.wait_for_index("graph").unwrap();
        assert!(graph.linked >= 900, "the graph comes with it: {}", graph.linked);
        b.catch_up();
        assert_eq!((rows(&d), d.applied()), (rows(&c), c.applied()));
        // What the log had before is passed over.
        b.applied = 0;
        b.catch_up();
        assert_eq!(d.count(None).unwrap(), c.count(None).unwrap());
    }
}
