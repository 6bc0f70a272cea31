//! Columns of rows, read from a file of JSON lines beside the file of their vectors.
//!
//! The first line declares the fields, as an array of objects of a schema: `[{"name": "tags",
//! "data_type": "array<int64>", "max_capacity": 64}]`. Each line after it is one row: an array of its
//! values in that order. Booleans, JSON and vectors have no place here.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use pipeann_db::schema::FieldSpec;
use pipeann_db::value::{
    Array, Arrays, Column, ColumnValues, DataType, ScalarType, Texts, ValueRef,
};
use serde_json::Value;

/// A file of columns, read from front to back.
pub(crate) struct ColumnsFile {
    path: PathBuf,
    fields: Vec<FieldSpec>,
    lines: Lines<BufReader<File>>,
    /// Rows that were read.
    row: usize,
}

impl ColumnsFile {
    /// Opens a file and reads which fields it has.
    ///
    /// # Errors
    /// An unreadable file, or a first line that declares no fields.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        let mut lines = BufReader::new(File::open(path).with_context(name)?).lines();
        let first = lines.next().transpose().with_context(name)?.unwrap_or_default();
        let fields = serde_json::from_str(&first)
            .with_context(|| format!("{}: the first line declares no fields", path.display()))?;
        Ok(Self { path: path.to_owned(), fields, lines, row: 0 })
    }

    /// The fields.
    pub(crate) fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    /// Passes over the next rows.
    ///
    /// # Errors
    /// There are fewer, or they cannot be read.
    pub(crate) fn skip(&mut self, rows: usize) -> Result<()> {
        for _ in 0..rows {
            self.line()?;
        }
        Ok(())
    }

    /// The columns of the next rows.
    ///
    /// # Errors
    /// There are fewer, or a line is no row of these fields; it is named.
    pub(crate) fn next(&mut self, rows: usize) -> Result<Vec<Column>> {
        let empty = |field: &FieldSpec| empty(field.data_type);
        let mut columns = self.fields.iter().map(empty).collect::<Result<Vec<_>>>()?;
        for _ in 0..rows {
            let line = self.line()?;
            let place = || format!("{}, row {}", self.path.display(), self.row - 1);
            let values: Vec<Value> = serde_json::from_str(&line).with_context(place)?;
            let (found, expected) = (values.len(), columns.len());
            ensure!(found == expected, "{}: {found} values for {expected} fields", place());
            for ((values, value), field) in columns.iter_mut().zip(&values).zip(&self.fields) {
                push(values, value)
                    .with_context(|| format!("{}, field `{}`", place(), field.name))?;
            }
        }
        let named = self.fields.iter().zip(columns);
        Ok(named.map(|(field, values)| Column::new(&*field.name, values)).collect())
    }

    fn line(&mut self) -> Result<String> {
        let name = || self.path.display().to_string();
        let line = self.lines.next().transpose().with_context(name)?;
        let line = line.with_context(|| format!("{} has {} rows", name(), self.row))?;
        self.row += 1;
        Ok(line)
    }
}

fn empty(ty: DataType) -> Result<ColumnValues> {
    Ok(match ty {
        DataType::Scalar(ScalarType::Int32) => ColumnValues::Int32(Vec::new()),
        DataType::Scalar(ScalarType::Int64) => ColumnValues::Int64(Vec::new()),
        DataType::Scalar(ScalarType::Double) => ColumnValues::Double(Vec::new()),
        DataType::Scalar(ScalarType::VarChar) => ColumnValues::VarChar(Texts::default()),
        DataType::Array(element @ (ScalarType::Int64 | ScalarType::VarChar)) => {
            ColumnValues::Array(Arrays::new(element))
        }
        other => bail!("a file of columns cannot hold {other}"),
    })
}

fn push(column: &mut ColumnValues, value: &Value) -> Result<()> {
    let wanted = column.data_type();
    let wrong = || format!("{value} is no {wanted}");
    match column {
        ColumnValues::Int32(out) => {
            let fits = value.as_i64().and_then(|v| v.try_into().ok());
            out.push(fits.with_context(wrong)?);
        }
        ColumnValues::Int64(out) => out.push(value.as_i64().with_context(wrong)?),
        ColumnValues::Double(out) => out.push(value.as_f64().with_context(wrong)?),
        ColumnValues::VarChar(out) => out.push(value.as_str().with_context(wrong)?),
        ColumnValues::Array(out) => {
            let elements = value.as_array().with_context(wrong)?;
            let DataType::Array(element) = wanted else { unreachable!("it is a column of arrays") };
            let array = Array::collect(element, elements.iter().map(scalar));
            out.push(&array.with_context(wrong)?);
        }
        _ => unreachable!("no other column is made here"),
    }
    Ok(())
}

/// A value of an array; null, which no array takes, for what is neither a number nor a text.
fn scalar(value: &Value) -> ValueRef<'_> {
    match (value.as_i64(), value.as_str()) {
        (Some(number), _) => ValueRef::Int64(number),
        (_, Some(text)) => ValueRef::VarChar(text),
        _ => ValueRef::Null,
    }
}
