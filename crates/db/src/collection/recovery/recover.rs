//! Making a collection, and opening one after whatever ended the last opening.
//!
//! The log is opened first; it then is on stable storage as a whole. Each component tells up to
//! which record it includes the log, and the records behind the least of them are applied again.
//! A component that was lost begins at 0 and is made anew, if the log still begins with record 1;
//! the live rows and the scalar indexes are made from the row store in any case. A log that can
//! only be read, since the disk is full, makes a collection that can only be read; and so does a
//! batch of a load that is not there, where a full disk has no room for the note.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, RwLock, Weak};

use super::replay::replay;
use crate::catalog::{Catalog, CollectionEntry as Entry, UnixMs};
use crate::collection::ages::Ages;
use crate::collection::components::Components;
use crate::collection::field_vectors::FieldVectors;
use crate::collection::filter::filter_cache::FilterCache;
use crate::collection::filter::filter_result_cache::FilterResultCache;
use crate::collection::filter::scalars::open_scalars;
use crate::collection::formats::Formats;
use crate::collection::identity::{
    AGES_FILE, CollectionIdentity, LIVE_FILE, LOG_DIR, ROWS_DIR, SCALARS_DIR, collection_dir,
    vectors_dir,
};
use crate::collection::live::LiveRows;
use crate::collection::maintenance::early::EarlyGraphs;
use crate::collection::maintenance::flush_behind::FlushBehind;
use crate::collection::write::commit_sequencer::CommitSequencer;
use crate::collection::write::delete::ROWS_OF_RECORD;
use crate::collection::write::loads::Loads;
use crate::collection::write::state::WriterState;
use crate::collection::write_buffers::WriteBuffers;
use crate::collection::{Collection, CollectionError, CollectionOptions, live_file};
use crate::disk::{Disk, HeldDir, read_file};
use crate::docstore::{LsmRows, MemoryRows, RowCache, RowStore, RowStoreOptions};
use crate::flat::{FlatOptions, FlatVectors};
use crate::ids::{RowId, Seq};
use crate::replication::Leadership;
use crate::scalar::ScalarOptions;
use crate::wal::{Log, Recovery};

/// More than the live rows of any collection take.
const MAX_LIVE_BYTES: u64 = 8 << 30;
/// Rows read at once while live rows are made from the row store.
const ROWS_AT_ONCE: usize = 4096;

/// Where the parts of a database are kept.
#[derive(Clone)]
pub(crate) struct Home {
    /// Log, catalogue and live rows.
    pub(crate) disk: Arc<dyn Disk>,
    /// Rows, vectors and indexes: the real directory that `disk` shows, or for a simulation an
    /// empty one.
    pub(crate) files: PathBuf,
    /// What is kept of rows that are read from disk. Without, rows are in memory only, for a
    /// simulation, and come from the log.
    pub(crate) row_cache: Option<Arc<RowCache>>,
    /// Of a reader: the directory that `files` is. Collections take no writes then.
    pub(crate) pin: Option<Arc<HeldDir>>,
    /// Where several servers have it: collections are opened as that says.
    pub(crate) shared: Option<Arc<Leadership>>,
    /// The time.
    pub(crate) now: Arc<dyn Fn() -> UnixMs + Send + Sync>,
}

/// Makes the directory and the log of a new collection, durably. Whoever opens it makes the rest.
pub(crate) fn create(
    home: &Home,
    identity: CollectionIdentity,
    options: &CollectionOptions,
) -> Result<(), CollectionError> {
    let dir = collection_dir(identity.id);
    home.disk.create_dir(&dir)?;
    home.disk.sync_dir(crate::collection::identity::COLLECTIONS_DIR)?;
    let disk = Arc::clone(&home.disk);
    let log = format!("{dir}/{LOG_DIR}");
    Log::create(disk, &log, identity.log(), Seq(1), options.log)?.close()?;
    Ok(())
}

