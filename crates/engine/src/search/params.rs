//! What a caller chooses about a search: result count, list length, and the policy by name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::by_load::ByLoad;
use super::owned::Owned;
use super::pace::PaceShare;
use super::within::DistanceRange;

/// How wide the pipeline of reads is.
#[derive(Clone, Debug, PartialEq)]
pub enum Width {
    /// Always this many reads in flight.
    Fixed(u16),
    /// `start` reads during the approach phase. From the moment that the nearest unread
    /// candidate stands at position `converge_at` or later, one more for every round in which
    /// at least `keep_ratio` of the finished reads were still in the candidate list, up to `max`.
    Dynamic {
        /// Width of the approach phase.
        start: u16,
        /// Widest allowed.
        max: u16,
        /// Position that begins the converge phase.
        converge_at: u16,
        /// Share of useful reads that widens the pipeline.
        keep_ratio: f32,
    },
    /// Pairs of (position of the nearest unread candidate, width from there on), ascending; from
    /// a profile of the data set.
    Table(Arc<[(u16, u16)]>),
}

impl Width {
    /// The dynamic width with the values of the paper (sections 4.2.2 and 4.2.3).
    pub const fn dynamic() -> Self {
        Self::Dynamic { start: 4, max: 32, converge_at: 5, keep_ratio: 0.9 }
    }

    pub(super) fn start(&self) -> u16 {
        match self {
            Self::Fixed(w) => *w,
            Self::Dynamic { start, .. } => *start,
            Self::Table(table) => table.first().map_or(1, |&(_, w)| w),
        }
    }

    /// The widest that this choice can become.
    pub fn max(&self) -> u16 {
        match self {
            Self::Fixed(w) => *w,
            Self::Dynamic { start, max, .. } => *start.max(max),
            Self::Table(table) => table.iter().map(|&(_, w)| w).max().unwrap_or(1),
        }
    }
}

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
    /// Where several servers read all pages: begin at the one whose pages the nearest entry is of, so
    /// that each keeps other pages in memory.
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
            ..Self::pipe()
        }
    }

    /// The search of BatANN (section 4.4): best-first in rounds of up to `width` reads, chosen
    /// among the `width` nearest candidates, with one record of each page.
    pub fn baton(width: u16) -> Self {
        Self { ahead: width, ..Self::beam(width) }
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

/// Candidates explored beyond the list at most; keeps the portable state of a list of 200 within
/// 8 KiB.
const WIDER_AT_MOST: usize = 128;

/// Parameters of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchParams {
    /// Results wanted.
    pub k: usize,
    /// Length of the candidate list (L): longer finds more and reads more. At least `k`. With
    /// [`Policy::early_stop`] it sets the recall, about the one that reading the nearest L
    /// candidates would give, and not how many are read.
    pub list: usize,
    /// Length of the list in the head index.
    pub head_list: usize,
    /// Candidates remembered beyond the list, so that a search continued for further results
    /// need not read again.
    pub reserve: usize,
    /// Distances that are answered. Where there is a far end, `k` is but a limit: what is read
    /// depends on what lies within, and the list has to be as long only as there are candidates;
    /// but where a search does not stop early, all of the list is read once something is found.
    pub within: DistanceRange,
    /// Pages that nobody can be asked for: what lies there is passed over, and is in no answer.
    pub without: Owned,
    /// How reading and computing are ordered.
    pub policy: Policy,
}

impl Default for SearchParams {
    fn default() -> Self {
        Self {
            k: 10,
            list: 64,
            head_list: 10,
            reserve: 0,
            within: DistanceRange::default(),
            without: Owned::default(),
            policy: Policy::default(),
        }
    }
}

impl SearchParams {
    /// Most results and the longest candidate list allowed.
    pub const LIST_MAX: usize = 65_536;
    /// Widest pipeline allowed.
    pub const WIDTH_MAX: u16 = 512;

    /// The same with a longer list, for a search that was [cut short](super::SearchStats::cut_short);
    /// `None` where it is the longest already.
    pub fn longer(&self) -> Option<Self> {
        let list = self.list.saturating_mul(4).min(Self::LIST_MAX);
        (list > self.list).then(|| Self { list, ..self.clone() })
    }

