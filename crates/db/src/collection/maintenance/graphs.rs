//! The graphs of a collection as they come and go: asked for, opened, released, dropped. Building them
//! is `building`'s.
//!
//! A graph is wanted where the catalogue has an index of a kind that has one; it is made when
//! somebody asks for it, or a collection that had too few rows has grown. What the catalogue says
//! of its state is what a restart finds: a build that was interrupted is begun again, and a graph
//! that is missing or damaged is built anew from the vectors, which stand apart.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use pipeann_engine::index::PageStats;

use super::early::{EarlyGraphs, OpenedGraph};
use super::signal::Cause;
use crate::catalog::{
    CollectionEntry as Entry, EntryChange, IndexDefinition, IndexId, IndexState, WantedLoad,
};
use crate::collection::field_vectors::FieldVectors;
use crate::collection::identity::{INDEX_PREFIX, index_dir};
use crate::collection::{Collection, CollectionError};
use crate::field_index::{FieldIndex, FieldIndexError, has_graph};
use crate::ids::RowId;

/// How far an index is, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStatus {
    /// Its name.
    pub name: String,
    /// State as the catalogue has it, with the rows done so far of a build that is under way.
    pub state: IndexState,
    /// Stage of the build under way: its name, steps done, and steps in all.
    pub stage: Option<(&'static str, u64, u64)>,
    /// Rows in the graph; 0 where it is not open.
    pub linked: u64,
    /// Rows that wait to enter the graph; they are searched exactly meanwhile. A row that enters it
    /// at this moment may count here and as linked, and never as neither.
    pub pending: u64,
    /// Rows that were deleted and have not left the graph.
    pub deleted: u64,
    /// Why rows enter the graph no more, if so.
    pub failed: Option<String>,
}

impl Collection {
    /// Has the graph of an index built, or built anew, from all rows, and returns at once. Searches
    /// and writes go on; searches are exact until a first graph is there, and use the graph before
    /// until then. An index without a graph (`FLAT`, or on a scalar) is finished at once, and so is
    /// one of fewer rows than [`GraphOptions::least_rows`](crate::field_index::GraphOptions), whose
    /// graph is built when there are more.
    ///
    /// # Errors
    /// [`CollectionError::Catalog`] where there is no such index, or its state cannot be saved.
    pub fn build_index(&self, index: &str) -> Result<(), CollectionError> {
        if self.pin.is_some() {
            return Err(CollectionError::ReadOnly);
        }
        let entry = self.entry()?;
        let definition = entry.index(index)?;
        let rows = self.components.live().len();
        if !has_graph(definition) {
            return self.set_state(definition.id, IndexState::Finished { rows });
        }
        self.set_state(definition.id, IndexState::Building { rows_done: 0, rows })?;
        self.signal.build(definition.id, Cause::Asked);
        self.wake_background();
        Ok(())
    }

    /// How far an index is.
    ///
    /// # Errors
    /// [`CollectionError::Catalog`] where there is no such index.
    pub fn index_status(&self, index: &str) -> Result<IndexStatus, CollectionError> {
        let entry = self.entry()?;
        let definition = entry.index(index)?;
        let mut state = definition.state.clone();
        let progress = self.signal.building(definition.id);
        if let (IndexState::Building { rows_done, rows }, Some(progress)) = (&mut state, &progress)
        {
            *rows_done = progress.rows_done(*rows);
        }
        let field = self.components.fields.iter().find(|field| field.id == definition.field);
        let graph = field.and_then(FieldVectors::graph);
        let count = |of: &dyn Fn(&FieldIndex) -> u64| graph.as_deref().map_or(0, of);
        // Before the linked ones: in between rows only go from here to there.
        let pending = count(&|graph| graph.pending().len());
        Ok(IndexStatus {
            name: definition.name.clone(),
            state,
            stage: progress.and_then(|progress| progress.now()),
            linked: count(&FieldIndex::linked),
            pending,
            deleted: count(&FieldIndex::deleted),
            failed: self.signal.failed(),
        })
    }

    /// Rows that wait to enter a graph here, or for a graph that is wanted, so that each search compares
    /// all of them; those of all vector fields together.
    pub fn growing_rows(&self) -> u64 {
        let Ok(entry) = self.entry() else { return 0 };
        if entry.load == WantedLoad::Released {
            return 0;
        }
        let wanted = |field: &&FieldVectors| entry.indexes_of(field.id).any(has_graph);
        let fields = self.components.fields.iter().filter(wanted);
        let growing = |field: &FieldVectors| match field.graph() {
            Some(graph) => graph.pending().len(),
            None => self.components.live().len(),
        };
        fields.map(growing).sum()
    }

    /// Which pages of a field's graph are in memory; `None` where it has no graph that is open.
    pub fn page_stats(&self, field: &str) -> Option<PageStats> {
        let field = self.components.fields.iter().find(|each| each.name == field)?;
        Some(field.graph()?.page_stats())
    }

