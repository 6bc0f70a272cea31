//! Codebooks and code kernels against plain arithmetic.

use super::subspace::SubspaceKernel;
use super::*;
use crate::distance::{QueryDistance, SimdLevel};
use crate::types::{Metric, VectorSet, VectorType};

const METRICS: [Metric; 3] = [Metric::L2, Metric::InnerProduct, Metric::Cosine];

/// Uniform draws, from a seed.
fn draws(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

/// Rows around a few dozen centres, as u8 components.
pub(super) fn clustered(rows: usize, dim: usize, seed: u64) -> Vec<u8> {
    let mut next = draws(seed);
    let centres: Vec<u8> = (0..40 * dim).map(|_| (next() % 200) as u8).collect();
    (0..rows)
        .flat_map(|_| {
            let c = next() as usize % 40;
            let row: Vec<u8> =
                centres[c * dim..][..dim].iter().map(|&x| x + (next() % 50) as u8).collect();
            row
        })
        .collect()
}

fn as_f32_bytes(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|&b| (f32::from(b) - 100.0).to_le_bytes()).collect()
}

pub(super) fn options(code_bytes: usize) -> CodeOptions {
    let kind = CodeKind::Product;
    CodeOptions { kind, code_bytes, any_scale: false, training_rows: 4000, iterations: 8, seed: 7 }
}

pub(super) fn encode_all(book: &Codebook, set: VectorSet<'_>) -> Vec<u8> {
    let mut codes = vec![0; set.rows() * book.code_bytes()];
    book.encode_all(set, &mut codes);
    codes
}

/// Mean squared distance between rows and what their codes stand for.
pub(super) fn loss(book: &Codebook, set: VectorSet<'_>) -> f64 {
    let codes = encode_all(book, set);
    let (mut row, mut decoded) = (vec![0.0; set.dim()], vec![0.0; set.dim()]);
    let mut total = 0.0;
    for (i, code) in codes.chunks_exact(book.code_bytes()).enumerate() {
        set.row_f32(i, &mut row);
        book.decode(code, &mut decoded);
        total += row.iter().zip(&decoded).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>();
    }
    total / set.rows() as f64
}

#[test]
fn longer_codes_and_more_iterations_lose_less() {
    let bytes = clustered(6000, 32, 1);
    let set = VectorSet::new(&bytes, 32, VectorType::U8).expect("whole rows");
    let losses: Vec<f64> = [1, 4, 16, 32]
        .iter()
        .map(|&m| loss(&Codebook::train(set, Metric::L2, &options(m)), set))
        .collect();
    assert!(losses.windows(2).all(|w| w[1] < w[0]), "{losses:?}");
    let after = |iterations| {
        loss(&Codebook::train(set, Metric::L2, &CodeOptions { iterations, ..options(8) }), set)
    };
    let losses = [after(0), after(1), after(12)];
    assert!(losses.windows(2).all(|w| w[1] < w[0]), "{losses:?}");
}

#[test]
fn training_repeats_with_the_seed_and_encoding_agrees_with_itself() {
    let bytes = clustered(1000, 24, 2);
    let set = VectorSet::new(&bytes, 24, VectorType::U8).expect("whole rows");
    for metric in METRICS {
        let book = Codebook::train(set, metric, &options(7));
        assert_eq!(book, Codebook::train(set, metric, &options(7)));
        assert_ne!(book, Codebook::train(set, metric, &CodeOptions { seed: 8, ..options(7) }));
        let codes = encode_all(&book, set);
        let mut one = [0; 7];
        for i in [0, 1, 500, 999] {
            book.encode(set.row(i), VectorType::U8, &mut one);
            assert_eq!(one, codes[i * 7..][..7], "{metric} row {i}");
        }
    }
}

#[test]
fn small_sets_are_represented_exactly() {
    for rows in [1, 2, 3, 100, 255] {
        let bytes = clustered(rows, 10, 3);
        let set = VectorSet::new(&bytes, 10, VectorType::U8).expect("whole rows");
        let book = Codebook::train(set, Metric::L2, &options(3));
        assert!(loss(&book, set) < 1e-6, "{rows} rows");
    }
    let equal = [9u8; 10 * 500];
    let set = VectorSet::new(&equal, 10, VectorType::U8).expect("whole rows");
    for metric in METRICS {
        let book = Codebook::train(set, metric, &options(10));
        assert!(encode_all(&book, set).iter().all(|&c| c == 0), "{metric}");
    }
    let empty = VectorSet::new(&[], 10, VectorType::U8).expect("no rows");
    let book = Codebook::train(empty, Metric::L2, &options(4));
    assert!(book.centroids().iter().all(|&c| c == 0.0));
    assert_eq!(Codebook::train(empty, Metric::L2, &options(99)).code_bytes(), 10);
}

