//! Collections that are loaded by being read, and those that are not.

use pipeann_milvus::ServeOptions;
use pipeann_milvus::proto::common::Status;
use pipeann_milvus::proto::milvus as wire;

use crate::rows::search;
use crate::served::{Served, assert_ok, describe, insert, pair, query};

const NOT_LOADED: i32 = 101;

fn serving(auto_load: bool) -> Served {
    let served = Served::with(ServeOptions { auto_load, ..ServeOptions::default() });
    assert_ok(&served.create("a"));
    let index = wire::CreateIndexRequest {
        collection_name: "a".into(),
        field_name: "v".into(),
        extra_params: vec![pair("metric_type", "L2")],
        ..Default::default()
    };
    assert_ok(&served.call(served.client().create_index(index)));
    assert_ok(&served.call(served.client().insert(insert("a", 0..3))).status.unwrap());
    served
}

/// How a search, a query and a hybrid search end.
fn read(served: &Served) -> [Status; 3] {
    let mut client = served.client();
    let of_search = served.call(client.search(search(&[1.0], &[("topk", "2")])));
    let of_query = served.call(client.query(query("a", "id >= 0", &["id"])));
    let hybrid = wire::HybridSearchRequest {
        collection_name: "a".into(),
        requests: vec![search(&[1.0], &[("topk", "2")])],
        rank_params: vec![pair("strategy", "rrf"), pair("limit", "2")],
        ..Default::default()
    };
    let of_hybrid = served.call(client.hybrid_search(hybrid));
    if let Some(found) = &of_search.results.as_ref().filter(|found| !found.topks.is_empty()) {
        assert_eq!(found.topks, [2]);
    }
    [of_search.status.unwrap(), of_query.status.unwrap(), of_hybrid.status.unwrap()]
}

fn release(served: &Served) {
    let request =
        wire::ReleaseCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_ok(&served.call(served.client().release_collection(request)));
}

fn load(served: &Served) {
    let request = wire::LoadCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_ok(&served.call(served.client().load_collection(request)));
}

#[test]
fn what_is_read_is_loaded_only_where_it_was_asked_for() {
    let served = serving(false);
    assert!(read(&served).iter().all(|status| status.code == NOT_LOADED));
    let served = serving(true);
    read(&served).iter().for_each(assert_ok);
    let state = wire::GetLoadStateRequest { collection_name: "a".into(), ..Default::default() };
    let state = served.call(served.client().get_load_state(state)).state();
    assert_eq!(state, pipeann_milvus::proto::common::LoadState::Loaded);
}

#[test]
fn what_was_released_is_not_loaded_until_it_is_asked_for() {
    let served = serving(true);
    read(&served).iter().for_each(assert_ok);
    release(&served);
    assert!(read(&served).iter().all(|status| status.code == NOT_LOADED));
    let described = served.call(served.client().describe_collection(describe("a")));
    assert!(described.properties.is_empty(), "what tells it is nobody's business");
    load(&served);
    read(&served).iter().for_each(assert_ok);
}

#[test]
fn what_was_released_is_created_again_as_it_is() {
    let served = serving(true);
    release(&served);
    assert_ok(&served.create("a"));
    assert!(read(&served).iter().all(|status| status.code == NOT_LOADED), "it stays released");
    load(&served);
    assert_ok(&served.create("a"));
}

#[test]
fn a_partition_is_loaded_beside_others() {
    let served = serving(true);
    let mut client = served.client();
    let create = wire::CreatePartitionRequest {
        collection_name: "a".into(),
        partition_name: "p".into(),
        ..Default::default()
    };
    assert_ok(&served.call(client.create_partition(create)));
    let load = wire::LoadPartitionsRequest {
        collection_name: "a".into(),
        partition_names: vec!["_default".into()],
        ..Default::default()
    };
    assert_ok(&served.call(client.load_partitions(load)));
    let of = |name: &str| wire::QueryRequest {
        partition_names: vec![name.into()],
        ..query("a", "id >= 0", &["id"])
    };
    assert_ok(&served.call(client.query(of("p"))).status.unwrap());
    let missing = served.call(client.query(of("q"))).status.unwrap();
    assert_eq!(missing.code, 200, "{}", missing.reason);
}
