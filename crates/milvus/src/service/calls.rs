//! The calls that are served, and how each is dispatched.
//!
//! `docs/milvus-coverage.md` is made from this list. A call marked `at once` only looks at what stands
//! in memory; all others may wait for a disk or compute for long, and get a thread. Searches are
//! `scheduled`: they wait for one of few threads, and may be done together.

use std::sync::Arc;

use pipeann_db::asker;
use pipeann_db::catalog::limits::DEFAULT_DATABASE;
use tonic::{Request, Response as GrpcResponse, Status as GrpcStatus};

use super::aim::Aimed;
use super::asking::{Stays, WaitingClient};
use super::frontend::{Call, FrontendContext, named_database};
use super::messages::CallMemory;
use super::privileges;
use super::transport::CallerName;
use super::{
    aliases, collections, databases, describe, flush, grants, hybrid, indexes, loading, partitions,
    query, queued, roles, segments, server, statistics, users, writes,
};
use crate::proto::common;
use crate::proto::milvus as wire;
use crate::proto::milvus::milvus_service_server::MilvusService;
use crate::status::{CallFailure, Code, Response};

/// Calls that only read, and so may take turns with others of their kind.
const READS: &[&str] = &["Query", "HybridSearch"];

/// A function that answers a call.
type CallHandler<Req, Res> = fn(&Call, Req) -> Result<Res, CallFailure>;

/// The service.
pub(super) struct Service(pub(super) Arc<FrontendContext>);

macro_rules! calls {
    (@run at once, $self:ident, $name:literal, $request:ident, $answer:path) => {
        $self.at_once($name, $request, $answer)
    };
    (@run scheduled, $self:ident, $name:literal, $request:ident, $answer:path) => {
        $answer(&$self.0, $name, $request).await
    };
    (@run apart, $self:ident, $name:literal, $request:ident, $answer:path) => {
        $self.apart($name, $request, $answer).await
    };
    ($($name:literal $method:ident($request:ty) -> $response:ty = $answer:path,
        $where:ident $($once:ident)?, $extent:literal;)*) => {
        /// Name of each call, and what of it is not served: nothing where it is empty.
        pub(super) const CALLS: &[(&str, &str)] = &[$(($name, $extent)),*];

        #[tonic::async_trait]
        impl MilvusService for Service {
            $(async fn $method(
                &self,
                request: Request<$request>,
            ) -> Result<GrpcResponse<$response>, GrpcStatus> {
                self.check($name, &request)?;
                Ok(calls!(@run $where $($once)?, self, $name, request, $answer))
            })*
        }
    };
}

