//! The graphs of a collection as they come and go: built, opened, released, dropped.
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
use super::signal::{BegunBuild, Cause};
use crate::catalog::{
    CollectionEntry as Entry, EntryChange, IndexDefinition, IndexId, IndexState, WantedLoad,
};
use crate::collection::field_vectors::FieldVectors;
use crate::collection::identity::{INDEX_PREFIX, index_dir};
use crate::collection::{Collection, CollectionError};
use crate::field_index::{self, BuildRequest, FieldIndex, FieldIndexError, has_graph};
use crate::ids::RowId;

/// Ends the name of a graph's directory while it is built.
const BUILT_IN: &str = "tmp";
/// Ends the name of a graph's directory while another takes its place.
const ASIDE: &str = "old";

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
    /// As [`index_status`](Self::index_status).
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
        });
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

    /// Opens the graph of an index that was built, unless that was done `early`; one that is damaged
    /// is built anew.
    fn open_or_rebuild(
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
        // A search of before a release may hold it a moment longer.
        while field.is_closing() {
            std::thread::yield_now();
        }
        match early.unwrap_or_else(|| self.open_graph(field, &dir)) {
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
    fn is_wanted(&self, index: IndexId) -> bool {
        self.entry().is_ok_and(|entry| {
            entry.load != WantedLoad::Released && entry.indexes.iter().any(|i| i.id == index)
        })
    }

    fn open_graph(&self, field: &FieldVectors, dir: &Path) -> Result<OpenedGraph, FieldIndexError> {
        OpenedGraph::open(dir, field.id, &self.options.graph, &self.options.accountant)
    }

    /// Makes a graph the one that is searched.
    fn publish(&self, field: &FieldVectors, opened: OpenedGraph) {
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
        if let Some(field) = self.components.fields.iter().find(|f| f.id == field) {
            let mut linking = self.linking.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Gives a graph that was built its name. Under `opening`, so that nobody opens a part of the one
    /// and a part of the other; and under `linking`, so that nobody writes the other meanwhile.
    fn replace_graph(
        &self,
        field: &FieldVectors,
        built_in: &Path,
        dir: &Path,
    ) -> Result<(), FieldIndexError> {
        let mut linking = self.linking.lock().unwrap_or_else(PoisonError::into_inner);
        // The other one stays whole, for whoever takes its files just now. A crash between the two
        // leaves an index without a graph, which is built anew.
        let aside = dir.with_extension(ASIDE);
        remove_dir(&aside);
        let had_one = dir.exists();
        let rename = |from: &Path, to: &Path| {
            fs::rename(from, to).map_err(|source| FieldIndexError::Directory {
                action: "rename",
                path: from.to_owned(),
                source,
            })
        };
        if had_one {
            rename(dir, &aside)?;
        }
        if let Err(error) = rename(built_in, dir) {
            if had_one {
                rename(&aside, dir)?;
            }
            return Err(error);
        }
        linking.forget(field.id);
        remove_dir(&aside);
        let synced = fs::File::open(&self.files).and_then(|parent| parent.sync_all());
        synced.map_err(|source| FieldIndexError::Directory {
            action: "sync",
            path: self.files.clone(),
            source,
        })
    }

    /// Builds the graph of an index, and makes it the one that is searched where the collection is
    /// loaded. The catalogue says how it ended.
    pub(in crate::collection) fn build_graph(
        &self,
        begun: &BegunBuild,
    ) -> Result<(), CollectionError> {
        let &BegunBuild { index, cause, ref progress } = begun;
        let entry = self.entry()?;
        let Some(definition) = entry.indexes.iter().find(|definition| definition.id == index)
        else {
            return Ok(());
        };
        let fields = &self.components.fields;
        let (Some(field), Some(metric)) =
            (fields.iter().find(|f| f.id == definition.field), definition.metric)
        else {
            return Ok(());
        };
        let live = self.components.live();
        let rows = live.len();
        self.set_state(index, IndexState::Building { rows_done: 0, rows })?;
        let request = BuildRequest {
            vectors: &field.vectors,
            dim: field.dim,
            vector_type: field.vector_type,
            live: &live.among(None),
            applied: self.log.last(),
            any_scale: cause == Cause::Scale,
            metric,
            parameters: &definition.parameters,
        };
        let (dir, options) = (self.graph_dir(index), &self.options.graph);
        let built_in = dir.with_extension(BUILT_IN);
        remove_dir(&built_in);
        let built = match rows < options.least_rows {
            true => Ok(0),
            false => {
                let built = field_index::build(
                    &request,
                    &built_in,
                    (options, &self.options.accountant),
                    progress,
                );
                built.inspect(|&found| field.note_built(rows, found))
            }
        };
        let opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = built.and_then(|rows| {
            if rows == 0 {
                field.set_graph(None);
                remove_dir(&dir);
            } else {
                self.replace_graph(field, &built_in, &dir)?;
                if self.is_wanted(index) {
                    self.publish(field, self.open_graph(field, &dir)?);
                }
            }
            Ok(rows)
        });
        drop(opening);
        if !self.entry()?.indexes.iter().any(|definition| definition.id == index) {
            // Dropped while it was built.
            remove_dir(&dir);
            return Ok(());
        }
        match opened {
            Ok(rows) => self.set_state(index, IndexState::Finished { rows }),
            // Begun again when the collection is opened again.
            Err(_) if self.signal.is_stopped() => Ok(()),
            Err(error) if cause != Cause::Asked => {
                tracing::warn!(index = definition.name, "the graph stays as it is: {error}");
                let graph = field.graph();
                field.note_refused(graph.as_ref().map_or(0, |graph| graph.pending().len()));
                let rows = graph.map_or(0, |graph| graph.linked());
                self.set_state(index, IndexState::Finished { rows })
            }
            Err(error) => {
                tracing::warn!(index = definition.name, "the build failed: {error}");
                self.set_state(index, IndexState::Failed { reason: error.to_string() })
            }
        }
    }

    /// Asks for the graph of a field that had too few rows for one until now.
    pub(in crate::collection) fn build_if_grown(
        &self,
        field: &FieldVectors,
    ) -> Result<bool, CollectionError> {
        let Some(definition) = self.graph_of(field)? else { return Ok(false) };
        let finished = matches!(definition.state, IndexState::Finished { .. });
        let grown = field.has_grown(self.components.live().len(), self.options.graph.least_rows);
        let loaded = self.entry()?.load != WantedLoad::Released;
        if !(finished && grown && loaded) {
            return Ok(false);
        }
        self.signal.build(definition.id, Cause::Asked);
        Ok(true)
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
    fn set_state(&self, index: IndexId, state: IndexState) -> Result<(), CollectionError> {
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

fn remove_dir(dir: &Path) {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(dir = %dir.display(), "cannot remove a graph: {error}");
        }
        _ => {}
    }
}
