//! A graph that stands in an index, in files: to be laid out anew where memory is limited.
//!
//! Vectors and lists are put in their places in whatever order pages are read. The files stand beside
//! the index that is to be made and have no names, so that nothing is left of them. In memory are row
//! ids, and the node that each row was.

use std::path::Path;

use super::error::BuildError;
use super::spill::Spill;
use super::spooled::{SpooledRows, unnamed};
use crate::format::Manifest;
use crate::quant::Codebook;
use crate::types::RowId;

/// What an index holds, by the position of each row among all row ids in order.
pub struct StandingFiles {
    pub(super) manifest: Manifest,
    pub(super) codebook: Codebook,
    pub(super) ids: Vec<RowId>,
    pub(super) nodes: Vec<u32>,
    pub(super) start: u32,
    pub(super) vectors: SpooledRows,
    pub(super) lists: Spill,
}

impl StandingFiles {
    /// The manifest of where it stands.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Nothing yet of the rows `ids`, which ascend and have been the nodes `nodes`; searches begin at
    /// the position `start`. The files are beside the directory `index`, which is to be made.
    ///
    /// # Errors
    /// [`BuildError::Io`].
    pub fn create(
        index: &Path,
        manifest: Manifest,
        codebook: Codebook,
        (ids, nodes): (Vec<RowId>, Vec<u32>),
        start: u32,
    ) -> Result<Self, BuildError> {
        let layout = &manifest.layout;
        let vectors = SpooledRows::create(index, layout.dim(), layout.vector_type())?;
        let (file, path) = unnamed(index, "lists")?;
        let lists = Spill::placed(file, path, layout.max_degree(), ids.len());
        Ok(Self { manifest, codebook, ids, nodes, start, vectors, lists })
    }

    /// Nodes are below this.
    pub(super) fn slots(&self) -> u64 {
        self.nodes.iter().max().map_or(0, |last| u64::from(*last) + 1)
    }

    /// Puts the vector of a position and its edges to positions in their places.
    ///
    /// # Errors
    /// [`BuildError::Io`].
    pub fn put(&mut self, position: u32, vector: &[u8], edges: &[u32]) -> Result<(), BuildError> {
        self.vectors.put(position as usize, vector)?;
        self.lists.put(position, edges)
    }
}
