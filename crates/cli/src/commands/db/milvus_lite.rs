//! The file of Milvus Lite 2, taken over: a SQLite database with a table of what was declared and one
//! for the rows of each collection.
//!
//! What the messages in its columns mean is known to `milvus`; here they are only read. The file is
//! opened for reading and never changed.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use pipeann_db::database::Database;
use pipeann_milvus::{FrontendSettings, InProcess, RefusedCall, TakenOver};
use pipeann_server::interrupt::{self, Interrupted};
use pipeann_server::opening::{database_options, now};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::json;

use crate::table::{count, print_json, print_pairs};

/// How each file of SQLite 3 begins.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";
/// The largest value that is read: more than the largest row that can be written.
const LARGEST_BYTES: i32 = 256 << 20;
/// Where Milvus Lite keeps schemas and indexes.
const DECLARED: &str = "collection_meta";

/// Take over the collections of a file of Milvus Lite
///
/// Schemas, rows and indexes of the format of Milvus Lite 2.4 and 2.5. The file is only read. Close
/// its clients before.
#[derive(Debug, Args)]
pub(super) struct MilvusLiteArgs {
    /// The file, as milvus_demo.db
    file: PathBuf,
    /// Directory of the database that takes it; made where it is missing
    #[arg(long, visible_alias = "data_dir", value_name = "DIR", default_value = "./data")]
    data_dir: PathBuf,
    /// Take only this collection; may be given several times
    #[arg(long = "collection", value_name = "NAME")]
    collections: Vec<String>,
    /// Print the result as one JSON object for each collection
    #[arg(long)]
    json: bool,
}

/// What is declared of one collection.
#[derive(Default)]
struct Declared {
    name: String,
    schema: Option<Vec<u8>>,
    indexes: Vec<Vec<u8>>,
}

