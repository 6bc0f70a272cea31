//! Graphs that are opened while the log is replayed.
//!
//! A graph on disk depends on no other component, so that a thread of its own opens it while rows
//! are made from the log. What waits for the log is only which rows live, and so are pending or
//! have to leave it.

use std::path::Path;
use std::sync::Arc;

use pipeann_engine::memory::Accountant;
use roaring::RoaringTreemap;

use crate::catalog::{CollectionEntry as Entry, IndexId, WantedLoad};
use crate::collection::CollectionOptions;
use crate::collection::identity::index_dir;
use crate::field_index::{FieldIndex, FieldIndexError, GraphOptions, has_graph};
use crate::schema::FieldId;

/// A graph that was opened, and the rows in it.
pub(in crate::collection) struct OpenedGraph {
    pub(in crate::collection) graph: FieldIndex,
    pub(in crate::collection) rows: RoaringTreemap,
}

impl OpenedGraph {
    /// Opens the graph of a field in `dir`.
    pub(in crate::collection) fn open(
        dir: &Path,
        field: FieldId,
        options: &GraphOptions,
        accountant: &Arc<Accountant>,
    ) -> Result<Self, FieldIndexError> {
        let graph = FieldIndex::open(dir, field.0, options, accountant)?;
        Ok(Self { rows: graph.rows_in_graph(), graph })
    }
}

/// What came of opening the graphs that a collection wants.
#[derive(Default)]
pub(in crate::collection) struct EarlyGraphs(Vec<(IndexId, Result<OpenedGraph, FieldIndexError>)>);

impl EarlyGraphs {
    /// Opens the graphs below `files` that the catalogue wants loaded, as far as they are there.
    pub(in crate::collection) fn open(
        files: &Path,
        entry: &Entry,
        options: &CollectionOptions,
    ) -> Self {
        if entry.load == WantedLoad::Released {
            return Self::default();
        }
        let wanted = entry.indexes.iter().filter(|definition| has_graph(definition));
        let there = wanted.map(|definition| (definition, files.join(index_dir(definition.id))));
        let opened = there.filter(|(_, dir)| dir.exists()).map(|(definition, dir)| {
            let (graph, accountant) = (&options.graph, &options.accountant);
            (definition.id, OpenedGraph::open(&dir, definition.field, graph, accountant))
        });
        Self(opened.collect())
    }

    /// What came of opening this one; `None` where it was not tried.
    pub(in crate::collection) fn take(
        &mut self,
        index: IndexId,
    ) -> Option<Result<OpenedGraph, FieldIndexError>> {
        let at = self.0.iter().position(|(id, _)| *id == index)?;
        Some(self.0.swap_remove(at).1)
    }
}
