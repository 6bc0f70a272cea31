//! A small graph in memory: what a search that comes as bytes goes on in.

use std::sync::Arc;

use pipeann_engine::filter::AllowSet;
use pipeann_engine::format::{Identity, PageWriter, RecordLayout};
use pipeann_engine::quant::{CodeOptions, Codebook, CodesView};
use pipeann_engine::search::{CodeAccess, CodesUnavailable, GraphView, Origin, PaceShare};
use pipeann_engine::types::{Metric, NodeId, PageId, RowId, VectorSet, VectorType};

const DIM: usize = 16;
const ROWS: usize = 120;
const DEGREE: usize = 8;
const CODE_BYTES: usize = 4;

/// Rows of u8 in a ring with chords, and their pages.
pub(crate) struct SmallGraph {
    vectors: Vec<u8>,
    layout: RecordLayout,
    codebook: Codebook,
    codes: Vec<u8>,
    pages: Vec<Vec<u8>>,
}

impl CodeAccess for SmallGraph {
    fn view(&self) -> CodesView<'_> {
        CodesView::from_slice(&self.codes, CODE_BYTES)
    }

    fn ensure(&self, _: &[u32]) -> Result<(), CodesUnavailable> {
        Ok(())
    }

    fn is_resident(&self) -> bool {
        true
    }
}

impl SmallGraph {
    pub(crate) fn new() -> Self {
        let byte = |i: usize| (i.wrapping_mul(2_654_435_761) >> 7) as u8;
        let vectors: Vec<u8> = (0..ROWS * DIM).map(byte).collect();
        let set = VectorSet::new(&vectors, DIM, VectorType::U8).expect("whole vectors");
        let layout = RecordLayout::choose(DIM, VectorType::U8, DEGREE, ROWS as u64, 1.0)
            .expect("a small record");
        let options = CodeOptions {
            code_bytes: CODE_BYTES,
            training_rows: ROWS,
            iterations: 4,
            seed: 1,
            ..CodeOptions::for_dim(DIM)
        };
        let codebook = Codebook::train(set, Metric::L2, &options);
        let per_page = layout.records_per_page();
        let needed = layout.pages_for(ROWS as u64).expect("few rows") as usize;
        let mut codes = vec![0; needed * per_page * CODE_BYTES];
        codebook.encode_all(set, &mut codes[..ROWS * CODE_BYTES]);
        let page = |p: usize| {
            let mut page = vec![0; layout.page_bytes()];
            let mut writer = PageWriter::new(&layout, &mut page);
            for slot in 0..per_page.min(ROWS - p * per_page) {
                let node = p * per_page + slot;
                let far = [1, 7, 31, 53, ROWS - 1, ROWS - 7, ROWS - 31, ROWS - 53];
                let neighbours = far.map(|step| ((node + step) % ROWS) as u32);
                writer.put(slot, set.row(node), RowId(node as u64 + 1000), &neighbours);
            }
            writer.seal(&Identity { uuid: [7; 16] }, PageId(p as u32), 1);
            page
        };
        let pages = (0..needed).map(page).collect();
        Self { vectors, layout, codebook, codes, pages }
    }

    /// What a search sees of it.
    pub(crate) fn view(&self) -> GraphView<'_> {
        GraphView {
            layout: &self.layout,
            metric: Metric::L2,
            codebook: &self.codebook,
            codes: self,
            head: None,
            entry: NodeId(0),
            node_slots: (self.pages.len() * self.layout.records_per_page()) as u32,
            codes_per_read: 1,
            searches: 1,
            alone: true,
            share: PaceShare::default(),
            pages: None,
            overlay: None,
            owned: None,
            home: None,
            origin: Origin { uuid: [7; 16], generation: 1, codebook: 1 },
        }
    }

    /// A page's bytes.
    pub(crate) fn page(&self, page: PageId) -> &[u8] {
        &self.pages[page.0 as usize]
    }

    /// A row's vector.
    pub(crate) fn vector(&self, row: usize) -> &[u8] {
        &self.vectors[row * DIM..][..DIM]
    }

    /// Each `nth` node.
    pub(crate) fn every(nth: usize) -> Arc<AllowSet> {
        Arc::new(AllowSet::new((0..ROWS as u32).step_by(nth).map(NodeId)))
    }

    /// A third of the nodes, told by their rows.
    pub(crate) fn tested() -> Arc<AllowSet> {
        Arc::new(AllowSet::tested(ROWS as u64 / 3, |RowId(row)| row % 3 == 0))
    }
}
