//! `pipeann cluster demo`: several servers on this machine, of one database or of one graph.

mod database;
mod graph;
mod ports;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use super::search::How;
use crate::opening::Reading;

/// Start several servers on this machine, to see how they work together
///
/// Without an index: etcd and servers of one database, any of which takes any call of any Milvus
/// client, until Ctrl-C. With --index and --queries: servers that share the partitions of that
/// index; searches, shows the way of one query, and ends. All is on the loopback address, without
/// certificates.
#[derive(Debug, Args)]
pub(crate) struct ClusterDemoArgs {
    /// Servers
    #[arg(long, value_name = "N", default_value_t = 3)]
    servers: usize,
    /// Keep the database in this directory, and begin with what is there [default: a temporary one]
    #[arg(long, value_name = "DIR", conflicts_with = "index")]
    data_dir: Option<PathBuf>,
    /// The first server's port, and the others have the next ones; 0 for any that are free
    #[arg(long, value_name = "PORT", default_value_t = 19530, conflicts_with = "index")]
    port: u16,
    /// Directory of an index of as many partitions as servers, or more
    #[arg(long, value_name = "DIR", requires = "queries")]
    index: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Queries: .fbin, .f16bin, .bf16bin, .u8bin, .i8bin, .bbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE", requires = "index")]
    queries: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

/// Runs the command.
pub(crate) fn run(args: &ClusterDemoArgs) -> Result<()> {
    let Some(index) = &args.index else {
        return database::run(args.servers, args.data_dir.as_deref(), args.port);
    };
    let queries = args.queries.as_deref().context("--index needs --queries")?;
    graph::run(args.servers, index, &args.reading, queries, &args.how)
}
