//! Verification: reads every page and every block of an index and names all damage.

mod known_rows;

use std::ops::ControlFlow;

use super::Index;
use super::error::QueryError;
use crate::format::PageView;
use crate::search::{CodeAccess, Overlay};
use crate::types::{NodeId, PageId};
use known_rows::{KnownRows, MapRows};

/// So many places that are damaged are told of one by one; one cause may show in all rows.
const MOST_TOLD: usize = 1000;

/// Codes asked for at a time.
const CODES_ASKED: u32 = 1 << 16;

/// One thing that is wrong, with file and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage(pub String);

/// What verification found, and what the pages hold.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// What is wrong, as far as the first thousand places; empty for a sound index.
    pub damage: Vec<Damage>,
    /// Further places that are damaged.
    pub more: u64,
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
        if self.damage.len() < MOST_TOLD {
            self.damage.push(Damage(what.into()));
        } else {
            self.more += 1;
        }
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
        let mut known = self.known_rows(&mut report);
        // What the stream could not bring is asked for once more, and the reason told.
        self.codes.wait_streamed();
        let slots = self.node_slots();
        for first in (0..slots).step_by(CODES_ASKED as usize) {
            let chunk: Vec<u32> = (first..slots.min(first.saturating_add(CODES_ASKED))).collect();
            if let Err(e) = self.codes.ensure(&chunk) {
                report.note(e.to_string());
                break;
            }
        }
        self.each_page(&mut |page, read| {
            match read {
                Ok(bytes) => self.verify_page(page, bytes, &mut known, &mut report),
                Err(error) => report.note(error.why),
            }
            report.pages += 1;
            progress(report.pages);
            ControlFlow::Continue(())
        })?;
        let whole = self.pages.owned.is_none();
        if whole && report.damage.is_empty() && report.records != self.rows() {
            let (expected, found) = (self.rows(), report.records);
            report.note(format!("the pages hold {found} records, the manifest says {expected}"));
        }
        for (row, node) in known.left().take(10) {
            report.note(format!(
                "row {row}: the row map names node {node}, which has no such record"
            ));
        }
        Ok(report)
    }

    /// The node of each row by the row maps; each damaged block of a map is noted once.
    fn known_rows(&self, report: &mut VerifyReport) -> KnownRows {
        let mut known = KnownRows::default();
        let limit = self.manifest.next_row_id;
        for partition in self.pages.partitions_here() {
            let mut map = MapRows::new(&mut known, limit);
            let told = self.each_row_block(partition, &mut |block| {
                match block {
                    Ok(rows) => map.block(&rows),
                    Err(e) => {
                        report.note(e.to_string());
                        map.damaged_block();
                    }
                }
                ControlFlow::Continue(())
            });
            if let Err(e) = told {
                report.note(e.to_string());
                map.damaged_block();
            }
            if let Some(row) = map.finish() {
                let dir = partition.first_page;
                report.note(format!(
                    "the row map of the partition at page {dir} names row {row}, rows are below \
                     {limit}"
                ));
            }
        }
        known
    }

    fn verify_page(
        &self,
        page: PageId,
        bytes: &[u8],
        known: &mut KnownRows,
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
            if !deleted && !known.takes(row, node.0) {
                let page = page.0;
                report.note(format!(
                    "page {page}, slot {slot}: row {row} is not mapped to this node"
                ));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_damage_without_end_the_first_is_told_and_the_rest_counted() {
        let mut report = VerifyReport::default();
        (0..MOST_TOLD + 500).for_each(|i| report.note(format!("row {i}")));
        assert_eq!((report.damage.len(), report.more), (MOST_TOLD, 500));
        assert_eq!(report.damage[0], Damage("row 0".into()));
    }
}