/// Opens a collection of the catalogue and brings it to the end of its log.
pub(crate) fn open(
    home: &Home,
    catalog: Arc<Catalog>,
    entry: &Entry,
    options: CollectionOptions,
) -> Result<Arc<Collection>, CollectionError> {
    let identity = CollectionIdentity { id: entry.id, created: entry.created };
    let dir = collection_dir(entry.id);
    let files = home.files.join(&dir);
    let (recovered, graphs) = std::thread::scope(|scope| {
        let open_graphs = || EarlyGraphs::open(&files, entry, &options);
        // Under a limit graphs take for pages what others leave, so that these come first.
        let at_once = options.accountant.limit_bytes().is_none();
        let mut graphs = at_once.then(|| scope.spawn(open_graphs));
        let recovered = recover(home, identity, entry, &options, || {
            graphs.get_or_insert_with(|| scope.spawn(open_graphs));
        });
        let graphs = graphs.map(|graphs| graphs.join().expect("opening graphs does not panic"));
        (recovered, graphs.unwrap_or_default())
    });
    let Recovered { log, recovery, formats, components, replayed } = recovered?;
    let applied = recovery.last;
    let turns =
        CommitSequencer::new(applied, home.shared.as_ref().map(|of| Arc::clone(of.stops())));
    let live = components.live();
    let next_row = live.next_row.max(components.rows.next_row()).0;
    let (loads, full) = Loads::open(&*home.disk, &dir, identity.bytes(), next_row)?;
    if let Some(full) = recovery.read_only.as_ref().or(full.as_ref()) {
        turns.stop(&full.to_string());
    }
    let ages_file = format!("{dir}/{AGES_FILE}");
    let ages = Ages::open(&*home.disk, ages_file, identity.bytes(), RowId(next_row));
    let answers = FilterResultCache::new(&options.accountant);
    let collection = Arc::new_cyclic(|me| Collection {
        identity,
        disk: Arc::clone(&home.disk),
        files,
        dir,
        catalog,
        options,
        components,
        turns,
        order: Mutex::new(WriterState { next_row, free_until: 0, submitted: applied }),
        log,
        formats: Mutex::new(Arc::new(formats)),
        filters: FilterCache::default(),
        answers,
        flushing: Mutex::new(()),
        flush_behind: FlushBehind::default(),
        ages,
        hidden: Mutex::default(),
        held: Mutex::default(),
        pressed: AtomicBool::new(false),
        // What was replayed is in the log until the next flush.
        logged_bytes: AtomicU64::new(replayed),
        loads: Mutex::new(loads),
        now: Arc::clone(&home.now),
        linking: Mutex::default(),
        opening: Mutex::new(()),
        adopted: AtomicU64::new(0),
        signal: Arc::default(),
        me: Weak::clone(me),
        pin: home.pin.clone(),
    });
    collection.remove_stray_graphs(entry);
    collection.load_graphs_with(graphs)?;
    collection.meet_rows(entry);
    if collection.components.rows.is_behind() {
        collection.wake_background();
    }
    Ok(collection)
}

/// What was brought to the end of the log.
struct Recovered {
    log: Log,
    recovery: Recovery,
    formats: Formats,
    components: Components,
    /// Bytes of the records that were replayed.
    replayed: u64,
}

/// Opens log and components, and replays the one into the others. `opened` is told when the
/// components have their memory.
fn recover(
    home: &Home,
    identity: CollectionIdentity,
    entry: &Entry,
    options: &CollectionOptions,
    opened: impl FnOnce(),
) -> Result<Recovered, CollectionError> {
    let log_dir = format!("{}/{LOG_DIR}", collection_dir(identity.id));
    let disk = Arc::clone(&home.disk);
    let (log, recovery) = Log::open(disk, &log_dir, identity.log(), options.log)?;
    let log = match &home.shared {
        Some(leadership) => {
            let log = log.shared_by(Arc::clone(leadership), identity.id.0);
            if leadership.leads() {
                log.begin_to_lead();
            }
            log
        }
        None => log,
    };
    let formats = Formats::new(Arc::clone(&entry.schema));
    let components = open_components(home, identity, &formats, &recovery, options)?;
    opened();
    let replayed = replay(&log, &recovery, &components, &formats)?;
    Ok(Recovered { log, recovery, formats, components, replayed })
}

