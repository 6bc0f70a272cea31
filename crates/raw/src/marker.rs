//! What stands at the start of each device: whose it is, and on the first which copies it holds.
//!
//! ```text
//! 0        identity: this device is number p of n of that stripe
//! 4 KiB    the same again
//! 64 KiB   directory of regions (first device only)
//! 512 KiB  the same again
//! 1 MiB    the stripe
//! ```
//!
//! An identity is written once, when devices are claimed. The directory is replaced whole: the first
//! copy, a flush, the second, a flush; so one of the two is whole at any time, and of two that are
//! whole and differ the newer counts, since nothing was done by it before both were there.
//! `docs/disk-format.md` has the tables.

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

/// Version of both structures.
pub const VERSION: u32 = 1;
/// Where the stripe begins on each device.
pub const HEAD_BYTES: u64 = 1 << 20;
/// Length of an identity.
pub const IDENTITY_BYTES: usize = 4096;
/// Where identities stand.
pub const IDENTITIES: [u64; 2] = [0, 4096];
/// Longest directory.
pub const DIRECTORY_BYTES: usize = 448 << 10;
/// Where directories stand.
pub const DIRECTORIES: [u64; 2] = [64 << 10, 512 << 10];
/// Bytes before the first entry of a directory.
pub const DIRECTORY_HEADER_BYTES: usize = 64;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 128;
/// Longest name of a segment.
pub const NAME_BYTES: usize = 56;
/// Most regions.
pub const MOST_REGIONS: usize = (DIRECTORY_BYTES - DIRECTORY_HEADER_BYTES) / ENTRY_BYTES;
/// How an identity begins.
pub const IDENTITY_MAGIC: &[u8; 8] = b"PIPERAW\0";
/// How a directory begins.
pub const DIRECTORY_MAGIC: &[u8; 8] = b"PIPEDIR\0";
/// Where an identity has its checksum, which is of all before it.
const IDENTITY_CHECKSUM: usize = 56;
/// Where a directory has its checksum, which is of all but these eight bytes.
const DIRECTORY_CHECKSUM: usize = 40;

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which of the stripe's devices.
    pub position: u32,
    /// How many there are.
    pub count: u32,
    /// Block size when it was claimed.
    pub lba_bytes: u32,
    /// Bytes of a turn.
    pub stripe_bytes: u64,
    /// Length of the smallest device when they were claimed.
    pub device_bytes: u64,
    /// The same on all devices of a stripe.
    pub set: Uuid,
}

/// A copy of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Of which index.
    pub index: Uuid,
    /// Of which of its partitions.
    pub partition: u32,
    /// Name of the segment in its partition.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// XXH3 of its bytes.
    pub checksum: u64,
    /// Where it stands in the stripe.
    pub start: u64,
    /// Generation of the index for which it was copied.
    pub generation: u64,
    /// The file that was copied: its inode, and when it was changed, in nanoseconds.
    pub source: (u64, u64),
}

/// All copies of a stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionDirectory {
    /// Grows with each change.
    pub sequence: u64,
    /// Of which stripe.
    pub set: Uuid,
    /// In no order.
    pub entries: Vec<Entry>,
}

