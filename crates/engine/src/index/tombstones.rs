//! The deleted nodes of a generation on disk that are still part of the graph.

use std::sync::Arc;

use crate::filter::AllowSet;
use crate::search::{Overlay, PagePatch};
use crate::types::{NodeId, PageId};

/// See the module's description.
pub(super) struct Tombstones {
    nodes: AllowSet,
}

impl Tombstones {
    /// `None` where there are no nodes.
    pub(super) fn new(nodes: Vec<u32>) -> Option<Self> {
        let some = !nodes.is_empty();
        some.then(|| Self { nodes: AllowSet::new(nodes.into_iter().map(NodeId)) })
    }

    /// The nodes, ascending.
    pub(super) fn to_vec(&self) -> Vec<NodeId> {
        self.nodes.to_vec()
    }
}

impl Overlay for Tombstones {
    fn patch(&self, _: PageId) -> Option<Arc<PagePatch>> {
        None
    }

    fn is_deleted(&self, node: NodeId) -> bool {
        self.nodes.may_allow(node)
    }
}
