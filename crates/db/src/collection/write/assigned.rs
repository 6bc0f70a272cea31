//! Keys that rows are given which bring none.
//!
//! They follow from row ids, so that whoever knows the rows of a write knows their keys. An upsert brings
//! keys, which rows may have had elsewhere; row ids whose keys it brought are passed over. How far
//! keys are free is remembered, so that most inserts look for none and wait for no other write.

use std::ops::Bound;

use super::state::WriterState;
use crate::collection::{Collection, CollectionError};
use crate::docstore::RowSnapshot;
use crate::ids::RowId;
use crate::schema::{Batch, KeyType, PrimaryKey, PrimaryKeyRef, Schema};

/// Texts as keys are looked up one by one: so many at once, that few writes wait for it.
const LOOKED_UP: u64 = 1024;
/// The most keys that are read at once, where keys are in the order of numbers.
const CHUNK: usize = 1024;

/// The key of a row that brings none. Row ids begin at 0, keys at 1.
pub(super) fn automatic_key(row: u64) -> i64 {
    i64::try_from(row + 1).expect("2^63 rows are never reached")
}

/// The row whose key this is, were it to bring none.
fn row_of_key(key: PrimaryKeyRef<'_>) -> Option<u64> {
    let number = match key {
        PrimaryKeyRef::Int64(number) => u64::try_from(number).ok()?,
        PrimaryKeyRef::VarChar(text) => {
            text.parse().ok().filter(|number: &u64| number.to_string() == text)?
        }
    };
    number.checked_sub(1)
}

/// Row ids whose keys no row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FreeRows {
    /// The first; as many as were wanted follow.
    first: u64,
    /// None before this is taken.
    until: u64,
}

impl WriterState {
    /// Notes keys that an upsert brings, whose own row ids come before those that it leaves.
    pub(super) fn note_given(&mut self, keys: &[PrimaryKey]) {
        let next = self.next_row.saturating_add(keys.len() as u64);
        let given = keys.iter().filter_map(|key| row_of_key(key.as_ref()));
        let first = given.filter(|row| *row >= next).min().unwrap_or(u64::MAX);
        self.free_until = self.free_until.min(first);
    }
}

impl Collection {
    /// Passes over row ids until the rows of this batch can be given keys that no row has.
    pub(super) fn pass_taken_keys(
        &self,
        order: &mut WriterState,
        schema: &Schema,
        batch: &Batch,
    ) -> Result<(), CollectionError> {
        // A batch that says something else is refused.
        let rows = batch.columns.iter().map(|column| column.values.rows()).min().unwrap_or(0);
        let rows = rows.min(batch.rows) as u64;
        if order.next_row.saturating_add(rows) <= order.free_until {
            return Ok(());
        }
        let applied = self.turns.wait_applied(order.submitted);
        applied.map_err(|why| CollectionError::Stopped { why })?;
        let stored = self.components.rows.snapshot();
        let free = match schema.key_type() {
            KeyType::Int64 => free_numbers(&*stored, order.next_row, rows)?,
            KeyType::VarChar => free_texts(&*stored, order.next_row, rows)?,
        };
        // That there are no such rows is as if they had been written.
        let passed = (RowId(order.next_row), RowId(free.first));
        self.note_age(&*self.entry()?, passed, (self.now)());
        (order.next_row, order.free_until) = (free.first, free.until);
        Ok(())
    }
}

/// The first row ids from `next` on, `rows` in sequence, that have free keys: numbers are in order.
fn free_numbers(
    stored: &dyn RowSnapshot,
    next: u64,
    rows: u64,
) -> Result<FreeRows, CollectionError> {
    let mut free = FreeRows { first: next, until: u64::MAX };
    let key = PrimaryKeyRef::Int64(automatic_key(next)).to_bytes();
    let (mut start, mut most) = (Bound::Included((key, RowId(0))), 1);
    loop {
        let from = start.as_ref().map(|(key, row)| (key.as_slice(), *row));
        let (mut seen, mut last, mut is_found) = (0, None, false);
        stored.scan_keys(from, most, &mut |key, row| {
            seen += 1;
            if seen == most {
                last = Some((key.to_vec(), row));
            }
            let key = PrimaryKey::decode(KeyType::Int64, key).ok();
            let Some(taken) = key.and_then(|key| row_of_key(key.as_ref())) else { return };
            if is_found || taken < free.first {
                return;
            }
            if taken < free.first.saturating_add(rows) {
                free.first = taken + 1;
            } else {
                (free.until, is_found) = (taken, true);
            }
        })?;
        match last.filter(|_| !is_found) {
            Some(last) => start = Bound::Excluded(last),
            None => return Ok(free),
        }
        most = (most * 4).min(CHUNK);
    }
}

/// As [`free_numbers`], where numbers are texts, which are in another order.
fn free_texts(stored: &dyn RowSnapshot, next: u64, rows: u64) -> Result<FreeRows, CollectionError> {
    let (mut first, mut until) = (next, next);
    while until < first.saturating_add(rows.max(LOOKED_UP)) {
        let key = automatic_key(until).to_string();
        if !stored.rows_of_key(&PrimaryKeyRef::VarChar(&key).to_bytes())?.is_empty() {
            if until >= first.saturating_add(rows) {
                break;
            }
            first = until + 1;
        }
        until += 1;
    }
    Ok(FreeRows { first, until })
}
