//! The start of devices: whose they are, taking them, and letting them go.

use uuid::Uuid;

use crate::device::DeviceAction;
use crate::devices::Devices;
use crate::foreign::holds;
use crate::marker::{
    DIRECTORIES, DIRECTORY_BYTES, HEAD_BYTES, IDENTITIES, IDENTITY_BYTES, Identity, MarkerError,
    RegionDirectory,
};
use crate::port::PortTarget;
use crate::store::write_directory;
use crate::stripe::Stripe;
use crate::transfers::{TransferError, Transfers};

/// Shortest device of a stripe: the marker, and some room behind it.
const LEAST_BYTES: u64 = 2 * HEAD_BYTES;

/// Devices that are no stripe, or not this one. Nothing was written to them.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// A device has no marker of ours.
    #[error(
        "{device} is not claimed for pipeann: it holds {holds}. `pipeann raw claim` takes it, and \
         overwrites what it holds"
    )]
    Unclaimed {
        /// Which.
        device: String,
        /// What it holds.
        holds: &'static str,
    },
    /// A marker cannot be read.
    #[error("{device}: {source}; `pipeann raw claim --overwrite` starts anew")]
    Marker {
        /// Which.
        device: String,
        /// What is wrong with it.
        source: MarkerError,
    },
    /// The devices are those of a stripe, in another order.
    #[error(
        "{device} is number {position} of its stripe and stands at number {listed} of the list; \
         list the devices in the order in which they were claimed"
    )]
    Order {
        /// Which.
        device: String,
        /// Its number.
        position: u32,
        /// Where it is listed.
        listed: u32,
    },
    /// The list is longer or shorter than the stripe.
    #[error("{device} is of a stripe over {claimed} devices, and {listed} are listed")]
    Count {
        /// Which.
        device: String,
        /// How many the stripe has.
        claimed: u32,
        /// How many are listed.
        listed: u32,
    },
    /// A device belongs to another stripe than the first.
    #[error("{device} is of the stripe {found}, and {first} of {expected}")]
    Set {
        /// Which.
        device: String,
        /// Its stripe.
        found: Uuid,
        /// The first of the list.
        first: String,
        /// Its stripe.
        expected: Uuid,
    },
    /// Turns of another length than on the first device.
    #[error("{device} has a stripe of {found} bytes, and {first} one of {expected}")]
    StripeBytes {
        /// Which.
        device: String,
        /// Its turns.
        found: u64,
        /// The first of the list.
        first: String,
        /// Its turns.
        expected: u64,
    },
    /// A device was formatted since it was claimed.
    #[error("{device} was claimed with blocks (LBA) of {claimed} bytes and has {found} now")]
    Blocks {
        /// Which.
        device: String,
        /// At the claim.
        claimed: u32,
        /// Now.
        found: u32,
    },
    /// A device is shorter than it has to be.
    #[error("{device} has {found} bytes, and {needed} are needed")]
    Small {
        /// Which.
        device: String,
        /// Its length.
        found: u64,
        /// What is needed.
        needed: u64,
    },
    /// A stripe cannot have turns of this length.
    #[error("a stripe of {0} bytes: a multiple of 4096, up to 64 MiB, is needed")]
    NoStripe(u64),
    /// A device holds something, and that was not said to be overwritten.
    #[error("{device} holds {holds}; `--overwrite` says that it is not needed any more")]
    Holds {
        /// Which.
        device: String,
        /// What.
        holds: String,
    },
    /// A device failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
}

/// What devices say of themselves.
pub(crate) struct FoundMarker {
    pub(crate) identity: Identity,
    pub(crate) directory: RegionDirectory,
}

