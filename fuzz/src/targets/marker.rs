//! What stands at the start of raw devices: identities and directories of regions, as found, and with
//! magic and checksum made right as well, so that what follows these is reached.

use pipeann_raw::marker::{
    DIRECTORY_MAGIC, IDENTITY_MAGIC, Identity, MOST_REGIONS, MarkerError, NAME_BYTES,
    RegionDirectory,
};

use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &[
    "identity as found",
    "directory as found",
    "identity",
    "directory",
    "regions",
    "newer version",
];

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let newer = |error: &MarkerError| matches!(error, MarkerError::Version(_));
    let identity = bounded(data.len(), || Identity::decode(data));
    reached.mark("identity as found", identity.is_ok());
    reached.mark("newer version", identity.as_ref().is_err_and(newer));
    let directory = bounded(data.len(), || RegionDirectory::decode(data));
    reached.mark("directory as found", directory.is_ok());
    reached.mark("newer version", directory.as_ref().is_err_and(newer));
    if let Some(bytes) = sealed(data, *IDENTITY_MAGIC, Identity::seal)
        && let Ok(identity) = bounded(bytes.len(), || Identity::decode(&bytes))
    {
        reached.mark("identity", true);
        assert!(identity.position < identity.count, "a device is one of its stripe");
        assert_eq!(Identity::decode(&identity.encode()), Ok(identity));
    }
    if let Some(bytes) = sealed(data, *DIRECTORY_MAGIC, RegionDirectory::seal)
        && let Ok(directory) = bounded(bytes.len(), || RegionDirectory::decode(&bytes))
    {
        reached.mark("directory", true);
        reached.mark("regions", !directory.entries.is_empty());
        assert!(directory.entries.len() <= MOST_REGIONS);
        for entry in &directory.entries {
            assert!(
                entry.name.len() <= NAME_BYTES && entry.start.checked_add(entry.bytes).is_some()
            );
        }
        assert_eq!(RegionDirectory::decode(&directory.encode()), Ok(directory));
    }
}

/// An input with its magic and its checksum.
fn sealed(data: &[u8], magic: [u8; 8], seal: impl Fn(&mut [u8])) -> Option<Vec<u8>> {
    let mut bytes = data.to_vec();
    bytes.get_mut(..8)?.copy_from_slice(&magic);
    seal(&mut bytes);
    Some(bytes)
}
