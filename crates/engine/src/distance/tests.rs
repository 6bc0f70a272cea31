//! Every kernel level against f64 arithmetic, at awkward dimensions and alignments.

use super::pair_op::BYTE_BLOCK;
use super::*;
use crate::types::{Metric, VectorSet, from_f32, to_f32};

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
                VectorType::I8 if extreme => out.push(if draw & 1 == 0 { 0x80 } else { 127 }),
                VectorType::I8 => out.push(draw as u8),
                VectorType::Binary if dim.is_multiple_of(8) && out.len() < dim / 8 => {
                    out.push(if extreme { 255 } else { draw as u8 });
                }
                VectorType::Binary => {}
                VectorType::F32 | VectorType::F16 | VectorType::BF16 => {
                    let x = draw as f32 / (1u64 << 30) as f32 - 1.0;
                    let large = if ty == VectorType::F16 { 6e4 } else { 1e15 };
                    from_f32(&[if extreme { x * large } else { x }], ty, &mut out);
                }
            }
        }
        out
    }
}

fn components(bytes: &[u8], ty: VectorType) -> Vec<f64> {
    let mut out = vec![0f32; ty.dim_of(bytes.len())];
    to_f32(bytes, ty, &mut out);
    out.into_iter().map(f64::from).collect()
}

/// The exact result, and the sum of the magnitudes of its terms (the scale of rounding).
fn naive(op: PairOp, ty: VectorType, a: &[u8], b: &[u8]) -> (f64, f64) {
    let terms = components(a, ty).into_iter().zip(components(b, ty)).map(|(x, y)| match op {
        PairOp::SquaredL2 => (x - y) * (x - y),
        PairOp::Dot => x * y,
    });
    terms.fold((0.0, 0.0), |(sum, scale), t| (sum + t, scale + t.abs()))
}

fn check(
    pair: &dyn Fn(&[u8], &[u8]) -> f32,
    op: PairOp,
    ty: VectorType,
    a: &[u8],
    b: &[u8],
    what: &str,
) {
    let (sum, scale) = naive(op, ty, a, b);
    let got = pair(a, b);
    if ty.is_float() {
        let slack = scale * 1e-5;
        assert!((f64::from(got) - sum).abs() <= slack, "{what}: {got} instead of {sum}");
    } else {
        assert_eq!(got, sum as f32, "{what}");
    }
}

const OPS: [PairOp; 2] = [PairOp::SquaredL2, PairOp::Dot];

#[test]
fn every_level_agrees_with_f64_at_every_dimension() {
    let mut draws = Draws(1);
    for dim in (1..=300).chain([384, 784, 1536]) {
        for ty in VectorType::ALL.into_iter().filter(|ty| ty.takes_dim(dim)) {
            for extreme in [false, true] {
                // One byte of lead makes every slice unaligned.
                let a = [vec![0], draws.vector(ty, dim, extreme)].concat();
                let b = [vec![0; 3], draws.vector(ty, dim, extreme)].concat();
                for op in OPS {
                    for level in SimdLevel::ALL {
                        let Some(kernel) = Kernel::with_level(op, ty, dim, level) else { continue };
                        let what = format!("{op:?} {ty} {dim} {level:?}");
                        check(&|a, b| kernel.eval(a, b), op, ty, &a[1..], &b[3..], &what);
                        let norm = naive(PairOp::Dot, ty, &a[1..], &a[1..]).0;
                        let got = f64::from(kernel.squared_norm(&a[1..]));
                        assert!((got - norm).abs() <= norm * 1e-5, "norm, {what}");
                    }
                }
            }
        }
    }
}

#[test]
fn sums_of_bytes_do_not_overflow_in_large_dimensions() {
    // Of either type the two values that are farthest apart, and the product that is largest.
    let cases =
        [(VectorType::U8, [255, 0], [255, 255]), (VectorType::I8, [0x80, 127], [0x80, 0x80])];
    for dim in [BYTE_BLOCK - 1, BYTE_BLOCK, BYTE_BLOCK + 1, 3 * BYTE_BLOCK + 77] {
        for (ty, apart, alike) in cases {
            for (op, [x, y]) in
                [(PairOp::SquaredL2, apart), (PairOp::Dot, alike), (PairOp::Dot, apart)]
            {
                let (a, b) = (vec![x; dim], vec![y; dim]);
                for level in SimdLevel::ALL {
                    let Some(kernel) = Kernel::with_level(op, ty, dim, level) else { continue };
                    let what = format!("{op:?} {ty} {dim} {level:?}");
                    check(&|a, b| kernel.eval(a, b), op, ty, &a, &b, &what);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn avx512_without_its_extensions_agrees_too() {
    if !SimdLevel::Avx512.is_available() {
        return;
    }
    let plain = avx512::Extensions { vnni: false, vpopcntdq: false };
    let mut draws = Draws(2);
    for ty in [VectorType::U8, VectorType::I8, VectorType::Binary] {
        for dim in (1..=200).chain([BYTE_BLOCK + 8]).filter(|&dim| ty.takes_dim(dim)) {
            let a = draws.vector(ty, dim, dim % 3 == 0);
            let b = draws.vector(ty, dim, dim % 2 == 0);
            for op in OPS {
                let pair = avx512::pair_fn(op, ty, plain);
                // SAFETY: AVX-512 was found above, and both vectors have `dim` components.
                let eval = |a: &[u8], b: &[u8]| unsafe { pair(a.as_ptr(), b.as_ptr(), dim) };
                check(&eval, op, ty, &a, &b, &format!("{op:?} {ty} {dim}"));
            }
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
fn binary_distances_count_bits() {
    let distance = |m, q: &[u8], x: &[u8]| QueryDistance::new(m, VectorType::Binary, q).distance(x);
    let (q, x, zero) = ([0b1111_0000, 1], [0b1100_0011, 0], [0, 0]);
    assert_eq!(distance(Metric::Hamming, &q, &x), 5.0);
    assert_eq!(distance(Metric::Jaccard, &q, &x), 1.0 - 2.0 / 7.0);
    assert_eq!(distance(Metric::Jaccard, &q, &q), 0.0);
    assert_eq!(distance(Metric::Jaccard, &q, &zero), 1.0);
    assert_eq!(distance(Metric::Jaccard, &zero, &zero), 1.0);
    let bytes = [q, x, zero].concat();
    let set = VectorSet::new(&bytes, 16, VectorType::Binary).expect("whole rows");
    for metric in [Metric::Hamming, Metric::Jaccard] {
        let pairs = PairDistance::new(metric, set);
        for (i, j) in [(0, 1), (1, 0), (0, 2), (2, 2), (1, 1)] {
            let want = distance(metric, set.row(i), set.row(j));
            assert_eq!(pairs.distance(i, j), want, "{metric} {i} {j}");
        }
    }
}

#[test]
fn pair_distance_gives_every_metric_a_geometry() {
    let dim = 20;
    let mut draws = Draws(3);
    let mut bytes: Vec<u8> =
        (0..50).flat_map(|_| draws.vector(VectorType::F32, dim, false)).collect();
    bytes.extend(vec![0; dim * 4]);
    let set = VectorSet::new(&bytes, dim, VectorType::F32).expect("whole rows");
    let dot = |i: usize, j: usize| naive(PairOp::Dot, VectorType::F32, set.row(i), set.row(j)).0;
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
                    Metric::Hamming | Metric::Jaccard => {
                        unreachable!("not among the metrics above")
                    }
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
    Kernel::new(PairOp::Dot, VectorType::U8, 8).eval(&[0; 8], &[0; 7]);
}
