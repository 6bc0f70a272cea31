//! The whole graph of an index, in memory or in files, to be laid out anew.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Index;
use super::error::QueryError;
use crate::build::{
    BuildError, BuildOptions, Cancelled, StandingFiles, StandingGraph, check_repartition,
};
use crate::format::PageView;
use crate::format::constants::ABSENT;
use crate::io::{Completion, QueueOptions, Wait};
use crate::search::{PageSource as _, ReadFailure, SearchError};
use crate::types::{PageId, RowId};

/// Why a graph cannot be taken as it stands.
#[derive(Debug, thiserror::Error)]
pub enum StandingError {
    /// Rows that were deleted are still part of it.
    #[error(
        "{0} deleted rows are still part of the graph; consolidate the index first, or build anew"
    )]
    Deleted(usize),
    /// Some partitions are not here.
    #[error("the index was opened without some of its partitions")]
    Partly,
    /// A file is damaged or cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The files that it is put in cannot be written.
    #[error(transparent)]
    Files(#[from] BuildError),
    /// Stopped at the caller's wish.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Is told of a page: its bytes, or why they cannot be had.
pub(super) type TellPage<'a> =
    dyn FnMut(PageId, Result<&[u8], ReadFailure>) -> ControlFlow<()> + 'a;

/// Is told of a record: the position of its row, the vector, and edges to positions.
type TellRecord<'a> = dyn FnMut(u32, &[u8], &[u32]) -> Result<(), BuildError> + 'a;

/// How pages are read, and who is told of it.
struct RecordReading<'a> {
    with_edges: bool,
    /// Told of the pages done.
    progress: &'a mut dyn FnMut(u64),
    cancel: &'a AtomicBool,
}

impl<'a> RecordReading<'a> {
    /// With edges, until `cancel` is set.
    fn new(progress: &'a mut dyn FnMut(u64), cancel: &'a AtomicBool) -> Self {
        Self { with_edges: true, progress, cancel }
    }
}

/// Nobody stops it.
static GO_ON: AtomicBool = AtomicBool::new(false);

/// What pages hold, by the position of each row among all row ids in order.
struct Gathered {
    ids: Vec<RowId>,
    vectors: Vec<u8>,
    /// For each position its degree and edges to positions; empty where nobody asked for them.
    lists: Vec<u32>,
    /// For each node the position of its row.
    position_of: Vec<u32>,
}

impl Index {
    /// Reads all vectors and edges. `progress` is told the number of pages done.
    ///
    /// # Errors
    /// [`StandingError`].
    pub fn standing_graph(
        &self,
        progress: &mut dyn FnMut(u64),
    ) -> Result<StandingGraph, StandingError> {
        self.standing_graph_until(progress, &GO_ON)
    }

    /// As [`standing_graph`](Self::standing_graph), until `cancel` is set.
    ///
    /// # Errors
    /// [`StandingError`].
    pub fn standing_graph_until(
        &self,
        progress: &mut dyn FnMut(u64),
        cancel: &AtomicBool,
    ) -> Result<StandingGraph, StandingError> {
        self.check_all_here()?;
        let read = self.gathered(RecordReading::new(progress, cancel))?;
        let Gathered { ids, vectors, lists, position_of } = read;
        let start = self.start(&position_of);
        let (manifest, codebook) = (self.manifest.clone(), self.codebook.clone());
        Ok(StandingGraph { manifest, ids, vectors, lists, codebook, start })
    }

