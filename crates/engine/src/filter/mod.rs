//! Allow-sets over node ids: which nodes may stand in an answer.
//!
//! A search walks through nodes that are not allowed, so that it stays connected, but answers
//! with allowed ones only. Predicates, their text and their translation from rows belong to the
//! layer above. Here a set is a compressed bitmap of node ids, or one bit for each node where so
//! many are in it that this is no larger: such a set is made from nodes in any order without
//! sorting them. A set that is not made at all knows only a test of rows: whether a node is
//! allowed shows when its record is read. Where most are, that costs few reads more, and looking up
//! the nodes of all rows would cost more than the search. Where a graph is cut over several servers a
//! set knows the nodes of its own server, and of others nothing: they may be allowed.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::types::{NodeId, RowId};

/// Above one node in so many, setting a bit for each costs less than sorting them, and a bit for
/// every node takes up little more.
const DENSE: u64 = 256;

/// The nodes that may be answered.
#[derive(Clone, Debug)]
pub struct AllowSet {
    nodes: NodeSet,
    len: u64,
    /// The nodes that it knows about, where these are not all.
    known: Option<Arc<[Range<u32>]>>,
}

#[derive(Clone)]
enum NodeSet {
    Some(RoaringBitmap),
    Bits(Box<[u64]>),
    Tested(Arc<RowTest>),
}

/// Whether the node that holds a row may be answered.
type RowTest = dyn Fn(RowId) -> bool + Send + Sync;

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Some(_) => "Some",
            Self::Bits(_) => "Bits",
            Self::Tested(_) => "Tested",
        })
    }
}

impl Default for AllowSet {
    fn default() -> Self {
        Self::new([])
    }
}

impl AllowSet {
    /// The set of these nodes; order and repetition do not matter.
    pub fn new(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut ids: Vec<u32> = nodes.into_iter().map(|n| n.0).collect();
        ids.sort_unstable();
        ids.dedup();
        let len = ids.len() as u64;
        let nodes = RoaringBitmap::from_sorted_iter(ids).expect("sorted and deduplicated above");
        Self { nodes: NodeSet::Some(nodes), len, known: None }
    }

    /// The same of about `expected` nodes, all below `slots`; others are left out.
    pub fn below(slots: u32, expected: u64, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut gathered = GatheredNodes::new(slots, expected);
        nodes.into_iter().for_each(|NodeId(node)| gathered.add(&[node]));
        gathered.finish()
    }

    /// The nodes, about `expected` of them, whose rows pass a test.
    pub fn tested(expected: u64, test: impl Fn(RowId) -> bool + Send + Sync + 'static) -> Self {
        Self { nodes: NodeSet::Tested(Arc::new(test)), len: expected, known: None }
    }

    /// The same where it knows only about the nodes of these ranges, ascending and apart, of all
    /// below `slots`: of the others as many are taken to be allowed as their number suggests.
    #[must_use]
    pub fn of_part(mut self, known: &[Range<u32>], slots: u32) -> Self {
        let here: u64 = known.iter().map(|nodes| u64::from(nodes.end - nodes.start)).sum();
        if here < u64::from(slots) {
            let all = u128::from(self.len) * u128::from(slots) / u128::from(here.max(1));
            self.len = u64::try_from(all).unwrap_or(u64::MAX);
            self.known = Some(known.into());
        }
        self
    }

    /// Whether it knows its nodes; else it knows what [`allows`](Self::allows) a node.
    pub fn is_listed(&self) -> bool {
        !matches!(self.nodes, NodeSet::Tested(_))
    }

    /// Whether `node`, which holds the row that `row` tells, may be answered.
    #[inline]
    pub fn allows(&self, node: NodeId, row: impl FnOnce() -> RowId) -> bool {
        match &self.nodes {
            NodeSet::Tested(test) => test(row()),
            NodeSet::Some(_) | NodeSet::Bits(_) => self.may_allow(node),
        }
    }

    /// Whether `node` may be answered, or it is not known without its row.
    #[inline]
    pub fn may_allow(&self, NodeId(node): NodeId) -> bool {
        if let Some(known) = &self.known {
            let after = known.partition_point(|nodes| nodes.start <= node);
            if after == 0 || node >= known[after - 1].end {
                return true;
            }
        }
        match &self.nodes {
            NodeSet::Tested(_) => true,
            NodeSet::Some(nodes) => nodes.contains(node),
            NodeSet::Bits(bits) => {
                bits.get(node as usize / 64).is_some_and(|word| word >> (node % 64) & 1 != 0)
            }
        }
    }