/// Reads the start of a device.
fn head(devices: &Devices, device: usize) -> Result<Vec<u8>, ClaimError> {
    let found = devices.geometry(device).bytes;
    if found < LEAST_BYTES {
        let device = devices.name(device).to_string();
        return Err(ClaimError::Small { device, found, needed: LEAST_BYTES });
    }
    let mut transfers = Transfers::new(devices, anywhere(devices), 1, HEAD_BYTES as usize)?;
    let target = PortTarget::Device(device);
    Ok(transfers.one(DeviceAction::Read, target, 0, HEAD_BYTES as usize)?.to_vec())
}

/// A stripe for transfers that go past it.
fn anywhere(devices: &Devices) -> Stripe {
    Stripe::new(devices.count(), 4096, HEAD_BYTES, devices.least_bytes())
}

/// The better of two copies: an error only where neither is whole, and the worse one then.
fn best<T>(
    places: [u64; 2],
    bytes: impl Fn(usize) -> Result<T, MarkerError>,
    newer: impl Fn(&T, &T) -> bool,
) -> Result<T, MarkerError> {
    let [first, second] = places.map(|place| bytes(place as usize));
    match (first, second) {
        (Ok(a), Ok(b)) => Ok(if newer(&b, &a) { b } else { a }),
        (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        (Err(MarkerError::Foreign), Err(error))
        | (Err(_), Err(error @ MarkerError::Version(_)))
        | (Err(error), Err(_)) => Err(error),
    }
}

fn identity_of(head: &[u8]) -> Result<Identity, MarkerError> {
    let read = |at: usize| Identity::decode(&head[at..at + IDENTITY_BYTES]);
    best(IDENTITIES, read, |_, _| false)
}

fn directory_of(head: &[u8], set: Uuid) -> Result<RegionDirectory, MarkerError> {
    let read = |at: usize| {
        let directory = RegionDirectory::decode(&head[at..at + DIRECTORY_BYTES])?;
        if directory.set == set { Ok(directory) } else { Err(MarkerError::Damaged) }
    };
    best(DIRECTORIES, read, |b: &RegionDirectory, a| b.sequence > a.sequence)
}

/// Reads the markers of all devices and compares them with the list.
pub(crate) fn examine(devices: &Devices) -> Result<FoundMarker, ClaimError> {
    let mut first: Option<(Identity, RegionDirectory)> = None;
    let listed = devices.count() as u32;
    for number in 0..devices.count() {
        let device = devices.name(number).to_string();
        let head = head(devices, number)?;
        let identity = match identity_of(&head) {
            Ok(identity) => identity,
            Err(MarkerError::Foreign) => {
                let holds = holds(&head).unwrap_or("nothing");
                return Err(ClaimError::Unclaimed { device, holds });
            }
            Err(source) => return Err(ClaimError::Marker { device, source }),
        };
        if let Some((of_first, _)) = &first {
            let name = devices.name(0).to_string();
            if identity.set != of_first.set {
                let (found, expected) = (identity.set, of_first.set);
                return Err(ClaimError::Set { device, found, first: name, expected });
            }
            if identity.stripe_bytes != of_first.stripe_bytes {
                let (found, expected) = (identity.stripe_bytes, of_first.stripe_bytes);
                return Err(ClaimError::StripeBytes { device, found, first: name, expected });
            }
        }
        let (claimed, found) = (identity.lba_bytes, devices.lba_bytes());
        if claimed != found {
            return Err(ClaimError::Blocks { device, claimed, found });
        }
        if identity.count != listed {
            return Err(ClaimError::Count { device, claimed: identity.count, listed });
        }
        let position = identity.position;
        if position as usize != number {
            let (position, listed) = (position + 1, number as u32 + 1);
            return Err(ClaimError::Order { device, position, listed });
        }
        let (found, needed) = (devices.geometry(number).bytes, identity.device_bytes);
        if found < needed {
            return Err(ClaimError::Small { device, found, needed });
        }
        if first.is_none() {
            let directory = directory_of(&head, identity.set)
                .map_err(|source| ClaimError::Marker { device, source })?;
            first = Some((identity, directory));
        }
    }
    let (identity, directory) = first.expect("there is a device");
    let capacity =
        Stripe::new(devices.count(), identity.stripe_bytes, HEAD_BYTES, identity.device_bytes)
            .capacity();
    if directory.entries.iter().any(|e| e.start + e.bytes > capacity) {
        let device = devices.name(0).to_string();
        return Err(ClaimError::Marker { device, source: MarkerError::Damaged });
    }
    Ok(FoundMarker { identity, directory })
}

/// Takes devices for a stripe. What they hold, copies of ours as well, is overwritten where
/// `overwrite` says so, and else named.
///
/// # Errors
/// [`ClaimError`].
pub fn claim(devices: &Devices, stripe_bytes: u64, overwrite: bool) -> Result<Uuid, ClaimError> {
    if stripe_bytes == 0 || !stripe_bytes.is_multiple_of(4096) || stripe_bytes > 64 << 20 {
        return Err(ClaimError::NoStripe(stripe_bytes));
    }
    for number in 0..devices.count() {
        let head = head(devices, number)?;
        let (device, found) = (devices.name(number).to_string(), devices.geometry(number).bytes);
        if found < HEAD_BYTES + stripe_bytes {
            return Err(ClaimError::Small { device, found, needed: HEAD_BYTES + stripe_bytes });
        }
        let holds = match identity_of(&head) {
            Ok(identity) => {
                Some(format!("device {} of a stripe of pipeann", identity.position + 1))
            }
            Err(_) => holds(&head).map(str::to_owned),
        };
        if let (Some(holds), false) = (holds, overwrite) {
            return Err(ClaimError::Holds { device, holds });
        }
    }
    let set = Uuid::new_v4();
    let device_bytes = devices.least_bytes();
    // Devices that are taken over have no valid marker until all is written.
    erase(devices)?;
    let stripe = Stripe::new(devices.count(), stripe_bytes, HEAD_BYTES, device_bytes);
    write_directory(devices, stripe, &RegionDirectory::empty(set))?;
    for number in 0..devices.count() {
        let identity = Identity {
            position: number as u32,
            count: devices.count() as u32,
            lba_bytes: devices.lba_bytes(),
            stripe_bytes,
            device_bytes,
            set,
        };
        write_identity(devices, number, &identity.encode())?;
    }
    Ok(set)
}

fn write_identity(devices: &Devices, device: usize, bytes: &[u8]) -> Result<(), TransferError> {
    let mut transfers = Transfers::new(devices, anywhere(devices), 1, bytes.len())?;
    for place in IDENTITIES {
        transfers.buffer(0).copy_from_slice(bytes);
        transfers.one(DeviceAction::Write, PortTarget::Device(device), place, bytes.len())?;
        transfers.sync()?;
    }
    Ok(())
}

fn erase(devices: &Devices) -> Result<(), TransferError> {
    let mut transfers = Transfers::new(devices, anywhere(devices), 1, HEAD_BYTES as usize)?;
    for device in 0..devices.count() {
        transfers.buffer(0).fill(0);
        transfers.one(DeviceAction::Write, PortTarget::Device(device), 0, HEAD_BYTES as usize)?;
    }
    transfers.sync()
}

/// Lets devices of a stripe go: their markers are erased, and with these all copies. Devices without
/// a marker of ours are left alone, and named.
///
/// # Errors
/// [`ClaimError`].
pub fn release(devices: &Devices) -> Result<(), ClaimError> {
    for number in 0..devices.count() {
        let head = head(devices, number)?;
        let device = devices.name(number).to_string();
        match identity_of(&head) {
            Ok(_) => {}
            Err(MarkerError::Foreign) => {
                let holds = holds(&head).unwrap_or("nothing");
                return Err(ClaimError::Unclaimed { device, holds });
            }
            Err(source) => return Err(ClaimError::Marker { device, source }),
        }
    }
    Ok(erase(devices)?)
}
