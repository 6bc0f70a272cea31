//! Instruction sets that kernels are written for, and which of them this CPU has.

/// An instruction set, from what every CPU has to the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SimdLevel {
    /// Portable code.
    Scalar,
    /// x86-64 with AVX2, FMA, F16C and POPCNT.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL; VNNI and VPOPCNTDQ are used where present.
    Avx512,
    /// AArch64 with NEON. Type-checked, but not run by our tests: no such machine is at hand.
    Neon,
}

impl SimdLevel {
    /// All levels, of all architectures.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Neon];

    /// The widest level of this CPU. Detection is cached by the standard library.
    pub fn detected() -> Self {
        [Self::Avx512, Self::Avx2, Self::Neon]
            .into_iter()
            .find(|level| level.is_available())
            .unwrap_or(Self::Scalar)
    }

    /// Whether this CPU runs code of this level.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                std::is_x86_feature_detected!("avx2")
                    && std::is_x86_feature_detected!("fma")
                    && std::is_x86_feature_detected!("f16c")
                    && std::is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && std::is_x86_feature_detected!("avx512f")
                    && std::is_x86_feature_detected!("avx512bw")
                    && std::is_x86_feature_detected!("avx512dq")
                    && std::is_x86_feature_detected!("avx512vl")
            }
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            _ => false,
        }
    }
}
