//! A page together with what is laid over it.

use std::sync::Arc;

use super::overlay::{Edges, NewRecord, PagePatch, SlotPatch};
use super::view::GraphView;
use crate::format::{PageView, RecordLayout};
use crate::types::{PageId, RowId};

/// A page with its patch, read as node records.
#[derive(Debug)]
pub struct PageRecords<'a> {
    page: PageView<'a>,
    patch: Option<Arc<PagePatch>>,
    bound: usize,
}

impl<'a> PageRecords<'a> {
    /// The page in `bytes` with what `view` lays over it.
    ///
    /// # Panics
    /// Where `bytes` is not exactly one page long.
    #[inline]
    pub fn new(view: &GraphView<'a>, page: PageId, bytes: &'a [u8]) -> Self {
        let patch = view.overlay.and_then(|overlay| overlay.patch(page));
        Self { page: PageView::new(view.layout, bytes), patch, bound: view.list_bound() }
    }

    /// The page in `bytes` with `patch`. Neighbours are not cut to any bound.
    ///
    /// # Panics
    /// Where `bytes` is not exactly one page long.
    pub fn patched(
        layout: &'a RecordLayout,
        bytes: &'a [u8],
        patch: Option<Arc<PagePatch>>,
    ) -> Self {
        Self { page: PageView::new(layout, bytes), patch, bound: usize::MAX }
    }

    fn new_in(&self, slot: usize) -> Option<&SlotPatch> {
        self.patch.as_ref()?.slot(slot)
    }

    fn new_record(&self, slot: usize) -> Option<&NewRecord> {
        self.new_in(slot)?.record.as_ref()
    }

    /// Bit `i` is set where slot `i` holds a record.
    #[inline]
    pub fn occupied(&self) -> u64 {
        let on_disk = self.page.occupied();
        let Some(patch) = &self.patch else { return on_disk };
        patch.slots().fold(on_disk, |bits, (slot, new)| {
            let bit = 1 << slot;
            if new.removed {
                bits & !bit
            } else if new.record.is_some() {
                bits | bit
            } else {
                bits
            }
        })
    }

    /// The vector in `slot`.
    ///
    /// # Panics
    /// Here and below: where the page has no such slot.
    #[inline]
    pub fn vector(&self, slot: usize) -> &[u8] {
        self.new_record(slot).map_or_else(|| self.page.vector(slot), |record| &record.vector)
    }

    /// The row id in `slot`.
    #[inline]
    pub fn row_id(&self, slot: usize) -> RowId {
        self.new_record(slot).map_or_else(|| self.page.row_id(slot), |record| record.row)
    }

    /// Replaces the contents of `out` by the neighbours in `slot`.
    #[inline]
    pub fn neighbours_into(&self, slot: usize, out: &mut Vec<u32>) {
        out.clear();
        match self.new_in(slot) {
            None => self.page.neighbours_append(slot, out),
            Some(SlotPatch { edges: Edges::Replaced(edges), .. }) => out.extend_from_slice(edges),
            Some(SlotPatch { edges: Edges::Added(edges), .. }) => {
                if self.page.occupied() & 1 << slot != 0 {
                    self.page.neighbours_append(slot, out);
                }
                out.extend_from_slice(edges);
            }
        }
        out.truncate(self.bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::PageWriter;
    use crate::types::VectorType;

    #[test]
    fn a_page_is_read_together_with_its_patch() {
        let layout = RecordLayout::choose(8, VectorType::U8, 4, 1000, 1.0).unwrap();
        let mut bytes = vec![0; layout.page_bytes()];
        let mut writer = PageWriter::new(&layout, &mut bytes);
        for slot in 0..3 {
            writer.put(slot, &[slot as u8; 8], RowId(slot as u64), &[7, 8]);
        }
        let mut patch = PagePatch::default();
        let new = patch.slot_mut(5);
        new.record = Some(NewRecord { row: RowId(50), vector: Box::from([9; 8]) });
        new.edges = Edges::Replaced(vec![1, 2]);
        patch.slot_mut(0).edges = Edges::Added(vec![9]);
        patch.slot_mut(1).edges = Edges::Replaced(vec![3]);
        patch.slot_mut(2).removed = true;
        let before = Arc::new(patch.clone());
        // A patch that a search holds is not changed under it.
        patch.slot_mut(0).edges = Edges::Replaced(vec![]);
        let records = PageRecords::patched(&layout, &bytes, Some(before));
        assert_eq!(records.occupied(), 0b10_0011);
        assert_eq!((records.vector(5), records.row_id(5)), (&[9; 8][..], RowId(50)));
        assert_eq!((records.vector(1), records.row_id(1)), (&[1; 8][..], RowId(1)));
        let mut edges = vec![77];
        for (slot, expected) in [(0, &[7, 8, 9][..]), (1, &[3]), (5, &[1, 2])] {
            records.neighbours_into(slot, &mut edges);
            assert_eq!(edges, expected, "slot {slot}");
        }
        let plain = PageRecords::patched(&layout, &bytes, None);
        assert_eq!((plain.occupied(), plain.row_id(2)), (0b111, RowId(2)));
    }
}
