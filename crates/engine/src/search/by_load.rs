//! How the width of a search follows the searches that are under way when it begins, and what is
//! known of the device.

use std::sync::Arc;

use super::pace::PaceShare;
use super::param_error::ParamError;
use super::width::Width;

/// Reads in flight of a search among so many that each would get fewer, where nothing is known of
/// the device or processors are its limit: so many bytes, four reads at
/// least and eight at most. With two the threads of a busy index sleep while the device has little
/// to do; where pages are large its bytes are what it lacks, and reads that turn out to be in vain
/// cost others theirs (docs/decisions/0029).
const NARROWEST_BYTES: usize = 8 * 4096;
const NARROWEST: (usize, usize) = (4, 8);

/// What becomes of the widest pipeline of a search that is not alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ByLoad {
    /// It stays as it is.
    #[default]
    Off,
    /// The searches share it, down to eight reads for each, or four of large pages, and depart
    /// from that as they have learnt of the device.
    Share,
    /// It is what a profile found best.
    Table(WidthTable),
}

impl ByLoad {
    /// The width to begin with and the widest, of a search that by itself has those of `own`.
    pub(super) fn widths(
        &self,
        own: (u16, u16),
        searches: u32,
        share: PaceShare,
        page_bytes: usize,
    ) -> (u16, u16) {
        let (start, most) = own;
        let equal = self.widest(most, searches, page_bytes);
        if *self != Self::Share {
            return (start.min(equal), equal);
        }
        let scaled = |width: u16| (f32::from(width) * share.factor).round() as u16;
        let widest = scaled(equal).clamp(1, equal);
        // What is more than an equal share is of use from the first read on: a search that is wide
        // at its end reads more in vain, and no more in a second.
        let start = if share.factor > 1.0 { scaled(start) } else { start };
        // What a search that is alone could compute while it waits: a page costs about as much again
        // for its read.
        let start = start.max(((share.pages_per_read / 2.0) as u16).min(most / 2));
        (start.min(widest), widest)
    }

    /// The widest pipeline of a search among `searches`, itself among them, that alone may become
    /// `widest` reads of so many bytes.
    pub(super) fn widest(&self, widest: u16, searches: u32, page_bytes: usize) -> u16 {
        match self {
            Self::Off => widest,
            Self::Share => {
                let share = u32::from(widest) / searches.max(1);
                let narrowest = NARROWEST_BYTES / page_bytes.max(1);
                let narrowest = narrowest.clamp(NARROWEST.0, NARROWEST.1) as u32;
                widest.min(u16::try_from(share.max(narrowest)).unwrap_or(u16::MAX))
            }
            Self::Table(table) => widest.min(table.at(searches)),
        }
    }
}

/// The widest pipeline by searches under way, from a profile of an index on its device.
///
/// Steps of (searches, width from so many on), ascending by searches and beginning with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WidthTable(Arc<[(u32, u16)]>);

impl WidthTable {
    /// A table of these steps.
    ///
    /// # Errors
    /// [`ParamError`] where steps are missing or out of order, or a width is out of range.
    pub fn new(steps: &[(u32, u16)]) -> Result<Self, ParamError> {
        if steps.first().is_none_or(|&(searches, _)| searches != 1) {
            return Err(ParamError::WidthSteps("the first step is for one search".into()));
        }
        if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            let (earlier, later) = (pair[0].0, pair[1].0);
            let order = format!("the step of {later} searches comes after that of {earlier}");
            return Err(ParamError::WidthSteps(order));
        }
        let max = Width::MOST;
        match steps.iter().find(|&&(_, width)| width == 0 || width > max) {
            Some(&(_, width)) => Err(ParamError::Range {
                name: "width",
                value: width.into(),
                min: 1,
                max: max.into(),
            }),
            None => Ok(Self(steps.into())),
        }
    }

    /// The steps.
    pub fn steps(&self) -> &[(u32, u16)] {
        &self.0
    }

    /// The width among so many searches.
    pub fn at(&self, searches: u32) -> u16 {
        let step = self.0.partition_point(|&(from, _)| from <= searches.max(1));
        self.0[step - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_holds_from_each_step_to_the_next() {
        let table = WidthTable::new(&[(1, 32), (3, 8), (16, 1)]).unwrap();
        assert_eq!([0, 1, 2, 3, 15, 16, u32::MAX].map(|n| table.at(n)), [32, 32, 32, 8, 8, 1, 1]);
        // A search that may not become so wide alone does not among others either.
        assert_eq!(ByLoad::Table(table).widest(16, 1, 4096), 16);
    }

    #[test]
    fn tables_that_are_none_are_refused() {
        let refused = |steps: &[(u32, u16)]| WidthTable::new(steps).unwrap_err().to_string();
        assert!(refused(&[]).contains("first step"));
        assert!(refused(&[(2, 8)]).contains("first step"));
        assert!(refused(&[(1, 8), (4, 4), (4, 2)]).contains("of 4 searches comes after that of 4"));
        assert!(refused(&[(1, 0)]).starts_with("width is 0"));
        assert!(refused(&[(1, 8), (2, 513)]).starts_with("width is 513"));
    }

    #[test]
    fn searches_share_the_widest_down_to_some_bytes() {
        let widest = |page_bytes| {
            [0, 1, 2, 3, 4, 5, 7, 16, u32::MAX].map(|n| ByLoad::Share.widest(32, n, page_bytes))
        };
        assert_eq!(widest(4096), [32, 32, 16, 10, 8, 8, 8, 8, 8]);
        assert_eq!(widest(8192), [32, 32, 16, 10, 8, 6, 4, 4, 4]);
        assert_eq!(widest(12_288), widest(8192));
        assert_eq!(ByLoad::Off.widest(32, 64, 4096), 32);
        let own = |by_load: ByLoad, factor| {
            by_load.widths((4, 32), 32, PaceShare { factor, pages_per_read: 0.0 }, 4096)
        };
        let factors = [0.01, 0.125, 0.5, 1.0, 1.4, 2.0];
        let widths = [(1, 1), (1, 1), (4, 4), (4, 8), (6, 8), (8, 8)];
        assert_eq!(factors.map(|factor| own(ByLoad::Share, factor)), widths);
        assert_eq!(own(ByLoad::Off, 0.1), (4, 32));
        let table = WidthTable::new(&[(1, 32), (3, 8)]).unwrap();
        assert_eq!(own(ByLoad::Table(table), 0.1), (4, 8));
        assert_eq!(ByLoad::Share.widest(1, 64, 4096), 1);
    }

    #[test]
    fn alone_a_search_begins_as_wide_as_a_read_hides_pages() {
        let start = |own, pages_per_read, factor| {
            ByLoad::Share.widths(own, 1, PaceShare { factor, pages_per_read }, 4096)
        };
        assert_eq!(start((4, 32), 0.0, 1.0), (4, 32));
        assert_eq!(start((4, 32), 8.5, 1.0), (4, 32), "its own");
        assert_eq!(start((4, 32), 19.0, 1.0), (9, 32));
        assert_eq!(start((4, 32), 1e9, 1.0), (16, 32), "half of the widest at most");
        assert_eq!(start((4, 32), 1e9, 1.0 / 16.0), (2, 2), "and what the device allows");
        assert_eq!(start((1, 1), 9.0, 1.0), (1, 1));
    }
}
