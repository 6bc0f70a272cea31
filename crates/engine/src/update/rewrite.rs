//! The whole index written anew: nodes in a new order of pages, the head index over a new sample,
//! and, where asked for, codes by a codebook trained on the rows of now.
//!
//! It is a checkpoint that changes every page, and as safe from crashes. Node ids are other ones
//! afterwards; row ids stay. Tombstones stay tombstones: consolidate before, to be rid of them.

use std::sync::atomic::AtomicBool;

use super::checkpoint::{Checkpoint, CheckpointReport, RowsNow};
use super::error::UpdateError;
use super::gather::Gathering;
use super::live::LiveIndex;
use super::renumber::Renumbering;
use super::retrain::train;
use crate::build::{VamanaOptions, head_parts};
use crate::format::{
    FileEntry, FileKind, HeadParameters, HeadParts, Manifest, RelativePath, SegmentEntry,
};
use crate::quant::{Codebook, CodesView};
use crate::types::{NodeId, VectorSet};

/// What a rewrite does beside laying out all pages anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Train a codebook on the rows of now, and encode all of them by it.
    pub retrain: bool,
}

/// One in so many live rows is a node of the head index, as in a build.
const HEAD_SHARE: usize = 100;
/// The fewest nodes of a head index, as far as there are rows.
const FEWEST_HEAD_NODES: usize = 16;

impl LiveIndex {
    /// Writes the whole index as the next generation, laid out as a build would; otherwise as
    /// [`checkpoint`](Self::checkpoint). An index without live rows is only checkpointed.
    ///
    /// Nodes get other ids. A [`LinkedRow`](super::LinkedRow) made before is part of this generation, and
    /// making it again changes nothing.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint), and [`UpdateError::Memory`] where the limit leaves no
    /// room for choosing an order, which takes some 250 bytes for each row.
    pub fn rewrite(&self, applied: u64, what: Rewrite) -> Result<CheckpointReport, UpdateError> {
        let whole = self.rows() > 0;
        self.exchange(whole, |work, rows| match whole && rows.live > 0 {
            true => work.rewrite(applied, rows, what),
            false => work.run(applied, rows),
        })
    }
}

