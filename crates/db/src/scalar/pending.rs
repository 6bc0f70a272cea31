//! Rows that are not in a run yet: their keys, as they came.

use std::sync::Arc;

use roaring::RoaringBitmap;

use super::column::ScalarColumn;
use super::predicate::Predicate;
use super::truth::Truth;
use super::value_keys::ValueKeys;
use crate::ids::RowId;
use crate::value::ValueRef;

/// The keys of some rows of one version of a schema, in ascending order of their ids, which agree
/// in their upper halves.
#[derive(Clone, Debug)]
pub(super) struct PendingRows {
    pub(super) columns: Arc<[ScalarColumn]>,
    rows: Vec<u64>,
    values: Vec<PendingColumn>,
}

#[derive(Clone, Debug, Default)]
struct PendingColumn {
    keys: Vec<u8>,
    /// Where each key ends.
    ends: Vec<u32>,
    /// Keys up to the end of each row.
    row_ends: Vec<u32>,
    nulls: RoaringBitmap,
}

/// A key of a row while they are sorted.
#[derive(Clone, Copy, Debug)]
struct Item {
    /// The first bytes of the key, which decide most comparisons.
    head: u64,
    low: u32,
    key: u32,
}

/// The keys of a column in order, each with its rows.
#[derive(Debug)]
pub(super) struct SortedColumn<'p> {
    column: &'p PendingColumn,
    items: Vec<Item>,
}

impl PendingRows {
    pub(super) fn new(columns: Arc<[ScalarColumn]>) -> Self {
        let values = columns.iter().map(|_| PendingColumn::default()).collect();
        Self { columns, rows: Vec::new(), values }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The upper half of the row ids; `None` where there are no rows.
    pub(super) fn high(&self) -> Option<u32> {
        self.rows.first().map(|row| (row >> 32) as u32)
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let column = |c: &PendingColumn| c.keys.len() + 4 * (c.ends.len() + c.row_ends.len());
        (self.rows.len() * 8 + self.values.iter().map(column).sum::<usize>()) as u64
    }

    pub(super) fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// The lower halves of the row ids.
    pub(super) fn lows(&self) -> RoaringBitmap {
        self.rows.iter().map(|row| *row as u32).collect()
    }

    /// The rows whose column is null.
    pub(super) fn nulls(&self, column: usize) -> &RoaringBitmap {
        &self.values[column].nulls
    }

    /// Appends a row, given the value of each column.
    pub(super) fn push<'v>(
        &mut self,
        row: RowId,
        values: impl IntoIterator<Item = ValueRef<'v>>,
        keys: &mut ValueKeys,
    ) {
        self.rows.push(row.0);
        for (column, value) in self.values.iter_mut().zip(values) {
            keys.set(value);
            if keys.is_null {
                column.nulls.insert(row.0 as u32);
            }
            for key in keys.iter() {
                column.keys.extend(key);
                column.ends.push(narrow(column.keys.len()));
            }
            column.row_ends.push(narrow(column.ends.len()));
        }
    }

    /// Appends the rows of another.
    pub(super) fn extend(&mut self, other: &Self) {
        self.rows.extend(&other.rows);
        for (column, other) in self.values.iter_mut().zip(&other.values) {
            let (bytes, keys) = (narrow(column.keys.len()), narrow(column.ends.len()));
            column.keys.extend(&other.keys);
            column.ends.extend(other.ends.iter().map(|end| end + bytes));
            column.row_ends.extend(other.row_ends.iter().map(|end| end + keys));
            column.nulls |= &other.nulls;
        }
    }

    /// What is known of each row.
    pub(super) fn truths(&self, predicate: &Predicate) -> Vec<Truth> {
        let at = self.columns.iter().position(|column| column.field == predicate.field);
        let Some(column) = at.map(|at| &self.values[at]) else {
            return vec![predicate.absent; self.rows.len()];
        };
        let truth = |(at, row): (usize, &u64)| {
            let keys = column.keys_of(at).map(|key| column.key(key));
            predicate.test.truth(column.nulls.contains(*row as u32), keys)
        };
        self.rows.iter().enumerate().map(truth).collect()
    }

    /// The keys of a column in order.
    pub(super) fn sorted(&self, column: usize) -> SortedColumn<'_> {
        let column = &self.values[column];
        let mut items = Vec::with_capacity(column.ends.len());
        for (at, row) in self.rows.iter().enumerate() {
            for key in column.keys_of(at) {
                items.push(Item { head: head(column.key(key)), low: *row as u32, key });
            }
        }
        let key = |item: &Item| column.key(item.key);
        items.sort_unstable_by(|a, b| {
            let keys = || key(a).cmp(key(b));
            a.head.cmp(&b.head).then_with(keys).then(a.low.cmp(&b.low))
        });
        // An array may have an element twice.
        items.dedup_by(|a, b| a.low == b.low && a.head == b.head && key(a) == key(b));
        SortedColumn { column, items }
    }
}

impl PendingColumn {
    fn key(&self, at: u32) -> &[u8] {
        let at = at as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.keys[start as usize..self.ends[at] as usize]
    }

    fn keys_of(&self, row: usize) -> std::ops::Range<u32> {
        let start = if row == 0 { 0 } else { self.row_ends[row - 1] };
        start..self.row_ends[row]
    }
}

impl SortedColumn<'_> {
    /// The key at a position of the order; `None` behind the last.
    pub(super) fn key(&self, at: usize) -> Option<&[u8]> {
        self.items.get(at).map(|item| self.column.key(item.key))
    }

    /// Where the next key begins behind that at `at`, which there has to be.
    pub(super) fn next(&self, at: usize) -> usize {
        let first = &self.items[at];
        let same = |item: &&Item| {
            item.head == first.head && self.column.key(item.key) == self.column.key(first.key)
        };
        at + self.items[at..].iter().take_while(same).count()
    }

    /// The rows from one position to another.
    pub(super) fn rows(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = u32> {
        self.items[range].iter().map(|item| item.low)
    }
}

fn head(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let bytes = key.len().min(8);
    head[..bytes].copy_from_slice(&key[..bytes]);
    u64::from_be_bytes(head)
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).expect("the pending rows are flushed long before")
}
