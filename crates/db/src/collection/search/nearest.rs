//! Search: the nearest rows of one vector field.
//!
//! Where the field has a graph, rows in it are found there, and those that wait to enter it are
//! looked through beside it; else all rows are. A search sees one moment: rows that were removed
//! from the graph since are looked for once more.
//!
//! A key that several rows have is answered once, with the nearest of them. So where keys repeat
//! more rows are looked at, until there are enough keys or no more rows, a million at most.

use std::collections::HashSet;
use std::sync::Arc;

use pipeann_engine::distance::QueryDistance;
use pipeann_engine::search::{QueryJob, SearchParams};
use pipeann_engine::types::{Unfit, VectorSet, unfit};
use roaring::RoaringTreemap;

use super::answer::{BatchProgress, SearchAnswer, SearchHit};
use super::costs::CostCounters;
use super::request::SearchRequest;
use crate::asker;
use crate::catalog::{CollectionEntry as Entry, IndexState, WantedLoad};
use crate::collection::field_vectors::FieldVectors;
use crate::collection::partitions::partition_numbers;
use crate::collection::read::rows::RowReading;
use crate::collection::{Collection, CollectionError};
use crate::field_index::{
    AllowedRows, FieldIndex, FieldIndexError, GraphOutcome, StillWanted, has_graph,
};
use crate::flat::{FlatError, FlatSearch};
use crate::ids::{Metric, RowId, Seq};

/// A row near a query, before it is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::collection) struct Near {
    pub(in crate::collection) distance: f32,
    pub(in crate::collection) row: RowId,
}

/// What is near a query, and how many keys of it are wanted.
pub(in crate::collection) struct NearRows {
    pub(in crate::collection) wanted: usize,
    pub(in crate::collection) near: Vec<Near>,
}

/// What a search stands for at one moment: its names looked up, its filter resolved.
pub(in crate::collection) struct SearchContext<'c> {
    /// What all queries have in common; each has a `k` of its own.
    pub(in crate::collection) request: &'c SearchRequest<'c>,
    pub(in crate::collection) field: &'c FieldVectors,
    /// Its graph, and how often rows were taken from it before the moment of the search.
    pub(in crate::collection) graph: &'c Option<(u64, Arc<FieldIndex>)>,
    pub(in crate::collection) metric: Metric,
    pub(in crate::collection) among: &'c Arc<RoaringTreemap>,
    /// Whether these are all rows that live.
    pub(in crate::collection) all: bool,
    /// [`FlatVectors::cuts`](crate::flat::FlatVectors::cuts) before the moment.
    pub(in crate::collection) cuts: u64,
    /// The record up to which the moment sees.
    pub(in crate::collection) seen: Seq,
    pub(in crate::collection) costs: &'c CostCounters,
}

/// What a graph found for a query.
struct LinkedRows<'g> {
    /// How often rows were taken from it before the moment of the search.
    before: u64,
    graph: &'g FieldIndex,
    rows: AllowedRows<'g>,
    outcome: GraphOutcome,
}

impl SearchContext<'_> {
    /// Whether the moment is one that is kept, with all that it needs.
    fn is_pinned(&self) -> bool {
        self.request.moment.is_some()
    }

    /// How the graph is searched for `k` rows.
    fn params(&self, k: usize) -> SearchParams {
        let list = self.request.list.unwrap_or_else(|| (2 * k).max(DEFAULT_LIST));
        let list = list.max(k).min(SearchParams::LIST_MAX);
        SearchParams { k, list, within: self.request.within, ..SearchParams::default() }
    }
}

/// Length of the candidate list for few results.
const DEFAULT_LIST: usize = 64;
/// Rows that are looked at for enough keys.
const MOST_LOOKED_AT: usize = 1 << 20;
/// Queries done between two times that others may have their turn.
const QUERIES_AT_ONCE: usize = 256;
/// Whether somebody waits, as searches of a graph ask it. A look each time: they ask seldom.
const STILL_WANTED: StillWanted<'static> =
    StillWanted { now: &|| asker::worked(usize::MAX), between: &|| asker::go_on().is_ok() };

