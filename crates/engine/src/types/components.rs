//! Components of vectors as f32, and back.
//!
//! Every component of every type is a value of f32, so widening loses nothing.

use half::{bf16, f16};

use super::VectorType;

/// Converts the bytes of one vector to f32 components; bits become 0 and 1.
///
/// # Panics
/// Where `out` is shorter or longer than the vector.
pub fn to_f32(bytes: &[u8], ty: VectorType, out: &mut [f32]) {
    assert_eq!(bytes.len(), ty.vector_bytes(out.len()), "vector and output differ in length");
    part_to_f32(bytes, ty, 0, out);
}

/// Converts as many components as `out` has room for, from component `start` on.
///
/// # Panics
/// Where the vector ends before `out` is full.
pub fn part_to_f32(bytes: &[u8], ty: VectorType, start: usize, out: &mut [f32]) {
    let end = start + out.len();
    if ty == VectorType::Binary {
        for (o, i) in out.iter_mut().zip(start..end) {
            *o = f32::from(bytes[i / 8] >> (7 - i % 8) & 1);
        }
        return;
    }
    let bytes = &bytes[ty.vector_bytes(start)..ty.vector_bytes(end)];
    match ty {
        VectorType::F32 => widen(bytes, out, f32::from_le_bytes),
        VectorType::F16 => widen(bytes, out, of_f16),
        VectorType::BF16 => widen(bytes, out, of_bf16),
        VectorType::U8 => widen(bytes, out, of_u8),
        VectorType::I8 => widen(bytes, out, of_i8),
        VectorType::Binary => unreachable!("handled above"),
    }
}

#[inline(always)]
fn widen<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    for (o, &component) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *o = value(component);
    }
}

/// Why no distance can be computed of a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unfit {
    /// A component that is NaN or infinite.
    NotFinite(f32),
    /// A squared norm that is more than an f32 holds (3.4e38). Distances are sums of squares and
    /// products in f32.
    Norm(f64),
}

/// What is wrong with the bytes of a vector, if anything is.
pub fn unfit(bytes: &[u8], ty: VectorType) -> Option<Unfit> {
    fit_squared_norm(bytes, ty).err()
}

/// The squared norm of a vector of floats; 0 of other types, whose lengths are all alike.
///
/// # Errors
/// [`Unfit`], where no distance can be computed of it.
pub fn fit_squared_norm(bytes: &[u8], ty: VectorType) -> Result<f64, Unfit> {
    let squared_norm = match ty {
        VectorType::F32 => squared_norm(bytes, f32::from_le_bytes),
        VectorType::BF16 => squared_norm(bytes, of_bf16),
        // No finite one is so large.
        VectorType::F16 => squared_norm(bytes, of_f16),
        VectorType::U8 | VectorType::I8 | VectorType::Binary => return Ok(0.0),
    };
    // A sum of squares of finite f32 is finite in f64.
    if !squared_norm.is_finite() {
        let found = find_component(bytes, ty, |x| !x.is_finite());
        return Err(Unfit::NotFinite(found.unwrap_or(f32::INFINITY)));
    }
    if squared_norm > f64::from(f32::MAX) {
        return Err(Unfit::Norm(squared_norm));
    }
    Ok(squared_norm)
}

#[inline(always)]
fn squared_norm<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> f64 {
    // Several sums, so that no addition waits for the one before.
    let mut sums = [0.0; 8];
    let (eights, rest) = bytes.as_chunks::<N>().0.as_chunks::<8>();
    for components in eights {
        for (sum, &component) in sums.iter_mut().zip(components) {
            *sum += f64::from(value(component)).powi(2);
        }
    }
    let rest = rest.iter().map(|&component| f64::from(value(component)).powi(2));
    sums.iter().sum::<f64>() + rest.sum::<f64>()
}

/// The first component of a vector that `wanted` says yes to.
pub fn find_component(bytes: &[u8], ty: VectorType, wanted: impl Fn(f32) -> bool) -> Option<f32> {
    match ty {
        VectorType::F32 => find(bytes, f32::from_le_bytes, wanted),
        VectorType::F16 => find(bytes, of_f16, wanted),
        VectorType::BF16 => find(bytes, of_bf16, wanted),
        VectorType::U8 => find(bytes, of_u8, wanted),
        VectorType::I8 => find(bytes, of_i8, wanted),
        VectorType::Binary => {
            let bits = bytes.iter().flat_map(|&byte| (0..8).rev().map(move |bit| byte >> bit & 1));
            bits.map(f32::from).find(|&x| wanted(x))
        }
    }
}

