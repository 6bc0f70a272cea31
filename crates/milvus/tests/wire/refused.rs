//! Refusals that suites of Milvus ask for by their words, and calls that have to be fine although
//! there is nothing to do.

use pipeann_milvus::proto::common::Status;
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::schema::value_field::Data;
use pipeann_milvus::proto::schema::{CollectionSchema, DataType, FieldSchema, ValueField};

use crate::rows::{keys, numbers, search};
use crate::served::{Served, assert_ok, create, declared, insert, longs, pair, query, vectors};

/// What was said of a call that is refused.
fn reason(status: &Status) -> &str {
    assert_ne!(status.code, 0, "it was taken");
    &status.reason
}

fn alias(alias: &str, collection: &str) -> wire::CreateAliasRequest {
    wire::CreateAliasRequest {
        alias: alias.into(),
        collection_name: collection.into(),
        ..Default::default()
    }
}

#[test]
fn a_name_that_is_none_is_told_from_one_that_nothing_has() {
    let served = Served::new();
    let mut client = served.client();
    let list = |name: &str| wire::ShowPartitionsRequest {
        collection_name: name.into(),
        ..Default::default()
    };
    let status = served.call(client.show_partitions(list("12-s"))).status.unwrap();
    assert!(reason(&status).starts_with("Invalid collection name: 12-s. the first character of"));
    assert_eq!(status.code, 1100);
    let status = served.call(client.show_partitions(list("nope"))).status.unwrap();
    assert_eq!(reason(&status), "collection not found[database=default][collection=nope]");
    let drop = wire::DropCollectionRequest { collection_name: "%$#".into(), ..Default::default() };
    assert!(reason(&served.call(client.drop_collection(drop))).contains("Invalid collection name"));
}

#[test]
fn an_alias_is_no_name_of_a_collection_and_has_one_collection() {
    let served = Served::new();
    let mut client = served.client();
    assert_ok(&served.create("a"));
    assert_ok(&served.create("b"));
    let status = served.call(client.create_alias(alias("a", "b")));
    let conflict = "alias and collection name conflict[database=default][alias=a]";
    assert_eq!((status.code, reason(&status)), (1601, conflict));
    assert_ok(&served.call(client.create_alias(alias("other", "a"))));
    assert_ok(&served.call(client.create_alias(alias("other", "a"))));
    let status = served.call(client.create_alias(alias("other", "b")));
    assert_eq!(status.code, 1602);
    assert!(reason(&status).starts_with("other is alias to another collection: a: alias already"));
    let alter = wire::AlterAliasRequest {
        alias: "12 s".into(),
        collection_name: "a".into(),
        ..Default::default()
    };
    let status = served.call(client.alter_alias(alter));
    assert!(reason(&status).starts_with("Invalid collection alias: 12 s."));
}

#[test]
fn an_alias_that_is_not_there_is_not_found_whether_it_ever_was() {
    let served = Served::new();
    let mut client = served.client();
    assert_ok(&served.create("a"));
    let described = |name: &str| {
        let request = wire::DescribeAliasRequest { alias: name.into(), ..Default::default() };
        served.call(served.client().describe_alias(request)).status.unwrap()
    };
    let status = described("nobody");
    let none = "alias not found[database=default][alias=nobody]";
    assert_eq!((status.code, reason(&status)), (1600, none));
    let alter = wire::AlterAliasRequest {
        alias: "nobody".into(),
        collection_name: "a".into(),
        ..Default::default()
    };
    let status = served.call(client.alter_alias(alter));
    assert_eq!((status.code, reason(&status)), (1600, none));
    assert_ok(&served.call(client.create_alias(alias("other", "a"))));
    assert_ok(&described("other"));
    let drop = wire::DropAliasRequest { alias: "other".into(), ..Default::default() };
    assert_ok(&served.call(client.drop_alias(drop)));
    let status = described("other");
    let gone = "alias not found[database=default][alias=other]";
    assert_eq!((status.code, reason(&status)), (1600, gone));
    // As a name of a collection it is none either.
    let status = served.call(client.create_alias(alias("third", "other")));
    let words = "collection not found[database=default][collection=other]";
    assert_eq!((status.code, reason(&status)), (100, words));
}

