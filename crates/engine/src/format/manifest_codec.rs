//! The manifest's bytes: `start | entry nodes | head file | codebook file | partitions |
//! checksum`.
//!
//! Frozen for all versions: the magic, the places of version, flags and length, and a checksum
//! over everything before it in the last eight bytes. So damage is told from a newer version.

use super::bytes::{OutOfBytes, Reader, get, get_u16, get_u32, get_u64, put as put_field, u32s};
use super::checksum::checksum;
use super::constants::{
    ByteField, MANIFEST_MAGIC, MANIFEST_VERSION, MAX_MANIFEST_BYTES, file_entry,
    manifest_start as start, partition_entry, segment_entry,
};
use super::error::FormatError;
use super::file_kind::FileKind;
use super::layout::RecordLayout;
use super::manifest::{
    BuildParameters, FileEntry, HeadParameters, Manifest, PartitionEntry, SegmentEntry,
};
use super::relative_path::RelativePath;
use crate::types::{Metric, NodeId};

const KIND: FileKind = FileKind::Manifest;
const CHECKSUM_BYTES: usize = 8;
/// Seed of the checksum; the uuid is covered as part of the bytes.
const SEED: u64 = u64::from_le_bytes(MANIFEST_MAGIC);

impl Manifest {
    /// The manifest's bytes.
    ///
    /// # Errors
    /// [`FormatError`] where the manifest is not valid or too long; nothing invalid is written.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        self.validate()?;
        let mut out = vec![0; start::BYTES];
        self.encode_start(&mut out);
        out.extend(self.entries.iter().flat_map(|entry| entry.0.to_le_bytes()));
        append_file(&mut out, Some(&self.head_file));
        append_file(&mut out, Some(&self.codebook_file));
        for partition in &self.partitions {
            append_partition(&mut out, partition);
        }
        let length = out.len() + CHECKSUM_BYTES;
        check_length(length)?;
        put_field(&mut out, start::LENGTH, &(length as u64).to_le_bytes());
        let sum = checksum(SEED, &out);
        out.extend_from_slice(&sum.to_le_bytes());
        Ok(out)
    }

    fn encode_start(&self, out: &mut [u8]) {
        let mut put = |field: ByteField, value: &[u8]| put_field(out, field, value);
        put(start::MAGIC, &MANIFEST_MAGIC);
        put(start::VERSION, &MANIFEST_VERSION.to_le_bytes());
        put(start::UUID, &self.uuid);
        put(start::GENERATION, &self.generation.to_le_bytes());
        put(start::ROWS, &self.rows.to_le_bytes());
        put(start::NEXT_ROW_ID, &self.next_row_id.to_le_bytes());
        put(start::LAYOUT, &self.layout.encode());
        put(start::METRIC, &(self.metric as u16).to_le_bytes());
        put(start::CODE_BYTES, &self.code_bytes.to_le_bytes());
        put(start::CODEBOOK_VERSION, &self.codebook_version.to_le_bytes());
        put(start::BUILD_DEGREE, &self.build.degree.to_le_bytes());
        put(start::BUILD_LIST, &self.build.list.to_le_bytes());
        put(start::BUILD_ALPHA, &self.build.alpha.to_le_bytes());
        put(start::BUILD_PASSES, &self.build.passes.to_le_bytes());
        put(start::HEAD_NODES, &self.head.nodes.to_le_bytes());
        put(start::BUILD_SEED, &self.build.seed.to_le_bytes());
        put(start::HEAD_DEGREE, &self.head.degree.to_le_bytes());
        put(start::HEAD_LIST, &self.head.list.to_le_bytes());
        put(start::ENTRY_COUNT, &(self.entries.len() as u32).to_le_bytes());
        put(start::PARTITION_COUNT, &(self.partitions.len() as u32).to_le_bytes());
        put(start::APPLIED, &self.applied.to_le_bytes());
    }

    /// Reads a manifest: `bytes` is the whole file.
    ///
    /// # Errors
    /// [`FormatError`] where it is no manifest, damaged, of a newer version, or not valid.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let content = checked_content(bytes)?;
        let mut reader = Reader::new(content);
        let head = reader.take(start::BYTES).map_err(cut("the start"))?;
        let entry_count = get_u32(head, start::ENTRY_COUNT) as usize;
        let entries = reader.take(entry_count.saturating_mul(4)).map_err(cut("entry nodes"))?;
        let head_file = read_file(&mut reader, "the head index")?;
        let codebook_file = read_file(&mut reader, "the codebook")?;
        let mut partitions = Vec::new();
        for _ in 0..get_u32(head, start::PARTITION_COUNT) {
            partitions.push(read_partition(&mut reader)?);
        }
        if reader.remaining() != 0 {
            let found = bytes.len() as u64;
            let expected = found - reader.remaining() as u64;
            return Err(FormatError::Length { kind: KIND, expected, found });
        }
        let metric = get_u16(head, start::METRIC);
        let manifest = Self {
            uuid: get(head, start::UUID),
            generation: get_u64(head, start::GENERATION),
            rows: get_u64(head, start::ROWS),
            next_row_id: get_u64(head, start::NEXT_ROW_ID),
            applied: get_u64(head, start::APPLIED),
            metric: Metric::from_code(metric).ok_or_else(|| {
                FormatError::value(
                    KIND,
                    "metric",
                    "1 (l2), 2 (ip), 3 (cosine), 4 (hamming) or 5 (jaccard)",
                    metric,
                )
            })?,
            layout: RecordLayout::decode(&get(head, start::LAYOUT))?,
            entries: u32s(entries).map(NodeId).collect(),
            code_bytes: get_u32(head, start::CODE_BYTES),
            codebook_version: get_u32(head, start::CODEBOOK_VERSION),
            build: BuildParameters {
                degree: get_u32(head, start::BUILD_DEGREE),
                list: get_u32(head, start::BUILD_LIST),
                alpha: f32::from_le_bytes(get(head, start::BUILD_ALPHA)),
                passes: get_u32(head, start::BUILD_PASSES),
                seed: get_u64(head, start::BUILD_SEED),
            },
            head: HeadParameters {
                nodes: get_u32(head, start::HEAD_NODES),
                degree: get_u32(head, start::HEAD_DEGREE),
                list: get_u32(head, start::HEAD_LIST),
            },
            head_file,
            codebook_file,
            partitions,
        };
        manifest.validate()?;
        Ok(manifest)
    }
}

