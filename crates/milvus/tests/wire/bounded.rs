//! What one client may take: memory of messages, names in a request, connections, and time.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pipeann_engine::memory::Pool;
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::milvus::search_request::SearchInput;
use pipeann_milvus::proto::schema::i_ds::IdField;
use pipeann_milvus::proto::schema::template_array_value::Data as ListData;
use pipeann_milvus::proto::schema::template_value::Val;
use pipeann_milvus::proto::schema::{
    CollectionSchema, FieldSchema, IDs, LongArray, TemplateArrayValue, TemplateValue,
};
use pipeann_milvus::{NetworkLimits, ServeOptions};

use crate::rows::search;
use crate::served::{Served, assert_ok, create, dynamic, insert, longs, query};

/// What a connection of HTTP/2 begins with: the preface, and settings that change nothing.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const HEADERS: u8 = 1;
/// The question for health, which nobody is asked a password for.
const HEALTH: &str = "/grpc.health.v1.Health/Check";

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The headers of a call, the first of its connection.
pub(crate) fn headers(path: &str, authorization: Option<&str>) -> Vec<u8> {
    let encoded = authorization.map(|token| BASE64_STANDARD.encode(token));
    let mut named = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    named.extend(encoded.as_deref().map(|token| ("authorization", token)));
    let mut block = Vec::new();
    for (name, value) in named {
        // A literal that no table keeps.
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.as_bytes());
        }
    }
    frame(HEADERS, 4, 1, &block)
}

pub(crate) fn path_of(call: &str) -> String {
    format!("/milvus.proto.milvus.MilvusService/{call}")
}

/// A call that is begun and not finished: its headers, and of its content this much.
fn begun(path: &str, authorization: Option<&str>, content: &[u8]) -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    bytes.extend(headers(path, authorization));
    if !content.is_empty() {
        bytes.extend(frame(0, 0, 1, content));
    }
    bytes
}

/// Waits for an answer to a call. `false` where the connection ends without one, or nothing comes.
pub(crate) fn answers(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).is_err() {
            return false;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        if stream.read_exact(&mut vec![0; length]).is_err() {
            return false;
        }
        if head[3] == HEADERS {
            return true;
        }
    }
}

/// Sends it, and waits for an answer to the call.
fn is_answered(served: &Served, bytes: &[u8]) -> bool {
    let mut stream = TcpStream::connect(served.listening.address()).unwrap();
    stream.write_all(bytes).unwrap();
    answers(&mut stream)
}

