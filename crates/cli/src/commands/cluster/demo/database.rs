//! Servers of one database on this machine, with etcd and a directory as the store, until Ctrl-C.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::ports::free_ports;
use crate::table::print_line;

/// A process that ends in order when this goes.
struct StartedProcess {
    name: String,
    child: Child,
    /// Open as long as the process is, which may tell more.
    told: Option<BufReader<ChildStdout>>,
}

impl StartedProcess {
    fn start(name: String, command: &mut Command) -> std::io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).spawn()?;
        let told = child.stdout.take().map(BufReader::new);
        Ok(Self { name, child, told })
    }

    /// The next line that it tells; empty where it ended.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if let Some(told) = &mut self.told {
            told.read_line(&mut line).with_context(|| format!("reading from {}", self.name))?;
        }
        Ok(line)
    }

    /// Whether it has ended.
    fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_some())
    }
}

impl Drop for StartedProcess {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// Starts etcd and the servers, tells where they are, and waits for a signal.
pub(super) fn run(servers: usize, dir: Option<&Path>, port: u16) -> Result<()> {
    ensure!(servers > 0, "--servers is 0, but must be at least 1");
    let ports = ports_from(port, servers)?;
    // Before anything is started: what comes meanwhile waits in it.
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGCHLD]).context("signals cannot be waited for")?;
    let temporary;
    let dir = match dir {
        Some(dir) => dir,
        None => {
            temporary = tempfile::tempdir().context("creating a directory for the database")?;
            temporary.path()
        }
    };
    std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    let dir = dir.canonicalize().with_context(|| format!("looking for {}", dir.display()))?;

    // Declared in this order, it goes after the servers.
    let (url, mut etcd) = start_etcd(&dir.join("etcd"))?;
    let mut started: Vec<_> = ports
        .iter()
        .enumerate()
        .map(|(server, port)| start_server(server, *port, &dir, &url))
        .collect::<Result<_>>()?;
    print_line(&format!(
        "etcd and {servers} servers of one database on this machine, in {}",
        dir.display()
    ))?;
    for (process, port) in started.iter_mut().zip(&ports) {
        let told = process.line()?;
        ensure!(told.starts_with("listening on"), "{} ended before it listened", process.name);
        print_line(&format!(
            "{}: http://127.0.0.1:{port}, process {}",
            process.name,
            process.child.id()
        ))?;
    }
    print_line("any client of Milvus can call any of them; Ctrl-C ends all")?;

    for signal in signals.forever() {
        if signal != SIGCHLD {
            break;
        }
        ensure!(!etcd.has_ended(), "etcd ended");
        for ended in started.extract_if(.., StartedProcess::has_ended) {
            print_line(&format!("{} ended; the others go on", ended.name))?;
        }
        if started.is_empty() {
            bail!("all servers ended");
        }
    }
    // All at once: one by one, each would look for a server to lead after it.
    for process in &started {
        let _ = kill_process(Pid::from_child(&process.child), Signal::TERM);
    }
    Ok(())
}

/// As many ports from the first on, or any that are free where that is 0.
fn ports_from(first: u16, count: usize) -> Result<Vec<u16>> {
    if first == 0 {
        return free_ports(count);
    }
    let port = |number: usize| first.checked_add(u16::try_from(number).ok()?);
    let ports: Option<Vec<u16>> = (0..count).map(port).collect();
    ports.with_context(|| format!("there are no {count} ports from {first} on"))
}

/// Starts etcd with its data in `dir`; also the URL where it takes calls.
fn start_etcd(dir: &Path) -> Result<(String, StartedProcess)> {
    let ports = free_ports(2)?;
    let [url, peer_url] = [ports[0], ports[1]].map(|port| format!("http://127.0.0.1:{port}"));
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(dir).args(["--name", "demo"]);
    command.args(["--logger", "zap", "--log-level", "error"]);
    command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
    command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
    command.args(["--initial-cluster", &format!("demo={peer_url}")]);
    command.stdout(Stdio::null());
    let etcd =
        StartedProcess::start("etcd".to_owned(), &mut command).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                anyhow::anyhow!(
                    "etcd is not on PATH: install it (Debian: apt-get install etcd-server)"
                )
            }
            _ => anyhow::Error::new(e).context("starting etcd"),
        })?;
    Ok((url, etcd))
}

/// Starts a server with its data in a directory in `dir`.
fn start_server(server: usize, port: u16, dir: &Path, etcd: &str) -> Result<StartedProcess> {
    let program = std::env::current_exe().context("finding this program")?;
    let name = format!("server-{server}");
    let store = dir.join("store");
    let store = store.to_str().context("the directory's name is not UTF-8")?;
    let mut command = Command::new(program);
    command.args(["serve", "--cluster", "demo", "--etcd", etcd, "--server-name", &name]);
    command.args(["--store", &format!("file://{store}"), "--host", "127.0.0.1"]);
    command.args(["--port", &port.to_string(), "--metrics_port", "0"]);
    command.args([OsStr::new("--data_dir"), dir.join(format!("server-{server}")).as_os_str()]);
    command.stdout(Stdio::piped());
    StartedProcess::start(name, &mut command).context("starting a server")
}
