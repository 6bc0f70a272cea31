//! Traps that no other file has.

use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::schema::field_data::Field;
use pipeann_milvus::proto::schema::{
    BoolArray, DataType, FieldData, FieldSchema, PackedFloats, ScalarField, StringArray,
    VectorField, scalar_field, vector_field,
};

use crate::rows::{keys, numbers, search};
use crate::served::{
    DIM, Served, assert_ok, create, declared, dynamic, insert, longs, pair, query, vectors,
};

fn scalar(name: &str, data: scalar_field::Data, valid: &[bool]) -> FieldData {
    FieldData {
        field_name: name.into(),
        field: Some(Field::Scalars(ScalarField { data: Some(data) })),
        valid_data: valid.to_vec(),
        ..Default::default()
    }
}

fn texts(name: &str, data: &[&str], valid: &[bool]) -> FieldData {
    let data = data.iter().map(|text| (*text).to_owned()).collect();
    scalar(name, scalar_field::Data::StringData(StringArray { data }), valid)
}

/// The collection `a` with a text of at most four bytes, which may be missing, and a bool that may.
fn with_texts(served: &Served) {
    let mut schema = declared();
    let field = |name: &str, data_type: DataType| FieldSchema {
        name: name.into(),
        data_type: data_type.into(),
        nullable: true,
        ..Default::default()
    };
    let text =
        FieldSchema { type_params: vec![pair("max_length", "4")], ..field("t", DataType::VarChar) };
    schema.fields.extend([text, field("b", DataType::Bool)]);
    assert_ok(&served.call(served.client().create_collection(create("a", &schema))));
    let index = wire::CreateIndexRequest {
        collection_name: "a".into(),
        field_name: "v".into(),
        extra_params: vec![pair("metric_type", "L2")],
        ..Default::default()
    };
    assert_ok(&served.call(served.client().create_index(index)));
    load(served);
}

fn load(served: &Served) {
    let load = wire::LoadCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_ok(&served.call(served.client().load_collection(load)));
}

#[test]
fn trap_13_marks_come_with_values_for_all_rows_or_for_those_that_have_one() {
    let served = Served::new();
    with_texts(&served);
    let write = |first: i64, column: FieldData| {
        let request = wire::InsertRequest {
            fields_data: vec![
                longs("id", (first..first + 3).collect()),
                vectors(first..first + 3),
                column,
            ],
            ..insert("a", first..first + 3)
        };
        assert_ok(&served.call(served.client().insert(request)).status.unwrap());
    };
    let valid = [false, true, true];
    write(0, texts("t", &["x", "y"], &valid));
    write(3, texts("t", &["", "x", "y"], &valid));
    write(
        6,
        scalar(
            "b",
            scalar_field::Data::BoolData(BoolArray { data: vec![true] }),
            &[true, false, false],
        ),
    );
    let found = served.call(served.client().query(query("a", "id >= 0", &["t", "b"])));
    let column = |name: &str| found.fields_data.iter().find(|f| f.field_name == name).unwrap();
    let marks = [false, true, true, false, true, true, false, false, false];
    assert_eq!(column("t").valid_data, marks);
    let Some(Field::Scalars(ScalarField { data: Some(scalar_field::Data::StringData(all)) })) =
        &column("t").field
    else {
        panic!("texts")
    };
    assert_eq!(all.data, ["", "x", "y", "", "x", "y", "", "", ""], "one for each row");
    assert_eq!(column("b").valid_data.iter().filter(|valid| **valid).count(), 1);
}

#[test]
fn trap_14_texts_are_measured_in_bytes_json_stays_as_it_is_and_no_number_is_infinite() {
    let served = Served::new();
    with_texts(&served);
    let write = |columns: Vec<FieldData>| {
        let request = wire::InsertRequest { fields_data: columns, ..insert("a", 0..1) };
        served.call(served.client().insert(request)).status.unwrap()
    };
    let row = |more: FieldData| vec![longs("id", vec![1]), vectors(1..2), more];
    assert_ok(&write(row(texts("t", &["äö"], &[]))));
    assert_eq!(write(row(texts("t", &["äöu"], &[]))).code, 1100, "five bytes");
    let json = r#"{"z":1,"a":1.0,"m":[true,null]}"#;
    assert_ok(&write(vec![longs("id", vec![2]), vectors(2..3), dynamic("$meta", &[json])]));
    let found = served.call(served.client().query(query("a", "id == 2", &["$meta"])));
    let meta = found.fields_data.iter().find(|field| field.is_dynamic).unwrap();
    let Some(Field::Scalars(ScalarField { data: Some(scalar_field::Data::JsonData(all)) })) =
        &meta.field
    else {
        panic!("JSON")
    };
    assert_eq!(all.data, [json.as_bytes().to_vec()]);
    for number in [f32::NAN, f32::INFINITY] {
        let data = [number; DIM].iter().flat_map(|n| n.to_le_bytes()).collect();
        let data = Some(vector_field::Data::FloatVector(PackedFloats { data }));
        let vector = FieldData {
            field_name: "v".into(),
            field: Some(Field::Vectors(VectorField { dim: DIM as i64, data })),
            ..Default::default()
        };
        assert_eq!(write(vec![longs("id", vec![3]), vector]).code, 1100, "{number}");
    }
}

