//! What a run says of itself: its rows, and of each column the code of its signatures and where
//! its blocks stand. The byte tables are in `docs/database-format.md`.

use std::path::Path;

use roaring::RoaringBitmap;

use super::ScalarError;
use super::buckets::{Bucket, Buckets, MAX_BUCKETS};
use super::column::{scalar_code, scalar_of_code};
use super::elements::{ElementCode, MAX_OWNERS, SIGNATURE_BYTES};
use super::row_map::RowMap;
use crate::files::{ByteField, agrees, checksum, field, get, put, take_bitmap, u32_at, u64_at};
use crate::schema::FieldId;
use crate::value::ScalarType;

const MAGIC: [u8; 8] = *b"PIPESRUN";
/// Version that this build writes, the only one that it reads.
pub(super) const VERSION: u32 = 1;

const F_MAGIC: ByteField = field("magic", 0, 8);
const F_VERSION: ByteField = field("version", 8, 4);
const F_HIGH: ByteField = field("upper half", 12, 4);
const F_COLLECTION: ByteField = field("collection", 16, 16);
const F_NUMBER: ByteField = field("number", 32, 8);
const F_AT: ByteField = field("directory", 40, 8);
const F_BYTES: ByteField = field("directory bytes", 48, 8);
const F_SUM: ByteField = field("directory checksum", 56, 8);
const F_TRAILER_SUM: ByteField = field("trailer checksum", 64, 8);

/// The trailer, in order.
#[cfg(test)]
pub(super) const TRAILER: &[ByteField] =
    &[F_MAGIC, F_VERSION, F_HIGH, F_COLLECTION, F_NUMBER, F_AT, F_BYTES, F_SUM, F_TRAILER_SUM];
pub(super) const TRAILER_BYTES: usize = 72;

/// A block of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockAt {
    /// Its first key.
    pub(super) first: Vec<u8>,
    pub(super) offset: u64,
    /// Without its checksum.
    pub(super) bytes: u32,
}

/// How the signatures of a column are coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SignatureCode {
    Buckets(Buckets),
    Elements(ElementCode),
}

impl SignatureCode {
    /// Bytes of a signature.
    pub(super) fn width(&self) -> usize {
        match self {
            Self::Buckets(_) => 1,
            Self::Elements(_) => SIGNATURE_BYTES,
        }
    }
}

/// A column of a run.
#[derive(Clone, Debug)]
pub(super) struct RunColumn {
    pub(super) field: FieldId,
    pub(super) scalar: ScalarType,
    pub(super) code: SignatureCode,
    pub(super) nulls: RoaringBitmap,
    pub(super) blocks: Vec<BlockAt>,
    /// Where the signatures stand.
    pub(super) signatures_at: u64,
    pub(super) signatures_sum: u64,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) map: RowMap,
    pub(super) columns: Vec<RunColumn>,
}

impl Directory {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let column = |column: &RunColumn| {
            let code = match &column.code {
                SignatureCode::Buckets(code) => code.bytes(),
                SignatureCode::Elements(code) => code.bytes(),
            };
            let block = |block: &BlockAt| block.first.len() + size_of::<BlockAt>();
            let blocks = column.blocks.iter().map(block).sum::<usize>() + size_of::<RunColumn>();
            code + (blocks + column.nulls.serialized_size()) as u64
        };
        self.map.bytes() + self.columns.iter().map(column).sum::<u64>()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_bitmap(&mut out, &self.map.all());
        out.extend(narrow(self.columns.len()).to_le_bytes());
        for column in &self.columns {
            out.extend(column.field.0.to_le_bytes());
            out.push(scalar_code(column.scalar));
            out.push(matches!(column.code, SignatureCode::Elements(_)).into());
            push_bitmap(&mut out, &column.nulls);
            match &column.code {
                SignatureCode::Buckets(code) => {
                    out.extend(narrow(code.buckets.len()).to_le_bytes());
                    for bucket in &code.buckets {
                        push_key(&mut out, &bucket.first);
                        push_key(&mut out, &bucket.last);
                        out.extend(bucket.rows.to_le_bytes());
                        out.extend(bucket.keys.to_le_bytes());
                    }
                }
                SignatureCode::Elements(code) => {
                    out.extend(narrow(code.owners.len()).to_le_bytes());
                    code.owners.iter().for_each(|owner| push_key(&mut out, owner));
                    out.extend(code.hashed_bits.to_le_bytes());
                }
            }
            out.extend(narrow(column.blocks.len()).to_le_bytes());
            for block in &column.blocks {
                push_key(&mut out, &block.first);
                out.extend(block.offset.to_le_bytes());
                out.extend(block.bytes.to_le_bytes());
            }
            out.extend(column.signatures_at.to_le_bytes());
            out.extend(column.signatures_sum.to_le_bytes());
        }
        out
    }

    /// Reads what [`encode`](Self::encode) made; `None` where it is none, or has more rows than
    /// the bytes before it, so many, have signatures.
    fn decode(high: u32, bytes: &[u8], before: u64) -> Option<Self> {
        let mut from = DirectoryReader(bytes);
        let lows = from.bitmap()?;
        let columns = (0..from.u32()?).map(|_| from.column()).collect::<Option<Vec<_>>>()?;
        let width: usize = columns.iter().map(|column| column.code.width()).sum();
        // A bitmap of a few bytes may stand for all rows, and a map of them takes memory for each.
        let signed = width > 0 && lows.len().checked_mul(width as u64)? <= before;
        let known = columns.iter().all(|column| column.nulls.is_subset(&lows));
        let whole = from.0.is_empty() && !lows.is_empty() && signed && known;
        whole.then(|| Self { map: RowMap::new(high, &lows), columns })
    }
}

