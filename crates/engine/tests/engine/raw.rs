//! Indexes whose pages are on raw devices: the same answers, one copy, errors that say where.

use std::path::Path;
use std::sync::Arc;

use pipeann_engine::index::{BatchOptions, Index, OpenOptions};
use pipeann_engine::io::raw::{Raw, Store, claim};
use pipeann_engine::io::{Backend, best};
use pipeann_engine::memory::{Accountant, Pool};
use pipeann_engine::search::{Policy, SearchParams};
use pipeann_engine::types::{ErrorClass, Metric, RowId, VectorType};
use pipeann_engine::update::{LiveIndex, LiveOptions};
use pipeann_raw::device::{RawDevice, Status};
use pipeann_raw::memory::Plain;
use pipeann_raw::sim::{Platter, Power, SimDevOptions};
use pipeann_raw::{Devices, DevicesOptions, OnLoss};

use crate::data::{Vectors, build_in, clustered, open_options, options};

/// Simulated devices that keep what was written to them.
struct Ssds(Vec<Platter>);

impl Ssds {
    fn new(count: u64, bytes: u64) -> Self {
        Self::formatted(count, bytes, (512, 16 << 10))
    }

    /// With blocks and turns of so many bytes.
    fn formatted(count: u64, bytes: u64, (lba_bytes, stripe_bytes): (u32, u64)) -> Self {
        let options =
            |seed| SimDevOptions { bytes, lba_bytes, seed, depth: 64, ..SimDevOptions::default() };
        let ssds = Self((0..count).map(|seed| Platter::new(options(seed))).collect());
        claim(&ssds.devices(), stripe_bytes, false).unwrap();
        ssds
    }

    fn devices(&self) -> Devices {
        self.devices_by(DevicesOptions::default())
    }

    fn devices_by(&self, options: DevicesOptions) -> Devices {
        let device = |(i, p): (usize, &Platter)| {
            Box::new(p.device(&format!("ssd{i}"), &Power::default())) as Box<dyn RawDevice>
        };
        let devices = self.0.iter().enumerate().map(device).collect();
        Devices::serve(devices, Arc::new(Plain), options).unwrap()
    }

    fn backend(&self) -> Arc<Raw> {
        self.backend_by(DevicesOptions::default())
    }

    fn backend_by(&self, options: DevicesOptions) -> Arc<Raw> {
        Arc::new(Raw::over(Store::open(self.devices_by(options)).unwrap(), best()).unwrap())
    }

    fn reads(&self) -> u64 {
        self.0.iter().map(Platter::reads).sum()
    }

    fn writes(&self) -> (u64, u64) {
        let all = self.0.iter().map(Platter::writes);
        all.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }
}

