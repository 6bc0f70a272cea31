//! SPDK's environment: started once in a process, for as long as that lives; and its memory.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Mutex;

use pipeann_raw::memory::{Memory, MemoryRegion};

use crate::machine::{HostState, MissingNeeds, check};
use crate::shim;

/// Memory that SPDK takes for a process without huge pages, MiB.
const PLAIN_MIB: i32 = 512;

/// How it is started.
#[derive(Clone, Debug)]
pub struct EnvironmentOptions {
    /// Where huge pages are mounted; where the system has them if it is `None`.
    pub hugedir: Option<String>,
    /// Whether there are huge pages and a PCI bus: SSDs in this machine need both.
    pub huge_pages: bool,
    /// PCI addresses of these SSDs.
    pub devices: Vec<String>,
}

/// Why it cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// The machine is not prepared.
    #[error(transparent)]
    Machine(#[from] MissingNeeds),
    /// SPDK says no.
    #[error(
        "SPDK cannot be started ({0}); its own lines above say why: huge pages at `hugedir`, and \
         vfio or uio for the SSDs, are what is missing most often"
    )]
    CommandRefused(std::io::Error),
    /// The folder's name has a zero in it.
    #[error("`hugedir` is no path")]
    Path,
}

/// SPDK of this process, as memory that its devices reach. Clones share.
#[derive(Clone, Copy, Debug)]
pub struct Environment(());

impl Environment {
    /// Starts it, unless that was done before.
    ///
    /// # Errors
    /// [`EnvironmentError`].
    pub fn start(options: &EnvironmentOptions) -> Result<Self, EnvironmentError> {
        static STARTED: Mutex<bool> = Mutex::new(false);
        let mut started = STARTED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *started {
            return Ok(Self(()));
        }
        if options.huge_pages {
            // SAFETY: the call takes nothing and cannot fail.
            let is_root = unsafe { libc::geteuid() } == 0;
            check(&HostState::now(is_root, options.hugedir.clone(), &options.devices))?;
        }
        let folder = options.hugedir.clone().map(CString::new).transpose();
        let folder = folder.map_err(|_| EnvironmentError::Path)?;
        let hugedir = folder.as_ref().map_or(std::ptr::null(), |path| path.as_ptr());
        // With huge pages SPDK takes what it needs as it needs it.
        let memory = if options.huge_pages { -1 } else { PLAIN_MIB };
        // SAFETY: the string ends with a zero or is null, and SPDK copies it; only one thread is here.
        let answer =
            unsafe { shim::pipeann_spdk_start(hugedir, i32::from(options.huge_pages), memory) };
        if answer != 0 {
            return Err(EnvironmentError::CommandRefused(std::io::Error::from_raw_os_error(
                -answer,
            )));
        }
        *started = true;
        Ok(Self(()))
    }
}

impl Memory for Environment {
    fn allocate(&self, bytes: usize) -> std::io::Result<MemoryRegion> {
        // SAFETY: the environment was started, or there would be no value of this type.
        let memory = unsafe { shim::pipeann_spdk_allocate(bytes as u64) };
        let start = NonNull::new(memory.cast::<u8>())
            .ok_or_else(|| std::io::Error::from_raw_os_error(libc::ENOMEM))?;
        let address = memory as usize;
        // SAFETY: the memory is zeroed, ours, and valid until it is freed.
        Ok(unsafe {
            MemoryRegion::new(start, bytes, move || shim::pipeann_spdk_free(address as *mut _))
        })
    }
}
