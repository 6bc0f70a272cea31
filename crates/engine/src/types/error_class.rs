//! What the reader of an error should do about it.

/// What helps against an error; every public error of the engine answers with one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The same request may succeed later, unchanged.
    Retry,
    /// The request, a file's version or a setting has to change first.
    FixInput,
    /// The state is damaged or lost: stop, and restore or rebuild.
    Stop,
}
