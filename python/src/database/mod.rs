//! `pipeann.Database`: collections inside the process.
//!
//! The classes translate and add nothing: what a batch, a search or a load may be is decided by
//! the crate `pipeann-db`, and work is done there with the GIL released.

mod answers;
mod batches;
mod collection;
mod collection_methods;
mod columns;
mod failure;
mod filters;
mod gate;
mod loading;
mod numbers;
mod plans;
mod queries;
mod schemas;
mod values;
mod vectors;

pub(crate) use collection::PyCollection;
pub(crate) use failure::PyFailure;
pub(crate) use gate::Gate;
pub(crate) use values::json_text_to_python as json_to_python;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipeann_db::catalog::{CollectionPath, ConsistencyLevel, EntryChange, NewCollection};
use pipeann_db::database::{self, DatabaseOptions};
use pipeann_db::wal::Level;
use pipeann_engine::io::{Backend, BackendChoice};
use pipeann_engine::memory::MemoryLimit;
use pipeann_engine::types::UnknownName;
use pipeann_server::opening::database_options;
use pyo3::prelude::*;

use crate::sizes::Size;
use schemas::{properties, schema};

/// An open database: a directory of collections. Threads may share it; a forked child may not.
#[pyclass(frozen, module = "pipeann", name = "Database")]
pub(crate) struct PyDatabase {
    gate: Arc<Gate>,
    path: PathBuf,
}

#[pymethods]
impl PyDatabase {
    /// Opens the database in the directory `path`, or makes one there.
    #[staticmethod]
    #[pyo3(signature = (path, *, memory_limit=None, level="sync", group_delay_ms=5, threads=1,
        build_on_read=false, direct=true, backend="auto", spdk_config=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        memory_limit: Option<Size>,
        level: &str,
        group_delay_ms: u32,
        threads: usize,
        build_on_read: bool,
        direct: bool,
        backend: &str,
        spdk_config: Option<PathBuf>,
    ) -> PyResult<Self> {
        let mut options = options(memory_limit.map(|size| size.0), level, group_delay_ms, threads)?;
        options.collection.build_on_read = build_on_read;
        options.collection.graph.direct = direct;
        let opened = py.detach(|| {
            let backend = self::backend(backend, spdk_config.as_deref())?;
            options.collection.graph.backend = Some(Arc::clone(&backend));
            let opened = database::Database::open(&path, options)?;
            // Searches read from where pages will stay.
            backend.wait_copied(&mut |_| ());
            Ok::<_, PyFailure>(opened)
        });
        let gate = Arc::new(Gate::new(opened?));
        Ok(Self { gate, path })
    }

    /// Closes it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.gate.close())?)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("Database({:?})", self.path)
    }

    /// Creates a collection.
    #[pyo3(signature = (name, fields, *, dynamic=false, description="", partitions=None,
        shards=1, consistency="bounded", properties=None, database="default"))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    fn create_collection(
        &self,
        py: Python<'_>,
        name: &str,
        fields: &Bound<'_, PyAny>,
        dynamic: bool,
        description: &str,
        partitions: Option<u32>,
        shards: u32,
        consistency: &str,
        properties: Option<BTreeMap<String, String>>,
        database: &str,
    ) -> PyResult<PyCollection> {
        let new = NewCollection {
            partitions,
            shards,
            consistency: consistency_level(consistency)?,
            properties: self::properties(properties),
            ..NewCollection::new(schema(fields, description, dynamic)?)
        };
        let created = self.gate.run(py, |db| {
            let made = db.create_collection(database, name, new)?;
            Ok((Arc::downgrade(&made), made.entry()?.id))
        });
        let (inner, id) = created?;
        Ok(PyCollection::new(Arc::clone(&self.gate), inner, id))
    }

    /// The collection of this name or alias.
    #[pyo3(signature = (name, *, database="default"))]
    fn collection(&self, py: Python<'_>, name: &str, database: &str) -> PyResult<PyCollection> {
        let (inner, id) = self.gate.run(py, |db| {
            let found = db.collection(database, name)?;
            Ok((Arc::downgrade(&found), found.entry()?.id))
        })?;
        Ok(PyCollection::new(Arc::clone(&self.gate), inner, id))
    }

    /// Names of the collections of a database.
    #[pyo3(signature = (*, database="default"))]
    fn collections(&self, py: Python<'_>, database: &str) -> PyResult<Vec<String>> {
        self.gate.run(py, |db| {
            let snapshot = db.catalog();
            Ok(snapshot.collections(database)?.map(|entry| entry.name.clone()).collect())
        })
    }

    /// Whether there is a collection of this name or alias.
    #[pyo3(signature = (name, *, database="default"))]
    fn has_collection(&self, py: Python<'_>, name: &str, database: &str) -> PyResult<bool> {
        self.gate.run(py, |db| {
            let snapshot = db.catalog();
            snapshot.database(database)?;
            Ok(snapshot.collection(database, name).is_ok())
        })
    }

    /// Drops a collection with its rows.
    #[pyo3(signature = (name, *, database="default"))]
    fn drop_collection(&self, py: Python<'_>, name: &str, database: &str) -> PyResult<()> {
        self.apply(py, EntryChange::DropCollection { place: CollectionPath::new(database, name) })
    }

    /// Renames a collection, or moves it to another database.
    #[pyo3(signature = (name, to, *, database="default", to_database=None))]
    fn rename_collection(
        &self,
        py: Python<'_>,
        name: &str,
        to: &str,
        database: &str,
        to_database: Option<&str>,
    ) -> PyResult<()> {
        let (place, to) = (
            CollectionPath::new(database, name),
            CollectionPath::new(to_database.unwrap_or(database), to),
        );
        self.apply(py, EntryChange::RenameCollection { place, to })
    }

    /// Gives a collection another name.
    #[pyo3(signature = (alias, collection, *, database="default"))]
    fn create_alias(
        &self,
        py: Python<'_>,
        alias: String,
        collection: &str,
        database: &str,
    ) -> PyResult<()> {
        self.apply(
            py,
            EntryChange::CreateAlias { place: CollectionPath::new(database, collection), alias },
        )
    }

    /// Points an alias to another collection.
    #[pyo3(signature = (alias, collection, *, database="default"))]
    fn alter_alias(
        &self,
        py: Python<'_>,
        alias: String,
        collection: &str,
        database: &str,
    ) -> PyResult<()> {
        self.apply(
            py,
            EntryChange::AlterAlias { place: CollectionPath::new(database, collection), alias },
        )
    }

    /// Drops an alias.
    #[pyo3(signature = (alias, *, database="default"))]
    fn drop_alias(&self, py: Python<'_>, alias: String, database: &str) -> PyResult<()> {
        self.apply(py, EntryChange::DropAlias { database: database.to_owned(), alias })
    }

    /// The aliases of a database, with the names of their collections.
    #[pyo3(signature = (*, database="default"))]
    fn aliases(&self, py: Python<'_>, database: &str) -> PyResult<BTreeMap<String, String>> {
        self.gate.run(py, |db| {
            let snapshot = db.catalog();
            let aliases = snapshot.aliases(database)?;
            Ok(aliases.map(|(alias, of)| (alias.to_owned(), of.name.clone())).collect())
        })
    }

    /// Creates a database beside the default one.
    #[pyo3(signature = (name, *, properties=None))]
    fn create_database(
        &self,
        py: Python<'_>,
        name: String,
        properties: Option<BTreeMap<String, String>>,
    ) -> PyResult<()> {
        self.apply(
            py,
            EntryChange::CreateDatabase { name, properties: self::properties(properties) },
        )
    }

    /// Drops an empty database.
    fn drop_database(&self, py: Python<'_>, name: String) -> PyResult<()> {
        self.apply(py, EntryChange::DropDatabase { name })
    }

    /// Names of all databases, with their properties.
    fn databases(&self, py: Python<'_>) -> PyResult<BTreeMap<String, BTreeMap<String, String>>> {
        self.gate.run(py, |db| {
            let snapshot = db.catalog();
            let databases = snapshot.databases();
            Ok(databases.map(|(name, d)| (name.to_owned(), d.properties.clone())).collect())
        })
    }
}

