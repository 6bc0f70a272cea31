//! Links of the log made again, and how far back the log is needed for them.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use pipeann_engine::update::UpdateError;

use crate::collection::field_vectors::FieldVectors;
use crate::collection::{Collection, CollectionError};
use crate::field_index::{FieldIndex, FieldIndexError};
use crate::ids::{RowId, Seq};
use crate::wal::{Link, LogRecord, Record, RecordKind};

impl Collection {
    /// Makes links again that the log has and the graph on disk lacks, for rows that are pending.
    /// Done once after a graph was opened, by whoever links; `false` where there was nothing to do.
    /// Rows whose links cannot be made again are linked anew.
    pub(in crate::collection) fn replay_links(
        &self,
        field: &FieldVectors,
        graph: &FieldIndex,
    ) -> Result<bool, CollectionError> {
        let from = Seq(field.links_from.swap(0, Ordering::Relaxed));
        if from == Seq(0) || graph.pending().is_empty() {
            return Ok(false);
        }
        let from = from.max(self.log.first());
        if from > self.log.last() {
            return Ok(false);
        }
        let _linking = self.linking.lock().unwrap_or_else(PoisonError::into_inner);
        for record in self.log.replay(from)? {
            if self.signal.is_stopped() {
                break;
            }
            if let Err(error) = self.link_again(&record?, field, graph) {
                tracing::warn!(field = field.name, "links of the log end early: {error}");
                break;
            }
        }
        Ok(true)
    }

    /// Makes the links of one record again. Rows most of whose neighbours were deleted since stay
    /// pending.
    fn link_again(
        &self,
        record: &LogRecord,
        field: &FieldVectors,
        graph: &FieldIndex,
    ) -> Result<(), CollectionError> {
        if record.kind != RecordKind::Link {
            return Ok(());
        }
        let Record::Link(links) = record.decode()? else {
            unreachable!("a record decodes to its kind")
        };
        let pending = graph.pending();
        let wanted = |link: &Link| link.field == field.id.0 && pending.contains(link.row.0);
        let links = as_made(links.into_iter().filter(wanted).collect());
        let rows: Vec<RowId> = links.iter().map(|link| link.row).collect();
        let vectors = field.vectors.gather(&rows).map_err(CollectionError::vectors(&field.name))?;
        for (link, vector) in links.iter().zip(vectors.chunks_exact(field.vector_bytes())) {
            match graph.link_again(link, vector) {
                Ok(()) | Err(FieldIndexError::Graph(UpdateError::Stray { .. })) => {}
                Err(error) => return Err(self.index_error(field, &error)),
            }
            // Deleted meanwhile, maybe before the graph had it.
            if !self.components.live().contains(link.row) {
                let removed = graph.remove([link.row]);
                removed.map_err(|error| self.index_error(field, &error))?;
            }
        }
        Ok(())
    }
}

/// Links of one graph in the order in which they were made, where each comes behind its neighbours.
/// In a record those of one thread stand behind all those of another.
fn as_made(links: Vec<Link>) -> Vec<Link> {
    let at: HashMap<_, _> = links.iter().enumerate().map(|(i, link)| (link.node, i)).collect();
    let mut order = Vec::with_capacity(links.len());
    let mut is_met = vec![false; links.len()];
    for first in 0..links.len() {
        let mut next = Some(first).filter(|&first| !is_met[first]);
        let mut path = Vec::new();
        loop {
            if let Some(link) = next {
                is_met[link] = true;
                path.push(link);
            }
            let Some(&link) = path.last() else { break };
            let neighbours = links[link].neighbours.iter().filter_map(|node| at.get(node));
            next = neighbours.copied().find(|&neighbour| !is_met[neighbour]);
            if next.is_none() {
                order.extend(path.pop());
            }
        }
    }
    let mut links: Vec<_> = links.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| links[at].take()).collect()
}

/// The record after which the log is needed for the graphs, too. One that holds on disk all that
/// was linked needs none of those up to `least`.
pub(in crate::collection) fn least_applied(fields: &[FieldVectors], least: Seq) -> Seq {
    let graphs = fields.iter().filter_map(FieldVectors::graph);
    graphs.filter(|graph| graph.is_changed()).map(|graph| graph.applied()).fold(least, Seq::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeId;

    fn link(node: u32, neighbours: &[u32]) -> Link {
        let neighbours = neighbours.iter().copied().map(NodeId).collect();
        Link { field: 1, node: NodeId(node), row: RowId(0), neighbours, back_edges: vec![] }
    }

    fn ordered(links: &[Link]) -> Vec<u32> {
        as_made(links.to_vec()).iter().map(|link| link.node.0).collect()
    }

    #[test]
    fn links_of_several_threads_come_behind_their_neighbours() {
        // Two threads: 10, 11 and 12; and 20, 21 and 22.
        let links = [
            link(10, &[1, 2]),
            link(11, &[20, 10]),
            link(12, &[22, 11]),
            link(20, &[2]),
            link(21, &[11, 20]),
            link(22, &[21, 3]),
        ];
        assert_eq!(ordered(&links), [10, 20, 11, 21, 22, 12]);
        assert_eq!(ordered(&links[..2]), [10, 11], "those of other records are there already");
        assert!(ordered(&[]).is_empty());
    }

    #[test]
    fn links_that_contradict_each_other_all_come() {
        let mut all = ordered(&[link(1, &[2]), link(2, &[1]), link(3, &[3, 1])]);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
        // Two of one node: each comes once.
        assert_eq!(ordered(&[link(1, &[1]), link(1, &[])]).len(), 2);
    }
}
