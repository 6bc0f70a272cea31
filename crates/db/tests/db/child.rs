//! This test binary once more, as a process that can be killed.
//!
//! What it runs is a test of its own, ignored otherwise, which reads one line from its standard
//! input: that is how it learns what to do, and where.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The round and the directory that a child was given; nothing where it is run by hand.
pub(crate) fn input() -> Option<(u64, std::path::PathBuf)> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let (round, dir) = line.trim_end().split_once(' ')?;
    Some((round.parse().unwrap(), dir.into()))
}

/// Says a line, all of it at once. The reader is gone when this process is to be killed.
pub(crate) fn say(line: &str) {
    let _ = std::io::stdout().lock().write_all(format!("{line}\n").as_bytes());
}

/// A child that is running.
pub(crate) struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Starts `test`, and waits until it says that it is ready.
    pub(crate) fn start(test: &str, round: u64, dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{round} {}", dir.display()).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.any(|line| line.unwrap().ends_with("ready"));
        assert!(ready, "round {round}: the child began");
        Self { child, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Hears `lines` lines, kills the child, and hears what it had said by then. The last line
    /// may be cut off.
    pub(crate) fn kill_after(mut self, lines: usize, hear: &mut dyn FnMut(&str)) {
        self.lines.by_ref().take(lines).for_each(|line| hear(&line.unwrap()));
        self.child.kill().unwrap();
        self.lines.for_each(|line| hear(&line.unwrap()));
        assert!(!self.child.wait().unwrap().success());
    }
}
