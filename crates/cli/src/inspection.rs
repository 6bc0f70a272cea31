//! What an index looks like, from its manifest and from the records in its pages.

use anyhow::{Context, Result, anyhow};
use pipeann_engine::format::PageView;
use pipeann_engine::index::{Index, VerifyReport};
use pipeann_engine::io::{Completion, QueueOptions, Wait};
use pipeann_engine::search::PageSource;
use pipeann_engine::types::{NodeId, PageId};
use serde_json::{Map, Value, json};

use crate::measure::rounded;
use crate::table::{bytes, count};

/// What the records in some or all pages hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageFigures {
    pub(crate) pages: u64,
    pub(crate) records: u64,
    /// Nodes of each degree.
    pub(crate) degrees: Vec<u64>,
    pub(crate) edges_in_page: u64,
    /// By partition; none after a verification, which looks at pages alone.
    pub(crate) partitions: Vec<Cut>,
}

/// What the pages of a partition hold, as far as they were looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    records: u64,
    edges: u64,
    /// Edges to nodes of other partitions.
    leave: u64,
}

impl Cut {
    fn share(&self) -> f64 {
        self.leave as f64 / self.edges.max(1) as f64
    }
}

impl From<&VerifyReport> for PageFigures {
    fn from(r: &VerifyReport) -> Self {
        Self {
            pages: r.pages,
            records: r.records,
            degrees: r.degrees.clone(),
            edges_in_page: r.edges_in_page,
            partitions: Vec::new(),
        }
    }
}

impl PageFigures {
    /// Reads up to `wanted` pages, evenly spread over the index.
    ///
    /// # Errors
    /// A page that cannot be read or fails its checksum.
    pub(crate) fn sample(index: &Index, wanted: u32) -> Result<Self> {
        let step = (index.pages() / wanted.max(1)).max(1);
        let mut pages = (0..index.pages()).step_by(step as usize);
        let page_bytes = index.page_bytes();
        let (depth, buffers) = (32, 32);
        let mut queue = index.backend().queue(&QueueOptions {
            depth,
            buffers,
            buffer_bytes: page_bytes,
            sqpoll: false,
            wait: Wait::Sleep,
        })?;
        let mut figures =
            Self { degrees: vec![0; index.layout().max_degree() + 1], ..Self::default() };
        figures.partitions = vec![Cut::default(); index.partitions()];
        let mut completions: Vec<Completion> = Vec::with_capacity(depth);
        loop {
            while let Some(buffer) = queue.take_buffer() {
                let Some(page) = pages.next() else {
                    queue.return_buffer(buffer);
                    break;
                };
                let (device, offset) = index.locate(PageId(page));
                queue.push_read(device, offset, page_bytes, buffer, u64::from(page))?;
            }
            if queue.in_flight() == 0 {
                return Ok(figures);
            }
            completions.clear();
            queue.wait(&mut completions)?;
            for c in &completions {
                let page = PageId(c.tag as u32);
                let bytes = queue.buffer(c.buffer);
                c.result.as_ref().map_err(|e| anyhow!(index.describe(page, e)))?;
                index.accept(page, bytes).context("damaged; --verify lists all damage")?;
                figures.add(index, page, bytes);
                queue.return_buffer(c.buffer);
            }
        }
    }