/// Checks what is frozen, then version and flags; returns the bytes before the checksum.
fn checked_content(bytes: &[u8]) -> Result<&[u8], FormatError> {
    let found = bytes.len() as u64;
    if bytes.len() < start::BYTES + CHECKSUM_BYTES {
        let expected = (start::BYTES + CHECKSUM_BYTES) as u64;
        return Err(FormatError::Length { kind: KIND, expected, found });
    }
    let magic = get(bytes, start::MAGIC);
    if magic != MANIFEST_MAGIC {
        return Err(FormatError::Magic { kind: KIND, expected: MANIFEST_MAGIC, found: magic });
    }
    let expected = get_u64(bytes, start::LENGTH);
    if expected != found {
        return Err(FormatError::Length { kind: KIND, expected, found });
    }
    check_length(bytes.len())?;
    let (content, stored) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    let stored = get_u64(stored, ByteField { name: "CHECKSUM", offset: 0, bytes: CHECKSUM_BYTES });
    let computed = checksum(SEED, content);
    if stored != computed {
        let part = "the manifest";
        return Err(FormatError::Checksum { kind: KIND, part, expected: computed, found: stored });
    }
    let version = get_u32(content, start::VERSION);
    if version > MANIFEST_VERSION {
        let supported = MANIFEST_VERSION;
        return Err(FormatError::NewerVersion { kind: KIND, supported, found: version });
    }
    if version != MANIFEST_VERSION {
        return Err(FormatError::value(KIND, "version", MANIFEST_VERSION, version));
    }
    let zeros = [
        ("flags", get_u32(content, start::FLAGS)),
        ("reserved", u32::from(get_u16(content, start::RESERVED))),
    ];
    match zeros.into_iter().find(|(_, value)| *value != 0) {
        Some((field, value)) => Err(FormatError::value(KIND, field, 0, value)),
        None => Ok(content),
    }
}

fn check_length(length: usize) -> Result<(), FormatError> {
    if length <= MAX_MANIFEST_BYTES {
        return Ok(());
    }
    Err(FormatError::value(KIND, "length", format!("at most {MAX_MANIFEST_BYTES}"), length))
}

fn cut(part: &'static str) -> impl Fn(OutOfBytes) -> FormatError {
    move |OutOfBytes| FormatError::CutOff { kind: KIND, part }
}

