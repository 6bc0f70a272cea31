//! What the role `public` has at first, and what nobody is told without it: which names others have.

use std::fmt::Debug;
use std::future::Future;

use pipeann_db::access::FIRST_OF_PUBLIC;
use pipeann_milvus::proto::milvus as wire;
use tonic::{Code, Response, Status};

use crate::access::{Client, asking_who, client, grant, prepare};
use crate::served::{Served, assert_ok, create, declared};

/// No collection, alias or database has this name.
const ABSENT: &str = "absent_name";

/// The answer to a call as text.
fn told<T: Debug>(
    served: &Served,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> String {
    match served.runtime.block_on(call) {
        Ok(answer) => format!("{:?}", answer.into_inner()),
        Err(status) => format!("{:?}: {}", status.code(), status.message()),
    }
}

/// All that is told of a collection, an alias or a database of this name.
fn all_told(served: &Served, client: &mut Client, (database, name): (&str, &str)) -> Vec<String> {
    let (db_name, collection_name) = (database.to_owned(), name.to_owned());
    let mut all = Vec::new();
    macro_rules! asked {
        ($($method:ident $request:ident { $($field:ident: $value:expr),* })*) => {$(
            #[allow(clippy::needless_update, reason = "some requests have no other fields")]
            let request = wire::$request { $($field: $value.clone(),)* ..Default::default() };
            all.push(told(served, client.$method(request)));
        )*};
    }
    asked! {
        has_collection HasCollectionRequest { db_name: db_name, collection_name: collection_name }
        describe_collection DescribeCollectionRequest { db_name: db_name, collection_name: collection_name }
        batch_describe_collection BatchDescribeCollectionRequest { db_name: db_name, collection_name: vec![collection_name.clone()] }
        get_persistent_segment_info GetPersistentSegmentInfoRequest { db_name: db_name, collection_name: collection_name }
        get_query_segment_info GetQuerySegmentInfoRequest { db_name: db_name, collection_name: collection_name }
        get_replicas GetReplicasRequest { db_name: db_name, collection_name: collection_name }
        get_load_state GetLoadStateRequest { db_name: db_name, collection_name: collection_name }
        get_loading_progress GetLoadingProgressRequest { db_name: db_name, collection_name: collection_name }
        describe_index DescribeIndexRequest { db_name: db_name, collection_name: collection_name }
        get_index_statistics GetIndexStatisticsRequest { db_name: db_name, collection_name: collection_name }
        get_index_state GetIndexStateRequest { db_name: db_name, collection_name: collection_name }
        get_index_build_progress GetIndexBuildProgressRequest { db_name: db_name, collection_name: collection_name }
        describe_alias DescribeAliasRequest { db_name: db_name, alias: collection_name }
        list_aliases ListAliasesRequest { db_name: db_name, collection_name: collection_name }
        list_aliases ListAliasesRequest { db_name: db_name }
        show_collections ShowCollectionsRequest { db_name: db_name }
        show_partitions ShowPartitionsRequest { db_name: db_name, collection_name: collection_name }
        has_partition HasPartitionRequest { db_name: db_name, collection_name: collection_name }
        get_collection_statistics GetCollectionStatisticsRequest { db_name: db_name, collection_name: collection_name }
        describe_database DescribeDatabaseRequest { db_name: db_name }
        search SearchRequest { db_name: db_name, collection_name: collection_name }
        query QueryRequest { db_name: db_name, collection_name: collection_name }
    }
    all
}

fn by_number(served: &Served, client: &mut Client, id: i64) -> String {
    let request = wire::DescribeCollectionRequest { collection_id: id, ..Default::default() };
    told(served, client.describe_collection(request))
}

fn names(served: &Served, client: &mut Client) -> (Vec<String>, Vec<String>) {
    let databases = served.call(client.list_databases(wire::ListDatabasesRequest::default()));
    let asked = wire::ShowCollectionsRequest::default();
    let collections = served.call(client.show_collections(asked));
    (databases.db_names, collections.collection_names)
}

/// Takes from `public` what it has at first.
fn revoke(served: &Served, root: &mut Client) {
    for (_, privilege) in FIRST_OF_PUBLIC {
        let mut revoked = grant("*", privilege);
        revoked.role = Some(wire::RoleEntity { name: "public".into(), ..Default::default() });
        revoked.db_name = "*".to_owned();
        revoked.set_type(wire::OperatePrivilegeType::Revoke);
        assert_ok(&served.call(root.operate_privilege_v2(revoked)));
    }
    let role = Some(wire::RoleEntity { name: "public".into(), ..Default::default() });
    let entity = Some(wire::GrantEntity { role, ..Default::default() });
    let left = served.call(root.select_grant(wire::SelectGrantRequest { entity }));
    assert!(left.entities.is_empty(), "{left:?}");
}

/// Beside what is in [`prepare`], a collection `b` with the alias `b_alias`, and `c` in the database `t2`.
fn prepare_more(served: &Served, root: &mut Client) {
    prepare(served, root);
    assert_ok(&served.call(root.create_collection(create("b", &declared()))));
    let alias = wire::CreateAliasRequest {
        alias: "b_alias".into(),
        collection_name: "b".into(),
        ..Default::default()
    };
    assert_ok(&served.call(root.create_alias(alias)));
    let tenant = wire::CreateDatabaseRequest { db_name: "t2".into(), ..Default::default() };
    assert_ok(&served.call(root.create_database(tenant)));
    let mut other = create("c", &declared());
    other.db_name = "t2".to_owned();
    assert_ok(&served.call(root.create_collection(other)));
}

#[test]
fn everybody_is_told_what_there_is_until_that_is_taken_from_public() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare_more(&served, &mut root);
    let mut ada = client(&served, "ada:secret-1");
    let all = (vec!["default".to_owned(), "t2".to_owned()], vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(names(&served, &mut ada), all);
    let by_root = all_told(&served, &mut root, ("default", "a"));
    let by_ada = all_told(&served, &mut ada, ("default", "a"));
    // What comes first needs no other right.
    assert_eq!(by_ada[..10], by_root[..10]);
    revoke(&served, &mut root);
    assert_eq!(names(&served, &mut ada), (vec!["default".to_owned()], vec![]));
    assert_eq!(names(&served, &mut root), all, "whoever may do everything sees everything");
}

#[test]
fn a_name_that_may_not_be_seen_is_answered_as_one_that_is_not_there() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare_more(&served, &mut root);
    revoke(&served, &mut root);
    let mut ada = client(&served, "ada:secret-1");
    for (database, name) in [("default", "a"), ("default", "b_alias"), ("t2", "c")] {
        let hidden = all_told(&served, &mut ada, (database, name));
        let absent = all_told(&served, &mut ada, (database, ABSENT));
        let absent: Vec<_> = absent.iter().map(|text| text.replace(ABSENT, name)).collect();
        assert_eq!(hidden, absent, "{database}.{name}");
    }
    // Nor is a database.
    let hidden = all_told(&served, &mut ada, ("t2", "c"));
    let absent = all_told(&served, &mut ada, (ABSENT, "c"));
    let absent: Vec<_> = absent.iter().map(|text| text.replace(ABSENT, "t2")).collect();
    assert_eq!(hidden, absent);
    let id = served.database.catalog().collection("default", "a").unwrap().id.0.cast_signed();
    let absent = by_number(&served, &mut ada, 987_654_321).replace("987654321", &id.to_string());
    assert_eq!(by_number(&served, &mut ada, id), absent);
}

