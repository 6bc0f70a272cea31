//! NEON kernels for AArch64. Type-checked, but not run by our tests: no such machine is at
//! hand. They follow the AVX2 kernels step by step.

use std::arch::aarch64::*;

use super::pair_op::{BYTE_BLOCK, PairFn, PairOp};
use super::scalar;
use crate::types::VectorType;

pub(super) fn pair_fn(op: PairOp, ty: VectorType) -> PairFn {
    match (op, ty) {
        (PairOp::SquaredL2, VectorType::F32) => f32_pair::<true>,
        (PairOp::Dot, VectorType::F32) => f32_pair::<false>,
        (PairOp::SquaredL2, VectorType::U8) => u8_pair::<true>,
        (PairOp::Dot, VectorType::U8) => u8_pair::<false>,
        // What the compiler makes of the portable code, until such a machine is at hand.
        (_, VectorType::F16 | VectorType::BF16 | VectorType::I8 | VectorType::Binary) => {
            scalar::pair_fn(op, ty)
        }
    }
}

/// # Safety
/// The CPU has NEON; `dim` f32 components are readable at `a` and at `b`.
#[target_feature(enable = "neon")]
unsafe fn f32_pair<const L2: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    let mut sums = [vdupq_n_f32(0.0); 4];
    let mut i = 0;
    while i + 16 <= dim {
        for (lane, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `i + 16 <= dim`, so the 16 bytes of the 4 components are readable.
            let (x, y) =
                unsafe { (vld1q_u8(a.add(4 * i + 16 * lane)), vld1q_u8(b.add(4 * i + 16 * lane))) };
            let (x, y) = (vreinterpretq_f32_u8(x), vreinterpretq_f32_u8(y));
            *sum = if L2 {
                let d = vsubq_f32(x, y);
                vfmaq_f32(*sum, d, d)
            } else {
                vfmaq_f32(*sum, x, y)
            };
        }
        i += 16;
    }
    let mut total = vaddvq_f32(vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3])));
    while i < dim {
        // SAFETY: `i < dim`, so 4 bytes are readable at `4 i`; the read allows any alignment.
        let (x, y) = unsafe {
            (
                a.add(4 * i).cast::<f32>().read_unaligned(),
                b.add(4 * i).cast::<f32>().read_unaligned(),
            )
        };
        total += if L2 { (x - y) * (x - y) } else { x * y };
        i += 1;
    }
    total
}

/// # Safety
/// The CPU has NEON; `dim` bytes are readable at `a` and at `b`.
#[target_feature(enable = "neon")]
unsafe fn u8_pair<const L2: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    let whole = dim - dim % 16;
    let mut total = 0i64;
    let mut i = 0;
    while i < whole {
        let end = whole.min(i + BYTE_BLOCK);
        let mut sum = vdupq_n_u32(0);
        while i < end {
            // SAFETY: `i` and `end` are multiples of 16 with `i < end <= dim`, so 16 bytes at
            // `i` are readable at either pointer.
            let (x, y) = unsafe { (vld1q_u8(a.add(i)), vld1q_u8(b.add(i))) };
            let (x, y) = if L2 {
                let d = vabdq_u8(x, y);
                (d, d)
            } else {
                (x, y)
            };
            sum = vpadalq_u16(sum, vmull_u8(vget_low_u8(x), vget_low_u8(y)));
            sum = vpadalq_u16(sum, vmull_high_u8(x, y));
            i += 16;
        }
        total += vaddlvq_u32(sum).cast_signed();
    }
    // SAFETY: `whole <= dim`, and `dim` bytes are readable at either pointer.
    let (a, b) = unsafe {
        (
            std::slice::from_raw_parts(a.add(whole), dim - whole),
            std::slice::from_raw_parts(b.add(whole), dim - whole),
        )
    };
    (total + scalar::byte_sum::<L2, false>(a, b)) as f32
}
