//! Limits of a collection, those of Milvus 2.6 unless said otherwise.

/// The longest name of anything.
pub const MAX_NAME_BYTES: usize = 255;
/// The first field gets this id, each further one the next.
pub const FIRST_FIELD_ID: u32 = 100;
/// The most fields of a schema, the dynamic field not counted.
pub const MAX_FIELDS: usize = 64;
/// The most vector fields of a schema (4 by default in Milvus 2.6, settable up to 10).
pub const MAX_VECTOR_FIELDS: usize = 10;
/// The smallest dimension.
pub const MIN_DIM: u32 = 2;
/// The largest dimension.
pub const MAX_DIM: u32 = 32_768;
/// The largest limit that a varchar field can set, in bytes of UTF-8.
pub const MAX_VARCHAR_BYTES: u32 = 65_535;
/// The longest JSON text, in bytes of UTF-8.
pub const MAX_JSON_BYTES: usize = 65_536;
/// The largest limit that an array field can set, in elements.
pub const MAX_ARRAY_CAPACITY: u32 = 4096;
/// A varchar key that is assigned automatically needs room for the digits of an i64.
pub const AUTO_ID_TEXT_BYTES: u32 = 20;
/// The most bytes of a primary key as it is stored, which is what the row store takes: of a text two more
/// than it has, and one more for each zero byte.
pub const MAX_KEY_BYTES: usize = 32_762;
