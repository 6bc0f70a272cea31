//! The pools that memory is held in.

/// What a reservation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Pool {
    /// Compressed vectors, and the codebook.
    Codes = 0,
    /// Adjacency and node ids of the head index.
    HeadIndex = 1,
    /// Where each logical page stands.
    PageMap = 2,
    /// Resident pages.
    PageCache = 3,
    /// Rows not linked into the graph yet, and deltas of linked ones.
    Pending = 4,
    /// Cached rows of the row store.
    RowStore = 5,
    /// Scalar indexes and signatures.
    Postings = 6,
    /// Per-query state, look-up tables and read buffers.
    QueryScratch = 7,
    /// Memory through which segments are copied to raw devices.
    Dma = 8,
}

impl Pool {
    /// All pools, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Codes,
        Self::HeadIndex,
        Self::PageMap,
        Self::PageCache,
        Self::Pending,
        Self::RowStore,
        Self::Postings,
        Self::QueryScratch,
        Self::Dma,
    ];

    /// The name shown in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Codes => "codes",
            Self::HeadIndex => "head_index",
            Self::PageMap => "page_map",
            Self::PageCache => "page_cache",
            Self::Pending => "pending",
            Self::RowStore => "row_store",
            Self::Postings => "postings",
            Self::QueryScratch => "query_scratch",
            Self::Dma => "dma",
        }
    }
}
