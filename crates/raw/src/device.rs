//! The seam below: what a raw device is, whatever it is made of.
//!
//! A device takes commands and tells later, in any order, how they ended. It is used by one thread,
//! its poller, from the moment it is handed over. Offsets and lengths are in bytes and multiples of
//! the block size (LBA) that the device says.

use std::fmt;
use std::sync::Arc;

use crate::bell::Bell;

/// Size and limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a logical block (LBA).
    pub lba_bytes: u32,
    /// Bytes of the whole device.
    pub bytes: u64,
    /// The longest transfer of one command, bytes.
    pub max_transfer_bytes: u32,
    /// Commands that it holds at most.
    pub depth: u32,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceAction {
    /// From the device into memory.
    Read,
    /// From memory to the device, where it may wait in a cache that loses power.
    Write,
    /// Everything written so far to stable storage.
    Flush,
}

impl fmt::Display for DeviceAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
        })
    }
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// What to do.
    pub action: DeviceAction,
    /// Where on the device.
    pub offset: u64,
    /// How much.
    pub bytes: u32,
    /// Where in memory.
    pub memory: *mut u8,
    /// Comes back when the command has ended.
    pub tag: u64,
}

// SAFETY: the memory is lent to the command until it has ended, by whoever made the command.
#[expect(unsafe_code, reason = "a command carries a pointer to another thread")]
unsafe impl Send for Command {}

/// Why a command failed, in the device's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Status code type and status code of an NVMe completion.
    Nvme {
        /// Status code type.
        kind: u8,
        /// Status code.
        code: u8,
    },
    /// An error number of the operating system.
    System(i32),
    /// The device ended within the range.
    Short,
    /// The device is not there any more.
    Gone,
    /// The device ends nothing of what it has.
    Silent,
}

impl Status {
    /// Whether a device that answers so is lost as a whole, and not a block of it: it is not there, or
    /// what it had was aborted, as when its controller is reset.
    pub fn is_loss(self) -> bool {
        matches!(self, Self::Gone | Self::Silent | Self::Nvme { kind: 0, code: 0x07 | 0x08 })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nvme { kind, code } => {
                write!(f, "NVMe status {kind:#x}/{code:#04x}")?;
                match (kind, code) {
                    (0, 0x07 | 0x08) => f.write_str(" (aborted)"),
                    (0, 0x80) => f.write_str(" (LBA out of range)"),
                    (2, 0x81) => f.write_str(" (unrecovered read error)"),
                    (2, 0x80) => f.write_str(" (write fault)"),
                    _ => Ok(()),
                }
            }
            Self::System(errno) => fmt::Display::fmt(&std::io::Error::from_raw_os_error(*errno), f),
            Self::Short => f.write_str("the device ends early"),
            Self::Gone => f.write_str("the device is gone"),
            Self::Silent => f.write_str("the device does not answer"),
        }
    }
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandDone {
    /// Of the command.
    pub tag: u64,
    /// How it ended.
    pub result: Result<(), Status>,
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandRefused {
    /// There is no room, or no memory, for it now: take completions and try again.
    Full,
    /// It never will be.
    Failed(Status),
}

/// A raw device.
pub trait RawDevice: Send {
    /// What messages call it.
    fn name(&self) -> &str;

    /// Its size and limits.
    fn geometry(&self) -> Geometry;

    /// Takes a read or a write.
    ///
    /// # Errors
    /// [`CommandRefused`]; the command was not begun then and does not end.
    ///
    /// # Safety
    /// The memory of the command is valid for its length, reached by the device, and used by nobody
    /// else, until [`poll`](Self::poll) has told of its end or the device is dropped. Where neither comes
    /// it stays so for ever.
    #[expect(unsafe_code, reason = "memory is handed over by pointer")]
    unsafe fn submit(&mut self, command: &Command) -> Result<(), CommandRefused>;

    /// Takes a flush: when it ends, what had ended before it was taken is on stable storage.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    fn flush(&mut self, tag: u64) -> Result<(), CommandRefused>;

    /// Starts what was taken, and appends what has ended, without waiting.
    fn poll(&mut self, done: &mut Vec<CommandDone>);

    /// Called ten times a second or so, where something has to be told so often.
    ///
    /// # Errors
    /// How the device died: it is used no more.
    fn keep_alive(&mut self) -> Result<(), Status> {
        Ok(())
    }

    /// Whether [`keep_alive`](Self::keep_alive) has to be called while nothing is under way.
    fn needs_keep_alive(&self) -> bool {
        false
    }

    /// What rings when a command ends, where the device has such a thing: its poller may then sleep
    /// with commands under way.
    fn bell(&self) -> Option<Arc<dyn Bell>> {
        None
    }
}
