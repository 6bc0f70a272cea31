//! Collections, databases and aliases.

use pipeann_milvus::proto::common::ErrorCode;
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::schema::field_data::Field;
use pipeann_milvus::proto::schema::{
    DataType, FieldData, FieldSchema, JsonArray, ScalarField, scalar_field,
};
use prost::Message as _;
use tonic::Request;

use crate::rows::search;
use crate::served::{
    Served, assert_ok, create, declared, describe, dynamic, insert, longs, query, vectors,
};

#[test]
fn trap_01_a_missing_collection_has_both_codes_that_clients_look_at() {
    let served = Served::new();
    let status = served.call(served.client().describe_collection(describe("x"))).status.unwrap();
    assert_eq!((status.code, status.error_code()), (100, ErrorCode::CollectionNotExists));
    assert_eq!(status.reason, "can't find collection[database=default][collection=x]");
    let dropped = wire::DropCollectionRequest { collection_name: "x".into(), ..Default::default() };
    assert_ok(&served.call(served.client().drop_collection(dropped)));
}

#[test]
fn a_number_tells_the_database_that_its_collection_is_in() {
    let served = Served::new();
    let mut client = served.client();
    let sales = wire::CreateDatabaseRequest { db_name: "sales".into(), ..Default::default() };
    assert_ok(&served.call(client.create_database(sales)));
    let mut request = create("a", &declared());
    request.db_name = "sales".into();
    assert_ok(&served.call(client.create_collection(request)));
    assert_ok(&served.create("a"));
    let id = |database: &str| {
        let catalog = served.database.catalog();
        catalog.collection(database, "a").unwrap().id.0.cast_signed()
    };
    let (sales, default) = (id("sales"), id("default"));
    for (id, database) in [(sales, "sales"), (default, "default")] {
        let by_id = wire::DescribeCollectionRequest { collection_id: id, ..Default::default() };
        assert_eq!(served.call(client.describe_collection(by_id)).db_name, database);
    }
    let several = wire::BatchDescribeCollectionRequest {
        db_name: "sales".into(),
        collection_name: vec!["a".into()],
        collection_id: vec![default],
    };
    let found = served.call(client.batch_describe_collection(several)).responses;
    let databases: Vec<_> = found.iter().map(|found| found.db_name.as_str()).collect();
    assert_eq!(databases, ["sales", "default"]);
}

#[test]
fn trap_23_a_collection_is_described_with_all_that_clients_need() {
    let served = Served::new();
    assert_ok(&served.create("a"));
    assert_ok(&served.create("b"));
    let describe = |name| served.call(served.client().describe_collection(describe(name)));
    let (a, b) = (describe("a"), describe("b"));
    assert_ne!(a.collection_id, b.collection_id);
    assert_eq!((a.num_partitions, a.shards_num), (1, 1));
    assert_eq!(a.created_timestamp >> 18, a.created_utc_timestamp);
    assert!(a.update_timestamp >= a.created_timestamp);
    let schema = a.schema.unwrap();
    let fields: Vec<_> = schema.fields.iter().map(|f| (f.field_id, f.name.as_str())).collect();
    assert_eq!(fields, [(100, "id"), (101, "v")], "the dynamic field is not shown");
    assert!(schema.enable_dynamic_field);
    let by_id =
        wire::DescribeCollectionRequest { collection_id: b.collection_id, ..Default::default() };
    let found = served.call(served.client().describe_collection(by_id));
    assert_eq!(found.collection_name, "b");
}

#[test]
fn trap_17_creating_twice_is_fine_where_it_is_the_same() {
    let served = Served::new();
    assert_ok(&served.create("a"));
    assert_ok(&served.create("a"));
    let mut other = declared();
    other.enable_dynamic_field = false;
    let status = served.call(served.client().create_collection(create("a", &other)));
    assert!(status.reason.contains("create duplicate collection with different parameters"));
    assert_ne!(status.code, 0);
}

#[test]
fn trap_17_an_alias_serves_wherever_a_name_does_but_for_dropping() {
    let served = Served::new();
    let mut client = served.client();
    served.filled("a", 3);
    let alias = wire::CreateAliasRequest {
        collection_name: "a".into(),
        alias: "other".into(),
        ..Default::default()
    };
    assert_ok(&served.call(client.create_alias(alias)));
    assert_ok(&served.call(client.insert(insert("other", 3..5))).status.unwrap());
    let described = served.call(client.describe_collection(describe("other")));
    assert_eq!(described.collection_name, "a");
    assert_eq!(described.aliases, ["other"]);
    let drop =
        wire::DropCollectionRequest { collection_name: "other".into(), ..Default::default() };
    let status = served.call(client.drop_collection(drop));
    assert!(status.reason.contains("cannot drop the collection via alias = other"));
}

