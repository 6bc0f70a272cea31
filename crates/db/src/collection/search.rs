//! Search: the nearest rows of one vector field.
//!
//! A key that several rows have is answered once, with the nearest of them. So where keys repeat
//! more rows are looked at, until there are enough keys or no more rows.

use std::collections::HashSet;
use std::sync::Arc;

use pipeann_engine::types::{VectorSet, to_f32};
use roaring::RoaringTreemap;

use super::components::FieldVectors;
use super::read::{FoundRow, partition_numbers};
use super::{Collection, CollectionError};
use crate::catalog::{Collection as Entry, Load};
use crate::flat::FlatSearch;
use crate::ids::{Metric, RowId, VectorType};

/// What is asked.
#[derive(Clone, Debug)]
pub struct VectorSearch<'a> {
    /// Name of the vector field.
    pub field: &'a str,
    /// How many rows each query wants.
    pub k: usize,
    /// How vectors are compared: as the index of the field does, unless given.
    pub metric: Option<Metric>,
    /// Names of partitions; all that are loaded unless given.
    pub partitions: Option<&'a [&'a str]>,
    /// Names of fields to be read of each row.
    pub output: &'a [&'a str],
}

/// A row found by a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// Exact distance; smaller is nearer, for every metric.
    pub distance: f32,
    /// The row.
    pub row: FoundRow,
}

/// A row near a query, before it is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Near {
    pub(super) distance: f32,
    pub(super) row: RowId,
}

impl Collection {
    /// For each query the nearest rows, nearest first; fewer than `k` where there are fewer keys.
    ///
    /// # Errors
    /// [`CollectionError::NotLoaded`], bad input by name of what is wrong with it, or a failed
    /// read: then there is no answer, rather than one without some rows.
    pub fn search(
        &self,
        search: &VectorSearch<'_>,
        queries: VectorSet<'_>,
    ) -> Result<Vec<Vec<SearchHit>>, CollectionError> {
        let entry = self.entry()?;
        let formats = self.formats(&entry);
        let field = self.vector_field(&entry, search.field)?;
        let metric = metric_of(&entry, field, search.metric)?;
        check_queries(field, metric, queries)?;
        let sources = self.sources(&formats, search.output)?;
        let numbers = loaded_partitions(&entry, search.partitions)?;
        let moment = self.components.moment();
        let among = moment.live.among(numbers.as_deref());
        let wanted = usize::try_from(among.len()).unwrap_or(usize::MAX).min(search.k);
        let mut answers = Vec::with_capacity(queries.rows());
        let mut nearest = self.nearest(field, metric, queries, wanted, &among)?;
        for (query, near) in nearest.iter_mut().enumerate() {
            let mut k = wanted;
            loop {
                let rows: Vec<RowId> = near.iter().map(|near| near.row).collect();
                let read = self.read(&formats, &moment, &rows, &sources)?;
                let mut keys = HashSet::new();
                let hits = near
                    .iter()
                    .zip(read)
                    .map(|(near, row)| SearchHit { distance: near.distance, row });
                let hits: Vec<_> =
                    hits.filter(|hit| keys.insert(hit.row.key.clone())).take(search.k).collect();
                if hits.len() >= wanted || k as u64 >= among.len() || near.len() < k {
                    answers.push(hits);
                    break;
                }
                k = usize::try_from(among.len()).unwrap_or(usize::MAX).min(k.saturating_mul(4));
                let one = VectorSet::new(queries.row(query), queries.dim(), queries.vector_type());
                let one = one.expect("a row of a set is a set");
                let more = self.nearest(field, metric, one, k, &among)?;
                *near = more.into_iter().next().expect("one answer for one query");
            }
        }
        Ok(answers)
    }

    /// For each query the `k` nearest of some rows, nearest first.
    fn nearest(
        &self,
        field: &FieldVectors,
        metric: Metric,
        queries: VectorSet<'_>,
        k: usize,
        among: &Arc<RoaringTreemap>,
    ) -> Result<Vec<Vec<Near>>, CollectionError> {
        let search = FlatSearch { k, metric, threads: self.options.search_threads };
        let found = field.vectors.search(queries, search, &|row| among.contains(row.0));
        let found = found.map_err(CollectionError::vectors(&field.name))?;
        let near = |hits: Vec<_>| {
            let near = |hit: crate::flat::FlatHit| Near { distance: hit.distance, row: hit.row };
            hits.into_iter().map(near).collect()
        };
        Ok(found.into_iter().map(near).collect())
    }

    fn vector_field(&self, entry: &Entry, name: &str) -> Result<&FieldVectors, CollectionError> {
        let unknown = || CollectionError::Field {
            wanted: "vector field that can be searched, named",
            field: name.to_owned(),
        };
        // A name may only be looked up among fields of the schema at hand.
        entry.schema.field(name).ok_or_else(unknown)?;
        self.components.field(name).ok_or_else(unknown)
    }
}

/// The metric of a search: the one of the index, unless there is none.
fn metric_of(
    entry: &Entry,
    field: &FieldVectors,
    asked: Option<Metric>,
) -> Result<Metric, CollectionError> {
    let name = || field.name.clone();
    let indexed = entry.indexes_of(field.id).find_map(|index| index.metric);
    match (indexed, asked) {
        (Some(expected), Some(found)) if expected != found => {
            Err(CollectionError::Metric { field: name(), expected, found })
        }
        (Some(metric), _) | (None, Some(metric)) => Ok(metric),
        (None, None) => Err(CollectionError::NoMetric { field: name() }),
    }
}

fn check_queries(
    field: &FieldVectors,
    metric: Metric,
    queries: VectorSet<'_>,
) -> Result<(), CollectionError> {
    let found = (queries.dim(), queries.vector_type());
    let expected = (field.dim, field.vector_type);
    if found != expected {
        return Err(CollectionError::QueryShape { field: field.name.clone(), expected, found });
    }
    let mut components = vec![0.0; queries.dim()];
    for query in 0..queries.rows() {
        to_f32(queries.row(query), queries.vector_type(), &mut components);
        let refuse = |why| Err(CollectionError::Query { field: field.name.clone(), query, why });
        if queries.vector_type() == VectorType::F32 && !components.iter().all(|c| c.is_finite()) {
            return refuse("it holds NaN or infinity");
        }
        if metric == Metric::Cosine && components.iter().all(|&c| c == 0.0) {
            return refuse("it is a zero vector, which has no cosine similarity to anything");
        }
    }
    Ok(())
}

/// The partitions to be searched, `None` for all.
fn loaded_partitions(
    entry: &Entry,
    names: Option<&[&str]>,
) -> Result<Option<Vec<u32>>, CollectionError> {
    let not_loaded = |name: &str| CollectionError::NotLoaded { name: name.to_owned() };
    for name in names.into_iter().flatten() {
        if !entry.load.includes(entry.partition(name)?.id) {
            return Err(not_loaded(name));
        }
    }
    match (&entry.load, names) {
        (Load::Released, _) => Err(not_loaded(&entry.name)),
        (Load::Whole, None) => Ok(None),
        (Load::Partitions(loaded), None) => {
            let loaded = entry.partitions.iter().filter(|p| loaded.contains(&p.id));
            let names: Vec<&str> = loaded.map(|partition| partition.name.as_str()).collect();
            partition_numbers(entry, Some(&names))
        }
        (_, some) => partition_numbers(entry, some),
    }
}
