//! RaBitQ codes and their kernels against plain arithmetic.

use super::rabitq::Rabitq;
use super::tests::{clustered, encode_all, estimates};
use super::*;
use crate::distance::QueryDistance;
use crate::types::{Metric, VectorSet, VectorType, from_f32};

fn options(dim: usize, bits: usize) -> CodeOptions {
    let (least, _) = CodeKind::Rabitq.code_bytes_range(dim);
    let code_bytes = least + (bits - 1) * dim.div_ceil(8);
    CodeOptions { kind: CodeKind::Rabitq, code_bytes, seed: 5, ..CodeOptions::for_dim(dim) }
}

/// Rows of `ty` around zero.
fn rows(count: usize, dim: usize, ty: VectorType) -> Vec<u8> {
    let values: Vec<f32> = clustered(count, dim, 3).iter().map(|&x| f32::from(x) - 110.0).collect();
    let mut bytes = Vec::new();
    from_f32(&values, ty, &mut bytes);
    bytes
}

fn norm(x: &[f32]) -> f64 {
    x.iter().map(|&x| f64::from(x) * f64::from(x)).sum()
}

fn product(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
}

/// What the estimate of a query and a row should be, from what the row's code stands for.
fn expected(book: &Codebook, mean: &[f32], query: &[f32], row: &[f32], code: &[u8]) -> f64 {
    let mut decoded = vec![0.0; book.dim()];
    book.decode(code, &mut decoded);
    let without = |x: &[f32]| -> Vec<f32> { x.iter().zip(mean).map(|(x, m)| x - m).collect() };
    match book.metric() {
        Metric::L2 | Metric::Hamming => {
            let (query, row, decoded) = (without(query), without(row), without(&decoded));
            norm(&query) + norm(&row) - 2.0 * product(&query, &decoded)
        }
        Metric::InnerProduct => -product(query, &decoded),
        Metric::Cosine => 1.0 - product(query, &decoded),
        Metric::Jaccard => {
            let cosine = product(query, &decoded).clamp(0.0, 1.0);
            1.0 - cosine / (2.0 - cosine)
        }
    }
}

#[test]
fn estimates_are_those_of_what_codes_stand_for_by_every_kernel() {
    let ids: Vec<u32> = (0..300).rev().collect();
    for (dim, ty) in [
        (128, VectorType::U8),
        (384, VectorType::F32),
        (100, VectorType::F32),
        (3, VectorType::F32),
        (72, VectorType::I8),
        (256, VectorType::Binary),
    ] {
        let bytes = rows(300, dim, ty);
        let set = VectorSet::new(&bytes, dim, ty).expect("whole rows");
        for metric in Metric::ALL.into_iter().filter(|&metric| ty.takes_metric(metric)) {
            for bits in 1..=8 {
                let book = Codebook::train(set, metric, &options(dim, bits));
                assert_eq!((book.kind(), book.bits()), (CodeKind::Rabitq, Some(bits)));
                let codes = encode_all(&book, set);
                let codebook::Coder::Rabitq(rabitq) = book.coder() else { panic!("other codes") };
                let (mut query, mut row) = (vec![0.0; dim], vec![0.0; dim]);
                load::load(set.row(0), ty, metric, &mut query);
                let mut found: Option<Vec<f32>> = None;
                for kernel in CodeKernel::ALL {
                    let Some(mut table) = LookupTable::with_kernel(&book, kernel) else { continue };
                    table.fill(&book, set.row(0), ty);
                    let got = estimates(&table, &codes, &ids);
                    assert_eq!(
                        &got,
                        found.get_or_insert(got.clone()),
                        "{kernel:?} {metric} {bits}"
                    );
                }
                let found = found.expect("the portable kernel runs anywhere");
                let scale = norm(&query) + norm(&rabitq.mean) + 1e-3;
                for (&id, &got) in ids.iter().zip(&found) {
                    load::load(set.row(id as usize), ty, metric, &mut row);
                    let code = &codes[id as usize * book.code_bytes()..][..book.code_bytes()];
                    let want = expected(&book, &rabitq.mean, &query, &row, code);
                    let off = (f64::from(got) - want).abs();
                    let slack = 2e-3 * (scale + norm(&row));
                    assert!(off <= slack, "{ty}x{dim} {metric} {bits} bits, {id}: {got} {want}");
                }
            }
        }
    }
}

