//! A database and its collections, made or opened the same way in every workload.
//!
//! A collection of these loads has a key `id`, which is the row's position in the file, the vector
//! `v`, and a number `n` or, where there is a file of columns, those.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pipeann_cli::opening::{devices_json, wait_copied};
use pipeann_db::catalog::{CollectionPath, EntryChange, NewCollection, NewIndex};
use pipeann_db::collection::{Collection, SearchHit, SearchRequest};
use pipeann_db::database::Database;
use pipeann_db::ids::{Metric, VectorType};
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema, SchemaBuilder};
use pipeann_db::value::{Column, ColumnValues, DataType, DenseVectors, ScalarType, VectorKind};
use pipeann_db::wal::Level;
use pipeann_engine::memory::MemoryLimit;
use pipeann_engine::types::VectorSet;
use pipeann_server::opening::{By, database_options};
use serde_json::Value;

/// When writes are answered.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LevelArg {
    /// When they are on stable storage
    Sync,
    /// The same, after waiting a little for others
    Group,
    /// When the operating system has them
    None,
}

/// Which database, and how it is opened.
#[derive(Clone, Debug, Args)]
pub(crate) struct DatabaseArgs {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// When writes are answered
    #[arg(long, value_enum, default_value = "sync")]
    level: LevelArg,
    /// Memory for all collections: floor (no limit, no pages stay in memory), all (no limit, all
    /// pages stay), or bytes as 512MiB, of which the pages that are used most fill what is left
    #[arg(long, value_name = "LIMIT", default_value = "floor")]
    pub(crate) memory_limit: MemoryLimit,
    /// Threads that link rows of a collection into its graph
    #[arg(long, value_name = "THREADS", default_value_t = 1)]
    link_threads: usize,
    /// Bytes of rows and of vectors that wait for a flush, and of rows kept in memory, each; by
    /// default 32 MiB, but a sixteenth of the limit at most
    #[arg(long, value_name = "BYTES")]
    buffer_bytes: Option<u64>,
    /// Bytes of changes of a graph from which on it is written
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    dirty_bytes: u64,
    #[command(flatten)]
    by: By,
}

impl DatabaseArgs {
    /// Opens the database, or makes an empty one, and waits until graphs that are there have been
    /// copied to where their pages are read.
    ///
    /// # Errors
    /// What keeps it from opening.
    pub(crate) fn open(&self) -> Result<Database> {
        let backend = self.by.backend()?;
        let mut options = database_options(Some(self.memory_limit));
        let collection = &mut options.collection;
        collection.log.level = match self.level {
            LevelArg::Sync => Level::Sync,
            LevelArg::Group => Level::Group { delay_ms: 2 },
            LevelArg::None => Level::None,
        };
        collection.graph.link_threads = self.link_threads.max(1);
        collection.graph.dirty_bytes = self.dirty_bytes;
        collection.graph.backend = Some(Arc::clone(&backend));
        if let Some(bytes) = self.buffer_bytes {
            collection.row_buffer_bytes = bytes;
            collection.tail_bytes = bytes;
            collection.scalar_buffer_bytes = bytes;
            options.row_cache_bytes = bytes;
        }
        let opened = Database::open(&self.dir, options);
        let opened = opened.with_context(|| format!("opening {}", self.dir.display()))?;
        wait_copied(backend.as_ref());
        Ok(opened)
    }

    /// What raw devices were asked for, for scripts: waits until everything written so far is copied.
    ///
    /// # Errors
    /// As [`By::backend`].
    pub(crate) fn devices(&self) -> Result<Value> {
        let backend = self.by.backend()?;
        wait_copied(backend.as_ref());
        Ok(devices_json(backend.as_ref()))
    }
}

/// A collection of the default database.
///
/// # Errors
/// There is none of this name.
pub(crate) fn collection(database: &Database, name: &str) -> Result<Arc<Collection>> {
    Ok(database.collection("default", name)?)
}

