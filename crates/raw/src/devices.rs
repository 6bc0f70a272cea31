//! All devices of a stripe, each with its poller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::bell::{Bell, bell};
use crate::counts::DeviceCounts;
use crate::device::{Geometry, RawDevice};
use crate::memory::Memory;
use crate::patience::AwakePollers;
use crate::pinning::{CpuPlaces, Pinning, pin, processors};
use crate::poller::{AllPollers, Idle, Poller, PollerOptions};
use crate::port::{Port, PortError};
use crate::stripe::Stripe;

/// How devices are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DevicesOptions {
    /// What pollers do when there is nothing to do; by the number of processors where it is `None`.
    pub idle: Option<Idle>,
    /// Whether threads are pinned.
    pub pinning: Pinning,
    /// What becomes of reads when a device is lost.
    pub on_loss: OnLoss,
}

/// What becomes of reads of a device that was pulled out, or whose controller was reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// They are done from the files that were copied to it.
    #[default]
    Files,
    /// They fail.
    Fail,
}

/// Devices that cannot be served together.
#[derive(Debug, thiserror::Error)]
pub enum DevicesError {
    /// There is none.
    #[error("no device is listed")]
    None,
    /// Block sizes differ.
    #[error(
        "{device} has blocks (LBA) of {found} bytes and {first} of {expected}; format all devices of \
         a stripe alike (`nvme format --lbaf`)"
    )]
    Blocks {
        /// The one that differs.
        device: String,
        /// Its block size.
        found: u32,
        /// The first of the list.
        first: String,
        /// Its block size.
        expected: u32,
    },
    /// A thread cannot be had.
    #[error("cannot start the poller of {device}: {source}")]
    Poller {
        /// Whose.
        device: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// See the module's description. The pollers end when it is dropped, after all ports are gone.
pub struct Devices {
    pollers: Vec<Poller>,
    any_lost: Arc<AtomicBool>,
    on_loss: OnLoss,
    memory: Arc<dyn Memory>,
    idle: Idle,
    /// Processors for what searches or links.
    behind: Vec<usize>,
    next_search: AtomicUsize,
}

impl Devices {
    /// Starts a poller for each device, in the order of the list. Says so in the log.
    ///
    /// # Errors
    /// [`DevicesError`].
    pub fn serve(
        devices: Vec<Box<dyn RawDevice>>,
        memory: Arc<dyn Memory>,
        options: DevicesOptions,
    ) -> Result<Self, DevicesError> {
        let first = devices.first().ok_or(DevicesError::None)?;
        let (first, expected) = (first.name().to_owned(), first.geometry().lba_bytes);
        for device in &devices {
            let found = device.geometry().lba_bytes;
            if found != expected {
                let device = device.name().to_owned();
                return Err(DevicesError::Blocks { device, found, first, expected });
            }
        }
        let processors = processors();
        let count = devices.len();
        let places = CpuPlaces::of(options.pinning, count, &processors);
        let idle = options.idle.unwrap_or(Idle::for_processors(processors.len(), count));
        // Of a share in processors, as containers have one, only as many as that makes.
        let share = std::thread::available_parallelism().map_or(1, usize::from);
        let awake = Arc::new(AwakePollers::new(share.min(processors.len())));
        let all = AllPollers { any_lost: Arc::default(), awake };
        let mut pollers = Vec::with_capacity(count);
        for (number, (device, processor)) in devices.into_iter().zip(places.pollers).enumerate() {
            let name = device.name().to_owned();
            let poller = Poller::start(number, device, PollerOptions { idle, processor }, &all);
            pollers.push(poller.map_err(|source| DevicesError::Poller { device: name, source })?);
        }
        tracing::info!("SPDK initialized: {count} pollers, LBA size {expected} bytes");
        let (behind, next_search) = (places.behind, AtomicUsize::new(0));
        let on_loss = options.on_loss;
        let any_lost = all.any_lost;
        Ok(Self { pollers, any_lost, on_loss, memory, idle, behind, next_search })
    }

    /// Number of devices, and of pollers.
    pub fn count(&self) -> usize {
        self.pollers.len()
    }

    /// What the pollers do when there is nothing to do.
    pub fn idle(&self) -> Idle {
        self.idle
    }

    /// Name of a device.
    pub fn name(&self, device: usize) -> &Arc<str> {
        self.pollers[device].office.name()
    }

    /// Size and limits of a device.
    pub fn geometry(&self, device: usize) -> Geometry {
        self.pollers[device].office.geometry()
    }

    /// The block size that all have, bytes.
    pub fn lba_bytes(&self) -> u32 {
        self.geometry(0).lba_bytes
    }

    /// Bytes of the smallest device.
    pub fn least_bytes(&self) -> u64 {
        let bytes = (0..self.count()).map(|device| self.geometry(device).bytes);
        bytes.min().expect("there is a device")
    }

    /// What a device was asked for so far.
    pub fn counts(&self, device: usize) -> DeviceCounts {
        self.pollers[device].office.counts()
    }

    /// Whether all pollers run.
    pub fn alive(&self) -> bool {
        self.pollers.iter().all(|poller| !poller.office.has_ended())
    }

    /// Whether a device is lost: pulled out, its controller reset, or its poller at an end.
    pub fn is_lost(&self, device: usize) -> bool {
        self.pollers[device].office.is_lost()
    }

    /// Whether any is.
    pub fn is_any_lost(&self) -> bool {
        self.any_lost.load(Ordering::Acquire)
    }

    /// What becomes of reads of such a device.
    pub fn on_loss(&self) -> OnLoss {
        self.on_loss
    }

    /// Counts a read of a lost device that was done from a file. The first is told of in the log.
    pub fn count_from_file(&self, device: usize) {
        self.pollers[device].office.count_from_file();
    }

    /// Where memory for transfers comes from.
    pub fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// A port for one thread, with so many commands for each device on their way at most.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn port(&self, stripe: Stripe, room: usize) -> Result<Port, PortError> {
        self.port_with(stripe, room, bell()?)
    }

    /// The same with a bell of its own, whose rest it sleeps on.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn port_with(
        &self,
        stripe: Stripe,
        room: usize,
        bell: Arc<dyn Bell>,
    ) -> Result<Port, PortError> {
        let offices: Vec<_> = self.pollers.iter().map(|p| Arc::clone(&p.office)).collect();
        Port::new(&offices, stripe, room, bell)
    }

    /// Pins the calling thread, which searches, to the next processor behind the pollers, where
    /// threads are pinned.
    pub fn pin_search(&self) {
        if !self.behind.is_empty() {
            let turn = self.next_search.fetch_add(1, Ordering::Relaxed);
            pin(&[self.behind[turn % self.behind.len()]]);
        }
    }

    /// Pins the calling thread, which links rows, behind the pollers, where threads are pinned. To all
    /// processors there: such threads come and go, and what they start is to have them all.
    pub fn pin_link(&self) {
        if !self.behind.is_empty() {
            pin(&self.behind);
        }
    }
}
