//! The stripe: one address space over several devices, in turns of equal length.
//!
//! Turn `s` lies on device `s mod N`, at `(s div N) * turn` behind the part of each device that
//! holds its marker.

/// How addresses of the stripe fall on devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    devices: u64,
    stripe_bytes: u64,
    /// Where the stripe begins on each device.
    first: u64,
    capacity: u64,
}

/// A part of a range that lies on one device without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripePiece {
    /// Which device.
    pub device: usize,
    /// Where on it.
    pub offset: u64,
    /// Where in the range.
    pub at: u64,
    /// How much.
    pub bytes: u64,
}

impl Stripe {
    /// Over `devices` of which each has at least `device_bytes`, the first `first` of them not part
    /// of it.
    ///
    /// # Panics
    /// Without a device, or with a stripe of nothing.
    pub fn new(devices: usize, stripe_bytes: u64, first: u64, device_bytes: u64) -> Self {
        assert!(devices > 0 && stripe_bytes > 0, "a stripe goes over something");
        let turns = device_bytes.saturating_sub(first) / stripe_bytes;
        let devices = devices as u64;
        Self { devices, stripe_bytes, first, capacity: turns * stripe_bytes * devices }
    }

    /// Bytes that it holds.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes of a turn.
    pub fn stripe_bytes(&self) -> u64 {
        self.stripe_bytes
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.devices as usize
    }

    /// The pieces of a range, in its order. On one device turns follow each other without a gap.
    pub fn pieces(&self, offset: u64, bytes: u64) -> impl Iterator<Item = StripePiece> + use<> {
        let Self { devices, stripe_bytes, first, .. } = *self;
        let mut at = 0;
        std::iter::from_fn(move || {
            if at == bytes {
                return None;
            }
            let from = offset + at;
            let (turn, within) = (from / stripe_bytes, from % stripe_bytes);
            let left = if devices == 1 { bytes - at } else { stripe_bytes - within };
            let piece = StripePiece {
                device: (turn % devices) as usize,
                offset: first + turn / devices * stripe_bytes + within,
                at,
                bytes: left.min(bytes - at),
            };
            at += piece.bytes;
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_order_of_the_list_is_the_order_of_the_turns() {
        let stripe = Stripe::new(3, 4096, 1 << 20, (1 << 20) + 10 * 4096 + 1000);
        assert_eq!(stripe.capacity(), 30 * 4096);
        let of = |offset, bytes| stripe.pieces(offset, bytes).collect::<Vec<_>>();
        let piece = |device, turn: u64, within, at, bytes| StripePiece {
            device,
            offset: (1 << 20) + turn * 4096 + within,
            at,
            bytes,
        };
        assert_eq!(of(0, 4096), [piece(0, 0, 0, 0, 4096)]);
        let crossing =
            [piece(1, 0, 512, 0, 3584), piece(2, 0, 0, 3584, 4096), piece(0, 1, 0, 7680, 512)];
        assert_eq!(of(4096 + 512, 8192), crossing);
        assert!(of(4096, 0).is_empty());
        let alone = Stripe::new(1, 4096, 0, 1 << 20);
        assert_eq!(alone.pieces(100, 9000).count(), 1, "one device has no edges");
    }

    proptest! {
        /// Written through the stripe, devices hold what a flat file holds, read at any place.
        #[test]
        fn reads_equal_those_of_a_flat_file(
            devices in 1_usize..=5,
            blocks in prop::sample::select(vec![1_u64, 2, 4, 16, 64, 256]),
            ranges in prop::collection::vec((0_u64..1 << 22, 1_u64..200_000), 1..20),
        ) {
            let stripe = Stripe::new(devices, blocks * 4096, 4096, 8 << 20);
            let bytes = stripe.capacity().min(4 << 20);
            let flat: Vec<u8> = (0..bytes).map(|i| ((i * 31) ^ (i >> 12)) as u8).collect();
            let mut disks = vec![vec![0_u8; 8 << 20]; devices];
            for p in stripe.pieces(0, bytes) {
                let (to, from) = (p.offset as usize, p.at as usize);
                disks[p.device][to..to + p.bytes as usize]
                    .copy_from_slice(&flat[from..from + p.bytes as usize]);
            }
            for (offset, length) in ranges {
                let offset = offset % bytes;
                let length = length.min(bytes - offset);
                let mut got = Vec::new();
                for p in stripe.pieces(offset, length) {
                    prop_assert_eq!(p.at as usize, got.len());
                    prop_assert!(p.offset >= 4096, "the marker's part is left alone");
                    let from = p.offset as usize;
                    got.extend_from_slice(&disks[p.device][from..from + p.bytes as usize]);
                }
                prop_assert_eq!(&got[..], &flat[offset as usize..(offset + length) as usize]);
            }
        }
    }
}
