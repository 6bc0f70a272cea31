//! The record descriptor: where each part of a node record and of a page stands.
//!
//! A record is `vector | row id u64 | degree u16 | flags u16 | edges | attributes | neighbour
//! codes`, rounded up to 4 bytes. A page is a 32-byte header, records, and an unused rest.
//!
//! Invariants of every [`RecordLayout`]: all limits of [`constants`](super::constants) hold,
//! `page header + records per page x record <= page`, and at least one record fits.

use super::bytes::{get_u16, get_u32, put};
use super::constants::{
    ALIGNMENT, FILL_ONE, MAX_DEGREE, MAX_DIM, MAX_PACKED_PAGE_BYTES, MAX_RECORD_BYTES,
    MAX_RECORDS_PER_PAGE, ROW_ID_BYTES, page_header, record_descriptor as descriptor, record_tail,
};
use super::error::LayoutError;
use crate::types::{NodeId, PageId, VectorType};

/// A page may waste this share (in percent) before a larger page is considered: a larger read
/// costs bandwidth for certain, a tighter packing pays only where the neighbours are wanted.
const TOLERATED_WASTE_PERCENT: usize = 15;

/// What a layout is chosen from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayoutOptions {
    /// Components of a vector, 1..=32768.
    pub dim: usize,
    /// Component type.
    pub vector_type: VectorType,
    /// Edges reserved in each record, 1..=1024.
    pub max_degree: usize,
    /// Rows that node ids must suffice for (free slots come on top).
    pub rows: u64,
    /// Node ids that there must be at least, whatever rows and fill come to.
    pub slots: u64,
    /// Share of slots that a build fills, above 0 and at most 1.
    pub fill: f64,
    /// Page size in bytes, a multiple of 4096; `None`: chosen from the record's size.
    pub page_bytes: Option<usize>,
    /// Attribute bytes in each record.
    pub attribute_bytes: usize,
    /// Code bytes for each edge.
    pub neighbour_code_bytes: usize,
}

impl LayoutOptions {
    /// The share of slots filled unless said otherwise.
    pub const DEFAULT_FILL: f64 = 0.96;

    /// Options with the default fill, a chosen page size, no attributes and no neighbour codes.
    pub fn new(dim: usize, vector_type: VectorType, max_degree: usize, rows: u64) -> Self {
        Self {
            dim,
            vector_type,
            max_degree,
            rows,
            slots: 0,
            fill: Self::DEFAULT_FILL,
            page_bytes: None,
            attribute_bytes: 0,
            neighbour_code_bytes: 0,
        }
    }
}

/// The shape of records and pages. Valid by construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLayout {
    dim: u32,
    vector_type: VectorType,
    max_degree: u32,
    edge_bytes: u32,
    attribute_bytes: u32,
    neighbour_code_bytes: u32,
    page_bytes: u32,
    records_per_page: u32,
    record_bytes: u32,
    vector_bytes: u32,
    fill: u32,
}

impl RecordLayout {
    /// The layout for `rows` vectors: 3-byte edges where the node ids allow, and the smallest
    /// page of 4, 8, 12 or 16 KiB that wastes at most 15%, else the one that wastes least.
    ///
    /// # Errors
    /// [`LayoutError`] where a number is out of range.
    pub fn choose(
        dim: usize,
        vector_type: VectorType,
        max_degree: usize,
        rows: u64,
        fill: f64,
    ) -> Result<Self, LayoutError> {
        let options = LayoutOptions::new(dim, vector_type, max_degree, rows);
        Self::choose_with(&LayoutOptions { fill, ..options })
    }

    /// As [`choose`](Self::choose), with all options.
    ///
    /// # Errors
    /// [`LayoutError`] where a number is out of range.
    pub fn choose_with(options: &LayoutOptions) -> Result<Self, LayoutError> {
        let fill = options.fill;
        if !(fill > 0.0 && fill <= 1.0) {
            return Err(LayoutError::Fill { fill });
        }
        let fill = ((fill * f64::from(FILL_ONE)).round() as u32).max(1);
        let narrow = Self::assemble(options, 3, fill)?;
        if narrow.holds(options.rows) && narrow.has_slots(options.slots) {
            return Ok(narrow);
        }
        let wide = Self::assemble(options, 4, fill)?;
        if wide.holds(options.rows) && wide.has_slots(options.slots) {
            return Ok(wide);
        }
        Err(LayoutError::Rows { rows: options.rows, slots: wide.node_limit(), edge_bytes: 4 })
    }