#[test]
fn trap_17_what_is_loaded_is_not_dropped() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 3);
    let partition = wire::CreatePartitionRequest {
        collection_name: "a".into(),
        partition_name: "p".into(),
        ..Default::default()
    };
    assert_ok(&served.call(client.create_partition(partition)));
    let mut drop = |name: &str| {
        let request = wire::DropPartitionRequest {
            collection_name: "a".into(),
            partition_name: name.into(),
            ..Default::default()
        };
        served.call(client.drop_partition(request))
    };
    assert!(drop("p").reason.contains("partition cannot be dropped, partition is loaded"));
    assert_ne!(drop("_default").code, 0);
    let index = || wire::DropIndexRequest {
        collection_name: "a".into(),
        index_name: "v".into(),
        ..Default::default()
    };
    let mut client = served.client();
    let status = served.call(client.drop_index(index()));
    assert!(status.reason.contains("vector index cannot be dropped on loaded collection"));
    let release =
        wire::ReleaseCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_ok(&served.call(client.release_collection(release)));
    assert_ok(&served.call(client.drop_index(index())));
}

#[test]
fn trap_18_unknown_parameters_are_ignored_and_wrong_ones_refused() {
    let served = Served::new();
    served.filled("a", 5);
    let ask = |params: &str| {
        let request = search(&[1.0], &[("topk", "3"), ("level", "9"), ("params", params)]);
        served.call(served.client().search(request))
    };
    let found = ask(r#"{"ef":10,"page_retain_order":true,"whatever":[1]}"#);
    assert_eq!(numbers(found.results.unwrap().ids), [1, 0, 2]);
    let status = ask(r#"{"ef":1}"#).status.unwrap();
    assert_eq!((status.code, status.reason.as_str()), (1100, "ef(1) should be larger than k(3)"));
    assert_eq!(ask(r#"{"ef":"many"}"#).status.unwrap().code, 1100);
}

#[test]
fn trap_25_rows_that_came_before_loading_are_found_after_it() {
    let served = Served::new();
    assert_ok(&served.create("a"));
    assert_ok(&served.call(served.client().insert(insert("a", 0..3))).status.unwrap());
    let index = wire::CreateIndexRequest {
        collection_name: "a".into(),
        field_name: "v".into(),
        extra_params: vec![pair("metric_type", "L2")],
        ..Default::default()
    };
    assert_ok(&served.call(served.client().create_index(index)));
    load(&served);
    let found = served.call(served.client().search(search(&[1.0], &[("topk", "3")])));
    assert_eq!(numbers(found.results.unwrap().ids), [1, 0, 2]);
    let found = served.call(served.client().query(query("a", "id >= 0", &[])));
    assert_eq!(keys(&found.fields_data), [0, 1, 2]);
}

#[test]
fn trap_26_a_benchmark_sees_segments_indexes_and_compactions_come_to_their_end() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 5);
    served.database.collection("default", "a").unwrap().wait_for_index("v").unwrap();
    let flush = wire::FlushRequest { collection_names: vec!["a".into()], ..Default::default() };
    assert_ok(&served.call(client.flush(flush)).status.unwrap());
    let info =
        wire::GetPersistentSegmentInfoRequest { collection_name: "a".into(), ..Default::default() };
    let infos = served.call(client.get_persistent_segment_info(info)).infos;
    assert!(!infos.is_empty() && infos.iter().all(|info| info.is_sorted));
    let index = wire::DescribeIndexRequest { collection_name: "a".into(), ..Default::default() };
    let found = served.call(client.describe_index(index)).index_descriptions;
    assert!(found.iter().all(|index| index.pending_index_rows == 0));
    let compact = wire::ManualCompactionRequest {
        collection_name: "a".into(),
        target_size: 1 << 30,
        ..Default::default()
    };
    let compaction_id = served.call(client.manual_compaction(compact)).compaction_id;
    assert!(compaction_id > 0);
    let state = wire::GetCompactionStateRequest { compaction_id };
    let state = served.call(client.get_compaction_state(state)).state();
    assert_eq!(state, pipeann_milvus::proto::common::CompactionState::Completed);
    // A benchmark asks for plans that cover all segments of a lower level than this one.
    let plans = wire::GetCompactionPlansRequest { compaction_id };
    let plans = served.call(client.get_compaction_state_with_plans(plans)).merge_infos;
    let covered: Vec<i64> = plans.into_iter().flat_map(|plan| plan.sources).collect();
    let is_done = |info: &wire::PersistentSegmentInfo| {
        use pipeann_milvus::proto::common::SegmentLevel;
        info.level() == SegmentLevel::L2 || covered.contains(&info.segment_id)
    };
    assert!(infos.iter().all(is_done), "{infos:?}");
}

#[test]
fn trap_27_nothing_is_being_refreshed() {
    let served = Served::new();
    served.filled("a", 1);
    let load = wire::LoadCollectionRequest {
        collection_name: "a".into(),
        refresh: true,
        ..Default::default()
    };
    assert_ok(&served.call(served.client().load_collection(load)));
    let progress =
        wire::GetLoadingProgressRequest { collection_name: "a".into(), ..Default::default() };
    assert_eq!(served.call(served.client().get_loading_progress(progress)).refresh_progress, 100);
}
