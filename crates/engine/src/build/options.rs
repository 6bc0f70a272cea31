//! What a build can be told.

use super::error::BuildError;
use super::vamana_options::VamanaOptions;
use crate::quant::CodeKind;
use crate::types::Metric;

/// The longest candidate list: every thread has room for it, and longer ones gain nothing.
pub(crate) const MOST_LIST: usize = 65_536;
/// The most passes over all rows.
pub(crate) const MOST_PASSES: usize = 255;

/// The head index: a graph over a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadOptions {
    /// Share of the rows in the sample; at least a handful are taken.
    pub fraction: f64,
    /// The most edges of a node.
    pub degree: usize,
    /// Candidate list while building.
    pub list: usize,
}

impl Default for HeadOptions {
    fn default() -> Self {
        Self { fraction: 0.01, degree: 32, list: 64 }
    }
}

/// By what rows come into partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartitionBy {
    /// The graph of near neighbours: cut where it has fewest edges (Gottesbueren et al., 2024).
    #[default]
    Graph,
    /// The nearest of as many centres, which are rows, as far as there is room: balanced k-medoids.
    Kmeans,
    /// Chance: what others are compared with.
    Random,
    /// The order of pages: equal ranges of it, which keep together what shares pages and nothing
    /// beyond.
    Order,
}

impl PartitionBy {
    /// All, by name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("graph", Self::Graph),
        ("kmeans", Self::Kmeans),
        ("random", Self::Random),
        ("order", Self::Order),
    ];
}

impl std::str::FromStr for PartitionBy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, by)| by).ok_or_else(|| {
            let names = Self::ALL.map(|(known, _)| known).join(", ");
            format!("`{name}` is no way to partition; known are {names}")
        })
    }
}

/// How to build an index.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildOptions {
    /// How vectors are compared.
    pub metric: Metric,
    /// The graph, and the threads and the seed of the whole build.
    pub graph: VamanaOptions,
    /// What in-memory codes are made of.
    pub codes: CodeKind,
    /// Bytes of an in-memory code, at most; `None`: by the dimension and `search_memory`, see
    /// [`chosen_code_bytes`](crate::quant::chosen_code_bytes).
    pub code_bytes: Option<usize>,
    /// Codes for rows whose lengths lie orders apart, whatever the rows of now are like. A build
    /// makes them in any case where others would lose rows that it has.
    pub any_scale: bool,
    /// Bytes of memory that searches of the index will have, where it is known. Where not even the
    /// shortest codes fit into it, and `code_bytes` names none, nothing is built.
    pub search_memory: Option<u64>,
    /// The head index.
    pub head: HeadOptions,
    /// Share of the records of a page in use after the build, above 0 and at most 1.
    pub fill: f64,
    /// Page size in bytes, a multiple of 4096; `None`: from the record's size.
    pub page_bytes: Option<usize>,
    /// Partitions: contiguous ranges of pages, each in a directory of its own.
    pub partitions: usize,
    /// By what rows come into partitions, where there are several.
    pub partition_by: PartitionBy,
    /// Whether an index that stands in the directory is replaced.
    pub overwrite: bool,
}

impl BuildOptions {
    /// The defaults for `metric`.
    pub fn new(metric: Metric) -> Self {
        Self {
            metric,
            graph: VamanaOptions::default(),
            codes: CodeKind::Product,
            code_bytes: None,
            any_scale: false,
            search_memory: None,
            head: HeadOptions::default(),
            fill: 0.96,
            page_bytes: None,
            partitions: 1,
            partition_by: PartitionBy::default(),
            overwrite: false,
        }
    }

    /// Refuses what no build can be made with; the page layout is checked with the input.
    pub(crate) fn check(&self, dim: usize) -> Result<(), BuildError> {
        let refuse = |option, why| Err(BuildError::Option { option, why });
        if self.graph.degree == 0 || self.head.degree == 0 {
            return refuse("degree", "it must be at least 1");
        }
        if self.graph.degree > 1024 || self.head.degree > 1024 {
            return refuse("degree", "it must be at most 1024");
        }
        if self.graph.list == 0 || self.head.list == 0 {
            return refuse("list", "it must be at least 1");
        }
        if self.graph.list > MOST_LIST || self.head.list > MOST_LIST {
            return refuse("list", "it must be at most 65536");
        }
        if !(self.graph.alpha.is_finite() && self.graph.alpha >= 1.0) {
            return refuse("alpha", "it must be a finite number of at least 1");
        }
        if self.graph.passes == 0 {
            return refuse("passes", "there must be at least 1");
        }
        if self.graph.passes > MOST_PASSES {
            return refuse("passes", "there must be at most 255");
        }
        if self.partitions == 0 || self.partitions > 10_000 {
            return refuse("partitions", "there must be 1 to 10000");
        }
        let cuts = self.partitions > 1 && self.partition_by == PartitionBy::Graph;
        if cuts && cfg!(not(feature = "partitioner")) {
            let why = "`graph` needs a build of this program with its feature `partitioner`";
            return refuse("partition-by", why);
        }
        if !(self.head.fraction >= 0.0 && self.head.fraction <= 1.0) {
            return refuse("head fraction", "it must be between 0 and 1");
        }
        if let Some(asked) = self.code_bytes {
            let (least, most) = self.codes.code_bytes_range(dim);
            if !(least..=most).contains(&asked) {
                return Err(BuildError::CodeBytes { kind: self.codes, dim, asked, least, most });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_passes_beyond_what_threads_have_room_for_are_refused_by_name() {
        let refused = |change: &dyn Fn(&mut BuildOptions)| {
            let mut options = BuildOptions::new(Metric::L2);
            change(&mut options);
            match options.check(16) {
                Err(BuildError::Option { option, .. }) => Some(option),
                checked => checked.map(|()| None).expect("no other refusal"),
            }
        };
        assert_eq!(refused(&|o| o.graph.list = MOST_LIST), None);
        for list in [MOST_LIST + 1, 1 << 32, usize::MAX] {
            assert_eq!(refused(&|o| o.graph.list = list), Some("list"), "{list}");
            assert_eq!(refused(&|o| o.head.list = list), Some("list"), "{list}");
        }
        assert_eq!(refused(&|o| o.graph.passes = MOST_PASSES), None);
        assert_eq!(refused(&|o| o.graph.passes = MOST_PASSES + 1), Some("passes"));
    }
}
