//! Every number of the log's format: magics, version, limits and the offset of each field.
//!
//! `docs/database-format.md` explains them, and a test compares its tables with these. All
//! integers are little-endian and of fixed width.

pub use pipeann_engine::format::constants::ByteField;

/// First bytes of a segment file.
pub const SEGMENT_MAGIC: [u8; 8] = *b"PIPEWLOG";
/// Version of segments that this build writes; it reads no newer one.
pub const SEGMENT_VERSION: u32 = 1;
/// First bytes of a frame.
pub const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"PWF\x01");
/// Ends the name of a segment file; before it stand the 20 digits of its first Seq.
pub const SEGMENT_SUFFIX: &str = ".wal";
/// Frames begin at multiples of this; zeros fill the gap after a payload.
pub const FRAME_ALIGNMENT: usize = 8;
/// The longest payload: a request of 64 MiB, with room for what surrounds its rows.
pub const MAX_PAYLOAD_BYTES: usize = 96 << 20;

/// Kind of the frame that vouches for all records before it.
pub const KIND_MARK: u16 = 1;
/// Kind of [`Record::Put`](super::Record::Put).
pub const KIND_PUT: u16 = 2;
/// Kind of [`Record::Delete`](super::Record::Delete).
pub const KIND_DELETE: u16 = 3;
/// Kind of [`Record::Upsert`](super::Record::Upsert).
pub const KIND_UPSERT: u16 = 4;
/// Kind of [`Record::Link`](super::Record::Link).
pub const KIND_LINK: u16 = 5;

const fn field(name: &'static str, offset: usize, bytes: usize) -> ByteField {
    ByteField { name, offset, bytes }
}

/// The width of a structure; a gap or an overlap between fields stops the compilation.
const fn contiguous_bytes(fields: &[ByteField]) -> usize {
    let mut end = 0;
    let mut i = 0;
    while i < fields.len() {
        assert!(fields[i].offset == end, "fields leave a gap or overlap");
        end += fields[i].bytes;
        i += 1;
    }
    end
}

/// Start of every segment file.
pub mod segment_header {
    use super::{ByteField, contiguous_bytes, field};

    /// [`super::SEGMENT_MAGIC`].
    pub const MAGIC: ByteField = field("MAGIC", 0, 8);
    /// [`super::SEGMENT_VERSION`].
    pub const VERSION: ByteField = field("VERSION", 8, 4);
    /// Zero; an unknown flag is refused.
    pub const FLAGS: ByteField = field("FLAGS", 12, 4);
    /// uuid of the collection.
    pub const UUID: ByteField = field("UUID", 16, 16);
    /// Seq of the first record, as in the file's name.
    pub const FIRST_SEQ: ByteField = field("FIRST_SEQ", 32, 8);
    /// Frame checksum of the record before the first; 0 where there is none.
    pub const PREVIOUS: ByteField = field("PREVIOUS", 40, 8);
    /// Zero; reserved.
    pub const RESERVED: ByteField = field("RESERVED", 48, 8);
    /// CRC-64 of the 56 bytes before.
    pub const CHECKSUM: ByteField = field("CHECKSUM", 56, 8);
    /// All fields in order.
    pub const FIELDS: &[ByteField] =
        &[MAGIC, VERSION, FLAGS, UUID, FIRST_SEQ, PREVIOUS, RESERVED, CHECKSUM];
    /// Width of the whole structure.
    pub const BYTES: usize = contiguous_bytes(FIELDS);
}

/// Start of every frame; the payload and zeros up to the alignment follow.
pub mod frame_header {
    use super::{ByteField, contiguous_bytes, field};

