//! The head index as rows come and go.
//!
//! The head index is small and immutable for its readers, so it is changed by making another
//! one. New nodes wait until there are some for each change; they are linked as in the large
//! graph, but by their codes alone. Deleted nodes leave it, and their neighbours are joined.

use std::collections::HashMap;
use std::sync::PoisonError;

use super::choose::EdgePool;
use super::generation::Generation;
use crate::graph::{HeadIndex, HeadScratch, PruneOptions};
use crate::quant::LookupTable;
use crate::search::PageSource;
use crate::types::{NodeId, VectorType};

/// Head nodes that a copy of the head index must be worth: one entrant for so many of them.
const ENTRANT_SHARE: usize = 256;

/// Adjacency that can be changed.
struct Draft {
    nodes: Vec<u32>,
    edges: Vec<Vec<u32>>,
    degree: usize,
    entry: u32,
}

impl Draft {
    fn of(head: &HeadIndex) -> Self {
        let degree = head.max_degree();
        let of = |i: usize| {
            let used = usize::from(head.degrees()[i]);
            head.adjacency()[i * degree..i * degree + used].to_vec()
        };
        let edges = (0..head.nodes().len()).map(of).collect();
        Self { nodes: head.nodes().to_vec(), edges, degree, entry: head.entry() }
    }

    fn finish(self) -> HeadIndex {
        let degrees = self.edges.iter().map(|edges| edges.len() as u16).collect();
        let mut adjacency = Vec::with_capacity(self.nodes.len() * self.degree);
        for edges in &self.edges {
            adjacency.extend_from_slice(edges);
            adjacency.resize(adjacency.len() + self.degree - edges.len(), 0);
        }
        HeadIndex::from_parts(self.nodes, self.degree, degrees, adjacency, self.entry)
            .expect("a draft keeps lists within the degree and positions within the nodes")
    }
}

impl Generation {
    /// Lets `node` enter the head index, soon.
    pub(super) fn enter_head(&self, node: NodeId) {
        let mut entrants = self.entrants.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(head) = self.head() else {
            // All of its nodes have gone; another one begins.
            let degree = (self.index.manifest().head.degree as usize).max(1);
            let draft = Draft { nodes: vec![node.0], edges: vec![Vec::new()], degree, entry: 0 };
            return self.set_head(Some(draft.finish()));
        };
        entrants.push(node);
        if entrants.len() <= head.nodes().len() / ENTRANT_SHARE {
            return;
        }
        let taken = std::mem::take(&mut *entrants);
        // The lock of the entrants is held, so that no other thread changes the head index.
        self.set_head(Some(self.with_entrants(&head, &taken)));
    }

    fn decoded(&self, node: u32) -> Vec<f32> {
        let view = self.index.view();
        let mut out = vec![0.0; self.layout().dim()];
        view.codebook.decode(self.index.codes().row(node), &mut out);
        out
    }

    /// Chooses among `candidates` (positions) the edges of position `of`.
    fn head_edges(&self, draft: &Draft, of: u32, candidates: &[u32]) -> Vec<u32> {
        let mut pool = EdgePool::new(candidates.len(), 4 * self.layout().dim());
        for &position in std::iter::once(&of).chain(candidates) {
            let vector = || self.decoded(draft.nodes[position as usize]);
            pool.push(position, |out| out.extend(vector().iter().flat_map(|x| x.to_le_bytes())));
        }
        let rule = PruneOptions { degree: draft.degree, alpha: self.rule().alpha };
        pool.choose(self.index.metric(), VectorType::F32, rule).edges
    }

    fn with_entrants(&self, head: &HeadIndex, entrants: &[NodeId]) -> HeadIndex {
        let mut draft = Draft::of(head);
        let positions: HashMap<u32, u32> =
            (0u32..).zip(head.nodes()).map(|(i, &n)| (n, i)).collect();
        let view = self.index.view();
        let list = (self.index.manifest().head.list as usize).max(draft.degree);
        let mut table = LookupTable::new(view.codebook);
        let (mut scratch, mut found) = (HeadScratch::new(), Vec::new());
        for &node in entrants {
            // Deleted while it waited.
            if positions.contains_key(&node.0) || self.deleted.contains(node) {
                continue;
            }
            let vector: Vec<u8> =
                self.decoded(node.0).iter().flat_map(|x| x.to_le_bytes()).collect();
            table.fill(view.codebook, &vector, VectorType::F32);
            head.search(&mut scratch, &table, self.index.codes(), list, &mut found);
            let near: Vec<u32> = found.iter().map(|(_, n)| positions[n]).collect();
            let at = draft.nodes.len() as u32;
            draft.nodes.push(node.0);
            draft.edges.push(Vec::new());
            let edges = self.head_edges(&draft, at, &near);
            for &from in &edges {
                let mut list = draft.edges[from as usize].clone();
                list.push(at);
                if list.len() > draft.degree {
                    list = self.head_edges(&draft, from, &list);
                }
                draft.edges[from as usize] = list;
            }
            draft.edges[at as usize] = edges;
        }
        draft.finish()
    }

    /// Takes deleted nodes out of the head index, and out of those that wait to enter it.
    pub(super) fn drop_deleted_from_head(&self) {
        let mut entrants = self.entrants.lock().unwrap_or_else(PoisonError::into_inner);
        entrants.retain(|&node| !self.deleted.contains(node));
        let Some(head) = self.head() else { return };
        let gone = |position: u32| self.deleted.contains(NodeId(head.nodes()[position as usize]));
        let count = head.nodes().len() as u32;
        if !(0..count).any(gone) {
            return;
        }
        let old = Draft::of(&head);
        let kept: Vec<u32> = (0..count).filter(|&p| !gone(p)).collect();
        if kept.is_empty() {
            return self.set_head(None);
        }
        let mut joined = Vec::with_capacity(kept.len());
        for &position in &kept {
            let list = &old.edges[position as usize];
            let (dead, mut all): (Vec<u32>, Vec<u32>) = list.iter().partition(|&&p| gone(p));
            if dead.is_empty() {
                joined.push(all);
                continue;
            }
            for d in dead {
                all.extend(old.edges[d as usize].iter().filter(|&&p| !gone(p) && p != position));
            }
            joined.push(self.head_edges(&old, position, &all));
        }
        let mut new_position = vec![u32::MAX; count as usize];
        (0u32..).zip(&kept).for_each(|(new, &old)| new_position[old as usize] = new);
        for list in &mut joined {
            list.iter_mut().for_each(|p| *p = new_position[*p as usize]);
        }
        let near_entry = old.edges[old.entry as usize].iter().copied();
        let entry = std::iter::once(old.entry).chain(near_entry).find(|&p| !gone(p));
        let entry = new_position[entry.unwrap_or(kept[0]) as usize];
        let nodes = kept.iter().map(|&p| old.nodes[p as usize]).collect();
        self.set_head(Some(Draft { nodes, edges: joined, degree: old.degree, entry }.finish()));
    }
}
