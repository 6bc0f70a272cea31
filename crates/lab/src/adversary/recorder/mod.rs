//! Watches what a process does to the files of one directory, and what it says meanwhile.
//!
//! The process is traced (`ptrace`): it stops before and after every system call. A call that
//! changes files runs alone, while the other threads wait at the beginning of theirs, so that the
//! recording is the order in which things happened. What was written is copied from the memory of
//! the process. Calls that change files in a way that is not understood here end the recording
//! with an error, rather than being passed over: files that are cut, mapped writes, `io_uring` writes,
//! copies inside the kernel and links.
//!
//! Lock files are no data, and left out. So is whatever lies outside the directory.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use self::calls::{RecordedCall, call};

mod calls;
mod traced;

/// Something that happened to a file; paths are relative to the directory watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// A new directory.
    CreateDir(String),
    /// An empty directory is gone.
    RemoveDir(String),
    /// A new empty file; one of the same name is gone.
    Create(String),
    /// Bytes were written at an offset.
    Write {
        /// The file.
        path: String,
        /// Where; at the end unless given.
        at: Option<u64>,
        /// What.
        bytes: Vec<u8>,
    },
    /// A file has at least this length from now on; what is new are zeros.
    Extend {
        /// The file.
        path: String,
        /// Its length.
        to: u64,
    },
    /// A file, or the names of a directory, went to stable storage.
    Sync(String),
    /// A file or a directory has another name.
    Rename {
        /// The old one.
        from: String,
        /// The new one.
        to: String,
    },
    /// A file is gone.
    Remove(String),
}

/// One thing after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedEvent {
    /// To a file.
    File(FileOp),
    /// To standard output.
    Said(String),
}

/// Runs a command and records what it does below `dir`. Standard output goes into the recording.
///
/// # Errors
/// A process that cannot be traced, that does something that is not understood, or that fails.
pub fn record(command: &mut Command, dir: &Path) -> anyhow::Result<Vec<RecordedEvent>> {
    let root = dir.canonicalize()?;
    command.stdout(Stdio::null()).process_group(0);
    traced::ask_to_be_traced(command);
    let mut child = command.spawn().context("cannot start the process to be recorded")?;
    let leader = i32::try_from(child.id()).context("process ids are positive")?;
    traced::begin(leader).context("the process cannot be traced")?;
    let mut recorder = Recorder { root, leader, events: Vec::new(), said: String::new() };
    let code = match recorder.follow() {
        Ok(code) => code,
        Err(error) => {
            let _ = child.kill();
            let _ = traced::reap(leader);
            return Err(error);
        }
    };
    ensure!(code == 0, "the process that was recorded ended with {code}");
    Ok(recorder.events)
}

struct Recorder {
    root: PathBuf,
    leader: i32,
    events: Vec<RecordedEvent>,
    /// The beginning of a line.
    said: String,
}

impl Recorder {
    /// Lets the process run to its end, and returns its exit code.
    fn follow(&mut self) -> anyhow::Result<i32> {
        let mut code = 0;
        loop {
            let Some((thread, stop)) = traced::wait_group(self.leader)? else { return Ok(code) };
            let signal = match stop {
                traced::Stop::Gone(with) if thread == self.leader => {
                    code = with;
                    continue;
                }
                traced::Stop::Gone(_) => continue,
                traced::Stop::Call => {
                    self.at_call(thread)?;
                    0
                }
                traced::Stop::Signal(signal) => signal,
                traced::Stop::Other => 0,
            };
            traced::go_on(thread, signal)?;
        }
    }

    /// A thread stands before a call, or behind one that was of no interest.
    fn at_call(&mut self, thread: i32) -> anyhow::Result<()> {
        let Some((number, args)) = traced::call_entered(thread)? else { return Ok(()) };
        let Some(call) = call(number, args) else { return Ok(()) };
        let process = Process { thread };
        let Some(before) = self.understand(&process, call)? else { return Ok(()) };
        // It runs alone: the others stop where they enter a call.
        let Some(result) = traced::finish_call(thread)? else { return Ok(()) };
        if result >= 0 {
            self.happened(before, result as u64, &process)?;
        }
        Ok(())
    }

