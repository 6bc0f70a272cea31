//! What the room `update` needs of an open index beside searching it.

use super::Index;
use super::error::OpenError;
use super::tombstones::Tombstones;
use crate::format::Identity;
use crate::format::constants::ABSENT;
use crate::quant::CodesView;
use crate::search::CodeAccess;
use crate::types::NodeId;

impl Index {
    /// What checksums of this index are seeded with.
    pub(crate) fn identity(&self) -> Identity {
        self.pages.identity
    }

    /// All codes, those put for spare slots included. The caller has waited for them
    /// ([`wait_resident`](Self::wait_resident)).
    pub(crate) fn codes(&self) -> CodesView<'_> {
        self.codes.view()
    }

    /// Puts the code of a node that has none and that no edge leads to yet.
    ///
    /// # Panics
    /// Where codes are still missing, or the node is beyond the spare slots.
    pub(crate) fn put_code(&self, node: NodeId, code: &[u8]) {
        self.codes.put(node.0, code);
    }

    /// The deleted nodes of this generation, ascending.
    pub(crate) fn tombstones(&self) -> Vec<NodeId> {
        self.tombstones.as_ref().map_or_else(Vec::new, Tombstones::to_vec)
    }

    /// Physical page of each logical page of the first partition.
    pub(crate) fn page_map(&self) -> &[u32] {
        &self.pages.partitions[0].page_map
    }

    /// Node of each row from row 0 up, [`ABSENT`] where there is none, for an index of one
    /// partition.
    pub(crate) fn row_nodes(&self) -> Result<Vec<u32>, OpenError> {
        let whole = self.dense_row_map(&self.pages.partitions[0]);
        let whole = whole.map_err(|e| OpenError::of_read(&self.path, e))?;
        Ok(whole.unwrap_or_else(|| {
            let rows = u32::try_from(self.rows()).unwrap_or(ABSENT);
            (0..rows).collect()
        }))
    }
}
