//! The ways to score codes, and which of them this CPU has.
//!
//! `docs/decisions/0002-code-kernels.md` has the measurements behind the choice.

use crate::distance::SimdLevel;

/// How codes are scored. The names are of what is done to product codes; RaBitQ codes are scored
/// by the instruction set of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeKernel {
    /// One f32 look-up after another, in four sums.
    Scalar,
    /// Eight f32 look-ups by one AVX2 gather.
    Avx2Gather,
    /// Sixteen f32 look-ups by one AVX-512 gather.
    Avx512Gather,
    /// 64 codes at a time by byte permutations (AVX-512 VBMI) in 16-bit tables.
    Avx512Vbmi,
}

impl CodeKernel {
    /// All kernels.
    pub const ALL: [Self; 4] =
        [Self::Scalar, Self::Avx2Gather, Self::Avx512Gather, Self::Avx512Vbmi];

    /// The fastest for this CPU: byte permutations where it has them, else scalar look-ups.
    /// Gathers lost to scalar look-ups where we measured, and are offered for comparison.
    pub fn detected() -> Self {
        if Self::Avx512Vbmi.is_available() { Self::Avx512Vbmi } else { Self::Scalar }
    }

    /// Whether this CPU can run it.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            match self {
                Self::Scalar => true,
                Self::Avx2Gather => SimdLevel::Avx2.is_available(),
                Self::Avx512Gather => SimdLevel::Avx512.is_available(),
                Self::Avx512Vbmi => {
                    SimdLevel::Avx512.is_available() && std::is_x86_feature_detected!("avx512vbmi")
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Self::Scalar
        }
    }

    /// The instruction set that it belongs to.
    pub(super) fn level(self) -> SimdLevel {
        match self {
            Self::Scalar => SimdLevel::Scalar,
            Self::Avx2Gather => SimdLevel::Avx2,
            Self::Avx512Gather | Self::Avx512Vbmi => SimdLevel::Avx512,
        }
    }

    /// Whether it needs 16-bit tables for codes of `code_bytes`. Where the codes are so long
    /// that 16 bits would be coarse, it does without and gathers floats.
    pub(super) fn splits(self, code_bytes: usize) -> bool {
        self == Self::Avx512Vbmi && code_bytes <= 1024
    }
}
