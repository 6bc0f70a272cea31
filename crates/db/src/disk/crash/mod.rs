//! A disk in memory that loses power.
//!
//! It keeps apart what was written (what a process sees, and finds again after a kill) and what
//! is durable (what is there after a power cut). At any moment [`CrashDisk::after`] gives the
//! disk as a power cut would leave it: what was not synced is gone, is there, or is torn, by a
//! seed. The n-th operation can be made to fail, for lack of space, with an I/O error, or because
//! the power went at that very moment. A failed sync marks pages clean that never reached the
//! disk, as Linux does: a later sync succeeds and does not write them.
//!
//! Two things never happen here, as they do not on a disk that keeps its promises: bytes that
//! were synced do not change when the rest of their sector is written, and synced names stay.

mod inode;
mod names;
mod power_cut;
mod random;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use pipeann_engine::io::Errno;

use super::error::{Action, DiskError};
use super::path::{check_dir, check_file};
use super::{AppendFile, DirectoryEntry, Disk, ReadFile};
use inode::Inode;
use names::{NameTable, Node};
pub use power_cut::PowerCut;
use random::CrashChance;

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The disk is full; of an append, half was written.
    NoSpace,
    /// An I/O error before anything happened.
    Io,
    /// An I/O error after half of an append was written.
    ShortWrite,
    /// The power goes: it may have happened or not, and everything later fails.
    PowerOff,
}

/// An operation that is to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFault {
    /// Number of the operation, as counted by [`CrashDisk::operations`]; the first is 1.
    pub operation: u64,
    /// How it fails.
    pub kind: FaultKind,
}

/// See the module's description. Clones are handles of the same disk.
#[derive(Clone, Debug)]
pub struct CrashDisk {
    state: Arc<Mutex<SimulatedFiles>>,
}

#[derive(Debug, Default)]
struct SimulatedFiles {
    names: NameTable,
    inodes: Vec<Inode>,
    operations: u64,
    faults: Vec<PlannedFault>,
    off: bool,
    capacity_bytes: Option<u64>,
}

impl Default for CrashDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl CrashDisk {
    /// An empty disk without a limit.
    pub fn new() -> Self {
        Self { state: Arc::new(Mutex::new(SimulatedFiles::default())) }
    }

    /// An empty disk that is full at `capacity_bytes` bytes of files.
    pub fn with_capacity(capacity_bytes: u64) -> Self {
        let disk = Self::new();
        disk.lock().capacity_bytes = Some(capacity_bytes);
        disk
    }

    /// Makes room, or takes it: from now on the disk is full at this many bytes of files, or never.
    pub fn set_capacity(&self, capacity_bytes: Option<u64>) {
        self.lock().capacity_bytes = capacity_bytes;
    }

    /// Operations begun so far: all of the traits but asking for lengths and free space.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Makes an operation fail, once.
    pub fn inject(&self, fault: PlannedFault) {
        self.lock().faults.push(fault);
    }

    /// Another disk, in the state in which a power cut would leave this one now.
    #[must_use]
    pub fn after(&self, cut: PowerCut) -> Self {
        let state = self.lock();
        let mut random = CrashChance::new(match cut {
            PowerCut::Torn(seed) => seed,
            PowerCut::Drop | PowerCut::Keep => 0,
        });
        let names = state.names.after(cut, &mut random);
        let inodes = state.inodes.iter().map(|i| i.after(cut, &mut random)).collect();
        let capacity_bytes = state.capacity_bytes;
        let after = SimulatedFiles { names, inodes, capacity_bytes, ..SimulatedFiles::default() };
        Self { state: Arc::new(Mutex::new(after)) }
    }