#[test]
fn who_has_a_right_on_a_collection_is_told_of_it_and_of_no_other() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare_more(&served, &mut root);
    revoke(&served, &mut root);
    assert_ok(&served.call(root.operate_privilege_v2(grant("a", "DescribeCollection"))));
    let mut ada = client(&served, "ada:secret-1");
    assert_eq!(names(&served, &mut ada), (vec!["default".to_owned()], vec!["a".to_owned()]));
    let asked = |name: &str| wire::DescribeCollectionRequest {
        collection_name: name.to_owned(),
        ..Default::default()
    };
    let found = served.call(ada.describe_collection(asked("a")));
    assert_eq!(found.collection_name, "a", "{:?}", found.status);
    let missing = served.call(ada.describe_collection(asked("b")));
    assert_eq!(missing.status.unwrap().code, 100);
    // It is known to be there, and this of it is not to be told.
    let index = wire::DescribeIndexRequest { collection_name: "a".into(), ..Default::default() };
    let denied = served.runtime.block_on(ada.describe_index(index.clone())).unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert!(denied.message().contains("PrivilegeIndexDetail"), "{}", denied.message());
    assert_ok(&served.call(root.operate_privilege_v2(grant("a", "CollectionReadOnly"))));
    let found = served.call(ada.describe_index(index));
    assert_eq!(found.index_descriptions.len(), 1);
}

#[test]
fn who_has_rights_in_all_databases_is_told_of_what_is_there_though_nobody_lists_databases() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare_more(&served, &mut root);
    let mut unlisted = grant("*", "ListDatabases");
    unlisted.role = Some(wire::RoleEntity { name: "public".into(), ..Default::default() });
    unlisted.db_name = "*".to_owned();
    unlisted.set_type(wire::OperatePrivilegeType::Revoke);
    assert_ok(&served.call(root.operate_privilege_v2(unlisted)));
    let mut ada = client(&served, "ada:secret-1");
    let asked = |database: &str, collection: &str| wire::DescribeCollectionRequest {
        db_name: database.to_owned(),
        collection_name: collection.to_owned(),
        ..Default::default()
    };
    let code = |ada: &mut Client, database: &str, collection: &str| {
        served.call(ada.describe_collection(asked(database, collection))).status.unwrap().code
    };
    // What everybody may be told of a collection he is told, and no other name in its database.
    assert_eq!(code(&mut ada, "t2", "c"), 0);
    assert_eq!([code(&mut ada, "t2", ABSENT), code(&mut ada, ABSENT, "c")], [800, 800]);
    assert_eq!(names(&served, &mut ada).0, ["default"]);
    let id = served.database.catalog().collection("t2", "c").unwrap().id.0.cast_signed();
    assert!(by_number(&served, &mut ada, id).contains("db_name: \"t2\""), "its own database");
    // A right on the whole server is none in a database.
    for privilege in ["FlushAll", "CollectionReadWrite"] {
        assert_eq!(names(&served, &mut ada).0, ["default"], "before {privilege}");
        let mut everywhere = grant("*", privilege);
        everywhere.db_name = "*".to_owned();
        assert_ok(&served.call(root.operate_privilege_v2(everywhere)));
    }
    assert_eq!(names(&served, &mut ada).0, ["default", "t2"]);
    assert_eq!([code(&mut ada, "t2", ABSENT), code(&mut ada, ABSENT, "c")], [100, 800]);
    let has = wire::HasCollectionRequest { db_name: "t2".into(), collection_name: "c".into() };
    assert!(served.call(ada.has_collection(has)).value);
}
