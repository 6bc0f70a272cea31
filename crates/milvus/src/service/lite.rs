//! Collections of Milvus Lite, put into a database with their keys as they are.
//!
//! Who calls reads the file; here is what its rows mean. A collection is seen when it is whole: until
//! then it stands in a database of its own, which goes with it where anything is refused, and with the
//! next takeover where the process has ended in between. There is one takeover at a time.

use std::collections::HashSet;
use std::sync::Arc;

use pipeann_db::catalog::{
    CollectionEntry as Entry, CollectionPath, EntryChange, IndexState, Properties, Snapshot,
};
use pipeann_db::collection::Collection;

use super::collections;
use super::frontend::Call;
use super::in_process::{InProcess, RefusedCall};
use crate::convert::index::new_index;
use crate::convert::parameters::Parameters;
use crate::convert::{columns_in, lite, names, schema_in};
use crate::proto::milvus as wire;
use crate::proto::schema::{CollectionSchema, FieldData};
use crate::status::{CallFailure, Code};
use prost::Message as _;

/// Rows that are written at once.
const BATCH_ROWS: u32 = 4096;
/// Bytes of records from which on rows are written.
const BATCH_BYTES: usize = 8 << 20;
/// Name of the database of what is not whole yet; numbers follow it where somebody else has that name.
const STAGING: &str = "_taking_over";
/// Is a property of this database, and of no other: what is in it may be dropped.
const STAGED: &str = "pipeann.taking_over";

/// What became of a collection.
#[derive(Clone, Debug)]
pub struct TakenOver {
    /// Rows that are there, of which none have the same key.
    pub rows: u64,
    /// Names of indexes that were made.
    pub indexes: Vec<String>,
    /// Names of indexes that could not be made, each with why.
    pub without: Vec<(String, String)>,
}

/// A collection of Milvus Lite on its way into a database.
pub struct Takeover {
    staging: Staging,
    /// Where it stands meanwhile, and where when it is whole.
    place: CollectionPath,
    to: CollectionPath,
    schema: CollectionSchema,
    entry: Arc<Entry>,
    collection: Arc<Collection>,
    fields: Vec<FieldData>,
    keys: HashSet<Vec<u8>>,
    bytes: usize,
}

impl std::fmt::Debug for Takeover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Takeover").field("to", &self.to).finish_non_exhaustive()
    }
}

impl InProcess {
    /// Whether a collection with this schema, as Milvus Lite keeps it, could be taken over.
    ///
    /// # Errors
    /// [`RefusedCall`]: its name, a field or a function cannot be had here, or there is a collection of
    /// this name.
    pub fn check_takeover(&self, name: &str, schema: &[u8]) -> Result<(), RefusedCall> {
        let call = self.call();
        names::collection(name)?;
        schema_in::schema(lite::schema(schema)?)?;
        let there = call.catalog();
        if there.collection(call.database_name(""), name).is_ok() {
            let reason = format!("there is a collection {name} in the database already");
            return Err(CallFailure::new(Code::Unexpected, reason).into());
        }
        Ok(())
    }

    /// Makes a collection for the rows of one of Milvus Lite, of which this is the schema. What is left
    /// of one that was not finished goes.
    ///
    /// # Errors
    /// As [`check_takeover`](Self::check_takeover), or [`RefusedCall`] where the database fails.
    pub fn take_over(&self, name: &str, schema: &[u8]) -> Result<Takeover, RefusedCall> {
        self.check_takeover(name, schema)?;
        let to = self.call().place("", name.to_owned())?;
        let staging = Staging::new(self.call())?;
        let (call, database) = (&staging.call, staging.database.as_str());
        let schema = lite::schema(schema)?;
        let request = wire::CreateCollectionRequest {
            db_name: database.to_owned(),
            collection_name: name.to_owned(),
            schema: schema.encode_to_vec(),
            ..Default::default()
        };
        collections::create(call, request)?;
        let place = CollectionPath::new(database, name);
        let (entry, collection) = (call.entry(database, name)?, call.collection(database, name)?);
        let (fields, keys, bytes) = (Vec::new(), HashSet::new(), 0);
        Ok(Takeover { staging, place, to, schema, entry, collection, fields, keys, bytes })
    }
}

/// The database of what is not whole yet: gone, with all that is in it, when this is dropped.
struct Staging {
    call: Call,
    database: String,
}

impl Staging {
    fn new(call: Call) -> Result<Self, CallFailure> {
        let before = call.catalog();
        let left = before.databases().filter(|(name, entry)| {
            name.starts_with(STAGING) && entry.properties.contains_key(STAGED)
        });
        for (database, _) in left {
            drop_whole(&call, database)?;
        }
        let database = free_name(&call.catalog());
        let properties = Properties::from([(STAGED.to_owned(), "true".to_owned())]);
        let name = database.clone();
        call.database().apply(EntryChange::CreateDatabase { name, properties })?;
        Ok(Self { call, database })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let Self { call, database } = self;
        if let Err(failure) = drop_whole(call, database) {
            tracing::warn!(%database, reason = %failure.reason, "half a collection is left");
        }
    }
}