    /// All bytes of all files as a process sees them, by path.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.lock();
        let files = state.names.live.iter().filter_map(|(path, node)| match node {
            Node::File(inode) => Some((path.clone(), state.inodes[*inode].written().to_vec())),
            Node::Dir => None,
        });
        files.collect()
    }

    /// Writes into a file anywhere, as processes do that know nothing of the trait [`Disk`]: for
    /// playing what was recorded of one. Durable after the sync of the file.
    ///
    /// # Errors
    /// `NotFound` where there is no such file.
    pub fn write_at(&self, path: &str, offset: usize, bytes: &[u8]) -> Result<(), DiskError> {
        let (mut state, begun) = self.begin(Action::Append, path)?;
        let inode = state.names.file(path).ok_or_else(|| missing(Action::Append, path))?;
        state.inodes[inode].write_at(offset, bytes);
        begun.answer(())
    }

    /// Changes the bytes of a file, also the durable ones, behind everybody's back: damage.
    ///
    /// # Panics
    /// Where there is no such file.
    pub fn damage(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.lock();
        let inode = state.names.file(path).expect("the file to damage is there");
        let mut bytes = state.inodes[inode].written().to_vec();
        change(&mut bytes);
        state.inodes[inode] = Inode::durable(bytes);
    }

    fn lock(&self) -> MutexGuard<'_, SimulatedFiles> {
        self.state.lock().expect("no operation of the simulated disk panics")
    }

    /// Begins an operation. Where it is to fail, it fails here, unless a part of it happens.
    fn begin(
        &self,
        action: Action,
        path: &str,
    ) -> Result<(MutexGuard<'_, SimulatedFiles>, BegunOperation), DiskError> {
        let mut state = self.lock();
        if state.off {
            return Err(failure(action, path, FaultKind::PowerOff));
        }
        state.operations += 1;
        let now = state.operations;
        let at = state.faults.iter().position(|fault| fault.operation == now);
        let fault = at.map(|at| state.faults.swap_remove(at).kind);
        state.off = fault == Some(FaultKind::PowerOff);
        let in_part = matches!(action, Action::Append | Action::Sync);
        match fault {
            Some(kind) if kind != FaultKind::PowerOff && !in_part => {
                Err(failure(action, path, kind))
            }
            _ => Ok((
                state,
                BegunOperation { fault, failure: fault.map(|k| failure(action, path, k)) },
            )),
        }
    }
}

/// An operation under way.
struct BegunOperation {
    fault: Option<FaultKind>,
    failure: Option<DiskError>,
}

impl BegunOperation {
    /// The answer to the caller once the operation has happened, as far as it does.
    fn answer<T>(self, value: T) -> Result<T, DiskError> {
        self.failure.map_or(Ok(value), Err)
    }
}

fn failure(action: Action, path: &str, kind: FaultKind) -> DiskError {
    let path = PathBuf::from(path);
    match kind {
        FaultKind::NoSpace => DiskError::NoSpace { action, path },
        FaultKind::Io | FaultKind::ShortWrite | FaultKind::PowerOff => {
            DiskError::Io { action, path, errno: Errno::of(&std::io::ErrorKind::Other.into()) }
        }
    }
}

fn missing(action: Action, path: &str) -> DiskError {
    DiskError::NotFound { action, path: path.into() }
}

impl Disk for CrashDisk {
    fn create_dir(&self, path: &str) -> Result<(), DiskError> {
        check_file(path)?;
        let action = Action::CreateDir;
        let (mut state, begun) = self.begin(action, path)?;
        match state.names.live.get(path) {
            Some(Node::Dir) => {}
            Some(Node::File(_)) => return Err(DiskError::Exists { action, path: path.into() }),
            None if !state.names.has_parent(path) => return Err(missing(action, path)),
            None => state.names.change([(path, Some(Node::Dir))]),
        }
        begun.answer(())
    }

    fn remove_dir(&self, path: &str) -> Result<(), DiskError> {
        check_file(path)?;
        let (mut state, begun) = self.begin(Action::Remove, path)?;
        match state.names.live.get(path) {
            Some(Node::Dir) if state.names.children(path).next().is_none() => {
                state.names.change([(path, None)]);
                begun.answer(())
            }
            Some(_) => Err(failure(Action::Remove, path, FaultKind::Io)),
            None => Err(missing(Action::Remove, path)),
        }
    }

