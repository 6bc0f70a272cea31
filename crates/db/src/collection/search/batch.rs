//! A batch: several searches as one, whose common part is done once.
//!
//! Each search is answered as it would be alone: its `k`, and the length of the candidate list that
//! follows from it, are those of its own queries, and their walks do not know of each other. Common
//! are the snapshot, the compiled filter, the rows and nodes it selects, and the thread, which has
//! queries of several searches in flight.

use std::cell::{Cell, RefCell};
use std::iter::repeat_n;
use std::sync::Arc;

use pipeann_engine::types::VectorSet;

use super::answer::{BatchProgress, SearchAnswer};
use super::costs::CostCounters;
use super::nearest::{NearRows, SearchContext, check_queries, loaded_partitions, metric_of, one};
use super::request::SearchRequest;
use crate::collection::field_vectors::FieldVectors;
use crate::collection::filter::matching::Scope;
use crate::collection::read::rows::{ReadView, RowReading};
use crate::collection::{Collection, CollectionError};
use crate::field_index::FieldIndex;
use crate::ids::RowId;

/// Queries that are searched before the searches they belong to are answered.
const ANSWERED_AT_ONCE: usize = 32;

type ProgressFn<'f> = dyn FnMut(BatchProgress) + 'f;

impl Collection {
    /// Does several searches as one. They are alike in all but their vectors, `k`, output and asker,
    /// and in that too where there are groups. `tell` is given the answer of each in their order, some
    /// before the others are searched.
    ///
    /// # Errors
    /// What any of them would fail with, as told by [`search`](Self::search). Those that were not
    /// answered by then have no answer, and can be searched alone.
    ///
    /// # Panics
    /// Where the moment is of another collection.
    pub fn search_batch(
        &self,
        requests: &[&SearchRequest<'_>],
        tell: &mut ProgressFn<'_>,
    ) -> Result<(), CollectionError> {
        let costs = CostCounters::default();
        let Some(groups) = requests.first().and_then(|common| common.groups) else {
            return self.answer_each(requests, &costs, tell);
        };
        // Looking further comes after, since it looks at later moments.
        let mut first = Vec::with_capacity(requests.len());
        self.answer_each(requests, &costs, &mut |progress| {
            if let BatchProgress::Answered(_, answer) = progress {
                first.push(answer.hits);
            }
        })?;
        for (place, (request, first)) in requests.iter().zip(first).enumerate() {
            let hits = self.group_from(request, groups, first, &costs)?;
            let costs = costs.sum();
            let answer = SearchAnswer { hits, costs, ..SearchAnswer::default() };
            tell(BatchProgress::Answered(place, answer));
        }
        Ok(())
    }

    /// Answers each search with the nearest rows, in their order.
    pub(in crate::collection) fn answer_each(
        &self,
        requests: &[&SearchRequest<'_>],
        costs: &CostCounters,
        tell: &mut ProgressFn<'_>,
    ) -> Result<(), CollectionError> {
        let Some(&common) = requests.first() else { return Ok(()) };
        let entry = self.entry()?;
        let formats = self.formats(&entry);
        let field = self.vector_field(&entry, &common.field)?;
        let metric = metric_of(&entry, field, common.metric)?;
        let mut sources = Vec::with_capacity(requests.len());
        for request in requests {
            check_queries(field, request.vectors.as_set())?;
            sources.push(self.sources(&formats, &request.output)?);
        }
        let filter = self.bound(&formats, common.filter.as_ref())?;
        let numbers = loaded_partitions(&entry, common.partitions.as_deref())?;
        if self.options.build_on_read {
            self.build_unless_asked(&entry, field)?;
        }
        let before = || BeforeMoment::of(field);
        let holds = |before: &BeforeMoment| before.holds(field);
        // Where the moment has passed and is taken anew, some are answered.
        let answered = Cell::new(0);
        let tell = RefCell::new(tell);
        let held = common.moment.as_deref();
        let when = ReadView { entry: &entry, filter: filter.as_deref(), held };
        self.at_moment_of(when, before, holds, |BeforeMoment { graph, cuts }, moment| {
            let partitions = numbers.as_deref();
            let scope = Scope { entry: &entry, formats: &formats, moment, partitions, rows: None };
            let among = &self.rows_matching(&scope, filter.as_ref(), u64::MAX)?;
            // Rows in the graph that the moment does not see are to be passed over.
            let hides = held.is_some() || moment.live.hidden_before > RowId(0);
            let all = numbers.is_none() && filter.is_none() && !hides;
            let (cuts, seen) = (*cuts, moment.live.applied);
            let context = SearchContext {
                request: common,
                field,
                graph,
                metric,
                among,
                all,
                cuts,
                seen,
                costs,
            };
            let reading =
                |place: usize| RowReading { formats: &formats, moment, sources: &sources[place] };
            let most = usize::try_from(among.len()).unwrap_or(usize::MAX);
            while answered.get() < requests.len() {
                let first = answered.get();
                let part = &requests[first..first + answered_at_once(&requests[first..])];
                let joined = JoinedQueries::new(part, most);
                let mut found = self.nearest(&context, joined.set(), &joined.ks)?.into_iter();
                (tell.borrow_mut())(BatchProgress::Found);
                let mut query = 0;
                for (place, request) in part.iter().enumerate() {
                    let queries = request.vectors.as_set().rows();
                    let mut hits = Vec::with_capacity(queries);
                    let reading = reading(first + place);
                    for near in found.by_ref().take(queries) {
                        let vector = one(joined.set(), query);
                        let near = NearRows { wanted: joined.ks[query], near };
                        hits.push(self.distinct(&reading, &context, vector, near)?);
                        query += 1;
                    }
                    answered.set(first + place + 1);
                    let costs = costs.sum();
                    let answer = SearchAnswer { hits, costs, ..SearchAnswer::default() };
                    (tell.borrow_mut())(BatchProgress::Answered(first + place, answer));
                }
            }
            Ok(())
        })
    }
}

/// What a search looks at before it takes its moment.
struct BeforeMoment {
    /// Its graph, and how often rows were taken from it. What is removed after this was there at the
    /// moment, or is looked for.
    graph: Option<(u64, Arc<FieldIndex>)>,
    cuts: u64,
}

impl BeforeMoment {
    fn of(field: &FieldVectors) -> Self {
        let graph = field.graph().map(|graph| (graph.removals(), graph));
        Self { graph, cuts: field.vectors.cuts() }
    }

    /// Whether the graph has every row of a moment that has come since: not where another one has
    /// taken its place, which alone is told of rows then.
    fn holds(&self, field: &FieldVectors) -> bool {
        self.graph.as_ref().is_none_or(|(_, graph)| field.is_searched(graph))
    }
}

/// How many searches are answered together: one at least.
fn answered_at_once(requests: &[&SearchRequest<'_>]) -> usize {
    let mut queries = 0;
    let fit = requests.iter().take_while(|request| {
        queries += request.vectors.as_set().rows();
        queries <= ANSWERED_AT_ONCE
    });
    fit.count().max(1)
}

/// The queries of several searches, one after the other.
struct JoinedQueries<'a> {
    /// Of one search its own bytes, of several a copy.
    first: VectorSet<'a>,
    copied: Option<Vec<u8>>,
    /// How many keys each wants.
    ks: Vec<usize>,
}

impl<'a> JoinedQueries<'a> {
    /// `most` keys of each query at most.
    fn new(requests: &[&'a SearchRequest<'_>], most: usize) -> Self {
        let sets = || requests.iter().map(|request| request.vectors.as_set());
        let ks = requests.iter().zip(sets());
        let ks = ks.flat_map(|(request, set)| repeat_n(request.k.min(most), set.rows())).collect();
        let copied = (requests.len() > 1)
            .then(|| sets().map(|set| set.bytes()).collect::<Vec<_>>().concat());
        Self { first: requests[0].vectors.as_set(), copied, ks }
    }

    fn set(&self) -> VectorSet<'_> {
        let Some(bytes) = &self.copied else { return self.first };
        VectorSet::new(bytes, self.first.dim(), self.first.vector_type())
            .expect("they were found to have one shape")
    }
}
