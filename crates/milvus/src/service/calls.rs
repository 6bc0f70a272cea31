//! The calls that are served, and how each is dispatched.
//!
//! `docs/milvus-coverage.md` is made from this list. Each has a word for the server that answers it, where
//! there are several (`routes`). A call marked `at once` only looks at what stands
//! in memory; all others may wait for a disk or compute for long, and get a thread. Searches are
//! `scheduled`: they wait for one of few threads, and may be done together.

use std::sync::Arc;

use pipeann_db::asker;
use pipeann_db::catalog::limits::DEFAULT_DATABASE;
use tonic::{Request, Response as GrpcResponse, Status as GrpcStatus};

use super::aim::Aimed;
use super::asking::{Stays, WaitingClient};
use super::caller::{CallerName, named_database};
use super::frontend::{Call, FrontendContext};
use super::messages::CallMemory;
use super::rights;
use super::routes::{LocalRead, Route, ServedCall};
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
    (@route process) => { Route::Process };
    (@route leader) => { Route::Leader };
    (@route catalogue) => { Route::Local(LocalRead::Catalogue) };
    (@route database) => { Route::Local(LocalRead::Database) };
    (@route counts) => { Route::Local(LocalRead::Counts) };
    (@route rows) => { Route::Local(LocalRead::Rows) };
    ($($name:literal $method:ident($request:ty) -> $response:ty = $answer:path,
        $where:ident $($once:ident)?, $route:ident, $extent:literal;)*) => {
        /// All calls.
        pub(super) const CALLS: &[ServedCall] = &[$(ServedCall {
            name: $name,
            route: calls!(@route $route),
            but: $extent,
        }),*];

        #[tonic::async_trait]
        impl MilvusService for Service {
            $(async fn $method(
                &self,
                request: Request<$request>,
            ) -> Result<GrpcResponse<$response>, GrpcStatus> {
                self.admit($name, calls!(@route $route), &request).await?;
                Ok(calls!(@run $where $($once)?, self, $name, request, $answer))
            })*
        }
    };
}

