//! Which privilege each call needs, and of what.
//!
//! Names and groups are those of Milvus. A call that only tells how the server is, is free to everybody
//! who is known. One that tells what there is needs a right that the role `public` has at first; without
//! it a name that its caller may not see is answered as one that is not there ([`sight`](super::sight)).

use pipeann_db::access::{ANY, Access};
use tonic::Status;

/// Every privilege, in grants.
pub(super) const ALL: &str = "All";
pub(super) const COLLECTION: &str = "Collection";
pub(super) const GLOBAL: &str = "Global";
pub(super) const USER: &str = "User";

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
    (RENAME, GLOBAL, &["RenameCollection"]),
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
    "GetFlushAllState",
    "GetCompactionState",
    "GetCompactionStateWithPlans",
];

/// Calls that tell what there is, by privilege. The role `public` has all of these at first
/// ([`FIRST_OF_PUBLIC`](pipeann_db::access::FIRST_OF_PUBLIC)).
const TOLD: &[(&str, &[&str])] = &[
    (
        "DescribeCollection",
        &[
            "HasCollection",
            "DescribeCollection",
            "BatchDescribeCollection",
            "GetPersistentSegmentInfo",
            "GetQuerySegmentInfo",
            "GetReplicas",
        ],
    ),
    ("ShowCollections", &["ShowCollections"]),
    ("ListDatabases", &["ListDatabases"]),
    ("GetLoadState", &["GetLoadState"]),
    ("GetLoadingProgress", &["GetLoadingProgress"]),
    ("DescribeAlias", &["DescribeAlias"]),
    ("ListAliases", &["ListAliases"]),
    (
        "IndexDetail",
        &["DescribeIndex", "GetIndexStatistics", "GetIndexState", "GetIndexBuildProgress"],
    ),
];

/// Privileges of calls that are not served; they can be granted all the same.
const WITHOUT_CALL: &[&str] = &[
    LOAD_BALANCE,
    IMPORT,
    "CreateResourceGroup",
    "DropResourceGroup",
    "DescribeResourceGroup",
    "UpdateResourceGroups",
    "TransferNode",
    "TransferReplica",
    "BackupRBAC",
    "RestoreRBAC",
];

const LOAD_BALANCE: &str = "LoadBalance";
const IMPORT: &str = "Import";
const RENAME: &str = "RenameCollection";

/// Privileges that are on collections in Milvus, under whatever kind `public` has them here.
const ON_COLLECTIONS: &[&str] = &["GetLoadState", "GetLoadingProgress"];

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
    IMPORT,
    "Flush",
    "Compaction",
    LOAD_BALANCE,
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
    RENAME,
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
        || TOLD.iter().any(|(privilege, _)| *privilege == name)
        || WITHOUT_CALL.contains(&name)
        || is_fixed_group(name)
}

/// Whether a name means something else in a grant than a group that was made could.
pub(super) fn is_reserved(name: &str) -> bool {
    [ALL, ANY].contains(&name)
}

/// Whether this is a fixed group that there was before those by level.
pub(super) fn is_earlier_group(name: &str) -> bool {
    ["ReadOnly", "ReadWrite", "Admin"].contains(&name)
}

/// Whether there is always a group of this name.
pub(super) fn is_fixed_group(name: &str) -> bool {
    GROUPS.iter().any(|(group, _)| *group == name)
}

/// The kind of object that a privilege is on, as grants are shown.
pub(super) fn kind_of(privilege: &str) -> &'static str {
    let needed = NEEDED.iter().find(|(name, ..)| *name == privilege);
    match (needed, privilege) {
        (Some((_, kind, _)), _) => kind,
        (None, ANY) => ANY,
        (None, "IndexDetail" | LOAD_BALANCE | IMPORT) => COLLECTION,
        (None, "CollectionReadOnly" | "CollectionReadWrite" | "CollectionAdmin") => COLLECTION,
        (None, _) => GLOBAL,
    }
}

/// Whether a privilege may be granted by a kind of object.
pub(super) fn is_on(privilege: &str, kind: &str) -> bool {
    kind_of(privilege) == kind || kind == COLLECTION && ON_COLLECTIONS.contains(&privilege)
}

/// Whether a privilege, or a fixed group of them alone, is on the whole server: users, roles, grants
/// and databases are of no database, whatever a request names.
pub(super) fn is_server_wide(privilege: &str) -> bool {
    // A collection is renamed within databases, the rights on which say who may.
    let of_server = |name: &str| name != RENAME;
    let parts = [CLUSTER_READ, CLUSTER_WRITE, CLUSTER_OWN];
    ["ClusterReadOnly", "ClusterReadWrite", "ClusterAdmin"].contains(&privilege)
        || parts.iter().any(|part| part.contains(&privilege) && of_server(privilege))
}

/// As [`is_server_wide`], of groups that were made too. One that has something in databases beside is on
/// none but those that it is granted on, as the fixed groups are that have both.
pub(super) fn is_granted_server_wide(access: &Access, privilege: &str) -> bool {
    is_server_wide(privilege)
        || access.group(privilege).is_some_and(|of| {
            let mut all = of.iter().filter(|name| *name != RENAME).peekable();
            all.peek().is_some() && all.all(|name| is_server_wide(name))
        })
}

/// Whether privileges of one group are to be granted in different ways: some on the whole server, some in
/// databases.
pub(super) fn are_mixed<'n>(privileges: impl Iterator<Item = &'n str>) -> bool {
    let levels = privileges.filter(|name| *name != RENAME).map(is_server_wide);
    let [mut wide, mut within] = [false; 2];
    levels.for_each(|is_wide| if is_wide { wide = true } else { within = true });
    wide && within
}

/// The privilege that a call needs, and the kind of object that it is on.
pub(super) fn needed(call: &str) -> Option<(&'static str, &'static str)> {
    let needed = NEEDED.iter().find(|(_, _, calls)| calls.contains(&call));
    needed.map(|(privilege, kind, _)| (*privilege, *kind))
}

/// Whether everybody who is known may make a call.
pub(super) fn is_free(call: &str) -> bool {
    FREE.contains(&call)
}

/// The privilege of a call that tells what there is.
pub(super) fn told_by(call: &str) -> Option<&'static str> {
    let told = TOLD.iter().find(|(_, calls)| calls.contains(&call));
    told.map(|(privilege, _)| *privilege)
}

/// Groups that there always are in which a privilege is.
pub(super) fn groups_with(privilege: &str) -> Vec<&'static str> {
    let has = |(_, parts): &&(&str, &[&[&str]])| parts.iter().any(|some| some.contains(&privilege));
    GROUPS.iter().filter(has).map(|(name, _)| *name).collect()
}

pub(super) fn denied(privilege: &str, user: &str, database: &str) -> Status {
    Status::permission_denied(format!(
        "Privilege{privilege}: permission deny to {user} in the `{database}` database"
    ))
}

#[cfg(test)]
#[path = "privileges_tests.rs"]
mod tests;
