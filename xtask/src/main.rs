//! Checks of the project on itself: `cargo xtask architecture`, `words`, `links` and `features`, any
//! of them together, and `cargo xtask fuzz`.
//!
//! The first also run as tests, so `cargo test` covers them. Nothing here depends on the crates
//! it looks at: it reads their text, so a tree that does not compile can still be checked. Fuzzing
//! compiles them, in a process of its own.

mod architecture;
mod circles;
mod features;
mod fuzz;
mod links;
mod parts;
mod paths;
mod table;
mod tokens;
mod words;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask [architecture] [words] [links] [features] | fuzz";

fn main() -> anyhow::Result<ExitCode> {
    let root = repository_root();
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if asked.is_empty() {
        anyhow::bail!(USAGE);
    }
    if asked[0] == "fuzz" {
        return Ok(tell("fuzz", &fuzz::run(root, asked.into_iter().skip(1))?));
    }
    let mut worst = ExitCode::SUCCESS;
    for check in asked {
        let findings = match check.as_str() {
            "architecture" => architecture::check(root)?,
            "features" => features::check(root)?,
            "links" => links::check(root)?,
            "words" => words::check(root)?,
            other => anyhow::bail!("unknown command `{other}`; {USAGE}"),
        };
        if !findings.is_empty() {
            worst = ExitCode::FAILURE;
        }
        tell(&check, &findings);
    }
    Ok(worst)
}

/// Prints what a check has found.
fn tell(check: &str, findings: &[String]) -> ExitCode {
    for finding in findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        println!("{check}: no findings");
        ExitCode::SUCCESS
    } else {
        eprintln!("{check}: {} findings", findings.len());
        ExitCode::FAILURE
    }
}

/// The repository this program was compiled in.
fn repository_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the repository's root")
}