    /// [`super::FRAME_MAGIC`].
    pub const MAGIC: ByteField = field("MAGIC", 0, 4);
    /// Kind of record, or [`super::KIND_MARK`].
    pub const KIND: ByteField = field("KIND", 4, 2);
    /// Zero; an unknown flag is refused.
    pub const FLAGS: ByteField = field("FLAGS", 6, 2);
    /// Bytes of the payload, without the zeros after it.
    pub const PAYLOAD_BYTES: ByteField = field("PAYLOAD_BYTES", 8, 4);
    /// Zero; reserved.
    pub const RESERVED: ByteField = field("RESERVED", 12, 4);
    /// Number of the record; of a mark, the last record that it vouches for.
    pub const SEQ: ByteField = field("SEQ", 16, 8);
    /// Frame checksum of the record before.
    pub const PREVIOUS: ByteField = field("PREVIOUS", 24, 8);
    /// CRC-64 of the payload.
    pub const PAYLOAD_CHECKSUM: ByteField = field("PAYLOAD_CHECKSUM", 32, 8);
    /// CRC-64 of the 40 bytes before, exclusive or the CRC-64 of the uuid.
    pub const CHECKSUM: ByteField = field("CHECKSUM", 40, 8);
    /// All fields in order.
    pub const FIELDS: &[ByteField] =
        &[MAGIC, KIND, FLAGS, PAYLOAD_BYTES, RESERVED, SEQ, PREVIOUS, PAYLOAD_CHECKSUM, CHECKSUM];
    /// Width of the whole structure.
    pub const BYTES: usize = contiguous_bytes(FIELDS);
}

/// The payload of a mark.
pub mod mark {
    use super::{ByteField, contiguous_bytes, field};

    /// The same in all marks of a segment, and not to be foreseen.
    pub const SALT: ByteField = field("SALT", 0, 8);
    /// All fields in order.
    pub const FIELDS: &[ByteField] = &[SALT];
    /// Width of the whole structure.
    pub const BYTES: usize = contiguous_bytes(FIELDS);
}

/// Start of every list in a payload; its items follow.
pub mod list_start {
    use super::{ByteField, contiguous_bytes, field};

    /// Number of items.
    pub const COUNT: ByteField = field("COUNT", 0, 4);
    /// All fields in order.
    pub const FIELDS: &[ByteField] = &[COUNT];
    /// Width of the whole structure.
    pub const BYTES: usize = contiguous_bytes(FIELDS);
}

/// The fixed start of a row in a put; its key and its blob follow.
pub mod put_row {
    use super::{ByteField, contiguous_bytes, field};

    /// Row id.
    pub const ROW_ID: ByteField = field("ROW_ID", 0, 8);
    /// Number of the partition within the collection.
    pub const PARTITION: ByteField = field("PARTITION", 8, 4);
    /// Bytes of the primary key.
    pub const KEY_BYTES: ByteField = field("KEY_BYTES", 12, 4);
    /// Bytes of the row.
    pub const BLOB_BYTES: ByteField = field("BLOB_BYTES", 16, 4);
    /// All fields in order.
    pub const FIELDS: &[ByteField] = &[ROW_ID, PARTITION, KEY_BYTES, BLOB_BYTES];
    /// Width of the whole structure.
    pub const BYTES: usize = contiguous_bytes(FIELDS);
}

/// The fixed start of a link; neighbours and targets of back edges follow, 4 bytes each.
pub mod link {
    use super::{ByteField, contiguous_bytes, field};

    /// Row id.
    pub const ROW_ID: ByteField = field("ROW_ID", 0, 8);
    /// Node that the row got.
    pub const NODE: ByteField = field("NODE", 8, 4);
    /// Number of the vector field.
    pub const FIELD: ByteField = field("FIELD", 12, 4);
    /// Number of neighbours.
    pub const NEIGHBOURS: ByteField = field("NEIGHBOURS", 16, 4);
    /// Number of targets of back edges.
    pub const BACK_EDGES: ByteField = field("BACK_EDGES", 20, 4);
    /// All fields in order.
    pub const FIELDS: &[ByteField] = &[ROW_ID, NODE, FIELD, NEIGHBOURS, BACK_EDGES];
    /// Width of the whole structure.
    pub const BYTES: usize = contiguous_bytes(FIELDS);
}

/// All byte tables: heading in `docs/database-format.md` and fields.
pub const TABLES: &[(&str, &[ByteField])] = &[
    ("Log segment header", segment_header::FIELDS),
    ("Log frame header", frame_header::FIELDS),
    ("Log mark", mark::FIELDS),
    ("Log list start", list_start::FIELDS),
    ("Log put row", put_row::FIELDS),
    ("Log link", link::FIELDS),
];

// Marks are looked for at aligned places only.
const _: () = assert!(segment_header::BYTES.is_multiple_of(FRAME_ALIGNMENT));
const _: () = assert!(frame_header::BYTES.is_multiple_of(FRAME_ALIGNMENT));
const _: () = assert!(mark::BYTES.is_multiple_of(FRAME_ALIGNMENT));