#[test]
fn subspace_kernels_agree_with_plain_loops() {
    let mut next = draws(4);
    for width in 1..=17 {
        let mut values = |n: usize| -> Vec<f32> { (0..n).map(|_| (next() % 511) as f32).collect() };
        let (centroids, x) = (values(width * CENTROIDS), values(width));
        let exact = |c: usize, term: fn(f32, f32) -> f32| -> f32 {
            (0..width).map(|k| term(x[k], centroids[k * CENTROIDS + c])).sum()
        };
        for level in SimdLevel::ALL {
            let Some(kernel) = SubspaceKernel::with_level(level) else { continue };
            let (mut l2, mut dot) = ([0.0; CENTROIDS], [0.0; CENTROIDS]);
            kernel.squared_l2(&centroids, &x, &mut l2);
            kernel.negated_dot(&centroids, &x, &mut dot);
            // Small integers: every level computes them without rounding.
            for c in 0..CENTROIDS {
                assert_eq!(l2[c], exact(c, |x, y| (x - y) * (x - y)), "{level:?} {width}");
                assert_eq!(dot[c], exact(c, |x, y| -x * y), "{level:?} {width}");
            }
            let least = l2.iter().copied().fold(f32::INFINITY, f32::min);
            let first = l2.iter().position(|&d| d == least).expect("one is the least");
            assert_eq!(kernel.nearest(&centroids, &x), (first as u8, least), "{level:?} {width}");
        }
    }
}

/// Estimates of one kernel, for all rows in the given order.
pub(super) fn estimates(table: &LookupTable, codes: &[u8], ids: &[u32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; ids.len()];
    score_many(table, CodesView::from_slice(codes, table.code_bytes()), ids, &mut out);
    out
}

#[test]
fn estimates_are_the_distance_to_what_codes_stand_for() {
    for (dim, m) in [(128, 32), (33, 7), (5, 5), (20, 1), (100, 44), (70, 64), (300, 131)] {
        let raw = clustered(700, dim, 5);
        for ty in [VectorType::U8, VectorType::F32] {
            let bytes = if ty == VectorType::U8 { raw.clone() } else { as_f32_bytes(&raw) };
            let set = VectorSet::new(&bytes, dim, ty).expect("whole rows");
            for metric in METRICS {
                let book = Codebook::train(
                    set,
                    metric,
                    &CodeOptions { training_rows: 300, iterations: 2, ..options(m) },
                );
                let codes = encode_all(&book, set);
                let mut next = draws(6);
                let ids: Vec<u32> = (0..333).map(|_| (next() % 700) as u32).collect();
                check_estimates(&book, set, &codes, &ids);
            }
        }
    }
}

pub(super) fn check_estimates(book: &Codebook, set: VectorSet<'_>, codes: &[u8], ids: &[u32]) {
    let (metric, ty) = (book.metric(), set.vector_type());
    let mut query = vec![0.0; book.dim()];
    load::load(set.row(0), ty, metric, &mut query);
    let mut decoded = vec![0.0; book.dim()];
    let exact: Vec<f64> = ids
        .iter()
        .map(|&id| {
            book.decode(
                &codes[id as usize * book.code_bytes()..][..book.code_bytes()],
                &mut decoded,
            );
            let pairs = query.iter().zip(&decoded).map(|(&x, &y)| (f64::from(x), f64::from(y)));
            match metric {
                Metric::L2 | Metric::Hamming => pairs.map(|(x, y)| (x - y) * (x - y)).sum(),
                Metric::InnerProduct => -pairs.map(|(x, y)| x * y).sum::<f64>(),
                Metric::Cosine => 1.0 - pairs.map(|(x, y)| x * y).sum::<f64>(),
                Metric::Jaccard => {
                    let cosine = pairs.map(|(x, y)| x * y).sum::<f64>().clamp(0.0, 1.0);
                    1.0 - cosine / (2.0 - cosine)
                }
            }
        })
        .collect();
    for kernel in CodeKernel::ALL {
        let Some(mut table) = LookupTable::with_kernel(book, kernel) else { continue };
        table.fill(book, set.row(0), ty);
        let lookup::Form::Product(parts) = &table.form else { panic!("codes of another kind") };
        let range: f64 = parts
            .parts
            .iter()
            .map(|p| {
                f64::from(
                    p.0.iter().copied().fold(f32::MIN, f32::max)
                        - p.0.iter().copied().fold(f32::MAX, f32::min),
                )
            })
            .sum();
        let magnitude: f64 =
            parts.parts.iter().flat_map(|p| p.0).map(|p| f64::from(p.abs())).sum::<f64>() / 256.0;
        // At worst every part is off by half a step of the 16-bit tables.
        let coarse =
            if parts.split.is_empty() { 0.0 } else { 0.5 * book.code_bytes() as f64 / 65_000.0 };
        // From the cosine to Jaccard, differences at most double.
        let stretch = if metric == Metric::Jaccard { 2.0 } else { 1.0 };
        let slack = stretch * (range * coarse + magnitude * 1e-5 + 1e-6);
        // All lengths of a batch, so that every rest occurs.
        for count in (0..140).chain([255, 256, 257, 333]) {
            let got = estimates(&table, codes, &ids[..count]);
            for ((got, want), id) in got.iter().zip(&exact).zip(ids) {
                assert!(
                    (f64::from(*got) - want).abs() <= slack,
                    "{kernel:?} {metric} {ty} dim {} m {} id {id} of {count}: {got} {want} {slack}",
                    book.dim(),
                    book.code_bytes(),
                );
            }
        }
    }
}

