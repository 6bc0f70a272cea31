//! Reads that are answered by whoever is asked: how new the data has to be, and names that are new.

use std::sync::Arc;
use std::time::Duration;

use pipeann_db::catalog::{CollectionId, EntryChange};
use pipeann_milvus::proto::common::ConsistencyLevel as Level;
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::{LeaderAt, PeersError, ReadTime, ServeOptions};
use prost::Message as _;
use tonic::Code;

use super::peers::Server;
use super::raw::call;
use crate::rows::search;
use crate::served::{assert_ok, create, declared, describe, insert, query};

fn bounded(at_least: u64) -> ReadTime {
    ReadTime::Bounded { staleness_ms: 5_000, at_least }
}

fn id(server: &Server, name: &str) -> CollectionId {
    server.served.database.catalog().collection("default", name).unwrap().id
}

/// A server that does not lead and has a collection `a` with rows and `Session` as its level.
fn with_rows() -> (Server, Server) {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    let request = wire::CreateCollectionRequest {
        consistency_level: Level::Session.into(),
        ..create("a", &declared())
    };
    assert_ok(&leader.served.call(leader.served.client().create_collection(request)));
    leader.served.load("a");
    assert_ok(
        &leader.served.call(leader.served.client().insert(insert("a", 0..5))).status.unwrap(),
    );
    follower.others.asked();
    (leader, follower)
}

#[test]
fn reads_of_rows_are_as_new_as_they_ask_for() {
    let (_leader, follower) = with_rows();
    let (served, a) = (&follower.served, id(&follower, "a"));
    let levels = [
        (Level::Strong, 0, false, ReadTime::Latest),
        (Level::Session, 900, false, ReadTime::AtLeast(900)),
        (Level::Bounded, 2, false, bounded(0)),
        (Level::Eventually, 1, false, ReadTime::Any),
        (Level::Customized, 902, false, ReadTime::AtLeast(902)),
        // The level of the collection, with the client's last write.
        (Level::Strong, 904, true, ReadTime::AtLeast(904)),
        (Level::Strong, 1, true, ReadTime::Any),
    ];
    for (level, guarantee_timestamp, use_default_consistency, wanted) in levels {
        let consistency_level = level.into();
        let read = wire::QueryRequest {
            guarantee_timestamp,
            consistency_level,
            use_default_consistency,
            ..query("a", "", &["count(*)"])
        };
        assert_ok(&served.call(served.client().query(read)).status.unwrap());
        let one = wire::SearchRequest {
            guarantee_timestamp,
            consistency_level,
            use_default_consistency,
            ..search(&[1.0], &[("topk", "2")])
        };
        assert_ok(&served.call(served.client().search(one)).status.unwrap());
        let several = wire::HybridSearchRequest {
            collection_name: "a".into(),
            requests: vec![search(&[1.0], &[("topk", "2")])],
            rank_params: vec![crate::served::pair("limit", "2")],
            guarantee_timestamp,
            consistency_level,
            use_default_consistency,
            ..Default::default()
        };
        assert_ok(&served.call(served.client().hybrid_search(several)).status.unwrap());
        assert_eq!(follower.others.asked(), [(Some(a), wanted); 3], "{level:?}");
    }
}

#[test]
fn catalogues_and_counts_are_as_new_as_can_be() {
    let (_leader, follower) = with_rows();
    let (served, a) = (&follower.served, id(&follower, "a"));
    assert_ok(&served.call(served.client().describe_collection(describe("a"))).status.unwrap());
    assert_eq!(follower.others.asked(), [(None, ReadTime::Latest)]);
    let count =
        wire::GetCollectionStatisticsRequest { collection_name: "a".into(), ..Default::default() };
    let counted = served.call(served.client().get_collection_statistics(count));
    assert_eq!(counted.stats[0].value, "5");
    let latest = [(None, ReadTime::Latest), (Some(a), ReadTime::Latest)];
    assert_eq!(follower.others.asked(), latest);
    let info =
        wire::GetPersistentSegmentInfoRequest { collection_name: "a".into(), ..Default::default() };
    assert_eq!(served.call(served.client().get_persistent_segment_info(info)).infos[0].num_rows, 5);
    assert_eq!(follower.others.asked(), latest);
    served.call(served.client().get_version(wire::GetVersionRequest {}));
    assert_eq!(follower.others.asked(), []);
}