/// Why bytes are no marker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// They are something else.
    #[error("no marker of pipeann")]
    Foreign,
    /// Written by a newer build.
    #[error("a marker of version {0}, which this build does not know")]
    Version(u32),
    /// They were one.
    #[error("a damaged marker")]
    Damaged,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn uuid_at(bytes: &[u8], at: usize) -> Uuid {
    Uuid::from_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"))
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// Checks magic and version, which stand first in both structures.
fn known(bytes: &[u8], magic: &[u8; 8]) -> Result<(), MarkerError> {
    if bytes.len() < 12 || bytes[..8] != magic[..] {
        return Err(MarkerError::Foreign);
    }
    match u32_at(bytes, 8) {
        VERSION => Ok(()),
        version => Err(MarkerError::Version(version)),
    }
}

impl Identity {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; IDENTITY_BYTES];
        put(&mut bytes, 0, IDENTITY_MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        put(&mut bytes, 12, &self.position.to_le_bytes());
        put(&mut bytes, 16, &self.count.to_le_bytes());
        put(&mut bytes, 20, &self.lba_bytes.to_le_bytes());
        put(&mut bytes, 24, &self.stripe_bytes.to_le_bytes());
        put(&mut bytes, 32, &self.device_bytes.to_le_bytes());
        put(&mut bytes, 40, self.set.as_bytes());
        Self::seal(&mut bytes);
        bytes
    }

    /// Makes the checksum of an identity's bytes right, whatever else they say; not of too few.
    pub fn seal(bytes: &mut [u8]) {
        if bytes.len() >= IDENTITY_CHECKSUM + 8 {
            let checksum = xxh3_64(&bytes[..IDENTITY_CHECKSUM]);
            put(bytes, IDENTITY_CHECKSUM, &checksum.to_le_bytes());
        }
    }

    /// Of its bytes.
    ///
    /// # Errors
    /// [`MarkerError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, MarkerError> {
        known(bytes, IDENTITY_MAGIC)?;
        if bytes.len() < IDENTITY_CHECKSUM + 8
            || xxh3_64(&bytes[..IDENTITY_CHECKSUM]) != u64_at(bytes, IDENTITY_CHECKSUM)
        {
            return Err(MarkerError::Damaged);
        }
        let identity = Self {
            position: u32_at(bytes, 12),
            count: u32_at(bytes, 16),
            lba_bytes: u32_at(bytes, 20),
            stripe_bytes: u64_at(bytes, 24),
            device_bytes: u64_at(bytes, 32),
            set: uuid_at(bytes, 40),
        };
        let sane = identity.position < identity.count
            && identity.stripe_bytes > 0
            && identity.stripe_bytes.is_multiple_of(4096);
        if sane { Ok(identity) } else { Err(MarkerError::Damaged) }
    }
}

impl Entry {
    fn encode(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.index.as_bytes());
        put(bytes, 16, &self.partition.to_le_bytes());
        put(bytes, 20, &(self.name.len() as u32).to_le_bytes());
        for (at, field) in [
            (24, self.bytes),
            (32, self.checksum),
            (40, self.start),
            (48, self.generation),
            (56, self.source.0),
            (64, self.source.1),
        ] {
            put(bytes, at, &field.to_le_bytes());
        }
        put(bytes, 72, self.name.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, MarkerError> {
        let length = u32_at(bytes, 20) as usize;
        let name = bytes.get(72..72 + length.min(NAME_BYTES + 1)).ok_or(MarkerError::Damaged)?;
        let name = std::str::from_utf8(name).map_err(|_| MarkerError::Damaged)?;
        let entry = Self {
            index: uuid_at(bytes, 0),
            partition: u32_at(bytes, 16),
            name: name.to_owned(),
            bytes: u64_at(bytes, 24),
            checksum: u64_at(bytes, 32),
            start: u64_at(bytes, 40),
            generation: u64_at(bytes, 48),
            source: (u64_at(bytes, 56), u64_at(bytes, 64)),
        };
        if entry.start.checked_add(entry.bytes).is_none() || length > NAME_BYTES {
            return Err(MarkerError::Damaged);
        }
        Ok(entry)
    }
}

impl RegionDirectory {
    /// Of a stripe without copies.
    pub fn empty(set: Uuid) -> Self {
        Self { sequence: 1, set, entries: Vec::new() }
    }

    /// Its bytes, a multiple of 4 KiB.
    ///
    /// # Panics
    /// With more regions or longer names than there is room for.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.entries.len() <= MOST_REGIONS, "the directory has room");
        let used = DIRECTORY_HEADER_BYTES + self.entries.len() * ENTRY_BYTES;
        let mut bytes = vec![0; used.next_multiple_of(4096)];
        put(&mut bytes, 0, DIRECTORY_MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        put(&mut bytes, 12, &(self.entries.len() as u32).to_le_bytes());
        put(&mut bytes, 16, &self.sequence.to_le_bytes());
        put(&mut bytes, 24, self.set.as_bytes());
        for (i, entry) in self.entries.iter().enumerate() {
            assert!(entry.name.len() <= NAME_BYTES, "names of segments are short");
            entry.encode(&mut bytes[DIRECTORY_HEADER_BYTES + i * ENTRY_BYTES..][..ENTRY_BYTES]);
        }
        Self::seal(&mut bytes);
        bytes
    }