fn built(rows: usize) -> (tempfile::TempDir, Vectors) {
    let base = clustered(rows, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    build_in(&dir.path().join("i"), &base, &options(Metric::L2));
    (dir, base)
}

fn with(backend: Arc<Raw>) -> OpenOptions {
    OpenOptions { backend: Some(backend), ..open_options() }
}

fn answers(index: &Index, queries: &Vectors, policy: &str) -> Vec<Vec<(u64, u32)>> {
    let policy: Policy = policy.parse().unwrap();
    let params = SearchParams { list: 40, policy, ..Default::default() };
    let batch = BatchOptions { threads: 1, in_flight: 1, allow: None };
    let found = index.search_batch(queries.set(), &params, &batch).unwrap();
    let hit = |a: pipeann_engine::index::Answer| {
        a.hits.iter().map(|h| (h.row.0, h.distance.to_bits())).collect()
    };
    found.into_iter().map(hit).collect()
}

const POLICIES: [&str; 2] = ["beam", "page"];

/// Takes inserts; its pages are on the devices.
fn live(path: &Path, backend: &Arc<Raw>) -> LiveIndex {
    let open = with(Arc::clone(backend));
    let index = LiveIndex::open(path, LiveOptions { open, ..LiveOptions::default() }).unwrap();
    backend.wait_copied(&mut |_| ());
    index
}

/// Twenty more rows for an index of 3000.
fn insert_twenty(index: &LiveIndex) -> Vectors {
    let more = clustered(20, 16, VectorType::U8, 77);
    for i in 0..20 {
        index.insert(RowId(3000 + i as u64), more.set().row(i)).unwrap();
    }
    more
}

/// What a filter on attributes, which stay on the file system, leaves of the rows: every so many.
fn filtered(
    index: &Index,
    queries: &Vectors,
    (policy, every): (Policy, u64),
) -> Vec<Vec<(u64, u32)>> {
    let rows: Vec<RowId> = (0..index.rows()).filter(|row| row % every == 1).map(RowId).collect();
    let allow = Some(Arc::new(index.allow_rows(&rows).unwrap()));
    let params = SearchParams { list: 40, policy, ..Default::default() };
    let batch = BatchOptions { threads: 1, in_flight: 1, allow };
    let found = index.search_batch(queries.set(), &params, &batch).unwrap();
    let hits = |a: pipeann_engine::index::Answer| {
        assert!(a.hits.iter().all(|hit| hit.row.0 % every == 1), "a row that is not allowed");
        a.hits.iter().map(|hit| (hit.row.0, hit.distance.to_bits())).collect()
    };
    found.into_iter().map(hits).collect()
}

#[test]
fn answers_are_those_from_the_files() {
    let (dir, _) = built(3000);
    let path = dir.path().join("i");
    let queries = clustered(60, 16, VectorType::U8, 3);
    let files = Index::open(&path, &open_options()).unwrap();
    for count in [1, 2, 4] {
        let ssds = Ssds::new(count, 8 << 20);
        let index = Index::open(&path, &with(ssds.backend())).unwrap();
        let copied = index.backend().wait_copied(&mut |_| ());
        assert_eq!((copied.left_files, copied.done_bytes), (0, copied.all_bytes));
        assert_eq!(index.backend().name(), "spdk");
        let before = ssds.reads();
        for policy in POLICIES {
            assert_eq!(answers(&index, &queries, policy), answers(&files, &queries, policy));
        }
        assert!(ssds.reads() > before + 60, "pages come from the devices");
    }
}

#[test]
fn filtered_answers_are_those_from_the_files_at_any_fixed_width() {
    let (dir, _) = built(3000);
    let path = dir.path().join("i");
    let queries = clustered(30, 16, VectorType::U8, 3);
    let files = Index::open(&path, &open_options()).unwrap();
    for count in [1, 3] {
        let ssds = Ssds::new(count, 8 << 20);
        let index = Index::open(&path, &with(ssds.backend())).unwrap();
        index.backend().wait_copied(&mut |_| ());
        for width in [1, 4, 16] {
            for policy in [Policy::beam(width), Policy::page(width)] {
                // From nearly all rows to fewer than are asked for.
                for every in [2, 50, 500] {
                    let before = ssds.reads();
                    let found = filtered(&index, &queries, (policy.clone(), every));
                    assert!(ssds.reads() > before, "pages come from the devices");
                    assert_eq!(found, filtered(&files, &queries, (policy.clone(), every)));
                    assert!(found.iter().all(|hits| !hits.is_empty()));
                }
            }
        }
    }
}

#[test]
fn searches_go_on_while_the_copy_is_made_and_a_second_opening_writes_nothing() {
    let (dir, _) = built(3000);
    let path = dir.path().join("i");
    let queries = clustered(30, 16, VectorType::U8, 3);
    let files = Index::open(&path, &open_options()).unwrap();
    let expected = answers(&files, &queries, POLICIES[0]);
    let ssds = Ssds::new(2, 8 << 20);
    {
        let index = Index::open(&path, &with(ssds.backend())).unwrap();
        // From the files at first, and from the devices at some moment.
        for _ in 0..20 {
            assert_eq!(answers(&index, &queries, POLICIES[0]), expected);
        }
        index.backend().wait_copied(&mut |_| ());
    }
    let before = ssds.writes();
    let index = Index::open(&path, &with(ssds.backend())).unwrap();
    assert_eq!(index.backend().wait_copied(&mut |_| ()).all_bytes, 0);
    assert_eq!(answers(&index, &queries, POLICIES[0]), expected);
    assert_eq!(ssds.writes(), before);
}

#[test]
fn a_checkpoint_is_copied_behind_it_and_the_files_stay_whole() {
    let (dir, base) = built(3000);
    let path = dir.path().join("i");
    let ssds = Ssds::new(2, 8 << 20);
    let backend = ssds.backend();
    let index = live(&path, &backend);
    let before = ssds.writes().1;
    insert_twenty(&index);
    let report = index.checkpoint(1).unwrap();
    let copied = backend.wait_copied(&mut |_| ());
    assert_eq!(copied.left_files, 0);
    let pages = report.changed_pages + report.copied_pages;
    let (written, fresh) = (ssds.writes().1 - before, pages * 4096);
    // Small segments are short beside the two directories that name them.
    assert!(written <= fresh + 4 * 4096, "{written} bytes for {fresh}");
    let names: Vec<String> = backend.status().entries.into_iter().map(|e| e.name).collect();
    assert!(names.iter().any(|name| name == "segment-000002.pages"), "{names:?}");
    drop(index);
    // A process without the devices reads the same.
    let queries = clustered(30, 16, VectorType::U8, 3);
    let files = Index::open(&path, &open_options()).unwrap();
    let raw = Index::open(&path, &with(backend)).unwrap();
    assert_eq!(files.rows(), base.set().rows() as u64 + 20);
    for policy in POLICIES {
        assert_eq!(answers(&raw, &queries, policy), answers(&files, &queries, policy));
    }
}

#[test]
fn an_index_that_does_not_fit_stays_on_its_files() {
    let (dir, _) = built(9000);
    let path = dir.path().join("i");
    let ssds = Ssds::new(1, 2 << 20);
    let index = Index::open(&path, &with(ssds.backend())).unwrap();
    assert!(index.backend().wait_copied(&mut |_| ()).left_files > 0);
    let queries = clustered(30, 16, VectorType::U8, 3);
    let files = Index::open(&path, &open_options()).unwrap();
    let found = answers(&index, &queries, POLICIES[0]);
    assert_eq!(found, answers(&files, &queries, POLICIES[0]));
}

#[test]
fn memory_for_copying_counts_in_the_limit() {
    let (dir, _) = built(3000);
    let path = dir.path().join("i");
    let floor = Index::open(&path, &open_options()).unwrap().floor().total();
    let ssds = Ssds::new(2, 8 << 20);
    let accountant = Accountant::new(Some(floor + (1 << 20)));
    let open = OpenOptions { accountant: Arc::clone(&accountant), ..with(ssds.backend()) };
    let index = Index::open(&path, &open).unwrap();
    assert!(index.backend().wait_copied(&mut |_| ()).left_files > 0, "the limit is kept");
    let queries = clustered(5, 16, VectorType::U8, 3);
    answers(&index, &queries, POLICIES[0]);
    drop(index);
    let accountant = Accountant::new(Some(floor + (6 << 20)));
    let open = OpenOptions { accountant: Arc::clone(&accountant), ..open };
    let index = Index::open(&path, &OpenOptions { backend: Some(ssds.backend()), ..open }).unwrap();
    let mut held = 0;
    index.backend().wait_copied(&mut |_| held = held.max(accountant.pool_bytes(Pool::Dma)));
    assert_eq!(index.backend().wait_copied(&mut |_| ()).left_files, 0);
    assert_eq!(held, pipeann_raw::COPY_MEMORY_BYTES);
    assert_eq!(accountant.pool_bytes(Pool::Dma), 0, "it is given back");
}

#[test]
fn a_device_error_ends_its_search_and_says_where() {
    let (dir, _) = built(3000);
    let path = dir.path().join("i");
    let ssds = Ssds::new(2, 8 << 20);
    let index = Index::open(&path, &with(ssds.backend())).unwrap();
    index.backend().wait_copied(&mut |_| ());
    for block in 0..1024 {
        let at = (1 << 20) + block * 4096;
        ssds.0[1].break_block(at, Status::Nvme { kind: 2, code: 0x81 });
    }
    let queries = clustered(30, 16, VectorType::U8, 3);
    let batch = BatchOptions { threads: 1, in_flight: 1, allow: None };
    let error = index.search_batch(queries.set(), &SearchParams::default(), &batch).unwrap_err();
    let why = error.to_string();
    assert!(why.contains("ssd1") && why.contains("LBA") && why.contains("0x2/0x81"), "{why}");
    assert!(why.contains("segment-000000.pages"), "{why}");
    assert_eq!(error.class(), ErrorClass::Stop);
}

/// Whatever way a device is lost, before searches or while they are under way.
#[test]
fn reads_of_a_lost_device_are_done_from_the_files() {
    let (dir, _) = built(3000);
    let path = dir.path().join("i");
    let queries = clustered(60, 16, VectorType::U8, 3);
    let files = Index::open(&path, &open_options()).unwrap();
    let expected: Vec<_> = POLICIES.map(|policy| answers(&files, &queries, policy)).into();
    let abort = |ssd: &Platter| {
        // The controller is reset: whatever it has is aborted.
        for block in 0..(7 << 20) / 512 {
            ssd.break_block((1 << 20) + block * 512, Status::Nvme { kind: 0, code: 0x08 });
        }
    };
    let ways: [&(dyn Fn(&Platter) + Sync); 2] = [&Platter::pull_out, &abort];
    for lose in ways {
        let ssds = Ssds::new(3, 8 << 20);
        let index = Index::open(&path, &with(ssds.backend())).unwrap();
        index.backend().wait_copied(&mut |_| ());
        std::thread::scope(|scope| {
            let searches = || {
                for _ in 0..6 {
                    for (policy, expected) in POLICIES.iter().zip(&expected) {
                        assert_eq!(&answers(&index, &queries, policy), expected);
                    }
                }
            };
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(searches)).collect();
            let before = ssds.reads();
            while ssds.reads() < before + 200 {
                std::thread::yield_now();
            }
            lose(&ssds.0[1]);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let counts = index.backend().device_counts();
        assert!(counts[1].from_files > 0, "{counts:?}");
        assert_eq!((counts[0].from_files, counts[2].from_files), (0, 0), "{counts:?}");
        // The others are read from still, and the lost one is not asked any more.
        assert_eq!(answers(&index, &queries, POLICIES[0]), expected[0]);
        let after = index.backend().device_counts();
        assert!(after[0].reads > counts[0].reads && after[2].reads > counts[2].reads);
        assert_eq!((after[1].reads, after[1].errors), (counts[1].reads, counts[1].errors));
    }
}

#[test]
fn a_live_index_takes_rows_after_a_device_was_lost() {
    let (dir, _) = built(3000);
    let path = dir.path().join("i");
    let ssds = Ssds::new(2, 8 << 20);
    let backend = ssds.backend();
    let index = live(&path, &backend);
    ssds.0[0].pull_out();
    let more = insert_twenty(&index);
    index.checkpoint(1).unwrap();
    assert!(backend.wait_copied(&mut |_| ()).left_files > 0, "the new pages are not copied");
    let params = SearchParams { k: 1, list: 40, ..SearchParams::default() };
    for i in 0..20 {
        let answer = index.search(more.set().row(i), &params, None).unwrap();
        assert_eq!(answer.hits[0].distance.to_bits(), 0.0_f32.to_bits(), "row {i}");
    }
    drop(index);
    let files = Index::open(&path, &open_options()).unwrap();
    assert_eq!(files.rows(), 3020);
}

#[test]
fn a_lost_device_ends_searches_where_that_is_asked_for() {
    let (dir, _) = built(3000);
    let path = dir.path().join("i");
    let ssds = Ssds::new(2, 8 << 20);
    let serve = DevicesOptions { on_loss: OnLoss::Fail, ..DevicesOptions::default() };
    let index = Index::open(&path, &with(ssds.backend_by(serve))).unwrap();
    index.backend().wait_copied(&mut |_| ());
    ssds.0[1].pull_out();
    let queries = clustered(30, 16, VectorType::U8, 3);
    let batch = BatchOptions { threads: 1, in_flight: 1, allow: None };
    let error = index.search_batch(queries.set(), &SearchParams::default(), &batch).unwrap_err();
    let why = error.to_string();
    assert!(why.contains("ssd1") && why.contains("gone") && why.contains(".pages"), "{why}");
    assert_eq!(index.backend().device_counts()[1].from_files, 0);
}

#[test]
fn bytes_that_changed_on_a_device_are_never_answered() {
    let (dir, _) = built(3000);
    let path = dir.path().join("i");
    let ssds = Ssds::new(1, 8 << 20);
    let index = Index::open(&path, &with(ssds.backend())).unwrap();
    index.backend().wait_copied(&mut |_| ());
    ssds.0[0].scribble(1 << 20, &vec![7; 4 << 20]);
    let queries = clustered(5, 16, VectorType::U8, 3);
    let batch = BatchOptions { threads: 1, in_flight: 1, allow: None };
    let error = index.search_batch(queries.set(), &SearchParams::default(), &batch).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Stop, "{error}");
}

#[test]
fn indexes_in_partitions_are_copied_partition_by_partition() {
    let base = clustered(3000, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let mut build = options(Metric::L2);
    build.partitions = 3;
    build_in(&dir.path().join("i"), &base, &build);
    let (ssds, path) = (Ssds::new(2, 8 << 20), dir.path().join("i"));
    let backend = ssds.backend();
    let index = Index::open(&path, &with(Arc::clone(&backend))).unwrap();
    index.backend().wait_copied(&mut |_| ());
    let mut partitions: Vec<u32> =
        backend.status().entries.into_iter().map(|e| e.partition).collect();
    partitions.sort_unstable();
    assert_eq!(partitions, [0, 1, 2]);
    let queries = clustered(30, 16, VectorType::U8, 3);
    let files = Index::open(&path, &open_options()).unwrap();
    for policy in POLICIES {
        assert_eq!(answers(&index, &queries, policy), answers(&files, &queries, policy));
    }
}

#[test]
fn pages_longer_than_a_turn_are_read_from_several_devices() {
    let base = clustered(3000, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let mut build = options(Metric::L2);
    build.page_bytes = Some(16384);
    let path = dir.path().join("i");
    build_in(&path, &base, &build);
    let queries = clustered(30, 16, VectorType::U8, 3);
    let files = Index::open(&path, &open_options()).unwrap();
    for lba_bytes in [512, 4096] {
        let ssds = Ssds::formatted(3, 8 << 20, (lba_bytes, 4096));
        let index = Index::open(&path, &with(ssds.backend())).unwrap();
        assert_eq!(index.backend().wait_copied(&mut |_| ()).left_files, 0);
        let before: Vec<u64> = ssds.0.iter().map(Platter::reads).collect();
        for policy in POLICIES {
            assert_eq!(answers(&index, &queries, policy), answers(&files, &queries, policy));
        }
        let read = ssds.0.iter().zip(before).map(|(ssd, before)| ssd.reads() - before);
        // Each page is four commands, so that every device has a part in each.
        assert!(read.clone().all(|reads| reads >= 30), "{:?}", read.collect::<Vec<_>>());
    }
}
