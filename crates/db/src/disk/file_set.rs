//! Which files a component consists of at one moment.
//!
//! A component's directory holds a few small files that are replaced whole, and many that never
//! change once one of the small ones names them. Whoever reads the small ones, gives the others a
//! second name, and then finds the small ones unchanged has all files of one moment, without any
//! agreement with the process that writes.

/// See the module's description. Paths are relative to the component's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSet {
    /// Files that are replaced whole, with their bytes.
    pub manifests: Vec<(String, Vec<u8>)>,
    /// Files that these name.
    pub named: Vec<ImmutableFile>,
}

/// A file that never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImmutableFile {
    /// Where it is.
    pub path: String,
    /// XXH3-128 of its bytes, where the one who names it says so.
    pub xxh3: Option<u128>,
}
