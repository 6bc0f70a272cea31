//! From a list of devices to pollers that serve them.
//!
//! Files need nothing. SSDs behind PCI addresses or networks need SPDK, which a build has with the
//! feature `spdk`; one without it refuses them by name.

use std::sync::Arc;

use pipeann_raw::config::{Config, Ssd};
use pipeann_raw::device::RawDevice;
use pipeann_raw::memory::{Memory, Plain};
use pipeann_raw::{Devices, FileDev, FileOptions};

use crate::io::error::IoError;

pub use pipeann_raw::{claim, release};

/// Opens the devices of a list and starts their pollers. Nothing is written.
///
/// # Errors
/// [`IoError::Raw`], which names the device and what to do.
pub fn devices(config: &Config) -> Result<Devices, IoError> {
    let mut devices: Vec<Box<dyn RawDevice>> = Vec::new();
    let memory = memory(config)?;
    for ssd in &config.ssds {
        devices.push(match ssd {
            Ssd::File(path) => {
                Box::new(FileDev::open(path, FileOptions::default()).map_err(IoError::raw)?)
            }
            Ssd::Pci(address) => nvme(&format!("trtype:PCIe traddr:{address}"))?,
            Ssd::Transport(transport) => nvme(transport)?,
        });
    }
    Devices::serve(devices, memory, config.serve).map_err(IoError::raw)
}

/// Memory that all of the list reach.
#[cfg(not(feature = "spdk"))]
fn memory(config: &Config) -> Result<Arc<dyn Memory>, IoError> {
    match config.needing_spdk().next() {
        None => Ok(Arc::new(Plain)),
        Some(address) => Err(IoError::raw(format_args!(
            "{address} is an NVMe device, which this build cannot use: it was made without SPDK. \
             Install SPDK and build with `--features spdk` (docs/guide/spdk.md), or read the index \
             from its files with `--backend io_uring`"
        ))),
    }
}

#[cfg(not(feature = "spdk"))]
fn nvme(address: &str) -> Result<Box<dyn RawDevice>, IoError> {
    Err(IoError::raw(format_args!("{address}: this build has no SPDK")))
}

#[cfg(feature = "spdk")]
fn memory(config: &Config) -> Result<Arc<dyn Memory>, IoError> {
    if config.needing_spdk().next().is_none() {
        return Ok(Arc::new(Plain));
    }
    let pci = config.ssds.iter().filter_map(|ssd| match ssd {
        Ssd::Pci(address) => Some(address.clone()),
        _ => None,
    });
    let devices: Vec<String> = pci.collect();
    let environment = pipeann_spdk::Environment::start(&pipeann_spdk::EnvironmentOptions {
        hugedir: config.hugedir.clone(),
        huge_pages: !devices.is_empty(),
        devices,
    });
    Ok(Arc::new(environment.map_err(IoError::raw)?))
}

#[cfg(feature = "spdk")]
fn nvme(transport: &str) -> Result<Box<dyn RawDevice>, IoError> {
    Ok(Box::new(pipeann_spdk::Nvme::open(transport).map_err(IoError::raw)?))
}
