//! Batches, gathered from pieces of a source.
//!
//! How long the next rows are is known when they have been read. So a piece has few enough of them
//! that it fits in memory though each be as long as its fields allow, and a batch ends where its
//! rows have become large.

use std::collections::VecDeque;
use std::ops::Range;

use super::source::{BatchSource, SourceError};
use crate::schema::Batch;
use crate::value::{Column, ColumnValues, DataType, DenseVectors, ValueRef};

/// Bytes of a piece whose rows are as long as they can be.
const PIECE_BYTES: u64 = 64 << 20;
/// Rows of a piece at least, where rows may be of any length.
const LEAST_PIECE_ROWS: u64 = 128;

/// A source, read in pieces.
pub(super) struct BatchGathering<'s> {
    source: &'s mut dyn BatchSource,
    piece_rows: u64,
    /// What was read and is of the batches to come: rows, or what failed behind them.
    held: VecDeque<Result<Batch, SourceError>>,
}

impl<'s> BatchGathering<'s> {
    /// `largest_row_bytes` has a row whose values are as long as they can be.
    pub(super) fn new(source: &'s mut dyn BatchSource, largest_row_bytes: u64) -> Self {
        let piece_rows = (PIECE_BYTES / largest_row_bytes.max(1)).max(LEAST_PIECE_ROWS);
        Self { source, piece_rows, held: VecDeque::new() }
    }

    /// Makes `row` the next one.
    pub(super) fn seek(&mut self, row: u64) -> Result<(), SourceError> {
        self.held.clear();
        self.source.seek(row)
    }

    /// The next rows, at most `most`, until their values have about `enough` bytes: a quarter more at
    /// most, but for a single row. What fails behind some rows fails when it is asked for again.
    pub(super) fn next(&mut self, most: u64, enough: u64) -> Result<Option<Batch>, SourceError> {
        let room = enough.saturating_add(enough / 4);
        let mut pieces: Vec<Batch> = Vec::new();
        let (mut rows, mut bytes) = (0, 0);
        while rows < most && bytes < enough {
            let asked = self.piece_rows.min(most - rows);
            let is_held = !self.held.is_empty();
            let read = match self.held.pop_front() {
                Some(held) => held.map(Some),
                None => self.source.next(usize::try_from(asked).unwrap_or(usize::MAX)),
            };
            let piece = match read {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(error) if pieces.is_empty() => return Err(error),
                Err(error) => {
                    self.held.push_front(Err(error));
                    break;
                }
            };
            let (found, found_bytes) = (piece.rows as u64, batch_bytes(&piece));
            if found > 1 && found_bytes > room && piece.check_lengths().is_ok() {
                self.hold_parts(&piece, fitting(enough, found, found_bytes));
                continue;
            }
            let is_next = |first: &Batch| bytes + found_bytes > room || !alike(first, &piece);
            if pieces.first().is_some_and(is_next) {
                self.held.push_front(Ok(piece));
                break;
            }
            rows += found;
            bytes += found_bytes;
            pieces.push(piece);
            // It is at its end, or hands out what it has as it comes.
            if !is_held && found < asked {
                break;
            }
        }
        Ok((!pieces.is_empty()).then(|| joined(pieces)))
    }

    /// Holds a piece in parts of so many rows, to be the next ones.
    fn hold_parts(&mut self, piece: &Batch, rows: u64) {
        let step = usize::try_from(rows).unwrap_or(usize::MAX);
        for start in (0..piece.rows).step_by(step).rev() {
            let part = start..piece.rows.min(start.saturating_add(step));
            let column = |column: &Column| rows_of(&[(column, part.clone())]);
            let columns = piece.columns.iter().map(column).collect();
            self.held.push_front(Ok(Batch { rows: part.len(), columns }));
        }
    }
}

/// How many rows have the bytes that are wanted, where `rows` have `bytes`; at least one.
pub(super) fn fitting(wanted: u64, rows: u64, bytes: u64) -> u64 {
    let fitting = u128::from(wanted) * u128::from(rows) / u128::from(bytes.max(1));
    u64::try_from(fitting).unwrap_or(u64::MAX).max(1)
}

