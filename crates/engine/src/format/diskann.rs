//! The disk index of DiskANN 0.7, to be imported, and that of PipeANN, which is derived from it: the
//! metadata sector and where the nodes stand.
//!
//! Nothing here writes that layout, and it has no checksums. So each number is compared with what
//! follows from the others, and each edge with the number of nodes.
//!
//! The file is sectors of 4 KiB. The first holds two u32, how many numbers follow and in how many
//! columns, then nine u64: nodes, dimension, medoid, bytes of a node, nodes in a sector, frozen
//! nodes, where these are, whether other vectors follow the nodes (in PipeANN, bytes of the file),
//! bytes of the file. A node is its vector, a u32 with its degree, and room for as many u32 edges as
//! the largest degree. Sectors hold whole nodes; a node larger than a sector begins at one, and
//! "nodes in a sector" is 0.

use super::constants::{MAX_DEGREE, MAX_DIM};
use crate::types::{Metric, VectorType};

/// Bytes of a sector.
pub const DISKANN_SECTOR_BYTES: usize = 4096;
/// Bytes of the file beside the index that tells type, metric, rows and dimension.
const SUMMARY_BYTES: usize = 32;

/// Numbers in the metadata sector.
const NUMBERS: usize = 9;
/// Where they begin.
const NUMBERS_AT: usize = 8;
const EDGE_BYTES: usize = 4;

/// Why an index of DiskANN cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DiskannError {
    /// Not even a sector.
    #[error("it has {found} bytes, which is less than a sector of metadata (4096)")]
    Short {
        /// Bytes found.
        found: u64,
    },
    /// The layout of early versions.
    #[error(
        "it begins with its own length, as DiskANN wrote before its metadata had a header; only the layout of 0.7 is read"
    )]
    Older,
    /// Another number of metadata.
    #[error(
        "its metadata are {numbers} numbers in {columns} columns; only the layout of DiskANN 0.7 is read, with 9 in 1"
    )]
    Version {
        /// Numbers found.
        numbers: u32,
        /// Columns found.
        columns: u32,
    },
    /// A number in the metadata that contradicts the others, or has no meaning here.
    #[error("metadata: {field} is {found}, {must}")]
    Metadata {
        /// Name of the number.
        field: &'static str,
        /// Value found.
        found: u64,
        /// What it must be.
        must: String,
    },
    /// Something stands where nothing does in the layout.
    #[error("bytes that the layout leaves empty are not zero, {behind}")]
    NotEmpty {
        /// Behind what.
        behind: &'static str,
    },
    /// A degree that there is no room for.
    #[error("node {node} has {degree} edges, and room for {most}: damaged, or not of {ty} vectors")]
    Degree {
        /// The node.
        node: u32,
        /// Degree found.
        degree: u32,
        /// Room in a node.
        most: usize,
        /// Type that the vectors were read as.
        ty: VectorType,
    },
    /// A node that leads nowhere, which no graph of several nodes has.
    #[error("node {node} has no edges")]
    NoEdges {
        /// The node.
        node: u32,
    },
    /// An edge to a node that does not exist.
    #[error("node {node} has an edge to {to}, but there are {rows} nodes")]
    Edge {
        /// The node.
        node: u32,
        /// Where the edge leads.
        to: u32,
        /// Number of nodes.
        rows: u32,
    },
    /// Not told, and not to be found out.
    #[error("no _metadata.bin beside it tells its {what}, which must be given then")]
    Untold {
        /// What is missing.
        what: &'static str,
    },
    /// What was asked for is not what the index says.
    #[error("its {what} is {found}, not {asked}")]
    Disagrees {
        /// Of what.
        what: &'static str,
        /// What the index says.
        found: String,
        /// What was asked for.
        asked: String,
    },
    /// A kind of index whose nodes are not the rows, or not their vectors.
    #[error("it is of a kind that cannot be imported: {why}")]
    Unfit {
        /// What is different about it.
        why: &'static str,
    },
}

/// What the file `PREFIX_metadata.bin` tells, which diskannpy writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskannSummary {
    /// Type of the vectors.
    pub ty: VectorType,
    /// How they are compared.
    pub metric: Metric,
    /// Number of rows.
    pub rows: u64,
    /// Components of a vector as it was given, before a dimension was added for the inner product.
    pub dim: u64,
}

