//! Clients that leave, wait, or ask for more than there is: others are answered all the same.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use pipeann_milvus::proto::common::{PlaceholderGroup, PlaceholderType, PlaceholderValue};
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::milvus::search_request::SearchInput;
use prost::Message as _;

use crate::rows::search;
use crate::served::{DIM, Served, assert_ok, insert, pair, query};

/// The first bytes of a connection of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[track_caller]
fn assert_alive(served: &Served) {
    let version = served.call(served.client().get_version(wire::GetVersionRequest {}));
    assert_ok(&version.status.unwrap());
}

#[test]
fn too_many_queries_are_refused() {
    let served = Served::new();
    served.filled("a", 2);
    let values = vec![[0_u8; DIM * 4].to_vec(); 16_385];
    let value =
        PlaceholderValue { tag: "$0".into(), r#type: PlaceholderType::FloatVector.into(), values };
    let group = PlaceholderGroup { placeholders: vec![value] }.encode_to_vec();
    let request = wire::SearchRequest {
        search_input: Some(SearchInput::PlaceholderGroup(group)),
        ..search(&[1.0], &[("topk", "1")])
    };
    let status = served.call(served.client().search(request)).status.unwrap();
    assert_eq!(status.code, 1100, "{}", status.reason);
    // A number alone is no query.
    let request = wire::SearchRequest { nq: i64::MAX, ..search(&[1.0], &[("topk", "1")]) };
    served.call(served.client().search(request));
    assert_alive(&served);
}

#[test]
fn numbers_that_name_nothing_are_no_reason_to_fail() {
    let served = Served::new();
    served.filled("a", 2);
    let request = wire::SearchRequest {
        dsl_type: 77,
        consistency_level: 99,
        ..search(&[1.0], &[("topk", "1")])
    };
    assert_ok(&served.call(served.client().search(request)).status.unwrap());
    let value = PlaceholderValue { tag: "$0".into(), r#type: 12_345, values: vec![vec![0; 16]] };
    let group = PlaceholderGroup { placeholders: vec![value] }.encode_to_vec();
    let request = wire::SearchRequest {
        search_input: Some(SearchInput::PlaceholderGroup(group)),
        ..search(&[1.0], &[("topk", "1")])
    };
    assert_eq!(served.call(served.client().search(request)).status.unwrap().code, 1100);
    let mut request = query("a", "id >= 0", &[]);
    request.consistency_level = -5;
    assert_ok(&served.call(served.client().query(request)).status.unwrap());
}

#[test]
fn clients_that_disappear_take_nothing_with_them() {
    let served = Served::new();
    served.filled("a", 2);
    let address = served.listening.address();
    for said in [&b""[..], b"GET / HTTP/1.1\r\n", PREFACE, &[0xff; 4096]] {
        let mut stream = TcpStream::connect(address).unwrap();
        // The server may have hung up before all of it was sent.
        let _ = stream.write_all(said);
    }
    // Calls whose caller goes while they are under way.
    for _ in 0..20 {
        let mut client = served.client();
        let call = client.insert(insert("a", 10..2_000));
        let in_time = async { tokio::time::timeout(Duration::from_micros(200), call).await };
        drop(served.runtime.block_on(in_time));
    }
    assert_alive(&served);
    let count = served.call(served.client().query(query("a", "id < 2", &[])));
    assert_ok(&count.status.unwrap());
}

#[test]
fn a_deadline_that_is_over_ends_one_call_only() {
    let served = Served::new();
    served.filled("a", 2);
    for microseconds in 0..50 {
        let mut request = tonic::Request::new(insert("a", 10..500));
        request.set_timeout(Duration::from_micros(20 * microseconds));
        if let Err(status) = served.runtime.block_on(served.client().insert(request)) {
            let ends = [tonic::Code::DeadlineExceeded, tonic::Code::Cancelled];
            assert!(ends.contains(&status.code()), "{status:?}");
        }
    }
    assert_alive(&served);
}

#[test]
fn idle_connections_are_no_burden() {
    let served = Served::new();
    let address = served.listening.address();
    let mut idle = Vec::new();
    // As many as this process may have: both ends of each are here.
    for _ in 0..4_000 {
        match TcpStream::connect(address) {
            Ok(mut stream) => {
                if stream.write_all(PREFACE).is_err() {
                    break;
                }
                idle.push(stream);
            }
            Err(_) => break,
        }
        if idle.len() == 400 {
            assert_alive(&served);
        }
    }
    assert!(idle.len() >= 400, "{}", idle.len());
    idle.truncate(idle.len() / 2);
    let deadline = std::iter::repeat_with(|| served.runtime.block_on(served.endpoint().connect()));
    assert!(deadline.take(1_000).any(|connected| connected.is_ok()), "there is room again");
    assert_alive(&served);
}

#[test]
fn an_answer_that_nobody_reads_holds_up_nobody_else() {
    let served = Served::new();
    served.filled("a", 2_000);
    let endpoint =
        served.endpoint().initial_stream_window_size(64).initial_connection_window_size(65_535);
    let channel = served.runtime.block_on(endpoint.connect()).unwrap();
    let mut slow = wire::milvus_service_client::MilvusServiceClient::new(channel)
        .max_decoding_message_size(64 << 20);
    let mut request = query("a", "id >= 0", &["*"]);
    request.query_params = vec![pair("limit", "2000")];
    let unread: Vec<_> = (0..50)
        .map(|_| {
            let (mut slow, request) = (slow.clone(), request.clone());
            served.runtime.spawn(async move { slow.query(request).await.map(drop) })
        })
        .collect();
    assert_alive(&served);
    unread.iter().for_each(|call| call.abort());
    drop(served.runtime.block_on(slow.get_version(wire::GetVersionRequest {})));
    assert_alive(&served);
}
