//! The head index: a small graph over a sample of the nodes, held in memory.
//!
//! It stores node ids and adjacency only and ranks by the resident codes, so it costs about
//! 130 bytes for one node in a hundred. A search on disk starts from what it finds.

use super::greedy::GreedyList;
use crate::quant::{CodesView, LookupTable, score_many};

/// A graph over sampled nodes. Positions count from 0 over the sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadIndex {
    nodes: Vec<u32>,
    max_degree: usize,
    degrees: Vec<u16>,
    adjacency: Vec<u32>,
    entry: u32,
}

/// Why parts make no head index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parts of a head index contradict each other: {what}")]
pub struct HeadPartsError {
    what: &'static str,
}

impl HeadIndex {
    /// Puts a head index together: node ids, entries of `adjacency` per node, edges in use per
    /// node, positions of neighbours, position of the start.
    ///
    /// # Errors
    /// [`HeadPartsError`] where lengths differ or a number is out of range.
    pub fn from_parts(
        nodes: Vec<u32>,
        max_degree: usize,
        degrees: Vec<u16>,
        adjacency: Vec<u32>,
        entry: u32,
    ) -> Result<Self, HeadPartsError> {
        let refuse = |what| Err(HeadPartsError { what });
        if degrees.len() != nodes.len() {
            return refuse("one degree per node");
        }
        if Some(adjacency.len()) != nodes.len().checked_mul(max_degree) {
            return refuse("as many adjacency entries per node as the largest degree");
        }
        if degrees.iter().any(|&d| usize::from(d) > max_degree) {
            return refuse("degrees up to the largest");
        }
        if adjacency.iter().any(|&n| n as usize >= nodes.len()) {
            return refuse("neighbours are positions in the sample");
        }
        if entry as usize >= nodes.len().max(1) {
            return refuse("the entry is a position in the sample");
        }
        Ok(Self { nodes, max_degree, degrees, adjacency, entry })
    }

    /// Node id of each position.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// Adjacency entries per node.
    pub fn max_degree(&self) -> usize {
        self.max_degree
    }

    /// Edges in use of each node.
    pub fn degrees(&self) -> &[u16] {
        &self.degrees
    }

    /// Positions of neighbours, [`max_degree`](Self::max_degree) for each node.
    pub fn adjacency(&self) -> &[u32] {
        &self.adjacency
    }

    /// Position where a search starts.
    pub fn entry(&self) -> u32 {
        self.entry
    }

    /// Bytes that it holds in memory.
    pub fn memory_bytes(&self) -> u64 {
        (self.nodes.len() * 6 + self.adjacency.len() * 4) as u64
    }

    fn neighbours(&self, position: u32) -> &[u32] {
        let first = position as usize * self.max_degree;
        &self.adjacency[first..first + usize::from(self.degrees[position as usize])]
    }

    /// The `list` nodes nearest by code that a greedy search finds, nearest first, as estimate
    /// and node id. Replaces what `out` held; with warm scratch nothing is allocated.
    ///
    /// # Panics
    /// Where a node of the head has no code in `codes`.
    pub fn search(
        &self,
        scratch: &mut HeadScratch,
        table: &LookupTable,
        codes: CodesView<'_>,
        list: usize,
        out: &mut Vec<(f32, u32)>,
    ) {
        let score = |ids: &[u32], scores: &mut [f32]| score_many(table, codes, ids, scores);
        self.search_by(scratch, list, score, out);
    }

    /// As [`search`](Self::search), where `score` ranks nodes by their ids.
    pub fn search_by(
        &self,
        scratch: &mut HeadScratch,
        list: usize,
        mut score: impl FnMut(&[u32], &mut [f32]),
        out: &mut Vec<(f32, u32)>,
    ) {
        out.clear();
        if self.nodes.is_empty() || list == 0 {
            return;
        }
        scratch.begin(self.nodes.len(), list);
        scratch.fresh.push(self.entry);
        scratch.mark(self.entry);
        loop {
            scratch.score(self, &mut score);
            let Some((_, position)) = scratch.list.take_next() else { break };
            scratch.fresh.clear();
            for &n in self.neighbours(position) {
                if scratch.mark(n) {
                    scratch.fresh.push(n);
                }
            }
        }
        let found = scratch.list.items().iter();
        out.extend(found.map(|c| (c.distance, self.nodes[c.node as usize])));
    }
}

/// Kept between searches of a head index; grows to what it needs.
pub struct HeadScratch {
    stamps: Vec<u16>,
    epoch: u16,
    list: GreedyList,
    fresh: Vec<u32>,
    ids: Vec<u32>,
    scores: Vec<f32>,
    scored: usize,
}

impl Default for HeadScratch {
    fn default() -> Self {
        Self::new()
    }
}

impl HeadScratch {
    /// Empty scratch.
    pub fn new() -> Self {
        Self {
            stamps: Vec::new(),
            epoch: 0,
            list: GreedyList::new(),
            fresh: Vec::new(),
            ids: Vec::new(),
            scores: Vec::new(),
            scored: 0,
        }
    }

    /// Nodes scored by the last search.
    pub fn scored(&self) -> usize {
        self.scored
    }

    fn begin(&mut self, nodes: usize, list: usize) {
        // A stamp of an earlier epoch means "not seen"; at the wrap all are wiped.
        self.epoch = self.epoch.wrapping_add(1);
        if self.stamps.len() != nodes || self.epoch == 0 {
            self.stamps.clear();
            self.stamps.resize(nodes, 0);
            self.epoch = 1;
        }
        self.list.reset(list);
        self.fresh.clear();
        self.scored = 0;
    }

    fn mark(&mut self, position: u32) -> bool {
        std::mem::replace(&mut self.stamps[position as usize], self.epoch) != self.epoch
    }

    fn score(&mut self, head: &HeadIndex, score: &mut impl FnMut(&[u32], &mut [f32])) {
        self.ids.clear();
        self.ids.extend(self.fresh.iter().map(|&p| head.nodes[p as usize]));
        self.scores.resize(self.ids.len().max(self.scores.len()), 0.0);
        let scores = &mut self.scores[..self.ids.len()];
        score(&self.ids, scores);
        self.scored += self.ids.len();
        for (&score, &position) in scores.iter().zip(&self.fresh) {
            self.list.insert(score, position);
        }
    }
}
