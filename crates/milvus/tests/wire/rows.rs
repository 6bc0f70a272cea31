//! Rows: written, searched, read.

use pipeann_milvus::proto::common::{PlaceholderGroup, PlaceholderType, PlaceholderValue};
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::milvus::search_request::SearchInput;
use pipeann_milvus::proto::schema::field_data::Field;
use pipeann_milvus::proto::schema::i_ds::IdField;
use pipeann_milvus::proto::schema::{FieldData, IDs, LongArray, scalar_field};
use prost::Message as _;

use crate::served::{DIM, Served, assert_ok, dynamic, insert, longs, pair, query, vectors};

/// Queries whose components are all one number.
pub(crate) fn search(numbers: &[f32], params: &[(&str, &str)]) -> wire::SearchRequest {
    let values = numbers.iter().map(|n| [n.to_le_bytes(); DIM].concat()).collect();
    let value =
        PlaceholderValue { tag: "$0".into(), r#type: PlaceholderType::FloatVector.into(), values };
    let group = PlaceholderGroup { placeholders: vec![value] }.encode_to_vec();
    wire::SearchRequest {
        collection_name: "a".into(),
        search_input: Some(SearchInput::PlaceholderGroup(group)),
        search_params: params.iter().map(|(key, value)| pair(key, value)).collect(),
        ..Default::default()
    }
}

pub(crate) fn numbers(ids: Option<IDs>) -> Vec<i64> {
    match ids.and_then(|ids| ids.id_field) {
        Some(IdField::IntId(LongArray { data })) => data,
        other => panic!("{other:?}"),
    }
}

#[test]
fn trap_12_a_write_names_its_rows_and_a_delete_does_not() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 3);
    let written = served.call(client.insert(insert("a", 3..6)));
    assert_eq!((written.insert_cnt, written.upsert_cnt), (3, 0));
    assert_eq!(written.succ_index, [0, 1, 2]);
    assert_eq!(numbers(written.i_ds), [3, 4, 5]);
    let rows = insert("a", 5..8);
    let upsert = wire::UpsertRequest {
        collection_name: "a".into(),
        fields_data: rows.fields_data,
        num_rows: 3,
        ..Default::default()
    };
    let replaced = served.call(client.upsert(upsert));
    assert_eq!((replaced.upsert_cnt, numbers(replaced.i_ds)), (3, vec![5, 6, 7]));
    assert!(replaced.timestamp > written.timestamp);
    let delete = wire::DeleteRequest {
        collection_name: "a".into(),
        expr: "id in [0, 1]".into(),
        ..Default::default()
    };
    let deleted = served.call(client.delete(delete));
    assert_eq!((deleted.delete_cnt, deleted.i_ds.unwrap().id_field), (2, None));
    let found = served.call(client.query(query("a", "id >= 0", &[])));
    assert_eq!(keys(&found.fields_data), [2, 3, 4, 5, 6, 7]);
}