    /// Derives everything that follows from the sizes; `fill` is in millionths.
    fn assemble(options: &LayoutOptions, edge_bytes: u32, fill: u32) -> Result<Self, LayoutError> {
        let &LayoutOptions { dim, vector_type, max_degree, attribute_bytes, .. } = options;
        if !(1..=MAX_DIM).contains(&dim) || !vector_type.takes_dim(dim) {
            return Err(LayoutError::Dimension { dim });
        }
        if !(1..=MAX_DEGREE).contains(&max_degree) {
            return Err(LayoutError::Degree { max_degree });
        }
        let vector_bytes = vector_type.vector_bytes(dim);
        let fixed = vector_bytes + record_tail::BYTES + max_degree * edge_bytes as usize;
        let codes = (max_degree as u64).saturating_mul(options.neighbour_code_bytes as u64);
        let record_bytes = (fixed as u64).saturating_add(attribute_bytes as u64);
        let record_bytes = record_bytes.saturating_add(codes);
        if record_bytes > MAX_RECORD_BYTES as u64 {
            return Err(LayoutError::Record { record_bytes });
        }
        let record_bytes = (record_bytes as usize).next_multiple_of(4);
        let page_bytes = options.page_bytes.unwrap_or_else(|| preferred_page(record_bytes));
        let records_per_page = records_in(page_bytes, record_bytes);
        if records_per_page == 0
            || !page_bytes.is_multiple_of(ALIGNMENT)
            || page_bytes > MAX_RECORD_BYTES + ALIGNMENT
        {
            return Err(LayoutError::Page { page_bytes, record_bytes });
        }
        Ok(Self {
            dim: dim as u32,
            vector_type,
            max_degree: max_degree as u32,
            edge_bytes,
            attribute_bytes: attribute_bytes as u32,
            neighbour_code_bytes: options.neighbour_code_bytes as u32,
            page_bytes: page_bytes as u32,
            records_per_page: records_per_page as u32,
            record_bytes: record_bytes as u32,
            vector_bytes: vector_bytes as u32,
            fill,
        })
    }

    /// Whether `rows` rows at this fill stay below the node limit.
    fn holds(&self, rows: u64) -> bool {
        let pages = u128::from(rows) * u128::from(FILL_ONE);
        let pages = pages.div_ceil(u128::from(self.filled_per_million_pages()));
        pages <= u128::from(self.max_pages())
    }

    /// Whether so many slots, in whole pages, have node ids.
    pub(crate) fn has_slots(&self, slots: u64) -> bool {
        slots.div_ceil(u64::from(self.records_per_page)) <= u64::from(self.max_pages())
    }

    /// Reads a descriptor of [`descriptor::BYTES`] bytes.
    ///
    /// # Errors
    /// [`LayoutError`] where a number is unknown, out of range or contradicts the others.
    pub fn decode(bytes: &[u8; descriptor::BYTES]) -> Result<Self, LayoutError> {
        let type_code = get_u16(bytes, descriptor::VECTOR_TYPE);
        let unknown = |field, found| LayoutError::Unknown { field, found };
        let vector_type = VectorType::from_code(type_code)
            .ok_or_else(|| unknown("vector type", u32::from(type_code)))?;
        let edge_bytes = u32::from(get_u16(bytes, descriptor::EDGE_BYTES));
        if edge_bytes != 3 && edge_bytes != 4 {
            return Err(unknown("edge bytes", edge_bytes));
        }
        let row_id_bytes = get_u16(bytes, descriptor::ROW_ID_BYTES);
        if usize::from(row_id_bytes) != ROW_ID_BYTES {
            return Err(unknown("row id bytes", u32::from(row_id_bytes)));
        }
        let fill = get_u32(bytes, descriptor::FILL);
        if fill == 0 || fill > FILL_ONE {
            return Err(LayoutError::Fill { fill: f64::from(fill) / f64::from(FILL_ONE) });
        }
        let options = LayoutOptions {
            dim: get_u32(bytes, descriptor::DIM) as usize,
            vector_type,
            max_degree: usize::from(get_u16(bytes, descriptor::MAX_DEGREE)),
            rows: 0,
            slots: 0,
            fill: 1.0,
            page_bytes: Some(get_u32(bytes, descriptor::PAGE_BYTES) as usize),
            attribute_bytes: get_u32(bytes, descriptor::ATTRIBUTE_BYTES) as usize,
            neighbour_code_bytes: usize::from(get_u16(bytes, descriptor::NEIGHBOUR_CODE_BYTES)),
        };
        let layout = Self::assemble(&options, edge_bytes, fill)?;
        let stored = [
            (
                "records per page",
                layout.records_per_page(),
                usize::from(get_u16(bytes, descriptor::RECORDS_PER_PAGE)),
            ),
            (
                "record bytes",
                layout.record_bytes(),
                get_u32(bytes, descriptor::RECORD_BYTES) as usize,
            ),
        ];
        for (field, expected, found) in stored {
            if expected != found {
                return Err(LayoutError::Contradiction { field, expected, found });
            }
        }
        Ok(layout)
    }

