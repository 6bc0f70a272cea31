//! The load: two threads that insert, replace, delete, search and flush, and say what was answered.
//!
//! What is said goes to standard output, one line for each answer, before the thread goes on.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use pipeann_db::catalog::{
    CollectionPath, EntryChange, NewCollection, NewIndex, Properties, UnixMs, WantedLoad,
};
use pipeann_db::collection::{Collection, CollectionOptions, SearchRequest};
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::field_index::GraphOptions;
use pipeann_db::ids::{Metric, VectorType};
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{Column, ColumnValues, DataType, DenseVectors, ScalarType, VectorKind};
use pipeann_db::wal::Level;
use pipeann_engine::memory::Accountant;
use pipeann_engine::types::VectorSet;

use crate::adversary::model::{KeyEffect, THREADS, Write};
use crate::adversary::vectors::Vectors;

/// Name of the collection.
pub const NAME: &str = "crash";
/// Name of its vector field.
pub const FIELD: &str = "v";
/// Name of the field that holds the number of a row's value.
pub const VALUE: &str = "value";

/// How a load runs.
#[derive(Clone, Debug)]
pub struct WritingOptions {
    /// Writes of each thread before it ends; none for as long as it lives.
    pub writes: Option<u64>,
    /// A thread flushes after this many writes.
    pub flush_every: u64,
    /// A thread searches after this many writes.
    pub search_every: u64,
    /// Small buffers and log segments, so that little work meets all of their ends.
    pub small: bool,
    /// When writes are answered.
    pub level: Level,
    /// Whether the vectors get a graph as soon as there are enough of them.
    pub graph: bool,
}

impl WritingOptions {
    /// A load that goes on until it is killed.
    #[must_use]
    pub fn large() -> Self {
        Self {
            writes: None,
            flush_every: 97,
            search_every: 11,
            small: false,
            level: Level::Sync,
            graph: true,
        }
    }

    /// A load of a few writes that meets as much as a large one.
    #[must_use]
    pub fn small(writes: u64) -> Self {
        let writes = Some(writes);
        Self { writes, flush_every: 13, search_every: 5, small: true, ..Self::large() }
    }

    /// How the database is opened, by the load and by who looks at what it left. The clock is
    /// the caller's, and goes where it likes.
    pub fn database(&self, now: u64) -> DatabaseOptions {
        let scale = if self.small { 64 << 10 } else { 2 << 20 };
        let mut collection = CollectionOptions {
            flush_log_bytes: scale,
            flush_behind: true,
            row_buffer_bytes: scale,
            tail_bytes: scale,
            scalar_buffer_bytes: scale,
            accountant: Accountant::new(None),
            graph: GraphOptions {
                build_threads: 1,
                least_rows: if self.small { 60 } else { 1000 },
                pending_rows: if self.small { 40 } else { 2000 },
                dirty_bytes: scale,
                direct: !self.small,
                ..GraphOptions::default()
            },
            build_on_read: true,
            ..CollectionOptions::default()
        };
        collection.log.level = self.level;
        collection.log.segment_bytes = scale / 8;
        let row_cache_bytes = 4 << 20;
        let others = DatabaseOptions::new(move || UnixMs(now));
        DatabaseOptions { collection, row_cache_bytes, ..others }
    }
}

/// Where the collection is in its database.
pub fn place() -> CollectionPath {
    CollectionPath::new("default", NAME)
}

/// The collection, made where it is missing.
///
/// # Errors
/// What the database says.
pub fn collection(database: &Database, dim: usize, graph: bool) -> anyhow::Result<Arc<Collection>> {
    let there = match database.collection("default", NAME) {
        Ok(there) => there,
        Err(_) => make(database, dim)?,
    };
    // Whoever made it may have been killed behind it.
    let entry = there.entry()?;
    if graph && entry.indexes.is_empty() {
        let new = NewIndex {
            field: FIELD.to_owned(),
            name: None,
            kind: "DISKANN".to_owned(),
            metric: Some(Metric::L2),
            parameters: Properties::new(),
        };
        database.apply(EntryChange::CreateIndex { place: place(), new })?;
    }
    if entry.load == WantedLoad::Released {
        database.apply(EntryChange::Load { place: place(), partitions: None })?;
    }
    Ok(there)
}

