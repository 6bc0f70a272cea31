//! A search as it waits, and whoever waits for it.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_engine::types::{VectorSet, VectorSetError};

use super::ScheduleError;
use crate::asker::Asker;
use crate::collection::{
    BatchProgress, BatchedSearch, Collection, CollectionError, Filter, PinnedSnapshot, SearchHit,
    Selection, VectorSearch,
};
use crate::expr::Templates;
use crate::ids::{Metric, VectorType};

/// What can be searched.
pub trait Searchable: Send + Sync {
    /// Does several searches as one; see [`Collection::search_joined`].
    ///
    /// # Errors
    /// See there.
    fn search_joined(
        &self,
        searches: &[BatchedSearch<'_>],
        tell: &mut dyn FnMut(BatchProgress),
    ) -> Result<(), CollectionError>;
}

impl Searchable for Collection {
    fn search_joined(
        &self,
        searches: &[BatchedSearch<'_>],
        tell: &mut dyn FnMut(BatchProgress),
    ) -> Result<(), CollectionError> {
        Self::search_joined(self, searches, tell)
    }
}

/// Vectors, one after the other.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedVectors {
    bytes: Vec<u8>,
    dim: usize,
    vector_type: VectorType,
}

impl OwnedVectors {
    /// Vectors of `dim` components each.
    ///
    /// # Errors
    /// [`VectorSetError`] where the length does not fit.
    pub fn new(bytes: Vec<u8>, dim: usize, ty: VectorType) -> Result<Self, VectorSetError> {
        VectorSet::new(&bytes, dim, ty)?;
        Ok(Self { bytes, dim, vector_type: ty })
    }

    /// The same, borrowed.
    pub fn as_set(&self) -> VectorSet<'_> {
        VectorSet::new(&self.bytes, self.dim, self.vector_type).expect("it was one before")
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn shape(&self) -> (usize, VectorType) {
        (self.dim, self.vector_type)
    }
}

/// A filter with all that belongs to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnedFilter {
    /// The expression.
    pub expression: String,
    /// Values for the templates in it.
    pub templates: Templates,
}

/// A search with all that belongs to it; see [`VectorSearch`].
#[derive(Clone)]
pub struct SearchRequest {
    /// Where it searches.
    pub collection: Arc<dyn Searchable>,
    /// Name of the vector field.
    pub field: String,
    /// How many rows each query wants.
    pub k: usize,
    /// How vectors are compared.
    pub metric: Option<Metric>,
    /// Length of the candidate list.
    pub list: Option<usize>,
    /// Names of partitions.
    pub partitions: Option<Vec<String>>,
    /// Which rows are looked for.
    pub filter: Option<OwnedFilter>,
    /// Names of fields to be read of each row.
    pub output: Vec<String>,
    /// Which of the nearest rows are wanted.
    pub selection: Selection,
    /// The query vectors.
    pub queries: OwnedVectors,
    /// As of which moment; now unless given.
    pub held: Option<Arc<PinnedSnapshot>>,
    /// When its answer is of no use any more.
    pub deadline: Option<Instant>,
}

impl fmt::Debug for SearchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchRequest")
            .field("field", &self.field)
            .field("k", &self.k)
            .field("filter", &self.filter)
            .field("queries", &self.queries.as_set().rows())
            .finish_non_exhaustive()
    }
}

impl SearchRequest {
    /// Does the search here and now, on this thread.
    ///
    /// # Errors
    /// As [`Collection::search_joined`].
    pub fn alone(&self) -> Result<Vec<Vec<SearchHit>>, CollectionError> {
        let names = RequestNames::of(self);
        let search = names.search(self);
        let (queries, selection) = (self.queries.as_set(), &self.selection);
        let held = self.held.as_deref();
        let joined = BatchedSearch { search: &search, queries, selection, held };
        let mut found = Vec::new();
        self.collection.search_joined(&[joined], &mut |progress| {
            if let BatchProgress::Answered(_, hits) = progress {
                found = hits;
            }
        })?;
        Ok(found)
    }

    /// Stands for what has to be alike, so that others are mostly told apart by it.
    pub(super) fn batch_key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let metric = self.metric.map(|metric| metric as u16);
        let filter = self.filter.as_ref().map(|filter| &filter.expression);
        (&self.field, metric, self.list, &self.partitions, filter).hash(&mut hasher);
        hasher.finish()
    }

    /// Whether both can be done as one search of their collection.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.field == other.field
            && (self.metric, self.list) == (other.metric, other.list)
            && self.queries.shape() == other.queries.shape()
            && self.partitions == other.partitions
            && self.filter == other.filter
            && self.selection == other.selection
            && self.held.as_ref().map(Arc::as_ptr) == other.held.as_ref().map(Arc::as_ptr)
            // Groups are made by a place in the output.
            && (self.selection.groups.is_none() || self.output == other.output)
    }
}

/// The names in a request, as a search borrows them.
pub(super) struct RequestNames<'r> {
    partitions: Option<Vec<&'r str>>,
    output: Vec<&'r str>,
}

impl<'r> RequestNames<'r> {
    pub(super) fn of(request: &'r SearchRequest) -> Self {
        let strs = |names: &'r Vec<String>| names.iter().map(String::as_str).collect();
        Self { partitions: request.partitions.as_ref().map(strs), output: strs(&request.output) }
    }

    pub(super) fn search<'n>(&'n self, request: &'n SearchRequest) -> VectorSearch<'n> {
        let filter = request.filter.as_ref();
        VectorSearch {
            field: &request.field,
            k: request.k,
            metric: request.metric,
            list: request.list,
            partitions: self.partitions.as_deref(),
            filter: filter.map(|f| Filter { expression: &f.expression, templates: &f.templates }),
            output: &self.output,
        }
    }
}

/// Where the time of a search went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Waiting for a thread.
    pub queue: Duration,
    /// Finding rows, its own and those of searches done together with it before.
    pub search: Duration,
    /// Reading rows, its own and theirs.
    pub rows: Duration,
    /// Searches that were done together, itself included.
    pub joined: usize,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchAnswer {
    /// The hits of each query.
    pub hits: Vec<Vec<SearchHit>>,
    /// What it took.
    pub stages: Stages,
}

/// Somebody who waits for a search. A caller that is dropped unanswered has gone before.
pub trait Caller: Send {
    /// Whether nobody waits any more.
    fn is_gone(&self) -> bool;

    /// Who asks, as the search itself looks at it.
    fn asker(&self) -> Option<Arc<dyn Asker>> {
        None
    }

    /// Takes the answer, on the thread of the search: others wait meanwhile.
    fn answer(self: Box<Self>, outcome: Result<SearchAnswer, ScheduleError>);
}