#[test]
fn estimates_are_on_the_scale_of_exact_distances() {
    let bytes = clustered(2000, 64, 8);
    let set = VectorSet::new(&bytes, 64, VectorType::U8).expect("whole rows");
    for metric in METRICS {
        let book = Codebook::train(set, metric, &options(32));
        let codes = encode_all(&book, set);
        let mut table = LookupTable::new(&book);
        table.fill(&book, set.row(0), VectorType::U8);
        let ids: Vec<u32> = (0..2000).collect();
        let exact = QueryDistance::new(metric, VectorType::U8, set.row(0));
        let (mut off, mut mean, mut spread) = (0.0, 0.0, 0.0);
        let distances: Vec<f64> =
            ids.iter().map(|&id| f64::from(exact.distance(set.row(id as usize)))).collect();
        for d in &distances {
            mean += d / 2000.0;
        }
        for (d, e) in distances.iter().zip(estimates(&table, &codes, &ids)) {
            spread += (d - mean).abs() / 2000.0;
            off += (d - f64::from(e)).abs() / 2000.0;
        }
        assert!(off < spread * 0.15, "{metric}: off by {off} of a spread of {spread}");
    }
}

#[test]
fn sixteen_bit_tables_lose_next_to_nothing() {
    let bytes = clustered(3000, 128, 9);
    let set = VectorSet::new(&bytes, 128, VectorType::U8).expect("whole rows");
    let book = Codebook::train(set, Metric::L2, &options(32));
    let codes = encode_all(&book, set);
    let ids: Vec<u32> = (0..3000).collect();
    let score = |kernel| {
        let mut table = LookupTable::with_kernel(&book, kernel)?;
        table.fill(&book, set.row(1), VectorType::U8);
        Some(estimates(&table, &codes, &ids))
    };
    let Some(coarse) = score(CodeKernel::Avx512Vbmi) else { return };
    let exact = score(CodeKernel::Scalar).expect("runs anywhere");
    let mean = exact.iter().sum::<f32>() / 3000.0;
    let off = exact.iter().zip(&coarse).map(|(x, y)| (x - y).abs()).sum::<f32>() / 3000.0;
    assert!(off < mean * 1e-4, "off by {off} of {mean}");
}

#[test]
fn an_estimate_does_not_depend_on_its_company() {
    let bytes = clustered(500, 40, 12);
    let set = VectorSet::new(&bytes, 40, VectorType::U8).expect("whole rows");
    let book = Codebook::train(set, Metric::L2, &options(13));
    let codes = encode_all(&book, set);
    let ids: Vec<u32> = (0..500).collect();
    for kernel in CodeKernel::ALL {
        let Some(mut table) = LookupTable::with_kernel(&book, kernel) else { continue };
        table.fill(&book, set.row(2), VectorType::U8);
        let all = estimates(&table, &codes, &ids);
        for size in [1, 2, 5, 9, 30, 64, 70] {
            for (ids, all) in ids.chunks(size).zip(all.chunks(size)) {
                assert_eq!(estimates(&table, &codes, ids), all, "{kernel:?} {size}");
            }
        }
    }
}

