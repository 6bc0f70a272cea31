//! What `pipeann cluster count` is told.

use std::path::PathBuf;

use clap::Args;

use super::modes::{Choosing, Together};
use crate::columns::{ColumnArgs, FilterArgs};
use crate::opening::IndexArgs;
use crate::policy::PolicyArgs;
use crate::searching::lists;

/// Lengths of the candidate list that are counted where none are named and `--k` is not longer.
const USUAL_LISTS: [usize; 5] = [20, 30, 40, 60, 100];

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
    /// [default: those of 20,30,40,60,100 that --k results fit into]
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    list: Vec<usize>,
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

impl CountArgs {
    /// Lengths of the candidate list that are counted.
    pub(super) fn lists(&self) -> Vec<usize> {
        let each = self.modes.mode.and(self.modes.choosing.each);
        lists(&self.list, &USUAL_LISTS, each.map_or(self.k, |each| each as usize))
    }
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// `count` as it is called.
    #[derive(Debug, clap::Parser)]
    struct Called {
        #[command(flatten)]
        count: CountArgs,
    }

    #[test]
    fn the_usual_lists_are_those_that_the_results_fit_into() {
        let lists = |line: &str| {
            let words = ["count", "--index", "i", "--queries", "q.u8bin"].into_iter();
            let all = words.chain(line.split_whitespace());
            Called::try_parse_from(all).unwrap().count.lists()
        };
        assert_eq!(lists(""), [20, 30, 40, 60, 100]);
        assert_eq!(lists("--k 50"), [60, 100]);
        assert_eq!(lists("--k 200"), [200, 400]);
        assert_eq!(lists("--k 50 --list 20"), [20], "as it is named");
        assert_eq!(lists("--k 50 --mode scatter --each 40"), [40, 60, 100]);
    }
}