    /// Makes the checksum of a directory's bytes right, whatever else they say; not of fewer than it
    /// says to have.
    pub fn seal(bytes: &mut [u8]) {
        if let Ok(used) = Self::used(bytes) {
            let checksum = Self::checksum(&bytes[..used]);
            put(bytes, DIRECTORY_CHECKSUM, &checksum.to_le_bytes());
        }
    }

    /// How many of its bytes are used.
    fn used(bytes: &[u8]) -> Result<usize, MarkerError> {
        if bytes.len() < DIRECTORY_HEADER_BYTES {
            return Err(MarkerError::Damaged);
        }
        let count = u32_at(bytes, 12) as usize;
        if count > MOST_REGIONS {
            return Err(MarkerError::Damaged);
        }
        let used = DIRECTORY_HEADER_BYTES + count * ENTRY_BYTES;
        if used <= bytes.len() { Ok(used) } else { Err(MarkerError::Damaged) }
    }

    /// Of all that is used but the checksum's own place.
    fn checksum(used: &[u8]) -> u64 {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        hash.update(&used[..DIRECTORY_CHECKSUM]);
        hash.update(&used[DIRECTORY_CHECKSUM + 8..]);
        hash.digest()
    }

    /// Of its bytes, which may be more than it uses.
    ///
    /// # Errors
    /// [`MarkerError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, MarkerError> {
        known(bytes, DIRECTORY_MAGIC)?;
        let used = &bytes[..Self::used(bytes)?];
        if Self::checksum(used) != u64_at(bytes, DIRECTORY_CHECKSUM) {
            return Err(MarkerError::Damaged);
        }
        let entries = used[DIRECTORY_HEADER_BYTES..].chunks_exact(ENTRY_BYTES).map(Entry::decode);
        let entries = entries.collect::<Result<_, _>>()?;
        Ok(Self { sequence: u64_at(bytes, 16), set: uuid_at(bytes, 24), entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> RegionDirectory {
        let entry = |i: u64| Entry {
            index: Uuid::from_u128(7 + u128::from(i)),
            partition: i as u32,
            name: format!("segment-{i:06}.pages"),
            bytes: 4096 * (i + 1),
            checksum: 11 * i,
            start: i << 20,
            generation: 3,
            source: (99, 1_700_000_000_000_000_000 + i),
        };
        let entries = (0..40).map(entry).collect();
        RegionDirectory { sequence: 17, set: Uuid::from_u128(5), entries }
    }

    fn identity() -> Identity {
        Identity {
            position: 2,
            count: 4,
            lba_bytes: 512,
            stripe_bytes: 65536,
            device_bytes: 1 << 30,
            set: Uuid::from_u128(5),
        }
    }

    #[test]
    fn markers_are_what_they_were() {
        assert_eq!(Identity::decode(&identity().encode()), Ok(identity()));
        let bytes = directory().encode();
        assert!(bytes.len().is_multiple_of(4096));
        assert_eq!(RegionDirectory::decode(&bytes), Ok(directory()));
        let empty = RegionDirectory::empty(Uuid::from_u128(1));
        assert_eq!(RegionDirectory::decode(&empty.encode()), Ok(empty));
        assert!(DIRECTORIES[0] as usize + DIRECTORY_BYTES <= DIRECTORIES[1] as usize);
        assert!(DIRECTORIES[1] as usize + DIRECTORY_BYTES <= HEAD_BYTES as usize);
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let bytes = directory().encode();
        let used = DIRECTORY_HEADER_BYTES + 40 * ENTRY_BYTES;
        for at in (0..used).filter(|at| !(48..64).contains(at)) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(RegionDirectory::decode(&flipped).is_err(), "byte {at}");
        }
        let bytes = identity().encode();
        for at in 0..64 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(Identity::decode(&flipped).is_err(), "byte {at}");
        }
        for cut in [0, 7, 11, 30, 63, 64, 200] {
            assert!(RegionDirectory::decode(&directory().encode()[..cut]).is_err());
            assert!(Identity::decode(&identity().encode()[..cut.min(63)]).is_err());
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut bytes = identity().encode();
        bytes[8] = 9;
        assert_eq!(Identity::decode(&bytes), Err(MarkerError::Version(9)));
        assert_eq!(Identity::decode(&[0; 4096]), Err(MarkerError::Foreign));
    }

    proptest::proptest! {
        /// Bytes of somebody else, with a checksum that is right.
        #[test]
        fn hostile_bytes_are_read_or_refused(
            mut bytes in proptest::collection::vec(0_u8.., 0..600),
            count in 0_u32..6,
        ) {
            if bytes.len() >= DIRECTORY_HEADER_BYTES {
                put(&mut bytes, 0, DIRECTORY_MAGIC);
                put(&mut bytes, 8, &VERSION.to_le_bytes());
                put(&mut bytes, 12, &count.to_le_bytes());
                for entry in 0..count as usize {
                    let at = DIRECTORY_HEADER_BYTES + entry * ENTRY_BYTES + 20;
                    if at + 4 <= bytes.len() {
                        bytes[at..at + 4].copy_from_slice(&(count * 20).to_le_bytes());
                    }
                }
                RegionDirectory::seal(&mut bytes);
            }
            if let Ok(found) = RegionDirectory::decode(&bytes) {
                proptest::prop_assert_eq!(RegionDirectory::decode(&found.encode()), Ok(found));
            }
            let _ = Identity::decode(&bytes);
        }
    }

    /// The bytes on disk, so that no change of them goes unnoticed.
    #[test]
    fn the_bytes_are_those_of_the_first_version() {
        let hash = |bytes: &[u8]| format!("{:016x}", xxh3_64(bytes));
        let bytes = [hash(&identity().encode()), hash(&directory().encode())];
        assert_eq!(bytes, ["4a77757e40ec16ff", "5bb63cb86b9e5c70"]);
    }

    /// Rows of a byte table of the document: offset, size, name.
    fn table(heading: &str) -> Vec<(usize, usize, String)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/disk-format.md");
        let document = std::fs::read_to_string(path).unwrap();
        let from = document.split(&format!("### {heading}\n")).nth(1).expect("the heading");
        let rows = from.lines().skip_while(|l| !l.starts_with("|---")).skip(1);
        let rows = rows.take_while(|l| l.starts_with('|')).map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[1].parse().unwrap(), cells[2].parse().unwrap(), cells[3].to_owned())
        });
        rows.collect()
    }

    fn field(bytes: &[u8], rows: &[(usize, usize, String)], name: &str) -> u128 {
        let (at, size, _) = rows.iter().find(|row| row.2 == name).expect("a row of that name");
        let mut wide = [0; 16];
        wide[..*size].copy_from_slice(&bytes[*at..at + size]);
        u128::from_le_bytes(wide)
    }

    #[test]
    fn the_tables_of_the_document_tell_these_bytes() {
        let (rows, i) = (table("Device identity"), identity());
        let bytes = i.encode();
        let set = u128::from_le_bytes(*i.set.as_bytes());
        for (name, value) in [
            ("version", VERSION.into()),
            ("position", i.position.into()),
            ("count", i.count.into()),
            ("lba bytes", i.lba_bytes.into()),
            ("stripe bytes", i.stripe_bytes.into()),
            ("device bytes", i.device_bytes.into()),
            ("set", set),
            ("checksum", xxh3_64(&bytes[..56]).into()),
        ] {
            assert_eq!(field(&bytes, &rows, name), value, "{name}");
        }
        let (rows, d) = (table("Directory of copies"), directory());
        let bytes = d.encode();
        for (name, value) in [("entries", 40), ("sequence", 17), ("set", set)] {
            assert_eq!(field(&bytes, &rows, name), value, "{name}");
        }
        let (rows, e) = (table("Entry of a copy"), &d.entries[7]);
        let bytes = &bytes[DIRECTORY_HEADER_BYTES + 7 * ENTRY_BYTES..][..ENTRY_BYTES];
        for (name, value) in [
            ("index", u128::from_le_bytes(*e.index.as_bytes())),
            ("partition", e.partition.into()),
            ("name bytes", e.name.len() as u128),
            ("bytes", e.bytes.into()),
            ("checksum", e.checksum.into()),
            ("start", e.start.into()),
            ("generation", e.generation.into()),
            ("inode", e.source.0.into()),
            ("changed", e.source.1.into()),
        ] {
            assert_eq!(field(bytes, &rows, name), value, "{name}");
        }
        assert_eq!(rows.last().map(|(at, size, _)| at + size), Some(ENTRY_BYTES));
        assert_eq!(MOST_REGIONS, 3583);
    }
}
