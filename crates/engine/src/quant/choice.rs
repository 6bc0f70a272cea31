//! Which codes suit vectors and memory where the user names none.

use super::{CodeKind, default_code_bytes};
use crate::types::VectorType;

/// Shorter codes rank so badly that a search reads twice as much and more.
const SHORTEST: usize = 8;

/// Lengths are multiples of this, which scoring takes at once.
const STEP: usize = 8;

/// Bits of a component of a RaBitQ code: more hardly rank better, fewer read much more.
const RABITQ_BITS: usize = 4;

/// The length of codes of `kind` for vectors of `dim` components.
///
/// Where it is not known how much memory searches will have, product codes have the
/// [default](default_code_bytes). With room for `room` bytes a vector they are as long as that
/// allows, up to a byte for two components, where they rank nearly as exact distances do:
/// each byte up to there spares more reads than the pages would that it displaces. RaBitQ codes
/// have 4 bits a component, or as many as there is room for. Where the room is too small for any
/// code that is of use, the shortest is chosen, and opening tells how much is missing. Binary
/// vectors are coded whole.
pub fn chosen_code_bytes(kind: CodeKind, dim: usize, ty: VectorType, room: Option<u64>) -> usize {
    let (least, most) = kind.code_bytes_range(dim);
    let room = room.map(|room| usize::try_from(room).unwrap_or(usize::MAX));
    match (kind, room) {
        (CodeKind::Product, _) if ty == VectorType::Binary => ty.vector_bytes(dim),
        (CodeKind::Product, None) => default_code_bytes(dim),
        (CodeKind::Product, Some(room)) => {
            let longest = (dim / 2).next_multiple_of(STEP).max(default_code_bytes(dim)).min(most);
            (room / STEP * STEP).max(SHORTEST).clamp(least, longest)
        }
        (CodeKind::Rabitq, room) => {
            let plane = (most - least) / (CodeKind::MOST_BITS - 1);
            let suitable = least + (RABITQ_BITS - 1) * plane;
            let within = suitable.min(room.unwrap_or(suitable)).max(least);
            kind.longest_within(dim, within).unwrap_or(least)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(dim: usize, room: Option<u64>) -> usize {
        chosen_code_bytes(CodeKind::Product, dim, VectorType::F32, room)
    }

    #[test]
    fn without_a_limit_the_dimension_decides() {
        let chosen = [1, 20, 128, 384, 1536].map(|dim| product(dim, None));
        assert_eq!(chosen, [1, 20, 32, 48, 192]);
        assert_eq!(chosen_code_bytes(CodeKind::Product, 256, VectorType::Binary, Some(9)), 32);
        assert_eq!(chosen_code_bytes(CodeKind::Rabitq, 128, VectorType::F32, None), 72);
    }

    #[test]
    fn room_makes_codes_longer_until_they_are_nearly_exact() {
        let chosen = [0, 8, 31, 40, 64, 71, 1 << 40].map(|room| product(128, Some(room)));
        assert_eq!(chosen, [8, 8, 24, 40, 64, 64, 64]);
        assert_eq!(product(384, Some(500)), 192);
        assert_eq!(product(4, Some(500)), 4);
        let chosen = [0, 24, 39, 40, 60, 500]
            .map(|room| chosen_code_bytes(CodeKind::Rabitq, 128, VectorType::U8, Some(room)));
        assert_eq!(chosen, [24, 24, 24, 40, 56, 72]);
    }
}
