//! What tests compile serves the package for Python too, and the fuzzer.
//!
//! Cargo chooses the features of a dependency by what is asked of all that is built together. The
//! package is built alone: were a feature of a dependency chosen for tests only, everything above
//! that dependency would be compiled twice, and nobody would be told.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Above it stand the filter of what is logged, `server` and the programs alone: proptest asks for all
/// of Unicode.
const SEPARATE: &str = "regex-syntax ";

/// Dependencies of the package whose features differ from those for tests.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut compiled_again = BTreeSet::new();
    // What only compiling needs is compiled apart, with features of its own.
    for (edges, edges_for_tests) in [("normal", "normal,dev"), ("normal,build", "normal,build,dev")]
    {
        let tested = chosen(root, &["--workspace", "--edges", edges_for_tests])?;
        let packaged = chosen(root, &["--package", "pipeann-python", "--edges", edges])?;
        let differ = packaged.difference(&tested).filter(|it| !it.starts_with(SEPARATE));
        compiled_again.extend(differ.cloned());
    }
    Ok(compiled_again
        .iter()
        .map(|it| format!("{it}: other features than for tests, so it is compiled twice"))
        .collect())
}

/// Each dependency of a selection, with its features.
fn chosen(root: &Path, selection: &[&str]) -> Result<BTreeSet<String>> {
    let output = Command::new("cargo")
        .args(["tree", "--quiet", "--locked", "--prefix", "none"])
        .args(["--format", "{p} [{f}]"])
        .args(selection)
        .current_dir(root)
        .output()
        .context("cargo cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo tree fails: {said}");
    let lines = String::from_utf8(output.stdout)?;
    // What was listed before is marked, and what it depends on not listed again.
    let dependency = |line: &str| line.strip_suffix(" (*)").unwrap_or(line).to_owned();
    Ok(lines.lines().map(dependency).collect())
}

#[cfg(test)]
mod tests {
    use super::{check, chosen};

    #[test]
    fn the_package_shares_what_tests_compile() {
        let found = check(crate::repository_root()).unwrap();
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }

    #[test]
    fn features_of_a_selection_are_told() {
        let root = crate::repository_root();
        let of_engine =
            |more: &[&str]| chosen(root, &[&["--package", "pipeann-engine"], more].concat());
        let with = of_engine(&["--edges", "normal"]).unwrap();
        let without = of_engine(&["--edges", "normal", "--no-default-features"]).unwrap();
        assert!(with.difference(&without).any(|it| it.starts_with("metis ")));
        assert!(without.iter().any(|it| it.starts_with("pipeann-engine ")));
    }
}
