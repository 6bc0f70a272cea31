//! Collections of Milvus Lite, put into a database with their keys as they are.
//!
//! Who calls reads the file; here is what its rows mean. A collection is seen when it is whole: it is
//! gone again where anything of it is refused.

use std::collections::HashSet;
use std::sync::Arc;

use pipeann_db::catalog::{CollectionEntry as Entry, CollectionPath, EntryChange, IndexState};
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
    call: Call,
    place: CollectionPath,
    schema: CollectionSchema,
    entry: Arc<Entry>,
    collection: Arc<Collection>,
    fields: Vec<FieldData>,
    keys: HashSet<Vec<u8>>,
    bytes: usize,
    finished: bool,
}

impl std::fmt::Debug for Takeover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Takeover").field("place", &self.place).finish_non_exhaustive()
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

    /// Makes a collection for the rows of one of Milvus Lite, of which this is the schema.
    ///
    /// # Errors
    /// As [`check_takeover`](Self::check_takeover), or [`RefusedCall`] where the database fails.
    pub fn take_over(&self, name: &str, schema: &[u8]) -> Result<Takeover, RefusedCall> {
        self.check_takeover(name, schema)?;
        let call = self.call();
        let schema = lite::schema(schema)?;
        let request = wire::CreateCollectionRequest {
            collection_name: name.to_owned(),
            schema: schema.encode_to_vec(),
            ..Default::default()
        };
        collections::create(&call, request)?;
        let place = call.place("", name.to_owned())?;
        let (entry, collection) = (call.entry("", name)?, call.collection("", name)?);
        let (fields, keys, bytes, finished) = (Vec::new(), HashSet::new(), 0, false);
        Ok(Takeover { call, place, schema, entry, collection, fields, keys, bytes, finished })
    }
}

impl Takeover {
    /// Adds the record of a row. Of several with one key the last counts.
    ///
    /// # Errors
    /// [`RefusedCall`] for a record that is damaged or not of this schema.
    pub fn add(&mut self, key: &[u8], record: &[u8]) -> Result<(), RefusedCall> {
        let row = lite::row(record)?;
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

    /// Writes what is left, builds the indexes of these records, and loads the collection where all
    /// its vectors have one. An index that cannot be had here is left out and told.
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
            self.call.database().apply(load).map_err(CallFailure::from)?;
        }
        taken.rows = self.collection.count(None).map_err(CallFailure::from)?;
        self.finished = true;
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
        self.call.database().apply(EntryChange::CreateIndex { place, new })?;
        self.collection.build_index(&index.name)?;
        match self.collection.wait_for_index(&index.name)?.state {
            IndexState::Failed { reason } => Err(CallFailure::new(Code::Unexpected, reason)),
            _ => Ok(()),
        }
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        if !self.finished {
            let dropped = self
                .call
                .database()
                .apply(EntryChange::DropCollection { place: self.place.clone() });
            if let Err(error) = dropped {
                tracing::warn!(%error, place = ?self.place, "half a collection is left");
            }
        }
    }
}
