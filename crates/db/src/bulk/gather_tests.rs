//! Pieces of every type, put together and taken apart: no row is lost, changed or moved.

use super::*;
use crate::ids::ErrorClass;
use crate::value::{Array, Arrays, Blobs, ScalarType, VectorKind};

/// Rows that tell their number in each of their columns.
struct Rows {
    rows: usize,
    at: usize,
    /// From here on texts are long.
    long_from: usize,
    /// Fails once it is to read this row.
    fails_at: usize,
    /// Most rows that were asked for at once.
    asked: usize,
    /// Most rows that are handed out at once.
    most: usize,
}

impl Rows {
    fn new(rows: usize) -> Self {
        let never = usize::MAX;
        Self { rows, at: 0, long_from: never, fails_at: never, asked: 0, most: never }
    }

    fn batch(&self, rows: Range<usize>) -> Batch {
        let text = |row: usize| match row < self.long_from {
            true => format!("row {row}"),
            false => format!("{row:1000}"),
        };
        let mut arrays = Arrays::new(ScalarType::Int32);
        let mut sparse = Blobs::default();
        for row in rows.clone() {
            let elements = (0..row % 3).map(|i| ValueRef::Int32((row + i) as i32));
            arrays.push(&Array::collect(ScalarType::Int32, elements).unwrap());
            sparse.push(&[row as u8; 8][..8 * (row % 2)]);
        }
        let vectors = rows.clone().flat_map(|row| [row as u8, 1]).collect();
        let vectors = DenseVectors::new(VectorKind::Binary, 16, vectors).unwrap();
        let numbers = rows.clone().map(|row| row as i64).collect();
        let mut columns = vec![
            Column::new("number", ColumnValues::Int64(numbers)),
            Column::new("flag", ColumnValues::Bool(rows.clone().map(|row| row % 5 == 0).collect())),
            Column::new("text", ColumnValues::VarChar(rows.clone().map(text).collect())),
            Column::new("json", ColumnValues::Json(rows.clone().map(text).collect())),
            Column::new("array", ColumnValues::Array(arrays)),
            Column::new("dense", ColumnValues::Dense(vectors)),
            Column::new("sparse", ColumnValues::Sparse(sparse)),
        ];
        // Some pieces have values in all rows, and no marks then.
        if !rows.start.is_multiple_of(2) {
            columns[2].valid = Some(rows.clone().map(|row| row % 7 != 0).collect());
        }
        Batch { rows: rows.len(), columns }
    }
}

impl BatchSource for Rows {
    fn rows(&self) -> Option<u64> {
        None
    }

    fn identity(&self) -> u128 {
        1
    }

    fn seek(&mut self, row: u64) -> Result<(), SourceError> {
        self.at = row as usize;
        Ok(())
    }

    fn next(&mut self, most: usize) -> Result<Option<Batch>, SourceError> {
        self.asked = self.asked.max(most);
        let end = self.rows.min(self.at + most.min(self.most));
        if (self.at..end).contains(&self.fails_at) {
            self.fails_at = usize::MAX;
            return Err(SourceError::input("it fails"));
        }
        let next = (self.at < end).then(|| self.batch(self.at..end));
        self.at = end;
        Ok(next)
    }
}

/// Checks that these are the rows from `first` on, and returns the one behind them.
fn check(batch: &Batch, first: usize) -> usize {
    batch.check_lengths().unwrap();
    let end = first + batch.rows;
    let expected = Rows::new(end).batch(first..end);
    for (found, expected) in batch.columns.iter().zip(&expected.columns) {
        assert_eq!(found.field, expected.field);
        for row in (0..batch.rows).filter(|_| found.field != "text") {
            assert_eq!(found.get(row), expected.get(row), "{} {}", found.field, first + row);
        }
    }
    end
}

fn gathering(source: &mut Rows, piece_rows: u64) -> BatchGathering<'_> {
    BatchGathering { piece_rows, ..BatchGathering::new(source, 1) }
}

