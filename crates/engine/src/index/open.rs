//! Opening an index: the manifest, the lengths of all files, and the resident parts.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use super::Index;
use super::ahead::ask_ahead;
use super::cache::PageCache;
use super::code_stream::CodeStream;
use super::codes::{CodesFile, StreamedCodes};
use super::dial::MemoryDial;
use super::error::OpenError;
use super::open_options::{OpenOptions, Resident};
use super::pages::{PageFiles, Partition, RowMapFile};
use super::part::OpenedPart;
use super::share::Membership;
use super::tombstones::Tombstones;
use super::warming::{Warmed, Warming};
use crate::format::constants::{BLOCK_BYTES, MANIFEST_NAME};
use crate::format::{
    BlockChecksums, FileHeader, FileKind, FormatError, HeadParts, Identity, Manifest, NamedFile,
    PartitionEntry, decode_page_map, decode_tombstones, open_body,
};
use crate::graph::HeadIndex;
use crate::io::{self, Backend, Device, Extent, File as IoFile, OpenMode, Sealed, SealedFile};
use crate::memory::{Accountant, OverLimit, Pool};
use crate::quant::Codebook;
use crate::search::{ConcurrentLoad, Owned, ReadCosts};

/// Memory that an index needs at least, by pool, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Codes and codebook.
    pub codes: u64,
    /// Head index.
    pub head_index: u64,
    /// Page map.
    pub page_map: u64,
    /// Scratch of one driver.
    pub query_scratch: u64,
}

impl Floor {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.codes + self.head_index + self.page_map + self.query_scratch
    }
}

/// Scratch of one driver with eight queries in flight.
const SCRATCH_BYTES: u64 = 4 << 20;

impl Index {
    /// Opens the index in `path` for searching.
    ///
    /// # Errors
    /// [`OpenError`]: no index, a missing, truncated or damaged file (named), a newer version,
    /// or a memory limit below the floor (with the number needed).
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        check_built(path)?;
        let manifest = read_manifest(path)?;
        let part = OpenedPart::of(&manifest, options.own.as_deref())?;
        check_lengths(path, &part.files(&manifest))?;
        let owned = part.pages(&manifest);
        let home = OpenedPart::of(&manifest, options.home.as_deref())?.pages(&manifest);
        let floor = floor(&manifest);
        let accountant = Arc::clone(&options.accountant);
        let scratch = reserve_floor(&accountant, &floor)?;
        let [codes_held, head_held, map_held, scratch_held] = scratch;
        let backend = options.backend.clone().unwrap_or_else(io::best);
        let opener =
            Opener { path, manifest: &manifest, backend: backend.as_ref(), direct: options.direct };
        ask_ahead(path, &manifest, &part);
        // The codes are most of what is read, so their stream starts before the rest is opened,
        // and gives way to it.
        let code_files = manifest.partitions.iter().map(|p| opener.codes(p));
        let codes = Arc::new(StreamedCodes::new(
            Arc::clone(&backend),
            code_files.collect::<Result<_, _>>()?,
            manifest.code_bytes as usize,
            options.spare_slots as usize,
            codes_held,
        ));
        let rest_comes = codes.demand();
        let stream = CodeStream::start(Arc::clone(&codes));
        let codebook = opener.codebook()?;
        let head = opener.head()?.map(Arc::new);
        let partitions = opener.partitions(&part, &accountant)?;
        let tombstones = opener.tombstones(&part)?;
        drop(rest_comes);
        let here = owned.as_ref().map_or(manifest.pages(), Owned::pages);
        let here = u32::try_from(here).expect("checked when the manifest was decoded");
        let cache = make_cache(&manifest, here, options)?;
        let (dial, load) = (MemoryDial::new(options), ConcurrentLoad::default());
        let pages = Arc::new(PageFiles {
            identity: manifest.identity(),
            layout: manifest.layout,
            count: pages_of(&manifest),
            owned,
            home,
            partitions,
            cache: cache.map(OnceLock::from).unwrap_or_default(),
            backend,
        });
        let warmed = Warmed {
            pages: Arc::clone(&pages),
            codes: Arc::clone(&codes),
            head: head.clone(),
            load: load.clone(),
            dial: dial.clone(),
        };
        let share = (options.resident == Resident::Remaining)
            .then(|| Membership::new(&accountant, &dial, &pages));
        let index = Self {
            share,
            path: path.to_path_buf(),
            codebook,
            codes,
            head,
            pages,
            dial,
            tombstones,
            sqpoll: options.sqpoll,
            drivers: Mutex::default(),
            costs: Arc::new(ReadCosts::new(options.codes_per_read)),
            load,
            accountant,
            opened_by: std::process::id(),
            warming: Warming::new(warmed),
            _stream: Some(stream),
            _held: vec![head_held, map_held, scratch_held],
            manifest,
        };
        index.fill(options.resident, here)?;
        Ok(index)
    }

    /// Reads the pages that are to be in memory, of so many that there are here, or begins to.
    fn fill(&self, resident: Resident, here: u32) -> Result<(), OpenError> {
        if resident == Resident::All {
            self.pages.load(self.pages.all_here())?;
        }
        if self.share.is_some() && self.page_stats().room < here {
            // Others may hold what these pages have as good a right to.
            self.accountant.balance();
        }
        self.warming.wake();
        Ok(())
    }

    /// The least memory under which this index opens, by pool.
    pub fn floor(&self) -> Floor {
        floor(&self.manifest)
    }
}