    /// Number of nodes in the set, or about so many where it does not know all of them.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that it takes up, roughly.
    pub fn bytes(&self) -> u64 {
        match &self.nodes {
            NodeSet::Some(nodes) => nodes.serialized_size() as u64,
            NodeSet::Bits(bits) => size_of_val(&**bits) as u64,
            NodeSet::Tested(_) => 0,
        }
    }

    /// All nodes that it knows, in ascending order.
    pub fn to_vec(&self) -> Vec<NodeId> {
        let mut nodes = Vec::with_capacity(self.len as usize);
        self.take_from(NodeId(0), usize::MAX, &mut nodes);
        nodes.into_iter().map(NodeId).collect()
    }

    /// Appends up to `most` nodes, in ascending order, of those that it knows from `first` on.
    /// Allocates nothing where `out` has room for them and `SLACK` more.
    pub fn take_from(&self, NodeId(first): NodeId, most: usize, out: &mut Vec<u32>) {
        match &self.nodes {
            NodeSet::Tested(_) => {}
            NodeSet::Some(nodes) => out.extend(nodes.range(first..).take(most)),
            NodeSet::Bits(bits) => take_bits(bits, first, most, out),
        }
    }
}

/// Nodes of a set that is being made, in any order.
pub(crate) struct GatheredNodes {
    slots: u32,
    nodes: NodesSoFar,
}

enum NodesSoFar {
    Few(Vec<NodeId>),
    Bits(Box<[u64]>),
}

impl GatheredNodes {
    /// None yet of about `expected` nodes below `slots`.
    pub(crate) fn new(slots: u32, expected: u64) -> Self {
        let nodes = if expected < u64::from(slots) / DENSE {
            NodesSoFar::Few(Vec::new())
        } else {
            NodesSoFar::Bits(vec![0; (slots as usize).div_ceil(64)].into_boxed_slice())
        };
        Self { slots, nodes }
    }

    /// Adds those of these that are below the slots.
    #[inline]
    pub(crate) fn add(&mut self, nodes: &[u32]) {
        let below = nodes.iter().copied().filter(|&node| node < self.slots);
        match &mut self.nodes {
            NodesSoFar::Few(few) => few.extend(below.map(NodeId)),
            NodesSoFar::Bits(bits) => {
                below.for_each(|node| bits[node as usize / 64] |= 1 << (node % 64));
            }
        }
    }

    /// The set of them.
    pub(crate) fn finish(self) -> AllowSet {
        match self.nodes {
            NodesSoFar::Few(few) => AllowSet::new(few),
            NodesSoFar::Bits(bits) => {
                let len = bits.iter().map(|word| u64::from(word.count_ones())).sum();
                AllowSet { nodes: NodeSet::Bits(bits), len, known: None }
            }
        }
    }
}

/// Numbers of a word that are written at once, whether it has as many or not: a guess for each
/// would cost more than a few that are overwritten.
const AT_ONCE: usize = 8;

/// Room that [`AllowSet::take_from`] needs beyond as many nodes as it is asked for.
pub(crate) const SLACK: usize = 64 + AT_ONCE;

/// Appends up to `most` numbers of bits that are set, in ascending order from `first` on.
fn take_bits(bits: &[u64], first: u32, most: usize, out: &mut Vec<u32>) {
    let Some(words) = bits.get(first as usize / 64..) else { return };
    let mut unseen = u64::MAX << (first % 64);
    let mut base = first & !63;
    let (begin, mut taken) = (out.len(), 0);
    for word in words {
        if taken >= most {
            break;
        }
        let mut word = word & unseen;
        unseen = u64::MAX;
        let end = taken + word.count_ones() as usize;
        // Room for all of a word, and for what is written beyond its last.
        if out.len() < begin + end + AT_ONCE {
            out.resize(begin + end + most.saturating_sub(end).min(1 << 10) + SLACK, 0);
        }
        let mut at = begin + taken;
        while word != 0 {
            for number in &mut out[at..at + AT_ONCE] {
                *number = base.wrapping_add(word.trailing_zeros());
                word &= word.wrapping_sub(1);
            }
            at += AT_ONCE;
        }
        taken = end;
        base = base.wrapping_add(64);
    }
    out.truncate(begin + taken.min(most));
}

#[cfg(test)]
mod tests;
