//! What a search reads where adjacency and vectors lie apart, beside what it reads of the records of
//! an index, which hold both.
//!
//! ```text
//! cargo run --release --example split_layout -- INDEX QUERIES.u8bin|.fbin TRUTH.bin
//! ```
//!
//! The same graph, codes and order of nodes. Apart, the lists of neighbours are packed into pages of
//! 4 KiB, and the graph is walked by codes; then the vectors of the nearest are read, in the order of
//! their codes and as far as the errors of codes say, which is the rule of a search that reads
//! records. A read of the one and of the other kind counts as one; bytes are told beside.

mod common;

use std::collections::HashSet;
use std::error::Error;
use std::path::PathBuf;

use common::{Table, Truth};
use pipeann_engine::distance::QueryDistance;
use pipeann_engine::graph::HeadScratch;
use pipeann_engine::index::{BatchOptions, Index, OpenOptions, Resident};
use pipeann_engine::quant::{LookupTable, score_many};
use pipeann_engine::search::{PageRecords, PageSource, Policy, SearchParams};
use pipeann_engine::types::{PageId, VectorSet, VectorType};

const PAGE: usize = 4096;
const K: usize = 10;
const LISTS: [usize; 10] = [10, 12, 16, 20, 25, 32, 40, 50, 64, 90];
const RECALL: f64 = 0.95;
/// Bytes of a neighbour, and of a list's length.
const EDGE_BYTES: usize = 3;
const DEGREE_BYTES: usize = 1;

/// All that the pages of an index hold, by rank: nodes in their order, without free slots.
struct Apart {
    nodes: Vec<u32>,
    ranks: Vec<u32>,
    rows: Vec<u64>,
    vectors: Vec<u8>,
    neighbours: Vec<Vec<u32>>,
    vector_bytes: usize,
    vector_type: VectorType,
}

impl Apart {
    fn of(index: &Index) -> Result<Self, Box<dyn Error>> {
        let view = index.view();
        let lease = index.lease(0);
        let layout = view.layout;
        let mut all = Self {
            nodes: Vec::new(),
            ranks: vec![u32::MAX; view.node_slots as usize],
            rows: Vec::new(),
            vectors: Vec::new(),
            neighbours: Vec::new(),
            vector_bytes: layout.vector_bytes(),
            vector_type: layout.vector_type(),
        };
        for page in (0..index.pages()).map(PageId) {
            let bytes = index.resident(&lease, page).ok_or("not all pages are in memory")?;
            let records = PageRecords::new(&view, page, bytes);
            for slot in (0..layout.records_per_page()).filter(|s| records.occupied() >> s & 1 == 1)
            {
                let node = layout.node(page, slot).0;
                all.ranks[node as usize] = u32::try_from(all.nodes.len())?;
                all.nodes.push(node);
                all.rows.push(records.row_id(slot).0);
                all.vectors.extend(records.vector(slot));
                let mut neighbours = Vec::new();
                records.neighbours_into(slot, &mut neighbours);
                all.neighbours.push(neighbours);
            }
        }
        Ok(all)
    }

    /// Lists of neighbours in a page.
    fn lists_per_page(&self, degree: usize) -> usize {
        PAGE / (DEGREE_BYTES + EDGE_BYTES * degree)
    }

    /// Vectors that are read at once, and the bytes of such a read.
    fn vectors_per_read(&self) -> (usize, usize) {
        ((PAGE / self.vector_bytes).max(1), self.vector_bytes.next_multiple_of(PAGE))
    }
}

/// What a search without records found and read.
#[derive(Default)]
struct Found {
    rows: Vec<u64>,
    list_reads: usize,
    vector_reads: usize,
}

/// Mean and deviation of what codes err by; nothing while too few are known.
fn errors(seen: &[f64]) -> Option<(f64, f64)> {
    let n = seen.len() as f64;
    let mean = seen.iter().sum::<f64>() / n;
    let variance = seen.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / n;
    (seen.len() >= 8).then_some((mean, variance.sqrt()))
}

fn search(index: &Index, apart: &Apart, query: &[u8], list: usize) -> Found {
    let view = index.view();
    let mut table = LookupTable::new(view.codebook);
    table.fill(view.codebook, query, apart.vector_type);
    let mut found = Found::default();
    // Coded distance, node, explored.
    let mut candidates: Vec<(f32, u32, bool)> = Vec::new();
    let mut known = HashSet::new();
    let mut seeds = Vec::new();
    if let Some(head) = view.head {
        head.search(&mut HeadScratch::default(), &table, view.codes.view(), K, &mut seeds);
    }
    for (distance, node) in seeds {
        known.insert(node);
        candidates.push((distance, node, false));
    }
    candidates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let per_page = apart.lists_per_page(view.layout.max_degree());
    let page_of = |node: u32| apart.ranks[node as usize] as usize / per_page;
    let mut pages = HashSet::new();
    // What lies in a page that was read is explored first.
    while let Some(next) = candidates
        .iter()
        .position(|&(_, node, explored)| !explored && pages.contains(&page_of(node)))
        .or_else(|| candidates.iter().position(|&(.., explored)| !explored))
    {
        let node = candidates[next].1;
        candidates[next].2 = true;
        pages.insert(page_of(node));
        let fresh = &apart.neighbours[apart.ranks[node as usize] as usize];
        let fresh: Vec<u32> = fresh.iter().copied().filter(|node| known.insert(*node)).collect();
        let mut scores = vec![0.0; fresh.len()];
        score_many(&table, view.codes.view(), &fresh, &mut scores);
        candidates.extend(fresh.into_iter().zip(scores).map(|(node, score)| (score, node, false)));
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0));
        candidates.truncate(list);
    }
    found.list_reads = pages.len();
    read_vectors(apart, query, &candidates, list, &view, &mut found);
    found
}