#[test]
fn a_partition_that_was_dropped_is_not_found_like_one_that_never_was() {
    let served = Served::new();
    let mut client = served.client();
    assert_ok(&served.create("a"));
    let create = wire::CreatePartitionRequest {
        collection_name: "a".into(),
        partition_name: "p".into(),
        ..Default::default()
    };
    assert_ok(&served.call(client.create_partition(create)));
    let into = || wire::InsertRequest { partition_name: "p".into(), ..insert("a", 0..3) };
    assert_ok(&served.call(client.insert(into())).status.unwrap());
    let drop = wire::DropPartitionRequest {
        collection_name: "a".into(),
        partition_name: "p".into(),
        ..Default::default()
    };
    assert_ok(&served.call(client.drop_partition(drop)));
    served.load("a");
    let query = wire::QueryRequest {
        collection_name: "a".into(),
        expr: "id >= 0".into(),
        partition_names: vec!["p".into()],
        ..Default::default()
    };
    let status = served.call(client.query(query)).status.unwrap();
    let words = "partition name p not found: partition not found[partition=p]";
    assert_eq!((status.code, reason(&status)), (200, words));
    let status = served.call(client.insert(into())).status.unwrap();
    assert_eq!((status.code, reason(&status)), (200, "partition not found[partition=p]"));
    let load = wire::LoadPartitionsRequest {
        collection_name: "a".into(),
        partition_names: vec!["p".into()],
        ..Default::default()
    };
    let status = served.call(client.load_partitions(load));
    assert_eq!((status.code, reason(&status)), (200, "partition not found[partition=p]"));
}

#[test]
fn a_partition_can_be_named_by_a_date() {
    let served = Served::new();
    let mut client = served.client();
    assert_ok(&served.create("a"));
    let create = |name: &str| wire::CreatePartitionRequest {
        collection_name: "a".into(),
        partition_name: name.into(),
        ..Default::default()
    };
    assert_ok(&served.call(client.create_partition(create("2024-01-31"))));
    let to = |name: &str| wire::InsertRequest { partition_name: name.into(), ..insert("a", 0..3) };
    assert_ok(&served.call(client.insert(to("2024-01-31"))).status.unwrap());
    let status = served.call(client.create_partition(create("12 s")));
    assert!(reason(&status).starts_with("Invalid partition name: 12 s."));
    let status = served.call(client.insert(to(" "))).status.unwrap();
    assert!(reason(&status).contains("Partition name should not be empty."));
}

#[test]
fn loading_and_releasing_no_partition_is_refused() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 1);
    let none = "invalid parameter[expected=any partition][actual=empty partition list]";
    let load = wire::LoadPartitionsRequest { collection_name: "a".into(), ..Default::default() };
    assert_eq!(reason(&served.call(client.load_partitions(load))), none);
    let release =
        wire::ReleasePartitionsRequest { collection_name: "a".into(), ..Default::default() };
    assert_eq!(reason(&served.call(client.release_partitions(release))), none);
}

#[test]
fn databases_are_made_once_dropped_as_often_as_one_likes_and_changed_in_something() {
    let served = Served::new();
    let mut client = served.client();
    let create =
        |name: &str| wire::CreateDatabaseRequest { db_name: name.into(), ..Default::default() };
    assert_ok(&served.call(client.create_database(create("d"))));
    let status = served.call(client.create_database(create("d")));
    assert_eq!(reason(&status), "database already exist: d");
    let status = served.call(client.create_database(create("12-s")));
    assert_eq!(status.code, 802);
    let alter = wire::AlterDatabaseRequest { db_name: "d".into(), ..Default::default() };
    let status = served.call(client.alter_database(alter));
    assert!(reason(&status).starts_with("alter database with empty properties and delete keys"));
    let drop = wire::DropDatabaseRequest { db_name: "d".into() };
    assert_ok(&served.call(client.drop_database(drop.clone())));
    assert_ok(&served.call(client.drop_database(drop)));
}

#[test]
fn a_collection_keeps_its_name_its_dynamic_field_and_the_kind_of_its_index() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 1);
    let rename = wire::RenameCollectionRequest {
        old_name: "a".into(),
        new_name: "a".into(),
        ..Default::default()
    };
    let status = served.call(client.rename_collection(rename));
    assert!(reason(&status).starts_with("duplicated new collection name default:a with other"));
    let alter = wire::AlterCollectionRequest {
        collection_name: "a".into(),
        delete_keys: vec!["dynamicfield.enabled".into()],
        ..Default::default()
    };
    let status = served.call(client.alter_collection(alter));
    assert_eq!(reason(&status), "cannot delete key dynamicfield.enabled");
    let alter = wire::AlterIndexRequest {
        collection_name: "a".into(),
        index_name: "v".into(),
        extra_params: vec![pair("index_type", "FLAT")],
        ..Default::default()
    };
    let status = served.call(client.alter_index(alter));
    assert_eq!(reason(&status), "index_type is not a configable index property");
}