    fn create(&self, path: &str) -> Result<Box<dyn AppendFile>, DiskError> {
        check_file(path)?;
        let action = Action::Create;
        let (mut state, begun) = self.begin(action, path)?;
        if state.names.live.contains_key(path) {
            return Err(DiskError::Exists { action, path: path.into() });
        }
        if !state.names.has_parent(path) {
            return Err(missing(action, path));
        }
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.names.change([(path, Some(Node::File(inode)))]);
        drop(state);
        begun.answer(Box::new(CrashFile { disk: self.clone(), path: path.into(), inode }))
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadFile>, DiskError> {
        check_file(path)?;
        let (state, begun) = self.begin(Action::Open, path)?;
        let inode = state.names.file(path).ok_or_else(|| missing(Action::Open, path))?;
        drop(state);
        begun.answer(Box::new(CrashFile { disk: self.clone(), path: path.into(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        check_file(from)?;
        check_file(to)?;
        let (mut state, begun) = self.begin(Action::Rename, from)?;
        if state.names.live.get(from) == Some(&Node::Dir) && state.names.has_parent(to) {
            if state.names.children(to).next().is_some() || state.names.file(to).is_some() {
                return Err(DiskError::Exists { action: Action::Rename, path: to.into() });
            }
            state.names.move_dir(from, to);
            return begun.answer(());
        }
        let inode = state.names.file(from).filter(|_| state.names.has_parent(to));
        let inode = inode.ok_or_else(|| missing(Action::Rename, from))?;
        state.names.change([(from, None), (to, Some(Node::File(inode)))]);
        begun.answer(())
    }

    fn remove(&self, path: &str) -> Result<(), DiskError> {
        check_file(path)?;
        let (mut state, begun) = self.begin(Action::Remove, path)?;
        state.names.file(path).ok_or_else(|| missing(Action::Remove, path))?;
        state.names.change([(path, None)]);
        begun.answer(())
    }

    fn sync_dir(&self, path: &str) -> Result<(), DiskError> {
        check_dir(path)?;
        let (mut state, begun) = self.begin(Action::SyncDir, path)?;
        if !state.names.is_dir(path) {
            return Err(missing(Action::SyncDir, path));
        }
        // Whether the power stayed long enough, every other operation's number says.
        if begun.fault.is_none() || state.operations % 2 == 0 {
            state.names.sync(path);
        }
        begun.answer(())
    }

    fn list(&self, path: &str) -> Result<Vec<DirectoryEntry>, DiskError> {
        check_dir(path)?;
        let (state, begun) = self.begin(Action::List, path)?;
        if !state.names.is_dir(path) {
            return Err(missing(Action::List, path));
        }
        let entries = state.names.children(path).map(|(name, node)| DirectoryEntry {
            name: name.to_owned(),
            bytes: match node {
                Node::File(inode) => state.inodes[*inode].written().len() as u64,
                Node::Dir => 0,
            },
            is_dir: *node == Node::Dir,
        });
        begun.answer(entries.collect())
    }

    fn available_bytes(&self) -> Result<u64, DiskError> {
        Ok(self.lock().available_bytes())
    }

    fn unforeseen(&self) -> u64 {
        CrashChance::new(self.operations()).next()
    }

    fn locate(&self, path: &str) -> PathBuf {
        path.into()
    }
}

impl SimulatedFiles {
    fn available_bytes(&self) -> u64 {
        let used: usize = self
            .names
            .live
            .values()
            .map(|node| match node {
                Node::File(inode) => self.inodes[*inode].held_bytes(),
                Node::Dir => 0,
            })
            .sum();
        self.capacity_bytes.map_or(u64::MAX, |limit| limit.saturating_sub(used as u64))
    }

    /// Bytes that a file can still take.
    fn room_of(&self, inode: usize) -> usize {
        let free = usize::try_from(self.available_bytes()).unwrap_or(usize::MAX);
        free.saturating_add(self.inodes[inode].kept_bytes())
    }
}

#[derive(Debug)]
struct CrashFile {
    disk: CrashDisk,
    path: String,
    inode: usize,
}

impl AppendFile for CrashFile {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        let (mut state, begun) = self.disk.begin(Action::Append, &self.path)?;
        let room = state.room_of(self.inode);
        let (part, full) = match begun.fault {
            None | Some(FaultKind::PowerOff) => (bytes.len().min(room), bytes.len() > room),
            Some(FaultKind::Io) => (0, false),
            Some(FaultKind::NoSpace | FaultKind::ShortWrite) => (bytes.len() / 2, false),
        };
        state.inodes[self.inode].append(&bytes[..part]);
        if full {
            return Err(failure(Action::Append, &self.path, FaultKind::NoSpace));
        }
        begun.answer(())
    }

    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        let (mut state, begun) = self.disk.begin(Action::Reserve, &self.path)?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes > state.room_of(self.inode) {
            return Err(failure(Action::Reserve, &self.path, FaultKind::NoSpace));
        }
        state.inodes[self.inode].reserve(bytes);
        begun.answer(())
    }

    fn give_back(&self) {
        self.disk.lock().inodes[self.inode].give_back();
    }

    fn sync(&self) -> Result<(), DiskError> {
        let (mut state, begun) = self.disk.begin(Action::Sync, &self.path)?;
        let odd = state.operations % 2 == 1;
        let inode = &mut state.inodes[self.inode];
        match begun.fault {
            None => inode.sync(),
            Some(FaultKind::PowerOff) if odd => {}
            Some(FaultKind::PowerOff) => inode.sync(),
            Some(_) => inode.fail_sync(),
        }
        begun.answer(())
    }
}

impl ReadFile for CrashFile {
    fn bytes(&self) -> Result<u64, DiskError> {
        Ok(self.disk.lock().inodes[self.inode].written().len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        let (state, begun) = self.disk.begin(Action::Read, &self.path)?;
        let written = state.inodes[self.inode].written();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(written.len());
        let bytes = into.len().min(written.len() - from);
        into[..bytes].copy_from_slice(&written[from..from + bytes]);
        begun.answer(bytes)
    }
}