    fn add(&mut self, index: &Index, page: PageId, bytes: &[u8]) {
        let layout = index.layout();
        let records = PageView::new(layout, bytes);
        let mut neighbours = Vec::with_capacity(layout.max_degree());
        let mut slots = records.occupied();
        self.pages += 1;
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            neighbours.clear();
            records.neighbours_into(slot, &mut neighbours);
            self.records += 1;
            self.degrees[neighbours.len()] += 1;
            let here = neighbours.iter().filter(|&&n| layout.page_of(NodeId(n)) == page);
            self.edges_in_page += here.count() as u64;
            let own = index.partition_of(page);
            let elsewhere = |n: &&u32| index.partition_of(layout.page_of(NodeId(**n))) != own;
            let cut = &mut self.partitions[own];
            cut.records += 1;
            cut.edges += neighbours.len() as u64;
            cut.leave += neighbours.iter().filter(elsewhere).count() as u64;
        }
    }

    fn edges(&self) -> u64 {
        self.degrees.iter().enumerate().map(|(degree, n)| degree as u64 * n).sum()
    }

    fn mean_degree(&self) -> f64 {
        self.edges() as f64 / self.records.max(1) as f64
    }

    fn mean_in_page(&self) -> f64 {
        self.edges_in_page as f64 / self.records.max(1) as f64
    }

    fn degree_range(&self) -> (usize, usize) {
        let min = self.degrees.iter().position(|&n| n > 0).unwrap_or(0);
        let max = self.degrees.iter().rposition(|&n| n > 0).unwrap_or(0);
        (min, max)
    }

    fn fill(&self, index: &Index) -> f64 {
        let slots = self.pages * index.layout().records_per_page() as u64;
        self.records as f64 / slots.max(1) as f64
    }
}

/// Bytes of all files.
fn disk_bytes(index: &Index) -> u64 {
    index.manifest().files().iter().map(|f| f.bytes).sum()
}

/// What a memory limit would hold: each pool of the floor, and pages.
struct LimitHolds {
    limit_bytes: u64,
    pages: u32,
}

/// The floor, everything, and limits in equal steps between the two.
fn held_under_limits(index: &Index) -> Vec<LimitHolds> {
    const STEPS: u64 = 4;
    let (floor, all) = (index.floor().total(), index.bytes_for_all_pages());
    let limits = (0..=STEPS).map(|step| floor + (all - floor).div_ceil(STEPS) * step);
    limits
        .map(|limit| limit.min(all))
        .map(|limit_bytes| LimitHolds { limit_bytes, pages: index.pages_under(limit_bytes) })
        .collect()
}

/// All there is to say, for programs.
pub(crate) fn json(index: &Index, figures: &PageFigures) -> Value {
    let (m, layout) = (index.manifest(), index.layout());
    let (degree_min, degree_max) = figures.degree_range();
    let floor = index.floor();
    let partitions: Vec<Value> = m
        .partitions
        .iter()
        .enumerate()
        .map(|(number, p)| {
            let cut = figures.partitions.get(number).filter(|cut| cut.edges > 0);
            json!({ "dir": p.dir.as_str(), "first_page": p.first_page, "pages": p.pages,
                    "segments": p.segments.len(), "records": cut.map(|cut| cut.records),
                    "edges_out": cut.map(|cut| rounded(cut.share(), 4)) })
        })
        .collect();
    let files: Map<String, Value> =
        m.files().into_iter().map(|f| (f.path, f.bytes.into())).collect();
    json!({
        "rows": m.rows, "dim": index.dim(), "type": layout.vector_type().name(),
        "metric": index.metric().name(), "generation": m.generation,
        "page_bytes": layout.page_bytes(), "records_per_page": layout.records_per_page(),
        "record_bytes": layout.record_bytes(), "edge_bytes": layout.edge_bytes(),
        "pages": index.pages(), "code_bytes": m.code_bytes,
        "codes": index.codebook().kind().name(), "code_bits": index.codebook().bits(),
        "head_nodes": m.head.nodes,
        "degree": m.build.degree, "build_list": m.build.list, "alpha": m.build.alpha,
        "passes": m.build.passes, "seed": m.build.seed,
        "partitions": partitions, "files": files,
        "disk_bytes": disk_bytes(index),
        "disk_bytes_per_vector": rounded(disk_bytes(index) as f64 / m.rows.max(1) as f64, 1),
        "memory_floor_bytes": floor.total(),
        "memory_floor": { "codes": floor.codes, "head_index": floor.head_index,
                          "page_map": floor.page_map, "query_scratch": floor.query_scratch },
        "memory_limits": held_under_limits(index).iter()
            .map(|held| json!({ "limit_bytes": held.limit_bytes, "resident_pages": held.pages }))
            .collect::<Vec<_>>(),
        "pages_looked_at": figures.pages,
        "degree_min": degree_min, "degree_mean": rounded(figures.mean_degree(), 3),
        "degree_max": degree_max, "degrees": figures.degrees,
        "page_fill": rounded(figures.fill(index), 4),
        "neighbours_in_page": rounded(figures.mean_in_page(), 3),
    })
}

