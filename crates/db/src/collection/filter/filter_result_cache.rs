//! The filter-result cache: rows that filters and partitions selected lately, so that a repeated
//! search selects them once.
//!
//! A result holds for one record of the log: each write makes the results before it useless, and
//! they give way to newer ones. With it stand the nodes that its rows have in graphs, which hold
//! until rows enter the graph or its nodes are numbered anew. The memory is the accountant's; where
//! it grants none, nothing is kept.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use lru::LruCache;
use pipeann_engine::memory::{Accountant, Pool, Reservation};
use pipeann_engine::update::AllowList;
use roaring::RoaringTreemap;

use super::filter_cache::MOST;
use crate::expr::BoundFilter;
use crate::field_index::FieldIndex;
use crate::ids::{RowId, Seq};

/// Above one row in so many of a graph, testing the rows that a search meets costs less than
/// looking up the nodes of all.
const FEW: u64 = 3;
/// Bytes of all answers.
const MOST_BYTES: u64 = 64 << 20;

/// What was asked. A filter that was compiled anew is another.
#[derive(Clone, Debug)]
pub(in crate::collection) struct FilterQuestion {
    /// None where all rows match.
    pub(in crate::collection) filter: Option<Arc<BoundFilter>>,
    /// None for all.
    pub(in crate::collection) partitions: Option<Vec<u32>>,
    /// The record up to which the moment sees.
    pub(in crate::collection) applied: Seq,
    /// The moment does not see rows below.
    pub(in crate::collection) hidden_before: RowId,
}

impl FilterQuestion {
    fn identity(&self) -> impl Hash + Eq {
        let filter = self.filter.as_ref().map(Arc::as_ptr);
        (filter, self.partitions.as_deref(), self.applied, self.hidden_before)
    }
}

impl PartialEq for FilterQuestion {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for FilterQuestion {}

impl Hash for FilterQuestion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

struct CachedResult {
    rows: Arc<RoaringTreemap>,
    nodes: Vec<ResultNodes>,
    /// Whether it was asked for again.
    again: bool,
    rows_bytes: u64,
    _memory: Reservation,
}

/// The nodes that the rows of an answer have in a graph.
struct ResultNodes {
    graph: Weak<FieldIndex>,
    /// Of the graph, before the nodes were looked up.
    entered: u64,
    among: AllowList,
    bytes: u64,
    _memory: Reservation,
}

impl CachedResult {
    fn bytes(&self) -> u64 {
        self.rows_bytes + self.nodes.iter().map(|nodes| nodes.bytes).sum::<u64>()
    }

    fn nodes_in(&self, graph: &Arc<FieldIndex>) -> Option<&ResultNodes> {
        self.nodes.iter().find(|nodes| nodes.are_of(graph))
    }
}

impl ResultNodes {
    fn are_of(&self, graph: &Arc<FieldIndex>) -> bool {
        std::ptr::eq(self.graph.as_ptr(), Arc::as_ptr(graph))
    }
}

pub(in crate::collection) struct FilterResultCache {
    accountant: Arc<Accountant>,
    /// Made by the first question: most of many collections are asked none.
    kept: OnceLock<Box<Mutex<KeptResult>>>,
}

struct KeptResult {
    answers: LruCache<FilterQuestion, CachedResult>,
    /// To which question these rows are the answer, by their address.
    questions: HashMap<usize, FilterQuestion>,
    /// Of all answers.
    bytes: u64,
    /// The last record that an answer holds for.
    newest: Seq,
    /// Whether something was asked since the last rest.
    asked: bool,
}

impl FilterResultCache {
    pub(in crate::collection) fn new(accountant: &Arc<Accountant>) -> Self {
        Self { accountant: Arc::clone(accountant), kept: OnceLock::new() }
    }

    /// The rows, if this was asked lately.
    pub(in crate::collection) fn find(
        &self,
        question: &FilterQuestion,
    ) -> Option<Arc<RoaringTreemap>> {
        let mut kept = self.kept();
        kept.asked = true;
        let answer = kept.answers.get_mut(question)?;
        answer.again = true;
        Some(Arc::clone(&answer.rows))
    }

    /// Keeps the rows, unless the filter is one that is not kept either and will not come again.
    pub(in crate::collection) fn keep(&self, question: FilterQuestion, rows: &Arc<RoaringTreemap>) {
        if question.filter.as_ref().is_some_and(|filter| Arc::strong_count(filter) < 3) {
            return;
        }
        let rows_bytes = rows.serialized_size() as u64;
        let mut kept = self.kept();
        // Readers of an older moment come seldom.
        if kept.newest < question.applied {
            kept.clear();
            kept.newest = question.applied;
        }
        let Some(memory) = self.room_for(rows_bytes, &mut kept) else { return };
        let rows = Arc::clone(rows);
        let answer =
            CachedResult { rows, nodes: Vec::new(), again: false, rows_bytes, _memory: memory };
        kept.add(question, answer);
    }

