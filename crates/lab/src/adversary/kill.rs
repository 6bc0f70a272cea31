//! A load is killed at random moments, again and again, over one database that keeps growing.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::adversary::check::{Findings, check};
use crate::adversary::load::WritingOptions;
use crate::adversary::model::{ExpectedRows, THREADS};
use crate::adversary::vectors::{Numbers, Vectors};

/// How often, and when.
#[derive(Clone, Debug)]
pub struct KillOptions {
    /// As the load is run.
    pub load: WritingOptions,
    /// How often it is killed.
    pub rounds: u64,
    /// Decides about the moments.
    pub seed: u64,
    /// The longest that it lives, in milliseconds.
    pub longest_ms: u64,
    /// Searches compared with exact truth in each round.
    pub queries: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Kills {
    /// Rounds in which the process had answered something.
    pub worked: u64,
    /// Writes that were answered.
    pub answered: u64,
    /// Rows at the end.
    pub rows: u64,
    /// The lowest recall of a round.
    pub recall: f64,
}

/// Kills the process of `command`, a load on `dir`, in each round, and compares what it left with
/// what it had answered. `command` is given the number of each thread's next write.
///
/// # Errors
/// The first round in which something is lost.
pub fn kill(
    command: &dyn Fn([u64; THREADS as usize]) -> Command,
    dir: &Path,
    vectors: &Vectors,
    options: &KillOptions,
) -> anyhow::Result<Kills> {
    let (mut model, mut numbers) = (ExpectedRows::default(), Numbers::new(options.seed));
    let mut kills = Kills { worked: 0, answered: 0, rows: 0, recall: 1.0 };
    for round in 0..options.rounds {
        // One in six dies while it opens the database, or soon after.
        let longest = if numbers.below(6) == 0 { 40 } else { options.longest_ms };
        let lives = Duration::from_micros(numbers.below(longest * 1000));
        let answered = one(command(model.answered), &mut model, lives)
            .with_context(|| format!("round {round}"))?;
        kills.worked += u64::from(answered > 0);
        kills.answered += answered;
        let what = || format!("round {round}, killed after {lives:?}; see {}", dir.display());
        std::fs::create_dir_all(dir)?;
        let Findings { rows, recall } =
            check(dir, vectors, &mut model, &options.load, options.queries).with_context(what)?;
        (kills.rows, kills.recall) = (rows, kills.recall.min(recall));
    }
    Ok(kills)
}

/// Lets a process live for a while, and hears what it says until it is gone.
fn one(mut command: Command, model: &mut ExpectedRows, lives: Duration) -> anyhow::Result<u64> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start the load")?;
    let out = child.stdout.take().context("its output is piped")?;
    let (said, lines) = mpsc::channel();
    let answered = std::thread::scope(|scope| -> anyhow::Result<u64> {
        let listener = scope.spawn(move || {
            let mut answered = 0;
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                answered += u64::from(model.hear(&line));
            }
            drop(said);
            answered
        });
        // Nothing is ever sent: this waits until the process ends by itself, or its time is up.
        let ended: Result<(), _> = lines.recv_timeout(lives);
        let by_itself = matches!(ended, Err(mpsc::RecvTimeoutError::Disconnected));
        child.kill()?;
        let status = child.wait()?;
        ensure!(!by_itself, "the load ended by itself with {status}");
        Ok(listener.join().expect("listening does not panic"))
    })?;
    Ok(answered)
}