fn reserve_floor(
    accountant: &Arc<Accountant>,
    floor: &Floor,
) -> Result<[crate::memory::Reservation; 4], OverLimit> {
    // Refuse with the whole floor, not with the first part of it that does not fit. Pages of other
    // indexes give way to it.
    if let Some(limit_bytes) = accountant.limit_bytes()
        && accountant.available_bytes() < floor.total()
    {
        return Err(OverLimit {
            pool: Pool::Codes,
            asked_bytes: floor.total(),
            held_bytes: accountant.held_bytes(),
            limit_bytes,
        });
    }
    Ok([
        accountant.reserve(Pool::Codes, floor.codes)?,
        accountant.reserve(Pool::HeadIndex, floor.head_index)?,
        accountant.reserve(Pool::PageMap, floor.page_map)?,
        accountant.reserve(Pool::QueryScratch, floor.query_scratch)?,
    ])
}

pub(super) fn floor(manifest: &Manifest) -> Floor {
    let body = manifest.slots() * u64::from(manifest.code_bytes);
    let head = u64::from(manifest.head.nodes);
    Floor {
        codes: StreamedCodes::bytes_for(body) + manifest.codebook_file.bytes,
        head_index: head * (u64::from(manifest.head.degree) + 2) * 4,
        page_map: manifest.pages() * 4,
        query_scratch: SCRATCH_BYTES,
    }
}

/// Logical pages of an index.
pub(super) fn pages_of(manifest: &Manifest) -> u32 {
    u32::try_from(manifest.pages()).expect("checked when the manifest was decoded")
}

fn make_cache(
    manifest: &Manifest,
    here: u32,
    options: &OpenOptions,
) -> Result<Option<PageCache>, OpenError> {
    let accountant = &options.accountant;
    let page_bytes = manifest.layout.page_bytes();
    let total = pages_of(manifest);
    let spare = options.spare_slots / manifest.layout.records_per_page() as u32;
    let free = accountant.free_bytes().saturating_sub(options.leave_bytes);
    let (pages, spare) = match options.resident {
        Resident::None => (0, 0),
        Resident::All => (here, spare),
        Resident::Remaining if accountant.limit_bytes().is_none() => (0, 0),
        Resident::Remaining => (PageCache::pages_in(free, page_bytes, (total, here)), 0),
    };
    let some = pages > 0;
    let cache = || PageCache::new(accountant, page_bytes, total, (pages, spare));
    match some.then(cache).transpose() {
        // Somebody else was faster; memory is divided anew when the index is open.
        Err(_) if options.resident == Resident::Remaining => Ok(None),
        made => Ok(made?),
    }
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> OpenError + '_ {
    |source| OpenError::File { path: path.to_path_buf(), source }
}

fn format_error(path: &Path) -> impl FnOnce(FormatError) -> OpenError + '_ {
    |source| OpenError::Format { path: path.to_path_buf(), source }
}

