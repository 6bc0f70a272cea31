//! What each write of the load is about, and what has to be there according to what was said.
//!
//! A thread's writes are numbered from 0 without gaps and follow from their number alone. So a
//! thread needs to say only which one was answered: the next one is the only one of its own that
//! may be there as well, whole or not at all.

use std::collections::BTreeMap;

use crate::adversary::vectors::Numbers;

/// Writers of the load.
pub const THREADS: u64 = 2;
/// The most rows of one write.
const MOST_ROWS: u64 = 12;

/// What a write does to the keys it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// Adds rows under keys that nobody had.
    Insert,
    /// Replaces rows, or adds them.
    Upsert,
    /// Deletes the rows that are there.
    Delete,
}

/// A write: keys, and for each the number of the value that it has afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// What it does.
    pub kind: KeyEffect,
    /// Keys with values; of a delete the values mean nothing.
    pub rows: Vec<(i64, u64)>,
}

/// The keys that write `number` of `thread` adds, if it is an insert.
fn keys_of(thread: u64, number: u64) -> Vec<i64> {
    let count = 1 + Numbers::new(thread << 48 ^ number).below(MOST_ROWS);
    (0..count).map(|i| (thread << 48 | number << 8 | i) as i64).collect()
}

impl Write {
    /// Write `number` of `thread`. Two of five replace or delete what an earlier one added.
    pub fn of(thread: u64, number: u64) -> Self {
        let mut numbers = Numbers::new((thread << 48 ^ number).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let kind = match numbers.below(10) {
            0..=5 => KeyEffect::Insert,
            6 | 7 => KeyEffect::Upsert,
            _ => KeyEffect::Delete,
        };
        let of = if kind == KeyEffect::Insert { number } else { numbers.below(number + 1) };
        let keys = keys_of(thread, of);
        Self { kind, rows: keys.into_iter().map(|key| (key, numbers.below(1 << 40))).collect() }
    }

    /// Its effect.
    pub fn apply(&self, rows: &mut BTreeMap<i64, u64>) {
        for &(key, value) in &self.rows {
            match self.kind {
                KeyEffect::Delete => rows.remove(&key),
                KeyEffect::Insert | KeyEffect::Upsert => rows.insert(key, value),
            };
        }
    }
}

/// What has to be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedRows {
    /// Number of the value of each key.
    pub rows: BTreeMap<i64, u64>,
    /// How many writes of each thread were answered.
    pub answered: [u64; THREADS as usize],
}

impl ExpectedRows {
    /// Takes what the process said: `answered THREAD NUMBER .`; other lines, and such that were
    /// cut off, say nothing. Whether it was an answer.
    ///
    /// # Panics
    /// Where a thread answers out of turn.
    pub fn hear(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["answered", thread, number, "."] = words[..] else { return false };
        let (Ok(thread), Ok(number)) = (thread.parse::<u64>(), number.parse::<u64>()) else {
            return false;
        };
        let answered = &mut self.answered[thread as usize];
        assert_eq!(*answered, number, "a thread answers in turn");
        *answered += 1;
        Write::of(thread, number).apply(&mut self.rows);
        true
    }

    /// Takes the rows that were found, with the one write of each thread that may have come
    /// through although nobody heard of it.
    ///
    /// # Errors
    /// The first rows that are neither.
    pub fn settle(&mut self, found: &BTreeMap<i64, u64>) -> Result<(), String> {
        // Threads have keys of their own, so that each write under way is looked at alone.
        for thread in 0..THREADS {
            let under_way = Write::of(thread, self.answered[thread as usize]);
            let mut after = self.rows.clone();
            under_way.apply(&mut after);
            let is_there = |(key, _): &(i64, u64)| found.get(key) == after.get(key);
            if after != self.rows && under_way.rows.iter().all(is_there) {
                self.rows = after;
                self.answered[thread as usize] += 1;
            }
        }
        match self.difference(found) {
            None => Ok(()),
            Some(key) => {
                let (found, expected) = (found.get(&key), self.rows.get(&key));
                Err(format!("key {key:#x} has value {found:?}, answered was {expected:?}"))
            }
        }
    }

    /// The first key that differs.
    fn difference(&self, found: &BTreeMap<i64, u64>) -> Option<i64> {
        let missing = self.rows.iter().find(|(key, value)| found.get(key) != Some(value));
        let extra = found.iter().find(|(key, value)| self.rows.get(key) != Some(value));
        missing.or(extra).map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_row_one_that_is_back_and_half_a_write_are_found() {
        let mut model = ExpectedRows::default();
        for number in 0..40 {
            assert!(model.hear(&format!("answered 0 {number} .")));
        }
        assert!(!model.hear("answered 0 4"), "it was cut off");
        let whole = model.rows.clone();
        model.clone().settle(&whole).unwrap();
        let mut lost = whole.clone();
        lost.pop_first();
        assert!(model.clone().settle(&lost).is_err());
        let deleted =
            (0..40).map(|n| Write::of(0, n)).find(|w| w.kind == KeyEffect::Delete).unwrap();
        let back = [whole.clone(), deleted.rows.iter().copied().collect()].map(BTreeMap::into_iter);
        let back: BTreeMap<_, _> = back.into_iter().flatten().collect();
        assert!(back == whole || model.clone().settle(&back).is_err());
        // The next insert may be there as a whole.
        let next = (40..).find(|&n| Write::of(0, n).kind == KeyEffect::Insert).unwrap();
        assert!((40..next).all(|n| model.hear(&format!("answered 0 {n} ."))));
        let mut with_next = model.rows.clone();
        Write::of(0, next).apply(&mut with_next);
        let mut settled = model.clone();
        settled.settle(&with_next).unwrap();
        assert_eq!(settled.answered[0], next + 1);
        if Write::of(0, next).rows.len() > 1 {
            with_next.remove(&Write::of(0, next).rows[0].0);
            assert!(model.settle(&with_next).is_err(), "half of a write");
        }
    }
}
