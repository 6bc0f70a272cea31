//! The store on disk against the store in memory, and against damage.

mod cache;
mod children;
mod damage;
mod documentation;
mod files;
mod interrupted;
mod late;
mod model;
mod opening;

use std::ops::Bound;
use std::path::Path;

use pipeann_engine::memory::Accountant;

use super::{LsmRows, MemoryRows, RowCache, RowChange, RowSnapshot, RowStore, RowStoreOptions};
use crate::ids::{RowId, Seq};

const COLLECTION: [u8; 16] = *b"a collection id.";

fn options() -> RowStoreOptions {
    let cache = RowCache::new(&Accountant::new(None), 1 << 20).unwrap();
    RowStoreOptions { collection: COLLECTION, cache, buffer_bytes: 8 << 20, lock: true }
}

fn open(dir: &Path) -> LsmRows {
    LsmRows::open(dir, &options()).unwrap()
}

/// A change that owns its bytes, as a log would.
#[derive(Clone, Debug)]
enum Logged {
    Put { row: u64, partition: u32, key: Vec<u8>, blob: Vec<u8> },
    Delete { row: u64 },
}

impl Logged {
    fn change(&self) -> RowChange<'_> {
        match self {
            Self::Put { row, partition, key, blob } => {
                RowChange::Put { row: RowId(*row), partition: *partition, key, blob }
            }
            Self::Delete { row } => RowChange::Delete { row: RowId(*row) },
        }
    }
}

/// The log of a test: batches numbered from 1.
#[derive(Debug, Default)]
struct Log(Vec<Vec<Logged>>);

impl Log {
    fn last(&self) -> Seq {
        Seq(self.0.len() as u64)
    }

    /// Applies what `store` has not applied yet.
    fn replay(&self, store: &dyn RowStore) {
        for (i, batch) in self.0.iter().enumerate().skip(store.applied().0 as usize) {
            let changes: Vec<_> = batch.iter().map(Logged::change).collect();
            store.apply(Seq(i as u64 + 1), &changes).unwrap();
        }
    }

    /// A store in memory with the whole log applied.
    fn model(&self) -> MemoryRows {
        let model = MemoryRows::new();
        self.replay(&model);
        model
    }

    /// Puts, replacements, deletions and repeated keys, determined by `batches`.
    fn mixed(batches: u64) -> Self {
        Self((1..=batches).map(mixed_batch).collect())
    }
}

/// The batch with number `seq`: ten new rows, then changes to older ones.
fn mixed_batch(seq: u64) -> Vec<Logged> {
    let put = |row: u64, seed: u64| Logged::Put {
        row,
        partition: (seed % 3) as u32,
        key: format!("key {}", seed % 50).into_bytes(),
        blob: format!("row {row} of batch {seq} {}", "x".repeat((seed % 40) as usize)).into_bytes(),
    };
    let mut batch: Vec<_> =
        (0..10).map(|i| put(seq * 10 + i, seq.wrapping_mul(7_919) + i * 31)).collect();
    batch.push(Logged::Delete { row: seq * 7 % (seq * 10) });
    batch.push(Logged::Delete { row: seq * 10 + seq % 10 });
    batch.push(put(seq * 3 % (seq * 10) + 10, seq * 13));
    batch
}

/// Everything a view shows.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    rows: Vec<(RowId, u32, Vec<u8>, Vec<u8>)>,
    keys: Vec<(Vec<u8>, RowId)>,
    count: u64,
    partitions: Vec<u64>,
}

fn contents(view: &dyn RowSnapshot) -> Result<Contents, super::StoreError> {
    let (mut rows, mut keys) = (Vec::new(), Vec::new());
    view.scan_rows(Bound::Unbounded, usize::MAX, &mut |row| {
        rows.push((row.row, row.partition, row.key.to_vec(), row.blob.to_vec()));
    })?;
    view.scan_keys(Bound::Unbounded, usize::MAX, &mut |key, row| {
        keys.push((key.to_vec(), row));
    })?;
    let partitions = (0..4).map(|p| view.count_in(p)).collect();
    Ok(Contents { rows, keys, count: view.count(), partitions })
}

/// Fails unless `store` shows what `model` shows, in every way of asking.
fn assert_same(store: &dyn RowStore, model: &dyn RowStore) {
    let (view, expected) = (store.snapshot(), model.snapshot());
    let found = contents(&*view).unwrap();
    assert_eq!(found, contents(&*expected).unwrap());
    assert_eq!(found.rows.len() as u64, found.count, "the counter counts live rows");
    assert_eq!((view.applied(), store.next_row()), (expected.applied(), model.next_row()));
    let asked: Vec<_> = (0..=model.next_row().0 + 1).rev().map(RowId).collect();
    let blobs = |view: &dyn RowSnapshot| {
        let mut blobs = Vec::new();
        view.get(&asked, &mut |i, blob| blobs.push((i, blob.map(<[u8]>::to_vec)))).unwrap();
        blobs
    };
    assert_eq!(blobs(&*view), blobs(&*expected));
    for (key, _) in &found.keys {
        assert_eq!(view.rows_of_key(key).unwrap(), expected.rows_of_key(key).unwrap());
    }
    assert_eq!(view.rows_of_key(b"no such key").unwrap(), []);
}
