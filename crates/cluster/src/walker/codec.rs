//! What a search is asked for and what it cost, as bytes: little-endian, of a fixed length but for the
//! filter at the end.

use std::ops::Bound;

use pipeann_engine::pool::FILTER_MAX;
use pipeann_engine::search::{DistanceRange, Policy, SearchParams, SearchStats};
use pipeann_engine::types::VectorType;

/// What is said of parameters that are none.
pub(super) const UNREADABLE: &str = "parameters that cannot be read";

/// What a search is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// Whether it begins where it came, as in BatANN, and not at the owner of its nearest entry.
    pub round_robin: bool,
    /// Of what the components of the query are: vectors of other types may have as many bytes.
    pub ty: VectorType,
    /// Distances that are answered.
    pub within: DistanceRange,
}

impl Asked {
    const BYTES: usize = 24;
    /// The longest of them, with the longest filter.
    pub const BYTES_MAX: usize = Self::BYTES + FILTER_MAX;

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
        out.push(u8::from(self.baton) | u8::from(self.round_robin) << 1);
        out.push(self.ty as u8);
        for end in [self.within.from, self.within.to] {
            let (kind, at) = match end {
                Bound::Unbounded => (0, 0.0),
                Bound::Included(at) => (1, at),
                Bound::Excluded(at) => (2, at),
            };
            out.push(kind);
            out.extend(f32::to_le_bytes(at));
        }
        out.extend(filter);
        out
    }

    /// How many candidates are looked through unless somebody says otherwise: a long list holds more
    /// that may be read at one server before the next, and where few rows are wanted, what is read out
    /// of turn is a larger part of all (docs/decisions/0041).
    pub fn look_ahead(k: u32, list: u32) -> u16 {
        let least = k.saturating_add(8) / 2;
        let ahead = (list / 5).max(least.min(8));
        u16::try_from(ahead).unwrap_or(u16::MAX).min(SearchParams::WIDTH_MAX)
    }

    /// Reads the bytes, and the filter behind them; `None` where they are none of these. Ranges are
    /// checked by the search.
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (bytes, filter) = bytes.split_first_chunk::<{ Self::BYTES }>()?;
        let long = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (baton, round_robin) = match bytes[12] {
            of @ 0..=3 => (of & 1 != 0, of & 2 != 0),
            _ => return None,
        };
        let ty = VectorType::from_code(bytes[13].into())?;
        let end = |at: usize| {
            let distance = f32::from_bits(long(at + 1));
            match bytes[at] {
                0 => Some(Bound::Unbounded),
                1 => Some(Bound::Included(distance)),
                2 => Some(Bound::Excluded(distance)),
                _ => None,
            }
        };
        let within = DistanceRange { from: end(14)?, to: end(19)? };
        let (k, list, width, ahead) = (long(0), long(4), short(8), short(10));
        Some((Self { k, list, width, ahead, baton, round_robin, ty, within }, filter))
    }

    /// Why it is refused by an index of vectors of another type.
    pub(super) fn other_type(&self, index: VectorType) -> String {
        format!("query has {} components, the index has {index}", self.ty)
    }

    /// As the engine has it.
    pub fn params(&self) -> SearchParams {
        let policy = if self.baton {
            Policy { ahead: self.ahead, ..Policy::baton(self.width) }
        } else {
            Policy::relay(self.width, self.ahead)
        };
        let policy = Policy { home: !self.round_robin, ..policy };
        let (k, list) = (self.k as usize, self.list as usize);
        SearchParams { k, list, policy, within: self.within, ..SearchParams::default() }
    }
}

/// How a search reads, as far as somebody says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadPolicy {
    /// Whether it reads in rounds, one record of each page, as BatANN does.
    pub baton: bool,
    /// Reads in flight.
    pub width: Option<u16>,
    /// Candidates looked through for one that can be read at this server.
    pub ahead: Option<u16>,
}

impl ReadPolicy {
    /// Reads in flight of the paper's search.
    const BATON_WIDTH: u16 = 64;

    /// Reads in flight, also where nobody says how many: two, and in rounds as many as in the paper.
    pub fn width(&self) -> u16 {
        self.width.unwrap_or(if self.baton { Self::BATON_WIDTH } else { 2 })
    }

    /// Candidates looked through, also where nobody says how many: by [`Asked::look_ahead`], and in rounds
    /// as many as are read, as the paper has one number for both.
    pub fn ahead(&self, k: u32, list: u32) -> u16 {
        let unless = || if self.baton { self.width() } else { Asked::look_ahead(k, list) };
        self.ahead.unwrap_or_else(unless)
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
