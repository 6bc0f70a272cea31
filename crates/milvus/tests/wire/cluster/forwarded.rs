//! Calls that are sent on: what goes along, what comes back, and where they end.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::milvus::milvus_service_client::MilvusServiceClient;
use pipeann_milvus::{LeaderAt, PeerTls, ServeOptions, ServerAt, ServerTls};
use prost::Message as _;
use tonic::Code;

use super::peers::{Others, Server, at, own_address};
use super::raw::{Ended, call};
use crate::served::{Served, assert_ok, create, declared, dynamic, insert};

fn unknown() -> LeaderAt {
    LeaderAt::Unknown("an election is under way".to_owned())
}

/// Another leader than any that is there.
fn nowhere() -> ServerAt {
    at(TcpListener::bind((own_address(), 0)).unwrap().local_addr().unwrap())
}

fn create_a(server: &Server, timeout: Option<Duration>) -> Ended {
    call(&server.served, "CreateCollection", &create("a", &declared()), &[], timeout)
}

#[test]
fn writes_land_where_the_leader_is_and_nowhere_else() {
    let leader = Server::new(1, LeaderAt::Here);
    let follower = Server::new(2, LeaderAt::There(leader.at()));
    follower.served.filled("a", 20);
    assert_eq!(follower.served.database.catalog().collections("default").unwrap().count(), 0);
    let collection = leader.served.database.collection("default", "a").unwrap();
    assert_eq!(collection.count(None).unwrap(), 20);
    let logged = follower.answered.take();
    assert!(logged.iter().all(|(_, here)| !here), "{logged:?}");
}

#[test]
fn the_database_beside_a_request_goes_along() {
    let leader = Server::new(1, LeaderAt::Here);
    let follower = Server::new(2, LeaderAt::There(leader.at()));
    let made = wire::CreateDatabaseRequest { db_name: "d".into(), ..Default::default() };
    assert_ok(&follower.served.call(follower.served.client().create_database(made)));
    let request = create("a", &declared());
    let made = call(&follower.served, "CreateCollection", &request, &[("dbname", "d")], None);
    assert_eq!(made.code, Code::Ok);
    assert!(leader.served.database.collection("d", "a").is_ok());
}

#[test]
fn large_messages_pass_and_those_that_are_too_large_are_refused_alike() {
    let leader = Server::new(1, LeaderAt::Here);
    let follower = Server::new(2, LeaderAt::There(leader.at()));
    assert_ok(&follower.served.create("a"));
    let text = format!(r#"{{"t":"{}"}}"#, "x".repeat(60_000));
    let with = |rows: i64| {
        let mut request = insert("a", 0..rows);
        request.fields_data.push(dynamic("$meta", &vec![text.as_str(); rows as usize]));
        request
    };
    let large = with(500);
    assert!(large.encoded_len() > 28 << 20);
    let inserted = follower.served.call(follower.served.client().insert(large));
    assert_ok(&inserted.status.unwrap());
    assert_eq!(inserted.insert_cnt, 500);
    let too_large = with(1200);
    assert!(too_large.encoded_len() > 64 << 20);
    let [direct, edge] =
        [&leader, &follower].map(|server| call(&server.served, "Insert", &too_large, &[], None));
    assert_eq!(direct.code, Code::ResourceExhausted, "{}", direct.text);
    assert_eq!(edge, direct);
    let rows = leader.served.database.collection("default", "a").unwrap().count(None).unwrap();
    assert_eq!(rows, 500);
}

#[test]
fn requests_that_are_no_messages_are_refused_alike() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    // As one of these, its first field is cut off.
    let garbled = wire::GetMetricsRequest { request: "\u{1}".repeat(3) };
    let [direct, edge] =
        [&leader, &follower].map(|server| call(&server.served, "Flush", &garbled, &[], None));
    assert_eq!(direct, edge);
    let failed = wire::DropIndexRequest { collection_name: "none".into(), ..Default::default() };
    let [direct, edge] =
        [&leader, &follower].map(|server| call(&server.served, "DropIndex", &failed, &[], None));
    assert_eq!(direct, edge);
    assert!(!direct.message.is_empty());
}

