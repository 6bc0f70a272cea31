//! A batch on its way to the log: checked, with keys, partitions and bytes.

use std::collections::HashMap;

use crate::catalog::{CollectionEntry as Entry, PartitionId, WriteTarget};
use crate::collection::CollectionError;
use crate::collection::formats::Formats;
use crate::collection::partitions::partition_number;
use crate::docstore;
use crate::ids::RowId;
use crate::schema::{Batch, PrimaryKey, WriteKind, limits};
use crate::wal::PutRow;

// What the schema lets through is logged, and has to fit the row store then.
const _: () = assert!(limits::MAX_KEY_BYTES <= docstore::MAX_KEY_BYTES);

/// Rows that fit the schema, without ids.
pub(in crate::collection) struct Prepared {
    pub(in crate::collection) keys: Vec<PrimaryKey>,
    rows: Vec<PreparedRow>,
    /// Encoded keys and rows, one after the other.
    bytes: Vec<u8>,
}

struct PreparedRow {
    partition: u32,
    key_end: usize,
    end: usize,
}

/// A row as the log has it.
struct EncodedRow<'a> {
    partition: u32,
    key: &'a [u8],
    blob: &'a [u8],
}

impl Prepared {
    /// Checks a batch and encodes it. `next_id` gives automatic keys.
    pub(in crate::collection) fn new(
        formats: &Formats,
        collection: &Entry,
        batch: Batch,
        kind: WriteKind,
        partition: Option<&str>,
        next_id: impl FnMut() -> i64,
    ) -> Result<Self, CollectionError> {
        let target = collection.write_target(partition)?;
        let checked = formats.schema.check_batch(batch, kind, next_id)?;
        let mut prepared = Self { keys: Vec::new(), rows: Vec::new(), bytes: Vec::new() };
        for row in 0..checked.rows() {
            let key = checked.key(row);
            key.encode(&mut prepared.bytes);
            prepared.keys.push(key.to_key());
            let key_end = prepared.bytes.len();
            checked.encode_row(&formats.logged, row, &mut prepared.bytes)?;
            let partition = match target {
                WriteTarget::One(partition) => partition_number(partition)?,
                WriteTarget::ByKey(partitions) => {
                    let count = u32::try_from(partitions.len()).expect("the catalogue bounds them");
                    let at = checked.partition(row, count).expect("there is a partition key");
                    partition_number(&partitions[at as usize])?
                }
            };
            prepared.rows.push(PreparedRow { partition, key_end, end: prepared.bytes.len() });
        }
        Ok(prepared)
    }

    /// Refuses a key that two rows have: it would not be clear which one stays.
    pub(in crate::collection) fn check_distinct(&self) -> Result<(), CollectionError> {
        let mut seen = HashMap::new();
        for (second, key) in self.keys.iter().enumerate() {
            if let Some(first) = seen.insert(key, second) {
                let key = key.as_ref().to_string();
                return Err(CollectionError::DuplicateKey { key, first, second });
            }
        }
        Ok(())
    }

    /// Puts rows into these partitions, where one is named.
    pub(in crate::collection) fn stay(&mut self, partitions: impl Iterator<Item = Option<u32>>) {
        for (row, partition) in self.rows.iter_mut().zip(partitions) {
            row.partition = partition.unwrap_or(row.partition);
        }
    }

    /// Refuses rows for a partition that was dropped since the batch was checked.
    pub(in crate::collection) fn check_partitions(
        &self,
        collection: &Entry,
    ) -> Result<(), CollectionError> {
        for row in &self.rows {
            let id = PartitionId(u64::from(row.partition));
            if !collection.partitions.iter().any(|partition| partition.id == id) {
                // By a name that says what happened; the one that was given is gone.
                collection.partition(&format!("id {}", id.0))?;
            }
        }
        Ok(())
    }

    /// The encoded keys.
    pub(in crate::collection) fn key_bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.parts().map(|row| row.key)
    }

    /// The rows under ids from `first` on.
    pub(in crate::collection) fn rows(&self, first: RowId) -> Vec<PutRow<'_>> {
        let ids = (first.0..).map(RowId);
        let rows = ids.zip(self.parts());
        let put = |(row, EncodedRow { partition, key, blob })| PutRow { row, partition, key, blob };
        rows.map(put).collect()
    }

    fn parts(&self) -> impl Iterator<Item = EncodedRow<'_>> {
        let starts = std::iter::once(0).chain(self.rows.iter().map(|row| row.end));
        starts.zip(&self.rows).map(|(start, row)| EncodedRow {
            partition: row.partition,
            key: &self.bytes[start..row.key_end],
            blob: &self.bytes[row.key_end..row.end],
        })
    }
}