    /// How many candidates are explored where their records are at hand. Exploring costs no read,
    /// so where reads are chosen by their worth more is explored than the list is long.
    pub(super) fn window(&self) -> usize {
        if self.policy.early_stop { self.widest() } else { self.list }
    }

    /// How many candidates are explored where every page is in memory: half as many again as the
    /// list is long find no less than a search from disk with the same list.
    pub(super) fn window_in_memory(&self) -> usize {
        self.list + self.list / 2
    }

    /// Most candidates that a search chooses its reads from.
    pub(super) fn widest(&self) -> usize {
        self.list + (2 * self.list).min(WIDER_AT_MOST)
    }

    /// Checks the parameters against each other.
    ///
    /// # Errors
    /// [`ParamError`] that names the first parameter out of range.
    pub fn validate(&self) -> Result<(), ParamError> {
        if self.k == 0 || self.k > Self::LIST_MAX {
            return Err(ParamError::Range {
                name: "k",
                value: self.k,
                min: 1,
                max: Self::LIST_MAX,
            });
        }
        if self.list < self.k || self.list > Self::LIST_MAX {
            let (value, min) = (self.list, self.k);
            return Err(ParamError::Range { name: "list", value, min, max: Self::LIST_MAX });
        }
        if self.head_list == 0 || self.head_list > 1024 {
            let value = self.head_list;
            return Err(ParamError::Range { name: "head_list", value, min: 1, max: 1024 });
        }
        if self.reserve > Self::LIST_MAX {
            let (value, max) = (self.reserve, Self::LIST_MAX);
            return Err(ParamError::Range { name: "reserve", value, min: 0, max });
        }
        if self.policy.ahead == 0 || self.policy.ahead > Self::WIDTH_MAX {
            let (value, max) = (self.policy.ahead.into(), Self::WIDTH_MAX.into());
            return Err(ParamError::Range { name: "ahead", value, min: 1, max });
        }
        if !self.within.is_sound() {
            return Err(ParamError::Distances);
        }
        let (start, max) = (self.policy.width.start(), self.policy.width.max());
        if start == 0 || max > Self::WIDTH_MAX {
            let value = if start == 0 { 0 } else { max } as usize;
            let max = Self::WIDTH_MAX as usize;
            return Err(ParamError::Range { name: "width", value, min: 1, max });
        }
        Ok(())
    }
}

/// A parameter that cannot be used. The caller has to change the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamError {
    /// A number out of range.
    Range {
        /// The parameter.
        name: &'static str,
        /// Value given.
        value: usize,
        /// Smallest allowed here.
        min: usize,
        /// Largest allowed here.
        max: usize,
    },
    /// An end of the range of distances is no number.
    Distances,
    /// Steps that make no table of widths; says what is wrong with them.
    WidthSteps(String),
    /// No policy of this name.
    UnknownPolicy(String),
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { name, value, min, max } => {
                write!(f, "{name} is {value}, but must be from {min} to {max}")
            }
            Self::Distances => f.write_str("an end of the range of distances is NaN"),
            Self::WidthSteps(why) => write!(f, "no table of widths by searches: {why}"),
            Self::UnknownPolicy(name) => {
                write!(
                    f,
                    "unknown search policy `{name}`; known are auto, pipe, beam, page, relay, baton"
                )
            }
        }
    }
}

impl std::error::Error for ParamError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_out_of_range_are_named() {
        let bad = |p: SearchParams| p.validate().unwrap_err().to_string();
        assert!(SearchParams::default().validate().is_ok());
        assert!(bad(SearchParams { k: 0, ..Default::default() }).starts_with("k is 0"));
        let short = SearchParams { k: 20, list: 10, ..Default::default() };
        assert_eq!(bad(short), "list is 10, but must be from 20 to 65536");
        let narrow = SearchParams { policy: Policy::beam(0), ..Default::default() };
        assert!(bad(narrow).starts_with("width is 0"));
        assert!("spiral".parse::<Policy>().is_err());
        assert_eq!("page".parse::<Policy>(), Ok(Policy::page(4)));
    }

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
