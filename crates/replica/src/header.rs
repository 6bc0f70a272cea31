//! What a generation says of itself beside its files: between which moments its contents end.

use serde::{Deserialize, Serialize};

use pipeann_store::Position;

/// Version of the header that this build writes.
const FORMAT: u32 = 1;

/// JSON, so that what a later version adds is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationHeader {
    format: u32,
    /// A timestamp at or behind that of the generation's position.
    timestamp: u64,
    /// Where the log certainly has all that the files have, beyond the position: term, number and
    /// timestamp. Absent where the server that published it did not lead any more.
    #[serde(default)]
    through: Option<(u64, u64, u64)>,
}

impl GenerationHeader {
    pub(crate) fn new(timestamp: u64, through: Option<(Position, u64)>) -> Self {
        let through = through.map(|(position, at)| (position.term, position.number, at));
        Self { format: FORMAT, timestamp, through }
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        serde_json::to_vec(&self).expect("numbers are always JSON")
    }

    /// Reads the header of a generation; `None` for one that is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|header: &Self| header.format >= FORMAT)
    }

    /// A timestamp at or behind that of the generation's position.
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The last position of the log of which its files may have something, and its timestamp, where
    /// that is known.
    pub fn through(&self) -> Option<(Position, u64)> {
        self.through.map(|(term, number, at)| (Position { term, number }, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_later_fields_are_passed_over() {
        let through = Some((Position { term: 2, number: 9 }, 77));
        let header = GenerationHeader::new(70, through);
        assert_eq!(GenerationHeader::decode(&header.encode()), Some(header));
        assert_eq!((header.timestamp(), header.through()), (70, through));
        let later = br#"{"format":2,"timestamp":5,"more":[]}"#;
        assert_eq!(GenerationHeader::decode(later).unwrap().through(), None);
        for none in [&b""[..], b"{}", b"[1]", br#"{"format":0,"timestamp":5}"#] {
            assert_eq!(GenerationHeader::decode(none), None);
        }
    }
}
