//! Roaring bitmaps in the portable format, read without trusting the numbers in them.
//!
//! The crate `roaring` makes room for as many containers as a bitmap's header promises before it
//! looks for them: some hundred KiB for a header of eight bytes. So its length is found first.

use roaring::{RoaringBitmap, RoaringTreemap};

/// Begins a bitmap without runs; their number follows.
const COOKIE_WITHOUT_RUNS: u32 = 12346;
/// Lower half of the word that begins one with runs; the number of containers less 1 is the upper.
const COOKIE_WITH_RUNS: u16 = 12347;
/// With fewer containers a bitmap with runs has no offsets.
const OFFSETS_FROM: usize = 4;
/// Most containers.
const CONTAINERS: usize = 1 << 16;
/// Values of a container from which on it is 8 KiB of bits.
const LISTED_VALUES: usize = 4096;
const BITS_BYTES: usize = 8192;

/// The bitmap that these bytes begin with, and what stands behind it; `None` where there is none.
pub(crate) fn take_bitmap(bytes: &[u8]) -> Option<(RoaringBitmap, &[u8])> {
    let (bitmap, rest) = bytes.split_at_checked(bitmap_bytes(bytes)?)?;
    Some((RoaringBitmap::deserialize_from(bitmap).ok()?, rest))
}

/// As [`take_bitmap`], of 64 bits: a number of bitmaps, each behind the upper half of its values.
pub(crate) fn take_treemap(bytes: &[u8]) -> Option<(RoaringTreemap, &[u8])> {
    let (count, mut rest) = bytes.split_first_chunk::<8>()?;
    for _ in 0..u64::from_le_bytes(*count) {
        let (_, bitmap) = rest.split_first_chunk::<4>()?;
        rest = bitmap.get(bitmap_bytes(bitmap)?..)?;
    }
    let treemap = &bytes[..bytes.len() - rest.len()];
    Some((RoaringTreemap::deserialize_from(treemap).ok()?, rest))
}

/// How many bytes the bitmap takes that these begin with; `None` where they are too few.
fn bitmap_bytes(bytes: &[u8]) -> Option<usize> {
    let mut at = 0_usize;
    let mut take = |n: usize| {
        let taken = bytes.get(at..at.checked_add(n)?)?;
        at += n;
        Some(taken)
    };
    let word = u32::from_le_bytes(*take(4)?.first_chunk()?);
    let (containers, runs): (usize, &[u8]) = if word == COOKIE_WITHOUT_RUNS {
        (u32::from_le_bytes(*take(4)?.first_chunk()?) as usize, &[])
    } else if word as u16 == COOKIE_WITH_RUNS {
        let containers = (word >> 16) as usize + 1;
        (containers, take(containers.div_ceil(8))?)
    } else {
        return None;
    };
    if containers > CONTAINERS {
        return None;
    }
    let (told, _) = take(containers * 4)?.as_chunks::<4>();
    if runs.is_empty() || containers >= OFFSETS_FROM {
        take(containers * 4)?;
    }
    for (i, container) in told.iter().enumerate() {
        let values = usize::from(u16::from_le_bytes([container[2], container[3]])) + 1;
        let bytes = if runs.get(i / 8).is_some_and(|of_eight| of_eight >> (i % 8) & 1 != 0) {
            4 * usize::from(u16::from_le_bytes(*take(2)?.first_chunk()?))
        } else if values > LISTED_VALUES {
            BITS_BYTES
        } else {
            2 * values
        };
        take(bytes)?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few values, many, runs, and all of these in several containers.
    fn some() -> Vec<RoaringBitmap> {
        let mut runs = RoaringBitmap::new();
        runs.insert_range(70_000..400_000);
        runs.optimize();
        let mut mixed: RoaringBitmap = (0..900_000).step_by(7).collect();
        mixed |= &runs;
        mixed.insert_range(2_000_000..2_100_000);
        let sparse = (0..2_000_000).step_by(90_000).collect();
        let dense = (0..30_000).step_by(2).collect();
        let mut optimized = mixed.clone();
        optimized.optimize();
        vec![RoaringBitmap::new(), sparse, dense, runs, mixed, optimized]
    }

    fn written(bitmap: &RoaringBitmap) -> Vec<u8> {
        let mut bytes = Vec::new();
        bitmap.serialize_into(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn bitmaps_of_every_kind_are_read_and_their_ends_are_found() {
        for bitmap in some() {
            let mut bytes = written(&bitmap);
            let length = bytes.len();
            bytes.extend(b"behind");
            assert_eq!(take_bitmap(&bytes), Some((bitmap, b"behind".as_slice())));
            for cut in (0..length).step_by(97).chain([length - 1]) {
                assert_eq!(take_bitmap(&bytes[..cut]), None, "{cut} of {length} bytes");
            }
        }
    }

    #[test]
    fn treemaps_are_read_and_their_ends_are_found() {
        let bitmaps = some().into_iter().filter(|bitmap| !bitmap.is_empty());
        let treemap = RoaringTreemap::from_bitmaps((3..).zip(bitmaps));
        let mut bytes = Vec::new();
        treemap.serialize_into(&mut bytes).unwrap();
        let length = bytes.len();
        bytes.extend(b"behind");
        assert_eq!(take_treemap(&bytes), Some((treemap, b"behind".as_slice())));
        assert_eq!(take_treemap(&bytes[..length - 1]), None);
    }

    #[test]
    fn containers_that_are_not_there_are_not_made_room_for() {
        // Of which the first promises 65,536 containers, and the second 16 millions of bitmaps.
        let promised = [&12346_u32.to_le_bytes()[..], &65_536_u32.to_le_bytes(), &[0; 64]].concat();
        assert_eq!(bitmap_bytes(&promised), None);
        assert_eq!(take_treemap(&[&(1_u64 << 24).to_le_bytes()[..], &[0; 64]].concat()), None);
    }
}
