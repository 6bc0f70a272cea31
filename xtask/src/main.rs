//! Checks of the project on itself: `cargo xtask architecture`, `cargo xtask links` and
//! `cargo xtask fuzz`.
//!
//! The first two also run as tests, so `cargo test` covers them. Nothing here depends on the crates
//! it looks at: it reads their text, so a tree that does not compile can still be checked. Fuzzing
//! compiles them, in a process of its own.

mod architecture;
mod fuzz;
mod links;
mod paths;
mod table;
mod tokens;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask architecture | links | fuzz";

fn main() -> anyhow::Result<ExitCode> {
    let root = repository_root();
    let Some(command) = std::env::args().nth(1) else { anyhow::bail!(USAGE) };
    let findings = match command.as_str() {
        "architecture" => architecture::check(root)?,
        "links" => links::check(root)?,
        "fuzz" => fuzz::run(root, std::env::args().skip(2))?,
        other => anyhow::bail!("unknown command `{other}`; {USAGE}"),
    };
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        println!("{command}: no findings");
        Ok(ExitCode::SUCCESS)
    } else {
        eprintln!("{command}: {} findings", findings.len());
        Ok(ExitCode::FAILURE)
    }
}

/// The repository this program was compiled in.
fn repository_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the repository's root")
}