impl DiskannSummary {
    /// Reads the file's four numbers.
    ///
    /// # Errors
    /// [`DiskannError`] for another length, or a number that stands for nothing.
    pub fn decode(bytes: &[u8]) -> Result<Self, DiskannError> {
        if bytes.len() != SUMMARY_BYTES {
            return Err(metadata("bytes", bytes.len() as u64, "and must be 32"));
        }
        let numbers = numbers(bytes);
        let [ty, metric, rows, dim] = std::array::from_fn(|i| numbers[i]);
        let ty = match ty {
            0 => VectorType::F32,
            1 => VectorType::I8,
            2 => VectorType::U8,
            found => return Err(metadata("type", found, "and must be 0, 1 or 2")),
        };
        let metric = match metric {
            0 => Metric::L2,
            1 => Metric::InnerProduct,
            2 => Metric::Cosine,
            found => return Err(metadata("metric", found, "and must be 0, 1 or 2")),
        };
        Ok(Self { ty, metric, rows, dim })
    }
}

/// The shape of a disk index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskannLayout {
    rows: u32,
    dim: usize,
    ty: VectorType,
    medoid: u32,
    degree: usize,
    node_bytes: usize,
}

impl DiskannLayout {
    /// Reads the metadata sector of a file of `file_bytes` bytes that holds vectors of `ty`.
    ///
    /// # Errors
    /// [`DiskannError`] where anything contradicts anything else.
    pub fn decode(sector: &[u8], file_bytes: u64, ty: VectorType) -> Result<Self, DiskannError> {
        let Some(sector) = sector.get(..DISKANN_SECTOR_BYTES) else {
            return Err(DiskannError::Short { found: sector.len() as u64 });
        };
        let [rows, dim, medoid, node_bytes, per_sector, frozen, frozen_at, reorder, length] =
            header(sector, file_bytes)?;
        if rows == 0 || rows >= u64::from(u32::MAX) {
            return Err(metadata("nodes", rows, "and must be 1 to 4294967294"));
        }
        if dim == 0 || dim > MAX_DIM as u64 {
            return Err(metadata("dimension", dim, format!("and must be 1 to {MAX_DIM}")));
        }
        if medoid >= rows {
            return Err(metadata("medoid", medoid, format!("but there are {rows} nodes")));
        }
        let degree = degree(node_bytes, ty.vector_bytes(dim as usize), ty)?;
        let node_bytes = node_bytes as usize;
        let fit = (DISKANN_SECTOR_BYTES / node_bytes) as u64;
        if per_sector != fit {
            let must = format!("but {fit} of {node_bytes} bytes fit");
            return Err(metadata("nodes in a sector", per_sector, must));
        }
        if frozen != 0 || frozen_at != 0 {
            let why = "it has frozen nodes, which stand for no row";
            return Err(DiskannError::Unfit { why });
        }
        // PipeANN writes the same layout with the file's length here too, where its tags would begin.
        if reorder != 0 && reorder != length {
            let why = "other vectors follow the nodes, whose own are compressed";
            return Err(DiskannError::Unfit { why });
        }
        let layout = Self {
            rows: rows as u32,
            dim: dim as usize,
            ty,
            medoid: medoid as u32,
            degree,
            node_bytes,
        };
        if length != layout.file_bytes() {
            let must = format!("but these nodes take {}", layout.file_bytes());
            return Err(metadata("bytes of the file", length, must));
        }
        if length != file_bytes {
            let must =
                format!("but the file has {file_bytes}: it is cut off or longer than it was");
            return Err(metadata("bytes of the file", length, must));
        }
        Ok(layout)
    }

    /// Number of nodes.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Components of a vector as it stands in the file.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Where searches start.
    pub fn medoid(&self) -> u32 {
        self.medoid
    }

