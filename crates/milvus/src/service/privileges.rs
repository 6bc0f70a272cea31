//! Which privilege each call needs, and of what.
//!
//! Names and groups are those of Milvus. A call that only tells what there is, or how the server is,
//! is free to everybody who is known.

use pipeann_db::access::{ANY, Access, Grant};
use tonic::Status;

use crate::proto::milvus as wire;

/// Every privilege, in grants.
pub(super) const ALL: &str = "All";
const COLLECTION: &str = "Collection";
const GLOBAL: &str = "Global";
const USER: &str = "User";

/// Calls by privilege, and the kind of object that it is on.
const NEEDED: &[(&str, &str, &[&str])] = &[
    ("Search", COLLECTION, &["Search", "HybridSearch"]),
    ("Query", COLLECTION, &["Query"]),
    ("Insert", COLLECTION, &["Insert"]),
    ("Upsert", COLLECTION, &["Upsert"]),
    ("Delete", COLLECTION, &["Delete"]),
    ("Flush", COLLECTION, &["Flush"]),
    ("GetFlushState", COLLECTION, &["GetFlushState"]),
    ("Load", COLLECTION, &["LoadCollection", "LoadPartitions"]),
    ("Release", COLLECTION, &["ReleaseCollection", "ReleasePartitions"]),
    ("GetStatistics", COLLECTION, &["GetCollectionStatistics", "GetPartitionStatistics"]),
    ("CreateIndex", COLLECTION, &["CreateIndex", "AlterIndex"]),
    ("DropIndex", COLLECTION, &["DropIndex"]),
    ("CreatePartition", COLLECTION, &["CreatePartition"]),
    ("DropPartition", COLLECTION, &["DropPartition"]),
    ("ShowPartitions", COLLECTION, &["ShowPartitions"]),
    ("HasPartition", COLLECTION, &["HasPartition"]),
    ("Compaction", COLLECTION, &["ManualCompaction"]),
    ("AddCollectionField", COLLECTION, &["AddCollectionField"]),
    ("CreateCollection", GLOBAL, &["CreateCollection", "AlterCollection", "AlterCollectionField"]),
    ("DropCollection", GLOBAL, &["DropCollection", "TruncateCollection"]),
    ("RenameCollection", GLOBAL, &["RenameCollection"]),
    ("CreateAlias", GLOBAL, &["CreateAlias", "AlterAlias"]),
    ("DropAlias", GLOBAL, &["DropAlias"]),
    ("FlushAll", GLOBAL, &["FlushAll"]),
    ("CreateDatabase", GLOBAL, &["CreateDatabase"]),
    ("DropDatabase", GLOBAL, &["DropDatabase"]),
    ("AlterDatabase", GLOBAL, &["AlterDatabase"]),
    ("DescribeDatabase", GLOBAL, &["DescribeDatabase"]),
    ("CreateOwnership", GLOBAL, &["CreateCredential", "CreateRole"]),
    ("DropOwnership", GLOBAL, &["DeleteCredential", "DropRole"]),
    ("ManageOwnership", GLOBAL, &["OperateUserRole", "OperatePrivilege", "OperatePrivilegeV2"]),
    ("SelectOwnership", GLOBAL, &["SelectRole", "SelectGrant", "ListCredUsers"]),
    ("CreatePrivilegeGroup", GLOBAL, &["CreatePrivilegeGroup"]),
    ("DropPrivilegeGroup", GLOBAL, &["DropPrivilegeGroup"]),
    ("ListPrivilegeGroups", GLOBAL, &["ListPrivilegeGroups"]),
    ("OperatePrivilegeGroup", GLOBAL, &["OperatePrivilegeGroup"]),
    ("ListResourceGroups", GLOBAL, &["ListResourceGroups"]),
    ("UpdateUser", USER, &["UpdateCredential"]),
    ("SelectUser", USER, &["SelectUser"]),
];

