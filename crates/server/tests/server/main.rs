//! The server as a process: what it makes of directories that are none of its own, whom it talks to, and
//! from when on it takes connections.

#[path = "../../../members/tests/members/etcd_process.rs"]
#[expect(dead_code, reason = "the tests of members stop and restart theirs")]
mod etcd_process;
mod tools;

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use etcd_process::EtcdProcess;
use tools::await_that;

/// A server in a directory, with more flags; killed when this goes.
struct ServerProcess(Child);

impl ServerProcess {
    fn start(data: &Path, flags: &[&str]) -> Self {
        let program = env!("CARGO_BIN_EXE_pipeann_milvus_server");
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(data).args(["--metrics-port", "0"]).args(flags);
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// What it says first; nobody listens any more then.
    fn says(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line
    }

    /// Asks it to end; its exit code.
    fn end(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_memory_limit_under_which_nothing_could_be_written_is_refused_with_the_least_that_would_do() {
    let dir = tempfile::tempdir().unwrap();
    let mut refused = ServerProcess::start(dir.path(), &["--port", "0", "--memory-limit", "1MiB"]);
    assert_eq!(refused.0.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    refused.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("set the limit to at least 4194304 bytes"), "{said}");
}

#[test]
fn the_directory_of_a_stranger_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("somebody's"), "").unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o1755)).unwrap();
    let mut refused = ServerProcess::start(dir.path(), &["--port", "0"]);
    assert_eq!(refused.0.wait().unwrap().code(), Some(1));
    let mode = std::fs::metadata(dir.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o1755);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn who_listens_to_a_server_may_go() {
    let dir = tempfile::tempdir().unwrap();
    // At all addresses, so that it says on standard error who can reach it.
    let mut server = ServerProcess::start(&dir.path().join("data"), &["--port", "0"]);
    drop(server.0.stderr.take());
    let said = server.says();
    assert!(said.starts_with("listening on "), "{said}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_server_of_several_takes_connections_while_it_opens_its_data() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (data, url) = (dir.path().join("data"), etcd.url());
    let store = format!("file://{}", dir.path().join("store").display());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = || {
        let at = ["--host", "127.0.0.1", "--port", &port.to_string()].map(str::to_owned);
        let of = ["--cluster", "one", "--store", &store, "--etcd", &url].map(str::to_owned);
        let flags: Vec<_> = at.iter().chain(&of).map(String::as_str).collect();
        ServerProcess::start(&data, &flags)
    };
    let mut server = start();
    let said = server.says();
    assert!(said.starts_with("listening on "), "{said}");
    assert_eq!(server.end(), Some(0));
    // Its users are read when somebody writes them: until then it does not get on.
    let users = data.join("ACCESS");
    let _ = std::fs::remove_file(&users);
    assert!(Command::new("mkfifo").arg(&users).status().unwrap().success());
    let _opening = start();
    await_that("it takes connections", || TcpStream::connect(("127.0.0.1", port)).is_ok());
}
