//! `pipeann-lab collections reopen`: opening a database until the first correct answer.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use pipeann_cli::measure::{rounded, seconds};
use pipeann_cli::table::print_json;
use pipeann_cli::vectors_file::VectorsFile;
use serde_json::json;

use super::opening::{DatabaseArgs, collection, key, one, search};

/// Open a database, search for a row that was written last, and print how long it took as one JSON
/// object
#[derive(Debug, Args)]
pub(crate) struct ReopenArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Name of the collection
    #[arg(long, default_value = "rows")]
    collection: String,
    /// Vectors that were inserted: row i has the key i
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Rows that have to be there, the last of which is searched for first
    #[arg(long, value_name = "ROWS")]
    rows: usize,
    /// Rows, spread over all, that are searched for afterwards and have to be found
    #[arg(long, value_name = "ROWS", default_value_t = 1000)]
    check: usize,
    /// Wait until all rows are linked into the graph
    #[arg(long)]
    link: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ReopenArgs) -> Result<()> {
    let file = VectorsFile::open(&args.base)?;
    let set = file.set();
    ensure!(0 < args.rows && args.rows <= file.rows(), "the file has {} rows", file.rows());
    let begun = Instant::now();
    let database = args.database.open()?;
    let open_s = seconds(begun.elapsed());
    let rows = collection(&database, &args.collection)?;
    let last = args.rows - 1;
    let hits = search(&rows, one(set, last), 1, None)?;
    let answer_s = seconds(begun.elapsed());
    let nearest = hits.first().map(|hit| hit.distance);
    ensure!(nearest == Some(0.0), "row {last} is not found: {nearest:?}");
    let stats = rows.stats();
    let status = rows.index_status("graph")?;
    let count = rows.count(None)?;
    ensure!(count == args.rows as u64, "{count} rows are there, {} were written", args.rows);
    let mut missed = 0;
    for i in 0..args.check {
        let row = (i * args.rows).checked_div(args.check).unwrap_or(0);
        let hits = search(&rows, one(set, row), 10, None)?;
        // Vectors that are there twice answer by the other key.
        let found = hits.iter().any(|hit| hit.distance == 0.0 || key(hit) == row as i64);
        missed += usize::from(!found);
    }
    let after = args.link.then(|| rows.wait_for_index("graph")).transpose()?;
    print_json(&json!({
        "rows": count, "open_s": rounded(open_s, 4), "first_answer_s": rounded(answer_s, 4),
        "records_replayed": stats.visible.0 - stats.flushed.0,
        "pending_at_first": status.pending, "linked_at_first": status.linked,
        "checked": args.check, "missed": missed,
        "pending": after.as_ref().map(|status| status.pending),
        "linked_s": after.map(|_| rounded(seconds(begun.elapsed()), 3)),
    }))
}