fn open_components(
    home: &Home,
    identity: CollectionIdentity,
    formats: &Formats,
    recovery: &Recovery,
    options: &CollectionOptions,
) -> Result<Components, CollectionError> {
    let dir = collection_dir(identity.id);
    let files = home.files.join(&dir);
    let rows: Arc<dyn RowStore> = match &home.row_cache {
        None => Arc::new(MemoryRows::new()),
        Some(cache) => Arc::new(LsmRows::open(
            &files.join(ROWS_DIR),
            &RowStoreOptions {
                collection: identity.bytes(),
                cache: Arc::clone(cache),
                buffer_bytes: options.row_buffer_bytes,
                // The database's keeps others out.
                lock: false,
            },
        )?),
    };
    let mut fields = Vec::new();
    for (position, field) in formats.schema.fields().iter().enumerate() {
        let kind = field.spec.data_type.vector_kind();
        let Some(vector_type) = kind.and_then(|kind| kind.engine_type()) else { continue };
        let dim = field.spec.dim.expect("a dense vector has a dimension") as usize;
        let flat = FlatOptions {
            field: identity.field(field.id),
            dim,
            vector_type,
            tail_bytes: options.tail_bytes,
            lock: false,
            accountant: Arc::clone(&options.accountant),
        };
        let vectors = FlatVectors::open(&files.join(vectors_dir(field.id)), &flat);
        let vectors = vectors.map_err(CollectionError::vectors(&field.spec.name))?;
        fields.push(FieldVectors::new(field, position, (dim, vector_type), vectors));
    }
    // A place that is not used has 344 bytes, and there may be many collections.
    fields.shrink_to_fit();
    let live = open_live(home, identity, &*rows)?;
    let scalars = ScalarOptions {
        collection: identity.bytes(),
        buffer_bytes: options.scalar_buffer_bytes,
        accountant: Arc::clone(&options.accountant),
    };
    let scalars = open_scalars(&files.join(SCALARS_DIR), scalars, formats, &*rows, recovery)?;
    let buffers = WriteBuffers::new(options, fields.len());
    let components =
        Components { rows, fields, scalars, buffers, view: RwLock::new(Arc::new(live)) };
    if !components.is_flushed(recovery.last) {
        components.buffers.hold()?;
    }
    Ok(components)
}

/// The live rows as they were saved, or as the row store has them.
fn open_live(
    home: &Home,
    identity: CollectionIdentity,
    rows: &dyn RowStore,
) -> Result<LiveRows, CollectionError> {
    let path = format!("{}/{LIVE_FILE}", collection_dir(identity.id));
    match read_file(&*home.disk, &path, MAX_LIVE_BYTES) {
        Ok(bytes) => match live_file::decode(identity.bytes(), &bytes) {
            Ok(live) => return Ok(live),
            Err(why) => {
                let file = home.disk.locate(&path);
                tracing::warn!(file = %file.display(), "made anew from the row store: {why}");
            }
        },
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let snapshot = rows.snapshot();
    let mut live = LiveRows::default();
    let mut start = std::ops::Bound::Unbounded;
    loop {
        let mut last = None;
        let mut count = 0;
        snapshot.scan_rows(start, ROWS_AT_ONCE, &mut |row| {
            live.insert_stored(&row);
            last = Some(row.row);
            count += 1;
        })?;
        match last {
            Some(last) if count == ROWS_AT_ONCE => start = std::ops::Bound::Excluded(last),
            _ => break,
        }
    }
    live.next_row = live.next_row.max(rows.next_row());
    live.applied = snapshot.applied();
    Ok(live)
}

impl Collection {
    /// Deletes the rows of partitions that the catalogue does not have: what a crash in the middle
    /// of dropping one left.
    pub(crate) fn delete_rows_of_dropped_partitions(&self) -> Result<(), CollectionError> {
        let entry = self.entry()?;
        let live = self.components.live();
        for (number, rows) in live.partitions() {
            if entry.partitions.iter().any(|partition| partition.id.0 == u64::from(number)) {
                continue;
            }
            let mut rows = rows.iter().map(RowId).peekable();
            while rows.peek().is_some() {
                let some = rows.by_ref().take(ROWS_OF_RECORD).collect();
                self.delete_rows(self.order_when_applied()?, some)?;
            }
        }
        Ok(())
    }
}