pub(crate) fn keys(columns: &[FieldData]) -> Vec<i64> {
    let column = columns.iter().find(|column| column.field_name == "id").unwrap();
    match &column.field {
        Some(Field::Scalars(scalars)) => match &scalars.data {
            Some(scalar_field::Data::LongData(longs)) => longs.data.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn trap_10_each_query_has_a_number_of_hits_and_the_key_its_name() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 10);
    let found = served.call(client.search(search(&[2.2, 7.9], &[("topk", "3")])));
    assert_ok(&found.status.unwrap());
    let results = found.results.unwrap();
    assert_eq!((results.num_queries, results.top_k), (2, 3));
    assert_eq!(results.topks, [3, 3]);
    assert_eq!(results.primary_field_name, "id");
    assert_eq!(numbers(results.ids), [2, 3, 1, 8, 7, 9]);
    assert!(results.fields_data.is_empty(), "the key is shown where it is asked for only");
    // Squared, and not turned round: 4 components that are 0.2 away.
    assert!((results.scores[0] - 0.16).abs() < 1e-5, "{:?}", results.scores);
    assert!(results.scores[..3].is_sorted() && results.scores[3..].is_sorted());
    let none = wire::SearchRequest { dsl: "id < 0".into(), ..search(&[1.0; 3], &[("topk", "3")]) };
    let results = served.call(client.search(none)).results.unwrap();
    assert_eq!((results.topks, results.num_queries), (vec![0, 0, 0], 3));
}

#[test]
fn trap_11_everything_is_asked_for_by_a_star() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 1);
    for name in ["", "$meta"] {
        let key = if name.is_empty() { 7 } else { 8 };
        let request = wire::InsertRequest {
            fields_data: vec![
                longs("id", vec![key]),
                vectors([key].into_iter()),
                dynamic(name, &[r#"{"color":"red","n":1.0}"#]),
            ],
            ..insert("a", 0..1)
        };
        assert_ok(&served.call(client.insert(request)).status.unwrap());
    }
    let request = wire::SearchRequest {
        output_fields: vec!["*".into()],
        dsl: "color == 'red'".into(),
        ..search(&[7.0], &[("topk", "3")])
    };
    let results = served.call(client.search(request)).results.unwrap();
    assert_eq!(results.output_fields, ["id", "v", "$meta"]);
    let names: Vec<&str> = results.fields_data.iter().map(|f| f.field_name.as_str()).collect();
    assert_eq!(names, ["id", "v", "$meta"]);
    assert!(results.fields_data[2].is_dynamic);
    assert_eq!(keys(&results.fields_data), [7, 8]);
    let found = served.call(client.query(query("a", "id in [8]", &["color"])));
    assert_eq!(found.output_fields, ["id", "color"]);
    let Some(Field::Scalars(scalars)) = &found.fields_data[1].field else { panic!("JSON") };
    let Some(scalar_field::Data::JsonData(texts)) = &scalars.data else { panic!("JSON") };
    assert_eq!(texts.data, [br#"{"color":"red","n":1.0}"#.to_vec()], "kept as it was given");
}

#[test]
fn trap_09_a_key_that_is_a_field_is_no_dynamic_one() {
    let served = Served::new();
    served.filled("a", 1);
    for row in [r#"{"v":1}"#, r#"{"$meta":1}"#, "[1]", "{"] {
        let request = wire::InsertRequest {
            fields_data: vec![longs("id", vec![9]), vectors([9].into_iter()), dynamic("", &[row])],
            ..insert("a", 0..1)
        };
        let status = served.call(served.client().insert(request)).status.unwrap();
        assert_eq!(status.code, 1100, "{row}: {}", status.reason);
    }
}

#[test]
fn trap_07_counting_is_exact_and_has_no_limit() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 5);
    // A key that is there already makes another row.
    assert_ok(&served.call(client.insert(insert("a", 0..2))).status.unwrap());
    let count = |request| served.call(served.client().query(request));
    let found = count(query("a", "", &["count(*)"]));
    let Some(Field::Scalars(scalars)) = &found.fields_data[0].field else { panic!("a number") };
    let seven = LongArray { data: vec![7] };
    assert_eq!(scalars.data, Some(scalar_field::Data::LongData(seven)));
    let found = count(query("a", "id < 3", &[]));
    assert_eq!(keys(&found.fields_data), [0, 1, 2], "each key once");
    let mut limited = query("a", "", &["count(*)"]);
    limited.query_params = vec![pair("limit", "3")];
    assert_eq!(count(limited).status.unwrap().code, 1100);
    let status = count(query("a", "", &["id"])).status.unwrap();
    assert_eq!(status.reason, "empty expression should be used with limit");
}

#[test]
fn an_upsert_of_some_fields_keeps_the_others() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 3);
    let mut some = |fields_data: Vec<FieldData>| {
        let upsert = wire::UpsertRequest {
            collection_name: "a".into(),
            num_rows: 1,
            fields_data,
            partial_update: true,
            ..Default::default()
        };
        served.call(client.upsert(upsert))
    };
    let written = some(vec![longs("id", vec![1]), dynamic("$meta", &[r#"{"color":"red"}"#])]);
    assert_ok(&written.status.unwrap());
    assert_eq!((written.upsert_cnt, numbers(written.i_ds)), (1, vec![1]));
    assert_ok(&some(vec![longs("id", vec![1]), vectors(50..51)]).status.unwrap());
    let request = wire::SearchRequest {
        output_fields: vec!["color".into()],
        ..search(&[50.0], &[("topk", "1")])
    };
    let found = served.call(served.client().search(request)).results.unwrap();
    assert_eq!((numbers(found.ids), &found.scores[..]), (vec![1], &[0.0][..]));
    let Some(Field::Scalars(scalars)) = &found.fields_data[0].field else { panic!("JSON") };
    let Some(scalar_field::Data::JsonData(texts)) = &scalars.data else { panic!("JSON") };
    assert_eq!(texts.data, [br#"{"color":"red"}"#.to_vec()]);
    let status = some(vec![longs("id", vec![8]), dynamic("$meta", &["{}"])]).status.unwrap();
    assert_eq!(status.code, 1100, "{}", status.reason);
    let status = some(vec![vectors(1..2)]).status.unwrap();
    assert_eq!(status.code, 1100, "{}", status.reason);
    let upsert = wire::UpsertRequest {
        collection_name: "a".into(),
        num_rows: 1,
        fields_data: vec![longs("id", vec![1]), vectors(0..1)],
        partial_update: true,
        field_ops: vec![b"\x0a\x01a\x10\x01".to_vec()],
        ..Default::default()
    };
    let status = served.call(served.client().upsert(upsert)).status.unwrap();
    assert!(status.reason.contains("field_ops"), "{}", status.reason);
}

#[test]
fn trap_19_rows_are_hidden_when_their_time_to_live_is_over() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 3);
    let mut alter = |seconds: &str| {
        let request = wire::AlterCollectionRequest {
            collection_name: "a".into(),
            properties: vec![pair("collection.ttl.seconds", seconds)],
            ..Default::default()
        };
        served.call(client.alter_collection(request))
    };
    assert_eq!(alter("soon").code, 1100);
    assert_ok(&alter("100"));
    let count =
        || keys(&served.call(served.client().query(query("a", "id >= 0", &[]))).fields_data);
    assert_eq!(count(), [0, 1, 2]);
    served.clock.pass(60_000);
    assert_ok(&served.call(served.client().insert(insert("a", 3..4))).status.unwrap());
    served.clock.pass(60_000);
    assert_eq!(count(), [3]);
    let found = served.call(served.client().search(search(&[0.0], &[("topk", "3")])));
    assert_eq!(numbers(found.results.unwrap().ids), [3]);
}

#[test]
fn metrics_have_to_be_those_of_the_index() {
    let served = Served::new();
    served.filled("a", 5);
    let request = search(&[1.0], &[("topk", "1"), ("metric_type", "IP")]);
    let status = served.call(served.client().search(request)).status.unwrap();
    assert_eq!(status.code, 1100);
    assert!(status.reason.contains("metric type not match"), "{}", status.reason);
    assert!(status.reason.contains("[expected=L2][actual=IP]"), "{}", status.reason);
}

#[test]
fn trap_21_a_timestamp_of_the_future_is_no_reason_to_wait() {
    let served = Served::new();
    served.filled("a", 5);
    let request =
        wire::SearchRequest { guarantee_timestamp: u64::MAX, ..search(&[1.0], &[("topk", "1")]) };
    let found = served.call(served.client().search(request));
    assert_eq!(numbers(found.results.unwrap().ids), [1]);
    assert!(found.session_ts > 0);
}

#[test]
fn what_would_change_the_answer_and_is_not_served_is_refused() {
    let served = Served::new();
    served.filled("a", 5);
    let plain = || search(&[1.0], &[("topk", "1")]);
    let asked = [
        (
            "function_score",
            wire::SearchRequest { function_score: Some(Default::default()), ..plain() },
        ),
        ("function_chains", wire::SearchRequest { function_chains: vec![Vec::new()], ..plain() }),
        (
            "search_aggregation",
            wire::SearchRequest { search_aggregation: Some(Vec::new()), ..plain() },
        ),
        ("highlighter", wire::SearchRequest { highlighter: Some(Vec::new()), ..plain() }),
        ("order_by_fields", search(&[1.0], &[("topk", "1"), ("order_by_fields", "id:desc")])),
    ];
    for (what, request) in asked {
        let status = served.call(served.client().search(request)).status.unwrap();
        assert_eq!(status.code, 3000, "{what}");
        assert!(status.reason.contains(what), "{}", status.reason);
    }
    let query_params = vec![pair("order_by_fields", "id:desc")];
    let ordered = wire::QueryRequest { query_params, ..query("a", "id >= 0", &[]) };
    let status = served.call(served.client().query(ordered)).status.unwrap();
    assert!(status.reason.contains("order_by_fields"), "{}", status.reason);
    let hybrid = wire::HybridSearchRequest {
        collection_name: "a".into(),
        requests: vec![plain()],
        function_chains: vec![Vec::new()],
        ..Default::default()
    };
    let status = served.call(served.client().hybrid_search(hybrid)).status.unwrap();
    assert!(status.reason.contains("function_chains"), "{}", status.reason);
}
