//! The generation that follows an open one: it shares codes and resident pages with it, so that
//! neither is in memory twice while searches of the one before end.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use super::Index;
use super::cache::PageCache;
use super::error::OpenError;
use super::open::{Floor, Opener, check_lengths, floor, pages_of, read_manifest};
use super::open_options::{OpenOptions, Resident};
use super::pages::PageFiles;
use super::part::OpenedPart;
use super::warming::{Warmed, Warming};
use crate::format::Manifest;
use crate::memory::{OverLimit, Pool, Reservation};
use crate::types::PageId;

/// Memory for the next generation, taken before it is written.
pub(crate) struct SuccessorMemory {
    /// Head index, page map, scratch.
    parts: Vec<Reservation>,
    codes: Reservation,
    /// Resident pages beyond those of now; `None` where the limit leaves no room for them.
    pages: Option<Reservation>,
}

/// How large the next generation is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuccessorSize {
    pub(crate) pages: u32,
    pub(crate) head_nodes: u32,
}

impl Index {
    /// Takes the memory that the next generation needs beside what it shares with this one.
    ///
    /// # Errors
    /// [`OverLimit`]; nothing is taken then.
    pub(crate) fn reserve_successor(
        &self,
        size: SuccessorSize,
        resident: Resident,
    ) -> Result<SuccessorMemory, OverLimit> {
        let floor = self.floor_of(size);
        let accountant = &self.accountant;
        let more = floor.codes.saturating_sub(self.codes.held_bytes());
        let codes = accountant.reserve(Pool::Codes, more)?;
        let mut parts = vec![
            accountant.reserve(Pool::HeadIndex, floor.head_index)?,
            accountant.reserve(Pool::PageMap, floor.page_map)?,
            accountant.reserve(Pool::QueryScratch, floor.query_scratch)?,
        ];
        let mut pages = None;
        if let Some(cache) = self.pages.cache.get() {
            let table = PageCache::table_bytes(size.pages, 0);
            parts.push(accountant.reserve(Pool::PageCache, table)?);
            let more = size.pages.saturating_sub(cache.granted());
            if resident == Resident::All && more > 0 {
                let bytes = u64::from(more) * self.layout().page_bytes() as u64;
                // Pages that find no room stay on disk.
                pages = accountant.reserve(Pool::PageCache, bytes).ok();
            }
        }
        Ok(SuccessorMemory { parts, codes, pages })
    }

    /// Bytes that a successor of this size takes beside what it shares, resident pages aside.
    pub(crate) fn successor_bytes(&self, size: SuccessorSize) -> u64 {
        let floor = self.floor_of(size);
        let table = self.pages.cache.get().map_or(0, |_| PageCache::table_bytes(size.pages, 0));
        let codes = floor.codes.saturating_sub(self.codes.held_bytes());
        floor.total() - floor.codes + codes + table
    }

    /// Bytes that an index of this size takes which shares nothing with this one.
    pub(crate) fn bytes_to_open(&self, size: SuccessorSize, resident: Resident) -> u64 {
        let page_bytes = self.layout().page_bytes();
        let pages = match resident {
            Resident::All => PageCache::bytes_for(page_bytes, size.pages, size.pages),
            Resident::None | Resident::Remaining => 0,
        };
        self.floor_of(size).total() + pages
    }

    /// Whether the table of codes has room for so many nodes.
    pub(crate) fn has_codes_for(&self, slots: u64) -> bool {
        slots <= self.codes.room() as u64
    }

    fn floor_of(&self, size: SuccessorSize) -> Floor {
        let mut manifest = self.manifest.clone();
        manifest.partitions[0].pages = size.pages;
        manifest.head.nodes = size.head_nodes;
        floor(&manifest)
    }

    /// Opens the generation now on disk as the successor of this one, whose codes it shares.
    /// `None` where the table of codes has no room for `spare_slots` nodes behind its own; it is
    /// opened anew then. `changed` tells the pages that are not as they were.
    ///
    /// # Errors
    /// As [`Index::open`].
    pub(crate) fn next_generation(
        &self,
        options: &OpenOptions,
        memory: SuccessorMemory,
        changed: &dyn Fn(PageId) -> bool,
    ) -> Result<Option<Self>, OpenError> {
        let path: &Path = &self.path;
        let manifest = read_manifest(path)?;
        let needed = manifest.slots() + u64::from(options.spare_slots);
        if !self.shares_with(&manifest) || !self.has_codes_for(needed) {
            return Ok(None);
        }
        check_lengths(path, &manifest.files())?;
        let backend = Arc::clone(&self.pages.backend);
        let opener =
            Opener { path, manifest: &manifest, backend: backend.as_ref(), direct: options.direct };
        let head = opener.head()?.map(Arc::new);
        let partitions = opener.partitions(&OpenedPart::all(), &self.accountant)?;
        let tombstones = opener.tombstones(&OpenedPart::all())?;
        // What is absent here is the successor's to read.
        self.warming.end();
        let count = pages_of(&manifest);
        let cache = self.pages.cache.get();
        let cache = cache.map(|cache| cache.successor(count, changed, memory.pages));
        self.codes.hold(memory.codes);
        let pages = Arc::new(PageFiles {
            identity: manifest.identity(),
            layout: manifest.layout,
            count,
            owned: None,
            home: None,
            partitions,
            cache: cache.map(OnceLock::from).unwrap_or_default(),
            backend,
        });
        let warmed = Warmed {
            pages: Arc::clone(&pages),
            codes: Arc::clone(&self.codes),
            head: head.clone(),
            load: self.load.clone(),
            dial: self.dial.clone(),
        };
        Ok(Some(Self {
            share: self.share.as_ref().map(|share| share.follow(&pages)),
            path: self.path.clone(),
            codebook: self.codebook.clone(),
            codes: Arc::clone(&self.codes),
            head,
            pages,
            dial: self.dial.clone(),
            tombstones,
            sqpoll: options.sqpoll,
            drivers: Mutex::default(),
            costs: Arc::clone(&self.costs),
            load: self.load.clone(),
            accountant: Arc::clone(&self.accountant),
            opened_by: self.opened_by,
            warming: Warming::new(warmed),
            _stream: None,
            _held: memory.parts,
            manifest,
        }))
    }

    /// Whether codes of this generation are those of another one.
    fn shares_with(&self, next: &Manifest) -> bool {
        self.manifest.uuid == next.uuid
            && self.manifest.codebook_file.path == next.codebook_file.path
            && self.manifest.code_bytes == next.code_bytes
    }

    /// Reads the pages that are not in memory, as far as there is room for them.
    ///
    /// # Errors
    /// Unreadable or damaged pages.
    pub(crate) fn load_absent_pages(&self) -> Result<(), OpenError> {
        if let Some(cache) = self.pages.cache.get() {
            cache.settle();
        }
        let absent = |page: &u32| self.pages.cache.get().is_some_and(|c| !c.holds(PageId(*page)));
        self.pages.load((0..self.pages()).filter(absent))
    }

    /// Reads absent pages into memory behind searches, where there is room for them.
    pub(crate) fn warm(&self) {
        self.warming.wake();
    }
}
