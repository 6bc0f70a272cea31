//! Reads that take long at the server that was asked, or fail there, and are answered by another one.

use std::time::{Duration, Instant};

use pipeann_milvus::proto::common::ConsistencyLevel as Level;
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::{PeersError, ReadTime, ServeOptions};
use tonic::Code;

use super::peers::Server;
use super::raw::call;
use crate::served::{assert_ok, query};

/// Far above what any read takes here by itself.
const LONG: Duration = Duration::from_secs(20);
/// As many reads as tell how long they take, and pay for some hedges.
const KNOWN: usize = 100;

fn bounded() -> wire::QueryRequest {
    let level = Level::Bounded.into();
    wire::QueryRequest {
        guarantee_timestamp: 2,
        consistency_level: level,
        ..query("a", "id < 3", &["id"])
    }
}

/// Whether a server answers a query by three rows.
fn answers(server: &Server, request: wire::QueryRequest) -> bool {
    let found = server.served.call(server.served.client().query(request));
    assert_ok(found.status.as_ref().unwrap());
    found.fields_data.len() == 1
}

/// A leader, and another server that knows how long reads take.
fn known() -> (Server, Server) {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    leader.served.filled("a", 5);
    for _ in 0..KNOWN {
        assert!(answers(&follower, bounded()));
    }
    leader.answered.take();
    follower.answered.take();
    leader.others.asked();
    (leader, follower)
}

fn queries(server: &Server) -> Vec<bool> {
    let calls = server.answered.take().into_iter();
    calls.filter(|(call, _)| call == "Query").map(|(_, here)| here).collect()
}

#[test]
fn a_read_that_takes_long_is_answered_by_another_server_from_data_as_new() {
    let (leader, follower) = known();
    let here = 1_700_000_000_000 << 18;
    follower.others.holds(Some(LONG));
    let began = Instant::now();
    assert!(answers(&follower, bounded()));
    assert!(began.elapsed() < LONG / 2, "it was not waited for here");
    assert_eq!(queries(&follower), [false]);
    assert_eq!(queries(&leader), [true]);
    let asked = leader.others.asked();
    let [(Some(_), ReadTime::Bounded { at_least, .. })] = asked[..] else { panic!("{asked:?}") };
    assert!(at_least > here, "{at_least}");
}

#[test]
fn few_reads_are_asked_twice() {
    let (leader, follower) = known();
    // Each of them is late, wherever it is asked.
    let held = Some(Duration::from_millis(50));
    follower.others.holds(held);
    leader.others.holds(held);
    for _ in 0..KNOWN / 2 {
        assert!(answers(&follower, bounded()));
    }
    let sent = leader.others.asked().len();
    assert!((1..=(KNOWN + KNOWN / 2) / 20).contains(&sent), "{sent}");
}

#[test]
fn a_server_that_is_slow_has_others_answer() {
    let (leader, follower) = known();
    follower.others.holds(Some(Duration::from_millis(100)));
    for _ in 0..KNOWN {
        assert!(answers(&follower, bounded()));
    }
    let sent = queries(&leader).len();
    assert!(sent > KNOWN / 4, "{sent}");
    let here = queries(&follower).into_iter().filter(|here| *here).count();
    // Where the other one is late too, as on a machine that does more, both are asked: of few.
    let twice = sent + here - KNOWN;
    assert!(twice <= 2 * KNOWN / 20, "{twice} were answered twice");
    leader.others.fails(Some(PeersError::Behind("it is behind".into())));
    assert!(answers(&follower, bounded()), "then it answers itself");
}

#[test]
fn a_read_of_a_moment_stays_where_that_is_kept() {
    let (leader, follower) = known();
    let begun = wire::QueryRequest {
        query_params: vec![
            crate::served::pair("iterator", "True"),
            crate::served::pair("limit", "2"),
        ],
        ..bounded()
    };
    let first = follower.served.call(follower.served.client().query(begun.clone()));
    leader.answered.take();
    follower.others.holds(Some(Duration::from_millis(200)));
    let page = wire::QueryRequest { guarantee_timestamp: first.session_ts, ..begun };
    assert_ok(follower.served.call(follower.served.client().query(page)).status.as_ref().unwrap());
    assert!(queries(&leader).is_empty());
}

#[test]
fn a_read_that_fails_here_is_tried_elsewhere_once_and_what_is_wrong_with_it_is_not() {
    let (leader, follower) = known();
    let behind = || Some(PeersError::Behind("the log cannot be read".into()));
    follower.others.fails(behind());
    assert!(answers(&follower, bounded()));
    assert_eq!(queries(&leader), [true]);
    leader.others.fails(Some(PeersError::Behind("nor here".into())));
    let ended = call(&follower.served, "Query", &bounded(), &[], None);
    assert_eq!(ended.code, Code::Unavailable);
    assert!(ended.text.contains("the log cannot be read"), "{}", ended.text);
    assert_eq!(queries(&leader).len(), 1);
    follower.others.fails(None);
    leader.others.fails(None);
    let wrong = wire::QueryRequest { expr: "nonsense ==".into(), ..bounded() };
    let refused = follower.served.call(follower.served.client().query(wrong));
    assert_ne!(refused.status.unwrap().code, 0);
    assert!(queries(&leader).is_empty());
}

#[test]
fn what_another_server_refuses_is_no_answer() {
    let (leader, follower) = known();
    leader.others.fails(Some(PeersError::Behind("it is behind".into())));
    follower.others.holds(Some(Duration::from_millis(300)));
    assert!(answers(&follower, bounded()));
    assert_eq!(queries(&leader).len(), 1, "it was asked");
    assert_eq!(queries(&follower), [true]);
}

#[test]
fn a_server_without_others_answers_what_takes_long_itself() {
    let (leader, follower) = known();
    follower.others.set_server(1, None);
    follower.others.holds(Some(Duration::from_millis(100)));
    assert!(answers(&follower, bounded()));
    assert_eq!(queries(&follower), [true]);
    follower.others.holds(None);
    follower.others.fails(Some(PeersError::Behind("alone".into())));
    let ended = call(&follower.served, "Query", &bounded(), &[], None);
    assert_eq!(ended.code, Code::Unavailable);
    assert!(queries(&leader).is_empty());
}