/// The last bytes of a run: whose it is, and where its directory stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trailer {
    pub(super) high: u32,
    pub(super) collection: [u8; 16],
    pub(super) number: u64,
    pub(super) directory_at: u64,
    pub(super) directory_bytes: u64,
    pub(super) directory_sum: u64,
}

impl Trailer {
    pub(super) fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut out = [0; TRAILER_BYTES];
        put(&mut out, F_MAGIC, &MAGIC);
        put(&mut out, F_VERSION, &VERSION.to_le_bytes());
        put(&mut out, F_HIGH, &self.high.to_le_bytes());
        put(&mut out, F_COLLECTION, &self.collection);
        put(&mut out, F_NUMBER, &self.number.to_le_bytes());
        put(&mut out, F_AT, &self.directory_at.to_le_bytes());
        put(&mut out, F_BYTES, &self.directory_bytes.to_le_bytes());
        put(&mut out, F_SUM, &self.directory_sum.to_le_bytes());
        let sum = checksum(&out[..F_TRAILER_SUM.offset]);
        put(&mut out, F_TRAILER_SUM, &sum.to_le_bytes());
        out
    }

    /// Reads the trailer of the run `number` of this collection.
    pub(super) fn decode(
        bytes: &[u8; TRAILER_BYTES],
        collection: [u8; 16],
        number: u64,
        path: &Path,
    ) -> Result<Self, ScalarError> {
        let damaged = |what: &str| ScalarError::damaged(path, what);
        if get(bytes, F_MAGIC) != MAGIC {
            return Err(damaged("its last bytes are not those of a run"));
        }
        if !agrees(u64_at(bytes, F_TRAILER_SUM), checksum(&bytes[..F_TRAILER_SUM.offset])) {
            return Err(damaged("its trailer fails its checksum"));
        }
        let found = u32_at(bytes, F_VERSION);
        if found != VERSION {
            let path = path.to_owned();
            return Err(ScalarError::Version { path, found, supported: VERSION });
        }
        if get(bytes, F_COLLECTION) != collection || u64_at(bytes, F_NUMBER) != number {
            return Err(damaged("it is the run of another place"));
        }
        Ok(Self {
            high: u32_at(bytes, F_HIGH),
            collection,
            number,
            directory_at: u64_at(bytes, F_AT),
            directory_bytes: u64_at(bytes, F_BYTES),
            directory_sum: u64_at(bytes, F_SUM),
        })
    }

    /// Reads the directory that the trailer tells of.
    pub(super) fn directory(&self, bytes: &[u8], path: &Path) -> Result<Directory, ScalarError> {
        if !agrees(self.directory_sum, checksum(bytes)) {
            return Err(ScalarError::damaged(path, "its directory fails its checksum"));
        }
        Directory::decode(self.high, bytes, self.directory_at)
            .ok_or_else(|| ScalarError::damaged(path, "its directory cannot be read"))
    }
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).expect("a run has fewer than 2^32 of anything")
}

fn push_key(out: &mut Vec<u8>, key: &[u8]) {
    out.push(u8::try_from(key.len()).expect("a key is at most KEY_BYTES long"));
    out.extend(key);
}

fn push_bitmap(out: &mut Vec<u8>, bitmap: &RoaringBitmap) {
    out.extend(narrow(bitmap.serialized_size()).to_le_bytes());
    bitmap.serialize_into(out).expect("writing to memory does not fail");
}

/// Takes what was pushed off the front; `None` where it is not there.
struct DirectoryReader<'a>(&'a [u8]);

impl<'a> DirectoryReader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    fn key(&mut self) -> Option<Vec<u8>> {
        let [bytes] = self.chunk()?;
        self.take(bytes.into()).map(<[u8]>::to_vec)
    }

    fn bitmap(&mut self) -> Option<RoaringBitmap> {
        let bytes = self.u32()? as usize;
        take_bitmap(self.take(bytes)?).map(|(bitmap, _)| bitmap)
    }

    fn column(&mut self) -> Option<RunColumn> {
        let field = FieldId(self.u32()?);
        let [scalar, array] = self.chunk()?;
        let scalar = scalar_of_code(scalar)?;
        let nulls = self.bitmap()?;
        let count = self.u32()?;
        let code = match array {
            0 if count as usize <= MAX_BUCKETS => {
                let buckets = (0..count).map(|_| self.bucket()).collect::<Option<_>>()?;
                SignatureCode::Buckets(Buckets { nulls: u32::try_from(nulls.len()).ok()?, buckets })
            }
            1 if count as usize <= MAX_OWNERS => {
                let owners = (0..count).map(|_| self.key()).collect::<Option<_>>()?;
                SignatureCode::Elements(ElementCode::new(owners, self.u32()?)?)
            }
            _ => return None,
        };
        let blocks = (0..self.u32()?).map(|_| self.block()).collect::<Option<_>>()?;
        let (signatures_at, signatures_sum) = (self.u64()?, self.u64()?);
        Some(RunColumn { field, scalar, code, nulls, blocks, signatures_at, signatures_sum })
    }

    fn bucket(&mut self) -> Option<Bucket> {
        let (first, last) = (self.key()?, self.key()?);
        let (rows, keys) = (self.u32()?, self.u32()?);
        (rows > 0 && keys > 0).then_some(Bucket { first, last, rows, keys })
    }

    fn block(&mut self) -> Option<BlockAt> {
        Some(BlockAt { first: self.key()?, offset: self.u64()?, bytes: self.u32()? })
    }
}