#[test]
fn extreme_and_senseless_queries_do_no_harm() {
    let bytes = as_f32_bytes(&clustered(300, 16, 10));
    let set = VectorSet::new(&bytes, 16, VectorType::F32).expect("whole rows");
    for metric in METRICS {
        let book = Codebook::train(set, metric, &options(8));
        let codes = encode_all(&book, set);
        let ids: Vec<u32> = (0..100).collect();
        for value in [0.0, 1e30, f32::NAN, f32::INFINITY] {
            let query: Vec<u8> = (0..16).flat_map(|_| value.to_le_bytes()).collect();
            for kernel in CodeKernel::ALL {
                let Some(mut table) = LookupTable::with_kernel(&book, kernel) else { continue };
                table.fill(&book, &query, VectorType::F32);
                let got = estimates(&table, &codes, &ids);
                if metric == Metric::Cosine && value == 0.0 {
                    assert!(got.iter().all(|&d| d == 1.0), "{kernel:?}");
                }
            }
        }
        let nan = [f32::NAN; 16 * 10].map(f32::to_le_bytes).concat();
        let set = VectorSet::new(&nan, 16, VectorType::F32).expect("whole rows");
        encode_all(&Codebook::train(set, metric, &options(8)), set);
    }
}

#[test]
fn codebook_bytes_are_read_back_or_refused() {
    let raw = clustered(300, 9, 11);
    let set = VectorSet::new(&raw, 9, VectorType::U8).expect("whole rows");
    let book = Codebook::train(set, Metric::Cosine, &options(4)).with_version(3);
    let bytes = book.to_bytes();
    assert_eq!(Codebook::from_bytes(&bytes), Ok(book));
    for length in 0..bytes.len() {
        assert!(Codebook::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
    let with = |at: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        Codebook::from_bytes(&bytes)
    };
    assert!(matches!(with(0, b"x"), Err(CodebookError::Magic { .. })));
    assert_eq!(with(4, &[9, 0]), Err(CodebookError::Layout { found: 9 }));
    assert_eq!(with(6, &[9, 0]), Err(CodebookError::Metric { found: 9 }));
    assert!(matches!(with(8, &[0xff; 4]), Err(CodebookError::Length { .. })));
    assert!(matches!(with(8, &[0; 4]), Err(CodebookError::Length { .. })));
    assert_eq!(with(12, &[0; 4]), Err(CodebookError::Shape { dim: 9, code_bytes: 0 }));
    assert_eq!(with(12, &[10, 0, 0, 0]), Err(CodebookError::Shape { dim: 9, code_bytes: 10 }));
    assert_eq!(with(20, &f32::INFINITY.to_le_bytes()), Err(CodebookError::NotFinite));
    let unknown = with(20, &[0xff; 4]).expect("an error need not be known");
    assert_eq!((unknown.training_error(), unknown.version()), (None, 3));
    // Layout 1 had no error.
    let mut before = bytes.clone();
    before[4..6].copy_from_slice(&[1, 0]);
    before[20..24].copy_from_slice(&[0; 4]);
    assert_eq!(Codebook::from_bytes(&before), Ok(unknown));
    before[20] = 1;
    assert_eq!(Codebook::from_bytes(&before), Err(CodebookError::Reserved { found: 1 }));
    assert_eq!(with(24, &f32::NAN.to_le_bytes()), Err(CodebookError::NotFinite));
    let parts = Codebook::from_parts(9, 4, Metric::L2, 1, vec![0.0; 8]);
    assert_eq!(parts, Err(CodebookError::Centroids { dim: 9, found: 8 }));
}

#[test]
fn the_error_tells_rows_that_the_codebook_was_not_trained_for() {
    let (near, far) = (clustered(2_000, 16, 1), clustered(2_000, 16, 77));
    fn set(raw: &[u8]) -> VectorSet<'_> {
        VectorSet::new(raw, 16, VectorType::U8).expect("whole rows")
    }
    let book = Codebook::train(set(&near), Metric::L2, &options(4));
    let trained = book.training_error().expect("there were rows");
    let again = book.error(set(&near), 500).expect("there are rows");
    assert!((again / trained - 1.0).abs() < 0.2, "{trained}, then {again}");
    assert!(book.error(set(&far), 500).expect("there are rows") > 2.0 * trained);
    assert_eq!(book.error(set(&[]), 500), None);
    assert!(book.spread(set(&near), 500) > 5.0 * trained, "codes tell rows apart");
    assert_eq!(book.spread(set(&[7; 64]), 500), 0.0);
}

#[test]
fn code_length_grows_with_the_dimension() {
    let chosen = [1, 20, 32, 128, 256, 384, 784, 1536].map(default_code_bytes);
    assert_eq!(chosen, [1, 20, 32, 32, 32, 48, 96, 192]);
}

#[test]
#[should_panic(expected = "id 3 of 3 codes")]
fn an_id_beyond_the_codes_is_refused() {
    let book = Codebook::from_parts(2, 2, Metric::L2, 1, vec![0.0; 512]).expect("fits");
    estimates(&LookupTable::new(&book), &[0; 6], &[0, 3]);
}