/// Whether the server hangs up.
pub(crate) fn is_closed(stream: &mut TcpStream) -> bool {
    let mut left = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    match stream.read_to_end(&mut left) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Whether the server has hung up by now.
fn was_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut said = [0; 256];
    loop {
        match stream.read(&mut said) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// What messages took is given back, when the network has let go of them.
pub(crate) fn given_back(served: &Served) {
    let held = || served.database.accountant().pool_bytes(Pool::QueryScratch);
    let looks = std::iter::repeat_with(|| {
        served.call(served.client().get_version(wire::GetVersionRequest {}));
        held()
    });
    assert!(looks.take(1000).any(|held| held == 0), "{} bytes are kept", held());
}

pub(crate) fn with_limits(limits: NetworkLimits) -> Served {
    Served::with(ServeOptions { limits, ..ServeOptions::default() })
}

#[test]
fn a_request_for_which_there_is_no_memory_is_refused_while_it_comes() {
    let served = Served::new();
    served.filled("a", 2);
    let accountant = served.database.accountant();
    accountant.set_limit_bytes(Some(accountant.held_bytes() + (1 << 20)));
    let refused = served.runtime.block_on(served.client().insert(insert("a", 0..200_000)));
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused:?}");
    accountant.set_limit_bytes(None);
    let inserted = served.call(served.client().insert(insert("a", 0..200_000)));
    assert_ok(&inserted.status.unwrap());
    given_back(&served);
}

#[test]
fn a_request_that_comes_too_slowly_is_given_up() {
    let limits = NetworkLimits { request: Duration::from_millis(100), ..Default::default() };
    let served = with_limits(limits);
    assert!(is_answered(&served, &begun(&path_of("Insert"), None, &[0, 0, 0, 1, 0, 7])));
}

#[test]
fn who_asks_for_health_sends_no_more_than_a_name_and_in_time() {
    let served = Served::guarded(Some("a token"));
    let mut large = vec![0];
    large.extend((4_u32 << 20).to_be_bytes());
    large.extend([0; 16_000]);
    assert!(is_answered(&served, &begun(HEALTH, None, &large)), "a message of 4 MiB");
    let limits = NetworkLimits { request: Duration::from_millis(100), ..Default::default() };
    let served = with_limits(limits);
    assert!(is_answered(&served, &begun(HEALTH, None, &[0, 0, 0, 0, 7, 10])), "a few bytes");
}

#[test]
fn what_a_user_may_do_nowhere_is_refused_before_it_is_read() {
    let served = Served::with(ServeOptions { authorization: true, ..ServeOptions::default() });
    served.database.access().create_user("nobody", "password").unwrap();
    assert!(is_answered(&served, &begun(&path_of("Insert"), Some("nobody:password"), &[])));
    assert!(is_answered(&served, &begun(&path_of("Query"), Some("nobody:password"), &[])));
}

#[test]
fn an_answer_for_which_there_is_no_memory_is_refused_and_given_back() {
    let served = Served::new();
    served.filled("a", 40_000);
    // What the request of the rows took would be room for their answer.
    given_back(&served);
    let accountant = served.database.accountant();
    let before = accountant.held_bytes();
    accountant.set_limit_bytes(Some(before + (1 << 20)));
    let refused = served.call(served.client().query(query("a", "id >= 0", &["id", "v"])));
    let status = refused.status.unwrap();
    assert_eq!(status.code, 3, "{}", status.reason);
    given_back(&served);
    let some = served.call(served.client().query(query("a", "id < 100", &["id", "v"])));
    assert_ok(&some.status.unwrap());
    accountant.set_limit_bytes(None);
    let all = served.call(served.client().query(query("a", "id >= 0", &["id"])));
    assert_ok(&all.status.unwrap());
}

#[test]
fn a_request_names_so_many_collections_and_no_more() {
    let served = Served::new();
    let named = |count: usize| wire::BatchDescribeCollectionRequest {
        collection_name: vec!["a".into(); count],
        ..Default::default()
    };
    let answer = served.call(served.client().batch_describe_collection(named(1024)));
    assert_eq!(answer.responses.len(), 1024);
    let answer = served.call(served.client().batch_describe_collection(named(1025)));
    assert_eq!((answer.status.unwrap().code, answer.responses.len()), (1100, 0));
    let flush =
        wire::FlushRequest { collection_names: vec!["a".into(); 1025], ..Default::default() };
    assert_eq!(served.call(served.client().flush(flush)).status.unwrap().code, 1100);
}

#[test]
fn idle_connections_give_way_and_those_that_made_calls_last() {
    let served = with_limits(NetworkLimits { of_address: 8, ..Default::default() });
    let mut known = served.client();
    let version = served.call(known.get_version(wire::GetVersionRequest {}));
    assert_ok(&version.status.unwrap());
    let connect = |_| {
        let mut stream = TcpStream::connect(served.listening.address()).unwrap();
        stream.write_all(PREFACE).unwrap();
        stream
    };
    let mut idle: Vec<_> = (0..30).map(connect).collect();
    // The last that came: all before it were taken, or gave way.
    assert_ok(
        &served.call(served.client().get_version(wire::GetVersionRequest {})).status.unwrap(),
    );
    // Which of them depends on when the server has heard them; how many does not: eight are there,
    // with the two that made calls.
    let begun = Instant::now();
    while idle.iter_mut().map(was_closed).filter(|closed| *closed).count() < 24 {
        assert!(begun.elapsed() < Duration::from_secs(60), "too many stay");
        std::thread::yield_now();
    }
    let version = served.call(known.get_version(wire::GetVersionRequest {}));
    assert_ok(&version.status.unwrap());
}

#[test]
fn who_says_nothing_is_hung_up_on() {
    let soon = Duration::from_millis(100);
    let served = with_limits(NetworkLimits { handshake: soon, ..Default::default() });
    let address = served.listening.address();
    for said in [&b""[..], &PREFACE[..10]] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(said).unwrap();
        assert!(is_closed(&mut stream));
    }
    let metrics = served.listening.metrics_address().unwrap();
    assert!(is_closed(&mut TcpStream::connect(metrics).unwrap()));
    let served = with_limits(NetworkLimits { first_call: soon, ..Default::default() });
    let mut stream = TcpStream::connect(served.listening.address()).unwrap();
    stream.write_all(PREFACE).unwrap();
    assert!(is_closed(&mut stream), "it made no call");
}