    /// Keeps none of them any more.
    pub(in crate::collection) fn clear(&self) {
        if self.kept.get().is_some() {
            self.kept().clear();
        }
    }

    /// To be called now and then: drops all answers if nothing was asked since the last time, and
    /// says whether it did.
    pub(in crate::collection) fn trim(&self) -> bool {
        if self.kept.get().is_none() {
            return false;
        }
        let mut kept = self.kept();
        let rests = !std::mem::take(&mut kept.asked) && !kept.answers.is_empty();
        if rests {
            kept.clear();
        }
        rests
    }

    /// What [`FieldIndex::allow`] says of the rows of an answer, or of others. Where most rows of
    /// the graph are wanted, and were not asked for before, their nodes are not looked up;
    /// `pending` of them are not in the graph.
    pub(in crate::collection) fn allow(
        &self,
        rows: &Arc<RoaringTreemap>,
        pending: u64,
        graph: &Arc<FieldIndex>,
    ) -> AllowList {
        let entered = graph.entered();
        {
            let mut kept = self.kept();
            let answer = kept.answer_of(rows);
            let nodes = answer.as_ref().and_then(|answer| answer.nodes_in(graph));
            if let Some(nodes) = nodes.filter(|nodes| nodes.entered == entered) {
                return nodes.among.clone();
            }
            let expected = rows.len().saturating_sub(pending);
            if !answer.is_some_and(|answer| answer.again) && are_tested(expected, graph) {
                return FieldIndex::allow_tested(rows, expected);
            }
        }
        let among = graph.allow(rows);
        let bytes = among.bytes();
        let mut kept = self.kept();
        kept.forget_nodes(rows, graph);
        if let Some(memory) = self.room_for(bytes, &mut kept) {
            let (graph, among) = (Arc::downgrade(graph), among.clone());
            kept.add_nodes(rows, ResultNodes { graph, entered, among, bytes, _memory: memory });
        }
        among
    }

    /// Memory for so many bytes; what was not used for longest gives way.
    fn room_for(&self, bytes: u64, kept: &mut KeptResult) -> Option<Reservation> {
        if bytes > MOST_BYTES / 4 {
            return None;
        }
        while kept.answers.len() >= MOST || kept.bytes + bytes > MOST_BYTES {
            kept.forget_oldest();
        }
        self.accountant.reserve(Pool::Postings, bytes).ok()
    }

    fn kept(&self) -> MutexGuard<'_, KeptResult> {
        let none = || KeptResult {
            answers: LruCache::unbounded(),
            questions: HashMap::new(),
            bytes: 0,
            newest: Seq(0),
            asked: false,
        };
        let kept = self.kept.get_or_init(|| Box::new(Mutex::new(none())));
        kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptResult {
    fn clear(&mut self) {
        self.answers.clear();
        self.questions.clear();
        self.bytes = 0;
    }

    fn add(&mut self, question: FilterQuestion, answer: CachedResult) {
        self.bytes += answer.bytes();
        self.questions.insert(address(&answer.rows), question.clone());
        if let Some(before) = self.answers.put(question, answer) {
            self.forgot(&before);
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, answer)) = self.answers.pop_lru() {
            self.forgot(&answer);
        }
    }

    fn forgot(&mut self, answer: &CachedResult) {
        self.bytes -= answer.bytes();
        self.questions.remove(&address(&answer.rows));
    }

    /// The answer that these rows are.
    fn answer_of(&mut self, rows: &Arc<RoaringTreemap>) -> Option<&mut CachedResult> {
        self.answers.peek_mut(self.questions.get(&address(rows))?)
    }

    /// Keeps nodes of the rows of an answer, if that is still kept.
    fn add_nodes(&mut self, rows: &Arc<RoaringTreemap>, nodes: ResultNodes) {
        let bytes = nodes.bytes;
        if let Some(answer) = self.answer_of(rows) {
            answer.nodes.push(nodes);
            self.bytes += bytes;
        }
    }

