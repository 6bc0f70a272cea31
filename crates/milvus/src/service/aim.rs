//! What each request is about: the database and the objects that rights on it are looked up by.

use crate::convert::read_time::Guarantee;
use crate::proto::milvus as wire;

/// What a request is about.
pub(super) trait Aimed {
    /// The database that it names, if any, and the objects.
    fn aim(&self) -> (&str, Vec<&str>);

    /// An alias that it makes, moves or drops.
    fn alias(&self) -> Option<&str> {
        None
    }

    /// A collection that it makes elsewhere: its database, if it names one, and its name.
    fn target(&self) -> Option<(&str, &str)> {
        None
    }

    /// The collection whose rows it counts: its database, if it names one, and its name.
    fn counted(&self) -> Option<(&str, &str)> {
        let (database, objects) = self.aim();
        objects.first().map(|object| (database, *object))
    }

    /// How new the rows have to be that it reads, and the partitions that it names of them.
    fn read(&self) -> Option<(Guarantee, &[String])> {
        None
    }

    /// A collection that it names by number.
    fn number(&self) -> Option<i64> {
        None
    }
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
        OperatePrivilegeGroupRequest ListResourceGroupsRequest GetReplicasRequest;
    database: CreateDatabaseRequest DropDatabaseRequest DescribeDatabaseRequest
        AlterDatabaseRequest ShowCollectionsRequest BatchDescribeCollectionRequest
        FlushAllRequest GetFlushAllStateRequest DescribeAliasRequest;
    collection: CreateCollectionRequest DropCollectionRequest HasCollectionRequest
        DescribeCollectionRequest AlterCollectionRequest AlterCollectionFieldRequest
        AddCollectionFieldRequest TruncateCollectionRequest GetCollectionStatisticsRequest
        LoadCollectionRequest ReleaseCollectionRequest GetLoadingProgressRequest
        GetLoadStateRequest CreatePartitionRequest DropPartitionRequest HasPartitionRequest
        ShowPartitionsRequest LoadPartitionsRequest ReleasePartitionsRequest
        GetPartitionStatisticsRequest ListAliasesRequest
        CreateIndexRequest DescribeIndexRequest AlterIndexRequest DropIndexRequest
        GetIndexStatisticsRequest GetIndexStateRequest GetIndexBuildProgressRequest InsertRequest
        UpsertRequest DeleteRequest GetFlushStateRequest
}

macro_rules! segments {
    ($($name:ident)*) => {
        $(impl Aimed for wire::$name {
            // Who may not see the collection is told that it is not there.
            fn aim(&self) -> (&str, Vec<&str>) { ("", Vec::new()) }

            fn counted(&self) -> Option<(&str, &str)> {
                Some((&self.db_name, &self.collection_name))
            }
        })*
    };
}

segments!(GetPersistentSegmentInfoRequest GetQuerySegmentInfoRequest);

macro_rules! reads {
    ($($name:ident)*) => {
        $(impl Aimed for wire::$name {
            fn aim(&self) -> (&str, Vec<&str>) { (&self.db_name, vec![&self.collection_name]) }

            fn read(&self) -> Option<(Guarantee, &[String])> {
                let guarantee = Guarantee {
                    timestamp: self.guarantee_timestamp,
                    level: self.consistency_level(),
                    by_default: self.use_default_consistency,
                };
                Some((guarantee, &self.partition_names))
            }
        })*
    };
}

reads!(SearchRequest HybridSearchRequest QueryRequest);

impl Aimed for wire::RenameCollectionRequest {
    fn aim(&self) -> (&str, Vec<&str>) {
        (&self.db_name, vec![&self.old_name])
    }

    fn target(&self) -> Option<(&str, &str)> {
        Some((&self.new_db_name, &self.new_name))
    }
}

impl Aimed for wire::CreateAliasRequest {
    fn aim(&self) -> (&str, Vec<&str>) {
        (&self.db_name, vec![&self.collection_name])
    }

    fn alias(&self) -> Option<&str> {
        Some(&self.alias)
    }
}

impl Aimed for wire::AlterAliasRequest {
    fn aim(&self) -> (&str, Vec<&str>) {
        (&self.db_name, vec![&self.collection_name])
    }

    fn alias(&self) -> Option<&str> {
        Some(&self.alias)
    }
}

impl Aimed for wire::DropAliasRequest {
    fn aim(&self) -> (&str, Vec<&str>) {
        (&self.db_name, Vec::new())
    }

    fn alias(&self) -> Option<&str> {
        Some(&self.alias)
    }
}

impl Aimed for wire::ManualCompactionRequest {
    fn aim(&self) -> (&str, Vec<&str>) {
        (&self.db_name, vec![&self.collection_name])
    }

    fn number(&self) -> Option<i64> {
        self.collection_name.is_empty().then_some(self.collection_id)
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
