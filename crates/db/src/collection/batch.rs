//! A batch: several searches as one, whose common part is done once.
//!
//! Each search is answered as it would be alone: its `k`, and the length of the candidate list that
//! follows from it, are those of its own queries, and their walks do not know of each other. Common
//! are the snapshot, the compiled filter, the rows and nodes it selects, and the thread, which has
//! queries of several searches in flight.

use std::cell::{Cell, RefCell};

use pipeann_engine::search::DistanceRange;
use pipeann_engine::types::VectorSet;

use super::costs::CostCounters;
use super::filter::Scope;
use super::pinned_snapshot::PinnedSnapshot;
use super::read::ReadView;
use super::search::{
    SearchContext, SearchHit, VectorSearch, check_queries, loaded_partitions, metric_of, one,
};
use super::selected::Selection;
use super::{Collection, CollectionError};
use crate::ids::RowId;

/// A search that others may join.
#[derive(Clone, Copy, Debug)]
pub struct BatchedSearch<'a> {
    /// What is asked.
    pub search: &'a VectorSearch<'a>,
    /// Of which vectors.
    pub queries: VectorSet<'a>,
    /// Which of the nearest rows.
    pub selection: &'a Selection,
    /// As of which moment; now unless given.
    pub held: Option<&'a PinnedSnapshot>,
}

/// Queries that are searched before the searches they belong to are answered.
const ANSWERED_AT_ONCE: usize = 32;

/// How far several searches have come.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchProgress {
    /// The rows near the queries of the next few searches are found, and are read now.
    Found,
    /// The search in this place is answered: the hits of each of its queries.
    Answered(usize, Vec<Vec<SearchHit>>),
}

type ProgressFn<'f> = dyn FnMut(BatchProgress) + 'f;

impl Collection {
    /// Does several searches as one. They are alike in their field, metric, length of the candidate
    /// list, partitions, filter, selection and moment. `tell` is given the hits of each in their order, some
    /// before the others are searched.
    ///
    /// # Errors
    /// What any of them would fail with, as told by [`search_selected`](Self::search_selected).
    /// Those that were not answered by then have no answer, and can be searched alone.
    ///
    /// # Panics
    /// Where the moment is of another collection.
    pub fn search_joined(
        &self,
        searches: &[BatchedSearch<'_>],
        tell: &mut ProgressFn<'_>,
    ) -> Result<(), CollectionError> {
        let Some(&BatchedSearch { selection, held, .. }) = searches.first() else { return Ok(()) };
        let of = (selection.within, held);
        let costs = CostCounters::default();
        let asked: Vec<_> = searches.iter().map(|joined| (joined.search, joined.queries)).collect();
        let Some(groups) = selection.groups else {
            return self.answer_each(&asked, of, &costs, tell);
        };
        // Looking further comes after, since it looks at later moments.
        let mut first = Vec::with_capacity(searches.len());
        self.answer_each(&asked, of, &costs, &mut |progress| {
            if let BatchProgress::Answered(_, hits) = progress {
                first.push(hits);
            }
        })?;
        for (place, (&(search, queries), first)) in asked.iter().zip(first).enumerate() {
            let wanted = (selection.within, groups, held);
            let hits = self.group_from(search, queries, wanted, first)?;
            tell(BatchProgress::Answered(place, hits));
        }
        Ok(())
    }

    /// Answers each search, in their order.
    pub(super) fn answer_each(
        &self,
        searches: &[(&VectorSearch<'_>, VectorSet<'_>)],
        (within, held): (DistanceRange, Option<&PinnedSnapshot>),
        costs: &CostCounters,
        tell: &mut ProgressFn<'_>,
    ) -> Result<(), CollectionError> {
        let Some(&(common, _)) = searches.first() else { return Ok(()) };
        let entry = self.entry()?;
        let formats = self.formats(&entry);
        let field = self.vector_field(&entry, common.field)?;
        let metric = metric_of(&entry, field, common.metric)?;
        let mut sources = Vec::with_capacity(searches.len());
        for (search, queries) in searches {
            check_queries(field, *queries)?;
            sources.push(self.sources(&formats, search.output)?);
        }
        let filter = self.bound(&formats, common.filter)?;
        let numbers = loaded_partitions(&entry, common.partitions)?;
        if self.options.build_on_read {
            self.build_unless_asked(&entry, field)?;
        }
        // What is removed from the graph after this was there at the moment, or is looked for.
        let before = || {
            let graph = field.graph().map(|graph| (graph.removals(), graph));
            (graph, field.vectors.cuts())
        };
        // Where the moment has passed and is taken anew, some are answered.
        let answered = Cell::new(0);
        let tell = RefCell::new(tell);
        let when = ReadView { entry: &entry, filter: filter.as_deref(), held };
        self.at_one_moment(when, before, |(graph, cuts), moment| {
            let partitions = numbers.as_deref();
            let scope = Scope { entry: &entry, formats: &formats, moment, partitions, rows: None };
            let among = &self.rows_matching(&scope, filter.as_ref(), u64::MAX)?;
            // Rows in the graph that the moment does not see are to be passed over.
            let hides = held.is_some() || moment.live.hidden_before > RowId(0);
            let all = numbers.is_none() && filter.is_none() && !hides;
            let (list, cuts, seen) = (common.list, *cuts, moment.live.applied);
            let held = held.is_some();
            let asked = SearchContext {
                field,
                graph,
                metric,
                list,
                within,
                among,
                all,
                cuts,
                seen,
                held,
                costs,
            };
            let most = usize::try_from(among.len()).unwrap_or(usize::MAX);
            while answered.get() < searches.len() {
                let first = answered.get();
                let part = &searches[first..first + answered_at_once(&searches[first..])];
                let joined = JoinedQueries::new(part, most);
                let mut found = self.nearest(&asked, joined.set(), &joined.ks)?.into_iter();
                (tell.borrow_mut())(BatchProgress::Found);
                let mut query = 0;
                for (place, (_, queries)) in part.iter().enumerate() {
                    let mut hits = Vec::with_capacity(queries.rows());
                    for near in found.by_ref().take(queries.rows()) {
                        let near = (joined.ks[query], near);
                        let read = (&*formats, moment, &*sources[first + place]);
                        hits.push(self.distinct(read, &asked, one(joined.set(), query), near)?);
                        query += 1;
                    }
                    answered.set(first + place + 1);
                    (tell.borrow_mut())(BatchProgress::Answered(first + place, hits));
                }
            }
            Ok(())
        })
    }
}

/// How many searches are answered together: one at least.
fn answered_at_once(searches: &[(&VectorSearch<'_>, VectorSet<'_>)]) -> usize {
    let mut queries = 0;
    let fit = searches.iter().take_while(|(_, set)| {
        queries += set.rows();
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
    fn new(searches: &[(&VectorSearch<'_>, VectorSet<'a>)], most: usize) -> Self {
        let ks = searches
            .iter()
            .flat_map(|(search, set)| std::iter::repeat_n(search.k.min(most), set.rows()));
        let ks = ks.collect();
        let copied = (searches.len() > 1).then(|| {
            let each: Vec<&[u8]> = searches.iter().map(|(_, set)| set.bytes()).collect();
            each.concat()
        });
        Self { first: searches[0].1, copied, ks }
    }

    fn set(&self) -> VectorSet<'_> {
        let Some(bytes) = &self.copied else { return self.first };
        VectorSet::new(bytes, self.first.dim(), self.first.vector_type())
            .expect("they were found to have one shape")
    }
}
