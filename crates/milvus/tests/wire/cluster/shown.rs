//! What a server says beside a call, which only counts where the key is shown of the server that is called.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use pipeann_milvus::proto::common::ConsistencyLevel;
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::{LeaderAt, PeerKey, ServeOptions};
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::codegen::http::{Method, Request, Uri, Version};

use super::peers::{Others, Server};
use super::raw::{Ended, call};
use crate::served::{Served, assert_ok, insert, query};

const ID: &str = "00000000-0000-0000-0000-000000000007";

/// As another server sends on an insert.
fn insert_marked(served: &Served, shown: Option<&str>) -> Ended {
    let mut marks = vec![("pipeann-forwarded-by", "2"), ("pipeann-request-id", ID)];
    marks.extend(shown.map(|key| ("pipeann-server-key", key)));
    call(served, "Insert", &insert("a", 0..4), &marks, None)
}

fn count(served: &Served) -> u64 {
    served.database.collection("default", "a").unwrap().count(None).unwrap()
}

fn keyed(key: &str) -> Server {
    let others = Others::new(1, LeaderAt::Here);
    others.set_key(Some(PeerKey::new(key)));
    others.all_keyed(true);
    Server::with(others, ServeOptions::default())
}

#[test]
fn a_server_that_is_alone_believes_no_marks() {
    let served = Served::new();
    assert_ok(&served.create("a"));
    for inserted in [4, 8] {
        assert_eq!(insert_marked(&served, None).code, Code::Ok);
        assert_eq!(count(&served), inserted, "an id that a client made up is none");
    }
}

#[test]
fn marks_are_believed_of_whoever_shows_the_key_and_of_all_while_a_server_has_none() {
    let server = keyed("of this server");
    let served = &server.served;
    assert_ok(&served.create("a"));
    for shown in [None, Some(""), Some("of this serve"), Some("another")] {
        let ended = insert_marked(served, shown);
        let refused = (Code::Unavailable, "this server does not lead");
        assert_eq!((ended.code, ended.text.as_str()), refused, "{shown:?}");
    }
    assert_eq!(count(served), 0);
    for _ in 0..2 {
        assert_eq!(insert_marked(served, Some("of this server")).code, Code::Ok);
    }
    assert_eq!(count(served), 4, "it is the same change");
    // One that has no key shows none.
    server.others.all_keyed(false);
    assert_eq!(insert_marked(served, None).code, Code::Ok);
    assert_eq!(count(served), 4);
}

#[test]
fn how_new_data_has_to_be_is_not_said_by_a_client() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    leader.served.filled("a", 3);
    follower.others.asked();
    let read = |metadata: &[(&'static str, &str)]| {
        let bounded = wire::QueryRequest {
            consistency_level: ConsistencyLevel::Bounded.into(),
            guarantee_timestamp: 2,
            ..query("a", "id >= 0", &["id"])
        };
        let ended = call(&follower.served, "Query", &bounded, metadata, None);
        assert_eq!(ended.code, Code::Ok, "{}", ended.text);
        follower.others.asked()
    };
    let asked = read(&[]);
    assert_eq!(read(&[("pipeann-read-after", "18446744073709551614")]), asked);
}

#[test]
fn servers_show_each_other_their_keys() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    let key = PeerKey::new("of the leader");
    leader.others.set_key(Some(key.clone()));
    leader.others.all_keyed(true);
    assert_ok(&leader.served.create("a"));
    // It learns the key a little later than who leads.
    let (others, at) = (Arc::clone(&follower.others), leader.at());
    follower.served.runtime.spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        others.learns_key(&at, key);
    });
    for _ in 0..2 {
        let named = [("client-request-id", "one")];
        let ended = call(&follower.served, "Insert", &insert("a", 0..5), &named, None);
        assert_eq!(ended.code, Code::Ok, "{}", ended.text);
        assert!(ended.metadata.iter().all(|(name, _)| !name.starts_with("pipeann")), "{ended:?}");
    }
    assert_eq!(count(&leader.served), 5);
    assert!(follower.others.written() > 0, "the leader names it to a server");
    let flushed = wire::FlushAllRequest::default();
    assert_eq!(call(&follower.served, "FlushAll", &flushed, &[], None).code, Code::Ok);
}

/// Asks how far a server has come, waiting for more.
fn ask_progress(served: &Served, shown: Option<&str>) {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from_static("/pipeann.Servers/Progress");
    *request.version_mut() = Version::HTTP_2;
    let headers = request.headers_mut();
    headers.insert("content-type", "application/grpc".parse().unwrap());
    headers.insert("te", "trailers".parse().unwrap());
    headers.insert("pipeann-wanted", u64::MAX.into());
    if let Some(key) = shown {
        headers.insert("pipeann-server-key", key.parse().unwrap());
    }
    let answer = served.runtime.block_on(async {
        let mut channel = served.endpoint().connect().await.unwrap();
        poll_fn(|context| channel.poll_ready(context)).await.unwrap();
        channel.call(request).await.unwrap()
    });
    assert!(answer.headers().contains_key("pipeann-applied"), "anybody is told");
}

#[test]
fn only_servers_have_a_server_look_whether_there_is_more() {
    let server = keyed("of this server");
    for shown in [None, Some("another")] {
        ask_progress(&server.served, shown);
    }
    assert_eq!(server.others.looked(), 0);
    ask_progress(&server.served, Some("of this server"));
    assert_eq!(server.others.looked(), 1);
    server.others.all_keyed(false);
    ask_progress(&server.served, None);
    assert_eq!(server.others.looked(), 2, "it may be a server without a key");
}

#[test]
fn who_waits_for_others_shows_them_their_keys() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    assert_ok(&leader.served.create("a"));
    let key = PeerKey::new("of the follower");
    leader.others.learns_key(&follower.at(), key.clone());
    follower.others.set_key(Some(key));
    follower.others.all_keyed(true);
    follower.others.has_applied(Some(2));
    let others = Arc::clone(&follower.others);
    follower.served.runtime.spawn(async move {
        while others.looked() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        others.has_applied(None);
    });
    let drop = wire::DropCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_eq!(call(&leader.served, "DropCollection", &drop, &[], None).code, Code::Ok);
    assert!(follower.others.looked() > 0);
}