fn codes(index: &Index) -> String {
    let (bytes, kind) = (index.manifest().code_bytes, index.codebook().kind());
    match index.codebook().bits() {
        None => format!("{bytes} bytes a vector, {kind}"),
        Some(bits) => format!("{bytes} bytes a vector, {kind} with {bits} bits a component"),
    }
}

/// How equal partitions are, and how many edges lead from one to another.
fn partitions(index: &Index, figures: &PageFigures) -> String {
    let pages: Vec<u64> =
        index.manifest().partitions.iter().map(|part| part.pages.into()).collect();
    if pages.len() == 1 {
        return "1".to_owned();
    }
    let (sum, largest) = (pages.iter().sum::<u64>(), pages.iter().max().copied().unwrap_or(0));
    let balance = largest as f64 * pages.len() as f64 / sum.max(1) as f64;
    let all = figures.partitions.iter().fold(Cut::default(), |all, cut| Cut {
        edges: all.edges + cut.edges,
        leave: all.leave + cut.leave,
        ..all
    });
    let mut told = format!("{}, the largest {balance:.3} of the mean", pages.len());
    if all.edges > 0 {
        let shares = figures.partitions.iter().map(|cut| format!("{:.1}", 100.0 * cut.share()));
        let shares: Vec<String> = shares.collect();
        let cut = 100.0 * all.share();
        told.push_str(&format!("; {cut:.1} % of edges leave theirs ({})", shares.join(", ")));
    }
    told
}

/// All there is to say, for people.
pub(crate) fn pairs(index: &Index, figures: &PageFigures) -> Vec<(&'static str, String)> {
    let (m, layout) = (index.manifest(), index.layout());
    let (min, max) = figures.degree_range();
    let floor = index.floor();
    let disk = disk_bytes(index);
    let alpha = m.build.alpha;
    let all = if figures.pages == u64::from(index.pages()) {
        String::new()
    } else {
        format!(" (over {} pages)", count(figures.pages))
    };
    vec![
        (
            "vectors",
            format!(
                "{} x {} {}, {}",
                count(m.rows),
                index.dim(),
                layout.vector_type(),
                index.metric()
            ),
        ),
        ("generation", m.generation.to_string()),
        (
            "built with",
            format!(
                "R={}, L={}, alpha={alpha}, passes={}, seed={}",
                m.build.degree, m.build.list, m.build.passes, m.build.seed
            ),
        ),
        (
            "pages",
            format!(
                "{} of {} bytes, {} records of {} bytes each, {} bytes an edge",
                count(index.pages().into()),
                layout.page_bytes(),
                layout.records_per_page(),
                layout.record_bytes(),
                layout.edge_bytes()
            ),
        ),
        ("page fill", format!("{:.1} %{all}", 100.0 * figures.fill(index))),
        ("degree", format!("{min} to {max}, mean {:.1}{all}", figures.mean_degree())),
        (
            "in-page",
            format!("{:.2} graph neighbours of a node share its page", figures.mean_in_page()),
        ),
        ("partitions", partitions(index, figures)),
        ("head index", format!("{} nodes", count(m.head.nodes.into()))),
        ("codes", codes(index)),
        (
            "memory",
            format!(
                "at least {}: codes {}, head index {}, page map {}, query scratch {}",
                bytes(floor.total()),
                bytes(floor.codes),
                bytes(floor.head_index),
                bytes(floor.page_map),
                bytes(floor.query_scratch)
            ),
        ),
        (
            "pages in memory",
            held_under_limits(index)
                .iter()
                .map(|held| {
                    let share = 100.0 * f64::from(held.pages) / f64::from(index.pages().max(1));
                    format!("{share:.0} % under {}", bytes(held.limit_bytes))
                })
                .collect::<Vec<_>>()
                .join(", "),
        ),
        (
            "on disk",
            format!("{}, {:.0} bytes a vector", bytes(disk), disk as f64 / m.rows.max(1) as f64),
        ),
    ]
}