/// Runs `pipeann db import-milvus-lite`.
pub(super) fn import(args: &MilvusLiteArgs) -> Result<()> {
    let cancel = interrupt::flag()?;
    let stopped = || cancel.load(std::sync::atomic::Ordering::Relaxed);
    let named = || args.file.display().to_string();
    check_kind(&args.file)?;
    let file = Connection::open_with_flags(&args.file, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .with_context(named)?;
    file.set_limit(Limit::SQLITE_LIMIT_LENGTH, LARGEST_BYTES)?;
    let declared = declared(&file).with_context(named)?;
    let chosen = chosen(declared, &args.collections).with_context(named)?;
    let database = Database::open(&args.data_dir, database_options(None))
        .with_context(|| format!("opening {}", args.data_dir.display()))?;
    let service =
        InProcess::new(FrontendSettings { database: Arc::new(database), now: Arc::new(now) });
    // Nothing is written before it is known that all of it can be had.
    for collection in &chosen {
        let Declared { name, schema, .. } = collection;
        let schema = schema.as_deref().with_context(|| format!("{name} has no schema"))?;
        service.check_takeover(name, schema).map_err(|refused| {
            refusal(name, &refused).context("nothing was taken; --collection takes some of them")
        })?;
    }
    for collection in &chosen {
        let taken = take(&service, &file, collection, &stopped)?;
        say(args, &collection.name, &taken)?;
    }
    Ok(())
}

fn refusal(collection: &str, refused: &RefusedCall) -> anyhow::Error {
    anyhow::anyhow!("the collection {collection} cannot be taken over: {}", refused.reason)
}

/// Refuses what is no file of SQLite, by what it is.
fn check_kind(path: &Path) -> Result<()> {
    if path.is_dir() {
        bail!(
            "{} is a directory: Milvus Lite 3 keeps its collections in one, and only the files of \
             Milvus Lite 2 are taken over",
            path.display()
        );
    }
    let mut begin = Vec::with_capacity(SQLITE.len());
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    file.take(SQLITE.len() as u64).read_to_end(&mut begin)?;
    ensure!(begin == SQLITE, "{} is no file of Milvus Lite: it is not SQLite's", path.display());
    Ok(())
}

/// All collections, in the order in which they were created.
fn declared(file: &Connection) -> Result<Vec<Declared>> {
    let is_there = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
    let there: i64 = file.query_row(is_there, [DECLARED], |row| row.get(0))?;
    ensure!(there == 1, "it is no file of Milvus Lite: it has no table {DECLARED}");
    let all = format!("SELECT collection_name, meta_type, blob_field FROM {DECLARED} ORDER BY id");
    let mut statement = file.prepare(&all)?;
    let mut rows = statement.query([])?;
    let mut found: Vec<Declared> = Vec::new();
    while let Some(row) = rows.next()? {
        let name = String::from_utf8(bytes(row, 0)?).context("the name of a collection")?;
        let (kind, record) = (bytes(row, 1)?, bytes(row, 2)?);
        let at = found.iter().position(|one| one.name == name).unwrap_or_else(|| {
            found.push(Declared { name: name.clone(), ..Default::default() });
            found.len() - 1
        });
        match kind.as_slice() {
            b"schema" => found[at].schema = Some(record),
            b"index" => found[at].indexes.push(record),
            other => bail!(
                "it declares a {} of {name}, which Milvus Lite 2 does not know",
                String::from_utf8_lossy(other)
            ),
        }
    }
    Ok(found)
}

fn chosen(declared: Vec<Declared>, names: &[String]) -> Result<Vec<Declared>> {
    for name in names {
        ensure!(declared.iter().any(|one| one.name == *name), "it has no collection {name}");
    }
    let wanted = |one: &Declared| names.is_empty() || names.contains(&one.name);
    Ok(declared.into_iter().filter(wanted).collect())
}

fn take(
    service: &InProcess,
    file: &Connection,
    collection: &Declared,
    stopped: &dyn Fn() -> bool,
) -> Result<TakenOver> {
    let name = &collection.name;
    let schema = collection.schema.as_deref().unwrap_or_default();
    let mut taking = service.take_over(name, schema).map_err(|e| refusal(name, &e))?;
    let table = name.replace('"', "\"\"");
    let all = format!("SELECT milvus_id, data, id FROM \"{table}\" ORDER BY id");
    let mut statement = file.prepare(&all).with_context(|| format!("the rows of {name}"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next().with_context(|| format!("the rows of {name}"))? {
        let (key, record) = (bytes(row, 0)?, bytes(row, 1)?);
        taking.add(&key, &record).map_err(|refused| {
            let number = row.get::<_, i64>(2).unwrap_or_default();
            refusal(name, &refused).context(format!("near row {number} of {name}"))
        })?;
        if stopped() {
            return Err(Interrupted.into());
        }
    }
    let indexes = collection.indexes.iter().map(Vec::as_slice);
    taking.finish(indexes).map_err(|e| refusal(name, &e))
}

/// A column's bytes: Milvus Lite stores messages as texts, which they are not.
fn bytes(row: &Row<'_>, column: usize) -> Result<Vec<u8>> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes.to_vec()),
        other => bail!("column {column} holds {}, not bytes", other.data_type()),
    }
}

fn say(args: &MilvusLiteArgs, name: &str, taken: &TakenOver) -> Result<()> {
    let TakenOver { rows, indexes, without } = taken;
    if args.json {
        let without: Vec<_> =
            without.iter().map(|(name, why)| json!({"index": name, "why": why})).collect();
        return print_json(&json!({
            "collection": name, "rows": rows, "indexes": indexes, "left_out": without,
        }));
    }
    let mut pairs = vec![("collection", name.to_owned()), ("rows", count(*rows))];
    if !indexes.is_empty() {
        pairs.push(("indexes", indexes.join(", ")));
    }
    for (name, why) in without {
        pairs.push(("left out", format!("index {name}: {why}")));
    }
    print_pairs(&pairs)
}