#[test]
fn a_read_names_the_partition_that_is_not_there() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 3);
    let query = wire::QueryRequest {
        collection_name: "a".into(),
        expr: "id >= 0".into(),
        partition_names: vec!["nope".into()],
        ..Default::default()
    };
    let status = served.call(client.query(query)).status.unwrap();
    assert_eq!(status.code, 200);
    let words = "partition name nope not found: partition not found[partition=nope]";
    assert_eq!(reason(&status), words);
}

#[test]
fn what_of_a_field_cannot_be_changed_is_said_in_known_words() {
    let served = Served::new();
    let mut client = served.client();
    assert_ok(&served.create("a"));
    let mut alter = |field: &str, name: &str, value: &str| {
        let request = wire::AlterCollectionFieldRequest {
            collection_name: "a".into(),
            field_name: field.into(),
            properties: vec![pair(name, value)],
            ..Default::default()
        };
        served.call(client.alter_collection_field(request))
    };
    assert_ok(&alter("v", "mmap.enabled", "true"));
    assert_ok(&alter("v", "field.description", "of rows"));
    let status = alter("v", "max_length", "8");
    assert_eq!(status.code, 1100);
    assert!(reason(&status).starts_with("can not modify the maxlength for non-string types"));
    let status = alter("v", "element_type", "5");
    assert_eq!(status.code, 1100);
    let words = "element_type does not allow update in collection field param: invalid parameter";
    assert_eq!(reason(&status), words);
    let status = alter("nope", "max_length", "8");
    assert_eq!((status.code, reason(&status)), (1700, "field not found[field=nope]"));
}

#[test]
fn fields_that_cannot_be_are_refused_in_known_words() {
    let served = Served::new();
    let with = |change: &dyn Fn(&mut CollectionSchema)| {
        let mut schema = declared();
        change(&mut schema);
        let status = served.call(served.client().create_collection(create("c", &schema)));
        assert_eq!(status.code, 1100, "{}", status.reason);
        status.reason
    };
    let null = with(&|schema| schema.fields[0].nullable = true);
    assert_eq!(null, "primary field not support null: invalid parameter");
    let number = |data_type: DataType, data| FieldSchema {
        name: "n".into(),
        data_type: data_type.into(),
        default_value: Some(ValueField { data: Some(data) }),
        ..Default::default()
    };
    let default = |field: FieldSchema| with(&|schema| schema.fields.push(field.clone()));
    assert_eq!(
        default(number(DataType::Int32, Data::LongData(3))),
        "type (Int32) of field (n) is not equal to the type(DataType_Int64) of default_value: invalid parameter"
    );
    assert_eq!(
        default(number(DataType::Int8, Data::IntData(128))),
        "default value out of range: invalid parameter[128 out of range -128 <= value <= 127]"
    );
    assert!(
        default(number(DataType::Bool, Data::StringData("yes".into())))
            .starts_with("type (Bool) of field (n) is not equal to the type(DataType_VarChar)")
    );
}

#[test]
fn an_index_type_of_other_fields_is_told_from_one_that_is_none() {
    let served = Served::new();
    assert_ok(&served.create("a"));
    let index = |kind: &str| {
        let request = wire::CreateIndexRequest {
            collection_name: "a".into(),
            field_name: "v".into(),
            extra_params: vec![pair("index_type", kind), pair("metric_type", "L2")],
            ..Default::default()
        };
        let status = served.call(served.client().create_index(request));
        assert_eq!(status.code, 1100, "{}", status.reason);
        status.reason
    };
    let known = "data type FloatVector can't build with this index BIN_IVF_FLAT: invalid parameter";
    assert!(index("BIN_IVF_FLAT").starts_with(known), "{}", index("BIN_IVF_FLAT"));
    assert!(index("NOTHING").starts_with("invalid index type: NOTHING"), "{}", index("NOTHING"));
}

#[test]
fn a_key_that_is_assigned_cannot_be_given() {
    let served = Served::new();
    let mut schema = declared();
    schema.fields[0].auto_id = true;
    assert_ok(&served.call(served.client().create_collection(create("a", &schema))));
    let status = served.call(served.client().insert(insert("a", 0..2))).status.unwrap();
    assert_eq!(status.code, 1100);
    assert!(reason(&status).starts_with("more fieldData has pass in"), "{}", status.reason);
    assert!(status.reason.contains("allow_insert_auto_id"), "{}", status.reason);
}

