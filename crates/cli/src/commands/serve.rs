//! `pipeann serve`: a database for clients of Milvus.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_engine::index::Resident;
use pipeann_engine::memory::Accountant;
use pipeann_milvus::{DEFAULT_PORT, ServeOptions, Settings, listen};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::interrupt;
use crate::opening::{MemoryLimit, now};

/// Serve a database to clients of Milvus
///
/// Runs until it is interrupted; calls under way are answered then. A second interruption ends it at
/// once. What was answered is durable either way.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Directory of the database; made where it is missing
    #[arg(long, alias = "data_dir", value_name = "DIR", default_value = "./data")]
    data_dir: PathBuf,
    /// Address to listen on
    #[arg(long, value_name = "HOST", default_value = "0.0.0.0")]
    host: String,
    /// Port to listen on; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Searches that are done at once, and as many other calls; 0 for numbers by the CPUs
    #[arg(long, value_name = "THREADS", default_value_t = 0)]
    threads: usize,
    /// Whether searches that wait and are alike are done together
    #[arg(long, value_name = "WHETHER", default_value = "on")]
    merge: Switch,
    /// What clients have to send as their token: USER:PASSWORD, or a key; nothing unless given
    #[arg(long, value_name = "TOKEN", env = "PIPEANN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Memory for all collections: floor (no limit, no pages stay in memory), all
    /// (no limit, all pages stay), or bytes as 512MiB (no pages stay)
    #[arg(long, alias = "memory_limit", value_name = "LIMIT", default_value = "floor")]
    memory_limit: MemoryLimit,
}

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Runs the command.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    // The second signal ends the process whatever it is doing.
    interrupt::flag()?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals cannot be waited for")?;
    let mut options = DatabaseOptions::new(now);
    let (limit, resident) = match args.memory_limit {
        MemoryLimit::Floor => (None, Resident::None),
        MemoryLimit::All => (None, Resident::All),
        MemoryLimit::Bytes(bytes) => (Some(bytes), Resident::None),
    };
    options.collection.accountant = Accountant::new(limit);
    options.collection.graph.resident = resident;
    let database = Database::open(&args.data_dir, options);
    let database =
        Arc::new(database.with_context(|| format!("opening {}", args.data_dir.display()))?);
    let settings = Settings { database: Arc::clone(&database), now: Arc::new(now) };
    let options = ServeOptions {
        host: args.host.clone(),
        port: args.port,
        threads: args.threads,
        merge: args.merge == Switch::On,
        token: args.token.clone(),
    };
    let listening = listen(settings, &options)?;
    let address = listening.address();
    if args.token.is_none() && !address.ip().is_loopback() {
        eprintln!(
            "pipeann: anyone who reaches {address} can read and write this database; see --token"
        );
    }
    println!("listening on {address}");
    signals.forever().next();
    eprintln!("pipeann: ending; calls under way are answered first");
    listening.stop();
    drop(database);
    Ok(())
}