    /// What a call is about to do to our files; `None` for nothing.
    fn understand(&self, process: &Process, call: RecordedCall) -> anyhow::Result<Option<Before>> {
        Ok(match call {
            RecordedCall::Open { dir, path, flags } => {
                let Some(path) = self.ours(process.path(dir, path)?) else { return Ok(None) };
                let creates = flags & libc::O_CREAT as u64 != 0;
                let empties = flags & libc::O_TRUNC as u64 != 0;
                let there = self.root.join(&path).symlink_metadata();
                let empty = there.as_ref().is_ok_and(|about| about.len() == 0);
                let makes = (creates && there.is_err()) || (empties && !empty && there.is_ok());
                makes.then_some(Before::Done(FileOp::Create(path)))
            }
            RecordedCall::CreateDir { dir, path } => {
                let path = self.ours(process.path(dir, path)?);
                path.map(|path| Before::Done(FileOp::CreateDir(path)))
            }
            RecordedCall::Remove { dir, path, is_dir } => {
                let path = self.ours(process.path(dir, path)?);
                path.map(|path| match is_dir {
                    true => Before::Done(FileOp::RemoveDir(path)),
                    false => Before::Done(FileOp::Remove(path)),
                })
            }
            RecordedCall::Rename { from, to } => {
                let from = self.ours(process.path(from.0, from.1)?);
                let to = self.ours(process.path(to.0, to.1)?);
                match (from, to) {
                    (Some(from), Some(to)) => Some(Before::Done(FileOp::Rename { from, to })),
                    (None, None) => None,
                    (from, to) => bail!("{from:?} was moved to {to:?}, out of the directory or in"),
                }
            }
            RecordedCall::Sync { file } => {
                let path = process.file(file)?.and_then(|path| self.ours(path));
                path.map(|path| Before::Done(FileOp::Sync(path)))
            }
            RecordedCall::Write { file: 1, from, bytes, .. } => {
                Some(Before::Said(process.read(from, bytes as usize)?))
            }
            RecordedCall::Write { file, from, bytes, at } => {
                let Some(path) = process.file(file)?.and_then(|path| self.ours(path)) else {
                    return Ok(None);
                };
                let at = match at {
                    Some(at) => Some(at),
                    None => process.position(file)?,
                };
                Some(Before::Written { path, at, bytes: process.read(from, bytes as usize)? })
            }
            RecordedCall::Extend { file, to } => {
                let path = process.file(file)?.and_then(|path| self.ours(path));
                path.map(|path| Before::Done(FileOp::Extend { path, to }))
            }
            RecordedCall::SetLength { file, to } => {
                let Some(path) = process.file(file)?.and_then(|path| self.ours(path)) else {
                    return Ok(None);
                };
                let bytes = self.root.join(&path).symlink_metadata()?.len();
                ensure!(to >= bytes, "`{path}` was cut, which the recorder does not understand");
                Some(Before::Done(FileOp::Extend { path, to }))
            }
            RecordedCall::NotUnderstood { file, what } => {
                let path = process.file(file)?.and_then(|path| self.ours(path));
                if let Some(path) = path {
                    bail!("{what} of `{path}` is not understood by the recorder");
                }
                None
            }
        })
    }

    fn happened(&mut self, before: Before, result: u64, process: &Process) -> anyhow::Result<()> {
        match before {
            Before::Done(op) => self.events.push(RecordedEvent::File(op)),
            Before::Written { path, at, bytes } => {
                let bytes = bytes[..result as usize].to_vec();
                self.events.push(RecordedEvent::File(FileOp::Write { path, at, bytes }));
            }
            Before::Said(bytes) => {
                let text = String::from_utf8(bytes[..result as usize].to_vec());
                self.said += &text.with_context(|| format!("thread {} speaks", process.thread))?;
                while let Some((line, rest)) = self.said.split_once('\n') {
                    self.events.push(RecordedEvent::Said(line.to_owned()));
                    self.said = rest.to_owned();
                }
            }
        }
        Ok(())
    }

    /// The path below the directory; `None` outside of it, for locks, and for what has no name
    /// any more.
    fn ours(&self, path: PathBuf) -> Option<String> {
        let inner = path.strip_prefix(&self.root).ok()?.to_str()?;
        let is_ours = !inner.ends_with("LOCK") && !inner.ends_with(" (deleted)");
        is_ours.then(|| inner.to_owned())
    }
}

/// What a call will have done when it succeeds.
enum Before {
    Done(FileOp),
    Written { path: String, at: Option<u64>, bytes: Vec<u8> },
    Said(Vec<u8>),
}

/// The process, seen through one of its threads.
struct Process {
    thread: i32,
}

impl Process {
    fn about(&self, what: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{what}", self.thread))
    }

    /// The path that a call was given, at `address`, relative to an open directory.
    fn path(&self, dir: i32, address: u64) -> anyhow::Result<PathBuf> {
        let text = self.text(address)?;
        let path = PathBuf::from(text);
        if path.is_absolute() {
            return Ok(path);
        }
        let dir = match dir {
            libc::AT_FDCWD => fs::read_link(self.about("cwd"))?,
            dir => fs::read_link(self.about(&format!("fd/{dir}")))?,
        };
        Ok(dir.join(path))
    }

    /// The path of an open file; `None` for what is no file.
    fn file(&self, number: i32) -> anyhow::Result<Option<PathBuf>> {
        match fs::read_link(self.about(&format!("fd/{number}"))) {
            Ok(path) => Ok(Some(path).filter(|path| path.is_absolute())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Where the next write to an open file goes; `None` for its end.
    fn position(&self, number: i32) -> anyhow::Result<Option<u64>> {
        let text = fs::read_to_string(self.about(&format!("fdinfo/{number}")))?;
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let fields: HashMap<&str, &str> = lines.map(|(name, value)| (name, value.trim())).collect();
        let flags = i64::from_str_radix(fields.get("flags").context("flags of a file")?, 8)?;
        if flags & i64::from(libc::O_APPEND) != 0 {
            return Ok(None);
        }
        Ok(Some(fields.get("pos").context("position in a file")?.parse()?))
    }

    fn read(&self, address: u64, bytes: usize) -> anyhow::Result<Vec<u8>> {
        let mut into = vec![0; bytes];
        File::open(self.about("mem"))?.read_exact_at(&mut into, address)?;
        Ok(into)
    }

    /// A text that ends with a zero byte.
    fn text(&self, address: u64) -> anyhow::Result<String> {
        let memory = File::open(self.about("mem"))?;
        let mut text = Vec::new();
        loop {
            let mut part = [0; 64];
            let read = memory.read_at(&mut part, address + text.len() as u64)?;
            ensure!(read > 0, "a path that does not end");
            let end = part[..read].iter().position(|byte| *byte == 0);
            text.extend(&part[..end.unwrap_or(read)]);
            if end.is_some() {
                return Ok(String::from_utf8(text)?);
            }
        }
    }
}
