//! Links of the log made again, and how far back the log is needed for them.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::collection::field_vectors::FieldVectors;
use crate::collection::{Collection, CollectionError};
use crate::field_index::FieldIndex;
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

    /// Makes the links of one record again.
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
        let links: Vec<_> = links.into_iter().filter(wanted).collect();
        let rows: Vec<RowId> = links.iter().map(|link| link.row).collect();
        let vectors = field.vectors.gather(&rows).map_err(CollectionError::vectors(&field.name))?;
        for (link, vector) in links.iter().zip(vectors.chunks_exact(field.vector_bytes())) {
            let linked = graph.link_again(link, vector);
            linked.map_err(|error| self.index_error(field, &error))?;
            // Deleted meanwhile, maybe before the graph had it.
            if !self.components.live().contains(link.row) {
                let removed = graph.remove([link.row]);
                removed.map_err(|error| self.index_error(field, &error))?;
            }
        }
        Ok(())
    }
}

/// The record after which the log is needed for the graphs, too. One that holds on disk all that
/// was linked needs none of those up to `least`.
pub(in crate::collection) fn least_applied(fields: &[FieldVectors], least: Seq) -> Seq {
    let graphs = fields.iter().filter_map(FieldVectors::graph);
    graphs.filter(|graph| graph.is_changed()).map(|graph| graph.applied()).fold(least, Seq::min)
}
