//! Transfers of whole buffers that wait for their end: for markers and copies, not for searches.

#![expect(unsafe_code, reason = "buffers are lent to devices by pointer")]

use crate::device::DeviceAction;
use crate::devices::Devices;
use crate::memory::MemoryRegion;
use crate::port::{Answer, DeviceError, Port, PortError, PortTarget};
use crate::stripe::Stripe;

/// Why something was not moved.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The devices cannot be reached.
    #[error(transparent)]
    Port(#[from] PortError),
    /// No memory for it.
    #[error("no memory for transfers: {0}")]
    Memory(std::io::Error),
}

/// Several buffers of equal length in memory that devices reach, each free or under way.
pub(crate) struct Transfers {
    port: Port,
    memory: MemoryRegion,
    buffer_bytes: usize,
    under_way: Vec<bool>,
    answers: Vec<Answer>,
}

/// Whose answer is that of a flush.
const FLUSH: u64 = u64::MAX;

impl Transfers {
    pub(crate) fn new(
        devices: &Devices,
        stripe: Stripe,
        buffers: usize,
        buffer_bytes: usize,
    ) -> Result<Self, TransferError> {
        let memory = devices.memory().allocate(buffers * buffer_bytes);
        let memory = memory.map_err(TransferError::Memory)?;
        let port = devices.port(stripe, 256)?;
        let (under_way, answers) = (vec![false; buffers], Vec::new());
        Ok(Self { port, memory, buffer_bytes, under_way, answers })
    }

    /// Bytes of a buffer that is not under way.
    pub(crate) fn buffer(&mut self, buffer: usize) -> &mut [u8] {
        assert!(!self.under_way[buffer], "the buffer is not under way");
        // SAFETY: buffers do not overlap, this one is lent to nobody, and it is initialised; the
        // others, which may be written to, are not part of the slice.
        unsafe {
            let start = self.memory.start().add(buffer * self.buffer_bytes);
            std::slice::from_raw_parts_mut(start, self.buffer_bytes)
        }
    }

    /// Starts a transfer of the first `bytes` of a buffer.
    pub(crate) fn start(
        &mut self,
        action: DeviceAction,
        target: PortTarget,
        offset: u64,
        (buffer, bytes): (usize, usize),
    ) {
        assert!(!self.under_way[buffer] && bytes <= self.buffer_bytes, "a free buffer that fits");
        self.under_way[buffer] = true;
        // SAFETY: the buffer is within the region, which outlives the port, and is not touched
        // before the answer was taken.
        unsafe {
            let start = self.memory.start().add(buffer * self.buffer_bytes);
            self.port.push(action, target, offset, bytes, start, buffer as u64);
        }
        self.port.flush();
    }

    /// A buffer that is not under way, waiting for one where all are.
    pub(crate) fn free(&mut self) -> Result<usize, TransferError> {
        loop {
            if let Some(free) = self.under_way.iter().position(|busy| !busy) {
                return Ok(free);
            }
            self.take()?;
        }
    }

    /// Waits for everything that is under way.
    pub(crate) fn finish(&mut self) -> Result<(), TransferError> {
        while self.port.under_way() > 0 {
            self.take()?;
        }
        Ok(())
    }

    /// Everything that has ended on all devices to stable storage.
    pub(crate) fn sync(&mut self) -> Result<(), TransferError> {
        self.finish()?;
        self.port.push_sync(FLUSH);
        self.finish()
    }

    /// One transfer from its start to its end.
    pub(crate) fn one(
        &mut self,
        action: DeviceAction,
        target: PortTarget,
        offset: u64,
        bytes: usize,
    ) -> Result<&mut [u8], TransferError> {
        self.start(action, target, offset, (0, bytes));
        self.finish()?;
        Ok(&mut self.buffer(0)[..bytes])
    }

    fn take(&mut self) -> Result<(), TransferError> {
        self.port.wait(1, &mut || false, &mut self.answers);
        let mut failed = Ok(());
        for Answer { token, result } in self.answers.drain(..) {
            if token != FLUSH {
                self.under_way[token as usize] = false;
            }
            failed = failed.and(result);
        }
        Ok(failed?)
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        self.port.settle();
        if self.port.lost() {
            self.memory.leak();
        }
    }
}
