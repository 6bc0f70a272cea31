//! Connecting, and staying connected.

use std::time::Duration;

use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::milvus::milvus_service_client::MilvusServiceClient;
use pipeann_milvus::{FrontendSettings, ServeError, ServeOptions, listen};
use tonic::transport::Channel;

use crate::served::{Served, assert_ok, create, declared, insert};

#[test]
fn trap_02_every_client_gets_another_number_and_a_version_that_it_can_read() {
    let served = Served::new();
    let connect = || served.call(served.client().connect(wire::ConnectRequest::default()));
    let (first, second) = (connect(), connect());
    assert_ok(&first.status.unwrap());
    assert_ne!(first.identifier, second.identifier);
    let version = first.server_info.unwrap().build_tags;
    let numbers: Vec<&str> = version.strip_prefix('v').unwrap().split('.').collect();
    assert!(numbers.len() == 3 && numbers.iter().all(|n| n.parse::<u32>().is_ok()), "{version}");
    let again = served.call(served.client().get_version(wire::GetVersionRequest::default()));
    assert_eq!(again.version, version);
    let health = served.call(served.client().check_health(wire::CheckHealthRequest::default()));
    assert!(health.is_healthy);
}

#[test]
fn who_connects_to_a_database_that_is_not_there_is_told() {
    let served = Served::new();
    let connect = |database: &str| {
        let mut request = tonic::Request::new(wire::ConnectRequest::default());
        request.metadata_mut().insert("dbname", database.parse().unwrap());
        served.call(served.client().connect(request)).status.unwrap()
    };
    assert_ok(&connect(""));
    assert_ok(&connect("default"));
    let refused = connect("sales");
    assert_eq!(refused.code, 800, "{}", refused.reason);
    assert!(refused.reason.contains("database not found[database=sales]"), "{}", refused.reason);
    let sales = wire::CreateDatabaseRequest { db_name: "sales".into(), ..Default::default() };
    assert_ok(&served.call(served.client().create_database(sales)));
    assert_ok(&connect("sales"));
}

#[test]
fn trap_03_timestamps_are_hybrid_and_grow() {
    let served = Served::new();
    let mut client = served.client();
    let mut last = 0;
    for _ in 0..5 {
        let request = wire::AllocTimestampRequest::default();
        let timestamp = served.call(client.alloc_timestamp(request)).timestamp;
        assert!(timestamp > last);
        assert!((1_700_000_000_000..1_700_001_000_000).contains(&(timestamp >> 18)));
        last = timestamp;
    }
}

/// A client that asks all the time whether the server is there.
fn pinging(served: &Served) -> MilvusServiceClient<Channel> {
    let endpoint = served
        .endpoint()
        .http2_keep_alive_interval(Duration::from_millis(2))
        .keep_alive_while_idle(true);
    MilvusServiceClient::new(served.runtime.block_on(endpoint.connect()).unwrap())
}

#[test]
fn trap_28_a_long_call_ends_though_its_client_pings_meanwhile() {
    let served = Served::new();
    assert_ok(&served.create("a"));
    let mut client = pinging(&served);
    let rows = 100_000;
    let inserted = served.call(client.insert(insert("a", 0..rows)));
    assert_ok(&inserted.status.unwrap());
    assert_eq!(inserted.insert_cnt, rows);
    // Whoever repeats a call, having lost its answer, is not told that it failed.
    assert_ok(&served.call(client.create_collection(create("a", &declared()))));
}

#[test]
fn trap_24_a_client_that_pings_all_the_time_stays_connected() {
    let served = Served::new();
    let mut client = pinging(&served);
    for _ in 0..5 {
        served.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(60)).await });
        let version = served.call(client.get_version(wire::GetVersionRequest::default()));
        assert_ok(&version.status.unwrap());
    }
}

#[test]
fn trap_22_what_clients_ask_after_each_test_is_answered() {
    let served = Served::new();
    let mut client = served.client();
    let groups = wire::ListResourceGroupsRequest::default();
    let groups = served.call(client.list_resource_groups(groups)).resource_groups;
    assert_eq!(groups, ["__default_resource_group"]);
    let roles = served.call(client.select_role(wire::SelectRoleRequest::default()));
    assert!(!roles.results.is_empty());
    let users = served.call(client.list_cred_users(wire::ListCredUsersRequest::default()));
    assert_eq!(users.usernames, ["root"]);
    let databases = served.call(client.list_databases(wire::ListDatabasesRequest::default()));
    assert_eq!(databases.db_names, ["default"]);
    let aliases = served.call(client.list_aliases(wire::ListAliasesRequest::default()));
    assert!(aliases.aliases.is_empty());
    let shown = served.call(client.show_collections(wire::ShowCollectionsRequest::default()));
    assert!(shown.collection_names.is_empty());
}

#[test]
fn a_port_in_use_is_named() {
    let served = Served::new();
    let port = served.listening.address().port();
    let settings = FrontendSettings {
        database: std::sync::Arc::clone(&served.database),
        now: std::sync::Arc::new(|| pipeann_db::catalog::UnixMs(0)),
    };
    let options = ServeOptions { host: "127.0.0.1".into(), port, ..ServeOptions::default() };
    let error = listen(settings, &options).unwrap_err();
    assert!(matches!(error, ServeError::Address { .. }));
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
}

#[test]
fn a_server_that_ends_takes_no_more_calls() {
    let served = Served::new();
    let endpoint = served.endpoint();
    let mut client = served.client();
    served.call(client.get_version(wire::GetVersionRequest::default()));
    served.listening.stop();
    assert!(served.runtime.block_on(endpoint.connect()).is_err());
}

#[test]
fn only_those_who_know_the_token_are_answered() {
    let served = Served::guarded(Some("root:secret"));
    let ask = |token: Option<&str>| {
        let mut request = tonic::Request::new(wire::GetVersionRequest::default());
        if let Some(token) = token {
            request.metadata_mut().insert("authorization", token.parse().unwrap());
        }
        served.runtime.block_on(served.client().get_version(request))
    };
    // Base64 of `root:secret`, of `root:Secret`, and something that is none.
    assert!(ask(Some("cm9vdDpzZWNyZXQ=")).is_ok());
    for (token, message) in [
        (None, "missing authorization in header"),
        (Some("cm9vdDpTZWNyZXQ="), "auth check failure"),
        (Some("cm9vdDpzZWNyZXQ"), "auth check failure"),
        (Some("root:secret"), "auth check failure"),
    ] {
        let refused = ask(token).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{token:?}");
        assert!(refused.message().contains(message), "{token:?}: {}", refused.message());
    }
}
