//! The file `ACCESS`: a header, JSON, a checksum; as the catalogue, and for the same reasons.

use super::model::UsersAndRoles;
use crate::files::{ByteField, agrees, checksum, field, get, put, u32_at, u64_at};

/// Name of the file in the directory of the database.
pub const ACCESS_FILE: &str = "ACCESS";
/// First bytes of the file.
const ACCESS_MAGIC: [u8; 8] = *b"PIPEACCS";
/// Version that this build writes. It reads version 1 as well, under which nobody needed a right to be
/// told what there is: everybody has it then.
const ACCESS_VERSION: u32 = 2;
/// CRC-64/NVMe of everything before it.
const CHECKSUM_BYTES: usize = 8;
/// More than the file takes.
pub(super) const MAX_BYTES: u64 = 64 << 20;

/// [`ACCESS_MAGIC`].
const MAGIC: ByteField = field("magic", 0, 8);
/// [`ACCESS_VERSION`].
const VERSION: ByteField = field("version", 8, 4);
/// Zero.
const RESERVED: ByteField = field("reserved", 12, 4);
/// Length of the JSON.
const BODY_BYTES: ByteField = field("body bytes", 16, 8);
#[cfg(test)]
const FIELDS: &[ByteField] = &[MAGIC, VERSION, RESERVED, BODY_BYTES];
const HEADER_BYTES: usize = 24;

pub(super) fn encode(state: &UsersAndRoles) -> Vec<u8> {
    let body = serde_json::to_vec(state).expect("maps with text keys");
    let mut bytes = vec![0; HEADER_BYTES];
    put(&mut bytes, MAGIC, &ACCESS_MAGIC);
    put(&mut bytes, VERSION, &ACCESS_VERSION.to_le_bytes());
    put(&mut bytes, RESERVED, &[0; RESERVED.bytes]);
    put(&mut bytes, BODY_BYTES, &(body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

/// What these bytes say, or what is wrong with them.
pub(super) fn decode(bytes: &[u8]) -> Result<UsersAndRoles, String> {
    let short = || format!("{} bytes are too few", bytes.len());
    let (covered, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(short)?;
    let (header, body) = covered.split_at_checked(HEADER_BYTES).ok_or_else(short)?;
    if get(header, MAGIC) != ACCESS_MAGIC {
        return Err("it does not begin with PIPEACCS".to_owned());
    }
    let version = u32_at(header, VERSION);
    if !(1..=ACCESS_VERSION).contains(&version) {
        return Err(format!(
            "version {version} is unknown, this build reads 1 to {ACCESS_VERSION}"
        ));
    }
    if !agrees(u64::from_le_bytes(*sum), checksum(covered)) {
        return Err("its checksum is wrong".to_owned());
    }
    if u64_at(header, BODY_BYTES) != body.len() as u64 {
        return Err(format!("its JSON has {} bytes, not what it tells of", body.len()));
    }
    let mut state: UsersAndRoles =
        serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if !state.is_whole() {
        return Err("it lacks the user root, or a role that is always there".to_owned());
    }
    if version == 1 {
        state.grant_public();
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::documentation::assert_table;

    #[test]
    fn what_was_written_is_read_and_anything_else_refused() {
        let bytes = encode(&UsersAndRoles::new());
        assert_eq!(decode(&bytes).unwrap(), UsersAndRoles::new());
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            assert!(decode(&bytes).is_err(), "byte {at}");
        }
        assert!(decode(&encode(&UsersAndRoles::default())).unwrap_err().contains("root"));
    }

    #[test]
    fn under_version_1_everybody_was_told_what_there_is() {
        let mut state = UsersAndRoles::new();
        let public = state.roles.get_mut("public").unwrap();
        assert!(!std::mem::take(&mut public.grants).is_empty());
        let mut bytes = encode(&state);
        assert_eq!(decode(&bytes).unwrap(), state, "it was taken away");
        let covered = bytes.len() - CHECKSUM_BYTES;
        bytes[VERSION.offset] = 1;
        let sum = checksum(&bytes[..covered]).to_le_bytes();
        bytes[covered..].copy_from_slice(&sum);
        assert_eq!(decode(&bytes).unwrap(), UsersAndRoles::new());
    }

    #[test]
    fn the_header_has_no_gap_and_is_documented() {
        assert_eq!(assert_table("Users and roles", FIELDS), HEADER_BYTES);
    }
}
