//! A seed, and where seeds are collected.

/// An input: its target, its name and its bytes.
#[derive(Clone, Debug)]
pub struct Seed {
    /// Name of the target.
    pub target: &'static str,
    /// Name of the file.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// Collects seeds.
pub(super) struct Seeds(pub(super) Vec<Seed>);

impl Seeds {
    pub(super) fn add(
        &mut self,
        target: &'static str,
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
    ) {
        self.0.push(Seed { target, name: name.into(), bytes: bytes.into() });
    }
}
