//! `pipeann raw status|copy|claim|release`: the SSDs of `--backend spdk`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use pipeann_engine::index::Index;
use pipeann_engine::io::BackendChoice;
use pipeann_engine::io::raw::{Config, Store, StoreStatus, Uuid, claim, devices, release};
use pipeann_engine::memory::MemoryLimit;
use pipeann_server::opening::By;
use serde_json::json;

use crate::opening::{self, Reading, parse_limit};
use crate::table::{bytes, print_json, print_line, print_pairs};

/// What to do with the SSDs.
#[derive(Debug, Subcommand)]
pub(crate) enum DevicesCommand {
    /// Show which SSDs are listed, and which copies they hold
    Status(StatusArgs),
    /// Copy an index to the SSDs, if it is not there already
    Copy(CopyArgs),
    /// Take the SSDs for pipeann: overwrites what stands at their start
    Claim(ClaimArgs),
    /// Let the SSDs go, or give up the copies of one index
    Release(ReleaseArgs),
}

/// Which SSDs.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The list of SSDs [default: spdk_bdevs.json in the working directory]
    #[arg(long, value_name = "FILE.json")]
    spdk_config: Option<PathBuf>,
}

impl ListArgs {
    fn config(&self) -> Result<Config> {
        Ok(Config::read(self.spdk_config.as_deref().unwrap_or(Path::new(Config::NAME)))?)
    }

    fn store(&self) -> Result<Store> {
        Ok(Store::open(devices(&self.config()?)?)?)
    }
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    list: ListArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    #[command(flatten)]
    list: ListArgs,
    /// Print what the SSDs were asked for as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ClaimArgs {
    #[command(flatten)]
    list: ListArgs,
    /// Bytes of a turn on each SSD, a multiple of 4096
    #[arg(long, value_name = "BYTES", default_value = "64KiB", value_parser = parse_limit)]
    stripe: u64,
    /// What the SSDs hold is not needed any more, whatever it is
    #[arg(long)]
    overwrite: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    list: ListArgs,
    /// Give up only the copies of the index in this directory
    #[arg(long, value_name = "DIR")]
    index: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(command: &DevicesCommand) -> Result<()> {
    match command {
        DevicesCommand::Status(args) => status(args),
        DevicesCommand::Copy(args) => copy(args),
        DevicesCommand::Claim(args) => {
            let set = claim(&devices(&args.list.config()?)?, args.stripe, args.overwrite)?;
            print_line(&format!("claimed as the stripe {set}"))
        }
        DevicesCommand::Release(args) => let_go(args),
    }
}

fn status(args: &StatusArgs) -> Result<()> {
    let store = args.list.store()?;
    let found = store.status();
    if args.json {
        return print_json(&as_json(&store, &found));
    }
    let devices = store.devices();
    let names: Vec<String> = (0..devices.count())
        .map(|i| format!("{} ({})", devices.name(i), bytes(devices.geometry(i).bytes)))
        .collect();
    print_pairs(&[
        ("stripe", format!("{} in turns of {}", found.set, bytes(found.stripe_bytes))),
        ("devices", names.join(", ")),
        ("LBA size", format!("{} bytes", devices.lba_bytes())),
        ("used", format!("{} of {}", bytes(found.used), bytes(found.capacity))),
        ("copies", found.entries.len().to_string()),
    ])?;
    for entry in &found.entries {
        print_line(&format!(
            "  {:>12}  {} partition {} {}",
            bytes(entry.bytes),
            entry.index,
            entry.partition,
            entry.name
        ))?;
    }
    Ok(())
}

fn as_json(store: &Store, found: &StoreStatus) -> serde_json::Value {
    let devices = store.devices();
    let device = |i| json!({ "name": &**devices.name(i), "bytes": devices.geometry(i).bytes });
    let copies = found.entries.iter().map(|entry| {
        json!({
            "index": entry.index.to_string(), "partition": entry.partition,
            "segment": entry.name, "bytes": entry.bytes, "start": entry.start,
            "generation": entry.generation,
        })
    });
    json!({
        "stripe": found.set.to_string(), "stripe_bytes": found.stripe_bytes,
        "lba_bytes": devices.lba_bytes(), "capacity": found.capacity, "used": found.used,
        "devices": (0..devices.count()).map(device).collect::<Vec<_>>(),
        "copies": copies.collect::<Vec<_>>(),
    })
}

fn copy(args: &CopyArgs) -> Result<()> {
    let by = By { backend: BackendChoice::Spdk, spdk_config: args.list.spdk_config.clone() };
    let reading = Reading { by, ..Reading::default() };
    let index = opening::open(&args.index, MemoryLimit::Floor, &reading)?;
    // What was there before counts as nothing to copy.
    let left = index.backend().wait_copied(&mut |_| ()).left_files;
    if left > 0 {
        bail!("{left} segments stay on the file system; the lines above say why");
    }
    if args.json {
        print_json(&json!({ "devices": opening::devices_json(index.backend().as_ref()) }))?;
    }
    Ok(())
}

fn let_go(args: &ReleaseArgs) -> Result<()> {
    let Some(index) = &args.index else {
        release(&devices(&args.list.config()?)?)?;
        return print_line("released");
    };
    let opened = Index::open(index, &Reading::default().options(MemoryLimit::Floor)?);
    let uuid = opened.with_context(|| format!("opening {}", index.display()))?.manifest().uuid;
    let given_up = args.list.store()?.forget(Some(Uuid::from_bytes(uuid)))?;
    print_line(&format!("gave up {given_up} copies"))
}
