//! One SSD: a controller, its first namespace, and one queue pair.

use std::ffi::{CString, c_void};

use pipeann_raw::device::{
    Command, CommandDone, CommandRefused, DeviceAction, Geometry, RawDevice, Status,
};

use crate::shim;

/// Why an SSD cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NvmeError {
    /// Its transport is none.
    #[error("`{0}` is no address of an NVMe device")]
    Address(String),
    /// Nothing answers there.
    #[error(
        "{0}: no NVMe device answers there. One in this machine has to be bound to SPDK: \
         `sudo PCI_ALLOWED=\"{0}\" scripts/setup.sh` in SPDK's folder (`scripts/setup.sh reset` gives \
         it back to the kernel)"
    )]
    Absent(String),
    /// It has no namespace.
    #[error("{0} has no namespace; `nvme create-ns` makes one")]
    NoNamespace(String),
    /// It gives no queue pair.
    #[error("{0} gives no queue pair")]
    NoQueue(String),
}

/// See the module's description.
pub struct Nvme {
    name: String,
    device: Box<shim::ShimDevice>,
    geometry: Geometry,
    /// What the driver hands back with the end of a command; the place of one says nothing of it.
    commands: Box<[shim::Command]>,
    /// By place: the tag of the command that has it.
    tags: Vec<u64>,
    free: Vec<u32>,
    ended: Box<EndedCommand>,
    gone: bool,
}

/// Where ends of commands are put while the driver is polled.
struct EndedCommand {
    done: Vec<(u64, Result<(), Status>)>,
}

// SAFETY: the device is used by one thread at a time, and SPDK asks for no more than that.
unsafe impl Send for Nvme {}

/// Called by the driver while it is polled.
unsafe extern "C" fn ended(context: *mut c_void, slot: u64, kind: u8, code: u8) {
    // SAFETY: the context is the `EndedCommand` of the device that is polled, whose box is not touched by
    // anybody else meanwhile.
    let ended = unsafe { &mut *context.cast::<EndedCommand>() };
    let result = if (kind, code) == (0, 0) { Ok(()) } else { Err(Status::Nvme { kind, code }) };
    ended.done.push((slot, result));
}

impl Nvme {
    /// The SSD at a transport, as `trtype:PCIe traddr:0000:66:00.0`. The environment has to be there.
    ///
    /// # Errors
    /// [`NvmeError`].
    pub fn open(transport: &str) -> Result<Self, NvmeError> {
        let name = transport.strip_prefix("trtype:PCIe traddr:").unwrap_or(transport).to_owned();
        let Ok(text) = CString::new(transport) else { return Err(NvmeError::Address(name)) };
        let mut device = Box::new(shim::ShimDevice::zeroed());
        // SAFETY: the device is zeroed and the string ends with a zero.
        match unsafe { shim::pipeann_spdk_open(&raw mut *device, text.as_ptr()) } {
            0 => {}
            e if e == -libc::EINVAL => return Err(NvmeError::Address(name)),
            e if e == -libc::ENXIO => return Err(NvmeError::NoNamespace(name)),
            e if e == -libc::EIO => return Err(NvmeError::NoQueue(name)),
            _ => return Err(NvmeError::Absent(name)),
        }
        let (mut lba_bytes, mut bytes, mut max_transfer_bytes, mut depth) = (0, 0, 0, 0);
        // SAFETY: the device is open, and the places are there.
        unsafe {
            shim::pipeann_spdk_geometry(
                &raw mut *device,
                &raw mut lba_bytes,
                &raw mut bytes,
                &raw mut max_transfer_bytes,
                &raw mut depth,
            );
        }
        let mut ends = Box::new(EndedCommand { done: Vec::with_capacity(depth as usize) });
        let context = (&raw mut *ends).cast::<c_void>();
        let command = |slot| shim::Command { ended, context, tag: u64::from(slot) };
        Ok(Self {
            name,
            device,
            geometry: Geometry { lba_bytes, bytes, max_transfer_bytes, depth },
            commands: (0..depth).map(command).collect(),
            tags: vec![0; depth as usize],
            free: (0..depth).rev().collect(),
            ended: ends,
            gone: false,
        })
    }

    fn give(&mut self, action: i32, command: &Command) -> Result<(), CommandRefused> {
        if self.gone {
            return Err(CommandRefused::Failed(Status::Gone));
        }
        let slot = self.free.pop().ok_or(CommandRefused::Full)?;
        let of_slot = &raw mut self.commands[slot as usize];
        // The slot's number comes back with the end, so its tag is kept beside.
        self.tags[slot as usize] = command.tag;
        // SAFETY: the device is open; the caller lends the memory until the command has ended; the
        // slot is not used for another one before that.
        let answer = unsafe {
            shim::pipeann_spdk_submit(
                &raw mut *self.device,
                action,
                command.offset,
                command.bytes,
                command.memory.cast(),
                of_slot,
            )
        };
        if answer == 0 {
            return Ok(());
        }
        self.free.push(slot);
        Err(match -answer {
            libc::ENOMEM | libc::EAGAIN => CommandRefused::Full,
            libc::ENXIO => CommandRefused::Failed(Status::Gone),
            errno => CommandRefused::Failed(Status::System(errno)),
        })
    }
}

impl RawDevice for Nvme {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    unsafe fn submit(&mut self, command: &Command) -> Result<(), CommandRefused> {
        self.give(i32::from(command.action == DeviceAction::Write), command)
    }

    fn flush(&mut self, tag: u64) -> Result<(), CommandRefused> {
        let memory = std::ptr::null_mut();
        self.give(2, &Command { action: DeviceAction::Flush, offset: 0, bytes: 0, memory, tag })
    }

    fn poll(&mut self, done: &mut Vec<CommandDone>) {
        // SAFETY: the device is open; `ended` is called with our own context alone.
        let answer = unsafe { shim::pipeann_spdk_poll(&raw mut *self.device) };
        for (slot, result) in self.ended.done.drain(..) {
            self.free.push(slot as u32);
            done.push(CommandDone { tag: self.tags[slot as usize], result });
        }
        // Of a controller that has failed the driver says so, and ends what it had only where it was pulled
        // out: the rest the poller gives up.
        self.gone |= answer < 0;
    }

    fn keep_alive(&mut self) -> Result<(), Status> {
        // SAFETY: the device is open.
        let answer = unsafe { shim::pipeann_spdk_keep_alive(&raw mut *self.device) };
        if answer < 0 { Err(Status::Gone) } else { Ok(()) }
    }

    fn needs_keep_alive(&self) -> bool {
        true
    }
}

impl Drop for Nvme {
    fn drop(&mut self) {
        // SAFETY: the device is open, and closed once; freeing the pair ends what it had, by calls of
        // `ended` whose context is there still.
        unsafe { shim::pipeann_spdk_close(&raw mut *self.device) };
    }
}
