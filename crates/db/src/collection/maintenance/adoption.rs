//! Links that another server has made: which are wanted, and how they enter the graphs here.
//!
//! Of servers that have one log, the one that leads searches for the neighbours of new rows, and the
//! others take its links over. Who asks whom, and when nobody is asked any more, is not decided here.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use pipeann_engine::update::RowLink;

use super::background::{ROWS_AT_ONCE, ROWS_OF_STEP};
use crate::collection::field_vectors::FieldVectors;
use crate::collection::{Collection, CollectionError};
use crate::field_index::{FieldIndex, LinkOf};
use crate::ids::RowId;
use crate::schema::FieldId;

impl Collection {
    /// The rows that wait to enter a graph and may do so by links of the server that leads, the oldest
    /// ones of each vector field, if there are any.
    pub fn links_wanted(&self) -> Vec<(FieldId, Vec<RowId>)> {
        if !self.follows() {
            return Vec::new();
        }
        let wanted = |field: &FieldVectors| {
            let pending = field.graph()?.pending();
            let rows = field.expected_links.to_ask_for(&pending, ROWS_OF_STEP);
            (!rows.is_empty()).then_some((field.id, rows))
        };
        self.components.fields.iter().filter_map(wanted).collect()
    }

    /// Whether links come from the server that leads, so that rows wait for them: until now no row did
    /// so, or all of them are linked here from now on.
    pub fn expect_links(&self, come: bool) {
        let mut changed = false;
        for field in &self.components.fields {
            changed |= field.expected_links.set(come);
        }
        if changed && !come {
            self.wake_background();
        }
    }

    /// How these rows of a vector field were linked here, in their order, as far as that is known.
    pub fn links_of(&self, field: FieldId, rows: &[RowId]) -> Vec<LinkOf> {
        let found = self.components.fields.iter().find(|each| each.id == field);
        match found.and_then(FieldVectors::graph) {
            Some(graph) => graph.links_of(rows),
            None => vec![LinkOf::Unknown; rows.len()],
        }
    }

    /// What the server that leads has told of these rows of a vector field: links enter the graph soon, as
    /// other work behind the writes is done. Rows that it knows nothing of, and those that most neighbours
    /// are missing of, are linked here.
    pub fn tell_links(&self, field: FieldId, told: impl IntoIterator<Item = (RowId, LinkOf)>) {
        let Some(field) = self.components.fields.iter().find(|each| each.id == field) else {
            return;
        };
        let (mut made, mut unknown) = (Vec::new(), Vec::new());
        for (row, told) in told {
            match told {
                LinkOf::Made { order, link } if link.row == row => made.push((order, link)),
                LinkOf::Made { .. } | LinkOf::Waits => {}
                LinkOf::Unknown => unknown.push(row),
            }
        }
        let is_work = !made.is_empty() || !unknown.is_empty();
        field.expected_links.link_here(unknown);
        field.expected_links.tell(made);
        if is_work {
            self.wake_background();
        }
    }

    /// How many rows were linked by what another server has told.
    pub fn adopted_links(&self) -> u64 {
        self.adopted.load(Ordering::Relaxed)
    }

    /// Links rows as the server that leads has, where it has told. Says whether there were any.
    pub(super) fn adopt_told(
        &self,
        field: &FieldVectors,
        graph: &FieldIndex,
    ) -> Result<bool, CollectionError> {
        let pending = graph.pending();
        let mut links = field.expected_links.take_told();
        links.retain(|link| pending.contains(link.row.0));
        if links.is_empty() {
            return Ok(false);
        }
        let adopted = self.adopt_in(field, graph, &links)?;
        self.adopted.fetch_add(adopted, Ordering::Relaxed);
        Ok(true)
    }

    fn adopt_in(
        &self,
        field: &FieldVectors,
        graph: &FieldIndex,
        links: &[RowLink],
    ) -> Result<u64, CollectionError> {
        let rows: Vec<RowId> = links.iter().map(|link| link.row).collect();
        let vectors = field.vectors.gather(&rows).map_err(CollectionError::vectors(&field.name))?;
        let vectors = vectors.chunks_exact(field.vector_bytes());
        let work: Vec<(&RowLink, &[u8])> = links.iter().zip(vectors).collect();
        let failed = |error| self.index_error(field, &error);
        let _linking = self.linking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut adopted = 0;
        for some in work.chunks(ROWS_AT_ONCE) {
            let live = self.components.live();
            let some: Vec<_> =
                some.iter().copied().filter(|(link, _)| live.contains(link.row)).collect();
            let left = graph.adopt(&some).map_err(failed)?;
            adopted += (some.len() - left.len()) as u64;
            field.expected_links.link_here(left);
            // Deleted meanwhile: whoever deleted it may have come too early.
            let now = self.components.live();
            let gone = some.iter().map(|(link, _)| link.row).filter(|&row| !now.contains(row));
            graph.remove(gone).map_err(failed)?;
        }
        Ok(adopted)
    }
}