calls! {
    "Connect" connect(wire::ConnectRequest) -> wire::ConnectResponse = server::connect, at once, database, "";
    "GetVersion" get_version(wire::GetVersionRequest) -> wire::GetVersionResponse = server::version, at once, process, "";
    "CheckHealth" check_health(wire::CheckHealthRequest) -> wire::CheckHealthResponse = server::health, apart, process, "";
    "GetComponentStates" get_component_states(wire::GetComponentStatesRequest) -> wire::ComponentStates = server::components, at once, process, "one component";
    "AllocTimestamp" alloc_timestamp(wire::AllocTimestampRequest) -> wire::AllocTimestampResponse = server::timestamp, at once, leader, "";
    "GetMetrics" get_metrics(wire::GetMetricsRequest) -> wire::GetMetricsResponse = server::metrics, apart, process, "`system_info` of one node, without figures";
    "CreateDatabase" create_database(wire::CreateDatabaseRequest) -> common::Status = databases::create, apart, leader, "properties are kept and change nothing";
    "DropDatabase" drop_database(wire::DropDatabaseRequest) -> common::Status = databases::drop, apart, leader, "";
    "ListDatabases" list_databases(wire::ListDatabasesRequest) -> wire::ListDatabasesResponse = databases::list, apart, catalogue, "";
    "DescribeDatabase" describe_database(wire::DescribeDatabaseRequest) -> wire::DescribeDatabaseResponse = databases::describe, at once, catalogue, "";
    "AlterDatabase" alter_database(wire::AlterDatabaseRequest) -> common::Status = databases::alter, apart, leader, "properties are kept and change nothing";
    "CreateCollection" create_collection(wire::CreateCollectionRequest) -> common::Status = collections::create, apart, leader, "no functions, arrays of structures, geometry or text fields, no `enable_match`; vectors are never null";
    "DropCollection" drop_collection(wire::DropCollectionRequest) -> common::Status = collections::drop, apart, leader, "";
    "HasCollection" has_collection(wire::HasCollectionRequest) -> wire::BoolResponse = collections::has, at once, catalogue, "";
    "DescribeCollection" describe_collection(wire::DescribeCollectionRequest) -> wire::DescribeCollectionResponse = describe::one, at once, catalogue, "";
    "BatchDescribeCollection" batch_describe_collection(wire::BatchDescribeCollectionRequest) -> wire::BatchDescribeCollectionResponse = describe::several, apart, catalogue, "";
    "ShowCollections" show_collections(wire::ShowCollectionsRequest) -> wire::ShowCollectionsResponse = describe::list, apart, catalogue, "";
    "RenameCollection" rename_collection(wire::RenameCollectionRequest) -> common::Status = collections::rename, apart, leader, "a collection with aliases stays in its database";
    "AlterCollection" alter_collection(wire::AlterCollectionRequest) -> common::Status = collections::alter, apart, leader, "`dynamicfield.enabled` can be switched on, `collection.ttl.seconds` and `allow_insert_auto_id` count; other properties are kept and change nothing";
    "AlterCollectionField" alter_collection_field(wire::AlterCollectionFieldRequest) -> common::Status = collections::alter_field, apart, leader, "`max_length` and `max_capacity` count; what says how data is loaded is kept; nothing else can be changed";
    "AddCollectionField" add_collection_field(wire::AddCollectionFieldRequest) -> common::Status = collections::add_field, apart, leader, "no vector fields";
    "TruncateCollection" truncate_collection(wire::TruncateCollectionRequest) -> wire::TruncateCollectionResponse = collections::truncate, apart, leader, "";
    "GetCollectionStatistics" get_collection_statistics(wire::GetCollectionStatisticsRequest) -> wire::GetCollectionStatisticsResponse = statistics::of_collection, apart, counts, "counts live rows, flushed or not";
    "LoadCollection" load_collection(wire::LoadCollectionRequest) -> common::Status = loading::load, apart, leader, "always whole; answers when it is loaded";
    "ReleaseCollection" release_collection(wire::ReleaseCollectionRequest) -> common::Status = loading::release, apart, leader, "";
    "GetLoadingProgress" get_loading_progress(wire::GetLoadingProgressRequest) -> wire::GetLoadingProgressResponse = loading::progress, at once, catalogue, "";
    "GetLoadState" get_load_state(wire::GetLoadStateRequest) -> wire::GetLoadStateResponse = loading::state, at once, catalogue, "";
    "CreatePartition" create_partition(wire::CreatePartitionRequest) -> common::Status = partitions::create, apart, leader, "";
    "DropPartition" drop_partition(wire::DropPartitionRequest) -> common::Status = partitions::drop, apart, leader, "";
    "HasPartition" has_partition(wire::HasPartitionRequest) -> wire::BoolResponse = partitions::has, at once, catalogue, "";
    "ShowPartitions" show_partitions(wire::ShowPartitionsRequest) -> wire::ShowPartitionsResponse = partitions::list, apart, catalogue, "";
    "LoadPartitions" load_partitions(wire::LoadPartitionsRequest) -> common::Status = loading::load_partitions, apart, leader, "";
    "ReleasePartitions" release_partitions(wire::ReleasePartitionsRequest) -> common::Status = loading::release_partitions, apart, leader, "";
    "GetPartitionStatistics" get_partition_statistics(wire::GetPartitionStatisticsRequest) -> wire::GetPartitionStatisticsResponse = statistics::of_partition, apart, counts, "";
    "CreateAlias" create_alias(wire::CreateAliasRequest) -> common::Status = aliases::create, apart, leader, "";
    "DropAlias" drop_alias(wire::DropAliasRequest) -> common::Status = aliases::drop, apart, leader, "";
    "AlterAlias" alter_alias(wire::AlterAliasRequest) -> common::Status = aliases::alter, apart, leader, "";
    "DescribeAlias" describe_alias(wire::DescribeAliasRequest) -> wire::DescribeAliasResponse = aliases::describe, at once, catalogue, "";
    "ListAliases" list_aliases(wire::ListAliasesRequest) -> wire::ListAliasesResponse = aliases::list, apart, catalogue, "";
    "CreateIndex" create_index(wire::CreateIndexRequest) -> common::Status = indexes::create, apart, leader, "dense vectors by L2, IP or COSINE, binary ones by HAMMING or JACCARD, all kinds served by one graph, or exactly by FLAT and BIN_FLAT; every scalar field has an index anyway";
    "DescribeIndex" describe_index(wire::DescribeIndexRequest) -> wire::DescribeIndexResponse = indexes::describe, apart, leader, "";
    "AlterIndex" alter_index(wire::AlterIndexRequest) -> common::Status = indexes::alter, apart, leader, "parameters are kept for the next build";
    "DropIndex" drop_index(wire::DropIndexRequest) -> common::Status = indexes::drop, apart, leader, "";
    "GetIndexStatistics" get_index_statistics(wire::GetIndexStatisticsRequest) -> wire::GetIndexStatisticsResponse = indexes::statistics, apart, leader, "";
    "GetIndexState" get_index_state(wire::GetIndexStateRequest) -> wire::GetIndexStateResponse = indexes::state, at once, leader, "";
    "GetIndexBuildProgress" get_index_build_progress(wire::GetIndexBuildProgressRequest) -> wire::GetIndexBuildProgressResponse = indexes::progress, at once, leader, "";
    "Insert" insert(wire::InsertRequest) -> wire::MutationResult = writes::insert, apart, leader, "";
    "Upsert" upsert(wire::UpsertRequest) -> wire::MutationResult = writes::upsert, apart, leader, "keys are given, and kept; no `field_ops`";
    "Delete" delete(wire::DeleteRequest) -> wire::MutationResult = writes::delete, apart, leader, "counts rows that were there; more than 65,536 go in pieces, those of `TruncateCollection` too";
    "Search" search(wire::SearchRequest) -> wire::SearchResults = queued::search, scheduled, rows, "no functions, aggregation or highlighting; no other order";
    "HybridSearch" hybrid_search(wire::HybridSearchRequest) -> wire::SearchResults = hybrid::search, apart, rows, "ranked by `rrf` or `weighted`; no groups";
    "Query" query(wire::QueryRequest) -> wire::QueryResults = query::query, apart, rows, "no aggregates but `count(*)`";
    "Flush" flush(wire::FlushRequest) -> wire::FlushResponse = flush::flush, apart, leader, "";
    "FlushAll" flush_all(wire::FlushAllRequest) -> wire::FlushAllResponse = flush::all, apart, leader, "";
    "GetFlushState" get_flush_state(wire::GetFlushStateRequest) -> wire::GetFlushStateResponse = flush::state, at once, leader, "flushes end before they are answered";
    "GetFlushAllState" get_flush_all_state(wire::GetFlushAllStateRequest) -> wire::GetFlushAllStateResponse = flush::all_state, at once, leader, "flushes end before they are answered";
    "GetPersistentSegmentInfo" get_persistent_segment_info(wire::GetPersistentSegmentInfoRequest) -> wire::GetPersistentSegmentInfoResponse = segments::persistent, apart, counts, "each partition is told as one segment";
    "GetQuerySegmentInfo" get_query_segment_info(wire::GetQuerySegmentInfoRequest) -> wire::GetQuerySegmentInfoResponse = segments::loaded, apart, counts, "each partition is told as one segment";
    "GetReplicas" get_replicas(wire::GetReplicasRequest) -> wire::GetReplicasResponse = segments::replicas, apart, catalogue, "one replica";
    "ManualCompaction" manual_compaction(wire::ManualCompactionRequest) -> wire::ManualCompactionResponse = segments::compact, apart, leader, "flushes, which gives back the space of deleted rows; no clustering compaction (`is_clustering`)";
    "GetCompactionState" get_compaction_state(wire::GetCompactionStateRequest) -> wire::GetCompactionStateResponse = segments::compaction, at once, leader, "compactions end before they are answered";
    "GetCompactionStateWithPlans" get_compaction_state_with_plans(wire::GetCompactionPlansRequest) -> wire::GetCompactionPlansResponse = segments::plans, apart, leader, "no plans";
    "CreateCredential" create_credential(wire::CreateCredentialRequest) -> common::Status = users::create, apart, leader, "";
    "UpdateCredential" update_credential(wire::UpdateCredentialRequest) -> common::Status = users::set_password, apart, leader, "";
    "DeleteCredential" delete_credential(wire::DeleteCredentialRequest) -> common::Status = users::drop, apart, leader, "";
    "ListCredUsers" list_cred_users(wire::ListCredUsersRequest) -> wire::ListCredUsersResponse = users::list, apart, catalogue, "";
    "CreateRole" create_role(wire::CreateRoleRequest) -> common::Status = roles::create, apart, leader, "";
    "DropRole" drop_role(wire::DropRoleRequest) -> common::Status = roles::drop, apart, leader, "";
    "OperateUserRole" operate_user_role(wire::OperateUserRoleRequest) -> common::Status = users::set_role, apart, leader, "";
    "SelectRole" select_role(wire::SelectRoleRequest) -> wire::SelectRoleResponse = roles::select, apart, catalogue, "";
    "SelectUser" select_user(wire::SelectUserRequest) -> wire::SelectUserResponse = users::select, apart, catalogue, "";
    "OperatePrivilege" operate_privilege(wire::OperatePrivilegeRequest) -> common::Status = grants::operate, apart, leader, "";
    "OperatePrivilegeV2" operate_privilege_v2(wire::OperatePrivilegeV2Request) -> common::Status = grants::operate_by_collection, apart, leader, "";
    "SelectGrant" select_grant(wire::SelectGrantRequest) -> wire::SelectGrantResponse = grants::select, apart, catalogue, "";
    "CreatePrivilegeGroup" create_privilege_group(wire::CreatePrivilegeGroupRequest) -> common::Status = grants::create_group, apart, leader, "";
    "DropPrivilegeGroup" drop_privilege_group(wire::DropPrivilegeGroupRequest) -> common::Status = grants::drop_group, apart, leader, "";
    "ListPrivilegeGroups" list_privilege_groups(wire::ListPrivilegeGroupsRequest) -> wire::ListPrivilegeGroupsResponse = grants::list_groups, apart, catalogue, "";
    "OperatePrivilegeGroup" operate_privilege_group(wire::OperatePrivilegeGroupRequest) -> common::Status = grants::operate_group, apart, leader, "";
    "ListResourceGroups" list_resource_groups(wire::ListResourceGroupsRequest) -> wire::ListResourceGroupsResponse = roles::resource_groups, at once, catalogue, "the default one alone";
}

/// The call of a path, as `/milvus.proto.milvus.MilvusService/Search`; none where it is not served.
pub(super) fn called(path: &str) -> Option<&'static ServedCall> {
    let name = path.rsplit('/').next()?;
    CALLS.iter().find(|call| call.name == name)
}

impl Service {
    /// Whether the caller may make this call, where it is asked who calls.
    pub(super) fn check<Req: Aimed>(
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
        rights::check(access, &catalog, user, call, request.get_ref(), named)
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
                let outcome = call.once(name, || answer(&call, request));
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
