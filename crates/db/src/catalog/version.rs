//! The version of the file, which its bytes and its errors tell.

/// Version that this build writes. It reads version 2 as well, which no changes follow, and version
/// 1, under which vectors of some kinds stood in rows, where no field is of such a kind.
pub const CATALOG_VERSION: u32 = 3;
