//! The vectors of one field, the graph of them, and what is known of its builds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use pipeann_engine::types::VectorSet;

use super::CollectionError;
use super::expected_links::ExpectedLinks;
use crate::field_index::FieldIndex;
use crate::flat::{self, FlatError, FlatVectors};
use crate::ids::{RowId, Seq, VectorType};
use crate::schema::{Field, FieldId};

/// The vectors of one field.
pub(super) struct FieldVectors {
    pub(super) id: FieldId,
    pub(super) name: String,
    /// Position of the field in the schema.
    pub(super) position: usize,
    pub(super) dim: usize,
    pub(super) vector_type: VectorType,
    pub(super) vectors: FlatVectors,
    /// The graph that is searched, where one is open, and whether the one before is open still.
    graph: RwLock<(Option<Arc<FieldIndex>>, Weak<()>)>,
    /// The record from which on the log may have links that the graph lacks; 0 where it has none.
    pub(super) links_from: AtomicU64,
    /// Links that another server makes.
    pub(super) expected_links: ExpectedLinks,
    /// Live rows when a build found that none of them can be in a graph.
    fruitless: AtomicU64,
    /// Rows that were pending when a build that should have taken them failed.
    refused: AtomicU64,
}

/// Dimension and type of vectors.
type VectorShape = (usize, VectorType);

impl FieldVectors {
    pub(super) fn new(
        field: &Field,
        position: usize,
        shape: VectorShape,
        vectors: FlatVectors,
    ) -> Self {
        let (id, name) = (field.id, field.spec.name.clone());
        let (dim, vector_type) = shape;
        Self {
            id,
            name,
            position,
            dim,
            vector_type,
            vectors,
            graph: RwLock::default(),
            links_from: AtomicU64::new(0),
            expected_links: ExpectedLinks::default(),
            fruitless: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Bytes of one vector.
    pub(super) fn vector_bytes(&self) -> usize {
        self.vector_type.vector_bytes(self.dim)
    }

    /// The graph that is searched, where one is open.
    pub(super) fn graph(&self) -> Option<Arc<FieldIndex>> {
        self.graph.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Opens or closes a graph for searches.
    pub(super) fn set_graph(&self, graph: Option<Arc<FieldIndex>>) {
        let mut slot = self.graph.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut slot.0, graph) {
            slot.1 = before.while_open();
        }
    }

    /// Whether this graph is the one that is searched.
    pub(super) fn is_searched(&self, graph: &FieldIndex) -> bool {
        let slot = self.graph.read().unwrap_or_else(PoisonError::into_inner);
        slot.0.as_deref().is_some_and(|searched| std::ptr::eq(searched, graph))
    }

    /// Whether a graph that was closed is still being searched, and so open.
    pub(super) fn is_closing(&self) -> bool {
        self.graph.read().unwrap_or_else(PoisonError::into_inner).1.strong_count() > 0
    }

    /// A build of `rows` live rows found `found` that can be in a graph.
    pub(super) fn note_built(&self, rows: u64, found: u64) {
        self.fruitless.store(if found == 0 { rows } else { 0 }, Ordering::Relaxed);
    }

    /// A build that should have taken so many pending rows failed.
    pub(super) fn note_refused(&self, pending: u64) {
        self.refused.store(pending, Ordering::Relaxed);
    }

    /// Whether so many pending rows are worth another build.
    pub(super) fn may_build(&self, pending: u64) -> bool {
        pending / 2 >= self.refused.load(Ordering::Relaxed)
    }

    /// Whether there are rows enough for a graph, and more than when none was found for it.
    pub(super) fn has_grown(&self, rows: u64, least: u64) -> bool {
        rows >= least && rows / 2 >= self.fruitless.load(Ordering::Relaxed)
    }

    pub(super) fn append(
        &self,
        seq: Seq,
        rows: &[RowId],
        bytes: &[u8],
        make_room: &dyn Fn() -> Result<(), CollectionError>,
    ) -> Result<bool, CollectionError> {
        let set = VectorSet::new(bytes, self.dim, self.vector_type);
        let set = set.expect("the schema checked the dimension of every vector");
        let pressure = match self.vectors.append(seq, rows, set) {
            Err(FlatError::TailFull { .. }) => {
                make_room()?;
                self.vectors.append(seq, rows, set)
            }
            other => other,
        };
        let pressure = pressure.map_err(CollectionError::vectors(&self.name))?;
        Ok(pressure == flat::VectorPressure::Flush)
    }
}