    /// As [`standing_graph`](Self::standing_graph), in files beside the directory `target`: in memory
    /// are some bytes for each row.
    ///
    /// # Errors
    /// [`StandingError`].
    pub fn standing_files(
        &self,
        target: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<StandingFiles, StandingError> {
        self.standing_files_until(target, progress, &GO_ON)
    }

    /// As [`standing_files`](Self::standing_files), until `cancel` is set.
    ///
    /// # Errors
    /// [`StandingError`].
    pub fn standing_files_until(
        &self,
        target: &Path,
        progress: &mut dyn FnMut(u64),
        cancel: &AtomicBool,
    ) -> Result<StandingFiles, StandingError> {
        self.check_all_here()?;
        self.check_whole()?;
        let (ids, position_of) = self.positions()?;
        let mut nodes = vec![0; ids.len()];
        let places = position_of.iter().enumerate().filter(|(_, at)| **at != ABSENT);
        places.for_each(|(node, &at)| nodes[at as usize] = node as u32);
        let (manifest, codebook) = (self.manifest.clone(), self.codebook.clone());
        let start = self.start(&position_of);
        let known = ids.clone();
        let mut files = StandingFiles::create(target, manifest, codebook, (ids, nodes), start)?;
        let map = (known.as_slice(), position_of.as_slice());
        self.each_record(map, RecordReading::new(progress, cancel), &mut |at, vector, edges| {
            files.put(at, vector, edges)
        })?;
        Ok(files)
    }

    /// Refuses what would be refused when the graph has been read: a target that stands there, options,
    /// a limit of memory that is too small where there is one, a disk without room.
    ///
    /// # Errors
    /// [`StandingError`].
    pub fn check_repartition(
        &self,
        limit: Option<u64>,
        target: &Path,
        options: &BuildOptions,
    ) -> Result<(), StandingError> {
        self.check_all_here()?;
        self.check_whole()?;
        Ok(check_repartition(&self.manifest, &self.codebook, limit, target, options)?)
    }

    fn check_all_here(&self) -> Result<(), StandingError> {
        if self.pages.owned.is_some() { Err(StandingError::Partly) } else { Ok(()) }
    }

    /// The position of the row where searches begin.
    fn start(&self, position_of: &[u32]) -> u32 {
        let entry = self.manifest.entries.first().map_or(0, |entry| entry.0 as usize);
        position_of.get(entry).copied().filter(|at| *at != ABSENT).unwrap_or(0)
    }

    /// Refuses an index that holds deleted rows.
    fn check_whole(&self) -> Result<(), StandingError> {
        self.check_process()?;
        let deleted = self.tombstones().len();
        if deleted > 0 { Err(StandingError::Deleted(deleted)) } else { Ok(()) }
    }

    /// Reads the rows of the partitions that are here: row ids, ascending, and their vectors.
    ///
    /// # Errors
    /// [`StandingError`].
    pub fn standing_rows(
        &self,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Vec<RowId>, Vec<u8>), StandingError> {
        let reading = RecordReading { with_edges: false, ..RecordReading::new(progress, &GO_ON) };
        let Gathered { ids, vectors, .. } = self.gathered(reading)?;
        Ok((ids, vectors))
    }

    fn gathered(&self, reading: RecordReading<'_>) -> Result<Gathered, StandingError> {
        let with_edges = reading.with_edges;
        self.check_whole()?;
        let (ids, position_of) = self.positions()?;
        let width = if with_edges { self.layout().max_degree() + 1 } else { 0 };
        let vector_bytes = self.layout().vector_bytes();
        let mut vectors = vec![0; ids.len() * vector_bytes];
        let mut lists = vec![0; ids.len() * width];
        self.each_record((&ids, &position_of), reading, &mut |at, vector, edges| {
            vectors[at as usize * vector_bytes..][..vector_bytes].copy_from_slice(vector);
            if with_edges {
                let list = &mut lists[at as usize * width..][..width];
                list[0] = edges.len() as u32;
                list[1..=edges.len()].copy_from_slice(edges);
            }
            Ok(())
        })?;
        Ok(Gathered { ids, vectors, lists, position_of })
    }

    /// Tells of every record once, in no order: its position, vector, and edges to positions where
    /// they are asked for. Ends with the first page that cannot be had, and with the first refusal.
    fn each_record(
        &self,
        map: (&[RowId], &[u32]),
        reading: RecordReading<'_>,
        tell: &mut TellRecord<'_>,
    ) -> Result<(), StandingError> {
        let RecordReading { with_edges, progress, cancel } = reading;
        let (mut found, mut ended, mut pages) = (0, None, 0);
        let mut edges = Vec::new();
        self.each_page(&mut |page, read| {
            let told = read.map_err(unreadable).and_then(|bytes| {
                if cancel.load(Ordering::Relaxed) {
                    return Err(Cancelled.into());
                }
                self.tell_page(page, bytes, map, with_edges.then_some(&mut edges), tell)
            });
            match told {
                Ok(records) => found += records,
                Err(error) => {
                    ended = Some(error);
                    return ControlFlow::Break(());
                }
            }
            pages += 1;
            progress(pages);
            ControlFlow::Continue(())
        })?;
        match ended {
            Some(error) => Err(error),
            None if found != map.0.len() => {
                Err(damaged(format!("the pages hold {found} records of {} rows", map.0.len())))
            }
            None => Ok(()),
        }
    }

    /// Tells of the records of a page.
    fn tell_page(
        &self,
        page: PageId,
        bytes: &[u8],
        (ids, position_of): (&[RowId], &[u32]),
        mut edges: Option<&mut Vec<u32>>,
        tell: &mut TellRecord<'_>,
    ) -> Result<usize, StandingError> {
        let records = PageView::new(self.layout(), bytes);
        let (mut slots, mut found) = (records.occupied(), 0);
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let (node, row) = (self.layout().node(page, slot).0, records.row_id(slot));
            let at = position_of[node as usize];
            if ids.get(at as usize) != Some(&row) {
                return Err(damaged(format!("row {} is not mapped to node {node}", row.0)));
            }
            found += 1;
            let mut list: &[u32] = &[];
            if let Some(edges) = edges.as_deref_mut() {
                edges.clear();
                records.neighbours_into(slot, edges);
                for to in edges.iter_mut() {
                    let at = position_of.get(*to as usize).filter(|at| **at != ABSENT);
                    let why = || damaged(format!("node {node}: an edge to node {to}"));
                    *to = *at.ok_or_else(why)?;
                }
                list = edges;
            }
            tell(at, records.vector(slot), list)?;
        }
        Ok(found)
    }