    /// Drops nodes that these rows had in this graph before, and in graphs that are gone.
    fn forget_nodes(&mut self, rows: &Arc<RoaringTreemap>, graph: &Arc<FieldIndex>) {
        if let Some(answer) = self.answer_of(rows) {
            let before = answer.bytes();
            answer.nodes.retain(|nodes| !nodes.are_of(graph) && nodes.graph.strong_count() > 0);
            let freed = before - answer.bytes();
            self.bytes -= freed;
        }
    }
}

/// Of rows that are kept, and so of no others meanwhile.
fn address(rows: &Arc<RoaringTreemap>) -> usize {
    Arc::as_ptr(rows).addr()
}

/// Whether so many rows of a graph are wanted that a search among them that is not repeated tests
/// the rows it meets.
pub(in crate::collection) fn are_tested(expected: u64, graph: &FieldIndex) -> bool {
    expected >= graph.linked() / FEW
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(partition: u32, applied: u64) -> FilterQuestion {
        let partitions = Some(vec![partition]);
        FilterQuestion { filter: None, partitions, applied: Seq(applied), hidden_before: RowId(0) }
    }

    #[test]
    fn answers_hold_for_one_question_at_one_record() {
        let accountant = Accountant::new(None);
        let answers = FilterResultCache::new(&accountant);
        let rows = Arc::new(RoaringTreemap::from_iter(0..100));
        answers.keep(question(1, 7), &rows);
        assert!(Arc::ptr_eq(&answers.find(&question(1, 7)).unwrap(), &rows));
        assert!(answers.find(&question(2, 7)).is_none());
        assert!(answers.find(&question(1, 8)).is_none());
        assert_eq!(accountant.pool_bytes(Pool::Postings), rows.serialized_size() as u64);
        answers.keep(question(2, 8), &rows);
        assert!(answers.find(&question(1, 7)).is_none(), "a write came since");
        assert_eq!(accountant.pool_bytes(Pool::Postings), rows.serialized_size() as u64);
    }

    #[test]
    fn few_are_kept_and_none_without_memory() {
        let accountant = Accountant::new(Some(2000));
        let answers = FilterResultCache::new(&accountant);
        let rows = Arc::new(RoaringTreemap::from_iter((0..400).map(|row| row * 2)));
        assert!((700..1000).contains(&rows.serialized_size()));
        (0..3).for_each(|partition| answers.keep(question(partition, 1), &rows));
        assert!(answers.find(&question(1, 1)).is_some());
        assert!(answers.find(&question(2, 1)).is_none(), "the limit is reached");
        let answers = FilterResultCache::new(&Accountant::new(None));
        (0..2 * MOST as u32).for_each(|partition| answers.keep(question(partition, 1), &rows));
        let found = (0..2 * MOST as u32).filter(|p| answers.find(&question(*p, 1)).is_some());
        assert_eq!(found.count(), MOST);
    }

    #[test]
    fn what_is_not_asked_for_is_dropped_at_the_second_rest() {
        let accountant = Accountant::new(None);
        let answers = FilterResultCache::new(&accountant);
        let rows = Arc::new(RoaringTreemap::from_iter(0..100));
        assert!(!answers.trim(), "there is nothing");
        assert!(answers.find(&question(1, 1)).is_none());
        answers.keep(question(1, 1), &rows);
        assert!(!answers.trim(), "it was asked for");
        assert!(answers.find(&question(1, 1)).is_some());
        assert!(!answers.trim(), "it was asked for again");
        assert_ne!(accountant.held_bytes(), 0);
        assert!(answers.trim());
        assert_eq!(accountant.held_bytes(), 0);
        assert!(answers.find(&question(1, 1)).is_none());
    }

    #[test]
    fn those_used_lately_stay_within_the_bytes_and_sums_are_exact() {
        let accountant = Accountant::new(None);
        let answers = FilterResultCache::new(&accountant);
        // 64 KiB each at most: a bit for each second row.
        let many = || Arc::new(RoaringTreemap::from_iter((0..1 << 19).map(|row| row * 2)));
        let bytes = many().serialized_size() as u64;
        let fit = u32::try_from(MOST_BYTES / bytes).unwrap();
        for partition in 0..2 * fit {
            answers.keep(question(partition, 1), &many());
            assert!(answers.find(&question(0, 1)).is_some(), "it was used lately");
        }
        let found = (0..2 * fit).filter(|p| answers.find(&question(*p, 1)).is_some());
        assert_eq!(found.count(), fit as usize);
        assert_eq!(accountant.pool_bytes(Pool::Postings), u64::from(fit) * bytes);
        // The same question once more takes the place of the first.
        answers.keep(question(0, 1), &many());
        {
            let kept = answers.kept();
            assert_eq!(kept.bytes, accountant.pool_bytes(Pool::Postings));
            assert_eq!(kept.answers.len(), kept.questions.len());
        }
        answers.clear();
        assert_eq!((answers.kept().bytes, accountant.pool_bytes(Pool::Postings)), (0, 0));
    }
}
