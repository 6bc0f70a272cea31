//! `pipeann convert`: one vector format to another, and truth ids to and from `.ivecs`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_server::interrupt;
use serde_json::json;

use crate::progress;
use crate::table::{count, print_json, print_line};
use crate::truth::Truth;
use crate::vectors_file::{Format, VectorsFile, VectorsWriter, write_ivecs};

/// Convert vector files by their extensions
///
/// Vectors: .fbin, .f16bin, .bf16bin, .u8bin, .i8bin, .bbin (bits, eight in a byte), .bvecs, .fvecs,
/// .npy (two-dimensional, C order, f32, f16, u8 or i8). Any type may be written as f32, and, rounded,
/// as f16 or bf16; as u8, i8 or bits where every component is such a number.
/// Truth: .bin to .ivecs writes the ids, .ivecs to .bin marks the distances as unknown.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// File to read
    #[arg(long = "in", value_name = "FILE")]
    input: PathBuf,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Take only the first rows
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    ensure!(args.rows != Some(0), "--rows is 0, but must be at least 1");
    let extension = |p: &Path| p.extension().and_then(|e| e.to_str()).map(str::to_owned);
    let truth = |e: &Option<String>| matches!(e.as_deref(), Some("bin" | "ivecs"));
    let (from, to) = (extension(&args.input), extension(&args.out));
    let (rows, dim) =
        if truth(&from) && truth(&to) { convert_truth(args)? } else { convert_vectors(args)? };
    if args.json {
        return print_json(&json!({ "rows": rows, "dim": dim, "out": args.out }));
    }
    print_line(&format!("{} rows x {dim}: {}", count(rows as u64), args.out.display()))
}

fn convert_truth(args: &ConvertArgs) -> Result<(usize, usize)> {
    let mut truth = Truth::open(&args.input)?;
    truth.truncate(args.rows.unwrap_or(usize::MAX));
    if args.out.extension().is_some_and(|e| e == "ivecs") {
        write_ivecs(&args.out, truth.k(), truth.ids())?;
    } else {
        truth.write(&args.out)?;
    }
    Ok((truth.queries(), truth.k()))
}

fn convert_vectors(args: &ConvertArgs) -> Result<(usize, usize)> {
    // A wrong output name is better told before a large input is read.
    Format::of(&args.out)?;
    let input = VectorsFile::open(&args.input)?;
    let set = input.first(args.rows.unwrap_or(usize::MAX));
    let cancel = interrupt::flag()?;
    let bar = progress::bar("convert", set.rows() as u64, "rows");
    let mut out = VectorsWriter::create(&args.out, set.rows(), set.dim(), set.vector_type())?;
    for row in 0..set.rows() {
        out.write_row(set.row(row)).with_context(|| input.path().display().to_string())?;
        if row % 4096 == 4095 {
            interrupt::check(&cancel)?;
            bar.inc(4096);
        }
    }
    out.finish()?;
    bar.finish_and_clear();
    Ok((set.rows(), set.dim()))
}