    /// All row ids in order, and for each node the position of its row.
    fn positions(&self) -> Result<(Vec<RowId>, Vec<u32>), QueryError> {
        let mut pairs = Vec::new();
        for partition in self.pages.partitions_here() {
            match self.whole_row_map(partition)? {
                Some(map) => pairs.extend(map),
                // Without a map rows are called as nodes are.
                None => pairs.extend((0..self.rows() as u32).map(|row| (row, row))),
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut position_of = vec![ABSENT; self.node_slots() as usize];
        for (at, (row, node)) in pairs.iter().enumerate() {
            let Some(place) = position_of.get_mut(*node as usize) else {
                let why = format!("row {row} is mapped to node {node}, which there is not");
                let why = ReadFailure::damaged(why);
                return Err(QueryError::Search(SearchError::Unreadable(why)));
            };
            *place = at as u32;
        }
        Ok((pairs.into_iter().map(|(row, _)| RowId(u64::from(row))).collect(), position_of))
    }

    /// Reads every page that is here, and tells of each once, in no order, until told to stop.
    pub(super) fn each_page(&self, tell: &mut TellPage<'_>) -> Result<(), QueryError> {
        let page_bytes = self.page_bytes();
        let mut queue = self.pages.backend.queue(&QueueOptions {
            depth: 32,
            buffers: 32,
            buffer_bytes: page_bytes,
            sqpoll: false,
            wait: Wait::Sleep,
        })?;
        let mut pages = self.pages.all_here();
        let mut completions: Vec<Completion> = Vec::with_capacity(32);
        loop {
            while let Some(buffer) = queue.take_buffer() {
                let Some(page) = pages.next() else {
                    queue.return_buffer(buffer);
                    break;
                };
                let (device, offset) = self.locate(PageId(page));
                queue.push_read(device, offset, page_bytes, buffer, u64::from(page))?;
            }
            if queue.in_flight() == 0 {
                return Ok(());
            }
            completions.clear();
            queue.wait(&mut completions)?;
            for c in &completions {
                let page = PageId(c.tag as u32);
                let bytes = queue.buffer(c.buffer);
                let read = match &c.result {
                    Ok(_) => self.check(page, bytes).map(|()| bytes),
                    Err(e) => Err(self.describe(page, e)),
                };
                let told = tell(page, read);
                queue.return_buffer(c.buffer);
                if told.is_break() {
                    return Ok(());
                }
            }
        }
    }
}

/// A page or a row map that is not as it should be.
fn damaged(why: String) -> StandingError {
    unreadable(ReadFailure::damaged(why))
}

fn unreadable(failure: ReadFailure) -> StandingError {
    QueryError::Search(SearchError::Unreadable(failure)).into()
}