/// Calls that everybody who is known may make.
const FREE: &[&str] = &[
    "Connect",
    "GetVersion",
    "CheckHealth",
    "GetComponentStates",
    "AllocTimestamp",
    "GetMetrics",
    "ListDatabases",
    "HasCollection",
    "DescribeCollection",
    "BatchDescribeCollection",
    "ShowCollections",
    "GetLoadingProgress",
    "GetLoadState",
    "DescribeAlias",
    "ListAliases",
    "DescribeIndex",
    "GetIndexStatistics",
    "GetIndexState",
    "GetIndexBuildProgress",
    "GetFlushAllState",
    "GetPersistentSegmentInfo",
    "GetQuerySegmentInfo",
    "GetReplicas",
    "GetCompactionState",
    "GetCompactionStateWithPlans",
];

/// Privileges of calls that are free, or not served; they can be granted all the same.
const WITHOUT_CALL: &[&str] = &[
    "DescribeCollection",
    "ShowCollections",
    "IndexDetail",
    "GetLoadState",
    "GetLoadingProgress",
    "DescribeAlias",
    "ListAliases",
    "ListDatabases",
    "LoadBalance",
    "Import",
    "CreateResourceGroup",
    "DropResourceGroup",
    "DescribeResourceGroup",
    "UpdateResourceGroups",
    "TransferNode",
    "TransferReplica",
    "BackupRBAC",
    "RestoreRBAC",
];

const COLLECTION_READ: &[&str] = &[
    "Query",
    "Search",
    "IndexDetail",
    "GetFlushState",
    "GetLoadState",
    "GetLoadingProgress",
    "HasPartition",
    "ShowPartitions",
    "DescribeCollection",
    "DescribeAlias",
    "GetStatistics",
    "ListAliases",
];
const COLLECTION_WRITE: &[&str] = &[
    "Load",
    "Release",
    "Insert",
    "Delete",
    "Upsert",
    "Import",
    "Flush",
    "Compaction",
    "LoadBalance",
    "CreateIndex",
    "DropIndex",
    "CreatePartition",
    "DropPartition",
    "AddCollectionField",
];
const COLLECTION_OWN: &[&str] = &["CreateAlias", "DropAlias"];
const DATABASE_READ: &[&str] = &["ShowCollections", "DescribeDatabase"];
const DATABASE_WRITE: &[&str] = &["AlterDatabase"];
const DATABASE_OWN: &[&str] = &["CreateCollection", "DropCollection"];
const CLUSTER_READ: &[&str] = &[
    "ListDatabases",
    "SelectOwnership",
    "SelectUser",
    "DescribeResourceGroup",
    "ListResourceGroups",
    "ListPrivilegeGroups",
];
const CLUSTER_WRITE: &[&str] =
    &["FlushAll", "TransferNode", "TransferReplica", "UpdateResourceGroups"];
const CLUSTER_OWN: &[&str] = &[
    "CreateDatabase",
    "DropDatabase",
    "RenameCollection",
    "CreateOwnership",
    "UpdateUser",
    "DropOwnership",
    "ManageOwnership",
    "BackupRBAC",
    "RestoreRBAC",
    "CreateResourceGroup",
    "DropResourceGroup",
    "CreatePrivilegeGroup",
    "DropPrivilegeGroup",
    "OperatePrivilegeGroup",
];

/// Groups of privileges that there always are.
pub(super) const GROUPS: &[(&str, &[&[&str]])] = &[
    ("CollectionReadOnly", &[COLLECTION_READ]),
    ("CollectionReadWrite", &[COLLECTION_READ, COLLECTION_WRITE]),
    ("CollectionAdmin", &[COLLECTION_READ, COLLECTION_WRITE, COLLECTION_OWN]),
    ("DatabaseReadOnly", &[DATABASE_READ]),
    ("DatabaseReadWrite", &[DATABASE_READ, DATABASE_WRITE]),
    ("DatabaseAdmin", &[DATABASE_READ, DATABASE_WRITE, DATABASE_OWN]),
    ("ClusterReadOnly", &[CLUSTER_READ]),
    ("ClusterReadWrite", &[CLUSTER_READ, CLUSTER_WRITE]),
    ("ClusterAdmin", &[CLUSTER_READ, CLUSTER_WRITE, CLUSTER_OWN]),
    // Those of earlier versions.
    ("ReadOnly", &[COLLECTION_READ, DATABASE_READ]),
    ("ReadWrite", &[COLLECTION_READ, COLLECTION_WRITE, DATABASE_READ, DATABASE_WRITE]),
    (
        "Admin",
        &[
            COLLECTION_READ,
            COLLECTION_WRITE,
            COLLECTION_OWN,
            DATABASE_READ,
            DATABASE_WRITE,
            DATABASE_OWN,
            CLUSTER_READ,
            CLUSTER_WRITE,
            CLUSTER_OWN,
        ],
    ),
];

