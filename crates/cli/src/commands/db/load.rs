//! Files of vectors into a collection.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use indicatif::ProgressBar;
use pipeann_db::bulk::{
    self, BatchSource as _, KeyColumn, LoadError, LoadOptions, LoadProgress, LoadReport, LoadWatch,
    VectorFile,
};
use pipeann_db::catalog::CATALOG_FILE;
use pipeann_db::catalog::{CollectionPath, EntryChange, NewCollection, NewIndex, Properties};
use pipeann_db::collection::Collection;
use pipeann_db::database::Database;
use pipeann_db::schema::{FieldSpec, KeyType, Schema};
use pipeann_db::value::{DataType, ScalarType, VectorKind};
use pipeann_engine::types::Metric;
use pipeann_server::interrupt::{self, Interrupted};
use pipeann_server::opening::database_options;
use serde_json::json;

use crate::measure::{peak_rss_bytes, rounded, seconds};
use crate::progress;
use crate::table::{bytes, count, duration, print_json, print_pairs};

/// Load files of vectors into a collection
///
/// An estimate of time, memory and disk is printed first. Interrupted in any way and called again,
/// it goes on behind the last row that is on the disk; a file that was loaded into a partition is
/// not loaded into it again, unless it is given another name by --name.
#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// Directory of the database
    dir: PathBuf,
    /// Name of the collection
    collection: String,
    /// Vectors: .fbin, .f16bin, .bf16bin, .u8bin, .i8bin or .bbin
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Create the collection where it is missing: an int64 key `id` and the field `vector`,
    /// indexed by this metric
    #[arg(long, value_name = "METRIC")]
    create: Option<Metric>,
    /// Vector field [default: the only one]
    #[arg(long)]
    field: Option<String>,
    /// Key of the first row, where keys are not automatic; the others count up
    #[arg(long, value_name = "KEY", default_value_t = 0)]
    first_key: i64,
    /// Database within the directory
    #[arg(long, default_value = "default")]
    database: String,
    /// Partition
    #[arg(long)]
    partition: Option<String>,
    /// Name of the load, by which it is continued; of several files it is followed by a dot and
    /// their numbers from 1 [default: made of the file's content, keys and partition]
    #[arg(long)]
    name: Option<String>,
    /// Bytes of log that a batch takes
    #[arg(long, value_name = "BYTES", default_value_t = LoadOptions::new("").batch_bytes)]
    batch_bytes: u64,
    /// Leave declared indexes as they are
    #[arg(long)]
    no_index: bool,
    /// Print the result as one JSON object for each file
    #[arg(long)]
    json: bool,
}