#[test]
fn requests_of_many_small_parts_are_refused_before_they_are_decoded() {
    let served = Served::new();
    served.filled("a", 3);
    let asked = |searches: usize, names: usize| {
        let requests = vec![wire::SearchRequest::default(); searches];
        let partition_names = vec![String::new(); names];
        let collection_name = "a".into();
        let hybrid = wire::HybridSearchRequest {
            collection_name,
            requests,
            partition_names,
            ..Default::default()
        };
        served.runtime.block_on(served.client().hybrid_search(hybrid))
    };
    let few = asked(2_000, 0).unwrap().into_inner().status.unwrap();
    assert!(few.reason.contains("maximum of ann search requests is 1024"), "{few:?}");
    for (searches, names) in [(200_000, 0), (0, 200_000)] {
        let refused = asked(searches, names).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        assert!(refused.message().contains("the request has 200001 parts"), "{refused:?}");
    }
    // Values of a column are parts of a part, and no client is refused for many.
    let mut many = insert("a", 10..50_010);
    many.fields_data.push(dynamic("$meta", &["{}"; 50_000]));
    assert_ok(&served.call(served.client().insert(many)).status.unwrap());
}

#[test]
fn requests_that_become_much_larger_are_refused_before_they_are_decoded() {
    const MANY: usize = 600_000;
    let served = Served::new();
    served.filled("a", 3);
    given_back(&served);
    let list =
        TemplateArrayValue { data: Some(ListData::LongData(LongArray { data: vec![0; MANY] })) };
    let template = TemplateValue { val: Some(Val::ArrayVal(list)) };
    let filtered = wire::QueryRequest {
        expr_template_values: [("x".to_owned(), template)].into(),
        ..query("a", "id in {x}", &[])
    };
    let ids = IDs { id_field: Some(IdField::IntId(LongArray { data: vec![0; MANY] })) };
    let by_keys = wire::SearchRequest {
        search_input: Some(SearchInput::Ids(ids)),
        ..search(&[0.0], &[("topk", "3")])
    };
    let column =
        wire::InsertRequest { fields_data: vec![longs("id", vec![0; MANY])], ..insert("a", 0..1) };
    let fields = vec![FieldSchema::default(); MANY / 4];
    let declared = create("b", &CollectionSchema { fields, ..Default::default() });
    let codes = || {
        let mut client = served.client();
        let searched = served.runtime.block_on(client.search(by_keys.clone())).map(drop);
        let queried = served.runtime.block_on(client.query(filtered.clone())).map(drop);
        let inserted = served.runtime.block_on(client.insert(column.clone())).map(drop);
        let created = served.runtime.block_on(client.create_collection(declared.clone()));
        [searched, queried, inserted, created.map(drop)].map(|it| it.map_err(|it| it.code()))
    };
    let accountant = served.database.accountant();
    // Room for each as it is sent, and not for what it becomes.
    accountant.set_limit_bytes(Some(accountant.held_bytes() + (4 << 20)));
    assert_eq!(codes(), [Err(tonic::Code::ResourceExhausted); 4]);
    accountant.set_limit_bytes(None);
    assert_eq!(codes(), [Ok(()); 4], "each is answered in its own words");
    given_back(&served);
}
