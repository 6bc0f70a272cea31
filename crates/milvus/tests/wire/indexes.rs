//! Indexes, loading and flushing.

use pipeann_db::catalog::{CollectionPath, EntryChange, IndexState as State, NewIndex, Properties};
use pipeann_db::ids::Metric;
use pipeann_milvus::proto::common::{IndexState, KeyValuePair};
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::schema::{DataType, FieldSchema};

use crate::served::{Served, assert_ok, create as create_collection, declared, pair};

fn create(field: &str, extra_params: Vec<KeyValuePair>) -> wire::CreateIndexRequest {
    wire::CreateIndexRequest {
        collection_name: "a".into(),
        field_name: field.into(),
        extra_params,
        ..Default::default()
    }
}

fn describe() -> wire::DescribeIndexRequest {
    wire::DescribeIndexRequest { collection_name: "a".into(), ..Default::default() }
}

#[test]
fn trap_04_an_index_without_parameters_is_made_and_named_as_its_field() {
    let served = Served::new();
    let mut client = served.client();
    assert_ok(&served.create("a"));
    assert_eq!(served.call(client.describe_index(describe())).status.unwrap().code, 700);
    assert_ok(&served.call(client.create_index(create("v", Vec::new()))));
    assert_ok(&served.call(client.create_index(create("v", Vec::new()))));
    // It is built behind the answer.
    served.database.collection("default", "a").unwrap().wait_for_index("v").unwrap();
    let found = served.call(client.describe_index(describe())).index_descriptions;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].index_name, "v");
    assert_eq!(found[0].state(), IndexState::Finished);
    let expected = [pair("metric_type", "COSINE"), pair("index_type", "AUTOINDEX")];
    assert_eq!(found[0].params, expected);
    let other = create("v", vec![pair("index_type", "HNSW"), pair("metric_type", "L2")]);
    let status = served.call(client.create_index(other));
    assert!(status.reason.contains("at most one distinct index is allowed per field"));
}

#[test]
fn an_index_that_was_only_declared_is_built_when_it_is_asked_for() {
    let served = Served::new();
    assert_ok(&served.create("a"));
    let metric = Some(Metric::Cosine);
    let new = NewIndex {
        field: "v".into(),
        name: None,
        kind: "AUTOINDEX".into(),
        metric,
        parameters: Properties::new(),
    };
    let place = CollectionPath::new("default", "a");
    served.database.apply(EntryChange::CreateIndex { place, new }).unwrap();
    let state =
        || served.call(served.client().describe_index(describe())).index_descriptions[0].state();
    assert_eq!(state(), IndexState::Unissued);
    assert_ok(&served.call(served.client().create_index(create("v", Vec::new()))));
    served.database.collection("default", "a").unwrap().wait_for_index("v").unwrap();
    assert_eq!(state(), IndexState::Finished);
}

#[test]
fn trap_04b_parameters_are_told_flat_however_they_came() {
    let served = Served::new();
    let mut client = served.client();
    assert_ok(&served.create("a"));
    let nested = r#"{"M":8,"efConstruction":64}"#;
    let given = vec![pair("index_type", "HNSW"), pair("metric_type", "L2"), pair("params", nested)];
    assert_ok(&served.call(client.create_index(create("v", given))));
    let params =
        served.call(client.describe_index(describe())).index_descriptions[0].params.clone();
    for expected in [pair("M", "8"), pair("efConstruction", "64"), pair("index_type", "HNSW")] {
        assert!(params.contains(&expected), "{expected:?}");
    }
}

#[test]
fn trap_29_every_kind_of_scalar_index_is_accepted() {
    for kind in ["STL_SORT", "Trie", "TRIE", "INVERTED", "AUTOINDEX"] {
        let served = Served::new();
        assert_ok(&served.create("a"));
        let request = create("id", vec![pair("index_type", kind)]);
        assert_ok(&served.call(served.client().create_index(request)));
    }
}

#[test]
fn an_index_that_its_field_cannot_have_is_refused() {
    let served = Served::new();
    let field = |name: &str, data_type: DataType| FieldSchema {
        name: name.into(),
        data_type: data_type.into(),
        ..Default::default()
    };
    let mut schema = declared();
    schema.fields.push(field("meta", DataType::Json));
    schema.fields.push(field("s", DataType::SparseFloatVector));
    assert_ok(&served.call(served.client().create_collection(create_collection("a", &schema))));
    let of = |field: &str, given: &[(&str, &str)]| {
        let given = given.iter().map(|(key, value)| pair(key, value)).collect();
        served.call(served.client().create_index(create(field, given)))
    };
    let refused = |field: &str, given: &[(&str, &str)]| {
        let status = of(field, given);
        assert_eq!(status.code, 1100, "{}", status.reason);
        status.reason
    };
    let on_key = refused("id", &[("index_type", "BITMAP")]);
    assert_eq!(on_key, "create bitmap index on primary key not supported");
    let inverted = ("index_type", "INVERTED");
    let path = ("json_path", "meta['a']");
    assert!(refused("meta", &[inverted, path]).starts_with("json index must specify cast type"));
    let cast = [inverted, path, ("json_cast_type", "int64")];
    assert!(refused("meta", &cast).starts_with("json_cast_type int64 is not supported"));
    let other = [inverted, ("json_path", "other['a']"), ("json_cast_type", "varchar")];
    assert!(refused("meta", &other).contains("does not begin with the field `meta`"));
    assert_ok(&of("meta", &[inverted, path, ("json_cast_type", "varchar")]));
    let sparse = refused("s", &[("index_type", "SPARSE_INVERTED_INDEX"), ("metric_type", "IP")]);
    assert!(sparse.ends_with("the collection is there without that index"), "{sparse}");
}

