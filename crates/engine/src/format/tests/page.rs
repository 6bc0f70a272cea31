//! Pages: round trips, hostile bytes, and what a check refuses.

use std::hint::black_box;

use proptest::prelude::*;

use super::{IDENTITY, OTHER, small_layout};
use crate::format::constants::page_header;
use crate::format::{PageError, PageView, PageWriter, RecordLayout, check_page};
use crate::types::{ErrorClass, PageId, RowId, VectorType};

#[derive(Clone, Debug)]
struct Record {
    vector: Vec<u8>,
    row_id: u64,
    neighbours: Vec<u32>,
}

/// A layout and some records for it, by slot.
fn pages() -> impl Strategy<Value = (RecordLayout, Vec<Option<Record>>)> {
    let rows = prop_oneof![Just(1000u64), Just(30_000_000)];
    (1usize..40, any::<bool>(), 1usize..80, rows).prop_flat_map(|(dim, f32s, degree, rows)| {
        let ty = if f32s { VectorType::F32 } else { VectorType::U8 };
        let layout = RecordLayout::choose(dim, ty, degree, rows, 0.96).unwrap();
        let edge = 0..layout.node_limit() as u32;
        let record = (
            prop::collection::vec(any::<u8>(), layout.vector_bytes()),
            any::<u64>(),
            prop::collection::vec(edge, 0..=degree),
        );
        let record =
            record.prop_map(|(vector, row_id, neighbours)| Record { vector, row_id, neighbours });
        let slots = prop::collection::vec(prop::option::of(record), layout.records_per_page());
        (Just(layout), slots)
    })
}

fn write(layout: &RecordLayout, records: &[Option<Record>], page: PageId) -> Vec<u8> {
    let mut bytes = vec![0xff; layout.page_bytes()];
    let mut writer = PageWriter::new(layout, &mut bytes);
    for (slot, record) in records.iter().enumerate() {
        if let Some(record) = record {
            writer.put(slot, &record.vector, RowId(record.row_id), &record.neighbours);
        }
    }
    writer.seal(&IDENTITY, page, 5);
    bytes
}

fn small_page() -> Vec<u8> {
    let record = Record { vector: vec![9; 8], row_id: 77, neighbours: vec![1, 2, 3] };
    write(&small_layout(), &[Some(record.clone()), None, Some(record)], PageId(6))
}

/// Reads everything there is; the point is that it returns.
fn read_all(layout: &RecordLayout, bytes: &[u8]) -> usize {
    let view = PageView::new(layout, bytes);
    let mut neighbours = Vec::with_capacity(layout.max_degree());
    let capacity = neighbours.capacity();
    let mut count = view.occupied().count_ones() as usize;
    for slot in 0..layout.records_per_page() {
        view.neighbours_into(slot, &mut neighbours);
        assert_eq!(neighbours.len(), view.degree(slot));
        assert_eq!(neighbours.capacity(), capacity, "no allocation");
        count += neighbours.len() + view.vector(slot).len() + view.row_id(slot).0 as usize % 2;
    }
    count
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_come_back((layout, records) in pages(), page in any::<u32>()) {
        let bytes = write(&layout, &records, PageId(page));
        prop_assert_eq!(check_page(&bytes, &IDENTITY, PageId(page)), Ok(()));
        let view = PageView::new(&layout, &bytes);
        prop_assert_eq!((view.page(), view.generation()), (PageId(page), 5));
        let mut neighbours = vec![3];
        for (slot, record) in records.iter().enumerate() {
            prop_assert_eq!(view.occupied() >> slot & 1 == 1, record.is_some());
            let Some(record) = record else { continue };
            prop_assert_eq!(view.vector(slot), &record.vector[..]);
            prop_assert_eq!(view.row_id(slot), RowId(record.row_id));
            view.neighbours_into(slot, &mut neighbours);
            prop_assert_eq!(&neighbours, &record.neighbours);
            view.neighbours_append(slot, &mut neighbours);
            prop_assert_eq!(neighbours.len(), 2 * view.degree(slot));
        }
    }

    #[test]
    fn hostile_page_never_panics((layout, _) in pages(), seed in any::<u8>(), noise in any::<[u8; 61]>()) {
        let bytes: Vec<u8> =
            (0..layout.page_bytes()).map(|i| noise[i % noise.len()] ^ seed.rotate_left(i as u32 / 61)).collect();
        read_all(&layout, &bytes);
        read_all(&layout, &vec![0xff; layout.page_bytes()]);
        prop_assert!(check_page(&bytes, &IDENTITY, PageId(0)).is_err());
        prop_assert!(check_page(&noise, &IDENTITY, PageId(0)).is_err());
    }
}

