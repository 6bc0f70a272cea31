//! Every number of the disk format: magics, versions, limits and the offset of each field.
//!
//! `docs/disk-format.md` explains them; a test parses its tables and compares them with the
//! tables here. All integers on disk are little-endian and of fixed width.

/// One field of a structure on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteField {
    /// Name, as in `docs/disk-format.md` (there in lower case).
    pub name: &'static str,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Width in bytes.
    pub bytes: usize,
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

macro_rules! byte_table {
    ($(#[$about:meta])* $module:ident, $title:literal, {
        $($(#[$field_about:meta])* $name:ident: $offset:literal, $bytes:literal;)*
    }) => {
        $(#[$about])*
        pub mod $module {
            use super::ByteField;
            $(
                $(#[$field_about])*
                pub const $name: ByteField =
                    ByteField { name: stringify!($name), offset: $offset, bytes: $bytes };
            )*
            /// All fields in order.
            pub const FIELDS: &[ByteField] = &[$($name),*];
            /// Width of the whole structure.
            pub const BYTES: usize = super::contiguous_bytes(FIELDS);
            /// Heading of its table in `docs/disk-format.md`.
            pub const TITLE: &str = $title;
        }
    };
}

/// First bytes of a manifest.
pub const MANIFEST_MAGIC: [u8; 8] = *b"PIPEANN1";
/// First bytes of every other file that has a header.
pub const FILE_MAGIC: [u8; 8] = *b"PIPEFILE";
/// Marks a sealed page; its last byte counts up when the page header changes.
pub const PAGE_MAGIC: u32 = u32::from_le_bytes(*b"PNP\x01");

/// Version of the manifest that this build writes; it reads no newer one.
pub const MANIFEST_VERSION: u32 = 2;
/// Version of file headers and bodies that this build writes; it reads no newer one.
pub const FILE_VERSION: u16 = 1;

/// Name of the manifest inside an index directory.
pub const MANIFEST_NAME: &str = "MANIFEST";

/// Pages and padded file parts are multiples of this, so that direct reads are aligned.
pub const ALIGNMENT: usize = 4096;
/// Body bytes covered by one checksum in a blocked file (codes, row map).
pub const BLOCK_BYTES: usize = 4096;
/// Row ids are below this: a row map has a place for each, and pairs of rows and nodes name them in
/// 32 bits.
pub const ROW_ID_LIMIT: u64 = 1 << 32;
/// The largest page chosen for packing; a record that does not fit gets a page of its own.
pub const MAX_PACKED_PAGE_BYTES: usize = 16 * 1024;
/// The largest node record.
pub const MAX_RECORD_BYTES: usize = 1 << 20;
/// The occupancy bitmap is a u64.
pub const MAX_RECORDS_PER_PAGE: usize = 64;
/// The largest dimension.
pub const MAX_DIM: usize = 32_768;
/// The largest number of edges of a node.
pub const MAX_DEGREE: usize = 1024;
/// The largest in-memory code.
pub const MAX_CODE_BYTES: usize = MAX_DIM;
/// Bytes of a row id in a record.
pub const ROW_ID_BYTES: usize = 8;
/// `fill` is stored in millionths.
pub const FILL_ONE: u32 = 1_000_000;
/// The longest relative path.
pub const MAX_PATH_BYTES: usize = 255;
/// The largest manifest that is accepted.
pub const MAX_MANIFEST_BYTES: usize = 64 << 20;
/// In the row map: this row has no node here. In the page map: this page was never written.
pub const ABSENT: u32 = u32::MAX;

byte_table! {
    /// Start of every page.
    page_header, "Page header", {
        /// CRC-64 over all following bytes of the page, seeded with the index's uuid.
        CHECKSUM: 0, 8;
        /// [`super::PAGE_MAGIC`].
        MAGIC: 8, 4;
        /// Logical page number.
        PAGE: 12, 4;
        /// Generation of the index in which this image was written.
        GENERATION: 16, 8;
        /// Bit `i` is set where slot `i` holds a record.
        OCCUPANCY: 24, 8;
    }
}

byte_table! {
    /// What follows the vector in a node record; the edges come next.
    record_tail, "Record tail", {
        /// Row id of the node.
        ROW_ID: 0, 8;
        /// Number of edges in use.
        DEGREE: 8, 2;
        /// Zero; reserved.
        FLAGS: 10, 2;
    }
}

byte_table! {
    /// The shape of a record and of a page, inside the manifest.
    record_descriptor, "Record descriptor", {
        /// Components of a vector.
        DIM: 0, 4;
        /// Number of the component type.
        VECTOR_TYPE: 4, 2;
        /// Edges reserved in each record.
        MAX_DEGREE: 6, 2;
        /// 3 or 4.
        EDGE_BYTES: 8, 2;
        /// 8.
        ROW_ID_BYTES: 10, 2;
        /// Attribute bytes of each record, after the edges.
        ATTRIBUTE_BYTES: 12, 4;
        /// Code bytes for each edge, after the attributes.
        NEIGHBOUR_CODE_BYTES: 16, 2;
        /// Slots of a page.
        RECORDS_PER_PAGE: 18, 2;
        /// Bytes of a page, header included.
        PAGE_BYTES: 20, 4;
        /// Distance between two records in a page.
        RECORD_BYTES: 24, 4;
        /// Share of slots that a build fills, in millionths.
        FILL: 28, 4;
    }
}

byte_table! {
    /// Start of every file except the manifest and the segments.
    file_header, "File header", {
        /// [`super::FILE_MAGIC`].
        MAGIC: 0, 8;
        /// Kind of file.
        KIND: 8, 2;
        /// [`super::FILE_VERSION`].
        VERSION: 10, 2;
        /// Body bytes for each checksum at the end of the file, or 0: one checksum for the body.
        BLOCK_BYTES: 12, 4;
        /// uuid of the index.
        UUID: 16, 16;
        /// Generation in which the file was written.
        GENERATION: 32, 8;
        /// Bytes of the body.
        BODY_BYTES: 40, 8;
        /// CRC-64 of the body, or of the checksum array in a blocked file.
        BODY_CHECKSUM: 48, 8;
        /// CRC-64 of the 56 bytes before.
        HEADER_CHECKSUM: 56, 8;
    }
}

byte_table! {
    /// The fixed start of a manifest.
    manifest_start, "Manifest start", {
        /// [`super::MANIFEST_MAGIC`].
        MAGIC: 0, 8;
        /// [`super::MANIFEST_VERSION`].
        VERSION: 8, 4;
        /// Zero; an unknown flag is refused.
        FLAGS: 12, 4;
        /// Bytes of the whole manifest with its checksum.
        LENGTH: 16, 8;
        /// uuid of the index.
        UUID: 24, 16;
        /// Counts up with each manifest of the index.
        GENERATION: 40, 8;
        /// Live rows.
        ROWS: 48, 8;
        /// The row id that the next row gets.
        NEXT_ROW_ID: 56, 8;
        /// A record descriptor.
        LAYOUT: 64, 32;
        /// Number of the metric.
        METRIC: 96, 2;
        /// Zero; reserved.
        RESERVED: 98, 2;
        /// Bytes of an in-memory code.
        CODE_BYTES: 100, 4;
        /// Version of the codebook that made the codes.
        CODEBOOK_VERSION: 104, 4;
        /// Build: degree of the graph.
        BUILD_DEGREE: 108, 4;
        /// Build: candidate list.
        BUILD_LIST: 112, 4;
        /// Build: alpha, as f32.
        BUILD_ALPHA: 116, 4;
        /// Build: passes over the rows.
        BUILD_PASSES: 120, 4;
        /// Head index: nodes.
        HEAD_NODES: 124, 4;
        /// Build: seed.
        BUILD_SEED: 128, 8;
        /// Head index: degree.
        HEAD_DEGREE: 136, 4;
        /// Head index: candidate list of its build.
        HEAD_LIST: 140, 4;
        /// Number of entry nodes.
        ENTRY_COUNT: 144, 4;
        /// Number of partitions.
        PARTITION_COUNT: 148, 4;
        /// Sequence number of the last write that this generation includes; 0: only the build.
        APPLIED: 152, 8;
    }
}

byte_table! {
    /// The fixed start of a file entry in the manifest; the path follows.
    file_entry, "File entry", {
        /// Length of the file.
        FILE_BYTES: 0, 8;
        /// Bytes of the path; 0 only where the file is optional and absent.
        PATH_BYTES: 8, 2;
    }
}

byte_table! {
    /// The fixed start of a partition entry in the manifest.
    partition_entry, "Partition entry", {
        /// First logical page.
        FIRST_PAGE: 0, 4;
        /// Number of logical pages.
        PAGES: 4, 4;
        /// Number of segments.
        SEGMENT_COUNT: 8, 4;
        /// Bytes of the directory's path.
        DIR_BYTES: 12, 2;
    }
}

byte_table! {
    /// The fixed start of a segment entry in the manifest; a file entry follows.
    segment_entry, "Segment entry", {
        /// First physical page within the partition's concatenated segments.
        FIRST_PHYSICAL_PAGE: 0, 4;
        /// Number of physical pages.
        PAGES: 4, 4;
    }
}

byte_table! {
    /// The fixed start of the head index body; nodes, degrees and adjacency follow.
    head_start, "Head index start", {
        /// Number of head nodes.
        NODE_COUNT: 0, 4;
        /// Edges reserved for each node.
        MAX_DEGREE: 4, 4;
        /// Position of the entry among the head nodes.
        ENTRY: 8, 4;
        /// Zero; reserved.
        RESERVED: 12, 4;
    }
}

byte_table! {
    /// Start of the body of a codebook.
    codebook_start, "Codebook start", {
        /// `PQCB`.
        MAGIC: 0, 4;
        /// What follows: 1 and 2, centroids; 3, a [`super::rabitq_start`].
        LAYOUT: 4, 2;
        /// Metric that the codes are for.
        METRIC: 6, 2;
        /// Components of a vector.
        DIM: 8, 4;
        /// Bytes of a code.
        CODE_BYTES: 12, 4;
        /// Which training of the index this is.
        VERSION: 16, 4;
        /// Mean squared error on the rows of the training, as f32.
        TRAINING_ERROR: 20, 4;
    }
}

byte_table! {
    /// What follows the start of a codebook of RaBitQ codes; the mean comes next.
    rabitq_start, "RaBitQ start", {
        /// Bits of a component.
        BITS: 0, 2;
        /// Zero; reserved.
        RESERVED: 2, 6;
        /// Seed of the rotation.
        SEED: 8, 8;
    }
}

byte_table! {
    /// Factors of a RaBitQ code; the components come next.
    rabitq_code, "RaBitQ code", {
        /// What a product with the centred values is multiplied by, as f32.
        FACTOR: 0, 4;
        /// Squared norm of the vector without the mean, as f32.
        NORM: 4, 4;
    }
}

/// All byte tables: heading in `docs/disk-format.md` and fields.
pub const TABLES: &[(&str, &[ByteField])] = &[
    (page_header::TITLE, page_header::FIELDS),
    (record_tail::TITLE, record_tail::FIELDS),
    (record_descriptor::TITLE, record_descriptor::FIELDS),
    (file_header::TITLE, file_header::FIELDS),
    (manifest_start::TITLE, manifest_start::FIELDS),
    (file_entry::TITLE, file_entry::FIELDS),
    (partition_entry::TITLE, partition_entry::FIELDS),
    (segment_entry::TITLE, segment_entry::FIELDS),
    (head_start::TITLE, head_start::FIELDS),
    (codebook_start::TITLE, codebook_start::FIELDS),
    (rabitq_start::TITLE, rabitq_start::FIELDS),
    (rabitq_code::TITLE, rabitq_code::FIELDS),
];
