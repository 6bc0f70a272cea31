//! The power goes after every single thing that a recorded load did to its files.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use pipeann_db::disk::PowerCut;

use crate::adversary::check::check;
use crate::adversary::load::WritingOptions;
use crate::adversary::model::ExpectedRows;
use crate::adversary::recorder::{FileOp, RecordedEvent, record};
use crate::adversary::recording::Player;
use crate::adversary::vectors::Vectors;

/// How much is tried.
#[derive(Clone, Debug)]
pub struct PowerCutOptions {
    /// As the load was run.
    pub load: WritingOptions,
    /// The power goes after every so many operations.
    pub every: u64,
    /// Different tears tried for each cut.
    pub tears: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PowerCuts {
    /// Operations on files that were recorded.
    pub operations: u64,
    /// Syncs among them.
    pub syncs: u64,
    /// States of the disk that were opened and compared.
    pub opened: u64,
    /// Writes that were answered when the recording ended.
    pub answered: u64,
}

/// Records `command`, a load on `work/load`, and compares what each power cut leaves with what
/// was answered before it.
///
/// # Errors
/// The first cut that loses something, with its place in the recording.
pub fn cut(
    mut command: Command,
    work: &Path,
    vectors: &Vectors,
    options: &PowerCutOptions,
) -> anyhow::Result<PowerCuts> {
    let dir = work.join("load");
    std::fs::create_dir_all(&dir)?;
    let events = record(&mut command, &dir)?;
    let (mut player, mut model) = (Player::default(), ExpectedRows::default());
    let mut cuts = PowerCuts::default();
    for event in &events {
        match event {
            RecordedEvent::Said(line) => cuts.answered += u64::from(model.hear(line)),
            RecordedEvent::File(op) => {
                cuts.operations += 1;
                cuts.syncs += u64::from(matches!(op, FileOp::Sync(_)));
                player.play(op).with_context(|| format!("operation {}", cuts.operations))?;
                if cuts.operations.is_multiple_of(options.every) {
                    let after = format!("operation {}, {}", cuts.operations, described(op));
                    cuts.opened += one(&player, work, vectors, &model, options, cuts.operations)
                        .with_context(|| after)?;
                }
            }
        }
    }
    ensure!(cuts.answered > 0, "the load that was recorded answered nothing");
    Ok(cuts)
}

/// Every way in which the power can go now.
fn one(
    player: &Player,
    work: &Path,
    vectors: &Vectors,
    model: &ExpectedRows,
    options: &PowerCutOptions,
    operation: u64,
) -> anyhow::Result<u64> {
    let tears = (0..options.tears).map(|tear| PowerCut::Torn(operation * 1000 + tear));
    let mut opened = 0;
    for cut in tears.chain([PowerCut::Drop]) {
        let left = work.join("left");
        player.leave(cut, &left)?;
        check(&left, vectors, &mut model.clone(), &options.load, 0)
            .with_context(|| format!("the power went: {cut:?}; see {}", left.display()))?;
        std::fs::remove_dir_all(&left)?;
        opened += 1;
    }
    Ok(opened)
}

/// An operation without the bytes that it wrote.
fn described(op: &FileOp) -> String {
    match op {
        FileOp::Write { path, at, bytes } => {
            format!("{} bytes written to `{path}` at {at:?}", bytes.len())
        }
        other => format!("{other:?}"),
    }
}