/// Reads the vectors of the nearest and ranks them.
fn read_vectors(
    apart: &Apart,
    query: &[u8],
    candidates: &[(f32, u32, bool)],
    list: usize,
    view: &pipeann_engine::search::GraphView<'_>,
    found: &mut Found,
) {
    let distance = QueryDistance::new(view.metric, apart.vector_type, query);
    let (at_once, _) = apart.vectors_per_read();
    let (mut reads, mut seen) = (HashSet::new(), Vec::new());
    let mut hits: Vec<(f32, u64)> = Vec::new();
    for &(coded, node, _) in candidates {
        let rank = apart.ranks[node as usize] as usize;
        if let (Some((mean, deviation)), Some(kth)) = (errors(&seen), hits.get(K - 1)) {
            let allowed = 1.9 * (list as f64 / K as f64).ln();
            let kth = f64::from(kth.0);
            if f64::from(coded) > kth - mean + allowed * deviation.max(0.03 * kth.abs()) {
                break;
            }
        }
        reads.insert(rank / at_once);
        let vector = &apart.vectors[rank * apart.vector_bytes..][..apart.vector_bytes];
        let exact = distance.distance(vector);
        seen.push(f64::from(exact - coded));
        hits.push((exact, apart.rows[rank]));
        hits.sort_by(|a, b| a.partial_cmp(b).expect("distances are numbers"));
    }
    found.vector_reads = reads.len();
    found.rows = hits.into_iter().take(K).map(|(_, row)| row).collect();
}

/// Recall, reads and KiB of each list.
type Line = (f64, f64, f64);

/// Reads and KiB at the recall, between the lists around it.
fn at_recall(lines: &[Line]) -> String {
    let Some(at) = lines.iter().position(|line| line.0 >= RECALL).filter(|at| *at > 0) else {
        return "not between two lists".to_owned();
    };
    let (low, high) = (lines[at - 1], lines[at]);
    let share = (RECALL - low.0) / (high.0 - low.0);
    let between = |a: f64, b: f64| a + share * (b - a);
    format!("{:.1} reads, {:.0} KiB", between(low.1, high.1), between(low.2, high.2))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or("the first argument is an index")?);
    let queries = Table::read(&args.next().ok_or("the second one is queries")?)?;
    let truth = Truth(Table::read(&args.next().ok_or("the third one is their truth")?)?);
    let (rows, dim) = (queries.rows, queries.columns);
    let all = OpenOptions { resident: Resident::All, ..OpenOptions::default() };
    let index = Index::open(&path, &all)?;
    index.wait_resident()?;
    let apart = Apart::of(&index)?;
    drop(index);
    // Records are read, so that reads are counted.
    let index = Index::open(&path, &OpenOptions::default())?;
    let set = VectorSet::new(&queries.bytes, dim, apart.vector_type)?;
    let right = |query: usize, found: &[u64]| {
        truth.rows(query).take(K).filter(|row| found.contains(row)).count()
    };
    let rows_f = rows as f64;
    let page_kib = index.page_bytes() as f64 / 1024.0;
    let vector_kib = apart.vectors_per_read().1 as f64 / 1024.0;
    println!("{} nodes of {dim}, records in pages of {page_kib} KiB", apart.nodes.len());
    println!("list  recall  reads   KiB | apart: recall  lists  vectors   KiB");
    let (mut records, mut parts) = (Vec::new(), Vec::new());
    for list in LISTS {
        let params =
            SearchParams { k: K, list, policy: Policy::page(1), ..SearchParams::default() };
        let answers = index.search_batch(set, &params, &BatchOptions::default())?;
        let reads = answers.iter().map(|a| a.stats.reads).sum::<u64>() as f64 / rows_f;
        let hits = answers.iter().map(|a| a.hits.iter().map(|h| h.row.0).collect::<Vec<_>>());
        let recall = hits.enumerate().map(|(q, hits)| right(q, &hits)).sum::<usize>() as f64
            / rows_f
            / K as f64;
        records.push((recall, reads, reads * page_kib));
        let (mut found, mut lists, mut vectors) = (0, 0, 0);
        for query in 0..rows {
            let one = search(&index, &apart, set.row(query), list);
            found += right(query, &one.rows);
            (lists, vectors) = (lists + one.list_reads, vectors + one.vector_reads);
        }
        let (lists, vectors) = (lists as f64 / rows_f, vectors as f64 / rows_f);
        let kib = lists * PAGE as f64 / 1024.0 + vectors * vector_kib;
        let found = found as f64 / rows_f / K as f64;
        parts.push((found, lists + vectors, kib));
        println!(
            "{list:4}  {recall:.4}  {reads:5.1}  {:4.0} |        {found:.4}  {lists:5.1}  {vectors:7.1}  {kib:4.0}",
            reads * page_kib
        );
    }
    println!("at {RECALL}: records {}; apart {}", at_recall(&records), at_recall(&parts));
    Ok(())
}
