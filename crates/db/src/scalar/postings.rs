//! Which rows match a predicate.

use roaring::{RoaringBitmap, RoaringTreemap};

use super::ScalarError;
use super::buckets::CodeTable;
use super::directory::SignatureCode;
use super::entries::EntryRows;
use super::key::{KeyRange, KeySet, Wanted};
use super::predicate::{KeyPredicate, KeyTest};
use super::run::{OpenRun, Run, SignatureColumn};
use super::view::ScalarView;

/// Rows of whole buckets from which on they are read off the signatures, and not from entries.
const SCANNED_ROWS: u64 = 1 << 14;

/// Rows that match a predicate.
#[derive(Clone, Debug, PartialEq)]
pub struct Postings {
    /// The rows, live ones only.
    pub rows: RoaringTreemap,
    /// Whether all of them match; else some may not, and each has to be checked. None is missing.
    pub exact: bool,
}

impl ScalarView {
    /// The rows among `live` that match.
    ///
    /// # Errors
    /// A failed read, or damage: the caller has to look at the rows then.
    pub fn postings(
        &self,
        predicate: &KeyPredicate,
        live: &RoaringTreemap,
    ) -> Result<Postings, ScalarError> {
        let mut exact = predicate.test.is_exact();
        let mut rows = RoaringTreemap::new();
        for open in self.runs.iter() {
            let found = self.noting_damage(open.matching(predicate))?;
            rows |= RoaringTreemap::from_bitmaps([(open.run.map().high(), found)]);
        }
        let truths = self.newest.truths(predicate);
        for (row, truth) in self.newest.rows().iter().zip(truths) {
            if truth.may_hold() {
                exact &= truth.holds();
                rows.insert(*row);
            }
        }
        rows &= live;
        Ok(Postings { rows, exact })
    }
}

impl OpenRun {
    /// The lower halves of the ids of rows that may match.
    fn matching(&self, predicate: &KeyPredicate) -> Result<RoaringBitmap, ScalarError> {
        let run = &*self.run;
        let Some(column) = run.column(predicate.field) else {
            return Ok(if predicate.absent.may_hold() {
                run.map().all()
            } else {
                RoaringBitmap::new()
            });
        };
        match &predicate.test {
            KeyTest::Null => Ok(run.columns()[column].nulls.clone()),
            KeyTest::Keys { maybe, .. } => self.matching_keys(column, &predicate.test, maybe),
            KeyTest::All(wanted) if wanted.is_empty() => {
                Ok(run.map().all() - &run.columns()[column].nulls)
            }
            KeyTest::All(wanted) => {
                let mut rows: Option<RoaringBitmap> = None;
                for wanted in wanted {
                    let more = rows_of(run, column, &only([wanted]))?;
                    let both = match rows {
                        Some(rows) => rows & more,
                        None => more,
                    };
                    if both.is_empty() {
                        return Ok(both);
                    }
                    rows = Some(both);
                }
                Ok(rows.unwrap_or_default())
            }
            KeyTest::Any(wanted) => rows_of(run, column, &only(wanted)),
        }
    }

    fn matching_keys(
        &self,
        column: usize,
        test: &KeyTest,
        maybe: &KeySet,
    ) -> Result<RoaringBitmap, ScalarError> {
        let run = &*self.run;
        let SignatureCode::Buckets(code) = &run.columns()[column].code else {
            unreachable!("arrays are asked for elements")
        };
        let table = code.table(test);
        let (mut whole, mut rest) = (0, Vec::new());
        for (bucket, truth) in code.buckets.iter().zip(&table[1..]) {
            if truth.holds() {
                whole += u64::from(bucket.rows);
            } else if truth.may_hold() {
                maybe.within(&bucket.first, &bucket.last, &mut rest);
            }
        }
        if whole < SCANNED_ROWS {
            return rows_of(run, column, maybe);
        }
        let scanned = self.with_signatures(column, |signatures| match signatures {
            SignatureColumn::Codes(codes) => scan(run, codes, &table),
            SignatureColumn::Bits(_) => unreachable!("single values have codes"),
        })?;
        Ok(scanned | rows_of(run, column, &KeySet::new(rest))?)
    }
}

/// The rows whose codes say that they match.
fn scan(run: &Run, codes: &[u8], table: &CodeTable) -> RoaringBitmap {
    run.map().select(&holding(codes, table))
}

/// A bit for each code, set where it says that the row matches.
fn holding(codes: &[u8], table: &CodeTable) -> Vec<u64> {
    /// Gathers the lowest bits of eight bytes in the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let holds = table.map(|truth| u8::from(truth.holds()));
    // Most conditions hold for one range of codes, and comparing takes a fraction of looking up.
    let first = holds.iter().position(|holds| *holds == 1).unwrap_or(0);
    let last = holds.iter().rposition(|holds| *holds == 1).unwrap_or(0);
    let is_range = holds[first..=last].iter().all(|holds| *holds == 1);
    let (first, width) = (first as u8, (last - first) as u8);
    let word = |codes: &[u8]| {
        let mut each = [0_u8; 64];
        let codes = each.iter_mut().zip(codes);
        if is_range {
            codes.for_each(|(each, code)| *each = u8::from(code.wrapping_sub(first) <= width));
        } else {
            codes.for_each(|(each, code)| *each = holds[usize::from(*code)]);
        }
        let eights = each.as_chunks::<8>().0.iter().enumerate();
        eights.fold(0, |word, (at, eight)| {
            word | (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56) << (8 * at)
        })
    };
    codes.chunks(64).map(word).collect()
}

/// The rows of all entries in these keys.
fn rows_of(run: &Run, column: usize, keys: &KeySet) -> Result<RoaringBitmap, ScalarError> {
    let (mut bitmap, mut list) = (RoaringBitmap::new(), Vec::new());
    run.entries(column, keys, |_, rows: EntryRows<'_>| {
        let taken = match rows.is_bitmap() {
            true => rows.bitmap().map(|rows| bitmap |= rows),
            false => rows.list_into(&mut list),
        };
        taken.map_err(|_| run.bad_entry())
    })?;
    list.sort_unstable();
    list.dedup();
    let listed = RoaringBitmap::from_sorted_iter(list);
    Ok(bitmap | listed.expect("the list is sorted and has nothing twice"))
}

/// The keys of these elements.
pub(super) fn only<'w>(wanted: impl IntoIterator<Item = &'w Wanted>) -> KeySet {
    KeySet::new(wanted.into_iter().map(|wanted| KeyRange::only(&wanted.key)).collect())
}
