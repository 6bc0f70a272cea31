//! From messages of the wire to typed requests of the database, and back. No call is answered here,
//! nothing waits, and nothing is read or written.

pub(crate) mod columns_in;
pub(crate) mod columns_out;
pub(crate) mod hits;
pub(crate) mod index;
pub(crate) mod instants;
pub(crate) mod lite;
pub(crate) mod names;
pub(crate) mod output;
pub(crate) mod parameters;
pub(crate) mod queries;
pub(crate) mod ranking;
pub(crate) mod read_time;
pub(crate) mod schema_in;
pub(crate) mod schema_out;
pub(crate) mod search_params;
pub(crate) mod selection;
pub(crate) mod templates;
pub(crate) mod timestamps;
pub(crate) mod types;
