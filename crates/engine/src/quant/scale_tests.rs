//! Rows of every length: which codes reach them, and which are made where others would not.

use super::draws::Draws;
use super::scale::most_lost;
use super::tests::{encode_all, options};
use super::{CodeKind, CodeOptions, Codebook, LookupTable, score_many};
use crate::distance::QueryDistance;
use crate::types::{Metric, VectorSet, VectorType};

const DIM: usize = 32;
const ROWS: usize = 2_000;

/// Rows in all directions, of which each has the norm that `norm` gives it.
fn rows(norm: impl Fn(usize) -> f64) -> Vec<u8> {
    let mut draws = Draws::new(3);
    let mut bytes = Vec::new();
    for row in 0..ROWS {
        let parts: Vec<f64> =
            (0..DIM).map(|_| (draws.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0).collect();
        let length = parts.iter().map(|x| x * x).sum::<f64>().sqrt();
        bytes.extend(parts.iter().flat_map(|x| ((x / length * norm(row)) as f32).to_le_bytes()));
    }
    bytes
}

fn set(bytes: &[u8]) -> VectorSet<'_> {
    VectorSet::new(bytes, DIM, VectorType::F32).unwrap()
}

fn trained(bytes: &[u8], metric: Metric, any_scale: bool) -> Codebook {
    let options = CodeOptions { any_scale, ..options(16) };
    Codebook::train(set(bytes), metric, &options)
}

#[test]
fn product_codes_reach_what_is_some_times_longer_than_their_training() {
    let alike = rows(|_| 2.0);
    for metric in [Metric::L2, Metric::InnerProduct] {
        let book = trained(&alike, metric, false);
        let reach = book.squared_reach().unwrap().sqrt();
        assert!(reach > 16.0 && reach < 16.0 * 4.0, "{metric}: {reach}");
        assert!(book.reaches(20.0 * 20.0) && !book.reaches(100.0 * 100.0), "{metric}");
    }
    assert!(trained(&alike, Metric::Cosine, false).reaches(1e30), "lengths are left out");
    assert!(trained(&alike, Metric::L2, true).reaches(1e38));
}

#[test]
fn short_rows_are_lost_among_long_ones() {
    // Most have norm 1,000; every fourth has norm 1.
    let mixed = rows(|row| if row % 4 == 0 { 1.0 } else { 1_000.0 });
    let lost = |metric, any_scale| trained(&mixed, metric, any_scale).count_lost(set(&mixed));
    for metric in [Metric::L2, Metric::InnerProduct] {
        assert_eq!(lost(metric, false), ROWS as u64 / 4, "{metric}");
        assert_eq!(lost(metric, true), 0, "{metric}");
    }
    assert_eq!(lost(Metric::Cosine, false), 0);
    // One that is far longer than all others spans the tables alone.
    let one = rows(|row| if row == 77 { 1_000.0 } else { 1.0 });
    assert_eq!(trained(&one, Metric::L2, false).count_lost(set(&one)), ROWS as u64 - 1);
    let hardly = rows(|row| 1.0 + (row % 20) as f64);
    let book = trained(&hardly, Metric::L2, false);
    assert_eq!(book.count_lost(set(&hardly)), 0);
    assert!(!book.loses(0.0), "a zero vector is where it is");
    assert_eq!((most_lost(100), most_lost(1_000_000)), (32, 244));
}

#[test]
fn rows_beyond_all_codes_are_lost_where_they_are_far_beyond() {
    let alike = rows(|_| 2.0);
    for metric in [Metric::L2, Metric::InnerProduct] {
        let book = trained(&alike, metric, false);
        let longest = book.squared_reach().unwrap().sqrt() / 16.0;
        let is = |length: f64| {
            let squared_norm = (length * longest).powi(2);
            (book.is_beyond(squared_norm), book.loses(squared_norm))
        };
        assert_eq!((is(0.9), is(1.1), is(2.1)), ((false, false), (true, false), (true, true)));
    }
    assert!(!trained(&alike, Metric::Cosine, false).loses(1e30), "lengths are left out");
    assert!(!trained(&alike, Metric::L2, true).is_beyond(1e30));
}

#[test]
fn codes_of_any_scale_rank_rows_of_all_lengths() {
    let mixed = rows(|row| 10f64.powi((row % 19) as i32));
    for metric in [Metric::L2, Metric::InnerProduct] {
        let book = trained(&mixed, metric, true);
        assert!(book.is_any_scale() && book.kind() == CodeKind::Rabitq);
        let codes = encode_all(&book, set(&mixed));
        let view = super::CodesView::from_slice(&codes, book.code_bytes());
        let (mut table, ids) = (LookupTable::new(&book), Vec::from_iter(0..ROWS as u32));
        let mut scores = vec![0.0; ROWS];
        for query in (0..ROWS).step_by(37) {
            let vector = set(&mixed).row(query);
            table.fill(&book, vector, VectorType::F32);
            score_many(&table, view, &ids, &mut scores);
            assert!(scores.iter().all(|score| !score.is_nan()), "{metric}: {query}");
            let exact = QueryDistance::new(metric, VectorType::F32, vector);
            let nearest = |far: &dyn Fn(usize) -> f32| {
                let mut order: Vec<usize> = (0..ROWS).collect();
                order.sort_by(|&a, &b| far(a).total_cmp(&far(b)));
                order.truncate(40);
                order
            };
            let by_code = nearest(&|row| scores[row]);
            let found = nearest(&|row| exact.distance(set(&mixed).row(row)));
            let among = found[..5].iter().filter(|row| by_code.contains(row)).count();
            assert!(among >= 4, "{metric}: {query}: {found:?} in {by_code:?}");
        }
    }
}

#[test]
fn the_longest_rows_that_are_taken_have_estimates_that_are_numbers() {
    // Squared norms of 3.2e38 just fit; sums of two of them do not.
    let longest = rows(|_| 1.8e19);
    let book = trained(&longest, Metric::L2, true);
    let codes = encode_all(&book, set(&longest));
    let view = super::CodesView::from_slice(&codes, book.code_bytes());
    let (mut table, mut scores) = (LookupTable::new(&book), vec![0.0; ROWS]);
    for query in 0..20 {
        table.fill(&book, set(&longest).row(query), VectorType::F32);
        score_many(&table, view, &Vec::from_iter(0..ROWS as u32), &mut scores);
        assert!(scores.iter().all(|score| !score.is_nan()), "{query}");
        let least = (0..ROWS).min_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        assert_eq!(least, Some(query), "it is nearest to itself");
    }
}

#[test]
fn a_codebook_knows_after_reading_that_it_is_of_any_scale() {
    let bytes = rows(|row| 10f64.powi((row % 9) as i32));
    let book = trained(&bytes, Metric::L2, true);
    let read = Codebook::from_bytes(&book.to_bytes()).unwrap();
    assert!(read.is_any_scale() && read.options(1).any_scale);
    let alike = trained(&bytes, Metric::L2, false);
    assert!(!Codebook::from_bytes(&alike.to_bytes()).unwrap().options(1).any_scale);
}