    /// The most edges of a node.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// Bytes and nodes of the smallest number of whole sectors that holds whole nodes.
    pub fn group(&self) -> (usize, usize) {
        let per_sector = DISKANN_SECTOR_BYTES / self.node_bytes;
        (self.node_bytes.next_multiple_of(DISKANN_SECTOR_BYTES), per_sector.max(1))
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        let (bytes, nodes) = self.group();
        DISKANN_SECTOR_BYTES as u64 + u64::from(self.rows).div_ceil(nodes as u64) * bytes as u64
    }

    /// The nodes of some groups, each with its bytes.
    ///
    /// # Errors
    /// [`DiskannError::NotEmpty`] where something stands behind the last node.
    pub fn nodes<'a>(
        &self,
        first: u32,
        groups: &'a [u8],
    ) -> Result<impl Iterator<Item = (u32, &'a [u8])> + use<'a>, DiskannError> {
        let (rows, node_bytes) = (self.rows, self.node_bytes);
        let (bytes, in_group) = self.group();
        let standing = move |group: &'a [u8]| group.chunks_exact(node_bytes).take(in_group);
        let behind = groups.chunks_exact(bytes).flat_map(standing).skip((rows - first) as usize);
        if behind.flatten().any(|byte| *byte != 0) {
            return Err(DiskannError::NotEmpty { behind: "behind the last node" });
        }
        Ok((first..rows).zip(groups.chunks_exact(bytes).flat_map(standing)))
    }

    /// Splits a node into its vector and its edges, without those to itself.
    ///
    /// # Errors
    /// [`DiskannError`] for a degree or an edge out of bounds.
    pub fn node<'a>(
        &self,
        node: u32,
        bytes: &'a [u8],
        edges: &mut Vec<u32>,
    ) -> Result<&'a [u8], DiskannError> {
        let (vector, list) = bytes.split_at(self.ty.vector_bytes(self.dim));
        let mut words = list.as_chunks::<EDGE_BYTES>().0.iter().map(|w| u32::from_le_bytes(*w));
        let degree = words.next().unwrap_or(0);
        if degree as usize > self.degree {
            return Err(DiskannError::Degree { node, degree, most: self.degree, ty: self.ty });
        }
        if degree == 0 && self.rows > 1 {
            return Err(DiskannError::NoEdges { node });
        }
        for to in words.take(degree as usize) {
            if to >= self.rows {
                return Err(DiskannError::Edge { node, to, rows: self.rows });
            }
            if to != node && !edges.contains(&to) {
                edges.push(to);
            }
        }
        Ok(vector)
    }
}

fn metadata(field: &'static str, found: u64, must: impl Into<String>) -> DiskannError {
    DiskannError::Metadata { field, found, must: must.into() }
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// The numbers of the metadata sector.
fn header(sector: &[u8], file_bytes: u64) -> Result<[u64; NUMBERS], DiskannError> {
    let words = numbers(sector);
    if words[0] == file_bytes {
        return Err(DiskannError::Older);
    }
    let (count, columns) = (words[0] as u32, (words[0] >> 32) as u32);
    if (count, columns) != (NUMBERS as u32, 1) {
        return Err(DiskannError::Version { numbers: count, columns });
    }
    let (numbers, rest) = words[NUMBERS_AT / 8..].split_at(NUMBERS);
    if rest.iter().any(|word| *word != 0) {
        return Err(DiskannError::NotEmpty { behind: "behind the metadata" });
    }
    Ok(std::array::from_fn(|i| numbers[i]))
}

/// The edges for which a node has room.
fn degree(node_bytes: u64, vector_bytes: usize, ty: VectorType) -> Result<usize, DiskannError> {
    let least = vector_bytes + 2 * EDGE_BYTES;
    let most = vector_bytes + (MAX_DEGREE + 1) * EDGE_BYTES;
    let list = node_bytes.wrapping_sub(vector_bytes as u64);
    if node_bytes < least as u64
        || node_bytes > most as u64
        || !list.is_multiple_of(EDGE_BYTES as u64)
    {
        let must = format!(
            "but {ty} vectors of {vector_bytes} bytes with 1 to {MAX_DEGREE} edges make it {least} \
             to {most}, in steps of {EDGE_BYTES}"
        );
        return Err(metadata("bytes of a node", node_bytes, must));
    }
    Ok(list as usize / EDGE_BYTES - 1)
}
