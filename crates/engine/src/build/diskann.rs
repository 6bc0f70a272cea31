//! An index of DiskANN, opened to be imported: which files belong to it, and reading its nodes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use super::huge;
use super::progress::{Progress, check_cancel};
use crate::format::{DISKANN_SECTOR_BYTES, DiskannError, DiskannLayout, DiskannSummary};
use crate::types::{Metric, VectorType, from_f32, to_f32};

/// Bytes of nodes that are read together.
const PIECE_BYTES: usize = 4 << 20;
/// Bytes of a file that holds one float: rows, columns, the float.
const NORM_BYTES: usize = 12;

/// A disk index of DiskANN 0.7: its files are `PREFIX_disk.index` and some whose names begin alike.
///
/// Codes and samples of it are not read. For the inner product DiskANN divides vectors by the
/// longest and adds a component; for the cosine it normalises them. The former is undone, the
/// latter cannot be.
#[derive(Debug)]
pub struct DiskannIndex {
    file: File,
    path: PathBuf,
    layout: DiskannLayout,
    ty: VectorType,
    metric: Metric,
    /// Length of the longest vector, where vectors were divided by it.
    longest: Option<f32>,
}

/// Vectors and lists of edges, as a graph in memory has them.
pub(crate) struct Nodes {
    pub(crate) vectors: Vec<u8>,
    /// For each node the degree and room for all edges.
    pub(crate) lists: Vec<u32>,
}

impl DiskannIndex {
    /// Opens the index of a prefix, or of the path of its `_disk.index`.
    ///
    /// Type and metric stand in `PREFIX_metadata.bin`, which diskannpy writes and DiskANN's own
    /// programs do not. Where it is missing they have to be given.
    ///
    /// # Errors
    /// [`BuildError::Diskann`] for another layout, damage, or a type or metric that is not the
    /// index's; [`BuildError::Io`] where files cannot be read.
    pub fn open(
        prefix: &Path,
        ty: Option<VectorType>,
        metric: Option<Metric>,
    ) -> Result<Self, BuildError> {
        let named = prefix.to_string_lossy();
        let prefix = Path::new(named.strip_suffix(INDEX).unwrap_or(&named));
        let path = beside(prefix, INDEX);
        let refuse = |problem| BuildError::Diskann { path: path.clone(), problem };
        // First: where it is missing, what else is or is not there says nothing.
        let file = File::open(&path).map_err(BuildError::io("open", &path))?;
        let told = summary(&beside(prefix, "_metadata.bin"))?;
        let ty = agreed("vector type", told.map(|told| told.ty), ty).map_err(refuse)?;
        let longest = longest(&beside(prefix, "_disk.index_max_base_norm.bin"))?;
        let found = told.map(|told| told.metric);
        let metric = agreed("metric", found, metric).map_err(refuse)?;
        check_kind(prefix).map_err(refuse)?;
        let bytes = file.metadata().map_err(BuildError::io("read", &path))?.len();
        let mut sector = Vec::with_capacity(DISKANN_SECTOR_BYTES);
        let read = (&file).take(DISKANN_SECTOR_BYTES as u64).read_to_end(&mut sector);
        read.map_err(BuildError::io("read", &path))?;
        let layout = DiskannLayout::decode(&sector, bytes, ty).map_err(refuse)?;
        let index = Self { file, path: path.clone(), layout, ty, metric, longest };
        index.check(told).map_err(refuse)?;
        Ok(index)
    }

    /// Compares what is told beside the index with what stands in it.
    fn check(&self, told: Option<DiskannSummary>) -> Result<(), DiskannError> {
        if !matches!(self.ty, VectorType::F32 | VectorType::U8 | VectorType::I8) {
            let (what, found) = ("vector type", "f32, u8 or i8".to_owned());
            return Err(DiskannError::Disagrees { what, found, asked: self.ty.to_string() });
        }
        let by_product = self.metric == Metric::InnerProduct;
        if by_product && self.ty != VectorType::F32 {
            let (what, found) = ("vector type", "f32, as its metric is ip".to_owned());
            return Err(DiskannError::Disagrees { what, found, asked: self.ty.to_string() });
        }
        if by_product && self.longest.is_none() {
            let why = "nothing tells by what its vectors were divided for the inner product";
            return Err(DiskannError::Unfit { why });
        }
        if self.longest.is_some() && !by_product {
            let (what, found) = ("metric", "ip, for which its vectors were divided".to_owned());
            return Err(DiskannError::Disagrees { what, found, asked: self.metric.to_string() });
        }
        let Some(told) = told else { return Ok(()) };
        let pairs = [
            ("number of nodes", told.rows, u64::from(self.layout.rows())),
            ("dimension", told.dim, self.dim() as u64),
        ];
        for (what, told, found) in pairs {
            if told != found {
                let asked = format!("{told}, which its _metadata.bin tells");
                return Err(DiskannError::Disagrees { what, found: found.to_string(), asked });
            }
        }
        Ok(())
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.layout.rows() as usize
    }

    /// Components of a vector.
    pub fn dim(&self) -> usize {
        self.layout.dim() - usize::from(self.longest.is_some())
    }

