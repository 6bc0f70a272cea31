//! A small index in memory: clustered random vectors, their exact neighbour graph, pages, codes.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;

use super::super::{
    AllPages, CodeAccess, CodesUnavailable, EpochGuard, GraphView, Origin, Owned, PaceShare,
    PageSource, ReadFailure, ResidentPages,
};
use crate::distance::QueryDistance;
use crate::format::{Identity, PageWriter, RecordLayout, check_page};
use crate::io::memory::Memory;
use crate::io::{Backend, Device, File, IoError};
use crate::quant::{CodeOptions, Codebook, CodesView};
use crate::types::{Metric, NodeId, PageId, RowId, VectorSet, VectorType, from_f32};

pub(super) const DIM: usize = 16;
pub(super) const DEGREE: usize = 24;
const IDENTITY: Identity = Identity { uuid: [7; 16] };
const ORIGIN: Origin = Origin { uuid: [7; 16], generation: 1, codebook: 1 };

/// A reproducible stream of numbers.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ (self.0 >> 33);
        x.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 11
    }
}

pub(super) struct Fixture {
    pub(super) vectors: Vec<u8>,
    pub(super) metric: Metric,
    pub(super) layout: RecordLayout,
    pub(super) codebook: Codebook,
    pub(super) codes: ResidentCodes,
    pub(super) pages: Vec<Vec<u8>>,
    pub(super) device: Device,
    pub(super) unreadable: Mutex<HashSet<u32>>,
    pub(super) rows: usize,
    /// Whether searches find every page in memory.
    pub(super) in_memory: bool,
    pub(super) copies: usize,
    /// The pages that searches can read; all where there is none.
    pub(super) owned: Option<Owned>,
    /// Where searches that go home begin; anywhere where there is none.
    pub(super) home: Option<Owned>,
}

pub(super) struct ResidentCodes {
    bytes: Vec<u8>,
    code_bytes: usize,
}

impl CodeAccess for ResidentCodes {
    fn view(&self) -> CodesView<'_> {
        CodesView::from_slice(&self.bytes, self.code_bytes)
    }
    fn ensure(&self, _: &[u32]) -> Result<(), CodesUnavailable> {
        Ok(())
    }
    fn is_resident(&self) -> bool {
        true
    }
}

fn clustered(rows: usize, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let centres: Vec<u8> = (0..40 * DIM).map(|_| (numbers.next() % 200) as u8).collect();
    let mut vectors = Vec::with_capacity(rows * DIM);
    for _ in 0..rows {
        let c = (numbers.next() % 40) as usize * DIM;
        for d in 0..DIM {
            vectors.push(centres[c + d].saturating_add((numbers.next() % 56) as u8));
        }
    }
    vectors
}

/// Vectors of u8 as vectors of `ty`, around 0 where there is a sign; of bits, which say on which
/// side of their middle components are, eight for each.
fn converted(vectors: &[u8], ty: VectorType) -> Vec<u8> {
    let mut out = Vec::new();
    for &x in vectors {
        let x = f32::from(x);
        match ty {
            VectorType::U8 => from_f32(&[x], ty, &mut out),
            VectorType::Binary => {
                from_f32(
                    &[1, 2, 3, 4, 5, 6, 7, 8].map(|step| x - 28.0 * step as f32),
                    ty,
                    &mut out,
                );
            }
            _ => from_f32(&[x - 128.0], ty, &mut out),
        }
    }
    out
}

impl Fixture {
    /// `rows` vectors of u8, L2.
    pub(super) fn new(rows: usize) -> Self {
        Self::of(rows, VectorType::U8, Metric::L2)
    }

    /// `rows` vectors; each node has its nearest neighbours and some far ones.
    pub(super) fn of(rows: usize, ty: VectorType, metric: Metric) -> Self {
        Self::wide(rows, ty, metric, 1)
    }

    /// As [`of`](Self::of), with the components of each vector `copies` times.
    pub(super) fn wide(rows: usize, ty: VectorType, metric: Metric, copies: usize) -> Self {
        let vectors: Vec<u8> = clustered(rows, 1)
            .chunks(DIM)
            .flat_map(|row| converted(row, ty).repeat(copies))
            .collect();
        let dim = ty.dim_of(vectors.len() / rows);
        let set = VectorSet::new(&vectors, dim, ty).unwrap();
        let layout = RecordLayout::choose(dim, ty, DEGREE, rows as u64, 1.0).unwrap();
        let per_page = layout.records_per_page();
        let pages_needed = layout.pages_for(rows as u64).unwrap() as usize;
        let options = CodeOptions {
            code_bytes: 8,
            training_rows: rows,
            iterations: 8,
            seed: 3,
            ..CodeOptions::for_dim(dim)
        };
        let codebook = Codebook::train(set, metric, &options);
        let mut bytes = vec![0; pages_needed * per_page * 8];
        codebook.encode_all(set, &mut bytes[..rows * 8]);
        let mut pages = Vec::new();
        let mut numbers = Numbers(9);
        for p in 0..pages_needed {
            let mut page = vec![0; layout.page_bytes()];
            let mut writer = PageWriter::new(&layout, &mut page);
            for slot in 0..per_page.min(rows - p * per_page) {
                let i = p * per_page + slot;
                let neighbours = neighbours_of(set, metric, i, &mut numbers);
                writer.put(slot, set.row(i), RowId(i as u64 + 1000), &neighbours);
            }
            writer.seal(&IDENTITY, PageId(p as u32), 1);
            pages.push(page);
        }
        let file = File::from_bytes(Path::new("fixture"), pages.concat());
        let device = Device::whole(&file).unwrap();
        Self {
            layout,
            codebook,
            codes: ResidentCodes { bytes, code_bytes: 8 },
            pages,
            device,
            unreadable: Mutex::default(),
            rows,
            in_memory: false,
            copies,
            owned: None,
            home: None,
            vectors,
            metric,
        }
    }

