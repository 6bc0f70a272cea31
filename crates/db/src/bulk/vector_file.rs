//! Files of vectors in the layout of the Big ANN benchmarks: rows and dimension as u32, then the
//! rows, little-endian. The extension tells the type: `.fbin` f32, `.f16bin` f16, `.bf16bin` bf16,
//! `.u8bin` u8, `.i8bin` i8, `.bbin` bits, eight in a byte.
//!
//! The file is read in pieces and never held as a whole. It may not change while it is loaded.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use super::source::{BatchSource, SourceError};
use crate::ids::ErrorClass;
use crate::schema::Batch;
use crate::schema::limits::MAX_DIM;
use crate::value::{Column, ColumnValues, DenseVectors, VectorKind};

const HEADER_BYTES: usize = 8;
/// Read from both ends to tell one file from another of the same shape.
const SAMPLE_BYTES: u64 = 1 << 16;

/// Keys for rows that have none: an int64 field that counts up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Name of the field.
    pub field: String,
    /// Key of the first row.
    pub first: i64,
}

/// A file of vectors as rows: the vector, and a counted key where the collection gives none.
#[derive(Debug)]
pub struct VectorFile {
    file: File,
    path: PathBuf,
    field: String,
    key: Option<KeyColumn>,
    kind: VectorKind,
    dim: usize,
    rows: u64,
    at: u64,
    identity: u128,
}

impl VectorFile {
    /// Opens a file whose vectors are for the field of this name.
    ///
    /// # Errors
    /// [`SourceError`]: an unknown extension, a file that cannot be read, vectors of a dimension
    /// that no field has, or a length that is not what the header says.
    pub fn open(
        path: &Path,
        field: impl Into<String>,
        key: Option<KeyColumn>,
    ) -> Result<Self, SourceError> {
        let kind = kind_of(path)?;
        let read = failed(path);
        let file = File::open(path).map_err(&read)?;
        let found = file.metadata().map_err(&read)?.size();
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).map_err(&read)?;
        let word = |at| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let (rows, dim) = (u64::from(word(0)), word(4) as usize);
        if dim > MAX_DIM as usize || kind == VectorKind::Binary && !dim.is_multiple_of(8) {
            return Err(SourceError::input(format!(
                "{}: the header tells of vectors of {dim} {kind} components; a field has {MAX_DIM} \
                 at most, and of bits a multiple of 8",
                path.display()
            )));
        }
        let row_bytes = kind.row_bytes(dim).filter(|&bytes| bytes > 0);
        // Of u32 rows and a bounded dimension, so that it does not overflow.
        let bytes = row_bytes.map(|bytes| HEADER_BYTES as u64 + rows * bytes as u64);
        if rows == 0 || bytes != Some(found) {
            return Err(SourceError::input(format!(
                "{}: the header tells of {rows} rows of {dim} {kind} components, the file has \
                 {found} bytes",
                path.display()
            )));
        }
        let key_text = key.as_ref().map(|key| format!("{} from {}", key.field, key.first));
        let field = field.into();
        let mut about = format!("{kind} {dim} {rows} {field} {key_text:?} ").into_bytes();
        for start in [0, found.saturating_sub(SAMPLE_BYTES)] {
            let mut sample = vec![0; usize::try_from(SAMPLE_BYTES.min(found)).expect("64 KiB")];
            file.read_exact_at(&mut sample, start).map_err(&read)?;
            about.extend(sample);
        }
        let identity = xxh3_128(&about);
        Ok(Self { file, path: path.to_owned(), field, key, kind, dim, rows, at: 0, identity })
    }

    /// Type of its vectors.
    pub fn kind(&self) -> VectorKind {
        self.kind
    }

    /// Components of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    fn row_bytes(&self) -> usize {
        self.kind.row_bytes(self.dim).expect("these vectors are dense")
    }

    fn keys(&self, key: &KeyColumn, rows: usize) -> Result<Column, SourceError> {
        let first = i64::try_from(self.at).ok().and_then(|at| key.first.checked_add(at));
        let last = first.and_then(|first| first.checked_add(i64::try_from(rows).ok()?));
        let (Some(first), Some(last)) = (first, last) else {
            let what = format!("{}: keys from {} on pass 2^63", self.path.display(), key.first);
            return Err(SourceError::input(what));
        };
        Ok(Column::new(&*key.field, ColumnValues::Int64((first..last).collect())))
    }
}

impl BatchSource for VectorFile {
    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn identity(&self) -> u128 {
        self.identity
    }

    fn seek(&mut self, row: u64) -> Result<(), SourceError> {
        if row > self.rows {
            let what = format!("{}: has {} rows, no row {row}", self.path.display(), self.rows);
            return Err(SourceError::input(what));
        }
        self.at = row;
        Ok(())
    }

    fn next(&mut self, most: usize) -> Result<Option<Batch>, SourceError> {
        let rows = usize::try_from(self.rows - self.at).unwrap_or(usize::MAX).min(most);
        if rows == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; rows * self.row_bytes()];
        let start = HEADER_BYTES as u64 + self.at * self.row_bytes() as u64;
        self.file.read_exact_at(&mut bytes, start).map_err(failed(&self.path))?;
        let vectors = DenseVectors::new(self.kind, self.dim, bytes);
        let vectors = vectors.expect("whole rows were read, of a dimension that was checked");
        let mut columns = vec![Column::new(&*self.field, ColumnValues::Dense(vectors))];
        if let Some(key) = &self.key {
            columns.push(self.keys(key, rows)?);
        }
        self.at += rows as u64;
        Ok(Some(Batch { rows, columns }))
    }
}

fn kind_of(path: &Path) -> Result<VectorKind, SourceError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("fbin") => Ok(VectorKind::Float),
        Some("u8bin") => Ok(VectorKind::UInt8),
        Some("i8bin") => Ok(VectorKind::Int8),
        Some("f16bin") => Ok(VectorKind::Float16),
        Some("bf16bin") => Ok(VectorKind::BFloat16),
        Some("bbin") => Ok(VectorKind::Binary),
        _ => Err(SourceError::input(format!(
            "{}: the extension names no file of vectors; known are .fbin, .f16bin, .bf16bin, \
             .u8bin, .i8bin, .bbin",
            path.display()
        ))),
    }
}

/// For `map_err`: names the file.
fn failed(path: &Path) -> impl Fn(std::io::Error) -> SourceError + use<'_> {
    move |error| {
        let class = match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::UnexpectedEof => {
                ErrorClass::FixInput
            }
            _ => ErrorClass::Stop,
        };
        let what = format!("{}: {error}", path.display());
        SourceError { what, class, cause: Some(Box::new(error)) }
    }
}