fn make(database: &Database, dim: usize) -> anyhow::Result<Arc<Collection>> {
    let dim = u32::try_from(dim).context("the dimension fits 32 bits")?;
    let schema = Schema::builder()
        .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
        .field(FieldSpec::new(VALUE, DataType::Scalar(ScalarType::Int64)))
        .field(FieldSpec::new(FIELD, DataType::Vector(VectorKind::UInt8)).dim(dim))
        .build()?;
    Ok(database.create_collection("default", NAME, NewCollection::new(schema))?)
}

/// Works on the database in `dir` until it is done, or its process is gone. `from` is the number
/// of each thread's first write.
///
/// # Errors
/// What the database says; there should be nothing.
pub fn run(
    dir: &Path,
    vectors: &Vectors,
    from: [u64; THREADS as usize],
    options: &WritingOptions,
) -> anyhow::Result<()> {
    let database = Database::open(dir, options.database(1_000_000 - from[0]))?;
    let c = collection(&database, vectors.dim(), options.graph)?;
    say("ready");
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (c, from) = (&c, from[thread as usize]);
                scope.spawn(move || work(c, vectors, thread, from, options))
            })
            .collect();
        let ended = workers.into_iter().map(|worker| worker.join().expect("a worker ends"));
        ended.collect::<anyhow::Result<()>>()
    })
}

fn work(
    c: &Collection,
    vectors: &Vectors,
    thread: u64,
    from: u64,
    options: &WritingOptions,
) -> anyhow::Result<()> {
    let end = options.writes.map_or(u64::MAX, |writes| from.saturating_add(writes));
    for number in from..end {
        let write = Write::of(thread, number);
        match write.kind {
            KeyEffect::Insert => drop(c.insert(batch(&write.rows, vectors)?, None)?),
            KeyEffect::Upsert => drop(c.upsert(batch(&write.rows, vectors)?, None)?),
            KeyEffect::Delete => {
                let keys: Vec<_> = write.rows.iter().map(|row| PrimaryKey::Int64(row.0)).collect();
                c.delete(&keys)?;
            }
        }
        say(&format!("answered {thread} {number} ."));
        if number % options.search_every == thread {
            search(c, vectors, number)?;
        }
        if number % options.flush_every == thread {
            c.flush()?;
        }
    }
    Ok(())
}

fn say(line: &str) {
    // The reader is gone when this process is to be killed. One call for the whole line.
    let _ = std::io::stdout().lock().write_all(format!("{line}\n").as_bytes());
}

/// The number of the vector that a row with this value has.
pub fn vector_of(value: u64, vectors: &Vectors) -> u64 {
    value % vectors.rows()
}

fn batch(rows: &[(i64, u64)], vectors: &Vectors) -> anyhow::Result<Batch> {
    let bytes = rows.iter().flat_map(|row| vectors.get(vector_of(row.1, vectors))).copied();
    let dense = DenseVectors::new(VectorKind::UInt8, vectors.dim(), bytes.collect())?;
    Ok(Batch {
        rows: rows.len(),
        columns: vec![
            Column::new("id", ColumnValues::Int64(rows.iter().map(|row| row.0).collect())),
            Column::new(VALUE, ColumnValues::Int64(rows.iter().map(|row| row.1 as i64).collect())),
            Column::new(FIELD, ColumnValues::Dense(dense)),
        ],
    })
}

/// The ten nearest rows of a vector: distance, key and value of each.
///
/// # Errors
/// What the collection says.
pub fn search(c: &Collection, vectors: &Vectors, number: u64) -> anyhow::Result<Vec<(f32, i64)>> {
    let query = vectors.get(number.wrapping_mul(7919) % vectors.rows());
    let set = VectorSet::new(query, vectors.dim(), VectorType::U8).context("one vector")?;
    let metric = Some(Metric::L2);
    let search = SearchRequest { metric, list: Some(100), ..SearchRequest::new(FIELD, set, 10) };
    let hits = c.search(&search)?.hits.into_iter().next().context("one answer")?;
    let key = |key: &PrimaryKey| match key {
        PrimaryKey::Int64(key) => *key,
        PrimaryKey::VarChar(_) => unreachable!("keys are numbers"),
    };
    Ok(hits.iter().map(|hit| (hit.distance, key(&hit.row.key))).collect())
}