#[inline(always)]
fn find<const N: usize>(
    bytes: &[u8],
    value: impl Fn([u8; N]) -> f32,
    wanted: impl Fn(f32) -> bool,
) -> Option<f32> {
    bytes.as_chunks::<N>().0.iter().map(|&component| value(component)).find(|&x| wanted(x))
}

fn of_f16(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

fn of_bf16(bytes: [u8; 2]) -> f32 {
    bf16::from_le_bytes(bytes).to_f32()
}

fn of_u8(bytes: [u8; 1]) -> f32 {
    f32::from(bytes[0])
}

fn of_i8(bytes: [u8; 1]) -> f32 {
    f32::from(bytes[0].cast_signed())
}

/// Appends the vector of `ty` whose components are nearest to these; bits are set from a half
/// upwards.
///
/// # Panics
/// Where bits do not fill bytes.
pub fn from_f32(components: &[f32], ty: VectorType, out: &mut Vec<u8>) {
    let all = components.iter();
    match ty {
        VectorType::F32 => out.extend(all.flat_map(|x| x.to_le_bytes())),
        VectorType::F16 => out.extend(all.flat_map(|&x| f16::from_f32(x).to_le_bytes())),
        VectorType::BF16 => out.extend(all.flat_map(|&x| bf16::from_f32(x).to_le_bytes())),
        // Casts of floats to integers stay within the range of the integer.
        VectorType::U8 => out.extend(all.map(|x| x.round() as u8)),
        VectorType::I8 => out.extend(all.map(|x| (x.round() as i8).cast_unsigned())),
        VectorType::Binary => {
            let (bytes, rest) = components.as_chunks::<8>();
            assert!(rest.is_empty(), "bits fill bytes");
            let bit = |byte: u8, &x: &f32| byte << 1 | u8::from(x >= 0.5);
            out.extend(bytes.iter().map(|bits| bits.iter().fold(0, bit)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_come_back_from_every_type() {
        let cases: [(VectorType, [f32; 8]); 6] = [
            (VectorType::F32, [0.1, -3.5, 1e30, -0.0, 1e-40, 7.0, 8.0, 9.0]),
            (VectorType::F16, [0.5, -3.5, 65504.0, 6.103_515_6e-5, 5.960_464_5e-8, 0.0, 1.0, 2.0]),
            (VectorType::BF16, [0.5, -3.5, f32::from_bits(0x7149_0000), 0.0, 1.0, 2.0, 3.0, 4.0]),
            (VectorType::U8, [0.0, 1.0, 127.0, 128.0, 255.0, 3.0, 4.0, 5.0]),
            (VectorType::I8, [0.0, 1.0, 127.0, -128.0, -1.0, 3.0, 4.0, 5.0]),
            (VectorType::Binary, [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]),
        ];
        for (ty, components) in cases {
            let mut bytes = Vec::new();
            from_f32(&components, ty, &mut bytes);
            assert_eq!(bytes.len(), ty.vector_bytes(8), "{ty}");
            assert_eq!(ty.dim_of(bytes.len()), 8, "{ty}");
            let mut back = [0f32; 8];
            to_f32(&bytes, ty, &mut back);
            assert_eq!(back, components, "{ty}");
            let mut part = [0f32; 3];
            part_to_f32(&bytes, ty, 2, &mut part);
            assert_eq!(part, components[2..5], "{ty}");
            assert_eq!(find_component(&bytes, ty, |x| x == components[3]), Some(components[3]));
            assert_eq!(find_component(&bytes, ty, f32::is_nan), None, "{ty}");
        }
    }

    #[test]
    fn bits_stand_as_numpy_packs_them() {
        let mut bytes = Vec::new();
        from_f32(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], VectorType::Binary, &mut bytes);
        assert_eq!(bytes, [0x80]);
    }

    #[test]
    fn what_is_out_of_range_becomes_the_nearest_value() {
        let of = |ty| {
            let mut bytes = Vec::new();
            from_f32(&[300.0, -300.0], ty, &mut bytes);
            bytes
        };
        assert_eq!(of(VectorType::U8), [255, 0]);
        assert_eq!(of(VectorType::I8), [127, 0x80]);
    }
}
