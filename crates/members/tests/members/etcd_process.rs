//! An etcd of one test, which may be stopped, killed and restarted.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::tools::{LONG, pause};

/// Where there may be none, tests that need etcd are left out by this variable.
const WITHOUT: &str = "PIPEANN_WITHOUT_ETCD";

pub(crate) struct EtcdProcess {
    child: Child,
    home: TempDir,
    ports: [u16; 2],
    flags: Vec<String>,
    /// How often it has said that it serves.
    served: usize,
}

impl EtcdProcess {
    /// A new one; nothing where tests go without on purpose.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(flags: &[String]) -> Option<Self> {
        if !is_installed() {
            #[expect(clippy::disallowed_methods, reason = "a test has no other settings")]
            let without = std::env::var(WITHOUT);
            assert_eq!(
                without.as_deref(),
                Ok("1"),
                "etcd is not on PATH: install it (Debian: apt-get install etcd-server), or leave out \
                 the tests that need it by {WITHOUT}=1"
            );
            eprintln!("left out, since {WITHOUT}=1 says so: etcd is not on PATH");
            return None;
        }
        // Another process may take a port between the look and the start.
        let started = (0..20).find_map(|_| {
            let (home, ports) = (tempfile::tempdir().unwrap(), free_ports());
            let child = spawn(home.path(), ports, flags);
            let mut etcd = Self { child, home, ports, flags: flags.to_vec(), served: 0 };
            etcd.is_up().then_some(etcd)
        });
        Some(started.expect("etcd starts"))
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.flags.is_empty() { "http" } else { "https" };
        format!("{scheme}://127.0.0.1:{}", self.ports[0])
    }

    pub(crate) fn port(&self) -> u16 {
        self.ports[0]
    }

    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts again what was killed.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(self.home.path(), self.ports, &self.flags);
        assert!(self.is_up(), "etcd does not start again");
    }

    /// Removes the data of one that was killed.
    pub(crate) fn empty(&self) {
        std::fs::remove_dir_all(self.home.path().join("data")).unwrap();
    }

    /// Waits until it says that it serves; false where it has ended. Whether somebody takes connections
    /// at its port does not tell that it is this one.
    fn is_up(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            let said = std::fs::read_to_string(self.home.path().join("log")).unwrap();
            if said.matches("ready to serve client requests").count() > self.served {
                self.served += 1;
                return true;
            }
            pause(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_installed() -> bool {
    Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_ok()
}

fn free_ports() -> [u16; 2] {
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let held = [listen(), listen()];
    held.map(|it| it.local_addr().unwrap().port())
}

fn spawn(home: &Path, [clients, peers]: [u16; 2], flags: &[String]) -> Child {
    let scheme = if flags.is_empty() { "http" } else { "https" };
    let (clients, peers) =
        (format!("{scheme}://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
    let log = File::options().create(true).append(true).open(home.join("log")).unwrap();
    Command::new("etcd")
        .arg("--data-dir")
        .arg(home.join("data"))
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .args(["--initial-cluster", &format!("default={peers}")])
        // A lease is at least one and a half times as long as an election.
        .args(["--heartbeat-interval", "100", "--election-timeout", "1000"])
        .args(flags)
        .env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH.replace("aarch64", "arm64"))
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}
