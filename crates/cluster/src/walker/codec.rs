//! What a search is asked for and what it cost, as bytes: little-endian, of a fixed length but for the
//! filter at the end.

use pipeann_engine::search::{Policy, SearchParams, SearchStats};
use pipeann_engine::types::VectorType;

/// What a search is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Rows wanted.
    pub k: u32,
    /// Length of the candidate list.
    pub list: u32,
    /// Reads in flight.
    pub width: u16,
    /// Candidates looked through for one that can be read at this server.
    pub ahead: u16,
    /// Whether it reads in rounds, one record of each page, as BatANN does.
    pub baton: bool,
    /// Of what the components of the query are: vectors of other types may have as many bytes.
    pub ty: VectorType,
}

impl Asked {
    const BYTES: usize = 14;

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_among(&[])
    }

    /// The bytes, for a search among rows that pass a filter, in the words of the servers; among all
    /// where it is empty.
    pub fn encode_among(&self, filter: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::BYTES + filter.len());
        out.extend(self.k.to_le_bytes());
        out.extend(self.list.to_le_bytes());
        out.extend(self.width.to_le_bytes());
        out.extend(self.ahead.to_le_bytes());
        out.push(u8::from(self.baton));
        out.push(self.ty as u8);
        out.extend(filter);
        out
    }

    /// Reads the bytes, and the filter behind them; `None` where they are none of these. Ranges are
    /// checked by the search.
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (bytes, filter) = bytes.split_first_chunk::<{ Self::BYTES }>()?;
        let long = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let baton = match bytes[12] {
            0 => false,
            1 => true,
            _ => return None,
        };
        let ty = VectorType::from_code(bytes[13].into())?;
        let (k, list, width, ahead) = (long(0), long(4), short(8), short(10));
        Some((Self { k, list, width, ahead, baton, ty }, filter))
    }

    /// As the engine has it.
    pub fn params(&self) -> SearchParams {
        let policy = if self.baton {
            Policy { ahead: self.ahead, ..Policy::baton(self.width) }
        } else {
            Policy::relay(self.width, self.ahead)
        };
        let (k, list) = (self.k as usize, self.list as usize);
        SearchParams { k, list, policy, ..SearchParams::default() }
    }
}

/// What a search cost, on all servers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Pages read.
    pub reads: u32,
    /// Pages found in memory.
    pub from_memory: u32,
    /// Nodes whose neighbours were scored.
    pub explored: u32,
    /// Codes scored.
    pub codes: u32,
    /// Times that it went from one server to another.
    pub moves: u32,
}

impl Spent {
    const BYTES: usize = 20;

    pub(super) fn of(stats: &SearchStats) -> Self {
        let most = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            reads: most(stats.reads),
            from_memory: most(stats.resident_pages),
            explored: most(stats.hops),
            codes: most(stats.code_distances),
            moves: most(stats.moves),
        }
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_add(other.reads),
            from_memory: self.from_memory.saturating_add(other.from_memory),
            explored: self.explored.saturating_add(other.explored),
            codes: self.codes.saturating_add(other.codes),
            moves: self.moves.saturating_add(other.moves),
        }
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Self { reads, from_memory, explored, codes, moves } = *self;
        [reads, from_memory, explored, codes, moves]
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect()
    }

    /// Reads the bytes; `None` where they are none of these.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let long = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[4 * at + i]));
        let [reads, from_memory, explored, codes, moves] = [0, 1, 2, 3, 4].map(long);
        Some(Self { reads, from_memory, explored, codes, moves })
    }
}