    /// Waits until no build of the index is under way, and all rows that were there are linked. Where
    /// the database is open for reading only it does not wait.
    ///
    /// # Errors
    /// As [`index_status`](Self::index_status), and [`CollectionError::Gone`].
    pub fn wait_for_index(&self, index: &str) -> Result<IndexStatus, CollectionError> {
        let entry = self.entry()?;
        let definition = entry.index(index)?;
        if self.pin.is_some() {
            // Nothing is built or linked where nothing is written.
            return self.index_status(index);
        }
        let field = self.components.fields.iter().find(|field| field.id == definition.field);
        self.signal.wait_until(|| {
            let graph = field.and_then(FieldVectors::graph);
            self.signal.building(definition.id).is_none()
                && graph.is_none_or(|graph| graph.pending().is_empty())
        })?;
        self.index_status(index)
    }

    /// Opens the graphs of what the catalogue wants loaded, and asks for those that are missing;
    /// reads the signatures of scalar indexes.
    ///
    /// # Errors
    /// [`CollectionError::Index`]: a graph cannot be opened, or not within the memory limit.
    pub(crate) fn load_graphs(&self) -> Result<(), CollectionError> {
        self.load_graphs_with(EarlyGraphs::default())
    }

    /// As [`load_graphs`](Self::load_graphs), with some that are open already.
    pub(in crate::collection) fn load_graphs_with(
        &self,
        mut early: EarlyGraphs,
    ) -> Result<(), CollectionError> {
        let entry = self.entry()?;
        if entry.load != WantedLoad::Released {
            self.load_scalars()?;
        }
        for definition in entry.indexes.iter().filter(|definition| has_graph(definition)) {
            let Some(field) = self.components.fields.iter().find(|f| f.id == definition.field)
            else {
                continue;
            };
            // What the catalogue says is of the server that leads.
            let missing = || !self.graph_dir(definition.id).exists();
            let interrupted = matches!(definition.state, IndexState::Building { .. })
                && (!self.follows() || missing());
            if interrupted && self.signal.building(definition.id).is_none() {
                self.signal.build(definition.id, Cause::Asked);
            }
            let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
            if field.graph().is_none() && self.is_wanted(definition.id) {
                self.open_or_rebuild(field, definition, early.take(definition.id))?;
            }
        }
        self.wake_background_if_needed(&entry);
        Ok(())
    }

    /// Opens the graph of an index that was built, unless that was done `early`; one that is damaged, or
    /// ahead of the log, is built anew. Under `opening`.
    pub(super) fn open_or_rebuild(
        &self,
        field: &FieldVectors,
        definition: &IndexDefinition,
        early: Option<Result<OpenedGraph, FieldIndexError>>,
    ) -> Result<(), CollectionError> {
        let dir = self.graph_dir(definition.id);
        if !dir.exists() {
            let lost = matches!(definition.state, IndexState::Finished { rows } if rows > 0);
            if lost && self.signal.building(definition.id).is_none() {
                tracing::warn!(dir = %dir.display(), "a graph is missing and is built anew");
                self.signal.build(definition.id, Cause::Asked);
            }
            return Ok(());
        }
        wait_until_closed(field);
        match early.unwrap_or_else(|| self.open_graph(field, &dir)) {
            Ok(opened) if self.is_ahead_of_log(&opened.graph) => {
                tracing::warn!(dir = %dir.display(), "a graph ahead of the log is built anew");
                drop(opened);
                remove_dir(&dir);
                self.signal.build(definition.id, Cause::Asked);
                Ok(())
            }
            Ok(opened) => {
                let next = opened.graph.applied().next();
                field.links_from.store(next.0, Ordering::Relaxed);
                self.publish(field, opened);
                Ok(())
            }
            Err(error) if error.needs_build() => {
                tracing::warn!(dir = %dir.display(), "a graph is built anew: {error}");
                remove_dir(&dir);
                self.signal.build(definition.id, Cause::Asked);
                Ok(())
            }
            Err(error) => Err(self.index_error(field, &error)),
        }
    }

    /// Whether a graph may have rows that the log has lost, whose ids others get. A log that several
    /// servers have brings the same rows again.
    fn is_ahead_of_log(&self, graph: &FieldIndex) -> bool {
        self.pin.is_none() && !self.log.is_shared() && graph.applied() > self.log.last()
    }

