//! How many loads are remembered, and how long their names may be.

/// The most loads that are remembered.
pub const MAX_LOADS: usize = 4096;
/// The longest name of a load.
pub const MAX_LOAD_NAME_BYTES: usize = 255;
