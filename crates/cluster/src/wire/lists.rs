//! Lists inside messages, read where they lie.

/// How many servers a trace of a query may name: more hops than any budget allows.
pub const TRACE_MAX: usize = 1024;

/// A list of 32-bit numbers as little-endian bytes: partitions, or servers visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers<'a>(pub(super) &'a [u8]);

impl<'a> Numbers<'a> {
    /// Bytes that hold whole numbers; `None` where they do not.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        bytes.len().is_multiple_of(4).then_some(Self(bytes))
    }

    /// The bytes of these numbers.
    pub fn pack(numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
        numbers.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    /// The numbers in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.0
            .chunks_exact(4)
            .map(|chunk| u32::from_le_bytes(chunk.try_into().expect("chunks of four bytes")))
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.len() / 4
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// A row of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// From the query.
    pub distance: f32,
    /// The row.
    pub row: u64,
}

/// Rows of an answer, as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hits<'a>(pub(super) &'a [u8]);

impl<'a> Hits<'a> {
    /// Bytes of a hit.
    pub const BYTES: usize = 12;

    /// Bytes that hold whole hits; `None` where they do not.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        bytes.len().is_multiple_of(Self::BYTES).then_some(Self(bytes))
    }

    /// The bytes of these hits.
    pub fn pack(hits: impl IntoIterator<Item = Hit>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for hit in hits {
            bytes.extend_from_slice(&hit.distance.to_le_bytes());
            bytes.extend_from_slice(&hit.row.to_le_bytes());
        }
        bytes
    }

    /// The hits in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Hit> + 'a {
        self.0.chunks_exact(Self::BYTES).map(|chunk| {
            let (distance, row) = chunk.split_at(4);
            Hit {
                distance: f32::from_le_bytes(distance.try_into().expect("four bytes of twelve")),
                row: u64::from_le_bytes(row.try_into().expect("eight bytes of twelve")),
            }
        })
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.len() / Self::BYTES
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}