    pub(super) fn set(&self) -> VectorSet<'_> {
        VectorSet::new(&self.vectors, self.layout.dim(), self.layout.vector_type()).unwrap()
    }

    pub(super) fn backend(&self) -> impl Backend + use<> {
        Memory::new()
    }

    /// Queries near the data that are none of its vectors.
    pub(super) fn queries(&self, n: usize) -> Vec<Vec<u8>> {
        let mut numbers = Numbers(77);
        let base = clustered(self.rows, 1);
        (0..n)
            .map(|_| {
                let row = (numbers.next() % self.rows as u64) as usize;
                let near = |b: &u8| b.saturating_add((numbers.next() % 24) as u8);
                let query: Vec<u8> = base[row * DIM..(row + 1) * DIM].iter().map(near).collect();
                converted(&query, self.layout.vector_type()).repeat(self.copies)
            })
            .collect()
    }

    /// The rows of the `k` nearest vectors that `allowed` lets through.
    pub(super) fn truth(
        &self,
        query: &[u8],
        k: usize,
        allowed: impl Fn(usize) -> bool,
    ) -> Vec<u64> {
        let distance = QueryDistance::new(self.metric, self.layout.vector_type(), query);
        let mut all: Vec<(f32, u64)> = (0..self.rows)
            .filter(|&i| allowed(i))
            .map(|i| (distance.distance(self.set().row(i)), i as u64 + 1000))
            .collect();
        all.sort_by(|a, b| a.partial_cmp(b).unwrap());
        all.truncate(k);
        all.into_iter().map(|(_, row)| row).collect()
    }
}

fn neighbours_of(set: VectorSet<'_>, metric: Metric, i: usize, numbers: &mut Numbers) -> Vec<u32> {
    let distance = QueryDistance::new(metric, set.vector_type(), set.row(i));
    let mut all: Vec<(f32, u32)> = (0..set.rows())
        .filter(|&j| j != i)
        .map(|j| (distance.distance(set.row(j)), j as u32))
        .collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let mut ids: Vec<u32> = all.iter().take(DEGREE - 8).map(|&(_, j)| j).collect();
    while ids.len() < DEGREE.min(set.rows() - 1) {
        let j = (numbers.next() % set.rows() as u64) as u32;
        if j as usize != i && !ids.contains(&j) {
            ids.push(j);
        }
    }
    ids
}

/// The pages of a fixture stay.
static NO_LEASE: EpochGuard<'static> = EpochGuard::none();

impl ResidentPages for Fixture {
    fn page<'p>(&'p self, _: &'p EpochGuard<'_>, page: PageId) -> Option<&'p [u8]> {
        self.pages.get(page.0 as usize).map(Vec::as_slice)
    }
}

impl PageSource for Fixture {
    fn view(&self) -> GraphView<'_> {
        GraphView {
            layout: &self.layout,
            metric: self.metric,
            codebook: &self.codebook,
            codes: &self.codes,
            head: None,
            entry: NodeId(0),
            codes_per_read: 8000,
            searches: 1,
            alone: true,
            share: PaceShare::default(),
            pages: self.all_pages(&NO_LEASE),
            overlay: None,
            owned: self.owned.as_ref(),
            home: self.home.as_ref(),
            origin: ORIGIN,
            node_slots: (self.pages.len() * self.layout.records_per_page()) as u32,
        }
    }
    fn locate(&self, page: PageId) -> (&Device, u64) {
        (&self.device, u64::from(page.0) * self.layout.page_bytes() as u64)
    }
    fn page_bytes(&self) -> usize {
        self.layout.page_bytes()
    }
    fn all_pages<'p>(&'p self, lease: &'p EpochGuard<'_>) -> Option<AllPages<'p>> {
        self.in_memory.then(|| AllPages::new(self, lease))
    }
    fn resident<'p>(&'p self, _: &'p EpochGuard<'_>, _: PageId) -> Option<&'p [u8]> {
        None
    }
    fn accept(&self, page: PageId, bytes: &[u8]) -> Result<(), ReadFailure> {
        if self.unreadable.lock().unwrap().contains(&page.0) {
            return Err(ReadFailure::damaged(format!("page {} of fixture", page.0)));
        }
        check_page(bytes, &IDENTITY, page).map_err(|e| ReadFailure::damaged(e.to_string()))
    }
    fn describe(&self, page: PageId, error: &IoError) -> ReadFailure {
        ReadFailure { why: format!("page {}: {error}", page.0), fault: error.fault() }
    }
}
