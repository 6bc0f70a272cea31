//! One graph over servers on this machine, a search over it, and one query's way.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use pipeann_engine::index::Index;
use pipeann_engine::memory::MemoryLimit;
use pipeann_server::joining::Joining;
use tempfile::NamedTempFile;

use super::ports::free_ports;
use crate::commands::cluster::search::{COLUMNS, How, search};
use crate::opening::Reading;
use crate::table::{Table, print_line};

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

/// Starts them over the index in `dir`, searches, tells, and ends them.
pub(super) fn run(
    servers: usize,
    dir: &Path,
    reading: &Reading,
    queries: &Path,
    how: &How,
) -> Result<()> {
    let options = reading.options(MemoryLimit::Floor)?;
    let partitions = Index::open(dir, &options)
        .with_context(|| format!("opening {}", dir.display()))?
        .partitions();
    ensure!(
        (1..=partitions).contains(&servers),
        "{servers} servers cannot share {partitions} partitions: each needs one at least; build \
         with --partitions"
    );
    let topology = topology(servers, partitions)?;
    let program = std::env::current_exe().context("finding this program")?;
    let mut started = Vec::new();
    for server in 0..servers {
        started.push(start(&program, topology.path(), server, dir, reading)?);
    }
    print_line(&format!("{servers} servers on this machine, {partitions} partitions, one graph"))?;
    let table = Table::new(&COLUMNS);
    print_line(&table.header())?;
    let mut farthest = None;
    search(&Joining::insecure(topology.path().to_owned()), queries, how, |searched| {
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
    for (number, port) in free_ports(servers)?.iter().enumerate() {
        text.push_str(&format!(
            "\n[[server]]\nnumber = {number}\naddress = \"127.0.0.1:{port}\"\n"
        ));
    }
    let mut topology = NamedTempFile::new().context("creating the topology")?;
    topology.write_all(text.as_bytes()).context("writing the topology")?;
    Ok(topology)
}

fn start(
    program: &Path,
    topology: &Path,
    server: usize,
    dir: &Path,
    reading: &Reading,
) -> Result<StartedServer> {
    let mut command = Command::new(program);
    command.args(["cluster", "serve", "--insecure", "--until-eof", "--threads", "1"]);
    command.arg("--topology").arg(topology).arg("--server").arg(server.to_string());
    command.arg("--index").arg(dir);
    if reading.buffered {
        command.arg("--buffered");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    Ok(StartedServer(command.spawn().context("starting a server")?))
}
