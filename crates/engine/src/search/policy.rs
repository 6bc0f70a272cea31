//! How a search orders reading and computing: the policies by name.

use std::str::FromStr;

use super::by_load::ByLoad;
use super::pace::PaceShare;
use super::param_error::ParamError;
use super::width::Width;

/// What happens first when several reads have finished together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issue {
    /// Issue one read, explore one node, and so on: no read misses the neighbours of more than
    /// `width` nodes.
    OneByOne,
    /// Fill the pipeline, then explore.
    Fill,
    /// Explore all that is at hand, then issue: a read is chosen knowing all there is to know.
    Informed,
}

/// How a search orders reading and computing.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Wait for all reads of a round before exploring any (best-first beam search).
    pub barrier: bool,
    /// Reads in flight.
    pub width: Width,
    /// Order of issuing and exploring; without effect under `barrier`.
    pub issue: Issue,
    /// Use every record of a page that was read, not only the wanted one.
    pub packed: bool,
    /// Seed the candidate list from the head index; otherwise from the medoid.
    pub head: bool,
    /// Leave out reads that will hardly change the answer, as judged by how exact the codes of
    /// this query have proved, and explore more of what was read instead. Without effect where
    /// there is an allow-set, and by inner product, where the way to the answer leads through
    /// nodes that are no nearer than what is known.
    pub early_stop: bool,
    /// What becomes of a dynamic width among other searches of the index that are under way when
    /// this one begins. Without effect on other widths.
    pub by_load: ByLoad,
    /// Walk the graph by exact distances where every page is in memory and nothing is read.
    /// Without effect elsewhere, and where there is an allow-set.
    pub in_memory: bool,
    /// Where only a part of the graph can be read here: how many of the nearest candidates worth a
    /// read are looked through for one of that part, before the search goes on where the nearest
    /// one is (BatANN's W). With 1 it reads in the order in which one server with all of it would.
    pub ahead: u16,
    /// Begin at the server whose page the nearest entry is of: it is handed over before anything is
    /// read. Without it a search begins wherever it came, as long as it finds something to read there
    /// (BatANN). Where several servers read all pages, each keeps other pages in memory by it.
    pub home: bool,
}

impl Policy {
    /// PipeSearch with dynamic width, issuing one by one.
    pub const fn pipe() -> Self {
        Self {
            barrier: false,
            width: Width::dynamic(),
            issue: Issue::OneByOne,
            packed: true,
            head: true,
            early_stop: true,
            by_load: ByLoad::Off,
            in_memory: true,
            ahead: 1,
            home: false,
        }
    }

    /// [`pipe`](Self::pipe) of a width that is learnt where it runs: waiting is spared where the
    /// device has room, and reads where it has none (docs/decisions/0036).
    pub fn auto() -> Self {
        Self { by_load: ByLoad::Share, ..Self::pipe() }
    }

    /// Narrows the policy of a search that begins while so many are under way, itself among them.
    pub(super) fn share(&mut self, searches: u32, share: PaceShare, page_bytes: usize) {
        let by_load = std::mem::take(&mut self.by_load);
        if let (true, Width::Dynamic { start, max, .. }) = (by_load != ByLoad::Off, &mut self.width)
        {
            (*start, *max) = by_load.widths((*start, *max), searches, share, page_bytes);
        }
    }

    /// Best-first beam search of a fixed width, using only the wanted record of each page.
    pub const fn beam(width: u16) -> Self {
        Self {
            barrier: true,
            width: Width::Fixed(width),
            issue: Issue::Fill,
            packed: false,
            head: true,
            early_stop: false,
            by_load: ByLoad::Off,
            in_memory: false,
            ahead: 1,
            home: false,
        }
    }

    /// PipeSearch over a graph that is cut over several servers: a search has `width` reads in
    /// flight, and goes on elsewhere when none of the `ahead` nearest candidates can be read here.
    /// What it looks ahead for saves hops between servers, and costs hardly any reads as long as
    /// few of them are in flight.
    pub fn relay(width: u16, ahead: u16) -> Self {
        Self {
            width: Width::Fixed(width),
            issue: Issue::Informed,
            in_memory: false,
            ahead,
            home: true,
            ..Self::pipe()
        }
    }

    /// The search of BatANN (section 4.4): best-first in rounds of up to `width` reads, chosen
    /// among the `width` nearest candidates, with one record of each page. Where it begins is ours
    /// ([`home`](Self::home)).
    pub fn baton(width: u16) -> Self {
        Self { ahead: width, home: true, ..Self::beam(width) }
    }

    /// Best-first search of a fixed width that uses every record of a page.
    pub fn page(width: u16) -> Self {
        Self { packed: true, early_stop: true, ..Self::beam(width) }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::auto()
    }
}

impl FromStr for Policy {
    type Err = ParamError;

    fn from_str(s: &str) -> Result<Self, ParamError> {
        match s {
            "auto" => Ok(Self::auto()),
            "pipe" => Ok(Self::pipe()),
            "beam" => Ok(Self::beam(8)),
            "page" => Ok(Self::page(4)),
            "relay" => Ok(Self::relay(2, 8)),
            "baton" => Ok(Self::baton(64)),
            _ => Err(ParamError::UnknownPolicy(s.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_is_shared_among_searches() {
        let shared = |mut policy: Policy, searches| {
            policy.share(searches, PaceShare::default(), 4096);
            policy
        };
        let widths = |searches| match shared(Policy::auto(), searches).width {
            Width::Dynamic { start, max, .. } => (start, max),
            other => panic!("{other:?} is not dynamic"),
        };
        assert_eq!([0, 1, 2, 3].map(widths), [(4, 32), (4, 32), (4, 16), (4, 10)]);
        assert_eq!([4, 16, 64, u32::MAX].map(widths), [(4, 8); 4]);
        let narrow = Policy {
            width: Width::Dynamic { start: 4, max: 6, converge_at: 5, keep_ratio: 0.9 },
            ..Policy::auto()
        };
        assert_eq!(shared(narrow, 64).width.max(), 6);
        assert_eq!(shared(Policy::auto(), 1), Policy::pipe());
        assert_eq!(shared(Policy::pipe(), 64), Policy::pipe());
        let fixed = Policy { width: Width::Fixed(9), ..Policy::auto() };
        assert_eq!(shared(fixed, 64).width, Width::Fixed(9));
    }
}
