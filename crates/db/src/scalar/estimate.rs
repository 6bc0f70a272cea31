//! How many rows match a predicate, roughly and quickly: from the histograms that the codes are,
//! from the sizes of entries, and for several elements from a sample of signatures.

use roaring::RoaringTreemap;

use super::ScalarError;
use super::directory::SignatureCode;
use super::key::{KeyRange, KeySet, Wanted};
use super::postings::only;
use super::predicate::{KeyPredicate, KeyTest};
use super::run::{OpenRun, Run, SignatureColumn};
use super::view::ScalarView;

/// Rows of a run whose signatures are looked at.
const SAMPLED_ROWS: usize = 1024;
/// Sampled rows that match from which on their share is believed.
const BELIEVED_HITS: u64 = 8;
/// Rows of buckets that match in part up to which their entries are counted.
const COUNTED_ROWS: u64 = 1 << 15;

/// How many live rows match: never fewer than `least`, never more than `most`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchEstimate {
    /// Bound from below.
    pub least: u64,
    /// Bound from above.
    pub most: u64,
    /// What is most likely.
    pub guess: u64,
}

impl MatchEstimate {
    fn exactly(rows: u64) -> Self {
        Self { least: rows, most: rows, guess: rows }
    }

    fn new(least: u64, most: u64, guess: u64) -> Self {
        Self { least, most, guess: guess.clamp(least, most.max(least)) }
    }

    fn add(&mut self, other: Self) {
        self.least += other.least;
        self.most += other.most;
        self.guess += other.guess;
    }
}

impl ScalarView {
    /// How many rows among `live` match, which has to hold all live rows of the moment.
    ///
    /// # Errors
    /// A failed read, or damage.
    pub fn estimate(
        &self,
        predicate: &KeyPredicate,
        live: &RoaringTreemap,
    ) -> Result<MatchEstimate, ScalarError> {
        let mut sum = MatchEstimate::default();
        for open in self.runs.iter() {
            sum.add(self.noting_damage(open.estimate(predicate))?);
        }
        let truths = self.newest.truths(predicate);
        let holding = truths.iter().filter(|truth| truth.holds()).count() as u64;
        let possible = truths.iter().filter(|truth| truth.may_hold()).count() as u64;
        sum.add(MatchEstimate::new(holding, possible, possible));
        let (all, live) = (self.rows(), live.len());
        let gone = all.saturating_sub(live);
        let guess = (u128::from(sum.guess) * u128::from(live) / u128::from(all.max(1))) as u64;
        Ok(MatchEstimate::new(sum.least.saturating_sub(gone), sum.most.min(live), guess))
    }
}

impl OpenRun {
    fn estimate(&self, predicate: &KeyPredicate) -> Result<MatchEstimate, ScalarError> {
        let run = &*self.run;
        let rows = u64::from(run.map().rows());
        let Some(column) = run.column(predicate.field) else {
            let share = |all: bool| if all { rows } else { 0 };
            let (least, most) = (predicate.absent.holds(), predicate.absent.may_hold());
            return Ok(MatchEstimate::new(share(least), share(most), share(most)));
        };
        let nulls = run.columns()[column].nulls.len();
        match &predicate.test {
            KeyTest::Null => Ok(MatchEstimate::exactly(nulls)),
            KeyTest::Keys { maybe, sure } => keys(run, column, &predicate.test, maybe, sure),
            KeyTest::All(wanted) => self.all(column, wanted, rows - nulls),
            KeyTest::Any(wanted) => any(run, column, wanted, rows - nulls),
        }
    }