#[test]
fn a_write_names_a_timestamp_that_a_read_elsewhere_asks_for() {
    let (_leader, follower) = with_rows();
    let served = &follower.served;
    let written = served.call(served.client().insert(insert("a", 5..7))).timestamp;
    assert!(written > 1_700_000_000_000 << 18 && written.is_multiple_of(2));
    assert_eq!(follower.others.asked(), [], "it was answered elsewhere");
    let read = wire::QueryRequest {
        guarantee_timestamp: written,
        use_default_consistency: true,
        ..query("a", "id >= 0", &["id"])
    };
    served.call(served.client().query(read));
    assert_eq!(follower.others.asked(), [(Some(id(&follower, "a")), ReadTime::AtLeast(written))]);
    let deleted = wire::DeleteRequest {
        collection_name: "a".into(),
        expr: "id == 5".into(),
        ..Default::default()
    };
    assert!(served.call(served.client().delete(deleted)).timestamp > written);
}

#[test]
fn a_name_that_is_not_known_is_looked_up_once_before_it_is_refused() {
    let server = Server::new(2, LeaderAt::Unknown("nobody".to_owned()));
    let served = &server.served;
    let ask = || served.call(served.client().query(query("a", "", &["count(*)"]))).status.unwrap();
    assert_eq!(ask().code, 100);
    assert_eq!(server.others.asked(), [(None, ReadTime::Latest)]);
    // It is made elsewhere, then loaded, and each comes when it is looked for.
    let database = Arc::clone(&served.database);
    server.others.arrives(move || made(&database));
    assert_eq!(ask().code, 101, "not loaded");
    assert_eq!(server.others.asked(), [(None, ReadTime::Latest)]);
    let database = Arc::clone(&served.database);
    server.others.arrives(move || loaded(&database));
    assert_eq!(ask().code, 0);
    let a = id(&server, "a");
    assert_eq!(server.others.asked(), [(None, ReadTime::Latest), (Some(a), ReadTime::Latest)]);
    let partition = |name: &str| {
        let partition_names = vec![name.to_owned()];
        let read = wire::QueryRequest { partition_names, ..query("a", "", &["count(*)"]) };
        served.call(served.client().query(read)).status.unwrap().code
    };
    let database = Arc::clone(&served.database);
    server.others.arrives(move || partitioned(&database));
    assert_eq!((partition("p"), partition("q")), (0, 200));
}

fn made(database: &pipeann_db::database::Database) {
    use pipeann_db::catalog::NewCollection;
    use pipeann_db::schema::{FieldSpec, Schema};
    use pipeann_db::value::{DataType, ScalarType, VectorKind};
    let id = FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key();
    let v = FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(4);
    let schema = Schema::builder().field(id).field(v).build().unwrap();
    database.create_collection("default", "a", NewCollection::new(schema)).unwrap();
}

fn place() -> pipeann_db::catalog::CollectionPath {
    pipeann_db::catalog::CollectionPath::new("default", "a")
}

fn loaded(database: &pipeann_db::database::Database) {
    database.apply(EntryChange::Load { place: place(), partitions: None }).unwrap();
}

fn partitioned(database: &pipeann_db::database::Database) {
    let partition = "p".to_owned();
    database.apply(EntryChange::CreatePartition { place: place(), partition }).unwrap();
}

#[test]
fn a_read_that_cannot_be_new_enough_says_so() {
    let (_leader, follower) = with_rows();
    // Another server would be asked.
    follower.others.set_server(1, None);
    let read = query("a", "", &["count(*)"]);
    for error in [
        PeersError::NoLeader("the lease has ended".to_owned()),
        PeersError::Behind("by 7 s".to_owned()),
    ] {
        follower.others.fails(Some(error.clone()));
        let ended = call(&follower.served, "Query", &read, &[], Some(Duration::from_secs(2)));
        assert_eq!((ended.code, ended.text), (Code::Unavailable, error.to_string()));
    }
    follower.others.fails(None);
    assert_eq!(call(&follower.served, "Query", &read, &[], None).code, Code::Ok);
}

#[test]
fn who_connects_waits_for_nothing_where_the_database_is_known() {
    let (_leader, follower) = Server::pair(&ServeOptions::default());
    let connect = || {
        let named = [("dbname", "sales")];
        let ended =
            call(&follower.served, "Connect", &wire::ConnectRequest::default(), &named, None);
        let answer = wire::ConnectResponse::decode(&ended.message[..]).unwrap();
        (answer.status.unwrap().code, follower.others.asked())
    };
    let looked_up = vec![(None, ReadTime::Latest)];
    assert_eq!(connect(), (800, looked_up.clone()));
    let database = Arc::clone(&follower.served.database);
    follower.others.arrives(move || {
        let (name, properties) = ("sales".to_owned(), Default::default());
        database.apply(EntryChange::CreateDatabase { name, properties }).unwrap();
    });
    assert_eq!(connect(), (0, looked_up));
    assert_eq!(connect(), (0, vec![]));
}