impl Collection {
    /// For each query the nearest of the rows that are wanted, nearest first; fewer than `k` where
    /// there are fewer keys, or the nearest million rows have fewer.
    ///
    /// # Errors
    /// [`CollectionError::NotLoaded`], bad input by name of what is wrong with it, or a failed
    /// read: then there is no answer, rather than one without some rows.
    ///
    /// # Panics
    /// Where the moment is of another collection.
    pub fn search(&self, request: &SearchRequest<'_>) -> Result<SearchAnswer, CollectionError> {
        let mut found = SearchAnswer::default();
        let mut search = || {
            self.search_batch(&[request], &mut |progress| {
                if let BatchProgress::Answered(_, answer) = progress {
                    found = answer;
                }
            })
        };
        match &request.asker {
            Some(asker) => asker::within(Some(Arc::clone(asker)), search)?,
            None => search()?,
        }
        Ok(found)
    }

    /// The rows that were found, the nearest one of each key, and as many keys as are wanted where
    /// there are so many.
    pub(in crate::collection) fn distinct(
        &self,
        reading: &RowReading<'_>,
        asked: &SearchContext<'_>,
        query: VectorSet<'_>,
        NearRows { wanted, mut near }: NearRows,
    ) -> Result<Vec<SearchHit>, CollectionError> {
        let most = usize::try_from(asked.among.len()).unwrap_or(usize::MAX).min(MOST_LOOKED_AT);
        let mut k = wanted;
        let mut read = *reading;
        loop {
            let mut keys = HashSet::new();
            let hits = self.hits(&read, &near)?.filter(|hit| keys.insert(hit.row.key.clone()));
            let hits: Vec<_> = hits.take(wanted).collect();
            if hits.len() >= wanted || k >= most || near.len() < k {
                let is_whole = read.sources.len() == reading.sources.len();
                return if is_whole { Ok(hits) } else { self.whole_hits(reading, hits) };
            }
            // Of rows that are looked at for their keys nothing else is read.
            read.sources = &[];
            k = most.min(k.saturating_mul(4));
            near = self.nearest(asked, query, &[k])?.remove(0);
        }
    }

