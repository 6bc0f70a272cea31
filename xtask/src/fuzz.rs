//! `cargo xtask fuzz [--seconds N] [--at-once N] [--seed N] [TARGET...]`: builds the fuzzer with
//! counters of coverage and runs it over each target, from its committed seeds.
//!
//! Each run is a process that ends by itself, so a crash of one is a line of the report. Targets
//! that are broken on purpose have to crash. What a run has found is kept in `target/fuzz`, and
//! where the next one begins.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

/// Names of targets that are broken on purpose begin so.
const PLANTED: &str = "planted-";
/// The longest input. Longer ones take longer and find the same.
const MOST_BYTES: usize = 8192;
/// Lines of a crash that are shown.
const SHOWN_LINES: usize = 12;

/// What is asked on the command line.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    seconds: u64,
    at_once: usize,
    /// Where chance begins; 0 takes another each time.
    seed: u32,
    targets: Vec<String>,
}

impl Options {
    fn read(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut options = Self { seconds: 10, at_once: 2, seed: 1, targets: Vec::new() };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a number"));
            match word.as_str() {
                "--seconds" => options.seconds = value()?.parse()?,
                "--at-once" => options.at_once = value()?.parse()?,
                "--seed" => options.seed = value()?.parse()?,
                _ if word.starts_with('-') => bail!("unknown option {word}"),
                _ => options.targets.push(word),
            }
        }
        ensure!(options.at_once > 0, "--at-once is at least 1");
        Ok(options)
    }
}

/// What a run of a target said.
#[derive(Debug, Default, PartialEq)]
struct TargetRun {
    crashed: bool,
    inputs: u64,
    /// The largest share of its bound that an input made a decoder allocate.
    share: f64,
    said: String,
}

/// Runs the targets and prints a line for each; each finding is one for the reader.
pub(crate) fn run(root: &Path, words: impl IntoIterator<Item = String>) -> Result<Vec<String>> {
    let options = Options::read(words)?;
    let known = known_targets(&root.join("fuzz/seeds"))?;
    if let Some(unknown) = options.targets.iter().find(|target| !known.contains(target)) {
        bail!("no target {unknown}; there are {}", known.join(", "));
    }
    let program = build(root)?;
    let chosen = if options.targets.is_empty() { &known } else { &options.targets };
    let waiting = Mutex::new(chosen.iter().collect::<VecDeque<_>>());
    let findings = Mutex::new(Vec::new());
    let totals = Mutex::new((0_u64, 0.0_f64));
    thread::scope(|scope| {
        let work = || -> Result<()> {
            loop {
                let next = waiting.lock().expect("no holder panics").pop_front();
                let Some(target) = next else { return Ok(()) };
                let outcome = run_target(root, &program, target, &options)?;
                println!("{}", line(target, &outcome));
                let planted = target.starts_with(PLANTED);
                if !planted {
                    let mut totals = totals.lock().expect("no holder panics");
                    totals.0 += u64::from(outcome.crashed);
                    totals.1 = totals.1.max(outcome.share);
                }
                findings.lock().expect("no holder panics").extend(judge(target, &outcome));
            }
        };
        let threads: Vec<_> = (0..options.at_once).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a run's failure is a value"))
    })?;
    let (crashes, share) = totals.into_inner().expect("no holder panics");
    println!("crashes {crashes} largest_share {share:.3}");
    Ok(findings.into_inner().expect("no holder panics"))
}

/// A line of the report.
fn line(target: &str, outcome: &TargetRun) -> String {
    let end = if outcome.crashed { "crashed" } else { "held" };
    let (inputs, share) = (outcome.inputs, outcome.share * 100.0);
    format!("{target:20} {inputs:>10} inputs, {share:3.0}% of the bytes allowed, {end}")
}

/// What is wrong about an outcome.
fn judge(target: &str, outcome: &TargetRun) -> Option<String> {
    let planted = target.starts_with(PLANTED);
    match (planted, outcome.crashed) {
        (true, true) | (false, false) => None,
        (true, false) => Some(format!("{target} is broken and was not found out")),
        (false, true) => Some(format!("{target} crashed:\n{}", outcome.said)),
    }
}

