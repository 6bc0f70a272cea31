//! `pipeann cluster demo`: a cluster on this machine, a search over it, and one query's way.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_engine::index::Index;
use pipeann_engine::memory::MemoryLimit;
use pipeann_server::joining::Joining;
use tempfile::NamedTempFile;

use super::search::{COLUMNS, How, search};
use crate::opening::IndexArgs;
use crate::table::{Table, print_line};

/// Start servers on this machine that share the partitions of an index, search, and show the way of
/// one query
///
/// Each server is a process of its own on the loopback address, without certificates, and ends with
/// this command.
#[derive(Debug, Args)]
pub(crate) struct ClusterDemoArgs {
    /// Servers
    #[arg(long, value_name = "N", default_value_t = 3)]
    servers: usize,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    how: How,
}

/// A server, which ends when this goes.
struct StartedServer(Child);

impl Drop for StartedServer {
    fn drop(&mut self) {
        // It ends with its input; where it does not, it is ended.
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the command.
pub(crate) fn run(args: &ClusterDemoArgs) -> Result<()> {
    let options = args.index.reading.options(MemoryLimit::Floor)?;
    let partitions = Index::open(&args.index.index, &options)
        .with_context(|| format!("opening {}", args.index.index.display()))?
        .partitions();
    ensure!(
        (1..=partitions).contains(&args.servers),
        "{} servers cannot share {partitions} partitions: each needs one at least; build with \
         --partitions",
        args.servers
    );
    let topology = topology(args.servers, partitions)?;
    let program = std::env::current_exe().context("finding this program")?;
    let mut started = Vec::new();
    for server in 0..args.servers {
        started.push(start(&program, topology.path(), server, &args.index)?);
    }
    print_line(&format!(
        "{} servers on this machine, {partitions} partitions, one graph",
        args.servers
    ))?;
    let table = Table::new(&COLUMNS);
    print_line(&table.header())?;
    let mut farthest = None;
    search(&Joining::insecure(topology.path().to_owned()), &args.how, |searched| {
        farthest = searched.farthest.clone();
        print_line(&table.line(&searched.cells()))
    })?;
    if let Some((row, servers, spent)) = farthest {
        let way: Vec<String> = servers.iter().map(|server| format!("server {server}")).collect();
        print_line(&format!(
            "query {row} went farthest: {}; {} pages read, {} nodes explored",
            way.join(" -> "),
            spent.reads + spent.from_memory,
            spent.explored
        ))?;
    }
    Ok(())
}

/// A topology over ports that are free just now.
fn topology(servers: usize, partitions: usize) -> Result<NamedTempFile> {
    let mut text = format!("cluster = \"demo\"\npartitions = {partitions}\n");
    // All at once, or one port would be told twice.
    let taken: std::io::Result<Vec<_>> =
        (0..servers).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect();
    for (number, listener) in taken.context("looking for free ports")?.iter().enumerate() {
        let address = listener.local_addr().context("looking for a free port")?;
        text.push_str(&format!("\n[[server]]\nnumber = {number}\naddress = \"{address}\"\n"));
    }
    let mut topology = NamedTempFile::new().context("creating the topology")?;
    topology.write_all(text.as_bytes()).context("writing the topology")?;
    Ok(topology)
}

fn start(
    program: &Path,
    topology: &Path,
    server: usize,
    index: &IndexArgs,
) -> Result<StartedServer> {
    let mut command = Command::new(program);
    command.args(["cluster", "serve", "--insecure", "--until-eof", "--threads", "1"]);
    command.arg("--topology").arg(topology).arg("--server").arg(server.to_string());
    command.arg("--index").arg(&index.index);
    if index.reading.buffered {
        command.arg("--buffered");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    Ok(StartedServer(command.spawn().context("starting a server")?))
}