#[test]
fn estimates_are_free_of_bias_and_each_bit_nearly_halves_their_error() {
    let (dim, ty) = (128, VectorType::F32);
    let bytes = rows(2_000, dim, ty);
    let set = VectorSet::new(&bytes, dim, ty).expect("whole rows");
    let ids: Vec<u32> = (0..2_000).collect();
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let mut before = f64::INFINITY;
        for bits in 1..=7 {
            let book = Codebook::train(set, metric, &options(dim, bits));
            let codes = encode_all(&book, set);
            let mut table = LookupTable::new(&book);
            let (mut sum, mut squares) = (0.0, 0.0);
            for query in (0..2_000).step_by(97) {
                table.fill(&book, set.row(query), ty);
                let exact = QueryDistance::new(metric, ty, set.row(query));
                for (&id, got) in ids.iter().zip(estimates(&table, &codes, &ids)) {
                    let off = f64::from(got - exact.distance(set.row(id as usize)));
                    sum += off;
                    squares += off * off;
                }
            }
            let count = 21.0 * 2_000.0;
            let deviation = (squares / count).sqrt();
            assert!((sum / count).abs() < 0.1 * deviation, "{metric} {bits}: {sum} {deviation}");
            assert!(deviation < 0.65 * before, "{metric} {bits}: {deviation} after {before}");
            before = deviation;
        }
    }
}

#[test]
fn codes_point_where_the_best_codes_would() {
    let (dim, bits) = (24, 3);
    let bytes = rows(200, dim, VectorType::F32);
    let set = VectorSet::new(&bytes, dim, VectorType::F32).expect("whole rows");
    let rabitq = Rabitq::new(bits, vec![0.0; dim], 9);
    let (mut row, mut decoded) = (vec![0.0; dim], vec![0.0; dim]);
    let mut code = vec![0; rabitq.code_bytes()];
    let cosine = |x: &[f32], y: &[f32]| product(x, y) / (norm(x) * norm(y)).sqrt();
    let (mut ours, mut best) = (0.0, 0.0);
    for i in 0..200 {
        set.row_f32(i, &mut row);
        rabitq.encode_rows(&row, &mut code);
        rabitq.decode(&code, &mut decoded);
        ours += 1.0 - cosine(&row, &decoded);
        let mut turned = vec![0.0; dim];
        rabitq.turned(&row, &mut turned);
        let most = turned.iter().fold(0f32, |most, x| most.max(x.abs()));
        // Every distance between values, in fine steps.
        let loss = (1..2_000).map(|i| {
            let inverse = i as f32 * 0.004 / most;
            let value = |x: &f32| (x * inverse + 3.5).round().clamp(0.0, 7.0) - 3.5;
            1.0 - cosine(&turned, &turned.iter().map(value).collect::<Vec<_>>())
        });
        best += loss.fold(f64::INFINITY, f64::min);
    }
    assert!(ours < 1.1 * best, "{ours} where {best} is possible");
}

#[test]
fn senseless_vectors_do_no_harm() {
    let (dim, ty) = (16, VectorType::F32);
    let bytes = rows(300, dim, ty);
    let set = VectorSet::new(&bytes, dim, ty).expect("whole rows");
    let ids: Vec<u32> = (0..300).collect();
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let book = Codebook::train(set, metric, &options(dim, 4));
        let codes = encode_all(&book, set);
        for value in [0.0, 1e30, f32::NAN, f32::INFINITY] {
            let query: Vec<u8> = [value; 16].map(f32::to_le_bytes).concat();
            for kernel in CodeKernel::ALL {
                let Some(mut table) = LookupTable::with_kernel(&book, kernel) else { continue };
                table.fill(&book, &query, ty);
                let got = estimates(&table, &codes, &ids);
                if metric == Metric::Cosine && value == 0.0 {
                    assert!(got.iter().all(|&d| d == 1.0), "{kernel:?}");
                }
            }
        }
        for value in [f32::NAN, f32::INFINITY, 0.0] {
            let same = [value; 16 * 10].map(f32::to_le_bytes).concat();
            let set = VectorSet::new(&same, dim, ty).expect("whole rows");
            let book = Codebook::train(set, metric, &options(dim, 4));
            assert!(Codebook::from_bytes(&book.to_bytes()).is_ok(), "{value}");
            encode_all(&book, set);
        }
    }
    let empty = VectorSet::new(&[], dim, ty).expect("no rows");
    assert_eq!(Codebook::train(empty, Metric::L2, &options(dim, 4)).training_error(), None);
}