/// Whether there is a privilege, or a fixed group, of this name.
pub(super) fn known(name: &str) -> bool {
    NEEDED.iter().any(|(privilege, ..)| *privilege == name)
        || WITHOUT_CALL.contains(&name)
        || GROUPS.iter().any(|(group, _)| *group == name)
}

/// The kind of object that a privilege is on, as grants are shown.
pub(super) fn kind_of(privilege: &str) -> &'static str {
    let needed = NEEDED.iter().find(|(name, ..)| *name == privilege);
    match needed {
        Some((_, kind, _)) => kind,
        None if privilege == ANY => ANY,
        None if privilege.starts_with("Collection") || privilege == "IndexDetail" => COLLECTION,
        None => GLOBAL,
    }
}

/// What a request is about.
pub(super) trait Aimed {
    /// The database that it names, if any, and the objects.
    fn aim(&self) -> (&str, Vec<&str>);
}

macro_rules! aimed {
    (nothing: $($nothing:ident)*; database: $($database:ident)*; collection: $($one:ident)*) => {
        $(impl Aimed for wire::$nothing {
            fn aim(&self) -> (&str, Vec<&str>) { ("", Vec::new()) }
        })*
        $(impl Aimed for wire::$database {
            fn aim(&self) -> (&str, Vec<&str>) { (&self.db_name, Vec::new()) }
        })*
        $(impl Aimed for wire::$one {
            fn aim(&self) -> (&str, Vec<&str>) { (&self.db_name, vec![&self.collection_name]) }
        })*
    };
}

aimed! {
    nothing: ConnectRequest GetVersionRequest CheckHealthRequest GetComponentStatesRequest
        AllocTimestampRequest GetMetricsRequest ListDatabasesRequest GetCompactionStateRequest
        GetCompactionPlansRequest CreateCredentialRequest DeleteCredentialRequest
        ListCredUsersRequest CreateRoleRequest DropRoleRequest OperateUserRoleRequest
        SelectRoleRequest OperatePrivilegeRequest OperatePrivilegeV2Request SelectGrantRequest
        CreatePrivilegeGroupRequest DropPrivilegeGroupRequest ListPrivilegeGroupsRequest
        OperatePrivilegeGroupRequest ListResourceGroupsRequest ManualCompactionRequest
        GetPersistentSegmentInfoRequest GetQuerySegmentInfoRequest GetReplicasRequest;
    database: CreateDatabaseRequest DropDatabaseRequest DescribeDatabaseRequest
        AlterDatabaseRequest ShowCollectionsRequest BatchDescribeCollectionRequest
        FlushAllRequest GetFlushAllStateRequest DescribeAliasRequest DropAliasRequest;
    collection: CreateCollectionRequest DropCollectionRequest HasCollectionRequest
        DescribeCollectionRequest AlterCollectionRequest AlterCollectionFieldRequest
        AddCollectionFieldRequest TruncateCollectionRequest GetCollectionStatisticsRequest
        LoadCollectionRequest ReleaseCollectionRequest GetLoadingProgressRequest
        GetLoadStateRequest CreatePartitionRequest DropPartitionRequest HasPartitionRequest
        ShowPartitionsRequest LoadPartitionsRequest ReleasePartitionsRequest
        GetPartitionStatisticsRequest CreateAliasRequest AlterAliasRequest ListAliasesRequest
        CreateIndexRequest DescribeIndexRequest AlterIndexRequest DropIndexRequest
        GetIndexStatisticsRequest GetIndexStateRequest GetIndexBuildProgressRequest InsertRequest
        UpsertRequest DeleteRequest SearchRequest HybridSearchRequest QueryRequest
        GetFlushStateRequest
}

