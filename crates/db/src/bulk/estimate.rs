//! What a load will take, before it begins.
//!
//! Sizes follow from the schema, so texts, JSON, arrays and sparse vectors count as a guess of
//! [`VARIABLE_BYTES`] each. Times are set by measurement on one machine (two cores, one SSD;
//! `docs/decisions/0010-bulk-load.md`) and are rough elsewhere.

use pipeann_engine::build;

use super::error::LoadError;
use crate::catalog::{CollectionEntry as Entry, IndexState};
use crate::collection::{Collection, CollectionError};
use crate::field_index::has_graph;
use crate::ids::ErrorClass;
use crate::schema::limits::{MAX_ARRAY_CAPACITY, MAX_JSON_BYTES, MAX_VARCHAR_BYTES};
use crate::schema::{FieldSpec, Schema};
use crate::value::{DataType, MAX_ROW_BYTES, ScalarType, VectorKind};

/// Guessed for a value whose length the schema does not tell.
const VARIABLE_BYTES: u64 = 32;
/// What a row takes in log and row store beside its values: ids, lengths, key, checksums.
const ROW_OVERHEAD_BYTES: u64 = 64;
/// Where a text in an array ends.
const TEXT_END_BYTES: u64 = 4;
/// Measured: the processor's part of a row, and the disk's part of each of its bytes, which it
/// writes two or three times.
const SECONDS_A_ROW: f64 = 5.0e-6;
const SECONDS_A_BYTE: f64 = 1.8e-8;
/// Copies of a batch in memory while it is read, checked, logged and applied.
const COPIES_OF_BATCH: u64 = 5;

/// What a load takes.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadEstimate {
    /// Rows to be loaded, where their number is known; else what follows is for none.
    pub rows: Option<u64>,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Time for the rows, in seconds.
    pub seconds: f64,
    /// Bytes on disk for the rows, the log at its longest included.
    pub disk_bytes: u64,
    /// Bytes of memory while rows are loaded, batches of 8 MiB and all buffers included.
    pub memory_bytes: u64,
    /// What the declared indexes take in addition, one after the other.
    pub indexes: Vec<IndexEstimate>,
}

/// What the index of a field takes.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexEstimate {
    /// Name of the field.
    pub field: String,
    /// CPU time in seconds, of all threads together.
    pub cpu_seconds: f64,
    /// Bytes of memory that the build takes.
    pub memory_bytes: u64,
    /// Bytes of the finished index.
    pub disk_bytes: u64,
}

/// Estimates a load of so many rows into a collection.
///
/// # Errors
/// [`LoadError::Collection`] where it was dropped, or an index cannot be built of such vectors.
pub fn estimate(collection: &Collection, rows: Option<u64>) -> Result<LoadEstimate, LoadError> {
    let entry = collection.entry()?;
    let options = collection.options();
    let row_bytes = ROW_OVERHEAD_BYTES
        + entry.schema.fields().iter().map(|field| value_bytes(&field.spec)).sum::<u64>();
    let count = rows.unwrap_or(0);
    let vectors = entry.schema.fields().iter().filter(|field| is_searched(&field.spec)).count();
    let batch_bytes = super::LoadOptions::new("").batch_bytes;
    // Vectors and rows once each, and the log between two flushes.
    let disk_bytes = count * row_bytes
        + (count * row_bytes).min(options.flush_log_bytes + options.log.segment_bytes);
    Ok(LoadEstimate {
        rows,
        row_bytes,
        seconds: count as f64 * (SECONDS_A_ROW + SECONDS_A_BYTE * row_bytes as f64),
        disk_bytes,
        memory_bytes: COPIES_OF_BATCH * batch_bytes
            + options.row_buffer_bytes
            + options.scalar_buffer_bytes
            + options.tail_bytes * vectors as u64,
        indexes: index_estimates(collection, &entry, count)?,
    })
}

impl LoadEstimate {
    /// Refuses a load that the disk has no room for; indexes do not count.
    pub(super) fn check_space(&self, collection: &Collection) -> Result<(), LoadError> {
        let available = collection.available_bytes()?;
        if self.disk_bytes > available {
            return Err(LoadError::Space { needed: self.disk_bytes, available });
        }
        Ok(())
    }
}

fn index_estimates(
    collection: &Collection,
    entry: &Entry,
    new: u64,
) -> Result<Vec<IndexEstimate>, LoadError> {
    let rows = collection.count(None)? + new;
    let mut estimates = Vec::new();
    for index in &entry.indexes {
        let field = entry.schema.field_by_id(index.field).map(|field| &field.spec);
        let Some((spec, metric)) = field.zip(index.metric) else { continue };
        let vector_type = spec.data_type.vector_kind().and_then(VectorKind::engine_type);
        let (Some(vector_type), Some(dim), true) = (vector_type, spec.dim, rows > 0) else {
            continue;
        };
        let built = matches!(index.state, IndexState::Finished { rows } if rows > 0);
        if built || !has_graph(index) {
            continue;
        }
        let failed = |why: String, class: ErrorClass| {
            let index = index.name.clone();
            LoadError::Collection(CollectionError::Index { index, why, class })
        };
        let options = collection.options().graph.build(metric, &index.parameters);
        let options = options.map_err(|e| failed(e.to_string(), e.class()))?;
        let found = build::estimate(rows, dim as usize, vector_type, &options);
        let found = found.map_err(|e| failed(e.to_string(), e.class()))?;
        estimates.push(IndexEstimate {
            field: spec.name.clone(),
            cpu_seconds: found.cpu_seconds,
            memory_bytes: found.peak_memory_bytes,
            disk_bytes: found.disk_bytes,
        });
    }
    Ok(estimates)
}

/// Bytes of a value, or a guess.
fn value_bytes(spec: &FieldSpec) -> u64 {
    match spec.data_type {
        DataType::Scalar(scalar) => scalar.width().map_or(VARIABLE_BYTES, |width| width as u64),
        DataType::Vector(kind) => {
            let dense = kind.row_bytes(spec.dim.unwrap_or(0) as usize);
            dense.map_or(VARIABLE_BYTES, |bytes| bytes as u64)
        }
        DataType::Json | DataType::Array(_) => VARIABLE_BYTES,
    }
}

/// Bytes of a row whose values are as long as the schema lets them be.
pub(super) fn largest_row_bytes(schema: &Schema) -> u64 {
    let values = schema.fields().iter().map(|field| largest_value_bytes(&field.spec)).sum::<u64>();
    (ROW_OVERHEAD_BYTES + values).min(MAX_ROW_BYTES as u64)
}

fn largest_value_bytes(spec: &FieldSpec) -> u64 {
    let text = u64::from(spec.max_bytes.unwrap_or(MAX_VARCHAR_BYTES));
    match spec.data_type {
        DataType::Scalar(ScalarType::VarChar) => text,
        DataType::Json => MAX_JSON_BYTES as u64,
        DataType::Array(element) => {
            let capacity = spec.max_capacity.unwrap_or(MAX_ARRAY_CAPACITY);
            let element = element.width().map_or(TEXT_END_BYTES + text, |width| width as u64);
            u64::from(capacity) * element
        }
        DataType::Vector(VectorKind::Sparse) => MAX_ROW_BYTES as u64,
        DataType::Scalar(_) | DataType::Vector(_) => value_bytes(spec),
    }
}

/// Whether its vectors stand in files of their own.
fn is_searched(spec: &FieldSpec) -> bool {
    spec.data_type.vector_kind().and_then(VectorKind::engine_type).is_some()
}
