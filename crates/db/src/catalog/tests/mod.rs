//! Tests of the room `catalog`: each refusal by name, the file and its damages, failed saves,
//! readers beside writers, and random changes against a naive model.

mod changes;
mod collections;
mod contents;
mod file;
mod model;
mod names;
mod random;
mod saving;

use super::{
    Applied, Catalog, CatalogError, CollectionEntry, CollectionId, CollectionPath, EntryChange,
    MemoryStore, NewCollection, NewIndex, Properties, Subject, UnixMs,
};
use crate::ids::Metric;
use crate::schema::{FieldSpec, Schema};
use crate::value::{DataType, ScalarType, VectorKind};

const NOW: UnixMs = UnixMs(1_000);

fn new_catalog() -> (Catalog, MemoryStore) {
    let store = MemoryStore::default();
    (Catalog::create(Box::new(store.clone()), NOW).unwrap(), store)
}

fn place(collection: &str) -> CollectionPath {
    CollectionPath::new("default", collection)
}

fn schema(keyed: bool) -> Schema {
    let int64 = DataType::Scalar(ScalarType::Int64);
    let tenant = FieldSpec::new("tenant", int64);
    Schema::builder()
        .field(FieldSpec::new("id", int64).primary_key())
        .field(FieldSpec::new("vector", DataType::Vector(VectorKind::Float)).dim(4))
        .field(if keyed { tenant.partition_key() } else { tenant })
        .field(FieldSpec::new("words", DataType::Vector(VectorKind::Sparse)))
        .field(FieldSpec::new("json", DataType::Json).nullable())
        .build()
        .unwrap()
}

fn create(name: &str, keyed: bool) -> EntryChange {
    let new = Box::new(NewCollection::new(schema(keyed)));
    EntryChange::CreateCollection { place: place(name), new }
}

fn index(field: &str) -> NewIndex {
    let is_vector = field == "vector" || field == "words";
    NewIndex {
        field: field.into(),
        name: None,
        kind: "AUTOINDEX".into(),
        metric: is_vector.then_some(Metric::L2),
        parameters: Properties::new(),
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Properties {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

trait Ease {
    /// Applies at [`NOW`].
    fn make(&self, change: EntryChange) -> Result<Applied, CatalogError>;
    /// Applies, and gives the message of the refusal.
    fn refusal(&self, change: EntryChange) -> String;
    /// The collection of this name in the default database.
    fn get(&self, name: &str) -> CollectionEntry;
}

impl Ease for Catalog {
    fn make(&self, change: EntryChange) -> Result<Applied, CatalogError> {
        self.apply(change, NOW)
    }

    fn refusal(&self, change: EntryChange) -> String {
        let before = self.snapshot();
        let message = self.apply(change, NOW).expect_err("a refusal").to_string();
        assert_eq!(self.snapshot(), before, "a refusal changes nothing");
        message
    }

    fn get(&self, name: &str) -> CollectionEntry {
        CollectionEntry::clone(self.snapshot().collection("default", name).unwrap())
    }
}

fn collection_id(applied: Applied) -> CollectionId {
    match applied.subject {
        Subject::Collection(id) => id,
        other => panic!("{other:?} is no collection"),
    }
}