/// Whether rows of both can stand in the same columns.
fn alike(a: &Batch, b: &Batch) -> bool {
    let kind = |column: &Column| match &column.values {
        ColumnValues::Dense(vectors) => (column.values.data_type(), vectors.dim()),
        values => (values.data_type(), 0),
    };
    let same = |(a, b): (&Column, &Column)| a.field == b.field && kind(a) == kind(b);
    let whole = a.check_lengths().is_ok() && b.check_lengths().is_ok();
    whole && a.columns.len() == b.columns.len() && a.columns.iter().zip(&b.columns).all(same)
}

/// Bytes of all values: no more than the log takes for them.
fn batch_bytes(batch: &Batch) -> u64 {
    batch.columns.iter().map(|column| value_bytes(&column.values)).sum()
}

fn value_bytes(values: &ColumnValues) -> u64 {
    let one = |row| match values.get(row) {
        ValueRef::VarChar(text) | ValueRef::Json(text) => text.len(),
        ValueRef::Array(array) => array.bytes().len(),
        ValueRef::Vector(vector) => vector.len(),
        _ => 0,
    };
    let width = match values.data_type() {
        DataType::Scalar(scalar) => scalar.width(),
        _ => None,
    };
    let bytes = match (values, width) {
        (ColumnValues::Dense(vectors), _) => vectors.bytes().len(),
        (_, Some(width)) => values.rows() * width,
        _ => (0..values.rows()).map(one).sum(),
    };
    bytes as u64
}

/// The rows of pieces that are [`alike`], one after the other.
fn joined(mut pieces: Vec<Batch>) -> Batch {
    if pieces.len() == 1 {
        return pieces.swap_remove(0);
    }
    let rows = pieces.iter().map(|piece| piece.rows).sum();
    let fields = pieces[0].columns.len();
    let mut columns: Vec<_> = pieces.into_iter().map(|piece| piece.columns.into_iter()).collect();
    // Field by field, so that a field's pieces are gone before the next is joined.
    let next = |_| {
        let pieces: Vec<Column> = columns.iter_mut().filter_map(Iterator::next).collect();
        let whole: Vec<_> = pieces.iter().map(|piece| (piece, 0..piece.values.rows())).collect();
        rows_of(&whole)
    };
    Batch { rows, columns: (0..fields).map(next).collect() }
}

/// Some rows of columns that are alike, one after the other.
fn rows_of(parts: &[(&Column, Range<usize>)]) -> Column {
    let first = parts[0].0;
    let marks = |(column, rows): &(&Column, Range<usize>)| match &column.valid {
        Some(valid) => valid[rows.clone()].to_vec(),
        None => vec![true; rows.len()],
    };
    let marked = parts.iter().any(|(column, _)| column.valid.is_some());
    let values = match &first.values {
        ColumnValues::Dense(vectors) => {
            let bytes: Vec<&[u8]> = parts.iter().map(vector_bytes).collect();
            let all = DenseVectors::new(vectors.kind(), vectors.dim(), bytes.concat());
            ColumnValues::Dense(all.expect("whole vectors of one dimension"))
        }
        values => {
            let each = parts
                .iter()
                .flat_map(|(column, rows)| rows.clone().map(move |row| column.values.get(row)));
            ColumnValues::collect(values.data_type(), 0, &each.collect::<Vec<_>>())
        }
    };
    let valid = marked.then(|| parts.iter().flat_map(marks).collect());
    Column { field: first.field.clone(), values, valid }
}

fn vector_bytes<'c>((column, rows): &(&'c Column, Range<usize>)) -> &'c [u8] {
    let ColumnValues::Dense(vectors) = &column.values else { return &[] };
    let row_bytes = vectors.bytes().len() / column.values.rows().max(1);
    &vectors.bytes()[rows.start * row_bytes..rows.end * row_bytes]
}

#[cfg(test)]
#[path = "gather_tests.rs"]
mod tests;
