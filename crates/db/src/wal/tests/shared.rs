//! The log of a collection that several servers have, when its server leads no more.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::super::*;
use super::{append, crash_disk, small};
use crate::ids::Seq;
use crate::replication::{Leadership, LogStanding, MemoryLog};

#[test]
fn a_sync_does_not_wait_for_what_is_forgotten_meanwhile() {
    let (leadership, shared) = (Arc::new(Leadership::default()), MemoryLog::default());
    let log = super::create(&crash_disk().1, small()).shared_by(Arc::clone(&leadership), 1);
    let log = Arc::new(log);
    leadership.set(LogStanding::Leads(shared.lead().0));
    log.begin_to_lead();
    assert_eq!(append(&log, b"shared"), Seq(1));
    // Another one leads, so that the next record gets nowhere.
    let _next = shared.lead();
    let lost = log.submit(RecordKind::Put, b"lost").unwrap();
    log.wait(lost).unwrap_err();
    assert_eq!(log.begin_to_follow().unwrap(), Seq(1));
    // Whoever began to sync before that, and slept.
    let (ended, told) = channel();
    let slept = Arc::clone(&log);
    let syncs = move || ended.send(slept.sync_through(Seq(2)));
    // Not joined: it is not to hold up the test where it does not end.
    std::thread::Builder::new().name("syncs".into()).spawn(syncs).unwrap();
    let synced = told.recv_timeout(Duration::from_secs(60)).expect("a sync ends");
    assert_eq!(synced.unwrap(), Seq(1));
    // What takes the number of the record that was lost is waited for as ever.
    let _written_by_sync = log.submit(RecordKind::Put, b"of the next leader").unwrap();
    assert_eq!(log.sync().unwrap(), Seq(2));
    assert_eq!(super::contents(&log, 1)[1].1, b"of the next leader");
}