impl PyDatabase {
    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.gate)
    }

    fn apply(&self, py: Python<'_>, change: EntryChange) -> PyResult<()> {
        self.gate.run(py, |db| Ok(db.apply(change).map(drop)?))
    }
}

fn options(
    memory_limit: Option<u64>,
    level: &str,
    group_delay_ms: u32,
    threads: usize,
) -> Result<DatabaseOptions, PyFailure> {
    let mut options = database_options(memory_limit.map(MemoryLimit::Bytes));
    let of = &mut options.collection;
    let known = || PyFailure::input(format!("level is sync, group or none, not `{level}`"));
    of.log.level = Level::from_name(level, group_delay_ms).ok_or_else(known)?;
    if threads == 0 {
        return Err(PyFailure::input("threads is 0, at least 1 is needed"));
    }
    of.search_threads = threads;
    Ok(options)
}

/// By what pages of graphs are read.
fn backend(name: &str, spdk_config: Option<&Path>) -> Result<Arc<dyn Backend>, PyFailure> {
    let choice: BackendChoice =
        name.parse().map_err(|e: UnknownName| PyFailure::input(e.to_string()))?;
    choice.backend(spdk_config).map_err(|e| PyFailure::input(format!("backend {name}: {e}")))
}

fn consistency_level(name: &str) -> Result<ConsistencyLevel, PyFailure> {
    Ok(match name {
        "strong" => ConsistencyLevel::Strong,
        "session" => ConsistencyLevel::Session,
        "bounded" => ConsistencyLevel::Bounded,
        "eventually" => ConsistencyLevel::Eventually,
        "customized" => ConsistencyLevel::Customized,
        _ => {
            let message = format!(
                "consistency is strong, session, bounded, eventually or customized, not `{name}`"
            );
            return Err(PyFailure::input(message));
        }
    })
}
