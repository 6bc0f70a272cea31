//! Verification: reads every page and every block of an index and names all damage.

use super::Index;
use super::error::QueryError;
use crate::format::PageView;
use crate::format::constants::ABSENT;
use crate::search::{CodeAccess, Overlay};
use crate::types::{NodeId, PageId};

/// One thing that is wrong, with file and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage(pub String);

/// What verification found, and what the pages hold.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Everything that is wrong; empty for a sound index.
    pub damage: Vec<Damage>,
    /// Pages read.
    pub pages: u64,
    /// Records of live rows in them.
    pub records: u64,
    /// Records of deleted rows that are still part of the graph.
    pub tombstones: u64,
    /// Number of nodes of each degree.
    pub degrees: Vec<u64>,
    /// Edges that stay within their page.
    pub edges_in_page: u64,
}

impl VerifyReport {
    /// Edges in all.
    pub fn edges(&self) -> u64 {
        self.degrees.iter().enumerate().map(|(degree, n)| degree as u64 * n).sum()
    }

    fn note(&mut self, what: impl Into<String>) {
        self.damage.push(Damage(what.into()));
    }
}

impl Index {
    /// Reads the whole index: page and block checksums, edges in range and unique, each row in
    /// exactly one record, the row map in agreement with the records. `progress` is told the
    /// number of pages done.
    ///
    /// # Errors
    /// [`QueryError`] where the I/O queue itself fails; damage is no error but is reported.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<VerifyReport, QueryError> {
        self.check_process()?;
        let mut report =
            VerifyReport { degrees: vec![0; self.layout().max_degree() + 1], ..Default::default() };
        let mut node_of = self.row_maps(&mut report);
        // What the stream could not bring is asked for once more, and the reason told.
        self.codes.wait_streamed();
        let nodes: Vec<u32> = (0..self.node_slots()).collect();
        for chunk in nodes.chunks(1 << 16) {
            if let Err(e) = self.codes.ensure(chunk) {
                report.note(e.to_string());
                break;
            }
        }
        self.each_page(&mut |page, read| {
            match read {
                Ok(bytes) => self.verify_page(page, bytes, &mut node_of, &mut report),
                Err(error) => report.note(error.0),
            }
            report.pages += 1;
            progress(report.pages);
        })?;
        let whole = self.pages.owned.is_none();
        if whole && report.damage.is_empty() && report.records != self.rows() {
            let (expected, found) = (self.rows(), report.records);
            report.note(format!("the pages hold {found} records, the manifest says {expected}"));
        }
        for (row, node) in node_of.iter().enumerate().filter(|(_, n)| **n != ABSENT).take(10) {
            report.note(format!(
                "row {row}: the row map names node {node}, which has no such record"
            ));
        }
        Ok(report)
    }

    /// The node of each row by the row maps; damage of a map is noted.
    fn row_maps(&self, report: &mut VerifyReport) -> Vec<u32> {
        let mut node_of = Vec::new();
        for partition in self.pages.partitions_here() {
            match self.whole_row_map(partition) {
                Ok(Some(map)) => {
                    let last = map.iter().map(|(row, _)| *row).max();
                    let rows = last.map_or(0, |last| last as usize + 1);
                    if rows as u64 > self.manifest.next_row_id {
                        let (dir, most) = (partition.first_page, self.manifest.next_row_id);
                        report.note(format!(
                            "the row map of the partition at page {dir} names row {}, rows are \
                             below {most}",
                            rows - 1
                        ));
                        continue;
                    }
                    node_of.resize(rows.max(node_of.len()), ABSENT);
                    map.iter().for_each(|(row, node)| node_of[*row as usize] = *node);
                }
                Ok(None) => {}
                Err(e) => report.note(e.to_string()),
            }
        }
        node_of
    }

    fn verify_page(
        &self,
        page: PageId,
        bytes: &[u8],
        node_of: &mut [u32],
        report: &mut VerifyReport,
    ) {
        let records = PageView::new(self.layout(), bytes);
        let mut neighbours = Vec::new();
        let mut slots = records.occupied();
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let node = self.layout().node(page, slot);
            let row = records.row_id(slot).0;
            let deleted = self.tombstones.as_ref().is_some_and(|t| t.is_deleted(node));
            report.records += u64::from(!deleted);
            report.tombstones += u64::from(deleted);
            match usize::try_from(row).ok().and_then(|r| node_of.get_mut(r)) {
                _ if deleted => {}
                Some(mapped) if *mapped == node.0 => *mapped = ABSENT,
                _ => report.note(format!(
                    "page {}, slot {slot}: row {row} is not mapped to this node",
                    page.0
                )),
            }
            neighbours.clear();
            records.neighbours_into(slot, &mut neighbours);
            report.degrees[neighbours.len()] += 1;
            let in_page = |&&n: &&u32| self.layout().page_of(NodeId(n)) == page;
            report.edges_in_page += neighbours.iter().filter(in_page).count() as u64;
            if let Some(bad) = neighbours.iter().find(|&&n| n >= self.node_slots()) {
                report.note(format!("page {}, slot {slot}: edge to node {bad}", page.0));
            }
            neighbours.sort_unstable();
            if neighbours.windows(2).any(|w| w[0] == w[1]) || neighbours.contains(&node.0) {
                report.note(format!("page {}, slot {slot}: an edge twice or to itself", page.0));
            }
        }
    }
}