/// Appends a file entry; an absent file has no path.
fn append_file(out: &mut Vec<u8>, file: Option<&FileEntry>) {
    let (path, bytes) = file.map_or(("", 0), |file| (file.path.as_str(), file.bytes));
    let mut fixed = [0; file_entry::BYTES];
    put_field(&mut fixed, file_entry::FILE_BYTES, &bytes.to_le_bytes());
    put_field(&mut fixed, file_entry::PATH_BYTES, &(path.len() as u16).to_le_bytes());
    out.extend_from_slice(&fixed);
    out.extend_from_slice(path.as_bytes());
}

fn append_partition(out: &mut Vec<u8>, partition: &PartitionEntry) {
    let dir = partition.dir.as_str();
    let mut fixed = [0; partition_entry::BYTES];
    let mut put = |field, value: &[u8]| put_field(&mut fixed, field, value);
    put(partition_entry::FIRST_PAGE, &partition.first_page.to_le_bytes());
    put(partition_entry::PAGES, &partition.pages.to_le_bytes());
    put(partition_entry::SEGMENT_COUNT, &(partition.segments.len() as u32).to_le_bytes());
    put(partition_entry::DIR_BYTES, &(dir.len() as u16).to_le_bytes());
    out.extend_from_slice(&fixed);
    out.extend_from_slice(dir.as_bytes());
    append_file(out, Some(&partition.page_map));
    append_file(out, Some(&partition.codes));
    append_file(out, partition.row_map.as_ref());
    append_file(out, partition.tombstones.as_ref());
    for segment in &partition.segments {
        let mut fixed = [0; segment_entry::BYTES];
        let first = segment.first_physical_page.to_le_bytes();
        put_field(&mut fixed, segment_entry::FIRST_PHYSICAL_PAGE, &first);
        put_field(&mut fixed, segment_entry::PAGES, &segment.pages.to_le_bytes());
        out.extend_from_slice(&fixed);
        append_file(out, Some(&segment.file));
    }
}

fn read_path(reader: &mut Reader<'_>, bytes: u16) -> Result<RelativePath, FormatError> {
    let path = reader.take(usize::from(bytes)).map_err(cut("a path"))?;
    match std::str::from_utf8(path) {
        Ok(path) => RelativePath::new(path),
        Err(_) => Err(FormatError::Path { found: String::from_utf8_lossy(path).into_owned() }),
    }
}

/// A file entry; `None` where the file is absent.
fn read_optional_file(
    reader: &mut Reader<'_>,
    part: &'static str,
) -> Result<Option<FileEntry>, FormatError> {
    let fixed = reader.take(file_entry::BYTES).map_err(cut(part))?;
    let bytes = get_u64(fixed, file_entry::FILE_BYTES);
    match get_u16(fixed, file_entry::PATH_BYTES) {
        0 if bytes == 0 => Ok(None),
        0 => Err(FormatError::value(KIND, "file bytes of an absent file", 0, bytes)),
        path_bytes => Ok(Some(FileEntry { path: read_path(reader, path_bytes)?, bytes })),
    }
}

fn read_file(reader: &mut Reader<'_>, part: &'static str) -> Result<FileEntry, FormatError> {
    read_optional_file(reader, part)?
        .ok_or_else(|| FormatError::value(KIND, part, "a file", "none"))
}

fn read_partition(reader: &mut Reader<'_>) -> Result<PartitionEntry, FormatError> {
    let fixed = reader.take(partition_entry::BYTES).map_err(cut("a partition"))?;
    let dir = read_path(reader, get_u16(fixed, partition_entry::DIR_BYTES))?;
    let page_map = read_file(reader, "the page map of a partition")?;
    let codes = read_file(reader, "the codes of a partition")?;
    let row_map = read_optional_file(reader, "the row map of a partition")?;
    let tombstones = read_optional_file(reader, "the tombstones of a partition")?;
    let mut segments = Vec::new();
    for _ in 0..get_u32(fixed, partition_entry::SEGMENT_COUNT) {
        let fixed = reader.take(segment_entry::BYTES).map_err(cut("a segment"))?;
        segments.push(SegmentEntry {
            file: read_file(reader, "the file of a segment")?,
            first_physical_page: get_u32(fixed, segment_entry::FIRST_PHYSICAL_PAGE),
            pages: get_u32(fixed, segment_entry::PAGES),
        });
    }
    Ok(PartitionEntry {
        dir,
        first_page: get_u32(fixed, partition_entry::FIRST_PAGE),
        pages: get_u32(fixed, partition_entry::PAGES),
        segments,
        page_map,
        codes,
        row_map,
        tombstones,
    })
}
