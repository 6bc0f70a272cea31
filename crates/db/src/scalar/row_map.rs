//! Which rows a run has, and at which place of its signatures each stands.
//!
//! All rows of a run agree in the upper half of their ids. The places of a run without gaps are a
//! subtraction; else a bit for each id of its span, and a count for each 64 of them (1.5 bits an
//! id), tell them; where rows are rarer than that, a list (4 bytes a row).

use roaring::RoaringBitmap;

const WORD: u32 = u64::BITS;
/// Ids for each row from which on a list takes less.
const LISTED_SPAN: u64 = 21;

/// See the module's description. A `low` is the lower half of a row id.
#[derive(Debug)]
pub(super) struct RowMap {
    /// The upper half of its row ids.
    high: u32,
    first: u32,
    rows: u32,
    places: Places,
}

#[derive(Debug)]
enum Places {
    Dense,
    Gaps(Gaps),
    List(Box<[u32]>),
}

#[derive(Debug)]
struct Gaps {
    /// The first id of the first word.
    start: u32,
    words: Box<[u64]>,
    /// Rows before each word.
    before: Box<[u32]>,
}

impl RowMap {
    /// A map of these rows, of which there has to be one at least.
    pub(super) fn new(high: u32, lows: &RoaringBitmap) -> Self {
        let (first, last) = (lows.min().unwrap_or(0), lows.max().unwrap_or(0));
        let rows = u32::try_from(lows.len()).unwrap_or(u32::MAX);
        let span = u64::from(last - first) + 1;
        if span == lows.len() {
            return Self { high, first, rows, places: Places::Dense };
        }
        if span / LISTED_SPAN > lows.len() {
            return Self { high, first, rows, places: Places::List(lows.iter().collect()) };
        }
        let start = first - first % WORD;
        let mut words = vec![0_u64; ((last - start) / WORD + 1) as usize];
        for low in lows {
            words[((low - start) / WORD) as usize] |= 1 << ((low - start) % WORD);
        }
        let before = words.iter().scan(0, |sum, word| {
            let here = *sum;
            *sum += word.count_ones();
            Some(here)
        });
        let before = before.collect();
        let gaps = Gaps { start, words: words.into(), before };
        Self { high, first, rows, places: Places::Gaps(gaps) }
    }

    pub(super) fn high(&self) -> u32 {
        self.high
    }

    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// The first row id.
    pub(super) fn first_row(&self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.first)
    }

    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    /// The place of a row of the same upper half; `None` where it is not here.
    #[inline]
    pub(super) fn place(&self, low: u32) -> Option<u32> {
        match &self.places {
            Places::Dense => low.checked_sub(self.first).filter(|place| *place < self.rows),
            Places::List(lows) => lows.binary_search(&low).ok().and_then(|at| at.try_into().ok()),
            Places::Gaps(gaps) => {
                let at = low.checked_sub(gaps.start)?;
                let word = *gaps.words.get((at / WORD) as usize)?;
                let bit = 1_u64 << (at % WORD);
                (word & bit != 0)
                    .then(|| gaps.before[(at / WORD) as usize] + (word & (bit - 1)).count_ones())
            }
        }
    }

    /// The rows whose places are set in `places`, a bit for each.
    pub(super) fn select(&self, places: &[u64]) -> RoaringBitmap {
        let start = self.first - self.first % WORD;
        let mut bytes = Vec::new();
        match &self.places {
            Places::List(lows) => {
                let is_set = |place: usize| places[place / 64] >> (place % 64) & 1 != 0;
                let passed = lows.iter().enumerate().filter(|(place, _)| is_set(*place));
                return passed.map(|(_, low)| *low).collect();
            }
            Places::Dense => {
                let shift = self.first - start;
                bytes.reserve(places.len() * 8 + 8);
                let mut carried = 0;
                let (last, spare) = (places.len() - 1, (WORD - self.rows % WORD) % WORD);
                for (at, &word) in places.iter().enumerate() {
                    let word = if at == last { word & u64::MAX >> spare } else { word };
                    bytes.extend((word << shift | carried).to_le_bytes());
                    carried = word.checked_shr(WORD - shift).unwrap_or(0);
                }
                bytes.extend(carried.to_le_bytes());
                // As many as there are, or the last ids of all would be passed.
                bytes.truncate((shift + self.rows).div_ceil(8) as usize);
            }
            Places::Gaps(gaps) => {
                bytes.reserve(gaps.words.len() * 8);
                for (&word, &before) in gaps.words.iter().zip(&gaps.before) {
                    let mut set = bits_from(places, before as usize);
                    let (mut left, mut passed) = (word, 0_u64);
                    while left != 0 {
                        let lowest = left & left.wrapping_neg();
                        passed |= if set & 1 != 0 { lowest } else { 0 };
                        set >>= 1;
                        left ^= lowest;
                    }
                    bytes.extend(passed.to_le_bytes());
                }
            }
        }
        RoaringBitmap::from_lsb0_bytes(start, &bytes)
    }

    /// All rows.
    pub(super) fn all(&self) -> RoaringBitmap {
        match &self.places {
            Places::Dense => {
                let mut all = RoaringBitmap::new();
                if let Some(last) = self.rows.checked_sub(1) {
                    all.insert_range(self.first..=self.first + last);
                }
                all
            }
            Places::Gaps(_) | Places::List(_) => {
                self.select(&vec![u64::MAX; self.rows.div_ceil(WORD) as usize])
            }
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = match &self.places {
            Places::Dense => 0,
            Places::Gaps(gaps) => size_of_val(&*gaps.words) + size_of_val(&*gaps.before),
            Places::List(lows) => size_of_val(&**lows),
        };
        bytes as u64
    }
}

/// 64 bits from this one on; zeros behind the last.
fn bits_from(words: &[u64], first: usize) -> u64 {
    let (at, shift) = (first / 64, (first % 64) as u32);
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    word(at) >> shift | word(at + 1).checked_shl(WORD - shift).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_count_the_rows_before(
            start in prop_oneof![0_u32..300, (u32::MAX - 20_000)..(u32::MAX - 15_000)],
            steps in proptest::collection::vec(1_u32..9, 1..300),
            stretch in prop_oneof![Just(0_u32), Just(1), Just(6)],
        ) {
            let mut lows = RoaringBitmap::new();
            let mut low = start;
            for step in steps {
                lows.insert(low);
                low += (step * stretch).max(1);
            }
            let map = RowMap::new(7, &lows);
            prop_assert_eq!(map.all(), lows.clone());
            let end = low.saturating_add(70);
            for low in start.saturating_sub(70)..end {
                let place = lows.contains(low).then(|| u32::try_from(lows.rank(low)).unwrap() - 1);
                prop_assert_eq!(map.place(low), place, "{}", low);
            }
            let places = vec![0xAAAA_AAAA_AAAA_AAAA; lows.len().div_ceil(64) as usize];
            let odd = map.select(&places);
            let expected: RoaringBitmap = lows.iter().skip(1).step_by(2).collect();
            prop_assert_eq!(odd, expected);
        }
    }

    #[test]
    fn the_last_ids_of_all_fit() {
        for lows in [vec![u32::MAX - 9, u32::MAX], vec![u32::MAX - 1, u32::MAX], vec![0, u32::MAX]]
        {
            let lows: RoaringBitmap = lows.into_iter().collect();
            let map = RowMap::new(0, &lows);
            assert_eq!(map.all(), lows);
            assert_eq!(map.place(u32::MAX), Some(1));
        }
    }
}
