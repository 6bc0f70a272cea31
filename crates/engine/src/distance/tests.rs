//! Every kernel level against f64 arithmetic, at awkward dimensions and alignments.

use super::*;
use crate::types::{Metric, VectorSet};

/// A small generator, so that a failure can be repeated.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 33
    }

    fn vector(&mut self, ty: VectorType, dim: usize, extreme: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..dim {
            let draw = self.next();
            match ty {
                VectorType::U8 if extreme => out.push(if draw & 1 == 0 { 0 } else { 255 }),
                VectorType::U8 => out.push(draw as u8),
                VectorType::F32 => {
                    let x = draw as f32 / (1u64 << 30) as f32 - 1.0;
                    out.extend((if extreme { x * 1e15 } else { x }).to_le_bytes());
                }
            }
        }
        out
    }
}

fn components(bytes: &[u8], ty: VectorType) -> Vec<f64> {
    match ty {
        VectorType::U8 => bytes.iter().map(|&b| f64::from(b)).collect(),
        VectorType::F32 => bytes
            .chunks_exact(4)
            .map(|c| f64::from(f32::from_le_bytes(c.try_into().expect("four bytes"))))
            .collect(),
    }
}

/// The exact result, and the sum of the magnitudes of its terms (the scale of rounding).
fn naive(op: Op, ty: VectorType, a: &[u8], b: &[u8]) -> (f64, f64) {
    let terms = components(a, ty).into_iter().zip(components(b, ty)).map(|(x, y)| match op {
        Op::SquaredL2 => (x - y) * (x - y),
        Op::Dot => x * y,
    });
    terms.fold((0.0, 0.0), |(sum, scale), t| (sum + t, scale + t.abs()))
}

fn check(
    pair: &dyn Fn(&[u8], &[u8]) -> f32,
    op: Op,
    ty: VectorType,
    a: &[u8],
    b: &[u8],
    what: &str,
) {
    let (sum, scale) = naive(op, ty, a, b);
    let got = pair(a, b);
    match ty {
        VectorType::U8 => assert_eq!(got, sum as f32, "{what}"),
        VectorType::F32 => {
            let slack = scale * 1e-5;
            assert!((f64::from(got) - sum).abs() <= slack, "{what}: {got} instead of {sum}");
        }
    }
}

const TYPES: [VectorType; 2] = [VectorType::F32, VectorType::U8];
const OPS: [Op; 2] = [Op::SquaredL2, Op::Dot];

#[test]
fn every_level_agrees_with_f64_at_every_dimension() {
    let mut draws = Draws(1);
    for dim in (1..=300).chain([384, 784, 1536]) {
        for ty in TYPES {
            for extreme in [false, true] {
                // One byte of lead makes every slice unaligned.
                let a = [vec![0], draws.vector(ty, dim, extreme)].concat();
                let b = [vec![0; 3], draws.vector(ty, dim, extreme)].concat();
                for op in OPS {
                    for level in SimdLevel::ALL {
                        let Some(kernel) = Kernel::with_level(op, ty, dim, level) else { continue };
                        let what = format!("{op:?} {ty} {dim} {level:?}");
                        check(&|a, b| kernel.eval(a, b), op, ty, &a[1..], &b[3..], &what);
                        let norm = naive(Op::Dot, ty, &a[1..], &a[1..]).0;
                        let got = f64::from(kernel.squared_norm(&a[1..]));
                        assert!((got - norm).abs() <= norm * 1e-5, "norm, {what}");
                    }
                }
            }
        }
    }
}

#[test]
fn u8_sums_do_not_overflow_in_large_dimensions() {
    for dim in [U8_BLOCK - 1, U8_BLOCK, U8_BLOCK + 1, 3 * U8_BLOCK + 77] {
        let (a, b) = (vec![255u8; dim], vec![0u8; dim]);
        for level in SimdLevel::ALL {
            for (op, b) in [(Op::SquaredL2, &b), (Op::Dot, &a)] {
                let Some(kernel) = Kernel::with_level(op, VectorType::U8, dim, level) else {
                    continue;
                };
                let exact = (dim as u64 * 255 * 255) as f32;
                assert_eq!(kernel.eval(&a, b), exact, "{op:?} {dim} {level:?}");
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn avx512_without_vnni_agrees_too() {
    if !SimdLevel::Avx512.is_available() {
        return;
    }
    let mut draws = Draws(2);
    for dim in (1..=200).chain([U8_BLOCK + 5]) {
        let a = draws.vector(VectorType::U8, dim, dim % 2 == 0);
        let b = draws.vector(VectorType::U8, dim, dim % 2 == 0);
        for op in OPS {
            let pair = avx512::pair_fn(op, VectorType::U8, false);
            // SAFETY: AVX-512 was found above, and both vectors have `dim` bytes.
            let eval = |a: &[u8], b: &[u8]| unsafe { pair(a.as_ptr(), b.as_ptr(), dim) };
            check(&eval, op, VectorType::U8, &a, &b, &format!("{op:?} {dim}"));
        }
    }
}

#[test]
fn query_distance_follows_the_metric() {
    let f = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let (q, x, zero) = (f(&[3.0, 4.0]), f(&[4.0, 3.0]), f(&[0.0, 0.0]));
    let distance = |m, q: &[u8], x: &[u8]| QueryDistance::new(m, VectorType::F32, q).distance(x);
    assert_eq!(distance(Metric::L2, &q, &x), 2.0);
    assert_eq!(distance(Metric::InnerProduct, &q, &x), -24.0);
    assert!((distance(Metric::Cosine, &q, &x) - 0.04).abs() < 1e-6);
    assert!(distance(Metric::Cosine, &q, &q).abs() < 1e-6);
    assert_eq!(distance(Metric::Cosine, &zero, &x), 1.0);
    assert_eq!(distance(Metric::Cosine, &q, &zero), 1.0);
}

#[test]
fn pair_distance_gives_every_metric_a_geometry() {
    let dim = 20;
    let mut draws = Draws(3);
    let mut bytes: Vec<u8> =
        (0..50).flat_map(|_| draws.vector(VectorType::F32, dim, false)).collect();
    bytes.extend(vec![0; dim * 4]);
    let set = VectorSet::new(&bytes, dim, VectorType::F32).expect("whole rows");
    let dot = |i: usize, j: usize| naive(Op::Dot, VectorType::F32, set.row(i), set.row(j)).0;
    let largest = (0..set.rows()).map(|i| dot(i, i)).fold(0.0, f64::max);
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let pairs = PairDistance::new(metric, set);
        for i in 0..set.rows() {
            pairs.prefetch(i);
            for j in 0..set.rows() {
                let l2 = dot(i, i) + dot(j, j) - 2.0 * dot(i, j);
                let want = match metric {
                    Metric::L2 => l2,
                    Metric::InnerProduct => {
                        l2 + ((largest - dot(i, i)).sqrt() - (largest - dot(j, j)).sqrt()).powi(2)
                    }
                    Metric::Cosine if dot(i, i) * dot(j, j) == 0.0 => 1.0,
                    Metric::Cosine => 1.0 - dot(i, j) / (dot(i, i) * dot(j, j)).sqrt(),
                };
                let got = f64::from(pairs.distance(i, j));
                assert!(got >= 0.0 && (got - want).abs() < 1e-3, "{metric} {i} {j}: {got} {want}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "another dimension")]
fn a_vector_of_another_dimension_is_refused() {
    Kernel::new(Op::Dot, VectorType::U8, 8).eval(&[0; 8], &[0; 7]);
}
