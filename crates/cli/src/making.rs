//! What `build` and `import-diskann` share: options of the index that is made, and telling of it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use pipeann_engine::build::{BuildOptions, PartitionBy, VamanaOptions};
use pipeann_engine::quant::CodeKind;
use pipeann_engine::types::Metric;

use crate::building::Built;
use crate::opening::parse_limit;
use crate::table::{print_json, print_line, print_pairs};

/// An index that is made, whatever its graph comes from.
#[derive(Debug, Args)]
pub(crate) struct MakingArgs {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// What in-memory codes are made of: pq, 256 trained centroids for each byte, or rabitq, some
    /// bits of each component, without training
    #[arg(long, value_name = "KIND", default_value_t = CodeKind::Product)]
    codes: CodeKind,
    /// Most bytes of the in-memory code of a vector; rabitq takes an eighth of the dimension for
    /// each bit and 8 [default: by the dimension (pq: 32 up to 256, then one for eight components;
    /// rabitq: 4 bits) and by --search-memory]
    #[arg(long, value_name = "BYTES")]
    code_bytes: Option<usize>,
    /// Codes for rows whose lengths lie orders apart (rabitq about the origin), which are made in any
    /// case where others would lose rows that are there: for what will be inserted
    #[arg(long)]
    any_scale: bool,
    /// Memory that searches will have, as 512MiB: where --code-bytes does not say it, codes are as
    /// long as that allows, at most one byte for two components
    #[arg(long, value_name = "LIMIT", value_parser = parse_limit)]
    search_memory: Option<u64>,
    /// Threads; 0 for one on each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Partition directories, each of which can be on a server of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    partitions: usize,
    /// What rows of a partition have in common: graph (near neighbours), kmeans, random, or order
    /// (of pages)
    #[arg(long, value_name = "HOW", default_value = "graph")]
    partition_by: PartitionBy,
    /// Bytes of a page, a multiple of 4096 [default: by the record]
    #[arg(long, value_name = "BYTES")]
    page_bytes: Option<usize>,
    /// Share of a page's records in use at first
    #[arg(long, value_name = "SHARE", default_value_t = 0.96)]
    fill: f64,
    /// Decides all that is random
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Replace an index that stands in the directory
    #[arg(long)]
    overwrite: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

impl MakingArgs {
    /// Directory of the index.
    pub(crate) fn index(&self) -> &Path {
        &self.index
    }

    /// Options of a build with a graph as `graph` says, whose threads and seed are those given.
    pub(crate) fn options(&self, metric: Metric, graph: VamanaOptions) -> BuildOptions {
        BuildOptions {
            graph: VamanaOptions { threads: self.threads, seed: self.seed, ..graph },
            codes: self.codes,
            code_bytes: self.code_bytes,
            any_scale: self.any_scale,
            search_memory: self.search_memory,
            fill: self.fill,
            page_bytes: self.page_bytes,
            partitions: self.partitions,
            partition_by: self.partition_by,
            overwrite: self.overwrite,
            ..BuildOptions::new(metric)
        }
    }

    /// Tells what was made, and how to search it.
    pub(crate) fn tell(&self, built: &Built) -> Result<()> {
        if self.json {
            return print_json(&built.json());
        }
        print_pairs(&built.pairs())?;
        print_line(&format!(
            "search it: pipeann search --index {} --queries FILE --k 10",
            self.index.display()
        ))
    }
}
