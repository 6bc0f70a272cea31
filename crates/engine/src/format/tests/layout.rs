//! Which layout is chosen, and that its arithmetic is consistent.

use proptest::prelude::*;

use crate::format::constants::{ALIGNMENT, FILL_ONE, page_header};
use crate::format::{LayoutError, LayoutOptions, RecordLayout};
use crate::types::{ErrorClass, NodeId, PageId, VectorType};

fn choose(dim: usize, ty: VectorType, degree: usize, rows: u64) -> RecordLayout {
    RecordLayout::choose(dim, ty, degree, rows, 0.96).unwrap()
}

#[test]
fn twelve_sift_records_fit_in_4_kib() {
    let layout = choose(128, VectorType::U8, 64, 1_000_000);
    assert_eq!(layout.edge_bytes(), 3);
    assert_eq!(layout.record_bytes(), 332);
    assert_eq!((layout.page_bytes(), layout.records_per_page()), (4096, 12));
    assert_eq!(layout.pages_for(1_000_000), Ok(86_806));
}

#[test]
fn edges_widen_when_ids_outgrow_three_bytes() {
    assert_eq!(choose(128, VectorType::U8, 64, 16_000_000).edge_bytes(), 3);
    // 16.5 M rows would fit below 2^24, but not with the free slots of fill 0.96.
    let wide = choose(128, VectorType::U8, 64, 16_500_000);
    assert_eq!((wide.edge_bytes(), wide.records_per_page()), (4, 10));
}

#[test]
fn pages_by_record_size() {
    let page = |dim, ty| {
        let layout = choose(dim, ty, 64, 1_000_000);
        (layout.page_bytes(), layout.records_per_page())
    };
    assert_eq!(page(96, VectorType::F32), (4096, 6));
    assert_eq!(page(512, VectorType::F32), (12_288, 5));
    // Every size wastes a fifth: the smallest wins.
    assert_eq!(page(768, VectorType::F32), (4096, 1));
    assert_eq!(page(960, VectorType::F32), (4096, 1));
    assert_eq!(page(1536, VectorType::F32), (8192, 1));
    // Beyond 16 KiB: a page of its own.
    assert_eq!(page(32_768, VectorType::F32), (135_168, 1));
    // Tiny records are bounded by the bitmap.
    assert_eq!(choose(4, VectorType::U8, 1, 10).records_per_page(), 64);
}

#[test]
fn numbers_out_of_range_are_refused() {
    let choose = |dim, degree, rows, fill| {
        RecordLayout::choose(dim, VectorType::F32, degree, rows, fill).unwrap_err()
    };
    assert_eq!(choose(0, 64, 1, 0.9), LayoutError::Dimension { dim: 0 });
    assert_eq!(choose(32_769, 64, 1, 0.9), LayoutError::Dimension { dim: 32_769 });
    assert_eq!(choose(8, 0, 1, 0.9), LayoutError::Degree { max_degree: 0 });
    assert_eq!(choose(8, 1025, 1, 0.9), LayoutError::Degree { max_degree: 1025 });
    assert!(matches!(choose(8, 64, 1, 0.0), LayoutError::Fill { .. }));
    assert!(matches!(choose(8, 64, 1, f64::NAN), LayoutError::Fill { .. }));
    assert!(matches!(choose(8, 64, u64::MAX, 0.9), LayoutError::Rows { .. }));
    assert_eq!(choose(8, 64, u64::MAX, 0.9).class(), ErrorClass::FixInput);
    let options = LayoutOptions::new(8, VectorType::U8, 64, 1);
    let with = |o: LayoutOptions| RecordLayout::choose_with(&o).unwrap_err();
    let large = LayoutOptions { attribute_bytes: usize::MAX, ..options };
    assert!(matches!(with(large), LayoutError::Record { .. }));
    let large = LayoutOptions { neighbour_code_bytes: usize::MAX, ..options };
    assert!(matches!(with(large), LayoutError::Record { .. }));
    for page_bytes in [0, 1, 5000, 2 << 20] {
        let odd = LayoutOptions { page_bytes: Some(page_bytes), ..options };
        assert!(matches!(with(odd), LayoutError::Page { .. }));
    }
}