#[test]
fn a_codebook_of_means_is_read_back_or_refused() {
    let bytes = rows(300, 20, VectorType::F32);
    let set = VectorSet::new(&bytes, 20, VectorType::F32).expect("whole rows");
    let book = Codebook::train(set, Metric::Cosine, &options(20, 3)).with_version(4);
    let bytes = book.to_bytes();
    assert_eq!(Codebook::from_bytes(&bytes), Ok(book.clone()));
    assert_eq!(book.code_bytes(), 8 + 3 * 3);
    for length in 0..bytes.len() {
        assert!(Codebook::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
    let with = |at: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        Codebook::from_bytes(&bytes)
    };
    let bits = |bits, dim, code_bytes| Err(CodebookError::Bits { bits, dim, code_bytes });
    assert_eq!(with(4, &[4, 0]), Err(CodebookError::Layout { found: 4 }));
    assert!(matches!(with(4, &[2, 0]), Err(CodebookError::Length { .. })));
    assert!(matches!(with(8, &[0xff; 4]), Err(CodebookError::Length { .. })));
    assert_eq!(with(12, &[18, 0]), bits(3, 20, 18));
    assert_eq!(with(24, &[0, 0]), bits(0, 20, 17));
    assert_eq!(with(24, &[9, 0]), bits(9, 20, 17));
    assert_eq!(with(31, &[1]), Err(CodebookError::Reserved { found: 1 }));
    assert_eq!(with(40, &f32::NAN.to_le_bytes()), Err(CodebookError::NotFinite));
    assert_ne!(with(32, &[9]), Ok(book), "another seed is another rotation");
}

#[test]
fn a_mean_that_moved_shows_in_the_error() {
    let near = rows(2_000, 32, VectorType::F32);
    let far: Vec<u8> = near
        .as_chunks::<4>()
        .0
        .iter()
        .flat_map(|&x| (f32::from_le_bytes(x) + 200.0).to_le_bytes())
        .collect();
    let set = |bytes| VectorSet::new(bytes, 32, VectorType::F32).expect("whole rows");
    let book = Codebook::train(set(&near), Metric::L2, &options(32, 4));
    let trained = book.training_error().expect("there were rows");
    assert!(book.error(set(&far), 500).expect("there are rows") > 4.0 * trained);
    let again = Codebook::train(set(&far), Metric::L2, &book.options(5));
    let error = again.training_error().expect("there were rows");
    assert!((error / trained - 1.0).abs() < 0.1, "{trained}, then {error}");
    assert_eq!(again.code_bytes(), book.code_bytes());
}

#[test]
fn lengths_of_codes_by_kind() {
    let longest = |kind: CodeKind, dim, bytes| kind.longest_within(dim, bytes);
    assert_eq!(longest(CodeKind::Product, 128, 72), Some(72));
    assert_eq!(longest(CodeKind::Product, 20, 72), Some(20));
    assert_eq!(longest(CodeKind::Product, 20, 0), None);
    assert_eq!(longest(CodeKind::Rabitq, 128, 72), Some(72));
    assert_eq!(longest(CodeKind::Rabitq, 128, 71), Some(56));
    assert_eq!(longest(CodeKind::Rabitq, 128, 1000), Some(136));
    assert_eq!(longest(CodeKind::Rabitq, 128, 23), None);
    assert_eq!(CodeKind::Rabitq.code_bytes_range(100), (21, 112));
    assert_eq!("rabitq".parse(), Ok(CodeKind::Rabitq));
    assert_eq!("PQ".parse::<CodeKind>(), Err(UnknownCodeKind("PQ".into())));
}