    /// Rows that were found, read.
    fn hits<'n>(
        &self,
        reading: &RowReading<'_>,
        near: &'n [Near],
    ) -> Result<impl Iterator<Item = SearchHit> + use<'n>, CollectionError> {
        let rows: Vec<RowId> = near.iter().map(|near| near.row).collect();
        let hits = near.iter().zip(self.read(reading, &rows)?);
        Ok(hits.map(|(near, row)| SearchHit { distance: near.distance, row }))
    }

    /// Hits of which the keys alone were read, with all that is to be read.
    fn whole_hits(
        &self,
        reading: &RowReading<'_>,
        hits: Vec<SearchHit>,
    ) -> Result<Vec<SearchHit>, CollectionError> {
        let near = hits.iter().map(|hit| Near { distance: hit.distance, row: hit.row.row });
        Ok(self.hits(reading, &near.collect::<Vec<_>>())?.collect())
    }

    /// For each query the `k` nearest of some rows, nearest first; each has a `k` of its own.
    pub(in crate::collection) fn nearest(
        &self,
        asked: &SearchContext<'_>,
        queries: VectorSet<'_>,
        ks: &[usize],
    ) -> Result<Vec<Vec<Near>>, CollectionError> {
        let is_long = ks.iter().any(|k| *k > SearchParams::LIST_MAX);
        let Some((before, graph)) = asked.graph.as_ref().filter(|_| !is_long) else {
            return self.nearest_exactly(asked, asked.among, queries, ks);
        };
        // Before the graph: a row that enters it meanwhile is found here, or there, or in both.
        let pending = &*graph.pending() & &**asked.among;
        let mut found = match pending.is_empty() {
            true => vec![Vec::new(); queries.rows()],
            false => self.nearest_exactly(asked, &pending, queries, ks)?,
        };
        let allow = (!asked.all).then(|| self.answers.allow(asked.among, pending.len(), graph));
        let rows = AllowedRows { rows: asked.among, nodes: allow.as_ref() };
        let among_linked = |first: usize, found: &mut [Vec<Near>]| {
            for (part, found) in found.chunks_mut(QUERIES_AT_ONCE).enumerate() {
                asker::go_on()?;
                let first = first + part * QUERIES_AT_ONCE;
                let of_part = first..first + found.len();
                let params: Vec<_> = of_part.clone().map(|query| asked.params(ks[query])).collect();
                let job =
                    |(number, params)| QueryJob { number, query: queries.row(number), params };
                let jobs: Vec<_> = of_part.zip(&params).map(job).collect();
                let outcomes = graph.search_together(&jobs, rows, STILL_WANTED);
                asker::is_wanted()?;
                for ((near, outcome), job) in found.iter_mut().zip(outcomes).zip(&jobs) {
                    let query = one(queries, job.number);
                    let linked = LinkedRows { before: *before, graph, rows, outcome };
                    self.add_linked(asked, query, job.params.k, linked, near)?;
                }
            }
            Ok(())
        };
        let threads = self.options.search_threads.clamp(1, found.len().max(1));
        let each = found.len().div_ceil(threads);
        if threads == 1 {
            among_linked(0, &mut found)?;
        } else {
            std::thread::scope(|scope| {
                let parts = found.chunks_mut(each).enumerate();
                let (search, asks) = (&among_linked, asker::current());
                let parts: Vec<_> = parts
                    .map(|(i, part)| {
                        let asks = asks.clone();
                        let work = move || {
                            graph.enter_search_thread();
                            asker::within(asks, || search(i * each, part))
                        };
                        scope.spawn(work)
                    })
                    .collect();
                let mut joined =
                    parts.into_iter().map(|part| part.join().expect("no search panics"));
                joined.try_for_each(|outcome: Result<(), CollectionError>| outcome)
            })?;
        }
        Ok(found)
    }

    /// Adds the rows of the graph that are near one query to the pending ones that are.
    fn add_linked(
        &self,
        asked: &SearchContext<'_>,
        query: VectorSet<'_>,
        k: usize,
        linked: LinkedRows<'_>,
        near: &mut Vec<Near>,
    ) -> Result<(), CollectionError> {
        let LinkedRows { before, graph, rows, outcome } = linked;
        let (hits, stats) = match outcome {
            Err(error) if error.is_lasting_damage() => {
                self.graph_is_damaged(asked.field, graph, &error);
                *near = self.nearest_exactly(asked, asked.among, query, &[k])?.remove(0);
                return Ok(());
            }
            outcome => outcome.map_err(|error| self.index_error(asked.field, &error))?,
        };
        asked.costs.add_graph(&stats);
        // Rows of the moment that were removed since are not in the graph, or not found there.
        let removed = asked.is_pinned() || graph.removals() != before;
        let gone = match removed {
            true => &**asked.among - &*self.components.live().among(None),
            false => RoaringTreemap::new(),
        };
        // A walk through a graph in which few rows are wanted may end before it has met enough. How
        // many lie within a range nobody knows, but a list may have been too short for them.
        let there =
            rows.nodes.filter(|_| asked.request.within.is_all()).map_or(0, |allow| allow.len());
        let too_few = hits.len() as u64 + gone.len() < there.min(k as u64);
        if too_few || stats.cut_short > 0 {
            *near = self.nearest_exactly(asked, asked.among, query, &[k])?.remove(0);
            return Ok(());
        }
        if !gone.is_empty() {
            near.extend(self.nearest_gone(asked, &gone, query, k)?);
        }
        near.extend(hits.iter().map(|hit| Near { distance: hit.distance, row: hit.row }));
        near.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.row.cmp(&b.row)));
        let mut seen = HashSet::new();
        near.retain(|near| seen.insert(near.row));
        near.truncate(k);
        Ok(())
    }

    /// A search could not read a graph, and not for want of memory: rows are compared one by one
    /// until it is built anew from the vectors, which is ordered once.
    fn graph_is_damaged(&self, field: &FieldVectors, graph: &FieldIndex, error: &FieldIndexError) {
        if !graph.note_damage() {
            return;
        }
        tracing::error!(field = field.name, "a graph is damaged, so searches are exact: {error}");
        let ordered = self.graph_of(field).and_then(|definition| match definition {
            Some(index) if self.signal.building(index.id).is_none() => {
                self.build_index(&index.name)
            }
            _ => Ok(()),
        });
        if let Err(error) = ordered {
            tracing::warn!(field = field.name, "the damaged graph is not built anew: {error}");
        }
    }

    /// The same of rows that were removed since the moment of the search, commonly few.
    fn nearest_gone(
        &self,
        asked: &SearchContext<'_>,
        gone: &RoaringTreemap,
        query: VectorSet<'_>,
        k: usize,
    ) -> Result<Vec<Near>, CollectionError> {
        /// Rows that are read one by one; more of them, with all that lie between.
        const FEW: u64 = 1024;
        if gone.len() > FEW {
            return Ok(self.nearest_exactly(asked, gone, query, &[k])?.remove(0));
        }
        asked.costs.add_compared(1);
        let rows: Vec<RowId> = gone.iter().map(RowId).collect();
        let vectors = asked.field.vectors.gather(&rows).map_err(|error| match error {
            FlatError::Missing { row, .. } => {
                CollectionError::Missing { row, what: "vector".to_owned() }
            }
            error => CollectionError::vectors(&asked.field.name)(error),
        })?;
        let distance = QueryDistance::new(asked.metric, query.vector_type(), query.bytes());
        let each = vectors.chunks_exact(query.bytes().len()).zip(rows);
        let near = each.map(|(vector, row)| Near { distance: distance.distance(vector), row });
        Ok(near.filter(|near| asked.request.within.contains(near.distance)).collect())
    }

    /// The same by looking at each of the rows.
    ///
    /// # Errors
    /// [`CollectionError::Missing`] where rows of the moment may have left the disk.
    fn nearest_exactly(
        &self,
        asked: &SearchContext<'_>,
        among: &RoaringTreemap,
        queries: VectorSet<'_>,
        ks: &[usize],
    ) -> Result<Vec<Vec<Near>>, CollectionError> {
        asked.costs.add_compared(queries.rows());
        let (field, threads) = (asked.field, self.options.search_threads);
        let from = RowId(among.min().unwrap_or(0));
        // In the one order that exact distances have, fewer are the first of more.
        let k = ks.iter().copied().max().unwrap_or(0);
        let (metric, within) = (asked.metric, asked.request.within);
        let search = FlatSearch { k, metric, within, threads, from };
        let found = field.vectors.search(queries, search, &|row| among.contains(row.0));
        let found = found.map_err(CollectionError::vectors(&field.name))?;
        let overtaken =
            || field.vectors.cuts() != asked.cuts && self.components.live().applied != asked.seen;
        if !asked.is_pinned() && overtaken() {
            return Err(CollectionError::Missing { row: from, what: "vector".to_owned() });
        }
        let near = |(hits, &k): (Vec<_>, _)| {
            let near = |hit: crate::flat::FlatHit| Near { distance: hit.distance, row: hit.row };
            hits.into_iter().take(k).map(near).collect()
        };
        Ok(found.into_iter().zip(ks).map(near).collect())
    }

    /// Has the graph of a field built, where nobody has asked for it yet.
    pub(in crate::collection) fn build_unless_asked(
        &self,
        entry: &Entry,
        field: &FieldVectors,
    ) -> Result<(), CollectionError> {
        let mut indexes = entry.indexes_of(field.id);
        match indexes.find(|i| has_graph(i) && i.state == IndexState::NotBuilt) {
            Some(index) => self.build_index(&index.name),
            None => Ok(()),
        }
    }

    pub(in crate::collection) fn vector_field(
        &self,
        entry: &Entry,
        name: &str,
    ) -> Result<&FieldVectors, CollectionError> {
        let unknown = || CollectionError::Field {
            wanted: "vector field that can be searched, named",
            field: name.to_owned(),
        };
        // A name may only be looked up among fields of the schema at hand.
        entry.schema.field(name).ok_or_else(unknown)?;
        self.components.field(name).ok_or_else(unknown)
    }
}

