//! `pipeann-lab collections fill`: rows of a file inserted into a collection.

use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_cli::measure::{peak_rss_bytes, rounded, seconds};
use pipeann_cli::table::print_json;
use pipeann_cli::vectors_file::VectorsFile;
use pipeann_db::catalog::IndexState;
use pipeann_server::interrupt;
use serde_json::json;

use super::columns::ColumnsFile;
use super::opening::{DatabaseArgs, batch, batch_with, create, declare_index};

/// Insert rows of a file into a collection, and print how long it took as one JSON object
#[derive(Debug, Args)]
pub(crate) struct FillArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Name of the collection; created unless it is there
    #[arg(long, default_value = "rows")]
    collection: String,
    /// Vectors: .u8bin, .fbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Further columns of the same rows, as lines of JSON: first an array of fields as a schema has
    /// them, then for each row an array of its values
    #[arg(long, value_name = "FILE")]
    columns: Option<PathBuf>,
    /// First row
    #[arg(long, value_name = "ROW", default_value_t = 0)]
    from: usize,
    /// Rows to insert [default: all that follow]
    #[arg(long, value_name = "ROWS")]
    count: Option<usize>,
    /// Rows of one insert
    #[arg(long, value_name = "ROWS", default_value_t = 1000)]
    batch: usize,
    /// Build the graph over all rows afterwards, and write everything to disk
    #[arg(long)]
    build: bool,
    /// Write everything to disk at the end
    #[arg(long)]
    flush: bool,
    /// Wait until all rows are linked into the graph
    #[arg(long)]
    link: bool,
    /// Stay there when all is done and printed, until standard input ends
    #[arg(long)]
    stay: bool,
}

/// Runs the command.
pub(crate) fn run(args: &FillArgs) -> Result<()> {
    ensure!(args.batch > 0, "--batch must be at least 1");
    let cancel = interrupt::flag()?;
    let file = VectorsFile::open(&args.base)?;
    let set = file.set();
    let left = file.rows().checked_sub(args.from).context("the file has fewer rows")?;
    let until = args.from + args.count.unwrap_or(left).min(left);
    let database = args.database.open()?;
    let mut columns = args.columns.as_deref().map(ColumnsFile::open).transpose()?;
    let fields = columns.as_ref().map(ColumnsFile::fields);
    let rows = create(&database, &args.collection, (set.dim(), set.vector_type()), fields)?;
    if let Some(columns) = &mut columns {
        columns.skip(args.from)?;
    }
    let begun = Instant::now();
    for first in (args.from..until).step_by(args.batch) {
        interrupt::check(&cancel)?;
        let range = first..(first + args.batch).min(until);
        let rows_of_batch = match &mut columns {
            None => batch(set, range, 0),
            Some(columns) => {
                let columns = columns.next(range.len())?;
                batch_with(set, range, 0, columns)
            }
        };
        rows.insert(rows_of_batch, None)?;
    }
    let inserted_s = seconds(begun.elapsed());
    if args.flush {
        rows.flush()?;
    }
    let built_s = if args.build {
        let begun = Instant::now();
        declare_index(&database, &args.collection)?;
        rows.build_index("graph")?;
        let status = rows.wait_for_index("graph")?;
        let finished = matches!(status.state, IndexState::Finished { .. });
        ensure!(finished, "the index is not built: {:?}", status.state);
        rows.flush()?;
        Some(seconds(begun.elapsed()))
    } else {
        None
    };
    if args.link {
        let status = rows.wait_for_index("graph")?;
        ensure!(status.pending == 0, "rows wait to be linked: {:?}", status.failed);
    }
    print_json(&json!({
        "rows": until - args.from, "inserted_s": rounded(inserted_s, 4),
        "built_s": built_s.map(|s| rounded(s, 3)),
        "linked_s": args.link.then(|| rounded(seconds(begun.elapsed()), 4)),
        "peak_rss_bytes": peak_rss_bytes(), "devices": args.database.devices()?,
    }))?;
    if args.stay {
        std::io::stdin().read_to_end(&mut Vec::new())?;
    }
    Ok(())
}
