//! `pipeann inspect`: what an index consists of, and with `--verify` whether it is sound.

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use crate::inspection::{self, PageFigures};
use crate::opening::IndexArgs;
use crate::progress;
use crate::table::{bytes, count, print_json, print_line, print_pairs};
use pipeann_engine::memory::MemoryLimit;

/// Show what an index consists of; with --verify, read all of it and name all damage
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    index: IndexArgs,
    /// Read everything: checksums of pages and blocks, edges in range, rows against records.
    /// The exit code is 1 where anything is damaged
    #[arg(long)]
    verify: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Pages looked at without `--verify`.
const SAMPLE_PAGES: u32 = 2000;

/// Runs the command.
pub(crate) fn run(args: &InspectArgs) -> Result<()> {
    let index = args.index.open(MemoryLimit::Floor)?;
    let (mut damage, mut more) = (Vec::new(), 0);
    let figures = if args.verify {
        let bar = progress::bar("verify", index.pages().into(), "pages");
        let report = index.verify(&mut |done| bar.set_position(done))?;
        bar.finish_and_clear();
        let figures = PageFigures::from(&report);
        more = report.more;
        damage.extend(report.damage.into_iter().map(|d| d.0));
        figures
    } else {
        PageFigures::sample(&index, SAMPLE_PAGES)?
    };
    if args.json {
        let mut all = inspection::json(&index, &figures);
        if args.verify {
            all["damage"] = json!(damage);
            all["more_damage"] = json!(more);
        }
        print_json(&all)?;
    } else {
        print_pairs(&inspection::pairs(&index, &figures))?;
        print_line("files")?;
        for file in index.manifest().files() {
            print_line(&format!("  {:>12}  {}", bytes(file.bytes), file.path))?;
        }
        for what in &damage {
            print_line(&format!("damaged: {what}"))?;
        }
        if more > 0 {
            print_line(&format!("damaged: {} more places", count(more)))?;
        }
        if args.verify && damage.is_empty() {
            print_line(&format!("verified: {} pages, no damage", figures.pages))?;
        }
    }
    match damage.len() as u64 + more {
        0 => Ok(()),
        1 => bail!("1 place is damaged"),
        n => bail!("{n} places are damaged"),
    }
}