    fn all(
        &self,
        column: usize,
        wanted: &[Wanted],
        arrays: u64,
    ) -> Result<MatchEstimate, ScalarError> {
        let (mut least, mut most, mut share) = (arrays, arrays, 1.0);
        for wanted in wanted {
            let rows = counted(&self.run, column, &only([wanted]))?;
            let whole = if wanted.whole { rows } else { 0 };
            least = least.saturating_sub(arrays.saturating_sub(whole));
            most = most.min(rows);
            share *= rows as f64 / arrays.max(1) as f64;
        }
        let independent = (share * arrays as f64).round() as u64;
        if wanted.len() < 2 || most == 0 {
            return Ok(MatchEstimate::new(least, most, most));
        }
        let (hits, sampled) = self.sample(column, wanted)?;
        // Elements that come together do so in the sample too.
        let guess = match hits >= BELIEVED_HITS {
            true => hits * u64::from(self.run.map().rows()) / sampled.max(1),
            false => independent,
        };
        Ok(MatchEstimate::new(least, most, guess))
    }

    /// Of how many rows spread over the run the signatures say that they may have all of these;
    /// none are looked at where signatures are not in memory.
    fn sample(&self, column: usize, wanted: &[Wanted]) -> Result<(u64, u64), ScalarError> {
        let Some(signatures) = &self.signatures else { return Ok((0, 0)) };
        let SignatureColumn::Bits(bits) = &signatures.columns[column] else { return Ok((0, 0)) };
        let SignatureCode::Elements(code) = &self.run.columns()[column].code else {
            return Ok((0, 0));
        };
        let test = code.compile(&KeyTest::All(wanted.to_vec()));
        let sampled = bits.iter().step_by(bits.len().div_ceil(SAMPLED_ROWS).max(1));
        let hits = sampled.clone().filter(|bits| test.truth(**bits).may_hold());
        Ok((hits.count() as u64, sampled.count() as u64))
    }
}

/// Rows of all entries in these keys, counted once for each.
fn counted(run: &Run, column: usize, keys: &KeySet) -> Result<u64, ScalarError> {
    let mut sum = 0;
    run.entries(column, keys, |_, rows| {
        sum += u64::from(rows.count);
        Ok(())
    })?;
    Ok(sum)
}

fn any(
    run: &Run,
    column: usize,
    wanted: &[Wanted],
    arrays: u64,
) -> Result<MatchEstimate, ScalarError> {
    let (mut least, mut sum, mut missing) = (0, 0_u64, 1.0);
    for wanted in wanted {
        let rows = counted(run, column, &only([wanted]))?;
        least = least.max(if wanted.whole { rows } else { 0 });
        sum += rows;
        missing *= 1.0 - rows as f64 / arrays.max(1) as f64;
    }
    let guess = ((1.0 - missing) * arrays as f64).round() as u64;
    Ok(MatchEstimate::new(least, sum.min(arrays), guess))
}

fn keys(
    run: &Run,
    column: usize,
    test: &KeyTest,
    maybe: &KeySet,
    sure: &KeySet,
) -> Result<MatchEstimate, ScalarError> {
    let SignatureCode::Buckets(code) = &run.columns()[column].code else {
        unreachable!("arrays are asked for elements")
    };
    let table = code.table(test);
    let (mut whole, mut part, mut guess) = (0, 0, 0);
    let (mut maybe_rest, mut sure_rest) = (Vec::new(), Vec::new());
    for (bucket, truth) in code.buckets.iter().zip(&table[1..]) {
        let rows = u64::from(bucket.rows);
        if truth.holds() {
            whole += rows;
        } else if truth.may_hold() {
            part += rows;
            let before = maybe_rest.len();
            maybe.within(&bucket.first, &bucket.last, &mut maybe_rest);
            sure.within(&bucket.first, &bucket.last, &mut sure_rest);
            // A key's share for each key, half of the bucket for the end of a range.
            let mean = rows / u64::from(bucket.keys).max(1);
            let share = |range: &KeyRange| if range.is_one_key() { mean } else { rows / 2 };
            guess += maybe_rest[before..].iter().map(share).sum::<u64>().clamp(1, rows);
        }
    }
    if part == 0 || part > COUNTED_ROWS {
        return Ok(MatchEstimate::new(whole, whole + part, whole + guess));
    }
    let possible = counted(run, column, &KeySet::new(maybe_rest))?;
    let certain = counted(run, column, &KeySet::new(sure_rest))?;
    Ok(MatchEstimate::new(whole + certain, whole + possible, whole + possible))
}
