//! Pages: the view a search reads through, the writer a build fills, the check between them.
//!
//! A [`PageView`] trusts nothing but its length: degrees above the layout's maximum are clamped
//! and occupancy bits beyond the last slot dropped, so that a page that was not checked, or was
//! forged, yields wrong numbers and never a panic. Neighbour ids of such a page can lie beyond
//! the index; whoever uses them as an index compares them with the number of nodes first.

use super::bytes::{get_u32, get_u64, put};
use super::checksum::{Identity, checksum};
use super::constants::{PAGE_MAGIC, page_header, record_tail};
use super::error::PageError;
use super::layout::RecordLayout;
use crate::types::{PageId, RowId};

/// A page's bytes, read as node records.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    layout: &'a RecordLayout,
    bytes: &'a [u8],
}

impl<'a> PageView<'a> {
    /// Views `bytes` as a page. Does not verify it: [`check_page`] does.
    ///
    /// # Panics
    /// Where `bytes` is not exactly one page long.
    #[inline]
    pub fn new(layout: &'a RecordLayout, bytes: &'a [u8]) -> Self {
        assert_eq!(bytes.len(), layout.page_bytes(), "a page view needs exactly one page");
        Self { layout, bytes }
    }

    /// The logical page number stored in the page.
    pub fn page(&self) -> PageId {
        PageId(get_u32(self.bytes, page_header::PAGE))
    }

    /// The generation in which this image was written.
    pub fn generation(&self) -> u64 {
        get_u64(self.bytes, page_header::GENERATION)
    }

    /// Bit `i` is set where slot `i` holds a record.
    #[inline]
    pub fn occupied(&self) -> u64 {
        let slots = u64::MAX >> (u64::BITS as usize - self.layout.records_per_page());
        get_u64(self.bytes, page_header::OCCUPANCY) & slots
    }

    /// The vector in `slot`, whether occupied or not.
    ///
    /// # Panics
    /// Here and below: where the page has no such slot.
    #[inline]
    pub fn vector(&self, slot: usize) -> &'a [u8] {
        &self.record(slot)[..self.layout.vector_bytes()]
    }

    /// The row id in `slot`.
    #[inline]
    pub fn row_id(&self, slot: usize) -> RowId {
        RowId(get_u64(self.tail(slot), record_tail::ROW_ID))
    }

    /// The number of edges in `slot`, at most the layout's maximum.
    #[inline]
    pub fn degree(&self, slot: usize) -> usize {
        self.tail_degree(self.tail(slot))
    }

    /// Replaces the contents of `out` by the neighbours in `slot`. Allocates only where `out`
    /// has less capacity than the degree.
    #[inline]
    pub fn neighbours_into(&self, slot: usize, out: &mut Vec<u32>) {
        out.clear();
        self.neighbours_append(slot, out);
    }

    /// As [`neighbours_into`](Self::neighbours_into), after what `out` holds already.
    #[inline]
    pub fn neighbours_append(&self, slot: usize, out: &mut Vec<u32>) {
        let tail = self.tail(slot);
        let degree = self.tail_degree(tail);
        let edges = &tail[record_tail::BYTES..][..degree * self.layout.edge_bytes()];
        // Byte-wise, with an exact length: the compiler vectorises this. Four edges out of three
        // words measured the same, overlapping four-byte loads 1.7 times slower.
        if self.layout.edge_bytes() == 3 {
            let edges = edges.as_chunks::<3>().0.iter();
            out.extend(edges.map(|edge| u32::from_le_bytes([edge[0], edge[1], edge[2], 0])));
        } else {
            out.extend(edges.as_chunks::<4>().0.iter().map(|edge| u32::from_le_bytes(*edge)));
        }
    }

    #[inline]
    fn record(&self, slot: usize) -> &'a [u8] {
        assert!(slot < self.layout.records_per_page(), "the page has such a slot");
        &self.bytes[self.layout.record_offset(slot)..][..self.layout.record_bytes()]
    }

    #[inline]
    fn tail(&self, slot: usize) -> &'a [u8] {
        &self.record(slot)[self.layout.vector_bytes()..]
    }

    #[inline]
    fn tail_degree(&self, tail: &[u8]) -> usize {
        let field = record_tail::DEGREE.offset;
        let stored = u16::from_le_bytes([tail[field], tail[field + 1]]);
        usize::from(stored).min(self.layout.max_degree())
    }
}