/// Runs `pipeann db load`.
pub(super) fn load(args: &LoadArgs) -> Result<()> {
    let missing = !args.dir.join(CATALOG_FILE).exists();
    ensure!(!missing || args.create.is_some(), "{}: no database", args.dir.display());
    let cancel = interrupt::flag()?;
    let database = Database::open(&args.dir, database_options(None))?;
    let collection = collection(args, &database)?;
    let schema = Arc::clone(&collection.entry()?.schema);
    let field = vector_field(&schema, args.field.as_deref())?;
    let mut first = args.first_key;
    for (at, path) in args.files.iter().enumerate() {
        let key = key_column(&schema, first)?;
        let mut source = VectorFile::open(path, field, key)?;
        let rows = source.rows().context("a file has a number of rows")?;
        first = first.checked_add_unsigned(rows).context("the keys pass 2^63")?;
        // Indexes are built once, when all files are there.
        let options = LoadOptions {
            batch_bytes: args.batch_bytes,
            build_indexes: !args.no_index && at + 1 == args.files.len(),
            ..named(args, at, &collection, source.identity())?
        };
        say_estimate(path, &collection, rows, &options.name)?;
        let mut watch = Bar::new(rows, &cancel);
        let report = bulk::load(&collection, &mut source, &options, &mut watch);
        watch.bar.finish_and_clear();
        match report {
            Ok(report) => say_report(args, path, &report)?,
            Err(LoadError::Interrupted { .. }) => return Err(Interrupted.into()),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
    }
    Ok(())
}

/// Options of the load of a file, with its name.
fn named(
    args: &LoadArgs,
    file: usize,
    collection: &Collection,
    source: u128,
) -> Result<LoadOptions> {
    let partition = args.partition.clone();
    let name = match &args.name {
        None => return Ok(LoadOptions::of_source(collection, source, partition)?),
        Some(name) if args.files.len() == 1 => name.clone(),
        Some(name) => format!("{name}.{}", file + 1),
    };
    Ok(LoadOptions { partition, ..LoadOptions::new(name) })
}

fn collection(args: &LoadArgs, database: &Database) -> Result<Arc<Collection>> {
    let snapshot = database.catalog();
    let there = snapshot.collection(&args.database, &args.collection).is_ok();
    let Some(metric) = args.create.filter(|_| !there) else {
        return Ok(database.collection(&args.database, &args.collection)?);
    };
    let first = VectorFile::open(&args.files[0], "vector", None)?;
    let dim = u32::try_from(first.dim()).context("a dimension")?;
    let schema = Schema::builder()
        .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
        .field(FieldSpec::new("vector", DataType::Vector(first.kind())).dim(dim))
        .build()?;
    let made =
        database.create_collection(&args.database, &args.collection, NewCollection::new(schema))?;
    let new = NewIndex {
        field: "vector".to_owned(),
        name: None,
        kind: "AUTOINDEX".to_owned(),
        metric: Some(metric),
        parameters: Properties::new(),
    };
    let place = CollectionPath::new(&args.database, &args.collection);
    if let Err(error) = database.apply(EntryChange::CreateIndex { place, new }) {
        // Or the next load would find a collection without an index.
        database.drop_collection(&args.database, &args.collection)?;
        return Err(error.into());
    }
    Ok(made)
}

/// The field that the vectors are for.
fn vector_field<'s>(schema: &'s Schema, given: Option<&'s str>) -> Result<&'s str> {
    if let Some(name) = given {
        return Ok(name);
    }
    let dense = |kind: VectorKind| kind != VectorKind::Sparse;
    let fields = schema.fields().iter().map(|field| &field.spec);
    let vectors: Vec<_> =
        fields.filter(|spec| spec.data_type.vector_kind().is_some_and(dense)).collect();
    match vectors[..] {
        [one] => Ok(&one.name),
        _ => bail!("the collection has {} dense vector fields; name one by --field", vectors.len()),
    }
}

/// The key that counts the rows, where the collection assigns none.
fn key_column(schema: &Schema, first: i64) -> Result<Option<KeyColumn>> {
    let key = &schema.primary_key().spec;
    if key.auto_id {
        return Ok(None);
    }
    ensure!(schema.key_type() == KeyType::Int64, "the key `{}` is no int64", key.name);
    Ok(Some(KeyColumn { field: key.name.clone(), first }))
}

/// Says what the load of this name will take for the rows that it has not loaded yet.
fn say_estimate(path: &Path, collection: &Collection, rows: u64, name: &str) -> Result<()> {
    let loads = collection.loads()?;
    let before = loads.iter().find(|load| load.name == name).map_or(0, |load| load.rows);
    let new = rows.saturating_sub(before);
    let estimate = bulk::estimate(collection, Some(new))?;
    let what = match before {
        0 => format!("{} rows", count(rows)),
        _ => format!("{} of {} rows, the others were loaded before", count(new), count(rows)),
    };
    eprintln!(
        "loading {}: {what}, about {}, {} of memory, {} on disk",
        path.display(),
        duration(estimate.seconds),
        bytes(estimate.memory_bytes),
        bytes(estimate.disk_bytes),
    );
    for index in &estimate.indexes {
        eprintln!(
            "then the index of `{}`: about {} of CPU, {} of memory, {} on disk",
            index.field,
            duration(index.cpu_seconds),
            bytes(index.memory_bytes),
            bytes(index.disk_bytes),
        );
    }
    Ok(())
}

fn say_report(args: &LoadArgs, path: &Path, report: &LoadReport) -> Result<()> {
    let new = report.rows - report.resumed_at;
    let rate = new as f64 / report.rows_time.as_secs_f64().max(1e-9);
    if args.json {
        return print_json(&json!({
            "file": path.display().to_string(), "rows": report.rows,
            "resumed_at": report.resumed_at, "rows_s": seconds(report.rows_time),
            "rows_per_s": rounded(rate, 0), "logged_bytes": report.logged_bytes,
            "index_s": seconds(report.index_time), "indexes": report.indexes,
            "peak_rss_bytes": peak_rss_bytes(),
        }));
    }
    let time = duration(report.rows_time.as_secs_f64());
    let mut pairs = vec![
        ("file", path.display().to_string()),
        (
            "rows",
            format!(
                "{}, of which {} were loaded before",
                count(report.rows),
                count(report.resumed_at)
            ),
        ),
        ("time", format!("{time}, {rate:.0} rows a second")),
        ("log", bytes(report.logged_bytes)),
    ];
    if new == 0 {
        pairs.push(("again", "--name NAME loads it once more".to_owned()));
    }
    if !report.indexes.is_empty() {
        let time = duration(report.index_time.as_secs_f64());
        pairs.push(("indexes", format!("{} in {time}", report.indexes.join(", "))));
    }
    print_pairs(&pairs)
}

/// A progress bar, ended by Ctrl-C.
struct Bar<'a> {
    started: Instant,
    bar: ProgressBar,
    /// The bar is that of an index.
    index: bool,
    cancel: &'a AtomicBool,
}

impl<'a> Bar<'a> {
    fn new(rows: u64, cancel: &'a AtomicBool) -> Self {
        Self {
            started: Instant::now(),
            bar: progress::bar("load", rows, "rows"),
            index: false,
            cancel,
        }
    }
}

impl LoadWatch for Bar<'_> {
    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn progress(&mut self, progress: &LoadProgress) -> ControlFlow<()> {
        match &progress.index {
            None => self.bar.set_position(progress.rows),
            Some(index) => {
                if !std::mem::replace(&mut self.index, true) {
                    let next = progress::bar("index", index.total, "rows");
                    std::mem::replace(&mut self.bar, next).finish_and_clear();
                }
                self.bar.set_position(index.rows);
            }
        }
        match self.cancel.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn pause(&mut self) {
        std::thread::park_timeout(Duration::from_millis(200));
    }
}