/// A name that no database has.
fn free_name(catalog: &Snapshot) -> String {
    let is_free = |name: &String| catalog.database(name).is_err();
    let numbered = (1..).map(|n: u32| format!("{STAGING}_{n}"));
    let mut names = std::iter::once(STAGING.to_owned()).chain(numbered);
    names.find(is_free).expect("there are fewer databases than numbers")
}

/// Drops a database and all that is in it.
fn drop_whole(call: &Call, database: &str) -> Result<(), CallFailure> {
    let (catalog, name) = (call.catalog(), database.to_owned());
    for (alias, _) in catalog.aliases(database)? {
        let alias = alias.to_owned();
        call.database().apply(EntryChange::DropAlias { database: name.clone(), alias })?;
    }
    for entry in catalog.collections(database)? {
        let place = CollectionPath::new(database, &entry.name);
        call.database().apply(EntryChange::DropCollection { place })?;
    }
    call.database().apply(EntryChange::DropDatabase { name })?;
    Ok(())
}

impl Takeover {
    /// Adds the record of a row. Of several with one key the last counts.
    ///
    /// # Errors
    /// [`RefusedCall`] for a record that is damaged or not of this schema.
    pub fn add(&mut self, key: &[u8], record: &[u8]) -> Result<(), RefusedCall> {
        let row = lite::row(record)?;
        lite::check_values(&row, &self.entry.schema)?;
        let full = self.keys.len() as u32 >= BATCH_ROWS || self.bytes >= BATCH_BYTES;
        if full || self.keys.contains(key) || !lite::alike(&self.fields, &row) {
            self.write()?;
        }
        match self.fields.is_empty() {
            true => self.fields = row,
            false => lite::append(&mut self.fields, row),
        }
        self.keys.insert(key.to_vec());
        self.bytes += record.len();
        Ok(())
    }

    fn write(&mut self) -> Result<(), CallFailure> {
        let rows = self.keys.len() as u32;
        let fields = std::mem::take(&mut self.fields);
        self.keys.clear();
        self.bytes = 0;
        if rows > 0 {
            let batch = columns_in::batch(&self.entry.schema, fields, rows)?;
            // Unlike an insert it keeps keys that a server has assigned.
            self.collection.upsert(batch, None)?;
        }
        Ok(())
    }

    /// Writes what is left, builds the indexes of these records, loads the collection where all its
    /// vectors have one, and has it seen. An index that cannot be had here is left out and told.
    ///
    /// # Errors
    /// [`RefusedCall`]; nothing of the collection is left then.
    pub fn finish<'r>(
        mut self,
        indexes: impl Iterator<Item = &'r [u8]>,
    ) -> Result<TakenOver, RefusedCall> {
        self.write()?;
        let mut taken = TakenOver { rows: 0, indexes: Vec::new(), without: Vec::new() };
        for record in indexes {
            let index = lite::index(record, &self.schema)?;
            let name = index.name.clone();
            match self.build(index) {
                Ok(()) => taken.indexes.push(name),
                Err(failure) => taken.without.push((name, failure.reason)),
            }
        }
        let entry = self.collection.entry().map_err(CallFailure::from)?;
        let bare = entry.schema.fields().iter().any(|field| {
            field.spec.data_type.vector_kind().is_some()
                && entry.indexes_of(field.id).next().is_none()
        });
        if !bare {
            let load = EntryChange::Load { place: self.place.clone(), partitions: None };
            self.staging.call.database().apply(load).map_err(CallFailure::from)?;
        }
        taken.rows = self.collection.count(None).map_err(CallFailure::from)?;
        let (place, to) = (self.place.clone(), self.to.clone());
        let seen = EntryChange::RenameCollection { place, to };
        self.staging.call.database().apply(seen).map_err(CallFailure::from)?;
        Ok(taken)
    }

    fn build(&self, index: lite::LiteIndex) -> Result<(), CallFailure> {
        let field = self.entry.schema.field(&index.field);
        let data_type = field.map(|field| field.spec.data_type).ok_or_else(|| {
            CallFailure::parameter(format!("there is no field {} of the index", index.field))
        })?;
        let parameters = Parameters::new(index.parameters)?;
        let new = new_index(index.field, data_type, index.name.clone(), parameters)?;
        let place = self.place.clone();
        self.staging.call.database().apply(EntryChange::CreateIndex { place, new })?;
        self.collection.build_index(&index.name)?;
        match self.collection.wait_for_index(&index.name)?.state {
            IndexState::Failed { reason } => Err(CallFailure::new(Code::Unexpected, reason)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "lite_tests.rs"]
mod tests;