    /// Closes a graph that takes no changes any more, and opens it as it is on disk.
    pub(in crate::collection) fn open_again(
        &self,
        field: &FieldVectors,
    ) -> Result<bool, CollectionError> {
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        field.set_graph(None);
        match self.graph_of(field)? {
            Some(definition) if self.is_wanted(definition.id) => {
                self.open_or_rebuild(field, &definition, None).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Whether the graph of an index is to be open. Asked under `opening`, which whoever drops or
    /// releases it takes after the catalogue has changed.
    pub(super) fn is_wanted(&self, index: IndexId) -> bool {
        self.entry().is_ok_and(|entry| {
            entry.load != WantedLoad::Released && entry.indexes.iter().any(|i| i.id == index)
        })
    }

    pub(super) fn open_graph(
        &self,
        field: &FieldVectors,
        dir: &Path,
    ) -> Result<OpenedGraph, FieldIndexError> {
        OpenedGraph::open(dir, field.id, &self.options.graph, &self.options.accountant)
    }

    /// Makes a graph the one that is searched.
    pub(super) fn publish(&self, field: &FieldVectors, opened: OpenedGraph) {
        let (graph, rows) = (Arc::new(opened.graph), opened.rows);
        let dead = {
            // Nothing becomes visible or invisible in between.
            let view = self.components.view.write().unwrap_or_else(PoisonError::into_inner);
            let dead = graph.begin(&view.among(None), &rows);
            field.set_graph(Some(Arc::clone(&graph)));
            dead
        };
        if let Err(error) = graph.remove(dead.iter().map(RowId)) {
            tracing::warn!(field = field.name, "deleted rows stay in the graph: {error}");
        }
    }

    /// Closes the graphs, and drops signatures and answers that were kept; their memory is free when the last search under way
    /// has ended.
    pub(crate) fn release_graphs(&self) {
        self.components.scalars.release();
        self.answers.clear();
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        for field in &self.components.fields {
            let mut linking = self.linking.lock().unwrap_or_else(PoisonError::into_inner);
            linking.forget(field.id);
            field.set_graph(None);
        }
    }

    /// To be called now and then: returns answers to filters and what is kept for searches where
    /// there were none since the last time, and the memory of write buffers where nothing was
    /// written and nothing waits for a flush. Says whether it did.
    pub(crate) fn trim(&self) -> bool {
        let mut rested = self.answers.trim() | self.rest_buffers();
        for graph in self.components.fields.iter().filter_map(|field| field.graph()) {
            rested |= graph.trim();
        }
        rested
    }

    fn rest_buffers(&self) -> bool {
        // A writer who has the order is reason enough not to.
        let Ok(order) = self.order.try_lock() else { return false };
        self.components.is_flushed(order.submitted) && self.components.buffers.trim()
    }

    /// Closes and removes the graph of an index that the catalogue has dropped.
    pub(crate) fn drop_graph(&self, index: IndexId, field: crate::schema::FieldId) {
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        // Held to the end, so that nobody writes what is removed.
        let mut linking = self.linking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(field) = self.components.fields.iter().find(|f| f.id == field) {
            linking.forget(field.id);
            field.set_graph(None);
        }
        remove_dir(&self.graph_dir(index));
    }

    /// Removes graphs of indexes that the catalogue does not have.
    pub(in crate::collection) fn remove_stray_graphs(&self, entry: &Entry) {
        let Ok(names) = fs::read_dir(&self.files) else { return };
        for name in names.flatten().map(|file| file.file_name()) {
            let Some(id) = name.to_str().and_then(|name| name.strip_prefix(INDEX_PREFIX)) else {
                continue;
            };
            // What is not called by a number alone was being built.
            let of = |id: u64| entry.indexes.iter().any(|index| index.id == IndexId(id));
            if !id.parse().is_ok_and(of) {
                remove_dir(&self.files.join(name));
            }
        }
    }

    /// The index of a field that has a graph.
    pub(in crate::collection) fn graph_of(
        &self,
        field: &FieldVectors,
    ) -> Result<Option<IndexDefinition>, CollectionError> {
        let entry = self.entry()?;
        let found = entry.indexes_of(field.id).find(|definition| has_graph(definition)).cloned();
        Ok(found)
    }

    fn wake_background_if_needed(&self, entry: &Entry) {
        if entry.indexes.iter().any(has_graph) {
            self.wake_background();
        }
    }

    /// Tells the catalogue of a graph, where this server may.
    pub(super) fn set_state(
        &self,
        index: IndexId,
        state: IndexState,
    ) -> Result<(), CollectionError> {
        if self.follows() {
            return Ok(());
        }
        let change = EntryChange::SetIndexState { collection: self.identity.id, index, state };
        self.catalog.apply(change, (self.now)())?;
        Ok(())
    }

    pub(in crate::collection) fn graph_dir(&self, index: IndexId) -> PathBuf {
        self.files.join(index_dir(index))
    }
}

/// Waits until nobody holds the graph of before, such as a search of before a release.
pub(super) fn wait_until_closed(field: &FieldVectors) {
    while field.is_closing() {
        std::thread::yield_now();
    }
}

pub(super) fn remove_dir(dir: &Path) {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(dir = %dir.display(), "cannot remove a graph: {error}");
        }
        _ => {}
    }
}
