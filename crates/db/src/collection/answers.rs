//! Rows that filters and partitions selected lately, so that a repeated search selects them once.
//!
//! An answer holds for one record of the log: each write makes the answers before it useless, and
//! they give way to newer ones. With it stand the nodes that its rows have in graphs, which hold
//! until rows enter the graph or its nodes are numbered anew. The memory is the accountant's; where
//! it grants none, nothing is kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pipeann_engine::memory::{Accountant, Pool, Reservation};
use pipeann_engine::update::Among;
use roaring::RoaringTreemap;

use crate::expr::BoundFilter;
use crate::field_index::FieldIndex;
use crate::ids::{RowId, Seq};

/// Answers that are kept, where their bytes leave room for so many. Clients ask for few of the values
/// again and again, and for others between.
const MOST: usize = 256;
/// Above one row in so many of a graph, testing the rows that a search meets costs less than
/// looking up the nodes of all.
const FEW: u64 = 3;
/// Bytes of all answers.
const MOST_BYTES: u64 = 32 << 20;

/// What was asked.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// None where all rows match.
    pub(super) filter: Option<Arc<BoundFilter>>,
    /// None for all.
    pub(super) partitions: Option<Vec<u32>>,
    /// The record up to which the moment sees.
    pub(super) applied: Seq,
    /// The moment does not see rows below.
    pub(super) hidden_before: RowId,
}

impl Question {
    fn is(&self, other: &Self) -> bool {
        let same_filter = match (&self.filter, &other.filter) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        let same_moment =
            self.applied == other.applied && self.hidden_before == other.hidden_before;
        same_filter && same_moment && self.partitions == other.partitions
    }
}

struct Answer {
    question: Question,
    rows: Arc<RoaringTreemap>,
    nodes: Vec<Nodes>,
    /// Whether it was asked for again.
    again: bool,
    bytes: u64,
    _memory: Reservation,
}

/// The nodes that the rows of an answer have in a graph.
struct Nodes {
    graph: Weak<FieldIndex>,
    /// Of the graph, before the nodes were looked up.
    entered: u64,
    among: Among,
    bytes: u64,
    _memory: Reservation,
}

/// The most recently used last.
pub(super) struct Answers {
    accountant: Arc<Accountant>,
    kept: Mutex<Vec<Answer>>,
}

impl Answers {
    pub(super) fn new(accountant: &Arc<Accountant>) -> Self {
        Self { accountant: Arc::clone(accountant), kept: Mutex::default() }
    }

    /// The rows, if this was asked lately.
    pub(super) fn find(&self, question: &Question) -> Option<Arc<RoaringTreemap>> {
        let mut kept = self.kept();
        let at = kept.iter().position(|answer| answer.question.is(question))?;
        let mut answer = kept.remove(at);
        answer.again = true;
        let rows = Arc::clone(&answer.rows);
        kept.push(answer);
        Some(rows)
    }

    /// Keeps the rows, unless the filter is one that is not kept either and will not come again.
    pub(super) fn keep(&self, question: Question, rows: &Arc<RoaringTreemap>) {
        if question.filter.as_ref().is_some_and(|filter| Arc::strong_count(filter) < 3) {
            return;
        }
        let bytes = rows.serialized_size() as u64;
        let mut kept = self.kept();
        // Readers of an older moment come seldom.
        kept.retain(|answer| answer.question.applied >= question.applied);
        let Some(memory) = self.room_for(bytes, &mut kept) else { return };
        let rows = Arc::clone(rows);
        kept.push(Answer {
            question,
            rows,
            nodes: Vec::new(),
            again: false,
            bytes,
            _memory: memory,
        });
    }

    /// Keeps none of them any more.
    pub(super) fn clear(&self) {
        self.kept().clear();
    }

    /// What [`FieldIndex::allow`] says of the rows of an answer, or of others. Where most rows of
    /// the graph are wanted, and were not asked for before, their nodes are not looked up;
    /// `pending` of them are not in the graph.
    pub(super) fn allow(
        &self,
        rows: &Arc<RoaringTreemap>,
        pending: u64,
        graph: &Arc<FieldIndex>,
    ) -> Among {
        let entered = graph.entered();
        let is_graph = |nodes: &Nodes| std::ptr::eq(nodes.graph.as_ptr(), Arc::as_ptr(graph));
        let place = |kept: &[Answer]| kept.iter().position(|a| Arc::ptr_eq(&a.rows, rows));
        {
            let kept = self.kept();
            let nodes = place(&kept).and_then(|at| kept[at].nodes.iter().find(|n| is_graph(n)));
            if let Some(nodes) = nodes.filter(|nodes| nodes.entered == entered) {
                return nodes.among.clone();
            }
            let again = place(&kept).is_some_and(|at| kept[at].again);
            let expected = rows.len().saturating_sub(pending);
            if !again && are_tested(expected, graph) {
                return FieldIndex::allow_tested(rows, expected);
            }
        }
        let among = graph.allow(rows);
        let mut kept = self.kept();
        if let Some(at) = place(&kept) {
            let mut answer = kept.remove(at);
            answer.nodes.retain(|nodes| !is_graph(nodes) && nodes.graph.strong_count() > 0);
            let bytes = among.bytes();
            if let Some(memory) = self.room_for(bytes, &mut kept) {
                let (graph, among) = (Arc::downgrade(graph), among.clone());
                answer.nodes.push(Nodes { graph, entered, among, bytes, _memory: memory });
            }
            kept.push(answer);
        }
        among
    }

    /// Memory for an answer; the oldest ones give way.
    fn room_for(&self, bytes: u64, kept: &mut Vec<Answer>) -> Option<Reservation> {
        let held = |kept: &[Answer]| kept.iter().map(Answer::bytes).sum::<u64>();
        if bytes > MOST_BYTES / 4 {
            return None;
        }
        while kept.len() >= MOST || held(kept) + bytes > MOST_BYTES {
            kept.remove(0);
        }
        self.accountant.reserve(Pool::Postings, bytes).ok()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Answer>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether so many rows of a graph are wanted that a search among them that is not repeated tests
/// the rows it meets.
pub(super) fn are_tested(expected: u64, graph: &FieldIndex) -> bool {
    expected >= graph.linked() / FEW
}

impl Answer {
    fn bytes(&self) -> u64 {
        self.bytes + self.nodes.iter().map(|nodes| nodes.bytes).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(partition: u32, applied: u64) -> Question {
        let partitions = Some(vec![partition]);
        Question { filter: None, partitions, applied: Seq(applied), hidden_before: RowId(0) }
    }

    #[test]
    fn answers_hold_for_one_question_at_one_record() {
        let accountant = Accountant::new(None);
        let answers = Answers::new(&accountant);
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
        let answers = Answers::new(&accountant);
        let rows = Arc::new(RoaringTreemap::from_iter((0..400).map(|row| row * 2)));
        assert!((700..1000).contains(&rows.serialized_size()));
        (0..3).for_each(|partition| answers.keep(question(partition, 1), &rows));
        assert!(answers.find(&question(1, 1)).is_some());
        assert!(answers.find(&question(2, 1)).is_none(), "the limit is reached");
        let answers = Answers::new(&Accountant::new(None));
        (0..2 * MOST as u32).for_each(|partition| answers.keep(question(partition, 1), &rows));
        let found = (0..2 * MOST as u32).filter(|p| answers.find(&question(*p, 1)).is_some());
        assert_eq!(found.count(), MOST);
    }
}
