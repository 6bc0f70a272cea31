//! Telling rows that cannot match from memory alone, millions of times a second.
//!
//! A [`Sketch`] is the shape of a filter, with predicates where the index can answer and
//! [`Sketch::Anything`] elsewhere. It is compiled for the runs of a view into a [`SignatureTest`],
//! which holds the signatures it reads and takes no lock. Where signatures are not in memory it
//! answers that any row may match.

use std::sync::Arc;

use super::buckets::CodeTable;
use super::directory::SignatureCode;
use super::elements::ElementTest;
use super::predicate::KeyPredicate;
use super::run::{OpenRun, Run, SignatureColumn, Signatures};
use super::truth::TernaryBits;
use super::view::ScalarView;
use crate::ids::RowId;

/// See the module's description.
#[derive(Clone, Debug, PartialEq)]
pub enum Sketch {
    /// A condition on one field.
    Is(KeyPredicate),
    /// What the index knows nothing of.
    Anything,
    /// The opposite; unknown stays unknown.
    Not(Box<Self>),
    /// All of these.
    And(Vec<Self>),
    /// One of these at least.
    Or(Vec<Self>),
}

/// What is known of a row without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does not match.
    No,
    /// It may match.
    Maybe,
    /// It matches.
    Yes,
}

/// See the module's description.
#[derive(Debug)]
pub struct SignatureTest {
    /// The first row of each part.
    starts: Vec<u64>,
    parts: Vec<SignaturePart>,
    /// Rows behind all runs, with what is known of them.
    newest: Vec<(u64, TernaryBits)>,
}

#[derive(Debug)]
struct SignaturePart {
    run: Arc<Run>,
    signatures: Option<Arc<Signatures>>,
    node: SketchNode,
}

/// A sketch, compiled for a run.
#[derive(Debug)]
enum SketchNode {
    Known(TernaryBits),
    Codes { column: usize, table: Box<CodeTable> },
    Bits { column: usize, test: ElementTest },
    Not(Box<Self>),
    And(Vec<Self>),
    Or(Vec<Self>),
}

impl ScalarView {
    /// Compiles a sketch for this view. It says of each row of the view whether it can match;
    /// any other row may, for all it knows.
    #[must_use]
    pub fn signature_test(&self, sketch: &Sketch) -> SignatureTest {
        let part = |open: &OpenRun| SignaturePart {
            run: Arc::clone(&open.run),
            signatures: open.signatures.clone(),
            node: compile(sketch, open),
        };
        let truths = self.truths_of_newest(sketch);
        SignatureTest {
            starts: self.runs.iter().map(|open| open.run.map().first_row()).collect(),
            parts: self.runs.iter().map(part).collect(),
            newest: self.newest.rows().iter().copied().zip(truths).collect(),
        }
    }

    fn truths_of_newest(&self, sketch: &Sketch) -> Vec<TernaryBits> {
        let all = |truth| vec![truth; self.newest.len()];
        let fold = |of: &[Sketch],
                    start: TernaryBits,
                    join: fn(TernaryBits, TernaryBits) -> TernaryBits| {
            of.iter().fold(all(start), |sum, sketch| {
                let more = self.truths_of_newest(sketch);
                sum.into_iter().zip(more).map(|(a, b)| join(a, b)).collect()
            })
        };
        match sketch {
            Sketch::Is(predicate) => self.newest.truths(predicate),
            Sketch::Anything => all(TernaryBits::ANYTHING),
            Sketch::Not(of) => {
                self.truths_of_newest(of).into_iter().map(TernaryBits::not).collect()
            }
            Sketch::And(of) => fold(of, TernaryBits::TRUE, TernaryBits::and),
            Sketch::Or(of) => fold(of, TernaryBits::FALSE, TernaryBits::or),
        }
    }
}

impl SignatureTest {
    /// Whether the row can match: never `false` of one that does.
    #[inline]
    #[must_use]
    pub fn maybe(&self, row: RowId) -> bool {
        self.truth(row.0).may_hold()
    }

    /// What is known of the row.
    #[inline]
    #[must_use]
    pub fn verdict(&self, row: RowId) -> Verdict {
        let truth = self.truth(row.0);
        match (truth.holds(), truth.may_hold()) {
            (true, _) => Verdict::Yes,
            (_, true) => Verdict::Maybe,
            _ => Verdict::No,
        }
    }

    #[inline]
    fn truth(&self, row: u64) -> TernaryBits {
        if self.newest.first().is_some_and(|(first, _)| *first <= row) {
            let found = self.newest.binary_search_by_key(&row, |(row, _)| *row);
            return found.map_or(TernaryBits::ANYTHING, |at| self.newest[at].1);
        }
        let Some(at) = self.starts.partition_point(|start| *start <= row).checked_sub(1) else {
            return TernaryBits::ANYTHING;
        };
        let part = &self.parts[at];
        let map = part.run.map();
        let place = map.place(row as u32).filter(|_| map.high() == (row >> 32) as u32);
        match (place, &part.signatures) {
            (Some(place), Some(signatures)) => part.node.truth(&signatures.columns, place as usize),
            _ => TernaryBits::ANYTHING,
        }
    }
}

impl SketchNode {
    #[inline]
    fn truth(&self, columns: &[SignatureColumn], place: usize) -> TernaryBits {
        match self {
            Self::Known(truth) => *truth,
            Self::Codes { column, table } => match &columns[*column] {
                SignatureColumn::Codes(codes) => table[usize::from(codes[place])],
                SignatureColumn::Bits(_) => TernaryBits::ANYTHING,
            },
            Self::Bits { column, test } => match &columns[*column] {
                SignatureColumn::Bits(bits) => test.truth(bits[place]),
                SignatureColumn::Codes(_) => TernaryBits::ANYTHING,
            },
            Self::Not(node) => node.truth(columns, place).not(),
            Self::And(nodes) => nodes
                .iter()
                .fold(TernaryBits::TRUE, |sum, node| sum.and(node.truth(columns, place))),
            Self::Or(nodes) => nodes
                .iter()
                .fold(TernaryBits::FALSE, |sum, node| sum.or(node.truth(columns, place))),
        }
    }
}

fn compile(sketch: &Sketch, open: &OpenRun) -> SketchNode {
    let all = |of: &[Sketch]| of.iter().map(|sketch| compile(sketch, open)).collect();
    match sketch {
        Sketch::Anything => SketchNode::Known(TernaryBits::ANYTHING),
        Sketch::Not(of) => SketchNode::Not(Box::new(compile(of, open))),
        Sketch::And(of) => SketchNode::And(all(of)),
        Sketch::Or(of) => SketchNode::Or(all(of)),
        Sketch::Is(predicate) => match open.run.column(predicate.field) {
            None => SketchNode::Known(predicate.absent),
            Some(column) => match &open.run.columns()[column].code {
                SignatureCode::Buckets(code) => {
                    SketchNode::Codes { column, table: Box::new(code.table(&predicate.test)) }
                }
                SignatureCode::Elements(code) => {
                    SketchNode::Bits { column, test: code.compile(&predicate.test) }
                }
            },
        },
    }
}