calls! {
    "Connect" connect(wire::ConnectRequest) -> wire::ConnectResponse = server::connect, at once, "";
    "GetVersion" get_version(wire::GetVersionRequest) -> wire::GetVersionResponse = server::version, at once, "";
    "CheckHealth" check_health(wire::CheckHealthRequest) -> wire::CheckHealthResponse = server::health, apart, "";
    "GetComponentStates" get_component_states(wire::GetComponentStatesRequest) -> wire::ComponentStates = server::components, at once, "one component";
    "AllocTimestamp" alloc_timestamp(wire::AllocTimestampRequest) -> wire::AllocTimestampResponse = server::timestamp, at once, "";
    "GetMetrics" get_metrics(wire::GetMetricsRequest) -> wire::GetMetricsResponse = server::metrics, apart, "`system_info` of one node, without figures";
    "CreateDatabase" create_database(wire::CreateDatabaseRequest) -> common::Status = databases::create, apart, "properties are kept and change nothing";
    "DropDatabase" drop_database(wire::DropDatabaseRequest) -> common::Status = databases::drop, apart, "";
    "ListDatabases" list_databases(wire::ListDatabasesRequest) -> wire::ListDatabasesResponse = databases::list, apart, "";
    "DescribeDatabase" describe_database(wire::DescribeDatabaseRequest) -> wire::DescribeDatabaseResponse = databases::describe, at once, "";
    "AlterDatabase" alter_database(wire::AlterDatabaseRequest) -> common::Status = databases::alter, apart, "properties are kept and change nothing";
    "CreateCollection" create_collection(wire::CreateCollectionRequest) -> common::Status = collections::create, apart, "no functions, arrays of structures, geometry or text fields; vectors are never null";
    "DropCollection" drop_collection(wire::DropCollectionRequest) -> common::Status = collections::drop, apart, "";
    "HasCollection" has_collection(wire::HasCollectionRequest) -> wire::BoolResponse = collections::has, at once, "";
    "DescribeCollection" describe_collection(wire::DescribeCollectionRequest) -> wire::DescribeCollectionResponse = describe::one, at once, "";
    "BatchDescribeCollection" batch_describe_collection(wire::BatchDescribeCollectionRequest) -> wire::BatchDescribeCollectionResponse = describe::several, apart, "";
    "ShowCollections" show_collections(wire::ShowCollectionsRequest) -> wire::ShowCollectionsResponse = describe::list, apart, "";
    "RenameCollection" rename_collection(wire::RenameCollectionRequest) -> common::Status = collections::rename, apart, "a collection with aliases stays in its database";
    "AlterCollection" alter_collection(wire::AlterCollectionRequest) -> common::Status = collections::alter, apart, "`dynamicfield.enabled` can be switched on, `collection.ttl.seconds` counts; other properties are kept and change nothing";
    "AlterCollectionField" alter_collection_field(wire::AlterCollectionFieldRequest) -> common::Status = collections::alter_field, apart, "`max_length` and `max_capacity` count; what says how data is loaded is kept; nothing else can be changed";
    "AddCollectionField" add_collection_field(wire::AddCollectionFieldRequest) -> common::Status = collections::add_field, apart, "no vector fields";
    "TruncateCollection" truncate_collection(wire::TruncateCollectionRequest) -> wire::TruncateCollectionResponse = collections::truncate, apart, "";
    "GetCollectionStatistics" get_collection_statistics(wire::GetCollectionStatisticsRequest) -> wire::GetCollectionStatisticsResponse = statistics::of_collection, apart, "counts live rows, flushed or not";
    "LoadCollection" load_collection(wire::LoadCollectionRequest) -> common::Status = loading::load, apart, "always whole; answers when it is loaded";
    "ReleaseCollection" release_collection(wire::ReleaseCollectionRequest) -> common::Status = loading::release, apart, "";
    "GetLoadingProgress" get_loading_progress(wire::GetLoadingProgressRequest) -> wire::GetLoadingProgressResponse = loading::progress, at once, "";
    "GetLoadState" get_load_state(wire::GetLoadStateRequest) -> wire::GetLoadStateResponse = loading::state, at once, "";
    "CreatePartition" create_partition(wire::CreatePartitionRequest) -> common::Status = partitions::create, apart, "";
    "DropPartition" drop_partition(wire::DropPartitionRequest) -> common::Status = partitions::drop, apart, "";
    "HasPartition" has_partition(wire::HasPartitionRequest) -> wire::BoolResponse = partitions::has, at once, "";
    "ShowPartitions" show_partitions(wire::ShowPartitionsRequest) -> wire::ShowPartitionsResponse = partitions::list, apart, "";
    "LoadPartitions" load_partitions(wire::LoadPartitionsRequest) -> common::Status = loading::load_partitions, apart, "";
    "ReleasePartitions" release_partitions(wire::ReleasePartitionsRequest) -> common::Status = loading::release_partitions, apart, "";
    "GetPartitionStatistics" get_partition_statistics(wire::GetPartitionStatisticsRequest) -> wire::GetPartitionStatisticsResponse = statistics::of_partition, apart, "";
    "CreateAlias" create_alias(wire::CreateAliasRequest) -> common::Status = aliases::create, apart, "";
    "DropAlias" drop_alias(wire::DropAliasRequest) -> common::Status = aliases::drop, apart, "";
    "AlterAlias" alter_alias(wire::AlterAliasRequest) -> common::Status = aliases::alter, apart, "";
    "DescribeAlias" describe_alias(wire::DescribeAliasRequest) -> wire::DescribeAliasResponse = aliases::describe, at once, "";
    "ListAliases" list_aliases(wire::ListAliasesRequest) -> wire::ListAliasesResponse = aliases::list, apart, "";
    "CreateIndex" create_index(wire::CreateIndexRequest) -> common::Status = indexes::create, apart, "dense vectors by L2, IP or COSINE, binary ones by HAMMING or JACCARD, all kinds served by one graph, or exactly by FLAT and BIN_FLAT; every scalar field has an index anyway";
    "DescribeIndex" describe_index(wire::DescribeIndexRequest) -> wire::DescribeIndexResponse = indexes::describe, apart, "";
    "AlterIndex" alter_index(wire::AlterIndexRequest) -> common::Status = indexes::alter, apart, "parameters are kept for the next build";
    "DropIndex" drop_index(wire::DropIndexRequest) -> common::Status = indexes::drop, apart, "";
    "GetIndexStatistics" get_index_statistics(wire::GetIndexStatisticsRequest) -> wire::GetIndexStatisticsResponse = indexes::statistics, apart, "";
    "GetIndexState" get_index_state(wire::GetIndexStateRequest) -> wire::GetIndexStateResponse = indexes::state, at once, "";
    "GetIndexBuildProgress" get_index_build_progress(wire::GetIndexBuildProgressRequest) -> wire::GetIndexBuildProgressResponse = indexes::progress, at once, "";
    "Insert" insert(wire::InsertRequest) -> wire::MutationResult = writes::insert, apart, "";
    "Upsert" upsert(wire::UpsertRequest) -> wire::MutationResult = writes::upsert, apart, "keys are given, and kept";
    "Delete" delete(wire::DeleteRequest) -> wire::MutationResult = writes::delete, apart, "counts rows that were there";
    "Search" search(wire::SearchRequest) -> wire::SearchResults = queued::search, scheduled, "no functions";
    "HybridSearch" hybrid_search(wire::HybridSearchRequest) -> wire::SearchResults = hybrid::search, apart, "ranked by `rrf` or `weighted`; no groups";
    "Query" query(wire::QueryRequest) -> wire::QueryResults = query::query, apart, "no aggregates but `count(*)`";
    "Flush" flush(wire::FlushRequest) -> wire::FlushResponse = flush::flush, apart, "";
    "FlushAll" flush_all(wire::FlushAllRequest) -> wire::FlushAllResponse = flush::all, apart, "";
    "GetFlushState" get_flush_state(wire::GetFlushStateRequest) -> wire::GetFlushStateResponse = flush::state, at once, "flushes end before they are answered";
    "GetFlushAllState" get_flush_all_state(wire::GetFlushAllStateRequest) -> wire::GetFlushAllStateResponse = flush::all_state, at once, "flushes end before they are answered";
    "GetPersistentSegmentInfo" get_persistent_segment_info(wire::GetPersistentSegmentInfoRequest) -> wire::GetPersistentSegmentInfoResponse = segments::persistent, apart, "each partition is told as one segment";
    "GetQuerySegmentInfo" get_query_segment_info(wire::GetQuerySegmentInfoRequest) -> wire::GetQuerySegmentInfoResponse = segments::loaded, apart, "each partition is told as one segment";
    "GetReplicas" get_replicas(wire::GetReplicasRequest) -> wire::GetReplicasResponse = segments::replicas, apart, "one replica";
    "ManualCompaction" manual_compaction(wire::ManualCompactionRequest) -> wire::ManualCompactionResponse = segments::compact, apart, "flushes, which gives back the space of deleted rows";
    "GetCompactionState" get_compaction_state(wire::GetCompactionStateRequest) -> wire::GetCompactionStateResponse = segments::compaction, at once, "compactions end before they are answered";
    "GetCompactionStateWithPlans" get_compaction_state_with_plans(wire::GetCompactionPlansRequest) -> wire::GetCompactionPlansResponse = segments::plans, apart, "no plans";
    "CreateCredential" create_credential(wire::CreateCredentialRequest) -> common::Status = users::create, apart, "";
    "UpdateCredential" update_credential(wire::UpdateCredentialRequest) -> common::Status = users::set_password, apart, "";
    "DeleteCredential" delete_credential(wire::DeleteCredentialRequest) -> common::Status = users::drop, apart, "";
    "ListCredUsers" list_cred_users(wire::ListCredUsersRequest) -> wire::ListCredUsersResponse = users::list, apart, "";
    "CreateRole" create_role(wire::CreateRoleRequest) -> common::Status = roles::create, apart, "";
    "DropRole" drop_role(wire::DropRoleRequest) -> common::Status = roles::drop, apart, "";
    "OperateUserRole" operate_user_role(wire::OperateUserRoleRequest) -> common::Status = users::set_role, apart, "";
    "SelectRole" select_role(wire::SelectRoleRequest) -> wire::SelectRoleResponse = roles::select, apart, "";
    "SelectUser" select_user(wire::SelectUserRequest) -> wire::SelectUserResponse = users::select, apart, "";
    "OperatePrivilege" operate_privilege(wire::OperatePrivilegeRequest) -> common::Status = grants::operate, apart, "";
    "OperatePrivilegeV2" operate_privilege_v2(wire::OperatePrivilegeV2Request) -> common::Status = grants::operate_by_collection, apart, "";
    "SelectGrant" select_grant(wire::SelectGrantRequest) -> wire::SelectGrantResponse = grants::select, apart, "";
    "CreatePrivilegeGroup" create_privilege_group(wire::CreatePrivilegeGroupRequest) -> common::Status = grants::create_group, apart, "";
    "DropPrivilegeGroup" drop_privilege_group(wire::DropPrivilegeGroupRequest) -> common::Status = grants::drop_group, apart, "";
    "ListPrivilegeGroups" list_privilege_groups(wire::ListPrivilegeGroupsRequest) -> wire::ListPrivilegeGroupsResponse = grants::list_groups, apart, "";
    "OperatePrivilegeGroup" operate_privilege_group(wire::OperatePrivilegeGroupRequest) -> common::Status = grants::operate_group, apart, "";
    "ListResourceGroups" list_resource_groups(wire::ListResourceGroupsRequest) -> wire::ListResourceGroupsResponse = roles::resource_groups, at once, "the default one alone";
}