#[test]
fn a_key_that_is_assigned_can_be_given_where_the_collection_says_so() {
    let served = Served::new();
    let mut client = served.client();
    let mut schema = declared();
    schema.fields[0].auto_id = true;
    let properties = vec![pair("allow_insert_auto_id", "true")];
    let declared = wire::CreateCollectionRequest { properties, ..create("a", &schema) };
    assert_ok(&served.call(client.create_collection(declared)));
    served.load("a");
    let mut written = |request: wire::InsertRequest| {
        let written = served.call(client.insert(request));
        assert_ok(&written.status.unwrap());
        assert_eq!(written.upsert_cnt, 0);
        numbers(written.i_ds)
    };
    assert_eq!(written(insert("a", 5..7)), [5, 6]);
    let assigned = wire::InsertRequest { fields_data: vec![vectors(0..6)], ..insert("a", 0..6) };
    let mut all = written(assigned.clone());
    assert!(!all.contains(&5) && !all.contains(&6), "{all:?}");
    assert_eq!(written(insert("a", 5..6)), [5], "in the place of the row that had it");
    all.extend(written(assigned));
    all.extend([5, 6]);
    all.sort_unstable();
    let found = keys(&served.call(served.client().query(query("a", "id >= 0", &[]))).fields_data);
    assert_eq!(found, all);
    let gone = wire::AlterCollectionRequest {
        collection_name: "a".into(),
        delete_keys: vec!["allow_insert_auto_id".into()],
        ..Default::default()
    };
    assert_ok(&served.call(served.client().alter_collection(gone)));
    let status = served.call(served.client().insert(insert("a", 90..91))).status.unwrap();
    assert!(reason(&status).starts_with("more fieldData has pass in"), "{}", status.reason);
}

#[test]
fn partitions_of_a_partition_key_are_not_named() {
    let served = Served::new();
    let mut client = served.client();
    let mut schema = declared();
    let tenant = FieldSchema { name: "t".into(), is_partition_key: true, ..Default::default() };
    schema.fields.push(FieldSchema { data_type: DataType::Int64.into(), ..tenant });
    assert_ok(&served.call(client.create_collection(create("a", &schema))));
    served.load("a");
    let columns = vec![longs("id", (0..9).collect()), vectors(0..9), longs("t", (0..9).collect())];
    let written = wire::InsertRequest { fields_data: columns, ..insert("a", 0..9) };
    assert_ok(&served.call(client.insert(written)).status.unwrap());
    let partition_names = vec!["_default_0".to_owned()];
    let one = || wire::SearchRequest {
        partition_names: partition_names.clone(),
        ..search(&[0.0], &[("topk", "9")])
    };
    let hybrid = wire::HybridSearchRequest {
        collection_name: "a".into(),
        requests: vec![search(&[0.0], &[("topk", "9")])],
        rank_params: vec![pair("limit", "9")],
        partition_names: partition_names.clone(),
        ..Default::default()
    };
    let all = || query("a", "id >= 0", &[]);
    let some = wire::QueryRequest { partition_names: partition_names.clone(), ..all() };
    let delete = wire::DeleteRequest {
        collection_name: "a".into(),
        partition_name: "_default_0".into(),
        expr: "id >= 0".into(),
        ..Default::default()
    };
    let named = "not support manually specifying the partition names if partition key mode is used";
    for status in [
        served.call(client.search(one())).status.unwrap(),
        served.call(client.hybrid_search(hybrid)).status.unwrap(),
        served.call(client.query(some)).status.unwrap(),
        served.call(client.delete(delete)).status.unwrap(),
    ] {
        assert!(reason(&status).starts_with(named), "{}", status.reason);
        assert_eq!(status.code, 1100);
    }
    let load = wire::LoadPartitionsRequest {
        collection_name: "a".into(),
        partition_names: partition_names.clone(),
        ..Default::default()
    };
    let status = served.call(client.load_partitions(load));
    assert!(reason(&status).starts_with("disable load partitions if partition key mode is used"));
    let release = wire::ReleasePartitionsRequest {
        collection_name: "a".into(),
        partition_names,
        ..Default::default()
    };
    let status = served.call(client.release_partitions(release));
    assert!(reason(&status).starts_with("disable release partitions if partition key mode"));
    assert_eq!(keys(&served.call(client.query(all())).fields_data), (0..9).collect::<Vec<_>>());
}
