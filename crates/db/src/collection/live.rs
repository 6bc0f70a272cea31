//! Which rows live, and in which partition: one bit for each row id.
//!
//! This is what readers look at: a row is visible if its bit is set, whatever vectors or indexes
//! still hold of it. Partitions share nothing, so that a write copies only the bitmaps that it
//! touches, and those only while a reader still holds the version before.

use std::collections::BTreeMap;
use std::sync::Arc;

use roaring::RoaringTreemap;

use crate::docstore::Row;
use crate::ids::{RowId, Seq};
use crate::scalar::Judged;
use crate::wal::{PutRow, Record};

/// The live rows as of one log record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LiveRows {
    /// The last record that is included.
    pub(super) applied: Seq,
    /// One more than the largest row id that was ever given out.
    pub(super) next_row: RowId,
    /// Rows below are not among them, whether they live or not, since their time is over.
    pub(super) hidden_before: RowId,
    all: Arc<RoaringTreemap>,
    /// No partition is listed with zero rows.
    partitions: BTreeMap<u32, Arc<RoaringTreemap>>,
}

/// Live rows without those that are over, which many readers ask for.
pub(super) type Hidden = Option<(Arc<LiveRows>, Arc<LiveRows>)>;

impl LiveRows {
    /// The rows of these partitions.
    pub(super) fn new(
        applied: Seq,
        next_row: RowId,
        partitions: BTreeMap<u32, RoaringTreemap>,
    ) -> Self {
        let mut all = RoaringTreemap::new();
        partitions.values().for_each(|rows| all |= rows);
        let partitions = partitions.into_iter().filter(|(_, rows)| !rows.is_empty());
        let partitions = partitions.map(|(number, rows)| (number, Arc::new(rows))).collect();
        Self { applied, next_row, hidden_before: RowId(0), all: Arc::new(all), partitions }
    }

    /// Includes a record; one that is included already changes nothing.
    pub(super) fn apply(&mut self, seq: Seq, record: &Record<'_>) {
        if seq <= self.applied {
            return;
        }
        let (deleted, rows): (&[RowId], &[PutRow<'_>]) = match record {
            Record::Put(rows) => (&[], rows),
            Record::Delete(deleted) => (deleted, &[]),
            Record::Upsert { deleted, rows } => (deleted, rows),
            Record::Link(_) => (&[], &[]),
        };
        for &row in deleted {
            self.remove(row);
        }
        let follows = |a: &PutRow<'_>, b: &PutRow<'_>| {
            a.partition == b.partition && a.row.0.checked_add(1) == Some(b.row.0)
        };
        for run in rows.chunk_by(follows) {
            self.insert(run[0].row, run[run.len() - 1].row, run[0].partition);
        }
        self.applied = seq;
    }

    /// Includes a record that changes nothing.
    pub(super) fn pass(&mut self, seq: Seq) {
        self.applied = self.applied.max(seq);
    }

    /// Whether a row below this one lives.
    pub(super) fn has_before(&self, row: RowId) -> bool {
        self.all.min().is_some_and(|first| first < row.0)
    }

    /// The same without the rows below this one.
    pub(super) fn without_before(&self, row: RowId) -> Self {
        let mut shown = self.clone();
        shown.hidden_before = row;
        let cut = |rows: &mut Arc<RoaringTreemap>| {
            Arc::make_mut(rows).remove_range(..row.0);
        };
        cut(&mut shown.all);
        shown.partitions.values_mut().for_each(cut);
        shown.partitions.retain(|_, rows| !rows.is_empty());
        shown
    }

    /// The partition that a live row is in.
    pub(super) fn partition_of(&self, row: RowId) -> Option<u32> {
        self.partitions.iter().find(|(_, rows)| rows.contains(row.0)).map(|(number, _)| *number)
    }

    /// Whether a row lives.
    pub(super) fn contains(&self, row: RowId) -> bool {
        self.all.contains(row.0)
    }

    /// Notes a row of the row store, while live rows are made from it.
    pub(super) fn insert_stored(&mut self, row: &Row<'_>) {
        self.insert(row.row, row.row, row.partition);
    }

    /// Notes the rows from `first` to `last`.
    fn insert(&mut self, first: RowId, last: RowId, partition: u32) {
        let rows = first.0..=last.0;
        Arc::make_mut(&mut self.all).insert_range(rows.clone());
        Arc::make_mut(self.partitions.entry(partition).or_default()).insert_range(rows);
        let next = last.0.checked_add(1).expect("2^64 rows are never reached");
        self.next_row = self.next_row.max(RowId(next));
    }

    fn remove(&mut self, row: RowId) {
        if !self.all.contains(row.0) {
            return;
        }
        Arc::make_mut(&mut self.all).remove(row.0);
        let number = self.partition_of(row).expect("each live row is in one partition");
        let rows = self.partitions.get_mut(&number).expect("it was found there");
        Arc::make_mut(rows).remove(row.0);
        if rows.is_empty() {
            self.partitions.remove(&number);
        }
    }

    /// Which rows are gone for good.
    pub(super) fn judged(&self) -> Judged<'_> {
        Judged { live: &self.all, next_row: self.next_row }
    }

    /// Live rows.
    pub(super) fn len(&self) -> u64 {
        self.all.len()
    }

    /// Live rows of one partition.
    pub(super) fn len_in(&self, partition: u32) -> u64 {
        self.partitions.get(&partition).map_or(0, |rows| rows.len())
    }

    /// Numbers of the partitions that have rows.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (u32, &RoaringTreemap)> {
        self.partitions.iter().map(|(number, rows)| (*number, &**rows))
    }

    /// The rows of these partitions, of all where there is no list.
    pub(super) fn among(&self, partitions: Option<&[u32]>) -> Arc<RoaringTreemap> {
        match partitions {
            None => Arc::clone(&self.all),
            Some([one]) => self.partitions.get(one).cloned().unwrap_or_default(),
            Some(some) => {
                let mut rows = RoaringTreemap::new();
                for number in some {
                    if let Some(more) = self.partitions.get(number) {
                        rows |= &**more;
                    }
                }
                Arc::new(rows)
            }
        }
    }
}
