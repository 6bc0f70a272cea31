//! What a pool takes in, and when.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::io::{
    self, Backend, BufferId, Completion, Device, File, IoError, OpenMode, Queue, QueueOptions,
    Transfer, Waker,
};
use pipeann_engine::pool::{Discipline, End, Pool, PoolCounts, PoolOptions, Sink, Task};
use pipeann_engine::search::{Policy, SearchParams};
use pipeann_engine::types::{Metric, VectorType};

use crate::data::{Vectors, build_in, clustered, open_options, options};

/// Whether reads end, and whether a wait for them has to.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    shut: bool,
    woken: bool,
    /// Somebody waits for it.
    awaited: bool,
}

impl Gate {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// Waits until it is open; false where it was woken before.
    fn pass(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        state.awaited = true;
        let mut state = self.changed.wait_while(state, |of| of.shut && !of.woken).unwrap();
        state.awaited = false;
        !std::mem::take(&mut state.woken) || !state.shut
    }

    fn is_shut(&self) -> bool {
        self.state.lock().unwrap().shut
    }

    fn is_awaited(&self) -> bool {
        self.state.lock().unwrap().awaited
    }
}

/// The best backend, whose reads end only while the gate is open.
struct Gated(Arc<dyn Backend>, Arc<Gate>);

impl Backend for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }
    fn block_bytes(&self) -> usize {
        self.0.block_bytes()
    }
    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<File, IoError> {
        self.0.open_file(path, mode)
    }
    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError> {
        Ok(Box::new(GatedQueue(self.0.queue(options)?, Arc::clone(&self.1))))
    }
}

struct GatedQueue(Box<dyn Queue>, Arc<Gate>);

impl Queue for GatedQueue {
    fn push_transfer(
        &mut self,
        transfer: Transfer,
        device: &Device,
        offset: u64,
        bytes: usize,
        buffer: BufferId,
        tag: u64,
    ) -> Result<(), IoError> {
        self.0.push_transfer(transfer, device, offset, bytes, buffer, tag)
    }
    fn push_sync(&mut self, device: &Device, tag: u64) -> Result<(), IoError> {
        self.0.push_sync(device, tag)
    }
    fn extend(&mut self, device: &Device, bytes: u64) -> Result<Device, IoError> {
        self.0.extend(device, bytes)
    }
    fn flush(&mut self) -> Result<(), IoError> {
        self.0.flush()
    }
    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        if self.1.is_shut() { Ok(()) } else { self.0.poll(out) }
    }
    fn wait(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.flush()?;
        if self.in_flight() > 0 && self.1.pass() { self.0.wait(out) } else { Ok(()) }
    }
    fn waker(&mut self) -> Result<Waker, IoError> {
        let gate = Arc::clone(&self.1);
        Ok(Waker::new(move || gate.set(|state| state.woken = true)))
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
    fn take_buffer(&mut self) -> Option<BufferId> {
        self.0.take_buffer()
    }
    fn return_buffer(&mut self, buffer: BufferId) {
        self.0.return_buffer(buffer);
    }
    fn buffer(&self, buffer: BufferId) -> &[u8] {
        self.0.buffer(buffer)
    }
    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.0.buffer_mut(buffer)
    }
}

struct Ends(Mutex<Sender<(u64, bool)>>);

impl Sink for Ends {
    fn ended(&self, ticket: u64, end: End) {
        let found = matches!(end, End::Found(..));
        self.0.lock().unwrap().send((ticket, found)).unwrap_or(());
    }
}

/// A pool of one thread whose reads end only while its gate is open, which it is not.
struct Rig {
    pool: Pool,
    gate: Arc<Gate>,
    ended: Receiver<(u64, bool)>,
    base: Vectors,
    _dir: tempfile::TempDir,
}

impl Rig {
    fn new(in_flight: usize, discipline: Discipline) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = clustered(2000, 24, VectorType::U8, 1);
        let path = dir.path().join("i");
        build_in(&path, &base, &options(Metric::L2));
        let gate = Arc::<Gate>::default();
        let backend: Arc<dyn Backend> = Arc::new(Gated(io::best(), Arc::clone(&gate)));
        let open = OpenOptions { backend: Some(backend), ..open_options() };
        let index = Arc::new(Index::open(&path, &open).unwrap());
        index.wait_resident().unwrap();
        let (ends, ended) = channel();
        let sizes = PoolOptions { threads: 1, in_flight, waiting: 64, discipline };
        let pool = Pool::start(index, &sizes, Arc::new(Ends(Mutex::new(ends)))).unwrap();
        gate.set(|state| state.shut = true);
        Self { pool, gate, ended, base, _dir: dir }
    }

    fn ask(&self, ticket: u64) {
        let params = SearchParams { policy: Policy::relay(2, 8), ..SearchParams::default() };
        let query = self.base.set().row(ticket as usize).to_vec();
        self.pool.submit(ticket, Task::Query(query, params.into()), None).unwrap();
    }

    /// Waits until it has begun so many, and waits for their pages.
    fn until_begun(&self, begun: u64) {
        let from = Instant::now();
        while self.pool.counts().begun < begun || !self.gate.is_awaited() {
            assert!(from.elapsed() < Duration::from_secs(60), "{:?}", self.pool.counts());
            std::thread::yield_now();
        }
    }

    /// Lets reads end, and collects so many ends.
    fn ends(&self, expected: usize) {
        self.gate.set(|state| state.shut = false);
        for _ in 0..expected {
            let (_, found) = self.ended.recv_timeout(Duration::from_secs(60)).unwrap();
            assert!(found);
        }
    }
}

#[test]
fn a_search_that_comes_is_begun_while_another_waits_for_its_page() {
    let rig = Rig::new(4, Discipline::Always);
    for ticket in 0..4 {
        rig.ask(ticket);
        rig.until_begun(ticket + 1);
    }
    // It is full, and takes in what waits when one has ended.
    rig.ask(4);
    rig.ask(5);
    let PoolCounts { begun, ended, .. } = rig.pool.counts();
    assert_eq!((begun, ended), (4, 0), "no page has come");
    rig.ends(6);
    assert_eq!(rig.pool.counts().begun, 6);
}

#[test]
fn a_batch_is_what_waits_when_the_last_one_has_ended() {
    let rig = Rig::new(4, Discipline::Batches);
    rig.ask(0);
    rig.until_begun(1);
    for ticket in 1..6 {
        rig.ask(ticket);
    }
    assert_eq!((rig.pool.counts().begun, rig.pool.waiting()), (1, 5));
    rig.ends(6);
}

#[test]
fn one_at_a_time_is_one_whatever_may_be_in_flight() {
    let rig = Rig::new(4, Discipline::One);
    (0..3).for_each(|ticket| rig.ask(ticket));
    rig.until_begun(1);
    assert_eq!((rig.pool.counts().begun, rig.pool.waiting()), (1, 2));
    rig.ends(3);
}