#[test]
fn indexes_on_paths_of_json_are_named_by_their_paths() {
    let served = Served::new();
    let mut client = served.client();
    assert_ok(&served.create("a"));
    let path = |field: &str, path: &str| {
        let cast = pair("json_cast_type", "double");
        create(field, vec![pair("index_type", "INVERTED"), pair("json_path", path), cast])
    };
    for (field, given) in
        [("color", "color['a'][\"b\"]"), ("color", "color"), ("$meta", "$meta['n'][0]")]
    {
        assert_ok(&served.call(client.create_index(path(field, given))));
        assert_ok(&served.call(client.create_index(path(field, given))));
    }
    let found = served.call(client.describe_index(describe())).index_descriptions;
    let names: Vec<&str> = found.iter().map(|index| index.index_name.as_str()).collect();
    assert_eq!(names, ["$meta/color/a/b", "$meta/color", "$meta/n/0"]);
    // Clients that wait for one of several look for the field that they named.
    let fields: Vec<&str> = found.iter().map(|index| index.field_name.as_str()).collect();
    assert_eq!(fields, ["color", "color", "$meta"]);
    assert!(found.iter().all(|index| index.state() == IndexState::Finished));
    let bare = create("color", vec![pair("index_type", "INVERTED")]);
    let status = served.call(client.create_index(bare));
    assert_eq!(status.reason, "cannot create index on non-exist field: color");
}

#[test]
fn trap_05_what_is_not_loaded_has_no_progress_and_is_not_searched() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 3);
    let progress =
        || wire::GetLoadingProgressRequest { collection_name: "a".into(), ..Default::default() };
    let found = served.call(client.get_loading_progress(progress()));
    assert_eq!((found.progress, found.refresh_progress), (100, 100));
    let release =
        wire::ReleaseCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_ok(&served.call(client.release_collection(release)));
    assert_eq!(served.call(client.get_loading_progress(progress())).status.unwrap().code, 101);
    let search = wire::SearchRequest { collection_name: "a".into(), ..Default::default() };
    let status = served.call(client.search(search)).status.unwrap();
    assert_eq!((status.code, status.reason.as_str()), (101, "collection not loaded[collection=a]"));
}

#[test]
fn trap_06_a_flush_names_segments_and_is_over() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 3);
    let request = wire::FlushRequest { collection_names: vec!["a".into()], ..Default::default() };
    let flushed = served.call(client.flush(request));
    assert_ok(&flushed.status.unwrap());
    let segments = flushed.coll_seg_i_ds["a"].data.clone();
    assert_eq!(segments.len(), 1);
    let state = wire::GetFlushStateRequest {
        segment_i_ds: segments.clone(),
        flush_ts: flushed.coll_flush_ts["a"],
        collection_name: "a".into(),
        ..Default::default()
    };
    assert!(served.call(client.get_flush_state(state)).flushed);
    let info =
        wire::GetPersistentSegmentInfoRequest { collection_name: "a".into(), ..Default::default() };
    let infos = served.call(client.get_persistent_segment_info(info)).infos;
    assert_eq!(
        (infos[0].segment_id, infos[0].num_rows, infos[0].is_sorted),
        (segments[0], 3, true)
    );
    let compact =
        wire::ManualCompactionRequest { collection_name: "a".into(), ..Default::default() };
    assert!(served.call(client.manual_compaction(compact)).compaction_id > 0);
}

#[test]
fn why_an_index_failed_names_no_place_of_the_server() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 2);
    served.database.collection("default", "a").unwrap().wait_for_index("v").unwrap();
    let catalog = served.database.catalog();
    let entry = catalog.collection("default", "a").unwrap();
    let dir = served.database.path().to_str().unwrap().to_owned();
    let reason = format!("cannot rename {dir}/collections/1/index-1: no space");
    let state = State::Failed { reason };
    let (collection, index) = (entry.id, entry.indexes[0].id);
    served.database.apply(EntryChange::SetIndexState { collection, index, state }).unwrap();
    let index = wire::DescribeIndexRequest { collection_name: "a".into(), ..Default::default() };
    let told = served.call(client.describe_index(index)).index_descriptions;
    let words = "cannot rename the data directory/collections/1/index-1: no space";
    assert_eq!(told[0].index_state_fail_reason, words);
    let state = wire::GetIndexStateRequest { collection_name: "a".into(), ..Default::default() };
    assert_eq!(served.call(client.get_index_state(state)).fail_reason, words);
}
