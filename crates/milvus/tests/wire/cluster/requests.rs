//! A request of every call.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pipeann_milvus::proto::milvus as wire;
use prost::Message as _;

use crate::rows::search;
use crate::served::{create, declared, insert, longs, pair, query, vectors};

/// Calls in an order in which each does something.
#[expect(clippy::needless_update, reason = "some requests have no more fields than are given")]
pub(super) fn walk() -> Vec<(&'static str, Vec<u8>)> {
    let mut walk = Vec::new();
    macro_rules! ask {
        ($call:ident $request:ident { $($field:ident: $value:expr),* }) => {
            let request = wire::$request { $($field: $value.into(),)* ..Default::default() };
            walk.push((stringify!($call), request.encode_to_vec()));
        };
    }
    let rows =
        |keys: std::ops::Range<i64>| vec![longs("id", keys.clone().collect()), vectors(keys)];
    let role = || wire::RoleEntity { name: "reader".into(), ..Default::default() };
    let secret = |text: &str| BASE64_STANDARD.encode(text);
    let grantor = || {
        let privilege = Some(wire::PrivilegeEntity { name: "Query".into() });
        wire::GrantorEntity { privilege, ..Default::default() }
    };
    let grant = || wire::GrantEntity {
        role: Some(role()),
        object: Some(wire::ObjectEntity { name: "Collection".into() }),
        object_name: "a".into(),
        grantor: Some(grantor()),
        ..Default::default()
    };
    ask!(Connect ConnectRequest {});
    ask!(GetVersion GetVersionRequest {});
    ask!(CheckHealth CheckHealthRequest {});
    ask!(GetComponentStates GetComponentStatesRequest {});
    ask!(AllocTimestamp AllocTimestampRequest {});
    ask!(GetMetrics GetMetricsRequest { request: r#"{"metric_type":"system_info"}"# });
    ask!(CreateDatabase CreateDatabaseRequest { db_name: "d" });
    ask!(AlterDatabase AlterDatabaseRequest { db_name: "d", properties: vec![pair("k", "v")] });
    ask!(DescribeDatabase DescribeDatabaseRequest { db_name: "d" });
    ask!(ListDatabases ListDatabasesRequest {});
    ask!(DropDatabase DropDatabaseRequest { db_name: "d" });
    walk.push(("CreateCollection", create("a", &declared()).encode_to_vec()));
    walk.push(("CreateCollection", create("b", &declared()).encode_to_vec()));
    ask!(HasCollection HasCollectionRequest { collection_name: "a" });
    ask!(AddCollectionField AddCollectionFieldRequest { collection_name: "b", schema: vec![1] });
    ask!(AlterCollection AlterCollectionRequest {
        collection_name: "a", properties: vec![pair("k", "v")]
    });
    ask!(AlterCollectionField AlterCollectionFieldRequest {
        collection_name: "a", field_name: "v", properties: vec![pair("mmap.enabled", "true")]
    });
    ask!(RenameCollection RenameCollectionRequest { old_name: "b", new_name: "c" });
    ask!(CreatePartition CreatePartitionRequest { collection_name: "c", partition_name: "p" });
    ask!(HasPartition HasPartitionRequest { collection_name: "c", partition_name: "p" });
    ask!(ShowPartitions ShowPartitionsRequest { collection_name: "c" });
    ask!(CreateAlias CreateAliasRequest { collection_name: "c", alias: "x" });
    ask!(AlterAlias AlterAliasRequest { collection_name: "a", alias: "x" });
    ask!(DescribeAlias DescribeAliasRequest { alias: "x" });
    ask!(ListAliases ListAliasesRequest { collection_name: "a" });
    ask!(DropAlias DropAliasRequest { alias: "x" });
    ask!(CreateIndex CreateIndexRequest {
        collection_name: "a", field_name: "v", index_name: "i",
        extra_params: vec![pair("metric_type", "L2"), pair("index_type", "FLAT")]
    });
    ask!(CreateIndex CreateIndexRequest {
        collection_name: "c", field_name: "v", extra_params: vec![pair("metric_type", "L2"), pair("index_type", "FLAT")]
    });
    ask!(AlterIndex AlterIndexRequest {
        collection_name: "a", index_name: "i", extra_params: vec![pair("mmap.enabled", "true")]
    });
    ask!(DescribeIndex DescribeIndexRequest { collection_name: "a" });
    ask!(GetIndexState GetIndexStateRequest { collection_name: "a", index_name: "i" });
    ask!(GetIndexBuildProgress GetIndexBuildProgressRequest { collection_name: "a", index_name: "i" });
    ask!(GetIndexStatistics GetIndexStatisticsRequest { collection_name: "a", index_name: "i" });
    ask!(LoadCollection LoadCollectionRequest { collection_name: "a" });
    ask!(LoadPartitions LoadPartitionsRequest {
        collection_name: "c", partition_names: vec!["p".to_owned()]
    });
    ask!(GetLoadState GetLoadStateRequest { collection_name: "a" });
    ask!(GetLoadingProgress GetLoadingProgressRequest { collection_name: "a" });
    walk.push(("Insert", insert("a", 0..9).encode_to_vec()));
    ask!(Upsert UpsertRequest { collection_name: "a", fields_data: rows(7..12), num_rows: 5u32 });
    ask!(Delete DeleteRequest { collection_name: "a", expr: "id in [1, 2]" });
    ask!(Flush FlushRequest { collection_names: vec!["a".to_owned()] });
    ask!(FlushAll FlushAllRequest {});
    ask!(GetFlushState GetFlushStateRequest { collection_name: "a" });
    ask!(GetFlushAllState GetFlushAllStateRequest {});
    ask!(GetCollectionStatistics GetCollectionStatisticsRequest { collection_name: "a" });
    ask!(GetPartitionStatistics GetPartitionStatisticsRequest {
        collection_name: "a", partition_name: "_default"
    });
    ask!(GetPersistentSegmentInfo GetPersistentSegmentInfoRequest { collection_name: "a" });
    ask!(GetQuerySegmentInfo GetQuerySegmentInfoRequest { collection_name: "a" });
    ask!(GetReplicas GetReplicasRequest { collection_name: "a" });
    ask!(ManualCompaction ManualCompactionRequest { collection_name: "a" });
    ask!(GetCompactionState GetCompactionStateRequest {});
    ask!(GetCompactionStateWithPlans GetCompactionPlansRequest {});
    walk.push(("Search", search(&[3.0, 8.0], &[("topk", "3")]).encode_to_vec()));
    ask!(HybridSearch HybridSearchRequest {
        collection_name: "a",
        requests: vec![search(&[3.0], &[("topk", "3")]), search(&[8.0], &[("topk", "3")])],
        rank_params: vec![pair("strategy", "rrf"), pair("params", r#"{"k":60}"#), pair("limit", "4")]
    });
    walk.push(("Query", query("a", "id > 2", &["id", "v"]).encode_to_vec()));
    walk.push(("Query", query("a", "", &["count(*)"]).encode_to_vec()));
    ask!(DescribeCollection DescribeCollectionRequest { collection_name: "a" });
    ask!(BatchDescribeCollection BatchDescribeCollectionRequest {
        collection_name: vec!["a".to_owned(), "nobody".to_owned()]
    });
    ask!(ShowCollections ShowCollectionsRequest {});
    ask!(TruncateCollection TruncateCollectionRequest { collection_name: "a" });
    ask!(ReleasePartitions ReleasePartitionsRequest {
        collection_name: "c", partition_names: vec!["p".to_owned()]
    });
    ask!(DropPartition DropPartitionRequest { collection_name: "c", partition_name: "p" });
    ask!(ReleaseCollection ReleaseCollectionRequest { collection_name: "a" });
    ask!(DropIndex DropIndexRequest { collection_name: "a", index_name: "i" });
    ask!(DropCollection DropCollectionRequest { collection_name: "a" });
    ask!(Search SearchRequest { collection_name: "a" });
    ask!(CreateCredential CreateCredentialRequest { username: "ada", password: secret("secret-1") });
    ask!(UpdateCredential UpdateCredentialRequest {
        username: "ada", old_password: secret("secret-1"), new_password: secret("secret-2")
    });
    ask!(ListCredUsers ListCredUsersRequest {});
    ask!(CreateRole CreateRoleRequest { entity: Some(role()) });
    ask!(OperateUserRole OperateUserRoleRequest { username: "ada", role_name: "reader" });
    ask!(SelectRole SelectRoleRequest { include_user_info: true });
    ask!(SelectUser SelectUserRequest { include_role_info: true });
    ask!(OperatePrivilege OperatePrivilegeRequest { entity: Some(grant()) });
    ask!(SelectGrant SelectGrantRequest { entity: Some(grant()) });
    ask!(OperatePrivilegeV2 OperatePrivilegeV2Request {
        role: Some(role()), grantor: Some(grantor()), db_name: "default", collection_name: "c"
    });
    ask!(CreatePrivilegeGroup CreatePrivilegeGroupRequest { group_name: "g" });
    ask!(OperatePrivilegeGroup OperatePrivilegeGroupRequest {
        group_name: "g", privileges: vec![wire::PrivilegeEntity { name: "Query".into() }]
    });
    ask!(ListPrivilegeGroups ListPrivilegeGroupsRequest {});
    ask!(DropPrivilegeGroup DropPrivilegeGroupRequest { group_name: "g" });
    ask!(DropRole DropRoleRequest { role_name: "reader", force_drop: true });
    ask!(DeleteCredential DeleteCredentialRequest { username: "ada" });
    ask!(ListResourceGroups ListResourceGroupsRequest {});
    walk
}
