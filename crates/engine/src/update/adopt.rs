//! Linking rows by the edges that another index of the same rows has chosen for them.
//!
//! Most of what an insert costs is the search for its neighbours. Where several indexes hold the
//! same rows, each in a graph of its own, one of them may search and the others take its choice
//! over: told by rows, since nodes are numbered differently in each. A neighbour that is missing here
//! is left out, and where too many are, whoever asks searches as well.
//!
//! Lists that grow past their bound are pruned as in a replay: with the exact vectors of their own
//! page, and what the codes stand for elsewhere.

use super::error::UpdateError;
use super::generation::Generation;
use super::images::PageReader;
use super::insert::LinkedRow;
use super::live::LiveIndex;
use super::replay::REPLAY_CACHE_BYTES;
use crate::types::{NodeId, RowId};

/// How a row was linked, told by rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowLink {
    /// The row.
    pub row: RowId,
    /// The rows that it has edges to, nearest first.
    pub neighbours: Vec<RowId>,
    /// Those of `neighbours` that got an edge to it.
    pub back_edges: Vec<RowId>,
}

impl From<&LinkedRow> for RowLink {
    fn from(link: &LinkedRow) -> Self {
        let named = link.neighbours.iter().zip(&link.neighbour_rows);
        let back = named.filter(|(node, _)| link.back_edges.contains(node)).map(|(_, row)| *row);
        Self { row: link.row, neighbours: link.neighbour_rows.clone(), back_edges: back.collect() }
    }
}

/// Receives the outcome for one of the rows, by its place in the call: whether it is linked.
pub type AdoptedFn<'a> = dyn FnMut(usize, Result<bool, UpdateError>) + 'a;

impl LiveIndex {
    /// Links new rows by the edges that another index has chosen, in the order in which that one made
    /// them. Each comes with its vector. `adopted` gets the outcome for each: `true`, or `false` where
    /// more than half of its neighbours are not in this index, so that nothing was changed and the row
    /// is to be [inserted](Self::insert); or an error as of an insert.
    ///
    /// Checkpoints and consolidation wait until all are done: give some dozens of rows at a time.
    ///
    /// # Errors
    /// [`UpdateError::Poisoned`], and a broken I/O queue: rows without an outcome are not linked.
    pub fn adopt(
        &self,
        links: &[(&RowLink, &[u8])],
        adopted: &mut AdoptedFn<'_>,
    ) -> Result<(), UpdateError> {
        let _shared = self.shared_writer()?;
        let generation = self.current();
        let mut reader = PageReader::new(&generation.index, REPLAY_CACHE_BYTES)?;
        for (nth, (link, vector)) in links.iter().enumerate() {
            let outcome = generation.check_new(link.row, vector);
            adopted(nth, outcome.and_then(|()| generation.adopt(link, vector, &mut reader)));
        }
        Ok(())
    }
}

impl Generation {
    fn adopt(
        &self,
        link: &RowLink,
        vector: &[u8],
        reader: &mut PageReader,
    ) -> Result<bool, UpdateError> {
        let edges = self.nodes_of(&link.neighbours);
        if edges.is_empty() || edges.len() < link.neighbours.len() / 2 {
            return Ok(false);
        }
        let back = self.nodes_of(&link.back_edges);
        self.check_scale(link.row, vector)?;
        self.charge_record(back.len())?;
        let give_back = || self.patches.discharge(self.record_bytes(back.len()));
        let node = self.place(link.row, vector, &edges).inspect_err(|_| give_back())?;
        self.publish(link.row, node, vector, &edges);
        let mut is_found = false;
        for from in back {
            is_found |= self.adopt_edge(NodeId(from), node, reader);
        }
        if !is_found {
            self.insist_on_edge(NodeId(edges[0]), node);
        }
        self.note_linked(node);
        Ok(true)
    }

    /// The nodes of those rows that are here, each once, and no more than a node may have edges.
    fn nodes_of(&self, rows: &[RowId]) -> Vec<u32> {
        let most = self.layout().max_degree();
        let mut nodes = Vec::with_capacity(rows.len().min(most));
        for node in rows.iter().filter_map(|row| Some(self.rows.get(*row)?.0)) {
            if nodes.len() < most && !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }

    /// Adds the edge `from` -> `to`; false where a prune turned it away.
    fn adopt_edge(&self, from: NodeId, to: NodeId, reader: &mut PageReader) -> bool {
        !self.is_over(self.append_edge(from, to)) || self.is_kept(from, to, reader)
    }
}
