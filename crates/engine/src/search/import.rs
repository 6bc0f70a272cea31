//! Going on with a search that came as bytes.
//!
//! A decoder for hostile bytes: it never panics and allocates no more than the bytes it was
//! given warrant. Room for lists that the parameters promise is made when it is needed, which
//! beside a search of this process is at its beginning.
//!
//! First the portable half is read, then the derived one is made of it. What that needs of pages is read
//! once more, which `resume` asks for.

use std::sync::Arc;

use super::candidates::{Candidate, CandidateProgress};
use super::deferred::NO_STASH;
use super::hits::Hit;
use super::owned::Owned;
use super::portable::PORTABLE_HEADER_BYTES;
use super::portable_error::{PORTABLE_VERSION, PortableError};
use super::portable_header::PortableHeader;
use super::portable_state::{InFlight, PortableState};
use super::state::SearchState;
use super::state_reader::StateReader;
use super::stats::SearchStats;
use super::view::GraphView;
use crate::filter::AllowSet;
use crate::types::{NodeId, PageId, RowId, unfit};

/// Where in the header the length of the filter stands.
const FILTER_LEN_AT: usize = PORTABLE_HEADER_BYTES - 7 * 4;

impl SearchState {
    /// The filter of an exported search; empty where it has none.
    ///
    /// # Errors
    /// [`PortableError`] where the bytes are no state of this version.
    pub fn filter_of(bytes: &[u8]) -> Result<&[u8], PortableError> {
        let version = StateReader(bytes).u16()?;
        if version != PORTABLE_VERSION {
            return Err(PortableError::Version { found: version });
        }
        let at = bytes.get(FILTER_LEN_AT..).ok_or(PortableError::Malformed("truncated"))?;
        let len = StateReader(at).usize()?;
        let body = bytes.get(PORTABLE_HEADER_BYTES..).and_then(|body| body.get(..len));
        body.ok_or(PortableError::Malformed("truncated"))
    }

    /// Takes over an exported search, with the allow-set of [its filter](Self::filter_of): reads under
    /// way are issued again, and pages behind nodes at hand are read once more; then it goes on and
    /// gives the identical answer.
    ///
    /// # Errors
    /// [`PortableError`] where the bytes are no state for this index.
    pub fn import(
        &mut self,
        view: &GraphView<'_>,
        bytes: &[u8],
        allow: Option<Arc<AllowSet>>,
    ) -> Result<(), PortableError> {
        let mut r = StateReader(bytes);
        let header = PortableHeader::read(&mut r, view.origin)?;
        header.check(view, allow.is_some(), r.0.len())?;
        let without = Owned::decode(&r.0[r.0.len() - header.range_bytes()..])
            .filter(|it| it.ranges().last().is_none_or(|last| last.end <= view.layout.max_pages()))
            .ok_or(PortableError::Malformed("no ranges of pages"))?;
        let (filter, rest) = r.0.split_at(header.filter_bytes);
        let (query, rest) = rest.split_at(header.query_bytes);
        r.0 = rest;
        if unfit(query, view.layout.vector_type()).is_some() {
            return Err(PortableError::Malformed("the query is no vector of numbers"));
        }
        self.portable.params.clone_from(&header.params);
        self.portable.params.without = without;
        self.portable.among = header.among;
        self.reset_lean(view, header.candidates);
        self.derived.allow = allow;
        self.set_filter(filter);
        self.portable.query.clear();
        self.portable.query.extend_from_slice(query);
        self.portable.take_header(&header, view.layout.page_bytes());
        self.portable.read_lists(&header, &mut r, view, self.derived.allow.as_deref())?;
        self.derive(view)
    }

    /// Makes the derived half of the portable one, but for what stands in pages.
    fn derive(&mut self, view: &GraphView<'_>) -> Result<(), PortableError> {
        for entry in self.portable.list.entries() {
            self.derived.visited.insert(entry.node.0);
            if entry.progress == CandidateProgress::AtHand {
                self.derived.rebuild_pages.push(view.layout.page_of(entry.node));
            }
        }
        for &node in &self.portable.read_for {
            self.derived.visited.insert(node.0);
            if self.portable.params.policy.packed {
                let first = view.layout.node(view.layout.page_of(node), 0).0;
                for slot in 0..view.layout.records_per_page() as u32 {
                    self.derived.visited.insert(first + slot);
                }
            }
        }
        self.look_again();
        let again = self.portable.in_flight.iter().map(|read| read.page);
        let mut again = again.chain(self.derived.rebuild_pages.iter().copied());
        if view.owned.is_some_and(|owned| again.any(|page| !owned.holds(page))) {
            return Err(PortableError::Malformed("pages to be read again are not here"));
        }
        self.derived.rebuild_pages.sort_unstable();
        self.derived.rebuild_pages.dedup();
        self.derived.reissue = self.portable.in_flight.len();
        self.derived.table.fill(view.codebook, &self.portable.query, view.layout.vector_type());
        Ok(())
    }
}

impl PortableState {
    fn take_header(&mut self, header: &PortableHeader, page_bytes: usize) {
        self.list.set_capacity(header.capacity);
        self.hits.set_capacity(header.hit_capacity);
        self.width = header.width;
        let bytes_read = header.spent.reads * page_bytes as u64;
        let width_max = header.width.into();
        self.stats = SearchStats { bytes_read, width_max, ..header.spent };
        (self.finished, self.finished_in_list) = (header.finished, header.finished_in_list);
        self.converging = header.converging;
        self.filling = header.filling;
        self.explored_last = header.explored_last;
        self.coding_error = header.coding_error;
        self.ranged = header.ranged;
    }

    /// Reads what stands behind the query. Candidates that were not known to be forbidden are looked up
    /// in the allow-set.
    fn read_lists(
        &mut self,
        header: &PortableHeader,
        r: &mut StateReader<'_>,
        view: &GraphView<'_>,
        allow: Option<&AllowSet>,
    ) -> Result<(), PortableError> {
        for _ in 0..header.candidates {
            let (distance, node, code) = (r.f32()?, r.u32()?, r.u8()?);
            let progress = CandidateProgress::from_code(code & 0x7F)
                .ok_or(PortableError::Malformed("unknown progress"))?;
            let node = NodeId(node);
            in_range(view, node)?;
            let allowed = code & 0x80 != 0 && allow.is_none_or(|allow| allow.may_allow(node));
            self.list.insert(Candidate { distance, node, stash: NO_STASH, progress, allowed });
        }
        self.list.set_bound(header.bound);
        for _ in 0..header.hits {
            let (distance, row, node) = (r.f32()?, RowId(r.u64()?), NodeId(r.u32()?));
            let returned = r.u8()? != 0;
            self.hits.insert(Hit { distance, row, node, returned });
        }
        for _ in 0..header.in_flight {
            let (page, node) = (PageId(r.u32()?), NodeId(r.u32()?));
            in_range(view, node)?;
            if view.layout.page_of(node) != page {
                return Err(PortableError::Malformed("a read's node lies in another page"));
            }
            self.in_flight.push(InFlight { page, node });
        }
        for _ in 0..header.reads_done {
            let node = NodeId(r.u32()?);
            in_range(view, node)?;
            self.read_for.push(node);
        }
        Ok(())
    }
}

fn in_range(view: &GraphView<'_>, node: NodeId) -> Result<(), PortableError> {
    if node.0 < view.node_slots {
        Ok(())
    } else {
        Err(PortableError::Malformed("a node id is beyond the index"))
    }
}