#[test]
fn contradicting_descriptor_is_refused() {
    let layout = choose(128, VectorType::U8, 64, 1000);
    let mut bytes = layout.encode();
    bytes[18] += 1;
    let expected =
        LayoutError::Contradiction { field: "records per page", expected: 12, found: 13 };
    assert_eq!(RecordLayout::decode(&bytes), Err(expected));
}

fn layouts() -> impl Strategy<Value = RecordLayout> {
    let dims = prop_oneof![1usize..600, 1usize..=32_768];
    let rows = prop_oneof![0u64..100_000, 0u64..40_000_000];
    let shape = (dims, any::<bool>(), 1usize..=1024, rows, 0.01f64..=1.0);
    (shape, 0usize..40, 0usize..5).prop_map(
        |((dim, f32s, degree, rows, fill), attributes, codes)| {
            let ty = if f32s { VectorType::F32 } else { VectorType::U8 };
            let options = LayoutOptions {
                fill,
                attribute_bytes: attributes,
                neighbour_code_bytes: codes,
                ..LayoutOptions::new(dim, ty, degree, rows)
            };
            RecordLayout::choose_with(&options).unwrap()
        },
    )
}

proptest! {
    #[test]
    fn layout_invariants(layout in layouts()) {
        let end = layout.record_offset(layout.records_per_page() - 1) + layout.record_bytes();
        prop_assert!(end <= layout.page_bytes());
        prop_assert!(layout.page_bytes().is_multiple_of(ALIGNMENT));
        prop_assert!(layout.record_bytes().is_multiple_of(4));
        prop_assert!(layout.record_offset(0) == page_header::BYTES);
        prop_assert_eq!(RecordLayout::decode(&layout.encode()), Ok(layout));
    }

    #[test]
    fn ids_are_arithmetic(layout in layouts(), page in any::<u32>(), slot in 0usize..64) {
        let page = PageId(page % layout.max_pages());
        let slot = slot % layout.records_per_page();
        let node = layout.node(page, slot);
        prop_assert!(u64::from(node.0) < layout.node_limit());
        prop_assert_eq!((layout.page_of(node), layout.slot_of(node)), (page, slot));
    }

    #[test]
    fn build_fills_slots_in_order(layout in layouts(), rows in 1u64..3000) {
        let pages = layout.pages_for(rows).unwrap();
        let mut position = 0;
        for page in (0..pages).map(PageId) {
            prop_assert_eq!(layout.rows_before(page), position);
            let used = layout.slots_used(page);
            prop_assert!((1..=layout.records_per_page()).contains(&used));
            for slot in 0..used {
                prop_assert_eq!(layout.node_at(position), layout.node(page, slot));
                position += 1;
            }
        }
        prop_assert!(position >= rows, "all rows are placed");
        prop_assert!(layout.rows_before(PageId(pages - 1)) < rows, "no page is empty");
    }

    #[test]
    fn density_is_fill(layout in layouts()) {
        let slots = 1000 * layout.records_per_page() as u64;
        let wanted = (slots as f64 * layout.fill()).max(1000.0);
        let used = layout.rows_before(PageId(1000)) as f64;
        prop_assert!((used - wanted).abs() <= 1.0 + slots as f64 / f64::from(FILL_ONE));
    }

    #[test]
    fn hostile_descriptor_never_panics(bytes in any::<[u8; 32]>()) {
        if let Ok(layout) = RecordLayout::decode(&bytes) {
            prop_assert_eq!(layout.encode(), bytes);
        }
    }
}

#[test]
fn last_node_has_an_id() {
    let layout = choose(4, VectorType::U8, 4, 1 << 31);
    let last = PageId(layout.max_pages() - 1);
    let node = layout.node(last, layout.records_per_page() - 1);
    assert!(node < NodeId(u32::MAX));
}
