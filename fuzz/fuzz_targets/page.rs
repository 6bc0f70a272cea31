//! Pages: the first 32 bytes describe the layout, the rest repeats as the page.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipeann_engine::format::{Identity, PageView, RecordLayout, check_page};
use pipeann_engine::types::PageId;

fuzz_target!(|data: &[u8]| {
    let _ = check_page(data, &Identity { uuid: [1; 16] }, PageId(0));
    let Some((descriptor, rest)) = data.split_first_chunk::<32>() else { return };
    let Ok(layout) = RecordLayout::decode(descriptor) else { return };
    let page: Vec<u8> = rest.iter().copied().cycle().take(layout.page_bytes()).collect();
    if page.len() < layout.page_bytes() {
        return;
    }
    let view = PageView::new(&layout, &page);
    let mut neighbours = Vec::with_capacity(layout.max_degree());
    for slot in 0..layout.records_per_page() {
        view.neighbours_into(slot, &mut neighbours);
        assert_eq!(neighbours.len(), view.degree(slot));
        assert_eq!(view.vector(slot).len(), layout.vector_bytes());
        let _ = view.row_id(slot);
    }
    assert!(view.occupied().checked_shr(layout.records_per_page() as u32).unwrap_or(0) == 0);
});
