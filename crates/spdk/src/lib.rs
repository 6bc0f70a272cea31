//! NVMe SSDs by SPDK: a shim in C (`shim.c`), and safe Rust over it. The only foreign functions of the
//! project that are not the kernel's.
//!
//! With the feature `spdk` the build finds an installed SPDK, 24.01 or newer, by pkg-config, and says
//! what is missing. Without it there is only `machine`, which tells what a machine lacks, and needs nothing.
//!
//! Deliberately absent: queues between threads, stripes, markers. They are `pipeann-raw`'s, and the same
//! for files that stand in for SSDs.
#![cfg_attr(feature = "spdk", expect(unsafe_code, reason = "SPDK is C"))]

#[cfg(feature = "spdk")]
mod device;
#[cfg(feature = "spdk")]
mod environment;
pub mod machine;
#[cfg(feature = "spdk")]
mod shim;

#[cfg(feature = "spdk")]
pub use device::{Nvme, NvmeError};
#[cfg(feature = "spdk")]
pub use environment::{Environment, EnvironmentError, EnvironmentOptions};
