//! Clients that ask, and give no window for the answers.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pipeann_milvus::NetworkLimits;
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::milvus::milvus_service_client::MilvusServiceClient;
use prost::Message;

use crate::bounded::{answers, frame, given_back, headers, is_closed, path_of, with_limits};
use crate::served::{Served, assert_ok, dynamic, insert, query};

/// What a connection begins with whose streams have windows of nothing.
const WITHOUT_WINDOW: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";
const END_STREAM: u8 = 1;

/// A connection with a call that is answered, of which nothing is taken.
fn asked(served: &Served, call: &str, message: &impl Message) -> TcpStream {
    let mut content = vec![0];
    content.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    content.extend(message.encode_to_vec());
    let mut bytes = WITHOUT_WINDOW.to_vec();
    bytes.extend(headers(&path_of(call), None));
    bytes.extend(frame(0, END_STREAM, 1, &content));
    let mut stream = TcpStream::connect(served.listening.address()).unwrap();
    stream.write_all(&bytes).unwrap();
    assert!(answers(&mut stream), "{call}");
    stream
}

#[test]
fn an_answer_that_nobody_takes_ends_with_its_connection_however_short_it_is() {
    let limits = NetworkLimits { request: Duration::from_secs(1), ..Default::default() };
    let served = with_limits(limits);
    // So few that no graph is made of them, which would take memory of its own.
    served.filled("a", 2);
    let text = format!("{{\"t\": \"{}\"}}", "x".repeat(400));
    let mut rows = insert("a", 10..1_010);
    rows.fields_data.push(dynamic("$meta", &[text.as_str(); 1_000]));
    assert_ok(&served.call(served.client().insert(rows)).status.unwrap());
    let version = asked(&served, "GetVersion", &wire::GetVersionRequest {});
    let all = asked(&served, "Query", &query("a", "id >= 0", &["*"]));
    for mut stream in [version, all] {
        assert!(is_closed(&mut stream));
    }
    given_back(&served);
}

#[test]
fn connections_whose_answers_nobody_takes_give_way() {
    let limits = NetworkLimits {
        of_address: 8,
        request: Duration::from_secs(3_600),
        untaken: Duration::from_millis(200),
        ..Default::default()
    };
    let served = with_limits(limits);
    let unread: Vec<_> =
        (0..8).map(|_| asked(&served, "GetVersion", &wire::GetVersionRequest {})).collect();
    let is_answered = || {
        let connected = served.runtime.block_on(served.endpoint().connect());
        connected.is_ok_and(|channel| {
            let mut client = MilvusServiceClient::new(channel);
            served.runtime.block_on(client.get_version(wire::GetVersionRequest {})).is_ok()
        })
    };
    let began = Instant::now();
    while !is_answered() {
        assert!(began.elapsed() < Duration::from_secs(60), "they keep everybody out");
    }
    drop(unread);
}