/// Fills a page, then seals it.
#[derive(Debug)]
pub struct PageWriter<'a> {
    layout: &'a RecordLayout,
    bytes: &'a mut [u8],
}

impl<'a> PageWriter<'a> {
    /// Starts an empty page: zeroes `bytes`.
    ///
    /// # Panics
    /// Where `bytes` is not exactly one page long.
    pub fn new(layout: &'a RecordLayout, bytes: &'a mut [u8]) -> Self {
        bytes.fill(0);
        Self::edit(layout, bytes)
    }

    /// Goes on with what `bytes` holds, a page that was checked before.
    ///
    /// # Panics
    /// Where `bytes` is not exactly one page long.
    pub fn edit(layout: &'a RecordLayout, bytes: &'a mut [u8]) -> Self {
        assert_eq!(bytes.len(), layout.page_bytes(), "a page writer needs exactly one page");
        Self { layout, bytes }
    }

    /// Puts a record in `slot` and marks the slot as occupied.
    ///
    /// # Panics
    /// Where there is no such slot, the vector has another length, there are more neighbours
    /// than the maximum degree, or a neighbour is not below the layout's node limit.
    pub fn put(&mut self, slot: usize, vector: &[u8], row_id: RowId, neighbours: &[u32]) {
        let layout = self.layout;
        assert!(slot < layout.records_per_page(), "the page has such a slot");
        assert!(neighbours.len() <= layout.max_degree(), "the neighbours fit in a record");
        let record = &mut self.bytes[layout.record_offset(slot)..][..layout.record_bytes()];
        let (head, tail) = record.split_at_mut(layout.vector_bytes());
        head.copy_from_slice(vector);
        tail.fill(0);
        put(tail, record_tail::ROW_ID, &row_id.0.to_le_bytes());
        put(tail, record_tail::DEGREE, &(neighbours.len() as u16).to_le_bytes());
        let width = layout.edge_bytes();
        let edges = tail[record_tail::BYTES..].chunks_exact_mut(width);
        for (edge, &neighbour) in edges.zip(neighbours) {
            assert!(u64::from(neighbour) < layout.node_limit(), "a neighbour fits in an edge");
            edge.copy_from_slice(&neighbour.to_le_bytes()[..width]);
        }
        let occupied = get_u64(self.bytes, page_header::OCCUPANCY) | 1 << slot;
        put(self.bytes, page_header::OCCUPANCY, &occupied.to_le_bytes());
    }

    /// Writes the rest of the header and the checksum.
    pub fn seal(self, identity: &Identity, page: PageId, generation: u64) {
        put(self.bytes, page_header::MAGIC, &PAGE_MAGIC.to_le_bytes());
        put(self.bytes, page_header::PAGE, &page.0.to_le_bytes());
        put(self.bytes, page_header::GENERATION, &generation.to_le_bytes());
        let sum = page_checksum(self.bytes, identity);
        put(self.bytes, page_header::CHECKSUM, &sum.to_le_bytes());
    }
}

/// The checksum over everything behind the checksum itself.
fn page_checksum(bytes: &[u8], identity: &Identity) -> u64 {
    checksum(identity.seed(), &bytes[page_header::CHECKSUM.bytes..])
}

/// Verifies that `bytes` are `page` of the index `identity`, undamaged.
///
/// # Errors
/// [`PageError`] tells what was found instead.
#[inline]
pub fn check_page(bytes: &[u8], identity: &Identity, page: PageId) -> Result<(), PageError> {
    if bytes.len() < page_header::BYTES {
        return Err(PageError::Short { page, found: bytes.len() });
    }
    let magic = get_u32(bytes, page_header::MAGIC);
    if magic != PAGE_MAGIC {
        return Err(PageError::Magic { page, expected: PAGE_MAGIC, found: magic });
    }
    let stored = get_u64(bytes, page_header::CHECKSUM);
    let computed = page_checksum(bytes, identity);
    if stored != computed {
        return Err(PageError::Checksum { page, expected: computed, found: stored });
    }
    let found = PageId(get_u32(bytes, page_header::PAGE));
    if found != page {
        return Err(PageError::Number { expected: page, found });
    }
    Ok(())
}
