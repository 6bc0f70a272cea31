//! Pages: the first 32 bytes describe the layout, the rest repeats as the page.

use pipeann_engine::format::{Identity, PageView, RecordLayout, check_page};
use pipeann_engine::types::{PageId, VectorType};

use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &["sealed", "short edges", "long edges", "bits", "row ids"];

/// Whose pages are told to be whole.
pub(crate) const IDENTITY: Identity = Identity { uuid: [1; 16] };

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let Some((descriptor, rest)) = data.split_first_chunk::<32>() else { return };
    reached.mark("sealed", bounded(data.len(), || check_page(rest, &IDENTITY, PageId(0))).is_ok());
    let Ok(layout) = bounded(data.len(), || RecordLayout::decode(descriptor)) else { return };
    let page: Vec<u8> = rest.iter().copied().cycle().take(layout.page_bytes()).collect();
    if page.len() < layout.page_bytes() {
        return;
    }
    let view = PageView::new(&layout, &page);
    let mut neighbours = Vec::with_capacity(layout.max_degree());
    for slot in 0..layout.records_per_page() {
        bounded(0, || view.neighbours_into(slot, &mut neighbours));
        assert_eq!(neighbours.len(), view.degree(slot));
        assert_eq!(view.vector(slot).len(), layout.vector_bytes());
        reached.mark("row ids", view.row_id(slot).0 > 0);
        reached.mark("short edges", layout.edge_bytes() == 3 && !neighbours.is_empty());
        reached.mark("long edges", layout.edge_bytes() == 4 && !neighbours.is_empty());
    }
    reached.mark("bits", layout.vector_type() == VectorType::Binary);
    assert!(view.occupied().checked_shr(layout.records_per_page() as u32).unwrap_or(0) == 0);
}
