//! Which searches are alike enough to be done as one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::collection::SearchRequest;

/// Stands for what has to be alike, so that others are mostly told apart by it.
pub(super) fn batch_key(request: &SearchRequest<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let metric = request.metric.map(|metric| metric as u16);
    let filter = request.filter.as_ref().map(|filter| &filter.expression);
    (&request.field, metric, request.list, &request.partitions, filter).hash(&mut hasher);
    hasher.finish()
}

/// Whether both can be done as one search of their collection.
pub(super) fn are_alike(one: &SearchRequest<'_>, other: &SearchRequest<'_>) -> bool {
    one.field == other.field
        && (one.metric, one.list) == (other.metric, other.list)
        && one.vectors.shape() == other.vectors.shape()
        && one.partitions == other.partitions
        && one.filter == other.filter
        && (one.within, one.groups) == (other.within, other.groups)
        && one.moment.as_ref().map(Arc::as_ptr) == other.moment.as_ref().map(Arc::as_ptr)
        // Groups are made by a place in the output.
        && (one.groups.is_none() || one.output == other.output)
}