#[test]
fn largest_edges_come_back_in_a_full_page() {
    for (dim, rows) in [(304, 1000), (240, 30_000_000)] {
        let layout = RecordLayout::choose(dim, VectorType::U8, 64, rows, 0.96).unwrap();
        let end = page_header::BYTES + layout.records_per_page() * layout.record_bytes();
        assert_eq!(end, layout.page_bytes(), "no byte to spare behind the last edge");
        let edges = vec![layout.node_limit() as u32 - 1; 64];
        let mut bytes = vec![0; layout.page_bytes()];
        let mut writer = PageWriter::new(&layout, &mut bytes);
        let last = layout.records_per_page() - 1;
        writer.put(last, &vec![1; dim], RowId(u64::MAX), &edges);
        writer.seal(&IDENTITY, PageId(0), 0);
        let mut out = Vec::new();
        PageView::new(&layout, &bytes).neighbours_into(last, &mut out);
        assert_eq!(out, edges);
    }
}

#[test]
fn every_flipped_bit_is_detected() {
    let mut bytes = small_page();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = check_page(&bytes, &IDENTITY, PageId(6)).unwrap_err();
        assert_eq!((error.page(), error.class()), (PageId(6), ErrorClass::Stop));
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(check_page(&bytes, &IDENTITY, PageId(6)), Ok(()));
}

#[test]
fn wrong_place_or_index_is_refused() {
    let mut bytes = small_page();
    let misplaced = PageError::Number { expected: PageId(7), found: PageId(6) };
    assert_eq!(check_page(&bytes, &IDENTITY, PageId(7)), Err(misplaced));
    assert_eq!(misplaced.to_string(), "page 7: found page 6 in its place");
    let foreign = check_page(&bytes, &OTHER, PageId(6)).unwrap_err();
    assert!(matches!(foreign, PageError::Checksum { .. }), "{foreign}");
    let short = PageError::Short { page: PageId(6), found: 31 };
    assert_eq!(check_page(&bytes[..31], &IDENTITY, PageId(6)), Err(short));
    for length in page_header::BYTES..bytes.len() {
        assert!(check_page(&bytes[..length], &IDENTITY, PageId(6)).is_err());
    }
    bytes.fill(0);
    let empty = check_page(&bytes, &IDENTITY, PageId(6)).unwrap_err();
    assert!(matches!(empty, PageError::Magic { found: 0, .. }), "{empty}");
}

#[test]
fn edit_keeps_the_other_records() {
    let layout = small_layout();
    let mut bytes = small_page();
    let mut writer = PageWriter::edit(&layout, &mut bytes);
    writer.put(1, &[4; 8], RowId(5), &[]);
    writer.seal(&IDENTITY, PageId(6), 6);
    let view = PageView::new(&layout, &bytes);
    assert_eq!((view.occupied(), view.generation()), (0b111, 6));
    assert_eq!((view.row_id(0), view.row_id(1)), (RowId(77), RowId(5)));
}

#[test]
#[should_panic(expected = "a neighbour fits in an edge")]
fn edge_beyond_three_bytes_is_a_mistake() {
    let layout = small_layout();
    let mut bytes = vec![0; layout.page_bytes()];
    PageWriter::new(&layout, &mut bytes).put(0, &[0; 8], RowId(0), &[1 << 24]);
}

/// Prints costs; run with `--release -- --ignored --nocapture page_costs`.
#[test]
#[ignore = "a measurement"]
fn page_costs() {
    let layout = RecordLayout::choose(128, VectorType::U8, 64, 1_000_000, 0.96).unwrap();
    let mut bytes = vec![0; layout.page_bytes()];
    let mut writer = PageWriter::new(&layout, &mut bytes);
    let edges: Vec<u32> = (0..64).map(|i| i * 12_345).collect();
    for slot in 0..12 {
        writer.put(slot, &[slot as u8; 128], RowId(0), &edges);
    }
    writer.seal(&IDENTITY, PageId(1), 1);
    // Batches of some 10 us, shorter than a time slice, so that the best one ran undisturbed.
    let measure = |what: &str, work: &mut dyn FnMut(usize)| {
        let batch = |_| {
            let start = std::time::Instant::now();
            (0..100).for_each(&mut *work);
            start.elapsed().as_nanos() as f64 / 100.0
        };
        let mut samples: Vec<f64> = (0..5000).map(batch).collect();
        samples.sort_by(f64::total_cmp);
        println!("{what}: best {:.1} ns, median {:.1} ns", samples[0], samples[2500]);
    };
    measure("check_page of 4096 bytes", &mut |_| {
        black_box(check_page(black_box(&bytes), &IDENTITY, PageId(1))).unwrap();
    });
    let mut out = Vec::with_capacity(64);
    measure("neighbours_into, 64 edges of 3 bytes", &mut |i| {
        PageView::new(&layout, black_box(&bytes)).neighbours_into(i % 12, &mut out);
        black_box(&out);
    });
}
