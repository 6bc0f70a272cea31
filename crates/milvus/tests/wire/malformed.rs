//! Bytes and values that no client should send: each gets an answer that nobody repeats, and the
//! server goes on.

use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::milvus::search_request::SearchInput;
use tonic::Code;
use tonic::codegen::http::uri::PathAndQuery;

use crate::served::{Served, assert_ok, create, declared, insert, longs, pair, vectors};

const PATH: &str = "/milvus.proto.milvus.MilvusService/";

/// A message of raw bytes, sent as the request of a call. A field of bytes is what a request's own
/// fields are taken for.
fn raw(served: &Served, call: &str, number: u32, bytes: Vec<u8>) -> tonic::Status {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Second {
        #[prost(bytes = "vec", tag = "2")]
        bytes: Vec<u8>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Fifth {
        #[prost(bytes = "vec", tag = "5")]
        bytes: Vec<u8>,
    }
    let path = PathAndQuery::try_from(format!("{PATH}{call}")).unwrap();
    let mut grpc =
        tonic::client::Grpc::new(served.runtime.block_on(served.endpoint().connect()).unwrap())
            .max_encoding_message_size(usize::MAX);
    let answer = async {
        grpc.ready().await.unwrap();
        let encoded = match number {
            2 => {
                let codec = tonic_prost::ProstCodec::<Second, wire::MutationResult>::default();
                grpc.unary(tonic::Request::new(Second { bytes }), path, codec).await
            }
            _ => {
                let codec = tonic_prost::ProstCodec::<Fifth, wire::MutationResult>::default();
                grpc.unary(tonic::Request::new(Fifth { bytes }), path, codec).await
            }
        };
        encoded.expect_err("it is refused")
    };
    served.runtime.block_on(answer)
}

#[test]
fn trap_20_requests_that_cannot_be_decoded_are_invalid_arguments() {
    let served = Served::new();
    // The name of a database that is not UTF-8, and a column that is no message.
    assert_eq!(raw(&served, "Insert", 2, vec![0xff; 4]).code(), Code::InvalidArgument);
    assert_eq!(raw(&served, "Insert", 5, vec![0xff; 4]).code(), Code::InvalidArgument);
    assert_ok(&served.create("a"));
}

#[test]
fn trap_15_requests_of_64_mib_are_taken_and_larger_ones_refused() {
    let served = Served::new();
    assert_ok(&served.create("a"));
    let mut client = served.client();
    // It arrives, and no partition can have that name.
    let padded = |bytes: usize| wire::InsertRequest {
        partition_name: "x".repeat(bytes),
        ..insert("a", 0..1)
    };
    let answer = served.call(client.insert(padded((64 << 20) - 4096)));
    let status = answer.status.unwrap();
    assert_eq!(status.code, 1100);
    assert!(status.reason.contains("must be less than 255 characters"));
    let answer = served.runtime.block_on(client.insert(padded(65 << 20)));
    assert_eq!(answer.unwrap_err().code(), Code::ResourceExhausted);
    assert_ok(&served.call(client.insert(insert("a", 0..1))).status.unwrap());
}

#[test]
fn a_call_that_is_not_served_says_so() {
    let served = Served::new();
    let status = raw(&served, "CalcDistance", 2, Vec::new());
    assert_eq!(status.code(), Code::Unimplemented);
    let said = status.message();
    assert!(said.starts_with("CalcDistance is not served by pipeann"), "{said}");
}

#[test]
fn schemas_that_make_no_sense_are_refused() {
    let served = Served::new();
    let mut client = served.client();
    let mut refused = |request| served.call(client.create_collection(request));
    let malformed =
        wire::CreateCollectionRequest { schema: vec![0xff; 3], ..create("a", &declared()) };
    assert!(refused(malformed).reason.contains("the schema is malformed"));
    let mut unknown = declared();
    unknown.fields[1].data_type = 12_345;
    assert!(refused(create("a", &unknown)).reason.contains("12345 is not supported"));
    let mut huge = declared();
    huge.fields[1].type_params = vec![pair("dim", "99999999999")];
    assert!(refused(create("a", &huge)).reason.contains("invalid dim"));
    let negative = wire::CreateCollectionRequest { num_partitions: -1, ..create("a", &declared()) };
    assert_ne!(refused(negative).code, 0);
    assert_ne!(refused(create("a-b", &declared())).code, 0);
}

#[test]
fn rows_that_do_not_fit_change_nothing() {
    let served = Served::new();
    served.filled("a", 3);
    let columns = [
        vec![longs("id", vec![1, 2]), vectors(1..2)],
        vec![longs("id", vec![1, 2])],
        vec![longs("id", vec![1]), vectors(1..2)],
        vec![longs("id", vec![1, 2]), longs("v", vec![1, 2])],
        vec![longs("id", vec![1, 2]), longs("id", vec![1, 2]), vectors(1..3)],
        Vec::new(),
    ];
    for fields_data in columns {
        let request = wire::InsertRequest { fields_data, num_rows: 2, ..insert("a", 0..1) };
        let status = served.call(served.client().insert(request)).status.unwrap();
        assert_eq!(status.code, 1100, "{}", status.reason);
    }
    // One row, of which the request says that it is very many.
    let many = wire::UpsertRequest {
        collection_name: "a".into(),
        fields_data: vec![longs("id", vec![1])],
        num_rows: u32::MAX,
        partial_update: true,
        ..Default::default()
    };
    let status = served.call(served.client().upsert(many)).status.unwrap();
    assert_eq!(status.code, 1100);
    assert!(status.reason.contains("not equal to passed num_rows"), "{}", status.reason);
    let nothing = wire::InsertRequest { num_rows: 0, ..insert("a", 0..0) };
    assert_eq!(served.call(served.client().insert(nothing)).status.unwrap().code, 1100);
    let request =
        wire::GetCollectionStatisticsRequest { collection_name: "a".into(), ..Default::default() };
    let stats = served.call(served.client().get_collection_statistics(request)).stats;
    assert_eq!(stats, [pair("row_count", "3")]);
}

#[test]
fn searches_that_make_no_sense_are_refused() {
    let served = Served::new();
    served.filled("a", 3);
    let search = |group: Vec<u8>, params: &[(&str, &str)]| {
        let request = wire::SearchRequest {
            collection_name: "a".into(),
            search_input: Some(SearchInput::PlaceholderGroup(group)),
            search_params: params.iter().map(|(key, value)| pair(key, value)).collect(),
            ..Default::default()
        };
        let status = served.call(served.client().search(request)).status.unwrap();
        (status.code, status.reason)
    };
    let (code, reason) = search(vec![0xff; 8], &[("topk", "1")]);
    assert!(code == 1100 && reason.contains("malformed"), "{reason}");
    let (code, reason) = search(Vec::new(), &[("topk", "1")]);
    assert!(code == 1100 && reason.contains("placeholder"), "{reason}");
    let (code, reason) = search(Vec::new(), &[("topk", "0")]);
    assert!(code == 1100 && reason.contains("topk [0] is invalid"), "{reason}");
    let (code, reason) = search(Vec::new(), &[("topk", "1"), ("anns_field", "x")]);
    assert!(code == 1100 && reason.contains("fieldName(x) not found"), "{reason}");
    let (code, reason) = search(Vec::new(), &[("topk", "1"), ("params", "{")]);
    assert!(code == 1100 && reason.contains("not JSON"), "{reason}");
}
