//! Building the graphs of a collection, and giving them the place of those before.
//!
//! A graph is built beside the one that is searched, of what lives when the build begins. When it has its
//! name, the one before has no directory any more and is closed in any case: where the new one cannot
//! be opened just then, searches are exact until it can.

use std::fs;
use std::path::Path;
use std::sync::PoisonError;

use super::graphs::{remove_dir, wait_until_closed};
use super::signal::{BegunBuild, Cause};
use crate::catalog::{IndexDefinition, IndexState, WantedLoad};
use crate::collection::field_vectors::FieldVectors;
use crate::collection::{Collection, CollectionError};
use crate::field_index::{self, BuildRequest, FieldIndexError};

/// Ends the name of a graph's directory while it is built.
const BUILT_IN: &str = "tmp";
/// Ends the name of a graph's directory while another takes its place.
const ASIDE: &str = "old";

impl Collection {
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
        let (rows, applied) = (live.len(), self.log.last());
        // No graph may be ahead of the log after a power cut: others would get the ids of its rows.
        self.log.sync()?;
        self.set_state(index, IndexState::Building { rows_done: 0, rows })?;
        let request = BuildRequest {
            vectors: &field.vectors,
            dim: field.dim,
            vector_type: field.vector_type,
            live: &live.among(None),
            applied,
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
                let with = (options, &self.options.accountant);
                let built = field_index::build(&request, &built_in, with, progress);
                built.inspect(|&found| field.note_built(rows, found))
            }
        };
        let opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = built.and_then(|rows| {
            let unopened = self.take_built(field, definition, &built_in, rows)?;
            Ok((rows, unopened))
        });
        drop(opening);
        if !self.entry()?.indexes.iter().any(|definition| definition.id == index) {
            // Dropped while it was built.
            remove_dir(&dir);
            return Ok(());
        }
        self.note_build(field, definition, cause, taken)
    }

    /// Gives a graph of so many rows its place, and makes it the one that is searched where the
    /// collection is loaded. Under `opening`. What is returned keeps it from being opened; where this
    /// fails, the one before stays.
    fn take_built(
        &self,
        field: &FieldVectors,
        definition: &IndexDefinition,
        built_in: &Path,
        rows: u64,
    ) -> Result<Option<FieldIndexError>, FieldIndexError> {
        let dir = self.graph_dir(definition.id);
        if rows == 0 {
            let mut linking = self.linking.lock().unwrap_or_else(PoisonError::into_inner);
            linking.forget(field.id);
            field.set_graph(None);
            remove_dir(&dir);
            return Ok(None);
        }
        self.replace_graph(field, built_in, &dir)?;
        if !self.is_wanted(definition.id) {
            return Ok(None);
        }
        let opened = self.open_graph(field, &dir).or_else(|error| {
            tracing::warn!(
                index = definition.name,
                "a new graph waits for the one before: {error}"
            );
            // What it lacks may be what the one before holds, which is of no use any more.
            field.set_graph(None);
            wait_until_closed(field);
            self.open_graph(field, &dir)
        });
        match opened {
            Ok(opened) => {
                self.publish(field, opened);
                Ok(None)
            }
            Err(error) => Ok(Some(error)),
        }
    }

    /// Gives a graph that was built its name. Under `opening`, so that nobody opens a part of the one
    /// and a part of the other; and under `linking`, so that nobody writes the other meanwhile.
    ///
    /// # Errors
    /// [`FieldIndexError::Directory`]: the other one stays.
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
        // After a power cut there may be the one before, or none, which is built anew.
        let synced = fs::File::open(&self.files).and_then(|parent| parent.sync_all());
        if let Err(error) = synced {
            let dir = self.files.display();
            tracing::warn!("the name of a new graph is not on stable storage: {dir}: {error}");
        }
        Ok(())
    }

    /// Tells the catalogue how a build ended: with so many rows, and with what keeps them from being
    /// opened.
    fn note_build(
        &self,
        field: &FieldVectors,
        definition: &IndexDefinition,
        cause: Cause,
        taken: Result<(u64, Option<FieldIndexError>), FieldIndexError>,
    ) -> Result<(), CollectionError> {
        let index = definition.id;
        match taken {
            Ok((rows, None)) => self.set_state(index, IndexState::Finished { rows }),
            // Begun again when the collection is opened again.
            Err(_) if self.signal.is_stopped() => Ok(()),
            // Opened when there is something to do next.
            Ok((rows, Some(error))) if !error.needs_build() => {
                self.set_state(index, IndexState::Finished { rows })?;
                Err(self.index_error(field, &error))
            }
            Err(error) if cause != Cause::Asked => {
                let why = error.explained();
                tracing::warn!(index = definition.name, "the graph stays as it is: {why}");
                let graph = field.graph();
                field.note_refused(graph.as_ref().map_or(0, |graph| graph.pending().len()));
                let rows = graph.map_or(0, |graph| graph.linked());
                self.set_state(index, IndexState::Finished { rows })
            }
            Ok((_, Some(error))) | Err(error) => {
                let reason = error.explained();
                tracing::warn!(index = definition.name, "the build failed: {reason}");
                self.set_state(index, IndexState::Failed { reason })
            }
        }
    }

    /// Opens the graph of a field that is there and could not be opened until now, or asks for the one
    /// of a field that had too few rows.
    pub(in crate::collection) fn open_or_build(
        &self,
        field: &FieldVectors,
    ) -> Result<bool, CollectionError> {
        let Some(definition) = self.graph_of(field)? else { return Ok(false) };
        if !matches!(definition.state, IndexState::Finished { .. })
            || self.entry()?.load == WantedLoad::Released
        {
            return Ok(false);
        }
        if self.graph_dir(definition.id).exists() {
            let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
            if field.graph().is_none() && self.is_wanted(definition.id) {
                self.open_or_rebuild(field, &definition, None)?;
            }
            return Ok(true);
        }
        if !field.has_grown(self.components.live().len(), self.options.graph.least_rows) {
            return Ok(false);
        }
        self.signal.build(definition.id, Cause::Asked);
        Ok(true)
    }
}
