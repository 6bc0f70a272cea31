//! The body of the head index file: nodes, degrees and adjacency as plain numbers.
//!
//! How the head index is built and searched belongs to the room `graph`. The adjacency has
//! `max_degree` entries for each node also on disk, so that decoding allocates no more than
//! there are bytes.

use super::bytes::{OutOfBytes, Reader, get_u32, put, u32s};
use super::constants::{MAX_DEGREE, head_start as start};
use super::error::FormatError;
use super::file_kind::FileKind;

/// A head index in parts. Positions count from 0 over `nodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadParts {
    /// Node id of each head node.
    pub nodes: Vec<u32>,
    /// Entries of `adjacency` for each node.
    pub max_degree: u32,
    /// Edges in use of each node.
    pub degrees: Vec<u16>,
    /// Positions of neighbours, `max_degree` for each node; those beyond the degree are 0.
    pub adjacency: Vec<u32>,
    /// Position where a search starts; 0 in an empty head index.
    pub entry: u32,
}

impl HeadParts {
    /// The body's bytes.
    ///
    /// # Errors
    /// [`FormatError`] where the parts contradict each other.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        self.validate(u64::from(u32::MAX))?;
        let n = self.nodes.len();
        let mut out = vec![0; start::BYTES];
        put(&mut out, start::NODE_COUNT, &(n as u32).to_le_bytes());
        put(&mut out, start::MAX_DEGREE, &self.max_degree.to_le_bytes());
        put(&mut out, start::ENTRY, &self.entry.to_le_bytes());
        out.reserve_exact(n * 6 + self.adjacency.len() * 4);
        out.extend(self.nodes.iter().flat_map(|node| node.to_le_bytes()));
        out.extend(self.degrees.iter().flat_map(|degree| degree.to_le_bytes()));
        out.extend(self.adjacency.iter().flat_map(|position| position.to_le_bytes()));
        Ok(out)
    }

    /// Reads a body. Every node is below `node_limit` (slots of the index), every degree and
    /// position in range, or the body is refused.
    ///
    /// # Errors
    /// [`FormatError`] where the body is cut off, too long or a number out of range.
    pub fn decode(body: &[u8], node_limit: u64) -> Result<Self, FormatError> {
        let kind = FileKind::Head;
        let cut = |part| move |OutOfBytes| FormatError::CutOff { kind, part };
        let mut reader = Reader::new(body);
        let head = reader.take(start::BYTES).map_err(cut("the start"))?;
        let n = get_u32(head, start::NODE_COUNT) as usize;
        let max_degree = get_u32(head, start::MAX_DEGREE);
        if max_degree as usize > MAX_DEGREE {
            let expected = format!("at most {MAX_DEGREE}");
            return Err(FormatError::value(kind, "max degree", expected, max_degree));
        }
        let reserved = get_u32(head, start::RESERVED);
        if reserved != 0 {
            return Err(FormatError::value(kind, "reserved", 0, reserved));
        }
        // Saturated lengths are longer than any body.
        let nodes = reader.take(n.saturating_mul(4)).map_err(cut("the nodes"))?;
        let degrees = reader.take(n.saturating_mul(2)).map_err(cut("the degrees"))?;
        let adjacency = n.saturating_mul(max_degree as usize).saturating_mul(4);
        let adjacency = reader.take(adjacency).map_err(cut("the adjacency"))?;
        if reader.remaining() != 0 {
            let found = body.len() as u64;
            let expected = found - reader.remaining() as u64;
            return Err(FormatError::Length { kind, expected, found });
        }
        let parts = Self {
            nodes: u32s(nodes).collect(),
            max_degree,
            degrees: degrees.as_chunks::<2>().0.iter().map(|d| u16::from_le_bytes(*d)).collect(),
            adjacency: u32s(adjacency).collect(),
            entry: get_u32(head, start::ENTRY),
        };
        parts.validate(node_limit)?;
        Ok(parts)
    }

    fn validate(&self, node_limit: u64) -> Result<(), FormatError> {
        let n = self.nodes.len();
        let max_degree = self.max_degree as usize;
        let wrong = |field, expected: String, found: u64| {
            Err(FormatError::value(FileKind::Head, field, expected, found))
        };
        if max_degree > MAX_DEGREE {
            return wrong("max degree", format!("at most {MAX_DEGREE}"), max_degree as u64);
        }
        if u32::try_from(n).is_err() {
            return wrong("nodes", "a u32".into(), n as u64);
        }
        if self.degrees.len() != n {
            return wrong("number of degrees", n.to_string(), self.degrees.len() as u64);
        }
        if self.adjacency.len() != n * max_degree {
            let expected = n * max_degree;
            return wrong("adjacency", expected.to_string(), self.adjacency.len() as u64);
        }
        if self.entry as usize >= n.max(1) {
            return wrong("entry", format!("below {n}"), u64::from(self.entry));
        }
        if let Some(&node) = self.nodes.iter().find(|&&node| u64::from(node) >= node_limit) {
            return wrong("node", format!("below {node_limit}"), u64::from(node));
        }
        if let Some(&degree) = self.degrees.iter().find(|&&degree| degree as usize > max_degree) {
            return wrong("degree", format!("at most {max_degree}"), u64::from(degree));
        }
        if let Some(&position) = self.adjacency.iter().find(|&&position| position as usize >= n) {
            return wrong("neighbour", format!("below {n}"), u64::from(position));
        }
        Ok(())
    }
}
