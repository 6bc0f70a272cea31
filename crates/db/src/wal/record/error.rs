//! Why bytes are no record.

/// Why bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The payload ends inside a part.
    #[error("{part} needs {missing} more bytes than there are")]
    CutOff {
        /// Part that was being read.
        part: &'static str,
        /// Bytes that are missing.
        missing: u64,
    },
    /// The payload goes on after the record.
    #[error("{bytes} bytes follow the end of the record")]
    Trailing {
        /// Bytes too many.
        bytes: usize,
    },
}
