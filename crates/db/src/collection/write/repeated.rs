//! Which keys a batch was written under whose answer was lost: those that it names, or those that its
//! rows were given.

use super::assigned::automatic_key;
use crate::replication::requests::RequestAnswer;
use crate::schema::{Batch, KeyType, PrimaryKey, Schema};
use crate::value::ValueRef;

/// The keys of a batch that was applied with this answer, in its order.
pub fn keys_of_request(schema: &Schema, batch: &Batch, answer: RequestAnswer) -> Vec<PrimaryKey> {
    let named = &schema.primary_key().spec.name;
    if let Some(column) = batch.columns.iter().find(|column| column.field == *named) {
        let keys = (0..batch.rows).filter_map(|row| match column.get(row) {
            ValueRef::Int64(key) => Some(PrimaryKey::Int64(key)),
            ValueRef::VarChar(key) => Some(PrimaryKey::VarChar(key.into())),
            _ => None,
        });
        return keys.collect();
    }
    // No answer is longer than its request.
    let rows = answer.rows.min(batch.rows as u64);
    let keys = (answer.first_row..answer.first_row.saturating_add(rows)).map(automatic_key);
    match schema.key_type() {
        KeyType::Int64 => keys.map(PrimaryKey::Int64).collect(),
        KeyType::VarChar => keys.map(|key| PrimaryKey::VarChar(key.to_string())).collect(),
    }
}
