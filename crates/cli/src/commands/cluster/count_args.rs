//! What `pipeann cluster count` is told.

use std::path::PathBuf;

use clap::Args;

use super::modes::{Choosing, Together};
use crate::columns::{ColumnArgs, FilterArgs};
use crate::opening::IndexArgs;
use crate::policy::PolicyArgs;

/// Count what searches of a cluster would read, and how often and in how many bytes they would go
/// from server to server
///
/// The servers are threads of this process, each of which reads the pages of its own partitions
/// alone. Counts are exact: they do not depend on how messages travel. Times say nothing here and
/// are not told. Where one server comes first, the others tell how many queries differ from it: by
/// their hits, or by the pages read and nodes explored. Queries come to the servers in turn; a first hop
/// to where the entry is, before anything was read, is told apart: who asks with the head index at hand
/// does without it. --begin says whether a search begins there or wherever it came. skew is the most
/// pages that one server read over the mean of all.
///
/// With --mode every message is counted as its frame would be sent, those from and to the client among
/// them, in rounds that the client waits for; --width and --ahead say how a mode searches.
#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(super) index: IndexArgs,
    /// Queries: .fbin, .f16bin, .bf16bin, .u8bin, .i8bin, .bbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE")]
    pub(super) queries: PathBuf,
    /// Exact truth of these queries, as `pipeann gt` writes it, or .ivecs
    #[arg(long, value_name = "FILE")]
    pub(super) truth: Option<PathBuf>,
    /// Results for each query
    #[arg(long, default_value_t = 10)]
    pub(super) k: usize,
    /// Servers, which share the partitions of the index in order
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_value = "1,2,5,10")]
    pub(super) servers: Vec<usize>,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    pub(super) modes: ModeArgs,
    #[command(flatten)]
    pub(super) columns: ColumnArgs,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    /// Lengths of the candidate list: longer finds more and reads more
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_value = "20,30,40,60,100")]
    pub(super) list: Vec<usize>,
    /// Codes that are ranked in the time of one page read, which decides whether a search among few
    /// rows ranks them all or walks the graph. Searches outside of counts learn it from themselves
    #[arg(long, value_name = "N", default_value_t = 2500)]
    pub(super) codes_per_read: u32,
    /// Use only the first queries
    #[arg(long, value_name = "N")]
    pub(super) limit_queries: Option<usize>,
    /// Print one JSON object for each line
    #[arg(long)]
    pub(super) json: bool,
    /// With --json and without --mode, also tell the rows and distances that each query found, and the
    /// pages it read
    #[arg(long, requires = "json", conflicts_with = "mode")]
    pub(super) hits: bool,
}

/// Which mode is counted, and what it needs.
#[derive(Clone, Debug, Args)]
pub(super) struct ModeArgs {
    /// Count every message of this mode [default: hops of searches that are passed on]
    #[arg(long, value_enum)]
    pub(super) mode: Option<Together>,
    #[command(flatten)]
    pub(super) choosing: Choosing,
    /// With --mode scatter: directory of indexes of servers' own rows, as `split` makes it for as many
    /// servers
    #[arg(long, value_name = "DIR")]
    pub(super) separate: Option<PathBuf>,
}