    /// The descriptor's bytes.
    pub fn encode(&self) -> [u8; descriptor::BYTES] {
        let mut out = [0; descriptor::BYTES];
        let half = |value: u32| (value as u16).to_le_bytes();
        put(&mut out, descriptor::DIM, &self.dim.to_le_bytes());
        put(&mut out, descriptor::VECTOR_TYPE, &(self.vector_type as u16).to_le_bytes());
        put(&mut out, descriptor::MAX_DEGREE, &half(self.max_degree));
        put(&mut out, descriptor::EDGE_BYTES, &half(self.edge_bytes));
        put(&mut out, descriptor::ROW_ID_BYTES, &half(ROW_ID_BYTES as u32));
        put(&mut out, descriptor::ATTRIBUTE_BYTES, &self.attribute_bytes.to_le_bytes());
        put(&mut out, descriptor::NEIGHBOUR_CODE_BYTES, &half(self.neighbour_code_bytes));
        put(&mut out, descriptor::RECORDS_PER_PAGE, &half(self.records_per_page));
        put(&mut out, descriptor::PAGE_BYTES, &self.page_bytes.to_le_bytes());
        put(&mut out, descriptor::RECORD_BYTES, &self.record_bytes.to_le_bytes());
        put(&mut out, descriptor::FILL, &self.fill.to_le_bytes());
        out
    }

    /// Components of a vector.
    pub fn dim(&self) -> usize {
        self.dim as usize
    }

    /// Component type.
    pub fn vector_type(&self) -> VectorType {
        self.vector_type
    }

    /// Bytes of a vector.
    pub fn vector_bytes(&self) -> usize {
        self.vector_bytes as usize
    }

    /// Edges reserved in each record.
    pub fn max_degree(&self) -> usize {
        self.max_degree as usize
    }

    /// Bytes of an edge: 3 or 4.
    pub fn edge_bytes(&self) -> usize {
        self.edge_bytes as usize
    }

    /// Bytes of a row id.
    pub fn row_id_bytes(&self) -> usize {
        ROW_ID_BYTES
    }

    /// Attribute bytes in each record.
    pub fn attribute_bytes(&self) -> usize {
        self.attribute_bytes as usize
    }

    /// Code bytes for each edge.
    pub fn neighbour_code_bytes(&self) -> usize {
        self.neighbour_code_bytes as usize
    }