    /// Type of the vectors.
    pub fn vector_type(&self) -> VectorType {
        self.ty
    }

    /// How vectors are compared.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The most edges of a node.
    pub fn degree(&self) -> usize {
        self.layout.degree()
    }

    /// Where searches start.
    pub(crate) fn medoid(&self) -> u32 {
        self.layout.medoid()
    }

    /// Reads all nodes.
    pub(crate) fn read(
        &self,
        progress: &dyn Progress,
        cancel: &AtomicBool,
    ) -> Result<Nodes, BuildError> {
        let degree = self.degree();
        let mut vectors = huge::with_capacity(self.rows() * self.ty.vector_bytes(self.dim()));
        let mut lists = huge::with_capacity(self.rows() * (degree + 1));
        let (group_bytes, in_group) = self.layout.group();
        let groups = (PIECE_BYTES / group_bytes).max(1);
        let mut piece = vec![0; groups * group_bytes];
        let mut edges = Vec::with_capacity(degree);
        let mut at = DISKANN_SECTOR_BYTES as u64;
        for first in (0..self.rows()).step_by(groups * in_group) {
            check_cancel(cancel)?;
            let left = (self.rows() - first).div_ceil(in_group).min(groups);
            let piece = &mut piece[..left * group_bytes];
            let read = self.file.read_exact_at(piece, at);
            read.map_err(BuildError::io("read", &self.path))?;
            at += piece.len() as u64;
            let nodes = self.layout.nodes(first as u32, piece).map_err(|e| self.refuse(e))?;
            for (node, bytes) in nodes {
                edges.clear();
                let read = self.layout.node(node, bytes, &mut edges);
                self.push_vector(read.map_err(|e| self.refuse(e))?, &mut vectors);
                lists.push(edges.len() as u32);
                lists.extend_from_slice(&edges);
                lists.resize(lists.len() + degree - edges.len(), 0);
            }
            progress.advance((left * in_group).min(self.rows() - first) as u64);
        }
        Ok(Nodes { vectors, lists })
    }

    /// Appends a vector as it was given to DiskANN.
    fn push_vector(&self, stored: &[u8], out: &mut Vec<u8>) {
        let Some(longest) = self.longest else { return out.extend_from_slice(stored) };
        let mut row = vec![0.0; self.layout.dim()];
        to_f32(stored, self.ty, &mut row);
        row.pop();
        row.iter_mut().for_each(|x| *x *= longest);
        from_f32(&row, self.ty, out);
    }

    fn refuse(&self, problem: DiskannError) -> BuildError {
        BuildError::Diskann { path: self.path.clone(), problem }
    }
}

/// What the index's own name ends with.
const INDEX: &str = "_disk.index";

fn beside(prefix: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(prefix);
    name.push(end);
    PathBuf::from(name)
}

/// The bytes of a file that may be missing.
fn optional(path: &Path) -> Result<Option<Vec<u8>>, BuildError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(BuildError::io("read", path)(e)),
    }
}

fn summary(path: &Path) -> Result<Option<DiskannSummary>, BuildError> {
    let Some(bytes) = optional(path)? else { return Ok(None) };
    let summary = DiskannSummary::decode(&bytes);
    summary.map(Some).map_err(|problem| BuildError::Diskann { path: path.to_owned(), problem })
}

fn longest(path: &Path) -> Result<Option<f32>, BuildError> {
    let Some(bytes) = optional(path)? else { return Ok(None) };
    let length = <[u8; NORM_BYTES]>::try_from(bytes.as_slice()).ok().and_then(|bytes| {
        let (shape, length) = bytes.split_at(8);
        let one_of_one = shape == [1, 0, 0, 0, 1, 0, 0, 0];
        let length = f32::from_le_bytes(length.try_into().ok()?);
        (one_of_one && length.is_finite() && length > 0.0).then_some(length)
    });
    let problem = DiskannError::Unfit { why: "it does not hold the length of the longest vector" };
    length.map(Some).ok_or(BuildError::Diskann { path: path.to_owned(), problem })
}

/// What is said and what was found out, which must not differ.
fn agreed<T: PartialEq + ToString>(
    what: &'static str,
    found: Option<T>,
    asked: Option<T>,
) -> Result<T, DiskannError> {
    match (found, asked) {
        (Some(found), Some(asked)) if found != asked => {
            let (found, asked) = (found.to_string(), asked.to_string());
            Err(DiskannError::Disagrees { what, found, asked })
        }
        (found, asked) => found.or(asked).ok_or(DiskannError::Untold { what }),
    }
}

/// Refuses kinds of indexes that only files beside them tell of.
fn check_kind(prefix: &Path) -> Result<(), DiskannError> {
    let kinds = [
        ("_disk.index_pq_pivots.bin", "its nodes hold codes instead of vectors (pq_disk_bytes)"),
        ("_disk.index_dummy_map.txt", "some of its nodes are copies of rows, made for labels"),
    ];
    match kinds.iter().find(|(end, _)| beside(prefix, end).exists()) {
        Some(&(_, why)) => Err(DiskannError::Unfit { why }),
        None => Ok(()),
    }
}