impl Service {
    /// Whether the caller may make this call, where it is asked who calls.
    fn check<Req: Aimed>(
        &self,
        call: &'static str,
        request: &Request<Req>,
    ) -> Result<(), GrpcStatus> {
        let Some(CallerName(user)) = request.extensions().get::<CallerName>() else {
            return Ok(());
        };
        let named = named_database(request.metadata()).unwrap_or(DEFAULT_DATABASE);
        let database = &self.0.settings.database;
        let (access, catalog) = (database.access(), database.catalog());
        privileges::check(access, &catalog, user, call, request.get_ref(), named)
    }

    fn at_once<Req, Res: Response>(
        &self,
        name: &'static str,
        request: Request<Req>,
        answer: CallHandler<Req, Res>,
    ) -> GrpcResponse<Res> {
        let call = Call::new(Arc::clone(&self.0), name, &request);
        let outcome = answer(&call, request.into_inner());
        call.counted(name, outcome)
    }

    async fn apart<Req: Send + 'static, Res: Response>(
        &self,
        name: &'static str,
        request: Request<Req>,
        answer: CallHandler<Req, Res>,
    ) -> GrpcResponse<Res> {
        let turns = READS.contains(&name).then(|| Arc::clone(&self.0.turns));
        let held = request.extensions().get::<CallMemory>().cloned();
        let client = WaitingClient::new(request.metadata(), held, turns);
        // Told when this is not waited for any more.
        let stays = Stays(Arc::clone(&client));
        let call = Call::new(Arc::clone(&self.0), name, &request);
        let request = request.into_inner();
        let answered = move || {
            asker::within(Some(client), || {
                let outcome = answer(&call, request);
                call.counted(name, outcome)
            })
        };
        let answered = tokio::task::spawn_blocking(answered).await;
        drop(stays);
        answered.unwrap_or_else(|error| {
            // Clients repeat errors of gRPC for minutes, and would meet the same one again.
            tracing::error!("a call failed: {error}");
            let why = format!("the server failed at this call: {error}");
            let call = Call::within(Arc::clone(&self.0));
            call.counted(name, Err(CallFailure::new(Code::Internal, why)))
        })
    }
}
