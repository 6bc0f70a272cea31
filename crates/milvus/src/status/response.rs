//! Answers that carry a status.

use super::CallFailure;
use crate::proto::common::Status;
use crate::proto::milvus as wire;

/// An answer of the service.
pub(crate) trait Response: prost::Message + Default + Send + 'static {
    fn set_status(&mut self, status: Status);

    /// Says that it went well, unless something else was said.
    fn complete(&mut self) {}

    /// The answer of a call that ended so.
    fn of(outcome: Result<Self, CallFailure>) -> Self {
        let mut response = outcome.unwrap_or_else(Self::refused);
        response.complete();
        response
    }

    /// An answer without content that says why.
    fn refused(failure: CallFailure) -> Self {
        let mut response = Self::default();
        response.set_status(failure.into_status());
        response
    }
}

impl Response for Status {
    fn set_status(&mut self, status: Status) {
        *self = status;
    }
}

macro_rules! responses {
    ($($name:ident),* $(,)?) => {
        $(impl Response for wire::$name {
            fn set_status(&mut self, status: Status) {
                self.status = Some(status);
            }

            fn complete(&mut self) {
                self.status.get_or_insert_default();
            }
        })*
    };
}

responses!(
    AllocTimestampResponse,
    BatchDescribeCollectionResponse,
    BoolResponse,
    CheckHealthResponse,
    ComponentStates,
    ConnectResponse,
    DescribeAliasResponse,
    DescribeCollectionResponse,
    DescribeDatabaseResponse,
    DescribeIndexResponse,
    FlushAllResponse,
    FlushResponse,
    GetCollectionStatisticsResponse,
    GetCompactionPlansResponse,
    GetCompactionStateResponse,
    GetFlushAllStateResponse,
    GetFlushStateResponse,
    GetIndexBuildProgressResponse,
    GetIndexStateResponse,
    GetIndexStatisticsResponse,
    GetLoadStateResponse,
    GetLoadingProgressResponse,
    GetMetricsResponse,
    GetPartitionStatisticsResponse,
    GetPersistentSegmentInfoResponse,
    GetQuerySegmentInfoResponse,
    GetReplicasResponse,
    GetVersionResponse,
    ListAliasesResponse,
    ListCredUsersResponse,
    ListDatabasesResponse,
    ListPrivilegeGroupsResponse,
    ListResourceGroupsResponse,
    ManualCompactionResponse,
    MutationResult,
    QueryResults,
    SearchResults,
    SelectGrantResponse,
    SelectRoleResponse,
    SelectUserResponse,
    ShowCollectionsResponse,
    ShowPartitionsResponse,
    TruncateCollectionResponse,
);
