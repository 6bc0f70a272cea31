//! Raw SSDs: pages from a stripe of devices, everything else by another backend.
//!
//! The stripe, its pollers and what stands on it are `pipeann-raw`'s. Here sealed files
//! ([`Sealed`]) are found on it, or else copied to it by a thread behind the opening: each file is
//! read from the file system until its copy is on stable storage and in the marker, and from the
//! stripe from then on. What is opened otherwise goes to the other backend untouched. Nothing is
//! ever written through here: a process without the devices opens the same directory.
//!
//! One process has the devices, and all its indexes share them ([`Raw::shared`]).

mod copier;
mod open;
mod place;
mod queue;
#[cfg(test)]
pub(super) mod tests;

pub use open::{claim, devices, release};
pub use pipeann_raw::config::Config;
pub use pipeann_raw::{Store, StoreStatus};

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pipeann_raw::CopiedSegment;
pub use uuid::Uuid;

use self::copier::{Copier, CopyJob};
pub(super) use self::place::RawFile;
use super::backend::{
    Backend, CopyProgress, DeviceCounts, OpenMode, Queue, QueueOptions, Sealed, SealedFile,
};
use super::device::File;
use super::error::IoError;

/// See the module's description.
pub struct Raw {
    store: Arc<Store>,
    rest: Arc<dyn Backend>,
    copier: Copier,
}

impl Raw {
    /// The stripe that a list of devices names, `spdk_bdevs.json` of the working directory where it
    /// is `None`; other files are read by `rest`. What this process has open already is shared.
    ///
    /// # Errors
    /// [`IoError::Raw`]: the list, or a device that is not there or no part of the stripe.
    pub fn shared(config: Option<&Path>, rest: Arc<dyn Backend>) -> Result<Arc<Self>, IoError> {
        type Open = Vec<(PathBuf, Weak<Raw>)>;
        static OPEN: Mutex<Open> = Mutex::new(Vec::new());
        let path = config.unwrap_or(Path::new(Config::NAME));
        let known = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, raw)| raw.strong_count() > 0);
        if let Some(raw) =
            open.iter().find(|(of, _)| *of == known).and_then(|(_, raw)| raw.upgrade())
        {
            return Ok(raw);
        }
        let config = Config::read(path).map_err(IoError::raw)?;
        let store = Store::open(devices(&config)?).map_err(IoError::raw)?;
        tracing::info!("Using SPDK for vector I/O & {} for attribute I/O", rest.name());
        let raw = Arc::new(Self::over(store, rest)?);
        open.push((known, Arc::downgrade(&raw)));
        Ok(raw)
    }

    /// A stripe that is open, with another backend for all else.
    ///
    /// # Errors
    /// [`IoError::Setup`] where no thread can be had.
    pub fn over(store: Store, rest: Arc<dyn Backend>) -> Result<Self, IoError> {
        let store = Arc::new(store);
        let copier = Copier::start(Arc::clone(&store))?;
        Ok(Self { store, rest, copier })
    }

    /// The stripe and what it holds.
    pub fn status(&self) -> StoreStatus {
        self.store.status()
    }

    /// The stripe.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

impl Backend for Raw {
    fn name(&self) -> &'static str {
        "spdk"
    }

    fn block_bytes(&self) -> usize {
        self.rest.block_bytes().max(self.store.devices().lba_bytes() as usize)
    }

    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<File, IoError> {
        self.rest.open_file(path, mode)
    }

    fn open_sealed(&self, sealed: &Sealed<'_>, mode: OpenMode) -> Result<Vec<File>, IoError> {
        let segment = |file: &SealedFile| CopiedSegment {
            index: Uuid::from_bytes(sealed.index),
            generation: sealed.generation,
            partition: file.partition,
            name: file.name.clone(),
            path: file.path.clone(),
            bytes: file.bytes,
        };
        let segments: Vec<CopiedSegment> = sealed.files.iter().map(segment).collect();
        self.store.wants(Uuid::from_bytes(sealed.index), sealed.generation, &segments);
        let (mut files, mut jobs) = (Vec::with_capacity(segments.len()), Vec::new());
        for segment in segments {
            let found = self.store.find(&segment).map_err(IoError::raw)?;
            // Held in any case: it is read until the copy is there, and where a device is lost.
            let rest = Some(self.rest.open_file(&segment.path, mode)?);
            let file = Arc::new(RawFile::sealed(segment.bytes, found));
            files.push(File::from_raw(&segment.path, Arc::clone(&file), rest));
            if !file.is_placed() {
                jobs.push(CopyJob { segment, file: Arc::downgrade(&file) });
            }
        }
        match jobs.is_empty() {
            true if files.is_empty() => {}
            true => tracing::info!("SPDK index already copied"),
            false => self.copier.take(jobs, sealed.accountant),
        }
        Ok(files)
    }

    fn wait_copied(&self, progress: &mut dyn FnMut(CopyProgress)) -> CopyProgress {
        self.copier.wait(progress)
    }

    fn device_counts(&self) -> Vec<DeviceCounts> {
        let devices = self.store.devices();
        (0..devices.count()).map(|device| devices.counts(device)).collect()
    }

    fn enter_search_thread(&self) {
        self.store.devices().pin_search();
    }

    fn enter_link_thread(&self) {
        self.store.devices().pin_link();
    }

    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError> {
        Ok(Box::new(queue::RawQueue::new(&self.store, &self.rest, options)?))
    }
}
