//! The net effect of a batch, and the counters that it moves.

use std::collections::BTreeMap;

use super::{MAX_KEY_BYTES, RowChange, StoreError};
use crate::ids::RowId;

/// The longest blob: the embedded store keeps lengths in 32 bits, and adds a header and the key.
pub(super) const MAX_BLOB_BYTES: usize = u32::MAX as usize - 2 * MAX_KEY_BYTES;

/// What a row looks like after a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewRow<'a> {
    pub(super) partition: u32,
    pub(super) key: &'a [u8],
    pub(super) blob: &'a [u8],
}

/// For each row that the batch touches, ascending, what it is afterwards; `None` for gone.
pub(super) type Net<'a> = Vec<(RowId, Option<NewRow<'a>>)>;

/// Folds a batch: the last change of a row counts.
pub(super) fn net<'a>(changes: &[RowChange<'a>]) -> Result<Net<'a>, StoreError> {
    let mut net = Net::with_capacity(changes.len());
    for change in changes {
        let after = match *change {
            RowChange::Delete { .. } => None,
            RowChange::Put { row, partition, key, blob } => {
                if key.len() > MAX_KEY_BYTES {
                    let (bytes, limit) = (key.len(), MAX_KEY_BYTES);
                    return Err(StoreError::KeyTooLong { row: row.0, bytes, limit });
                }
                if blob.len() > MAX_BLOB_BYTES {
                    let (bytes, limit) = (blob.len(), MAX_BLOB_BYTES);
                    return Err(StoreError::BlobTooLong { row: row.0, bytes, limit });
                }
                Some(NewRow { partition, key, blob })
            }
        };
        net.push((change.row(), after));
    }
    // Rows that are new come in order.
    if !net.is_sorted_by(|a, b| a.0 < b.0) {
        net.sort_by_key(|(row, _)| *row);
        net.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = later.1;
            }
            same
        });
    }
    Ok(net)
}

/// Live rows, in total and by partition. No partition is listed with zero rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    total: u64,
    partitions: BTreeMap<u32, u64>,
}

impl Counts {
    pub(super) fn from_partitions(partitions: BTreeMap<u32, u64>) -> Self {
        Self { total: partitions.values().sum(), partitions }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn of(&self, partition: u32) -> u64 {
        self.partitions.get(&partition).copied().unwrap_or(0)
    }

    pub(super) fn partitions(&self) -> &BTreeMap<u32, u64> {
        &self.partitions
    }

    /// Counts a row that was in `before` and is in `after`.
    pub(super) fn moved(&mut self, before: Option<u32>, after: Option<u32>) {
        if before == after {
            return;
        }
        if let Some(partition) = before {
            let rows = self.partitions.get_mut(&partition).expect("a live row is counted");
            *rows -= 1;
            if *rows == 0 {
                self.partitions.remove(&partition);
            }
            self.total -= 1;
        }
        if let Some(partition) = after {
            *self.partitions.entry(partition).or_default() += 1;
            self.total += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_row_counts_in_whatever_order_rows_come() {
        let put = |row, blob| RowChange::Put { row: RowId(row), partition: 0, key: b"k", blob };
        let gone = |row| RowChange::Delete { row: RowId(row) };
        let of = |changes: &[RowChange<'_>]| -> Vec<(u64, Option<Vec<u8>>)> {
            let net = net(changes).expect("keys and blobs are short");
            net.into_iter().map(|(row, new)| (row.0, new.map(|n| n.blob.to_vec()))).collect()
        };
        let kept = |row: u64, blob: &[u8]| (row, Some(blob.to_vec()));
        assert_eq!(of(&[put(1, b"a"), put(2, b"b")]), [kept(1, b"a"), kept(2, b"b")]);
        let changes = [gone(5), put(7, b"a"), put(2, b"b"), put(7, b"c"), put(5, b"d"), gone(2)];
        assert_eq!(of(&changes), [(2, None), kept(5, b"d"), kept(7, b"c")]);
    }
}
