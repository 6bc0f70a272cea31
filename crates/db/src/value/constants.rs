//! Numbers of the row's bytes. `docs/database-format.md` explains them; a test compares the two.

/// Version of the row format that this build writes; it reads no other.
pub const ROW_FORMAT: u16 = 1;
/// The longest row. It fits in one request, and offsets inside it fit in 32 bits.
pub const MAX_ROW_BYTES: usize = 64 << 20;
/// The most columns of a row.
pub const MAX_ROW_COLUMNS: usize = u16::MAX as usize;

/// Start of every row.
pub mod row_header {
    use pipeann_engine::format::constants::ByteField;

    /// [`super::ROW_FORMAT`].
    pub const FORMAT: ByteField = ByteField { name: "format", offset: 0, bytes: 2 };
    /// Columns in the row.
    pub const COLUMNS: ByteField = ByteField { name: "columns", offset: 2, bytes: 2 };
    /// Version of the schema that the row was written under.
    pub const SCHEMA_VERSION: ByteField = ByteField { name: "schema version", offset: 4, bytes: 4 };
    /// All fields in order.
    pub const FIELDS: &[ByteField] = &[FORMAT, COLUMNS, SCHEMA_VERSION];
    /// Width of the header.
    pub const BYTES: usize = 8;
}
