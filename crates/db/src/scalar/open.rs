//! Opening indexes, and making empty ones.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use super::column::ScalarColumn;
use super::directory::SignatureCode;
use super::manifest::{MANIFEST_NAME, RunsManifest};
use super::pending::PendingRows;
use super::run::{OpenRun, Run, file_name};
use super::{IndexesState, ScalarError, ScalarIndexes, ScalarOptions};
use crate::ids::Seq;

impl ScalarIndexes {
    /// Opens the indexes in `dir`, or makes empty ones where there are none, for these columns.
    ///
    /// # Errors
    /// [`ScalarError`]; where [`is_damage`](ScalarError::is_damage) says so they have to be
    /// [removed](Self::remove) and made anew.
    pub fn open(
        dir: &Path,
        columns: Arc<[ScalarColumn]>,
        options: ScalarOptions,
    ) -> Result<Self, ScalarError> {
        open(dir, columns, options)
    }

    /// Removes the indexes in `dir`, so that they can be made anew.
    ///
    /// # Errors
    /// [`ScalarError::Io`].
    pub fn remove(dir: &Path) -> Result<(), ScalarError> {
        remove(dir)
    }
}

fn open(
    dir: &Path,
    columns: Arc<[ScalarColumn]>,
    options: ScalarOptions,
) -> Result<ScalarIndexes, ScalarError> {
    fs::create_dir_all(dir).map_err(ScalarError::io("create", dir))?;
    let on_disk = match RunsManifest::read(dir)? {
        Some(manifest) => manifest,
        None => {
            remove_runs(dir, &[])?;
            let empty = RunsManifest::empty(options.collection);
            empty.write(dir)?;
            if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                let sync = File::open(parent).and_then(|parent| parent.sync_all());
                sync.map_err(ScalarError::io("sync", parent))?;
            }
            empty
        }
    };
    on_disk.check(options.collection, dir)?;
    if on_disk.durable == Seq(0) && !on_disk.runs.is_empty() {
        let what = "it was being made, or found to be damaged";
        return Err(ScalarError::damaged(&dir.join(MANIFEST_NAME), what));
    }
    let run = |number: &u64| {
        let run = Run::open(dir, *number, options.collection, &options.accountant)?;
        Ok(OpenRun { run: Arc::new(run), signatures: None })
    };
    let runs: Vec<OpenRun> = on_disk.runs.iter().map(run).collect::<Result<_, ScalarError>>()?;
    check_order(dir, &runs)?;
    check_types(&runs, &columns)?;
    remove_runs(dir, &on_disk.runs)?;
    let state = IndexesState {
        applied: on_disk.durable,
        durable: on_disk.durable,
        columns: Arc::clone(&columns),
        runs: Arc::new(runs),
        chunks: Vec::new(),
        newest: Arc::new(PendingRows::new(columns)),
    };
    Ok(ScalarIndexes {
        dir: dir.to_owned(),
        options,
        state: Mutex::new(state),
        adding: Mutex::default(),
        on_disk: Mutex::new(on_disk),
        loaded: AtomicBool::new(false),
        damaged: Arc::default(),
    })
}

/// A field has the type under which its values were indexed.
fn check_types(runs: &[OpenRun], columns: &[ScalarColumn]) -> Result<(), ScalarError> {
    for OpenRun { run, .. } in runs {
        for stored in run.columns() {
            let known = columns.iter().find(|column| column.field == stored.field);
            let array = matches!(stored.code, SignatureCode::Elements(_));
            if known.is_some_and(|known| (known.scalar, known.array) != (stored.scalar, array)) {
                let what = format!("it has field {} under another type", stored.field.0);
                return Err(ScalarError::damaged(run.path(), what));
            }
        }
    }
    Ok(())
}

/// Runs stand in the order of their rows.
fn check_order(dir: &Path, runs: &[OpenRun]) -> Result<(), ScalarError> {
    if runs.is_sorted_by(|a, b| a.run.map().first_row() < b.run.map().first_row()) {
        return Ok(());
    }
    Err(ScalarError::damaged(&dir.join(MANIFEST_NAME), "its runs are not in order"))
}

/// Removes runs that no manifest lists: what interrupted flushes left.
fn remove_runs(dir: &Path, listed: &[u64]) -> Result<(), ScalarError> {
    let names = || -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect()
    };
    for name in names().map_err(ScalarError::io("list", dir))? {
        if name.starts_with("run-") && !listed.iter().any(|number| file_name(*number) == name) {
            let path = dir.join(name);
            fs::remove_file(&path).map_err(ScalarError::io("remove", &path))?;
        }
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<(), ScalarError> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(ScalarError::io("remove", dir)(e)),
        _ => Ok(()),
    }
}
