//! Adjacency lists of bounded degree in one flat array.
//!
//! A row is `max_degree + 1` words: the degree, then the neighbours. Rows are allocated for
//! their maximum at once, so that a node's list is found by arithmetic and a billion nodes
//! cost no allocator metadata.

/// The out-edges of every node, at most [`max_degree`](Self::max_degree) each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adjacency {
    words: Vec<u32>,
    stride: usize,
}

impl Adjacency {
    /// `nodes` nodes without edges.
    pub fn new(nodes: usize, max_degree: usize) -> Self {
        Self { words: vec![0; nodes * (max_degree + 1)], stride: max_degree + 1 }
    }

    /// Takes rows of `max_degree + 1` words: degree, then neighbours.
    pub(crate) fn from_rows(words: Vec<u32>, max_degree: usize) -> Self {
        debug_assert!(words.len().is_multiple_of(max_degree + 1), "rows are whole");
        Self { words, stride: max_degree + 1 }
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.words.len() / self.stride
    }

    /// The most edges that a node can have.
    pub fn max_degree(&self) -> usize {
        self.stride - 1
    }

    /// The targets of node `i`'s edges.
    #[inline]
    pub fn neighbours(&self, i: usize) -> &[u32] {
        let row = &self.words[i * self.stride..(i + 1) * self.stride];
        &row[1..=row[0] as usize]
    }

    /// Replaces the edges of node `i`.
    ///
    /// # Panics
    /// Where `edges` are more than the maximum degree.
    pub fn set(&mut self, i: usize, edges: &[u32]) {
        let row = &mut self.words[i * self.stride..(i + 1) * self.stride];
        row[0] = edges.len() as u32;
        row[1..=edges.len()].copy_from_slice(edges);
    }

    /// Edges in total.
    pub fn edges(&self) -> u64 {
        (0..self.nodes()).map(|i| u64::from(self.words[i * self.stride])).sum()
    }
}
