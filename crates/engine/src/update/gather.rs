//! The pages of a new order: records gathered from where they were, their edges renumbered.
//!
//! Runs of new pages are made on several threads of the process's pool, and handed out in order.
//! Nodes that share a page were mostly near each other before, so that few pages are read for a
//! run, and most of these once.

use super::error::UpdateError;
use super::fold::pruned;
use super::generation::Generation;
use super::images::{Images, PageReader, WithResident};
use super::renumber::Renumbering;
use crate::format::PageWriter;
use crate::quant::Codebook;
use crate::types::{NodeId, PageId, RowId};

/// Pages that one thread makes before they are handed out.
const RUN: u32 = 64;

/// How pages are made.
pub(super) struct Gathering<'a> {
    pub(super) generation: &'a Generation,
    pub(super) order: &'a Renumbering,
    /// Encodes every vector anew; `None` keeps the codes.
    pub(super) codebook: Option<&'a Codebook>,
    /// New ids of the nodes whose vectors are wanted, ascending.
    pub(super) sample: &'a [u32],
    /// The new generation.
    pub(super) number: u64,
    /// Whether vectors that are not at hand are read.
    pub(super) exact: bool,
}

/// A run of pages.
#[derive(Default)]
pub(super) struct GatheredPages {
    /// Their images.
    pub(super) images: Vec<u8>,
    /// The codes of their slots.
    pub(super) codes: Vec<u8>,
    /// Vectors of the nodes in the sample.
    pub(super) sampled: Vec<u8>,
    /// Lists that were pruned to fit.
    pub(super) pruned: u64,
}

struct GatheredRecord {
    slot: usize,
    row: RowId,
    vector: Vec<u8>,
    edges: Vec<u32>,
}

impl Gathering<'_> {
    /// Makes all pages on up to `threads` threads and hands them to `take` in their order.
    /// Returns the pages read.
    pub(super) fn run(
        &self,
        (threads, cache_bytes): (usize, usize),
        take: &mut dyn FnMut(&GatheredPages) -> Result<(), UpdateError>,
    ) -> Result<u64, UpdateError> {
        let reader = || PageReader::new(&self.generation.index, cache_bytes / threads);
        let mut readers = (0..threads).map(|_| reader()).collect::<Result<Vec<_>, _>>()?;
        let pages = self.order.pages();
        for from in (0..pages).step_by(RUN as usize * threads) {
            let mut made: Vec<Result<GatheredPages, UpdateError>> = Vec::new();
            made.resize_with(threads, || Ok(GatheredPages::default()));
            rayon::in_place_scope(|s| {
                for (i, (reader, made)) in (0u32..).zip(readers.iter_mut().zip(&mut made)) {
                    let first = (from + i * RUN).min(pages);
                    s.spawn(move |_| *made = self.pages(first..pages.min(first + RUN), reader));
                }
            });
            for run in made {
                take(&run?)?;
            }
        }
        Ok(readers.iter().map(PageReader::reads).sum())
    }

    fn pages(
        &self,
        pages: std::ops::Range<u32>,
        reader: &mut PageReader,
    ) -> Result<GatheredPages, UpdateError> {
        let mut made = GatheredPages::default();
        self.load(pages.clone(), reader)?;
        for page in pages {
            self.page(PageId(page), reader, &mut made)?;
        }
        Ok(made)
    }

    /// Brings the old pages of all records of some new ones to hand.
    fn load(
        &self,
        pages: std::ops::Range<u32>,
        reader: &mut PageReader,
    ) -> Result<(), UpdateError> {
        let layout = self.generation.layout();
        let per_page = layout.records_per_page() as u32;
        let slots = pages.start * per_page..pages.end * per_page;
        let olds = slots.filter_map(|new| self.order.old_at(new));
        let mut wanted: Vec<PageId> = olds.map(|old| layout.page_of(NodeId(old))).collect();
        wanted.sort_unstable();
        wanted.dedup();
        reader.load(&self.generation.index, &wanted)
    }

    fn page(
        &self,
        page: PageId,
        reader: &mut PageReader,
        made: &mut GatheredPages,
    ) -> Result<(), UpdateError> {
        let (generation, layout) = (self.generation, *self.generation.layout());
        // Some may have been pushed out by those of later pages, or of long lists.
        self.load(page.0..page.0 + 1, reader)?;
        let mut records = Vec::with_capacity(layout.records_per_page());
        for slot in 0..layout.records_per_page() {
            let new = layout.node(page, slot).0;
            let Some(old) = self.order.old_at(new) else {
                made.codes.resize(made.codes.len() + self.code_bytes(), 0);
                continue;
            };
            let record = self.record(NodeId(old), slot, reader)?;
            self.put_code(old, &record.vector, &mut made.codes);
            if self.sample.binary_search(&new).is_ok() {
                made.sampled.extend_from_slice(&record.vector);
            }
            records.push((old, record));
        }
        let from = made.images.len();
        made.images.resize(from + layout.page_bytes(), 0);
        let mut writer = PageWriter::new(&layout, &mut made.images[from..]);
        for (old, record) in &mut records {
            if record.edges.len() > layout.max_degree() {
                if self.exact {
                    generation.load_nodes(reader, record.edges.iter())?;
                }
                let images = WithResident::new(&*reader, &generation.index);
                let edges =
                    pruned(generation, &images, NodeId(*old), &record.vector, &record.edges);
                record.edges = edges;
                made.pruned += 1;
            }
            let renumber = |n: &mut u32| *n = self.order.new_of(*n).expect("checked when read");
            record.edges.iter_mut().for_each(renumber);
            writer.put(record.slot, &record.vector, record.row, &record.edges);
        }
        writer.seal(&generation.index.identity(), page, self.number);
        Ok(())
    }

    /// A record with its edges to nodes that stay, by their old ids.
    fn record(
        &self,
        old: NodeId,
        slot: usize,
        images: &dyn Images,
    ) -> Result<GatheredRecord, UpdateError> {
        let layout = self.generation.layout();
        let records = self.generation.records(images, layout.page_of(old));
        let records = records.expect("the page was loaded");
        let at = layout.slot_of(old);
        let mut edges = Vec::new();
        records.neighbours_into(at, &mut edges);
        let mut kept: Vec<u32> = Vec::with_capacity(edges.len());
        for n in edges {
            if n != old.0 && self.order.new_of(n).is_some() && !kept.contains(&n) {
                kept.push(n);
            }
        }
        let (row, vector) = (records.row_id(at), records.vector(at).to_vec());
        Ok(GatheredRecord { slot, row, vector, edges: kept })
    }

    fn code_bytes(&self) -> usize {
        self.generation.index.codes().code_bytes()
    }

    fn put_code(&self, old: u32, vector: &[u8], codes: &mut Vec<u8>) {
        match self.codebook {
            None => codes.extend_from_slice(self.generation.index.codes().row(old)),
            Some(book) => {
                let from = codes.len();
                codes.resize(from + self.code_bytes(), 0);
                book.encode(vector, self.generation.vector_type(), &mut codes[from..]);
            }
        }
    }
}
