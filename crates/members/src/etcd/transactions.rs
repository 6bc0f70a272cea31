//! What transactions are made of: comparisons, changes and reads of single keys.

use super::calls::proto::*;

/// A range of one key.
pub(super) fn one(key: &str) -> RangeRequest {
    RangeRequest { key: key.into(), ..RangeRequest::default() }
}

/// That a key is at a version, 0 where it is not there.
pub(super) fn at(key: &str, revision: i64) -> Compare {
    Compare {
        result: compare::CompareResult::Equal.into(),
        target: compare::CompareTarget::Mod.into(),
        key: key.into(),
        target_union: Some(compare::TargetUnion::ModRevision(revision)),
    }
}

pub(super) fn put(key: &str, value: Vec<u8>, lease: i64) -> RequestOp {
    let put = PutRequest { key: key.into(), value, lease };
    RequestOp { request: Some(request_op::Request::RequestPut(put)) }
}

pub(super) fn delete(key: &str) -> RequestOp {
    let delete = DeleteRangeRequest { key: key.into() };
    RequestOp { request: Some(request_op::Request::RequestDeleteRange(delete)) }
}

pub(super) fn read(key: &str) -> RequestOp {
    RequestOp { request: Some(request_op::Request::RequestRange(one(key))) }
}

/// The keys that a transaction has read, in order.
pub(super) fn ranges(answer: TxnResponse) -> impl Iterator<Item = Option<KeyValue>> {
    answer.responses.into_iter().filter_map(|it| match it.response {
        Some(response_op::Response::ResponseRange(mut range)) => Some(range.kvs.pop()),
        _ => None,
    })
}
