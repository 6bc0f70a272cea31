//! What a caller chooses about a search: result count, list length, which distances, and the policy.

use super::distance_range::DistanceRange;
use super::owned::Owned;
use super::param_error::ParamError;
use super::policy::Policy;
use super::width::Width;

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
    pub const WIDTH_MAX: u16 = Width::MOST;

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
    pub fn widest(&self) -> usize {
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
}
