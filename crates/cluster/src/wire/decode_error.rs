//! Why bytes are no message.

/// What is wrong with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The body ends before its message.
    #[error("ends before its last field")]
    Short,
    /// The message ends before its body.
    #[error("goes on behind its last field")]
    Long,
    /// A field has a value that none may have.
    #[error("{0} has an unknown value")]
    Value(&'static str),
    /// A list is longer than any may be.
    #[error("{0} is too long")]
    TooMany(&'static str),
    /// Text is not UTF-8.
    #[error("text is not UTF-8")]
    Text,
    /// Bytes that have to be zero are not.
    #[error("reserved bytes are not zero")]
    Reserved,
}
