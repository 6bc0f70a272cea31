//! Allow-sets over node ids: which nodes may stand in an answer.
//!
//! A search walks through nodes that are not allowed, so that it stays connected, but answers
//! with allowed ones only. Predicates, their text and their translation from rows belong to the
//! layer above; here a set is a compressed bitmap of node ids.

use roaring::RoaringBitmap;

use crate::types::NodeId;

/// The nodes that may be answered.
#[derive(Clone, Debug, Default)]
pub struct AllowSet {
    nodes: RoaringBitmap,
}

impl AllowSet {
    /// The set of these nodes; order and repetition do not matter.
    pub fn new(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut ids: Vec<u32> = nodes.into_iter().map(|n| n.0).collect();
        ids.sort_unstable();
        ids.dedup();
        Self { nodes: RoaringBitmap::from_sorted_iter(ids).expect("sorted and deduplicated above") }
    }

    /// Whether `node` may be answered.
    #[inline]
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes.contains(node.0)
    }

    /// Number of nodes in the set.
    pub fn len(&self) -> u64 {
        self.nodes.len()
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Bytes that it takes up, roughly.
    pub fn bytes(&self) -> u64 {
        self.nodes.serialized_size() as u64
    }

    /// The nodes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().map(NodeId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_it_was_given_once() {
        let set = AllowSet::new([7, 3, 7, 100_000].map(NodeId));
        assert_eq!(set.len(), 3);
        assert!(set.contains(NodeId(3)) && !set.contains(NodeId(4)));
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 7, 100_000].map(NodeId));
        assert!(AllowSet::default().is_empty());
    }
}
