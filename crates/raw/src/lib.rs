//! Raw SSDs: devices that are read past the kernel, or files that stand in for them; one thread for
//! each that alone touches it; a stripe over all of them; and the copies of segments that it holds.
//!
//! | module | what |
//! |---|---|
//! | `device` | the seam below: geometry, submit, poll, flush |
//! | `file`, `file_ring` | a file as a device |
//! | `sim` | a device in memory with faults and power cuts, and one that does nothing |
//! | `memory`, `bell` | memory that devices reach; what threads sleep on |
//! | `ring`, `tally` | how threads meet: rings, and sleep that loses no wake-up (`model` tries all orders) |
//! | `poller`, `patience`, `devices`, `counts`, `pinning` | one thread for each device, when it sleeps, where it runs |
//! | `stripe`, `port` | one address space over all; a thread's way to it |
//! | `marker`, `head`, `foreign` | what stands at the start of devices, and whose they are |
//! | `store`, `copy`, `transfers` | copies: found, made once, given up |
//! | `config` | `spdk_bdevs.json` |
//!
//! Nothing here knows what a segment holds, or an index is.

#![cfg_attr(
    test,
    expect(clippy::duplicate_mod, reason = "`model` compiles the rings a second time, over loom")
)]

mod bell;
#[doc(hidden)]
pub mod bench;
pub mod config;
mod copy;
mod counts;
pub mod device;
mod devices;
mod file;
#[cfg(target_os = "linux")]
mod file_ring;
mod foreign;
mod head;
mod lane;
pub mod marker;
pub mod memory;
#[cfg(test)]
mod model;
mod patience;
mod pinning;
mod poller;
mod port;
mod ring;
mod silence;
pub mod sim;
mod store;
mod stripe;
mod sync;
mod tally;
mod transfers;

pub use bell::{Bell, bell};
pub use copy::COPY_MEMORY_BYTES;
pub use counts::DeviceCounts;
pub use devices::{Devices, DevicesError, DevicesOptions, OnLoss};
pub use file::{FileDev, FileDevError, FileOptions};
pub use head::{ClaimError, claim, release};
pub use pinning::Pinning;
pub use poller::{Idle, MAX_LANES};
pub use port::{Answer, DeviceError, Port, PortError, PortTarget};
pub use store::{CopiedSegment, CopyError, Region, Store, StoreStatus};
pub use stripe::{Stripe, StripePiece};
pub use transfers::TransferError;