    /// Bytes of a page, header included.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes as usize
    }

    /// Slots of a page, 1..=64.
    pub fn records_per_page(&self) -> usize {
        self.records_per_page as usize
    }

    /// Distance in bytes between two records of a page, a multiple of 4.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes as usize
    }

    /// Share of slots that a build fills.
    pub fn fill(&self) -> f64 {
        f64::from(self.fill) / f64::from(FILL_ONE)
    }

    /// Offset of the record in `slot` from the start of its page.
    #[inline]
    pub fn record_offset(&self, slot: usize) -> usize {
        page_header::BYTES + slot * self.record_bytes as usize
    }

    /// The logical page of a node.
    #[inline]
    pub fn page_of(&self, node: NodeId) -> PageId {
        PageId(node.0 / self.records_per_page)
    }

    /// The slot of a node in its page.
    #[inline]
    pub fn slot_of(&self, node: NodeId) -> usize {
        (node.0 % self.records_per_page) as usize
    }

    /// The node in a slot of a page.
    ///
    /// # Panics
    /// Where the page is not below [`max_pages`](Self::max_pages) or there is no such slot.
    #[inline]
    pub fn node(&self, page: PageId, slot: usize) -> NodeId {
        assert!(slot < self.records_per_page as usize, "the page has such a slot");
        let first = page.0.checked_mul(self.records_per_page);
        let node = first.and_then(|first| first.checked_add(slot as u32));
        NodeId(node.expect("the page number is below the layout's limit"))
    }

    /// Node ids are below this, by the width of an edge.
    pub fn node_limit(&self) -> u64 {
        // The last u32 stands for "absent" in the row map.
        (1u64 << (8 * self.edge_bytes)).min(u64::from(u32::MAX))
    }

    /// The most pages whose nodes have an id.
    pub fn max_pages(&self) -> u32 {
        (self.node_limit() / u64::from(self.records_per_page)) as u32
    }

    /// Slots filled in a million pages. At least one per page: a page that no row is in
    /// spreads nothing, it could as well be appended later.
    fn filled_per_million_pages(&self) -> u64 {
        let per_page = u64::from(self.records_per_page);
        (per_page * u64::from(self.fill)).max(u64::from(FILL_ONE))
    }

    /// How many rows a build puts before `page`.
    pub fn rows_before(&self, page: PageId) -> u64 {
        // Below 2^32 x 64 x 10^6 < 2^58.
        u64::from(page.0) * self.filled_per_million_pages() / u64::from(FILL_ONE)
    }

    /// How many slots (from slot 0 up) a build fills in `page`, so that free slots are spread
    /// evenly; the last page of an index gets what is left. With one record per page: 1.
    pub fn slots_used(&self, page: PageId) -> usize {
        let filled = self.filled_per_million_pages();
        let million = u64::from(FILL_ONE);
        let before = u64::from(page.0) * filled / million;
        ((u64::from(page.0) + 1) * filled / million - before) as usize
    }

    /// Pages that a build needs for `rows` rows; none for no row.
    ///
    /// # Errors
    /// [`LayoutError::Rows`] where the node ids do not suffice.
    pub fn pages_for(&self, rows: u64) -> Result<u32, LayoutError> {
        if !self.holds(rows) {
            let slots = self.node_limit();
            return Err(LayoutError::Rows { rows, slots, edge_bytes: self.edge_bytes() });
        }
        let pages = u128::from(rows) * u128::from(FILL_ONE);
        let pages = pages.div_ceil(u128::from(self.filled_per_million_pages()));
        Ok(u32::try_from(pages).expect("the pages are below the layout's limit"))
    }

    /// The node that a build gives to the row at `position` of the layout order.
    ///
    /// # Panics
    /// Where the node ids do not suffice; [`pages_for`](Self::pages_for) tells.
    pub fn node_at(&self, position: u64) -> NodeId {
        assert!(position < self.node_limit(), "the position is below the layout's node limit");
        let last_filled = (position + 1) * u64::from(FILL_ONE) - 1;
        let page = PageId((last_filled / self.filled_per_million_pages()) as u32);
        self.node(page, (position - self.rows_before(page)) as usize)
    }
}

/// Records that fit in a page.
fn records_in(page_bytes: usize, record_bytes: usize) -> usize {
    (page_bytes.saturating_sub(page_header::BYTES) / record_bytes).min(MAX_RECORDS_PER_PAGE)
}

/// The smallest page that wastes little, else the one with the least waste per record.
fn preferred_page(record_bytes: usize) -> usize {
    let mut best: Option<(usize, usize)> = None;
    for page in (ALIGNMENT..=MAX_PACKED_PAGE_BYTES).step_by(ALIGNMENT) {
        let records = records_in(page, record_bytes);
        if records == 0 {
            continue;
        }
        let waste = page - records * record_bytes;
        if waste * 100 <= page * TOLERATED_WASTE_PERCENT {
            return page;
        }
        // Bytes per record of this page below those of the best, without dividing.
        if best.is_none_or(|(best_page, best_records)| page * best_records < best_page * records) {
            best = Some((page, records));
        }
    }
    let alone = (page_header::BYTES + record_bytes).next_multiple_of(ALIGNMENT);
    best.map_or(alone, |(page, _)| page)
}