/// Whether an index was built in `path`, as far as the file system tells.
pub(crate) fn check_built(path: &Path) -> Result<(), OpenError> {
    let file = path.join(MANIFEST_NAME);
    match file.try_exists() {
        Ok(true) => Ok(()),
        Err(source) if source.kind() != std::io::ErrorKind::NotADirectory => {
            Err(OpenError::File { path: file, source })
        }
        _ => Err(OpenError::NoIndex(path.to_path_buf())),
    }
}

/// Reads and checks the manifest of an index directory.
pub(crate) fn read_manifest(path: &Path) -> Result<Manifest, OpenError> {
    let file = path.join(MANIFEST_NAME);
    let bytes = std::fs::read(&file).map_err(file_error(&file))?;
    Manifest::decode(&bytes).map_err(format_error(&file))
}

pub(super) fn check_lengths(path: &Path, files: &[NamedFile]) -> Result<(), OpenError> {
    for named in files {
        let file = path.join(&named.path);
        let found = std::fs::metadata(&file).map_err(file_error(&file))?.len();
        named.check_length(found).map_err(format_error(&file))?;
    }
    Ok(())
}

/// Opens the files of one index.
pub(super) struct Opener<'a> {
    pub(super) path: &'a Path,
    pub(super) manifest: &'a Manifest,
    pub(super) backend: &'a dyn Backend,
    pub(super) direct: bool,
}