fn known_targets(seeds: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(seeds).with_context(|| format!("no {}", seeds.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// The directory that cargo compiles into: this program stands in it.
fn compiled() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    Ok(this.parent().context("a program stands in a directory")?.to_owned())
}

fn build(root: &Path) -> Result<PathBuf> {
    let status = Command::new("cargo")
        // Of the whole workspace, so that what comes from outside has the features that it has for
        // tests, and is not compiled again.
        .args(["build", "--locked", "--workspace", "--bin", "fuzz"])
        .args(["--features", "pipeann-fuzz/libfuzzer"])
        .env("RUSTC_WORKSPACE_WRAPPER", root.join("fuzz/instrument.sh"))
        .current_dir(root)
        .status()?;
    ensure!(status.success(), "the fuzzer does not compile");
    Ok(compiled()?.join("fuzz"))
}

fn run_target(root: &Path, program: &Path, target: &str, options: &Options) -> Result<TargetRun> {
    let place = compiled()?.with_file_name("fuzz").join(target);
    let (corpus, crashes) = (place.join("corpus"), place.join("crashes"));
    // What is broken on purpose has to be found from its seeds each time.
    if target.starts_with(PLANTED) && place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&crashes)?;
    let output = Command::new(program)
        .env("PIPEANN_FUZZ_TARGET", target)
        .env("RUST_BACKTRACE", "0")
        .arg(format!("-max_total_time={}", options.seconds))
        .arg(format!("-seed={}", options.seed))
        .arg(format!("-max_len={MOST_BYTES}"))
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
        .args([&corpus, &root.join("fuzz/seeds").join(target)])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(read_outcome(output.status.success(), &said))
}

/// What the fuzzer's words tell.
fn read_outcome(success: bool, said: &str) -> TargetRun {
    let mut outcome = TargetRun { crashed: !success, ..TargetRun::default() };
    for line in said.lines() {
        if let Some(units) = line.strip_prefix("stat::number_of_executed_units:") {
            outcome.inputs = units.trim().parse().unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("largest allocation: ") {
            let mut numbers = rest.split(' ').filter_map(|word| word.parse::<f64>().ok());
            if let (Some(bytes), Some(bound)) = (numbers.next(), numbers.next()) {
                outcome.share = outcome.share.max(bytes / bound);
            }
        }
    }
    if outcome.crashed {
        let from = said
            .lines()
            .skip_while(|line| !line.contains("panicked at") && !line.contains("ERROR"));
        let shown = from.filter(|line| !line.is_empty()).take(SHOWN_LINES);
        let artifact = said.lines().find(|line| line.contains("Test unit written to"));
        outcome.said = shown.chain(artifact).collect::<Vec<_>>().join("\n");
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Options> {
        Options::read(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read_and_unknown_ones_refused() {
        let read = words("--seconds 240 rows --seed 7 page --at-once 1").unwrap();
        let targets = ["rows", "page"].map(str::to_owned).into();
        assert_eq!(read, Options { seconds: 240, at_once: 1, seed: 7, targets });
        for bad in ["--seconds", "--seconds x", "--fast", "--at-once 0"] {
            assert!(words(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_the_fuzzer_says_becomes_an_outcome() {
        let said = "largest allocation: 10 bytes of 1000 for 5\n\
                    largest allocation: 250 bytes of 1000 for 5\n\
                    stat::number_of_executed_units: 17\n";
        let held = read_outcome(true, said);
        assert_eq!((held.crashed, held.inputs, held.share), (false, 17, 0.25));
        let said = "INFO: seed\n\nthread '<unnamed>' panicked at a.rs:1:2:\nno room\n\
                    artifact_prefix='x/'; Test unit written to x/crash-1\n";
        let crashed = read_outcome(false, said);
        assert!(crashed.crashed && crashed.said.contains("no room"));
        assert!(crashed.said.contains("x/crash-1") && !crashed.said.contains("INFO"));
    }

    #[test]
    fn crashes_are_findings_and_so_is_a_planted_fault_that_is_not_found() {
        let (held, crashed) = (read_outcome(true, ""), read_outcome(false, "panicked at b"));
        assert_eq!(judge("rows", &held), None);
        assert_eq!(judge("planted-overflow", &crashed), None);
        assert!(judge("rows", &crashed).unwrap().contains("panicked at b"));
        assert!(judge("planted-overflow", &held).unwrap().contains("not found out"));
    }
}
