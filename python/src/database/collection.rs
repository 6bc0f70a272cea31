//! The collection that Python holds, and doing something with it. Its methods are in
//! `collection_methods`, reads in `queries`, loads in `loading`.

use std::sync::{Arc, Weak};

use pipeann_db::catalog::{CollectionId, CollectionPath, EntryChange};
use pipeann_db::collection;
use pipeann_db::database::Database;
use pipeann_db::schema::Schema;
use pyo3::prelude::*;

use super::failure::PyFailure;
use super::gate::Gate;
use super::schemas::database_of;

/// A collection of an open database. Threads may share it.
#[pyclass(frozen, module = "pipeann", name = "Collection")]
pub(crate) struct PyCollection {
    gate: Arc<Gate>,
    /// Weak, so that closing the database closes it.
    inner: Weak<collection::Collection>,
    id: CollectionId,
}

impl PyCollection {
    pub(super) fn new(
        gate: Arc<Gate>,
        inner: Weak<collection::Collection>,
        id: CollectionId,
    ) -> Self {
        Self { gate, inner, id }
    }

    /// Does something with the GIL released.
    pub(super) fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&collection::Collection) -> Result<T, PyFailure> + Send,
    ) -> PyResult<T> {
        self.with(py, |_, collection| work(collection))
    }

    pub(super) fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Database, &collection::Collection) -> Result<T, PyFailure> + Send,
    ) -> PyResult<T> {
        self.gate.run(py, |db| {
            let dropped = || PyFailure::closed("the collection was dropped");
            let collection = self.inner.upgrade().ok_or_else(dropped)?;
            work(db, &collection)
        })
    }

    pub(super) fn schema(&self, py: Python<'_>) -> PyResult<Arc<Schema>> {
        self.run(py, |c| Ok(Arc::clone(&c.entry()?.schema)))
    }

    /// Makes a change, by the name that the collection has now.
    pub(super) fn change(
        &self,
        py: Python<'_>,
        change: impl FnOnce(CollectionPath) -> EntryChange + Send,
    ) -> PyResult<()> {
        self.with(py, |db, _| {
            let snapshot = db.catalog();
            let dropped = || PyFailure::closed("the collection was dropped");
            let entry = snapshot.collection_by_id(self.id).ok_or_else(dropped)?;
            let place = CollectionPath::new(database_of(&snapshot, entry), &*entry.name);
            Ok(db.apply(change(place)).map(drop)?)
        })
    }
}