#[test]
fn servers_that_take_each_other_for_the_leader_end_a_call() {
    let (a, b) = (Server::new(1, unknown()), Server::new(2, unknown()));
    a.others.lead(LeaderAt::There(b.at()));
    b.others.lead(LeaderAt::There(a.at()));
    let began = Instant::now();
    let ended = create_a(&a, Some(Duration::from_secs(6)));
    assert_eq!(ended.code, Code::Unavailable, "{}", ended.text);
    assert!(ended.text.contains("it does not lead"), "{}", ended.text);
    assert!(began.elapsed() < Duration::from_secs(6));
    // Tried again, ever more seldom, for the time of an election.
    let sent = ("CreateCollection".to_owned(), false);
    let refused = b.answered.take();
    assert!((3..10).contains(&refused.len()), "{refused:?}");
    assert!(refused.iter().all(|it| *it == sent), "{refused:?}");
    assert_eq!(a.answered.take(), [sent]);
}

#[test]
fn a_call_that_was_sent_on_to_the_wrong_server_finds_the_right_one() {
    let leader = Server::new(1, LeaderAt::Here);
    let wrong = Server::new(3, LeaderAt::There(leader.at()));
    let edge = Server::new(2, LeaderAt::There(wrong.at()));
    edge.learns(200, LeaderAt::There(leader.at()));
    assert_eq!(create_a(&edge, None).code, Code::Ok);
    assert!(wrong.answered.take().iter().all(|(_, answered)| !answered));
    assert!(leader.served.database.collection("default", "a").is_ok());
}

#[test]
fn a_call_waits_for_the_elected_server_to_begin_to_lead() {
    let elected = Server::new(3, unknown());
    let edge = Server::new(2, LeaderAt::There(elected.at()));
    elected.learns(1_000, LeaderAt::Here);
    assert_eq!(create_a(&edge, None).code, Code::Ok);
    // It is asked again before the time of an election is over.
    let asked = elected.answered.take();
    assert!(asked.len() > 2, "{asked:?}");
    assert_eq!(asked.last(), Some(&("CreateCollection".to_owned(), true)));
    assert!(elected.served.database.collection("default", "a").is_ok());
}

#[test]
fn a_server_that_leads_no_more_when_the_request_is_there_begins_nothing() {
    let leader = Server::new(1, LeaderAt::Here);
    let led = Server::new(3, LeaderAt::There(leader.at()));
    led.others.leads_once(LeaderAt::Here);
    // A call that changes nothing, so that nobody sends it again.
    let flush = wire::FlushAllRequest::default();
    let ended = call(&led.served, "FlushAll", &flush, &[], None);
    assert_eq!((ended.code, ended.text.as_str()), (Code::Unavailable, "this server does not lead"));
    // To another server that is certain enough to look again.
    led.others.leads_once(LeaderAt::Here);
    let edge = Server::new(2, LeaderAt::There(led.at()));
    edge.learns(200, LeaderAt::There(leader.at()));
    assert_eq!(create_a(&edge, None).code, Code::Ok);
    assert_eq!(led.served.database.catalog().collections("default").unwrap().count(), 0);
    assert!(leader.served.database.collection("default", "a").is_ok());
}

#[test]
fn a_client_that_marks_its_call_itself_is_only_told_who_does_not_lead() {
    let leader = Server::new(1, LeaderAt::Here);
    let follower = Server::new(2, LeaderAt::There(leader.at()));
    let marked = [("pipeann-forwarded-by", "9")];
    let ended =
        call(&follower.served, "CreateCollection", &create("a", &declared()), &marked, None);
    assert_eq!((ended.code, ended.text.as_str()), (Code::Unavailable, "this server does not lead"));
    let read =
        call(&follower.served, "ListDatabases", &wire::ListDatabasesRequest {}, &marked, None);
    assert_eq!(read.code, Code::Ok);
}

#[test]
fn without_a_leader_a_call_ends_in_time_and_says_why() {
    let server = Server::new(2, unknown());
    let began = Instant::now();
    let ended = create_a(&server, Some(Duration::from_secs(6)));
    assert_eq!(ended.code, Code::Unavailable);
    assert!(ended.text.contains("an election is under way"), "{}", ended.text);
    assert!(began.elapsed() < Duration::from_secs(6));
    let began = Instant::now();
    assert_eq!(create_a(&server, None).code, Code::Unavailable);
    assert!((4..15).contains(&began.elapsed().as_secs()));
    // Reads go on.
    let read = call(&server.served, "GetVersion", &wire::GetVersionRequest {}, &[], None);
    assert_eq!(read.code, Code::Ok);
}

#[test]
fn a_call_waits_for_an_election() {
    let leader = Server::new(1, LeaderAt::Here);
    let edge = Server::new(2, unknown());
    edge.learns(300, LeaderAt::There(leader.at()));
    assert_eq!(create_a(&edge, None).code, Code::Ok);
    assert!(leader.served.database.collection("default", "a").is_ok());
}

