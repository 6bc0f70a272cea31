//! What is in a database or a backup, whether it is sound; backing up and restoring.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use pipeann_db::database::{Database, ReadOnlyOptions};
use pipeann_db::snapshot::{
    BACKUP_FILE, BackupManifest, BackupOptions, Captured, backup_directory, restore, verify_backup,
};
use pipeann_server::opening::{database_options, now};
use serde_json::{Value, json};

use crate::table::{Table, bytes, count, print_json, print_line, print_pairs};

/// A database or a backup.
#[derive(Debug, Args)]
pub(super) struct DirArgs {
    /// Directory of the database or the backup
    dir: PathBuf,
    #[command(flatten)]
    pins: PinArgs,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Where the files that are read are kept meanwhile.
#[derive(Debug, Args)]
struct PinArgs {
    /// Keep the files that are read in this directory meanwhile, rather than in that of the
    /// database: where this user may not write there. On another file system they are copied
    #[arg(long, value_name = "DIR")]
    pins: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// Directory of the database
    dir: PathBuf,
    /// Directory to make; missing or empty
    to: PathBuf,
    /// An earlier backup: files that it has are shared with it, not copied
    #[arg(long, value_name = "BACKUP")]
    since: Option<PathBuf>,
    #[command(flatten)]
    pins: PinArgs,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// Directory of the backup
    from: PathBuf,
    /// Directory to make; missing or empty
    to: PathBuf,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `pipeann db info`.
pub(super) fn info(args: &DirArgs) -> Result<()> {
    if args.is_backup() { info_of_backup(args) } else { info_of_database(args) }
}

/// Runs `pipeann db restore`.
pub(super) fn restore_from(args: &RestoreArgs) -> Result<()> {
    let manifest = restore(&args.from, &args.to)?;
    show_written(args.json, "restored", &manifest.database, manifest.bytes(), None)
}

impl DirArgs {
    fn is_backup(&self) -> bool {
        self.dir.join(BACKUP_FILE).exists()
    }

    fn open(&self) -> Result<Database> {
        let database = database_options(None);
        let options = ReadOnlyOptions { database, pins: self.pins.pins.clone() };
        Ok(Database::open_read_only(&self.dir, options)?)
    }
}

fn info_of_database(args: &DirArgs) -> Result<()> {
    let database = args.open()?;
    let captured = database.as_of().cloned();
    let mut collections = Vec::new();
    for taken in captured.iter().flat_map(|captured| &captured.collections) {
        let stats = database.collection(&taken.database, &taken.name)?.stats();
        collections.push(json!({
            "database": taken.database, "collection": taken.name, "id": taken.id.0,
            "rows": stats.rows, "last_record": stats.visible.0, "flushed": stats.flushed.0,
        }));
    }
    if args.json {
        return print_json(&json!({ "database": args.dir, "collections": collections }));
    }
    let names = collections.iter().map(name_of).collect::<Vec<_>>();
    let table = Table::new(&["collection", "id", "rows", "last record", "flushed"]);
    let table = table.first_column(names.iter().map(String::as_str));
    print_line(&table.header())?;
    for (name, collection) in names.iter().zip(&collections) {
        let number = |key: &str| count(collection[key].as_u64().unwrap_or_default());
        let cells = ["id", "rows", "last_record", "flushed"].map(number);
        let cells: Vec<&str> =
            [name.as_str()].into_iter().chain(cells.iter().map(|c| &**c)).collect();
        print_line(&table.line(&cells))?;
    }
    Ok(())
}

fn name_of(collection: &Value) -> String {
    let text = |key: &str| collection[key].as_str().unwrap_or_default();
    format!("{}/{}", text("database"), text("collection"))
}

fn info_of_backup(args: &DirArgs) -> Result<()> {
    let manifest = BackupManifest::read(&args.dir)?;
    if args.json {
        return print_json(&json!({
            "backup": args.dir, "created_unix_ms": manifest.created.0,
            "collections": listed(&manifest.database), "files": manifest.files.len(),
            "bytes": manifest.bytes(),
        }));
    }
    print_pairs(&[
        ("files", count(manifest.files.len() as u64)),
        ("bytes", bytes(manifest.bytes())),
    ])?;
    print_collections(&manifest.database)
}

/// Runs `pipeann db verify`.
pub(super) fn verify(args: &DirArgs) -> Result<()> {
    let findings: Vec<String> = if args.is_backup() {
        let found = verify_backup(&args.dir)?;
        found.iter().map(|f| format!("{}: {}", f.path.display(), f.what)).collect()
    } else {
        let found = args.open()?.verify()?;
        found.iter().map(|(name, f)| format!("{name}, {}: {}", f.component, f.what)).collect()
    };
    if args.json {
        print_json(&json!({ "dir": args.dir, "damage": findings }))?;
    } else if findings.is_empty() {
        print_line("verified: no damage")?;
    } else {
        findings.iter().try_for_each(|what| print_line(&format!("damaged: {what}")))?;
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("1 place is damaged"),
        n => bail!("{n} places are damaged"),
    }
}

/// Runs `pipeann db backup`.
pub(super) fn back_up(args: &BackupArgs) -> Result<()> {
    let options =
        BackupOptions { since: args.since.clone(), pins: args.pins.pins.clone(), now: now() };
    let report = backup_directory(&args.dir, &args.to, &options)?;
    let manifest = &report.manifest;
    let copied = Some(report.copied_bytes);
    show_written(args.json, "backed up", &manifest.database, manifest.bytes(), copied)
}

fn show_written(
    as_json: bool,
    what: &str,
    database: &Captured,
    all_bytes: u64,
    copied_bytes: Option<u64>,
) -> Result<()> {
    if as_json {
        let mut row = json!({ "bytes": all_bytes, "collections": listed(database) });
        if let Some(copied) = copied_bytes {
            row["copied_bytes"] = copied.into();
        }
        return print_json(&row);
    }
    let shared = copied_bytes.map(|copied| all_bytes - copied).filter(|shared| *shared > 0);
    let shared = shared.map(|s| format!(", {} of them shared with the earlier backup", bytes(s)));
    print_line(&format!("{what}: {}{}", bytes(all_bytes), shared.unwrap_or_default()))?;
    print_collections(database)
}

fn listed(database: &Captured) -> Vec<Value> {
    let collections = database.collections.iter();
    let row = |c: &pipeann_db::snapshot::CapturedCollection| {
        json!({
            "database": c.database, "collection": c.name, "id": c.id.0, "last_record": c.seq.0,
        })
    };
    collections.map(row).collect()
}

fn print_collections(database: &Captured) -> Result<()> {
    for c in &database.collections {
        let last = count(c.seq.0);
        print_line(&format!("  {}/{}, up to record {last}", c.database, c.name))?;
    }
    Ok(())
}
