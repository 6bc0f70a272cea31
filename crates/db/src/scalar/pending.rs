//! Rows that are not in a run yet: their keys, as they came.

use std::sync::Arc;

use roaring::RoaringBitmap;

use super::column::ScalarColumn;
use super::predicate::KeyPredicate;
use super::truth::TernaryBits;
use super::value_keys::ValueKeys;
use crate::ids::RowId;
use crate::schema::FieldId;
use crate::value::{ScalarType, ValueRef};

/// Bytes in which keys differ up to which they are sorted byte by byte.
const MAX_DIGITS: usize = 3;

/// The keys of some rows of one version of a schema, in ascending order of their ids, which agree
/// in their upper halves.
#[derive(Clone, Debug)]
pub(super) struct PendingRows {
    pub(super) columns: Arc<[ScalarColumn]>,
    rows: Vec<u64>,
    values: Vec<PendingColumn>,
}

#[derive(Clone, Debug)]
struct PendingColumn {
    keys: Keys,
    /// Keys up to the end of each row.
    row_ends: Vec<u32>,
    nulls: RoaringBitmap,
}

#[derive(Clone, Debug)]
enum Keys {
    /// Of numbers, all of one width.
    Wide(Vec<[u8; 8]>),
    /// Of others, with where each ends.
    Ragged { bytes: Vec<u8>, ends: Vec<u32> },
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
        let values = columns.iter().map(PendingColumn::new).collect();
        Self { columns, rows: Vec::new(), values }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether the rows of another can stand with these.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.high() == other.high() && self.columns == other.columns
    }

    /// The upper half of the row ids; `None` where there are no rows.
    pub(super) fn high(&self) -> Option<u32> {
        self.rows.first().map(|row| (row >> 32) as u32)
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let column = |column: &PendingColumn| column.keys.bytes() + 4 * column.row_ends.len();
        (self.rows.len() * 8 + self.values.iter().map(column).sum::<usize>()) as u64
    }

    pub(super) fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// The lower halves of the row ids.
    pub(super) fn lows(&self) -> RoaringBitmap {
        self.rows.iter().map(|row| *row as u32).collect()
    }

    /// Position of a field's column; `None` where the rows are older than the field.
    pub(super) fn column(&self, field: FieldId) -> Option<usize> {
        self.columns.iter().position(|column| column.field == field)
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
                column.keys.push(key);
            }
            column.row_ends.push(narrow(column.keys.len()));
        }
    }

    /// Appends the rows of another.
    pub(super) fn extend(&mut self, other: &Self) {
        self.rows.extend(&other.rows);
        for (column, other) in self.values.iter_mut().zip(&other.values) {
            let keys = narrow(column.keys.len());
            column.keys.extend(&other.keys);
            column.row_ends.extend(other.row_ends.iter().map(|end| end + keys));
            column.nulls |= &other.nulls;
        }
    }

    /// What is known of each row.
    pub(super) fn truths(&self, predicate: &KeyPredicate) -> Vec<TernaryBits> {
        let Some(column) = self.column(predicate.field).map(|at| &self.values[at]) else {
            return vec![predicate.absent; self.rows.len()];
        };
        let truth = |(at, row): (usize, &u64)| {
            let keys = column.keys_of(at).map(|key| column.keys.get(key));
            predicate.test.truth(column.nulls.contains(*row as u32), keys)
        };
        self.rows.iter().enumerate().map(truth).collect()
    }

    /// The keys of a column in order.
    pub(super) fn sorted(&self, column: usize) -> SortedColumn<'_> {
        let column = &self.values[column];
        let mut items = Vec::with_capacity(column.keys.len());
        for (at, row) in self.rows.iter().enumerate() {
            for key in column.keys_of(at) {
                items.push(Item { head: head(column.keys.get(key)), low: *row as u32, key });
            }
        }
        let key = |item: &Item| column.keys.get(item.key);
        match column.keys {
            Keys::Wide(_) => sort_wide(&mut items),
            Keys::Ragged { .. } => items.sort_unstable_by(|a, b| {
                let keys = || key(a).cmp(key(b));
                a.head.cmp(&b.head).then_with(keys).then(a.low.cmp(&b.low))
            }),
        }
        // An array may have an element twice.
        items.dedup_by(|a, b| a.low == b.low && a.head == b.head && key(a) == key(b));
        SortedColumn { column, items }
    }
}

