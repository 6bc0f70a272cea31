//! Which partition a row belongs to, by its partition key.
//!
//! The number is part of what is stored: rows stay in the partition that it named. So the hash is
//! fixed here, in words, and pinned by a test: FNV-1a of 64 bits over the 8 little-endian bytes
//! of an int64 or the UTF-8 bytes of a text; then `h ^= h >> 32`, `h *= 0xd6e8feb86659fd93`, twice,
//! and once more `h ^= h >> 32`, because FNV alone leaves the upper bits of short keys alike; the
//! partition is the upper half of the 128-bit product of hash and number of partitions.

use super::key::PrimaryKeyRef;

/// The partition, from 0 below `partitions`, of a row with this partition key.
///
/// # Panics
/// Where `partitions` is 0.
pub fn partition_number(key: PrimaryKeyRef<'_>, partitions: u32) -> u32 {
    assert!(partitions > 0, "a collection has a partition");
    let hash = match key {
        PrimaryKeyRef::Int64(key) => hash(&key.to_le_bytes()),
        PrimaryKeyRef::VarChar(key) => hash(key.as_bytes()),
    };
    let scaled = (u128::from(hash) * u128::from(partitions)) >> 64;
    u32::try_from(scaled).expect("below the number of partitions")
}

fn hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (0..2).fold(fnv, |h, _| (h ^ (h >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93));
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_partitions() {
        let ints: Vec<_> =
            (-4..4).map(|key| partition_number(PrimaryKeyRef::Int64(key), 16)).collect();
        let texts = ["", "a", "b", "tenant-1", "ä"]
            .map(|key| partition_number(PrimaryKeyRef::VarChar(key), 1024));
        // Computed from the description above by another program.
        assert_eq!(ints, [8, 9, 9, 4, 2, 14, 10, 15], "rows would be looked for elsewhere");
        assert_eq!(texts, [134, 343, 928, 685, 671], "rows would be looked for elsewhere");
    }

    #[test]
    fn regular_keys_are_spread_evenly() {
        for stride in [1, 2, 16, 1000, 1 << 20, 1 << 40] {
            let mut counts = [0; 16];
            for i in 0..16_000 {
                counts[partition_number(PrimaryKeyRef::Int64(i * stride), 16) as usize] += 1;
            }
            // 1000 expected in each, with a standard deviation of about 31.
            assert!(counts.iter().all(|&n| (850..1150).contains(&n)), "{stride}: {counts:?}");
        }
        let mut counts = [0; 16];
        for i in 0..16_000 {
            let key = format!("tenant-{i}");
            counts[partition_number(PrimaryKeyRef::VarChar(&key), 16) as usize] += 1;
        }
        assert!(counts.iter().all(|&n| (850..1150).contains(&n)), "{counts:?}");
    }
}
