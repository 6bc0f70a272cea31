//! Iterators whose pages are asked for at several servers.

use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::{LeaderAt, ServeOptions};
use tonic::Code;

use super::peers::{Server, at, own_address};
use super::raw::call;
use crate::rows::{keys, numbers, search};
use crate::served::{assert_ok, insert, pair, query};

fn request(expr: &str, moment: u64) -> wire::QueryRequest {
    wire::QueryRequest {
        query_params: vec![pair("iterator", "True"), pair("limit", "4")],
        guarantee_timestamp: moment,
        ..query("a", expr, &["id"])
    }
}

fn page(server: &Server, expr: &str, moment: u64) -> (Vec<i64>, u64) {
    let found = server.served.call(server.served.client().query(request(expr, moment)));
    assert_ok(&found.status.unwrap());
    (keys(&found.fields_data), found.session_ts)
}

/// Two servers, and a moment at the one that does not lead, behind which rows were deleted.
fn begun() -> (Server, Server, u64) {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    leader.served.filled("a", 10);
    let (first, moment) = page(&follower, "id >= 0", 0);
    assert_eq!(first, [0, 1, 2, 3]);
    let delete = wire::DeleteRequest {
        collection_name: "a".into(),
        expr: "id in [4, 5]".into(),
        ..Default::default()
    };
    assert_ok(&leader.served.call(leader.served.client().delete(delete)).status.unwrap());
    assert_ok(
        &leader.served.call(leader.served.client().insert(insert("a", 10..12))).status.unwrap(),
    );
    leader.answered.take();
    follower.answered.take();
    (leader, follower, moment)
}

#[test]
fn a_page_is_of_its_moment_whoever_is_asked() {
    let (leader, follower, moment) = begun();
    assert_eq!(page(&leader, "id > 3", moment), (vec![4, 5, 6, 7], moment));
    let query = |here| vec![("Query".to_owned(), here)];
    assert_eq!((leader.answered.take(), follower.answered.take()), (query(false), query(true)));
    assert_eq!(page(&follower, "id > 3", moment), (vec![4, 5, 6, 7], moment));
    assert_eq!((leader.answered.take(), follower.answered.take()), (vec![], query(true)));
    let searched = |server: &Server| {
        let params = [("topk", "12"), ("iterator", "True"), ("search_iter_v2", "True")];
        let request =
            wire::SearchRequest { guarantee_timestamp: moment, ..search(&[0.0], &params) };
        let found = server.served.call(server.served.client().search(request));
        assert_ok(&found.status.unwrap());
        numbers(found.results.unwrap().ids)
    };
    assert_eq!(searched(&leader), (0..10).collect::<Vec<_>>());
    // One that begins at the leader is another one.
    let (now, other) = page(&leader, "id > 3", 0);
    assert_eq!(now, [6, 7, 8, 9]);
    assert_eq!(page(&follower, "id > 3", other), (now, other));
}

#[test]
fn a_read_of_the_level_eventually_names_no_moment() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    leader.served.filled("a", 10);
    // Clients send 1 for that level, which would be a moment of this server.
    follower.others.set_server(0, Some(leader.at()));
    leader.answered.take();
    follower.answered.take();
    let (first, moment) = page(&follower, "id >= 0", 1);
    assert_eq!(first, [0, 1, 2, 3]);
    assert_eq!(leader.answered.take(), [], "it is answered here");
    // An iterator of that level begins a moment, too.
    let insert = leader.served.call(leader.served.client().insert(insert("a", 10..12))).status;
    assert_ok(&insert.unwrap());
    assert_eq!(page(&follower, "id > 7", moment), (vec![8, 9], moment));
}

#[test]
fn moments_that_begin_at_the_same_time_differ() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    leader.served.filled("a", 10);
    let begun = |server: &Server| (0..3).map(|_| page(server, "id >= 0", 0).1).collect::<Vec<_>>();
    let mut moments = [begun(&leader), begun(&follower)].concat();
    moments.sort_unstable();
    moments.dedup();
    assert_eq!(moments.len(), 6);
}

#[test]
fn a_page_whose_server_is_no_more_is_as_of_now() {
    let (leader, follower, moment) = begun();
    leader.others.set_server(2, None);
    assert_eq!(page(&leader, "id > 3", moment), (vec![6, 7, 8, 9], moment));
    assert_eq!(follower.answered.take(), []);
}

#[test]
fn a_page_whose_server_is_not_reached_is_refused() {
    let (leader, _follower, moment) = begun();
    let closed = std::net::TcpListener::bind((own_address(), 0)).unwrap().local_addr().unwrap();
    leader.others.set_server(2, Some(at(closed)));
    let ended = call(&leader.served, "Query", &request("id > 3", moment), &[], None);
    assert_eq!(ended.code, Code::Unavailable);
    assert!(ended.text.contains("began this iterator"), "{}", ended.text);
}

#[test]
fn servers_that_send_pages_to_each_other_end_them() {
    let (leader, follower, moment) = begun();
    // Both think that the other has it.
    follower.others.set_server(2, Some(leader.at()));
    leader.others.lead(LeaderAt::Here);
    leader.others.set_server(2, Some(leader.at()));
    assert_eq!(page(&leader, "id > 3", moment).0, [6, 7, 8, 9]);
    let query = |here| ("Query".to_owned(), here);
    assert_eq!(leader.answered.take(), [query(true), query(false)], "sent once, to itself");
}
