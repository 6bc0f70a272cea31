//! Options of Vamana, and why its defaults are what they are.

/// How to build the graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VamanaOptions {
    /// The most edges of a node.
    pub degree: usize,
    /// Candidate list of the search for neighbours.
    pub list: usize,
    /// Diversity slack of robust prune, on squared distances.
    pub alpha: f32,
    /// How often all rows are linked. The last pass inserts them with the full alpha, those before
    /// with 1. But for the inner product the first of several links rows to near ones that are found
    /// without a search, and the others search with two thirds of the list, though no less than the
    /// degree.
    pub passes: usize,
    /// Whether free places in a list are filled with the nearest nodes that were pruned.
    pub saturate: bool,
    /// Threads; 0 means one per CPU.
    pub threads: usize,
    /// Decides the order of insertion.
    pub seed: u64,
}

/// On a million SIFT rows these settings give at equal reads the recall of diskannpy's graph of the
/// same degree and list, on 120,000 sentence embeddings 0.005 less (docs/decisions/0004).
/// On 100,000 rows a second pass and full lists each raised the recall at equal reads.
impl Default for VamanaOptions {
    fn default() -> Self {
        Self { degree: 64, list: 96, alpha: 1.2, passes: 2, saturate: true, threads: 0, seed: 0 }
    }
}