#[test]
fn trap_16_the_database_is_that_of_the_request_or_of_the_metadata() {
    let served = Served::new();
    let mut client = served.client();
    let made = wire::CreateDatabaseRequest { db_name: "other".into(), ..Default::default() };
    assert_ok(&served.call(client.create_database(made)));
    let mut request = Request::new(create("a", &declared()));
    request.metadata_mut().insert("dbname", "other".parse().unwrap());
    assert_ok(&served.call(client.create_collection(request)));
    assert_eq!(served.call(client.describe_collection(describe("a"))).status.unwrap().code, 100);
    let named = wire::DescribeCollectionRequest { db_name: "other".into(), ..describe("a") };
    assert_eq!(served.call(client.describe_collection(named)).db_name, "other");
    let mut request = Request::new(describe("a"));
    request.metadata_mut().insert("dbname", "".parse().unwrap());
    assert_eq!(served.call(client.describe_collection(request)).status.unwrap().code, 100);
    let mut request = Request::new(describe("a"));
    request.metadata_mut().insert("dbname", "missing".parse().unwrap());
    let status = served.call(client.describe_collection(request)).status.unwrap();
    assert_eq!(
        (status.code, status.reason.as_str()),
        (800, "database not found[database=missing]")
    );
    let drop = wire::DropDatabaseRequest { db_name: "other".into() };
    assert!(served.call(client.drop_database(drop)).reason.contains("not empty"));
}

#[test]
fn trap_08_whoever_knows_an_old_schema_is_told_so() {
    let served = Served::new();
    let mut client = served.client();
    assert_ok(&served.create("a"));
    let known = served.call(client.describe_collection(describe("a"))).update_timestamp;
    let mut write = |known| {
        let request = wire::InsertRequest { schema_timestamp: known, ..insert("a", 0..2) };
        served.call(client.insert(request)).status.unwrap()
    };
    assert_ok(&write(known));
    assert_ok(&write(0));
    let mut other = served.client();
    let drop = wire::DropCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_ok(&served.call(other.drop_collection(drop)));
    assert_ok(&served.create("a"));
    let status = write(known);
    assert_eq!((status.code, status.error_code()), (109, ErrorCode::SchemaMismatch));
    let known = served.call(other.describe_collection(describe("a"))).update_timestamp;
    assert_ok(&write(known));
}

fn add_field(served: &Served, field: &FieldSchema) -> pipeann_milvus::proto::common::Status {
    let schema = field.encode_to_vec();
    let collection_name = "a".into();
    let add = wire::AddCollectionFieldRequest { collection_name, schema, ..Default::default() };
    served.call(served.client().add_collection_field(add))
}

fn number(name: &str) -> FieldSchema {
    let data_type = DataType::Int64.into();
    FieldSchema { name: name.into(), data_type, nullable: true, ..Default::default() }
}

#[test]
fn a_clustering_key_is_told_and_nothing_pretends_to_sort_by_it() {
    let served = Served::new();
    let mut client = served.client();
    let mut schema = declared();
    schema.fields.push(FieldSchema { is_clustering_key: true, ..number("key") });
    assert_ok(&served.call(client.create_collection(create("a", &schema))));
    let told = served.call(client.describe_collection(describe("a"))).schema.unwrap();
    let key = told.fields.into_iter().find(|field| field.name == "key").unwrap();
    assert!(key.is_clustering_key && key.type_params.is_empty(), "{key:?}");
    let compact = |major_compaction| wire::ManualCompactionRequest {
        collection_name: "a".into(),
        major_compaction,
        ..Default::default()
    };
    assert_ok(&served.call(client.manual_compaction(compact(false))).status.unwrap());
    let status = served.call(client.manual_compaction(compact(true))).status.unwrap();
    let words = "clustering compaction (is_clustering) is not supported by this server";
    assert_eq!((status.code, status.reason.as_str()), (3000, words));
    let status = add_field(&served, &FieldSchema { is_clustering_key: true, ..number("other") });
    assert!(status.reason.contains("add clustering key field"), "{}", status.reason);
}

#[test]
fn a_dynamic_key_of_the_name_of_a_field_is_not_told() {
    let served = Served::new();
    let mut client = served.client();
    assert_ok(&served.create("a"));
    served.load("a");
    let rows = dynamic("$meta", &[r#"{"kept":1.0,"price":10}"#, r#"{"price":null}"#]);
    let columns = vec![longs("id", vec![0, 1]), vectors(0..2), rows];
    let written = wire::InsertRequest { fields_data: columns, ..insert("a", 0..2) };
    assert_ok(&served.call(client.insert(written)).status.unwrap());
    assert_ok(&add_field(&served, &number("price")));
    let dynamic_keys = |fields: Vec<FieldData>| {
        let dynamic = fields.into_iter().find(|field| field.is_dynamic).unwrap();
        match dynamic.field {
            Some(Field::Scalars(ScalarField {
                data: Some(scalar_field::Data::JsonData(JsonArray { data })),
            })) => data.into_iter().map(|text| String::from_utf8(text).unwrap()).collect(),
            other => panic!("{other:?}"),
        }
    };
    let output_fields = vec!["*".to_owned()];
    let found = wire::SearchRequest { output_fields, ..search(&[0.0], &[("topk", "2")]) };
    let found = served.call(client.search(found)).results.unwrap();
    let told: Vec<String> = dynamic_keys(found.fields_data);
    assert_eq!(told, [r#"{"kept":1.0}"#, "{}"]);
    let read = served.call(client.query(query("a", "id >= 0", &["*"])));
    assert_eq!(told, dynamic_keys(read.fields_data));
}
