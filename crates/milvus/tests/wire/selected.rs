//! What of a collection is read: loaded partitions, and rows in groups.

use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::schema::{
    DataType, FieldSchema, FunctionSchema, FunctionScore, FunctionType,
};

use crate::rows::{keys, numbers, search};
use crate::served::{Served, assert_ok, create, declared, insert, longs, pair, query, vectors};

#[test]
fn rows_of_a_partition_that_was_released_are_not_read() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 3);
    let partition = wire::CreatePartitionRequest {
        collection_name: "a".into(),
        partition_name: "p".into(),
        ..Default::default()
    };
    assert_ok(&served.call(client.create_partition(partition)));
    let written = wire::InsertRequest { partition_name: "p".into(), ..insert("a", 3..6) };
    assert_ok(&served.call(client.insert(written)).status.unwrap());
    let mut read = || keys(&served.call(client.query(query("a", "id >= 0", &[]))).fields_data);
    assert_eq!(read(), [0, 1, 2, 3, 4, 5]);
    let release = wire::ReleasePartitionsRequest {
        collection_name: "a".into(),
        partition_names: vec!["p".into()],
        ..Default::default()
    };
    assert_ok(&served.call(served.client().release_partitions(release)));
    assert_eq!(read(), [0, 1, 2]);
    let counted = served.call(client.query(query("a", "", &["count(*)"])));
    assert_eq!(numbers_of(&counted), [3]);
    let hits = served.call(client.search(search(&[0.0], &[("topk", "9")])));
    let mut found = numbers(hits.results.unwrap().ids);
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2]);
}