#[test]
fn pieces_become_batches_of_the_same_rows() {
    for (piece_rows, most, enough) in [(1, 100, 500), (7, 100, 500), (3, 10, 1 << 20), (64, 9, 1)] {
        let mut source = Rows::new(300);
        let mut pieces = gathering(&mut source, piece_rows);
        let mut at = 0;
        while let Some(batch) = pieces.next(most, enough).unwrap() {
            let bytes = batch_bytes(&batch);
            assert!(batch.rows == 1 || bytes <= enough + enough / 4, "{bytes} bytes");
            assert!(batch.rows as u64 <= most, "{} rows", batch.rows);
            at = check(&batch, at);
        }
        assert_eq!(at, 300, "pieces of {piece_rows}");
        assert!(source.asked as u64 <= piece_rows);
    }
}

#[test]
fn rows_without_a_value_stay_without_one() {
    let mut source = Rows::new(60);
    // Every second piece has marks.
    let batch = gathering(&mut source, 3).next(60, 1 << 20).unwrap().unwrap();
    let valid = batch.columns[2].valid.as_ref().unwrap();
    let piece_is_marked = |row: usize| !(row / 3 * 3).is_multiple_of(2);
    assert!((0..60).all(|row| valid[row] == (!piece_is_marked(row) || row % 7 != 0)), "{valid:?}");
    let ColumnValues::VarChar(texts) = &batch.columns[2].values else { panic!() };
    assert!((0..60).all(|row| texts.get(row) == format!("row {row}")));
}

#[test]
fn a_batch_ends_where_rows_become_large() {
    let mut source = Rows { long_from: 50, ..Rows::new(100) };
    let mut pieces = gathering(&mut source, 80);
    let (mut at, mut rows) = (0, Vec::new());
    while let Some(batch) = pieces.next(80, 3000).unwrap() {
        let bytes = batch_bytes(&batch);
        assert!(batch.rows == 1 || bytes <= 3750, "{bytes} bytes in {} rows", batch.rows);
        rows.push(batch.rows);
        let ColumnValues::Int64(numbers) = &batch.columns[0].values else { panic!() };
        assert!((at..).zip(numbers).all(|(row, number)| row as i64 == *number));
        at += batch.rows;
    }
    assert_eq!(at, 100);
    assert!(rows.iter().filter(|&&rows| rows == 1).count() >= 45, "{rows:?}");
}

#[test]
fn what_fails_behind_some_rows_fails_after_them() {
    let mut source = Rows { fails_at: 25, ..Rows::new(40) };
    let mut pieces = gathering(&mut source, 10);
    assert_eq!(check(&pieces.next(40, 1 << 20).unwrap().unwrap(), 0), 20);
    let error = pieces.next(40, 1 << 20).unwrap_err();
    assert_eq!((error.what.as_str(), error.class), ("it fails", ErrorClass::FixInput));
    pieces.seek(20).unwrap();
    assert_eq!(check(&pieces.next(40, 1 << 20).unwrap().unwrap(), 20), 40);
    assert!(pieces.next(40, 1 << 20).unwrap().is_none());
}

#[test]
fn what_comes_in_less_than_was_asked_for_is_not_waited_for() {
    let mut source = Rows { most: 6, ..Rows::new(20) };
    let mut pieces = gathering(&mut source, 10);
    assert_eq!(check(&pieces.next(40, 1 << 20).unwrap().unwrap(), 0), 6);
    assert_eq!(check(&pieces.next(40, 1 << 20).unwrap().unwrap(), 6), 12);
}

#[test]
fn pieces_of_other_columns_are_other_batches() {
    let whole = Rows::new(10).batch(0..10);
    let mut other = whole.clone();
    other.columns[0].values = ColumnValues::Int32(vec![0; 10]);
    assert!(alike(&whole, &whole) && !alike(&whole, &other));
    let mut short = whole.clone();
    short.columns[1].values = ColumnValues::Bool(vec![true]);
    assert!(!alike(&short, &short), "it is refused by itself, with its field");
    let mut fewer = whole.clone();
    fewer.columns.pop();
    assert!(!alike(&whole, &fewer));
}