#[test]
fn a_call_that_waited_is_answered_here_where_this_server_was_elected() {
    let edge = Server::new(2, LeaderAt::There(nowhere()));
    edge.learns(300, LeaderAt::Here);
    assert_eq!(create_a(&edge, None).code, Code::Ok);
    assert!(edge.served.database.collection("default", "a").is_ok());
}

#[test]
fn a_leader_that_nobody_reaches_is_named() {
    let gone = nowhere();
    let edge = Server::new(2, LeaderAt::There(gone.clone()));
    let ended = create_a(&edge, Some(Duration::from_secs(6)));
    assert_eq!(ended.code, Code::Unavailable);
    assert!(
        ended.text.contains(&gone.uri) && ended.text.contains("has not seen"),
        "{}",
        ended.text
    );
}

#[test]
fn calls_that_were_forwarded_before_are_answered_by_the_next_leader() {
    let (first, second) = (Server::new(1, LeaderAt::Here), Server::new(3, LeaderAt::Here));
    let edge = Server::new(2, LeaderAt::There(first.at()));
    assert_eq!(create_a(&edge, None).code, Code::Ok);
    first.served.listening.stop();
    edge.learns(300, LeaderAt::There(second.at()));
    // Its connection has ended, so it is certain that the first leader has not seen the call.
    edge.pass(50);
    assert_eq!(create_a(&edge, None).code, Code::Ok);
    assert!(second.served.database.collection("default", "a").is_ok());
}

#[test]
fn servers_speak_encrypted_where_they_say_so() {
    const CA: &[u8] = include_bytes!("../../tls/ca.pem");
    let tls = ServerTls {
        certificate: include_bytes!("../../tls/server.pem").to_vec(),
        key: include_bytes!("../../tls/server.key").to_vec(),
        client_ca: Some(CA.to_vec()),
    };
    let options = ServeOptions { tls: Some(tls), ..ServeOptions::default() };
    let leader = Server::with(Others::new(1, LeaderAt::Here), options);
    let known = PeerTls {
        ca: CA.to_vec(),
        domain: Some("localhost".to_owned()),
        identity: Some((
            include_bytes!("../../tls/client.pem").to_vec(),
            include_bytes!("../../tls/client.key").to_vec(),
        )),
    };
    let uri = format!("https://{}", leader.served.listening.address());
    let at = |known: &PeerTls| {
        LeaderAt::There(ServerAt { uri: uri.clone(), tls: Some(Arc::new(known.clone())) })
    };
    let edge = Server::new(2, at(&PeerTls { identity: None, ..known.clone() }));
    let refused = create_a(&edge, Some(Duration::from_secs(6)));
    assert_eq!(refused.code, Code::Unavailable, "{}", refused.text);
    edge.others.lead(at(&known));
    assert_eq!(create_a(&edge, None).code, Code::Ok);
    assert!(leader.served.database.collection("default", "a").is_ok());
}

#[test]
fn what_changes_the_catalogue_by_being_read_does_not_go_with_other_servers() {
    let options = ServeOptions {
        auto_load: true,
        peers: Some(Others::new(1, LeaderAt::Here)),
        ..ServeOptions::default()
    };
    let refused = Served::try_listen(options).unwrap_err();
    assert!(refused.to_string().contains("auto_load"), "{refused}");
}

#[test]
fn many_calls_at_once_are_all_answered() {
    let leader = Server::new(1, LeaderAt::Here);
    let edge = Server::new(2, LeaderAt::There(leader.at()));
    assert_ok(&edge.served.create("a"));
    let inserted = edge.served.runtime.block_on(async {
        let mut tasks = Vec::new();
        for key in 0..4 {
            let channel = edge.served.endpoint().connect().await.unwrap();
            for part in 0..100 {
                let client = MilvusServiceClient::new(channel.clone());
                let key = key * 100 + part;
                let request = insert("a", key..key + 1);
                tasks.push(tokio::spawn(async move {
                    let mut client = client;
                    client.insert(request).await.unwrap().into_inner().insert_cnt
                }));
            }
        }
        let mut inserted = 0;
        for task in tasks {
            inserted += task.await.unwrap();
        }
        inserted
    });
    assert_eq!(inserted, 400);
    let collection = leader.served.database.collection("default", "a").unwrap();
    assert_eq!(collection.count(None).unwrap(), 400);
}
