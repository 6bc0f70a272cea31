//! What is asked of a search: one type from the doors to the collection.
//!
//! A door makes it of what it was given, which it moves or borrows; the scheduler keeps it while it
//! waits, and the collection searches by it. Only two things are made of it: `SearchContext`, which
//! is what its names stand for at one moment, and the engine's `QueryJob` of each vector.
//!
//! Who waits and how long is part of it; nobody here looks at a clock.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use pipeann_engine::search::DistanceRange;
use pipeann_engine::types::{VectorSet, VectorSetError};

use crate::asker::Asker;
use crate::collection::filter::matching::Filter;
use crate::collection::pinned_snapshot::PinnedSnapshot;
use crate::ids::{Metric, VectorType};

/// A search of one vector field. See the module's description.
#[derive(Clone)]
pub struct SearchRequest<'a> {
    /// Name of the vector field.
    pub field: Cow<'a, str>,
    /// The query vectors.
    pub vectors: QueryVectors<'a>,
    /// How many rows each of them wants; groups, where there are some.
    pub k: usize,
    /// How vectors are compared: as the index of the field does, unless given.
    pub metric: Option<Metric>,
    /// Length of the candidate list in a graph: longer finds more and reads more. Twice `k`, and 64
    /// at least, unless given.
    pub list: Option<usize>,
    /// Names of partitions; all that are loaded unless given.
    pub partitions: Option<GivenNames<'a>>,
    /// Which rows are looked for; all unless given.
    pub filter: Option<Filter<'a>>,
    /// The distances that they have.
    pub within: DistanceRange,
    /// A few rows of each group; all unless given.
    pub groups: Option<Grouping>,
    /// Names of fields to be read of each row.
    pub output: GivenNames<'a>,
    /// As of which moment; now unless given, with all that was answered before.
    pub moment: Option<Arc<PinnedSnapshot>>,
    /// When its answer is of no use any more to a scheduler that has not begun it.
    pub deadline: Option<Instant>,
    /// Who waits for it; whoever the thread works for unless given.
    pub asker: Option<Arc<dyn Asker>>,
}

/// Rows that belong together because a field has the same value. Rows without a value are a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// The field, by its position in the output of the search: integers, bools or texts.
    pub output: usize,
    /// Rows of each group.
    pub size: usize,
    /// Whether to look further for groups that have fewer.
    pub fill: bool,
}

impl<'a> SearchRequest<'a> {
    /// The `k` nearest rows of each vector, without anything else.
    pub fn new(
        field: impl Into<Cow<'a, str>>,
        vectors: impl Into<QueryVectors<'a>>,
        k: usize,
    ) -> Self {
        Self {
            field: field.into(),
            vectors: vectors.into(),
            k,
            metric: None,
            list: None,
            partitions: None,
            filter: None,
            within: DistanceRange::default(),
            groups: None,
            output: GivenNames::default(),
            moment: None,
            deadline: None,
            asker: None,
        }
    }

    /// The same, with nothing copied.
    pub fn borrowed(&self) -> SearchRequest<'_> {
        SearchRequest {
            field: Cow::Borrowed(&self.field),
            vectors: self.vectors.as_set().into(),
            partitions: self.partitions.as_ref().map(GivenNames::borrowed),
            filter: self.filter.as_ref().map(Filter::borrowed),
            output: self.output.borrowed(),
            moment: self.moment.clone(),
            asker: self.asker.clone(),
            ..*self
        }
    }
}

impl fmt::Debug for SearchRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchRequest")
            .field("field", &self.field)
            .field("k", &self.k)
            .field("filter", &self.filter)
            .field("queries", &self.vectors.as_set().rows())
            .finish_non_exhaustive()
    }
}

/// Query vectors, one after the other.
#[derive(Clone, PartialEq, Eq)]
pub struct QueryVectors<'a> {
    bytes: Cow<'a, [u8]>,
    dim: usize,
    vector_type: VectorType,
}

impl QueryVectors<'static> {
    /// Vectors of `dim` components each.
    ///
    /// # Errors
    /// [`VectorSetError`] where the length does not fit.
    pub fn new(bytes: Vec<u8>, dim: usize, ty: VectorType) -> Result<Self, VectorSetError> {
        VectorSet::new(&bytes, dim, ty)?;
        Ok(Self { bytes: Cow::Owned(bytes), dim, vector_type: ty })
    }
}

impl QueryVectors<'_> {
    /// The same, borrowed.
    pub fn as_set(&self) -> VectorSet<'_> {
        VectorSet::new(&self.bytes, self.dim, self.vector_type).expect("it was one before")
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Dimension and type.
    pub fn shape(&self) -> (usize, VectorType) {
        (self.dim, self.vector_type)
    }
}

impl<'a> From<VectorSet<'a>> for QueryVectors<'a> {
    fn from(set: VectorSet<'a>) -> Self {
        let (dim, vector_type) = (set.dim(), set.vector_type());
        Self { bytes: Cow::Borrowed(set.bytes()), dim, vector_type }
    }
}

/// Names of fields or partitions.
#[derive(Clone, Debug, Default)]
pub struct GivenNames<'a>(Names<'a>);

/// What `Cow` would be, if that did not fix the lifetime of what it holds.
#[derive(Clone, Debug)]
enum Names<'a> {
    Borrowed(&'a [Cow<'a, str>]),
    Owned(Vec<Cow<'a, str>>),
}

impl Default for Names<'_> {
    fn default() -> Self {
        Self::Borrowed(&[])
    }
}

impl GivenNames<'_> {
    fn borrowed(&self) -> GivenNames<'_> {
        GivenNames(Names::Borrowed(self))
    }
}

impl<'a> Deref for GivenNames<'a> {
    type Target = [Cow<'a, str>];

    fn deref(&self) -> &Self::Target {
        match &self.0 {
            Names::Borrowed(names) => names,
            Names::Owned(names) => names,
        }
    }
}

impl PartialEq for GivenNames<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for GivenNames<'_> {}

impl Hash for GivenNames<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (**self).hash(hasher);
    }
}

impl<'a, N: Into<Cow<'a, str>>> FromIterator<N> for GivenNames<'a> {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        Self(Names::Owned(names.into_iter().map(Into::into).collect()))
    }
}

impl<'a> From<&[&'a str]> for GivenNames<'a> {
    fn from(names: &[&'a str]) -> Self {
        names.iter().copied().collect()
    }
}

impl<'a, const N: usize> From<[&'a str; N]> for GivenNames<'a> {
    fn from(names: [&'a str; N]) -> Self {
        names.into_iter().collect()
    }
}

impl From<Vec<String>> for GivenNames<'_> {
    fn from(names: Vec<String>) -> Self {
        names.into_iter().collect()
    }
}