impl Checkpoint<'_> {
    fn rewrite(
        &mut self,
        applied: u64,
        rows: &RowsNow,
        what: Rewrite,
    ) -> Result<CheckpointReport, UpdateError> {
        let generation = self.generation;
        let old = self.manifest()?;
        let cache_bytes = self.spare.bytes();
        let order = Renumbering::of(generation, self.options.threads(), cache_bytes)?;
        if order.pages() > generation.layout().max_pages() {
            return Err(UpdateError::Full { limit: generation.layout().node_limit() });
        }
        let book = what.retrain.then(|| train(generation)).transpose()?;
        let mut rows = renumbered(rows, &order);
        let sample = head_sample(&mut rows);
        let dir = old.partitions[0].dir.clone();
        let whole = self.pages(&order, book.as_ref(), &sample, &dir)?;
        let (head_file, head) = self.new_head(&old, sample, &whole.sampled)?;
        let (codebook_file, codebook_version) = match &book {
            None => (old.codebook_file.clone(), old.codebook_version),
            Some(book) => {
                let file = self.writing.top("codebook", FileKind::Codebook, &book.to_bytes())?;
                (file, book.version())
            }
        };
        let codes = CodesView::from_slice(&whole.codes, old.code_bytes as usize);
        let page_map: Vec<u32> = (0..order.pages()).collect();
        let partition = self.maps(dir, (vec![whole.segment], &page_map), codes, &rows)?;
        let manifest = Manifest {
            generation: self.writing.number,
            rows: rows.live,
            next_row_id: rows.next_row,
            applied,
            entries: vec![NodeId(head.1)],
            head: head.0,
            head_file,
            codebook_file,
            codebook_version,
            partitions: vec![partition],
            ..old
        };
        self.publish(&manifest)
    }

    /// Writes all pages into one segment.
    fn pages(
        &mut self,
        order: &Renumbering,
        codebook: Option<&Codebook>,
        sample: &[u32],
        dir: &RelativePath,
    ) -> Result<Whole, UpdateError> {
        let name = RelativePath::new(&format!("segment-{:06}.pages", self.writing.number))?;
        let path = self.writing.path.join(dir.join(&name));
        let mut file = self.writing.create(&path)?;
        let (generation, exact) = (self.generation, self.options.exact_prunes);
        let number = self.writing.number;
        let gathering = Gathering { generation, order, codebook, sample, number, exact };
        let (mut codes, mut sampled, mut pruned) = (Vec::new(), Vec::new(), 0);
        let means = (self.options.threads(), self.spare.bytes());
        let reads = gathering.run(means, &mut |run| {
            codes.extend_from_slice(&run.codes);
            sampled.extend_from_slice(&run.sampled);
            pruned += run.pruned;
            self.writing.append(file.as_mut(), &path, &run.images)
        })?;
        self.writing.finish(file.as_mut(), &path)?;
        let pages = order.pages();
        self.report.changed_pages = u64::from(pages);
        self.report.pruned_lists = pruned;
        self.report.page_reads = reads;
        let bytes = u64::from(pages) * generation.layout().page_bytes() as u64;
        let file = FileEntry { path: name, bytes };
        let segment = SegmentEntry { file, first_physical_page: 0, pages };
        Ok(Whole { segment, codes, sampled })
    }

    /// A head index over these nodes, and the node where a search without it begins.
    fn new_head(
        &mut self,
        old: &Manifest,
        nodes: Vec<u32>,
        vectors: &[u8],
    ) -> Result<(FileEntry, (HeadParameters, u32)), UpdateError> {
        let layout = self.generation.layout();
        let set = VectorSet::new(vectors, layout.dim(), layout.vector_type())
            .expect("whole vectors were gathered");
        let options = VamanaOptions {
            degree: (old.head.degree as usize).max(1),
            list: (old.head.list as usize).max(1),
            alpha: old.build.alpha.max(1.0),
            passes: (old.build.passes as usize).max(1),
            threads: self.options.threads(),
            seed: old.build.seed,
            ..VamanaOptions::default()
        };
        let parts: HeadParts =
            head_parts(set, nodes, old.metric, &options, &AtomicBool::new(false))
                .expect("nobody cancels this");
        let entry = parts.nodes[parts.entry as usize];
        let file = self.writing.top("head", FileKind::Head, &parts.encode()?)?;
        let nodes = parts.nodes.len() as u32;
        let (degree, list) = (options.degree as u32, options.list as u32);
        Ok((file, (HeadParameters { nodes, degree, list }, entry)))
    }
}

/// What was made of all pages.
struct Whole {
    segment: SegmentEntry,
    codes: Vec<u8>,
    /// Vectors of the head's nodes.
    sampled: Vec<u8>,
}

/// The rows by their new nodes. Their table takes less than the lists by which the order was chosen,
/// whose memory is still held.
fn renumbered(rows: &RowsNow, order: &Renumbering) -> RowsNow {
    let new_of = |old: u32| order.new_of(old).expect("a row's node is part of the graph");
    let mut tombstones: Vec<u32> = rows.tombstones.iter().map(|&old| new_of(old)).collect();
    tombstones.sort_unstable();
    RowsNow { table: rows.table.renumbered(new_of), tombstones, ..*rows }
}

/// Live nodes at equal distances in the order of pages, so that they lie evenly among all.
fn head_sample(rows: &mut RowsNow) -> Vec<u32> {
    let mut live: Vec<u32> = rows.table.nodes().map(|node| node.0).collect();
    live.sort_unstable();
    let count = live.len().div_ceil(HEAD_SHARE).max(FEWEST_HEAD_NODES).min(live.len());
    (0..count).map(|i| live[i * live.len() / count]).collect()
}