fn numbers_of(answer: &wire::QueryResults) -> Vec<i64> {
    use pipeann_milvus::proto::schema::field_data::Field;
    use pipeann_milvus::proto::schema::scalar_field::Data;
    match &answer.fields_data[0].field {
        Some(Field::Scalars(scalars)) => match &scalars.data {
            Some(Data::LongData(longs)) => longs.data.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_offset_of_a_hybrid_search_counts_once() {
    let served = Served::new();
    served.filled("a", 40);
    let one = search(&[0.0], &[("topk", "30"), ("offset", "5"), ("anns_field", "v")]);
    let ranked = [("strategy", "rrf"), ("limit", "3"), ("offset", "5")];
    let request = wire::HybridSearchRequest {
        collection_name: "a".into(),
        requests: vec![one.clone(), one],
        rank_params: ranked.iter().map(|(key, value)| pair(key, value)).collect(),
        ..Default::default()
    };
    let hits = served.call(served.client().hybrid_search(request));
    assert_eq!(numbers(hits.results.unwrap().ids), [5, 6, 7]);
}

#[test]
fn pages_of_a_hybrid_search_need_no_longer_searches() {
    let served = Served::new();
    served.filled("a", 60);
    // As pymilvus sends it: the offset of the whole stands with each search too.
    let found = |one: &[(&str, &str)], offset: &str| {
        let mut one = one.to_vec();
        one.extend([("offset", offset), ("anns_field", "v")]);
        let ranked = [("strategy", "rrf"), ("limit", "10"), ("offset", offset)];
        let request = wire::HybridSearchRequest {
            collection_name: "a".into(),
            requests: vec![search(&[0.0], &one); 2],
            rank_params: ranked.iter().map(|(key, value)| pair(key, value)).collect(),
            ..Default::default()
        };
        let hits = served.call(served.client().hybrid_search(request));
        assert_ok(&hits.status.unwrap());
        numbers(hits.results.unwrap().ids)
    };
    let expected: Vec<i64> = (20..30).collect();
    let ef = r#"{"ef":64}"#;
    assert_eq!(found(&[("topk", "50"), ("params", ef)], "20"), expected);
    assert_eq!(found(&[("params", ef)], "20"), expected, "as many as are ranked");
    assert_eq!(found(&[("topk", "10000")], "8000"), [0; 0]);
}

#[test]
fn a_hybrid_search_is_ranked_by_a_function_as_by_a_ranker() {
    let served = Served::new();
    served.filled("a", 20);
    let found = |ranked: &[(&str, &str)], function: &[(&str, &str)]| {
        let pairs = |given: &[(&str, &str)]| given.iter().map(|(k, v)| pair(k, v)).collect();
        let function = FunctionSchema {
            name: "rank".into(),
            r#type: FunctionType::Rerank.into(),
            params: pairs(function),
            ..Default::default()
        };
        let by = (!function.params.is_empty())
            .then(|| FunctionScore { functions: vec![function], ..Default::default() });
        let request = wire::HybridSearchRequest {
            collection_name: "a".into(),
            requests: [2.0, 9.0]
                .map(|at| search(&[at], &[("topk", "6"), ("anns_field", "v")]))
                .to_vec(),
            rank_params: pairs(&[ranked, &[("limit", "4"), ("offset", "1")]].concat()),
            function_score: by,
            ..Default::default()
        };
        served.call(served.client().hybrid_search(request))
    };
    let same = |ranked: &[(&str, &str)], function: &[(&str, &str)]| {
        let (by_ranker, by_function) = (found(ranked, &[]), found(&[], function));
        assert_ok(&by_function.status.unwrap());
        let (ranked, hits) = (by_ranker.results.unwrap(), by_function.results.unwrap());
        assert_eq!((hits.scores.len(), hits.scores), (4, ranked.scores));
        assert_eq!(numbers(hits.ids), numbers(ranked.ids));
    };
    let rrf = [("strategy", "\"rrf\""), ("params", r#"{"k":10}"#)];
    same(&rrf, &[("reranker", "rrf"), ("k", "10")]);
    for (is_normalised, flag) in [("true", "True"), ("false", "False")] {
        let params = format!(r#"{{"weights":[0.3,0.7],"norm_score":{is_normalised}}}"#);
        let weighted = [("strategy", "\"weighted\""), ("params", params.as_str())];
        let function = [("reranker", "weighted"), ("weights", "[0.3, 0.7]"), ("norm_score", flag)];
        same(&weighted, &function);
    }
    let status = found(&[], &[("reranker", "decay"), ("function", "gauss")]).status.unwrap();
    let words = "the reranker `decay` is not supported by this server";
    assert_eq!((status.code, status.reason.as_str()), (3000, words));
}

/// The collection `a` with eight rows, of which those with an even key are a group, and the others.
fn with_groups(served: &Served) {
    let mut schema = declared();
    schema.fields.push(FieldSchema {
        name: "g".into(),
        data_type: DataType::Int64.into(),
        ..Default::default()
    });
    let mut client = served.client();
    assert_ok(&served.call(client.create_collection(create("a", &schema))));
    let index = wire::CreateIndexRequest {
        collection_name: "a".into(),
        field_name: "v".into(),
        extra_params: vec![pair("metric_type", "L2")],
        ..Default::default()
    };
    assert_ok(&served.call(client.create_index(index)));
    let load = wire::LoadCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_ok(&served.call(client.load_collection(load)));
    let groups = longs("g", (0..8).map(|key| key % 2).collect());
    let columns = vec![longs("id", (0..8).collect()), vectors(0..8), groups];
    let written = wire::InsertRequest { fields_data: columns, ..insert("a", 0..8) };
    assert_ok(&served.call(client.insert(written)).status.unwrap());
}

#[test]
fn rows_of_a_group_stand_together_and_pages_are_of_groups() {
    let served = Served::new();
    with_groups(&served);
    let found = |more: &[(&str, &str)]| {
        let groups = [
            ("topk", "1"),
            ("group_by_field", "g"),
            ("group_size", "3"),
            ("strict_group_size", "true"),
        ];
        let params: Vec<_> = groups.iter().chain(more).copied().collect();
        let hits = served.call(served.client().search(search(&[0.0], &params)));
        numbers(hits.results.unwrap().ids)
    };
    assert_eq!(found(&[]), [0, 2, 4]);
    assert_eq!(found(&[("offset", "1")]), [1, 3, 5]);
    let both = [
        ("topk", "2"),
        ("group_by_field", "g"),
        ("group_size", "3"),
        ("strict_group_size", "true"),
    ];
    let hits = served.call(served.client().search(search(&[0.0], &both)));
    assert_eq!(numbers(hits.results.unwrap().ids), [0, 2, 4, 1, 3, 5]);
}