/// Creates a loaded collection for such vectors and columns, or opens the one that is there.
///
/// # Errors
/// One is there for other vectors or columns, or it cannot be made.
pub(crate) fn create(
    database: &Database,
    name: &str,
    (dim, ty): (usize, VectorType),
    columns: Option<&[FieldSpec]>,
) -> Result<Arc<Collection>> {
    let kind = VectorKind::of_engine(ty);
    let dim = u32::try_from(dim).context("more dimensions than a field can have")?;
    let scalar = |name, ty| FieldSpec::new(name, DataType::Scalar(ty));
    let number = [scalar("n", ScalarType::Int32)];
    let key = scalar("id", ScalarType::Int64).primary_key();
    let columns = columns.unwrap_or(&number).iter().cloned();
    let vector = FieldSpec::new("v", DataType::Vector(kind)).dim(dim);
    let fields = [key].into_iter().chain(columns).chain([vector]);
    let schema = fields.fold(Schema::builder(), SchemaBuilder::field).build()?;
    let created = database.create_collection("default", name, NewCollection::new(schema))?;
    database.apply(EntryChange::Load {
        place: CollectionPath::new("default", name),
        partitions: None,
    })?;
    Ok(created)
}

/// Declares the graph index `graph` over the vectors, by L2.
///
/// # Errors
/// Another one is there.
pub(crate) fn declare_index(database: &Database, name: &str) -> Result<()> {
    let new = NewIndex {
        field: "v".to_owned(),
        name: Some("graph".to_owned()),
        kind: "DISKANN".to_owned(),
        metric: Some(Metric::L2),
        parameters: Default::default(),
    };
    database
        .apply(EntryChange::CreateIndex { place: CollectionPath::new("default", name), new })?;
    Ok(())
}

/// Some rows as one batch: row `i` of the range is row `i` of `vectors`, with the key `key + i` and
/// a number `n`.
pub(crate) fn batch(vectors: VectorSet<'_>, rows: std::ops::Range<usize>, key: i64) -> Batch {
    let numbers = rows.clone().map(|row| row as i32 % 1000).collect();
    batch_with(vectors, rows, key, vec![Column::new("n", ColumnValues::Int32(numbers))])
}

/// The same with these columns instead of `n`.
pub(crate) fn batch_with(
    vectors: VectorSet<'_>,
    rows: std::ops::Range<usize>,
    key: i64,
    mut columns: Vec<Column>,
) -> Batch {
    let kind = VectorKind::of_engine(vectors.vector_type());
    let bytes = rows.clone().flat_map(|row| vectors.row(row).iter().copied()).collect();
    let dense = DenseVectors::new(kind, vectors.dim(), bytes).expect("whole vectors");
    let ids: Vec<i64> = rows.clone().map(|row| key + row as i64).collect();
    columns.push(Column::new("id", ColumnValues::Int64(ids)));
    columns.push(Column::new("v", ColumnValues::Dense(dense)));
    Batch { rows: rows.len(), columns }
}

/// The `k` nearest rows with their number `n`.
///
/// # Errors
/// What the search fails at.
pub(crate) fn search(
    collection: &Collection,
    query: VectorSet<'_>,
    k: usize,
    list: Option<usize>,
) -> Result<Vec<SearchHit>> {
    let search = SearchRequest {
        metric: Some(Metric::L2),
        list,
        output: ["n"].into(),
        ..SearchRequest::new("v", query, k)
    };
    Ok(collection.search(&search)?.hits.remove(0))
}

/// The key of a row of these loads.
pub(crate) fn key(hit: &SearchHit) -> i64 {
    match hit.row.key {
        PrimaryKey::Int64(key) => key,
        PrimaryKey::VarChar(_) => unreachable!("these collections have numbers as keys"),
    }
}

/// One vector of a set, as a set.
pub(crate) fn one(set: VectorSet<'_>, row: usize) -> VectorSet<'_> {
    VectorSet::new(set.row(row), set.dim(), set.vector_type()).expect("a row of a set is a set")
}