/// One vector of a set, as a set.
pub(in crate::collection) fn one(set: VectorSet<'_>, row: usize) -> VectorSet<'_> {
    VectorSet::new(set.row(row), set.dim(), set.vector_type()).expect("a row of a set is a set")
}

/// The metric of a search: the one of the index, unless there is none.
pub(in crate::collection) fn metric_of(
    entry: &Entry,
    field: &FieldVectors,
    asked: Option<Metric>,
) -> Result<Metric, CollectionError> {
    let name = || field.name.clone();
    let ty = field.vector_type;
    let indexed = entry.indexes_of(field.id).find_map(|index| index.metric);
    match (indexed, asked) {
        (Some(expected), Some(found)) if expected != found => {
            Err(CollectionError::Metric { field: name(), expected, found })
        }
        (_, Some(metric)) if !ty.takes_metric(metric) => {
            Err(CollectionError::MetricOfType { field: name(), metric, ty })
        }
        (Some(metric), _) | (None, Some(metric)) => Ok(metric),
        (None, None) => Err(CollectionError::NoMetric { field: name() }),
    }
}

pub(in crate::collection) fn check_queries(
    field: &FieldVectors,
    queries: VectorSet<'_>,
) -> Result<(), CollectionError> {
    let found = (queries.dim(), queries.vector_type());
    let expected = (field.dim, field.vector_type);
    if found != expected {
        return Err(CollectionError::QueryShape { field: field.name.clone(), expected, found });
    }
    let ty = field.vector_type;
    for query in 0..queries.rows() {
        let vector = queries.row(query);
        let refuse = |why| Err(CollectionError::Query { field: field.name.clone(), query, why });
        match unfit(vector, ty) {
            None => {}
            Some(Unfit::NotFinite(_)) => return refuse("it holds NaN or infinity"),
            Some(Unfit::Norm(_)) => return refuse("its squared norm is more than an f32 holds"),
        }
    }
    Ok(())
}

/// The partitions to be searched, `None` for all.
pub(in crate::collection) fn loaded_partitions<N: AsRef<str>>(
    entry: &Entry,
    names: Option<&[N]>,
) -> Result<Option<Vec<u32>>, CollectionError> {
    let not_loaded = |name: &str| CollectionError::NotLoaded { name: name.to_owned() };
    for name in names.into_iter().flatten().map(AsRef::as_ref) {
        if !entry.load.includes(entry.partition(name)?.id) {
            return Err(not_loaded(name));
        }
    }
    match (&entry.load, names) {
        (WantedLoad::Released, _) => Err(not_loaded(&entry.name)),
        (WantedLoad::Whole, None) => Ok(None),
        (WantedLoad::Partitions(loaded), None) => {
            let loaded = entry.partitions.iter().filter(|p| loaded.contains(&p.id));
            let names: Vec<&str> = loaded.map(|partition| partition.name.as_str()).collect();
            partition_numbers(entry, Some(&names))
        }
        (_, some) => partition_numbers(entry, some),
    }
}
