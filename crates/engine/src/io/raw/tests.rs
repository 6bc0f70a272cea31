//! A backend whose files all lie on the stripe, so that the suite of backends can be run over it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeann_raw::device::RawDevice;
use pipeann_raw::memory::Plain;
use pipeann_raw::sim::{Platter, Power, SimDevOptions};
use pipeann_raw::{Devices, DevicesOptions, FileDev, FileOptions, Region, Store, claim};

use super::{Raw, RawFile};
use crate::io::backend::{Backend, OpenMode, Queue, QueueOptions};
use crate::io::device::{Device, File};
use crate::io::error::{Errno, IoError};

/// Room for each file.
const ROOM: u64 = 1 << 20;
const DEVICE_BYTES: u64 = 12 << 20;

/// See the module's description.
pub(in crate::io) struct Scratch {
    raw: Raw,
    next: AtomicU64,
    _dir: tempfile::TempDir,
}

impl Scratch {
    fn over(devices: Vec<Box<dyn RawDevice>>, dir: tempfile::TempDir) -> Self {
        let devices = Devices::serve(devices, Arc::new(Plain), DevicesOptions::default());
        let devices = devices.expect("devices of one kind");
        // Short turns, so that reads go over several devices.
        claim(&devices, 8192, false).expect("blank devices");
        let store = Store::open(devices).expect("claimed");
        let raw = Raw::over(store, crate::io::best()).expect("a thread");
        Self { raw, next: AtomicU64::new(0), _dir: dir }
    }

    /// Over so many files that stand in for SSDs.
    pub(in crate::io) fn files(count: usize) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let device = |i: usize| {
            let path = dir.path().join(format!("ssd{i}"));
            let file = std::fs::File::create(&path).expect("a file");
            file.set_len(DEVICE_BYTES).expect("a length");
            // One of them by calls that block, as where rings are forbidden.
            let options = FileOptions { blocking: i == 3, ..FileOptions::default() };
            Box::new(FileDev::open(&path, options).expect("a device")) as Box<dyn RawDevice>
        };
        let devices = (0..count).map(device).collect();
        Self::over(devices, dir)
    }

    /// Over simulated devices that are slow, out of order and often full.
    pub(in crate::io) fn simulated(lba_bytes: u32) -> Self {
        let device = |i: u64| {
            let options = SimDevOptions {
                bytes: DEVICE_BYTES,
                lba_bytes,
                depth: 4,
                full_every: 5,
                seed: i,
                ..SimDevOptions::default()
            };
            let platter = Platter::new(options);
            Box::new(platter.device(&format!("sim{i}"), &Power::default())) as Box<dyn RawDevice>
        };
        Self::over((0..2).map(device).collect(), tempfile::tempdir().expect("a directory"))
    }

    fn load(&self, path: &Path, bytes: &[u8]) -> Result<File, IoError> {
        let start = self.next.fetch_add(ROOM, Ordering::Relaxed);
        assert!(start + ROOM <= self.raw.status().capacity, "the devices have room");
        let region = Arc::new(Region { start, bytes: ROOM });
        let raw = RawFile::sealed(bytes.len() as u64, Some(region));
        let file = File::from_raw(path, Arc::new(raw), None);
        let room =
            Device::new(vec![crate::io::Extent { file: file.clone(), offset: 0, bytes: ROOM }]);
        let options =
            QueueOptions { depth: 1, buffers: 1, buffer_bytes: 1 << 16, ..Default::default() };
        let mut queue = self.raw.queue(&options)?;
        let buffer = queue.take_buffer().expect("one");
        let mut out = Vec::new();
        file.raw().expect("it is").grow(ROOM);
        for (i, piece) in bytes.chunks(1 << 16).enumerate() {
            let whole = piece.len().next_multiple_of(4096);
            queue.buffer_mut(buffer).fill(0);
            queue.buffer_mut(buffer)[..piece.len()].copy_from_slice(piece);
            queue.push_write(&room, (i as u64) << 16, whole, buffer, 0)?;
            queue.wait(&mut out)?;
            out.pop().expect("it ended").result?;
        }
        let raw =
            RawFile::sealed(bytes.len() as u64, Some(Arc::new(Region { start, bytes: ROOM })));
        Ok(File::from_raw(path, Arc::new(raw), None))
    }
}

impl Backend for Scratch {
    fn name(&self) -> &'static str {
        self.raw.name()
    }

    fn block_bytes(&self) -> usize {
        self.raw.block_bytes()
    }

    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<File, IoError> {
        if !mode.direct {
            return self.raw.open_file(path, mode);
        }
        match std::fs::read(path) {
            Ok(bytes) => self.load(path, &bytes),
            Err(e) if mode.create && e.kind() == std::io::ErrorKind::NotFound => {
                self.load(path, &[])
            }
            Err(e) => Err(IoError::Open { path: Arc::from(path), errno: Errno::of(&e) }),
        }
    }

    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError> {
        self.raw.queue(options)
    }
}