impl Aimed for wire::RenameCollectionRequest {
    fn aim(&self) -> (&str, Vec<&str>) {
        (&self.db_name, vec![&self.old_name])
    }
}

impl Aimed for wire::FlushRequest {
    fn aim(&self) -> (&str, Vec<&str>) {
        (&self.db_name, self.collection_names.iter().map(String::as_str).collect())
    }
}

impl Aimed for wire::UpdateCredentialRequest {
    fn aim(&self) -> (&str, Vec<&str>) {
        ("", vec![&self.username])
    }
}

impl Aimed for wire::SelectUserRequest {
    fn aim(&self) -> (&str, Vec<&str>) {
        ("", self.user.iter().map(|user| user.name.as_str()).collect())
    }
}

/// Refuses a call that its caller has no right to make; `named` is the database of calls that name
/// none.
pub(super) fn check(
    access: &Access,
    user: &str,
    call: &str,
    request: &impl Aimed,
    named: &str,
) -> Result<(), Status> {
    let needed = NEEDED.iter().find(|(_, _, calls)| calls.contains(&call));
    let Some((privilege, kind, _)) = needed else {
        // What is in neither list is nobody's: a test compares them with the calls.
        return if FREE.contains(&call) { Ok(()) } else { Err(denied(call, user, named)) };
    };
    let (database, mut objects) = request.aim();
    if *kind == USER && objects == [user] {
        return Ok(());
    }
    objects.retain(|object| !object.is_empty());
    if objects.is_empty() {
        objects.push(ANY);
    }
    let in_group = |(_, privileges): &&(&str, &[&[&str]])| {
        privileges.iter().any(|some| some.contains(privilege))
    };
    let groups: Vec<&str> = GROUPS.iter().filter(in_group).map(|(name, _)| *name).collect();
    let database = if database.is_empty() { named } else { database };
    let may = |object: &str| {
        let wanted = Grant {
            kind: (*kind).to_owned(),
            object: object.to_owned(),
            privilege: (*privilege).to_owned(),
            database: database.to_owned(),
        };
        access.allows(user, &wanted, &groups)
    };
    match objects.into_iter().all(may) {
        true => Ok(()),
        false => Err(denied(privilege, user, database)),
    }
}

/// Refuses a call that nothing lets its caller make, whatever it is about: before it is read.
pub(super) fn check_anywhere(
    access: &Access,
    user: &str,
    call: &str,
    named: &str,
) -> Result<(), Status> {
    let needed = NEEDED.iter().find(|(_, _, calls)| calls.contains(&call));
    // Everybody may do some things with his own user, which are small.
    let Some((privilege, kind, _)) = needed.filter(|(_, kind, _)| *kind != USER) else {
        return Ok(());
    };
    match access.allows_somewhere(user, (*kind, *privilege), &groups_with(privilege)) {
        true => Ok(()),
        false => Err(denied(privilege, user, named)),
    }
}

/// Groups that there always are in which a privilege is.
fn groups_with(privilege: &str) -> Vec<&'static str> {
    let has = |(_, parts): &&(&str, &[&[&str]])| parts.iter().any(|some| some.contains(&privilege));
    GROUPS.iter().filter(has).map(|(name, _)| *name).collect()
}

fn denied(privilege: &str, user: &str, database: &str) -> Status {
    Status::permission_denied(format!(
        "Privilege{privilege}: permission deny to {user} in the `{database}` database"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::calls::CALLS;
    use super::*;

    #[test]
    fn every_call_is_free_or_needs_one_privilege() {
        for (call, _) in CALLS {
            let needed = NEEDED.iter().filter(|(_, _, calls)| calls.contains(call)).count();
            let free = usize::from(FREE.contains(call));
            assert_eq!(needed + free, 1, "{call}");
        }
        let calls = NEEDED.iter().flat_map(|(_, _, calls)| *calls).chain(FREE);
        for call in calls {
            assert!(CALLS.iter().any(|(name, _)| name == call), "{call} is no call");
        }
    }

    #[test]
    fn groups_are_of_known_privileges() {
        for (group, parts) in GROUPS {
            for name in parts.iter().copied().flatten() {
                assert!(known(name), "{name} of {group}");
            }
        }
        assert!(!known("Fly"));
    }
}