impl Opener<'_> {
    fn body(&self, path: &Path, kind: FileKind) -> Result<Vec<u8>, OpenError> {
        let bytes = std::fs::read(path).map_err(file_error(path))?;
        let identity = self.manifest.identity();
        let (_, body) = open_body(&bytes, kind, &identity).map_err(format_error(path))?;
        Ok(body.to_vec())
    }

    fn codebook(&self) -> Result<Codebook, OpenError> {
        let path = self.path.join(self.manifest.codebook_file.path.as_str());
        let body = self.body(&path, FileKind::Codebook)?;
        Codebook::from_bytes(&body).map_err(|e| OpenError::Format {
            path,
            source: FormatError::value(FileKind::Codebook, "body", "a codebook", e),
        })
    }

    pub(super) fn head(&self) -> Result<Option<HeadIndex>, OpenError> {
        if self.manifest.head.nodes == 0 {
            return Ok(None);
        }
        let path = self.path.join(self.manifest.head_file.path.as_str());
        let body = self.body(&path, FileKind::Head)?;
        let parts = HeadParts::decode(&body, self.manifest.slots()).map_err(format_error(&path))?;
        let degree = parts.max_degree as usize;
        HeadIndex::from_parts(parts.nodes, degree, parts.degrees, parts.adjacency, parts.entry)
            .map(Some)
            .map_err(|e| OpenError::Format {
                path,
                source: FormatError::value(FileKind::Head, "body", "a head index", e),
            })
    }

    pub(super) fn tombstones(&self, part: &OpenedPart) -> Result<Option<Tombstones>, OpenError> {
        let mut nodes = Vec::new();
        for (number, entry) in self.manifest.partitions.iter().enumerate() {
            let Some(file) = entry.tombstones.as_ref().filter(|_| part.has(number)) else {
                continue;
            };
            let path = self.path.join(entry.dir.as_str()).join(file.path.as_str());
            let body = self.body(&path, FileKind::Tombstones)?;
            let found = decode_tombstones(&body, self.manifest.slots());
            nodes.extend(found.map_err(format_error(&path))?);
        }
        Ok(Tombstones::new(nodes))
    }

    /// Opens the partitions that are here, and stands for the others.
    pub(super) fn partitions(
        &self,
        part: &OpenedPart,
        accountant: &Arc<Accountant>,
    ) -> Result<Vec<Partition>, OpenError> {
        let here = |number: &usize| part.has(*number);
        let entries = &self.manifest.partitions;
        let mut sealed = Vec::new();
        for number in (0..entries.len()).filter(here) {
            let dir = self.path.join(entries[number].dir.as_str());
            sealed.extend(entries[number].segments.iter().map(|segment| SealedFile {
                partition: number as u32,
                name: segment.file.path.as_str().to_owned(),
                path: dir.join(segment.file.path.as_str()),
                bytes: segment.file.bytes,
            }));
        }
        let (index, generation) = (self.manifest.uuid, self.manifest.generation);
        let mode = OpenMode { direct: self.direct, ..OpenMode::read() };
        let files = &sealed;
        let sealed = Sealed { index, generation, files, accountant };
        let mut files = self.backend.open_sealed(&sealed, mode)?.into_iter();
        let open = |(number, entry): (usize, &PartitionEntry)| {
            if !part.has(number) {
                return Ok(Partition::elsewhere(entry));
            }
            self.partition(entry, files.by_ref().take(entry.segments.len()).collect())
        };
        entries.iter().enumerate().map(open).collect()
    }

    fn partition(
        &self,
        entry: &PartitionEntry,
        opened: Vec<IoFile>,
    ) -> Result<Partition, OpenError> {
        let dir = self.path.join(entry.dir.as_str());
        let map_path = dir.join(entry.page_map.path.as_str());
        let body = self.body(&map_path, FileKind::PageMap)?;
        let physical = u32::try_from(entry.physical_pages()).expect("checked by the manifest");
        let page_map =
            decode_page_map(&body, entry.pages, physical).map_err(format_error(&map_path))?;
        let files: Vec<PathBuf> =
            entry.segments.iter().map(|s| dir.join(s.file.path.as_str())).collect();
        let lengths = entry.segments.iter().map(|segment| segment.file.bytes);
        let extent = |(file, bytes)| Extent { file, offset: 0, bytes };
        let device = Device::new(opened.into_iter().zip(lengths).map(extent).collect());
        let firsts = entry.segments.iter().map(|s| s.first_physical_page);
        let segments = firsts.zip(files).collect();
        let row_map = entry.row_map.as_ref().map(|map| {
            let path = dir.join(map.path.as_str());
            let file = File::open(&path).map_err(file_error(&path))?;
            Ok::<_, OpenError>(RowMapFile { path, file })
        });
        let (first_page, row_map) = (entry.first_page, row_map.transpose()?);
        Ok(Partition { first_page, page_map, device, row_map, segments })
    }

    pub(super) fn codes(&self, entry: &PartitionEntry) -> Result<CodesFile, OpenError> {
        let path = self.path.join(entry.dir.as_str()).join(entry.codes.path.as_str());
        let file = File::open(&path).map_err(file_error(&path))?;
        let (header, checksums) =
            blocked(&path, &file, FileKind::Codes, &self.manifest.identity())?;
        let mode = OpenMode { direct: self.direct, ..OpenMode::read() };
        let opened = self.backend.open_file(&path, mode)?;
        let extent = Extent { file: opened, offset: 0, bytes: entry.codes.bytes };
        let device = Device::new(vec![extent]);
        let body_bytes = usize::try_from(header.body_bytes).expect("fits the address space");
        Ok(CodesFile { path, device, checksums, body_bytes })
    }
}

/// Header and checksums of a file with block checksums.
pub(super) fn blocked(
    path: &Path,
    file: &File,
    kind: FileKind,
    identity: &Identity,
) -> Result<(FileHeader, BlockChecksums), OpenError> {
    use std::os::unix::fs::FileExt;
    let mut start = [0; FileHeader::BYTES];
    file.read_exact_at(&mut start, 0).map_err(file_error(path))?;
    let header = FileHeader::decode(&start, kind, identity).map_err(format_error(path))?;
    let at = kind.checksums_offset(header.body_bytes).ok_or_else(|| OpenError::Format {
        path: path.to_path_buf(),
        source: FormatError::value(kind, "body bytes", "a possible length", header.body_bytes),
    })?;
    let blocks = header.body_bytes.div_ceil(BLOCK_BYTES as u64);
    let on_disk = file.metadata().map_err(file_error(path))?.len();
    let array_bytes = blocks.saturating_mul(8).min(on_disk);
    let mut array = vec![0; usize::try_from(array_bytes).expect("bounded by the file")];
    file.read_exact_at(&mut array, at).map_err(file_error(path))?;
    let checksums = BlockChecksums::decode(&header, &array).map_err(format_error(path))?;
    Ok((header, checksums))
}
