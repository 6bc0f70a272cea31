//! A collection without a database, for tests of what nobody sees from outside.

use std::ops::Range;
use std::sync::Arc;

use pipeann_engine::memory::Accountant;
use pipeann_engine::types::VectorSet;
use tempfile::TempDir;

use super::field_vectors::FieldVectors;
use super::{COLLECTIONS_DIR, Collection, CollectionIdentity, CollectionOptions, Home};
use crate::catalog::{
    Catalog, CollectionPath, EntryChange, MemoryStore, NewCollection, NewIndex, Properties, UnixMs,
};
use crate::disk::{Disk, RealDisk};
use crate::docstore::RowCache;
use crate::field_index::{FieldIndex, GraphOptions};
use crate::ids::{Metric, VectorType};
use crate::schema::{Batch, FieldSpec, Schema};
use crate::value::{Column, ColumnValues, DataType, DenseVectors, ScalarType, VectorKind};

pub(super) const DIM: usize = 4;
const NOW: UnixMs = UnixMs(1_000_000);

/// A collection that is loaded, with an index that is not built, and where it is kept.
pub(super) struct Fixture {
    pub(super) collection: Arc<Collection>,
    pub(super) catalog: Arc<Catalog>,
    _dir: TempDir,
}

/// A graph is small here; the memory is the test's own.
pub(super) fn options() -> CollectionOptions {
    let graph = GraphOptions {
        build_threads: 1,
        least_rows: 300,
        direct: false,
        ..GraphOptions::default()
    };
    CollectionOptions { graph, accountant: Accountant::new(None), ..CollectionOptions::default() }
}

impl Fixture {
    pub(super) fn new(options: CollectionOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(dir.path()).unwrap();
        disk.create_dir(COLLECTIONS_DIR).unwrap();
        let home = Home {
            disk: Arc::new(disk),
            files: dir.path().to_owned(),
            row_cache: Some(RowCache::new(&options.accountant, 1 << 20).unwrap()),
            pin: None,
            shared: None,
            now: Arc::new(|| NOW),
        };
        let schema = Schema::builder()
            .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
            .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(DIM as u32))
            .build()
            .unwrap();
        let catalog = Catalog::create(Box::new(MemoryStore::default()), NOW).unwrap();
        let catalog = Arc::new(catalog);
        let (field, kind) = ("v".to_owned(), "DISKANN".to_owned());
        let (name, metric) = (Some("graph".to_owned()), Some(Metric::L2));
        let new = NewIndex { field, name, kind, metric, parameters: Properties::new() };
        let created = Box::new(NewCollection::new(schema));
        for change in [
            EntryChange::CreateCollection { place: Self::place(), new: created },
            EntryChange::CreateIndex { place: Self::place(), new },
            EntryChange::Load { place: Self::place(), partitions: None },
        ] {
            catalog.apply(change, NOW).unwrap();
        }
        let snapshot = catalog.snapshot();
        let entry = snapshot.collection("default", "c").unwrap();
        let identity = CollectionIdentity { id: entry.id, created: entry.created };
        super::create(&home, identity, &options).unwrap();
        let collection = super::open(&home, Arc::clone(&catalog), entry, options).unwrap();
        Self { collection, catalog, _dir: dir }
    }

    pub(super) fn place() -> CollectionPath {
        CollectionPath::new("default", "c")
    }

    pub(super) fn apply(&self, change: EntryChange) {
        self.catalog.apply(change, NOW).unwrap();
    }

    /// Rows of these keys in the graph, of which it is built.
    pub(super) fn build(&self, keys: Range<i64>) {
        self.collection.upsert(batch(keys), None).unwrap();
        self.collection.build_index("graph").unwrap();
        self.collection.wait_for_index("graph").unwrap();
    }

    pub(super) fn field(&self) -> &FieldVectors {
        self.collection.components.field("v").unwrap()
    }

    pub(super) fn graph(&self) -> Arc<FieldIndex> {
        self.field().graph().expect("a graph is open")
    }
}

/// The vector of a key.
pub(super) fn vector(key: i64) -> Vec<u8> {
    let x = (key as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (0..DIM).flat_map(|i| f32::from((x >> (16 * i)) as u16).to_le_bytes()).collect()
}

pub(super) fn batch(keys: Range<i64>) -> Batch {
    let vectors = keys.clone().flat_map(vector).collect();
    let vectors = DenseVectors::new(VectorKind::Float, DIM, vectors).unwrap();
    let rows = keys.clone().count();
    let ids = Column::new("id", ColumnValues::Int64(keys.collect()));
    Batch { rows, columns: vec![ids, Column::new("v", ColumnValues::Dense(vectors))] }
}

pub(super) fn query(vector: &[u8]) -> VectorSet<'_> {
    VectorSet::new(vector, DIM, VectorType::F32).unwrap()
}