impl PendingColumn {
    fn new(of: &ScalarColumn) -> Self {
        let keys = match of.scalar {
            ScalarType::VarChar | ScalarType::Bool => {
                Keys::Ragged { bytes: Vec::new(), ends: Vec::new() }
            }
            _ => Keys::Wide(Vec::new()),
        };
        Self { keys, row_ends: Vec::new(), nulls: RoaringBitmap::new() }
    }

    fn keys_of(&self, row: usize) -> std::ops::Range<u32> {
        let start = if row == 0 { 0 } else { self.row_ends[row - 1] };
        start..self.row_ends[row]
    }
}

impl Keys {
    fn len(&self) -> usize {
        match self {
            Self::Wide(keys) => keys.len(),
            Self::Ragged { ends, .. } => ends.len(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Wide(keys) => size_of_val(&**keys),
            Self::Ragged { bytes, ends } => bytes.len() + size_of_val(&**ends),
        }
    }

    fn get(&self, at: u32) -> &[u8] {
        let at = at as usize;
        match self {
            Self::Wide(keys) => &keys[at],
            Self::Ragged { bytes, ends } => {
                let start = if at == 0 { 0 } else { ends[at - 1] };
                &bytes[start as usize..ends[at] as usize]
            }
        }
    }

    fn push(&mut self, key: &[u8]) {
        match self {
            Self::Wide(keys) => keys.push(key.try_into().expect("the key of a number has 8 bytes")),
            Self::Ragged { bytes, ends } => {
                bytes.extend(key);
                ends.push(narrow(bytes.len()));
            }
        }
    }

    fn extend(&mut self, other: &Self) {
        match (self, other) {
            (Self::Wide(keys), Self::Wide(more)) => keys.extend(more),
            (Self::Ragged { bytes, ends }, Self::Ragged { bytes: more, ends: more_ends }) => {
                let before = narrow(bytes.len());
                bytes.extend(more);
                ends.extend(more_ends.iter().map(|end| end + before));
            }
            _ => unreachable!("columns of one type"),
        }
    }
}

impl SortedColumn<'_> {
    /// The key at a position of the order; `None` behind the last.
    pub(super) fn key(&self, at: usize) -> Option<&[u8]> {
        self.items.get(at).map(|item| self.column.keys.get(item.key))
    }

    /// Where the next key begins behind that at `at`, which there has to be.
    pub(super) fn next(&self, at: usize) -> usize {
        let first = &self.items[at];
        let same = |item: &&Item| {
            item.head == first.head
                && (matches!(self.column.keys, Keys::Wide(_))
                    || self.column.keys.get(item.key) == self.column.keys.get(first.key))
        };
        at + self.items[at..].iter().take_while(same).count()
    }

    /// The rows from one position to another.
    pub(super) fn rows(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = u32> {
        self.items[range].iter().map(|item| item.low)
    }
}

/// Sorts by head, then by row; rows ascend already.
fn sort_wide(items: &mut Vec<Item>) {
    let first = items.first().map_or(0, |item| item.head);
    let differing = items.iter().fold(0, |bits, item| bits | (item.head ^ first));
    let digits: Vec<u32> = (0..8).filter(|byte| differing >> (byte * 8) & 0xff != 0).collect();
    if digits.len() > MAX_DIGITS || items.len() < 256 {
        items.sort_unstable_by_key(|item| (item.head, item.low));
        return;
    }
    // A stable pass for each byte in which keys differ: tags and prices have few of those.
    let mut sorted = items.clone();
    for digit in digits {
        let digit_of = |item: &Item| (item.head >> (digit * 8)) as usize & 0xff;
        let mut ends = [0_usize; 256];
        items.iter().for_each(|item| ends[digit_of(item)] += 1);
        let mut start = 0;
        for end in &mut ends {
            (start, *end) = (start + *end, start);
        }
        for item in &*items {
            let end = &mut ends[digit_of(item)];
            sorted[*end] = *item;
            *end += 1;
        }
        std::mem::swap(items, &mut sorted);
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
