//! Links that another server has made: which are wanted, and how they enter the graphs here.
//!
//! Of servers that have one log, the one that leads searches for the neighbours of new rows, and the
//! others take its links over. Who asks whom, and when nobody is asked any more, is not decided here.

use std::sync::PoisonError;

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

    /// Takes over what the server that leads has told of these rows of a vector field. Those that it
    /// knows nothing of, and those that most neighbours are missing of, are linked here. Answers how
    /// many were linked.
    ///
    /// # Errors
    /// [`CollectionError`]: vectors that cannot be read, or a graph that takes no changes.
    pub fn adopt_links(
        &self,
        field: FieldId,
        told: impl IntoIterator<Item = (RowId, LinkOf)>,
    ) -> Result<u64, CollectionError> {
        let Some(field) = self.components.fields.iter().find(|each| each.id == field) else {
            return Ok(0);
        };
        let Some(graph) = field.graph() else { return Ok(0) };
        let pending = graph.pending();
        let mut made = Vec::new();
        for (row, told) in told {
            match told {
                LinkOf::Made { order, link } if link.row == row && pending.contains(row.0) => {
                    made.push((order, link));
                }
                LinkOf::Made { .. } | LinkOf::Waits => {}
                LinkOf::Unknown => field.expected_links.link_here([row]),
            }
        }
        // Each after those that it was linked to.
        made.sort_by_key(|(order, _)| *order);
        let links: Vec<RowLink> = made.into_iter().map(|(_, link)| link).collect();
        let adopted = self.adopt_in(field, &graph, &links)?;
        self.signal.moved();
        // A checkpoint may be due, and some rows may be left.
        self.wake_background();
        Ok(adopted)
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
