//! What every backend promises, checked the same way for each. A new backend joins `every`.

#![expect(unsafe_code, reason = "one test forks")]

use std::collections::HashSet;
use std::path::PathBuf;

use super::injected::{Injected, Speed};
use super::memory::Memory;
use super::raw::tests::Scratch;
use super::sim::{Sim, SimOptions};
use super::threads::Threads;
use super::*;
use crate::types::ErrorClass;

#[cfg(target_os = "linux")]
#[path = "conformance_disks.rs"]
mod disks;
#[path = "conformance_waking.rs"]
mod waking;

const BLOCK: usize = 4096;
const BLOCKS: usize = 64;

/// A backend with a place for its files.
struct Rig {
    backend: Box<dyn Backend>,
    dir: tempfile::TempDir,
}

impl Rig {
    fn new(backend: impl Backend + 'static) -> Self {
        // Beside the build, because the system's temporary directory may lack direct I/O.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        Self { backend: Box::new(backend), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of `bytes` whose content tells the position, opened for writing.
    fn file(&self, name: &str, bytes: usize) -> File {
        std::fs::write(self.path(name), content(0, bytes)).expect("the file is written");
        self.backend.open_file(&self.path(name), OpenMode::read_write()).expect("direct I/O")
    }

    fn queue(&self, depth: usize) -> Box<dyn Queue> {
        let options = QueueOptions {
            depth,
            buffers: depth,
            buffer_bytes: 4 * BLOCK,
            ..QueueOptions::default()
        };
        self.backend.queue(&options).expect("a queue")
    }
}

fn byte_at(position: usize) -> u8 {
    ((position * 31) ^ (position >> 8) ^ (position >> 16)) as u8
}

fn content(offset: usize, bytes: usize) -> Vec<u8> {
    (offset..offset + bytes).map(byte_at).collect()
}

/// Reads a range and returns how that ended, with the bytes.
fn read(
    queue: &mut dyn Queue,
    device: &Device,
    offset: u64,
    bytes: usize,
) -> Result<Vec<u8>, IoError> {
    let buffer = queue.take_buffer().expect("a buffer");
    let pushed = queue.push_read(device, offset, bytes, buffer, 1);
    let result = pushed.and_then(|()| one(queue).result);
    let read = result.map(|n| queue.buffer(buffer)[..n].to_vec());
    queue.return_buffer(buffer);
    read
}

/// Waits for the only operation in flight.
fn one(queue: &mut dyn Queue) -> Completion {
    let mut out = Vec::new();
    queue.wait(&mut out).expect("wait");
    assert_eq!((out.len(), queue.in_flight()), (1, 0));
    out.remove(0)
}

/// Runs one check over every backend.
fn every(check: fn(&Rig)) {
    check(&Rig::new(Memory::new()));
    check(&Rig::new(Sim::new(SimOptions { seed: 11, ..SimOptions::default() })));
    check(&Rig::new(Threads::new()));
    check(&Rig::new(Injected::new(Speed { latency_us: 20, per_second: Some(200_000) })));
    for devices in [1, 2, 4] {
        check(&Rig::new(Scratch::files(devices)));
    }
    for lba_bytes in [512, 4096] {
        check(&Rig::new(Scratch::simulated(lba_bytes)));
    }
    #[cfg(target_os = "linux")]
    match uring::Uring::new() {
        Ok(backend) => check(&Rig::new(backend)),
        Err(error) => eprintln!("io_uring is not checked here: {error}"),
    }
    #[cfg(target_os = "linux")]
    match libaio::Libaio::new() {
        Ok(backend) => check(&Rig::new(backend)),
        Err(error) => eprintln!("libaio is not checked here: {error}"),
    }
}

#[test]
fn reads_at_every_aligned_offset_and_length() {
    every(|rig| {
        let device = Device::whole(&rig.file("f", BLOCKS * BLOCK)).expect("a length");
        let mut queue = rig.queue(4);
        let buffer = queue.take_buffer().expect("a buffer");
        let mut out = Vec::new();
        for block in 0..BLOCKS {
            for blocks in 1..=4.min(BLOCKS - block) {
                let (offset, bytes) = (block * BLOCK, blocks * BLOCK);
                queue.push_read(&device, offset as u64, bytes, buffer, 7).expect("push");
                out.clear();
                queue.wait(&mut out).expect("wait");
                assert_eq!(out, [Completion { tag: 7, buffer, result: Ok(bytes) }]);
                assert_eq!(queue.buffer(buffer)[..bytes], content(offset, bytes));
            }
        }
        queue.return_buffer(buffer);
    });
}

#[test]
fn many_in_flight_keep_their_tags_and_buffers() {
    every(|rig| {
        let device = Device::whole(&rig.file("f", BLOCKS * BLOCK)).expect("a length");
        let mut queue = rig.queue(16);
        let mut random = 0x9E37_79B9_7F4A_7C15u64;
        let (mut pushed, mut taken, mut out) = (0u64, HashSet::new(), Vec::with_capacity(16));
        while taken.len() < 2000 {
            while pushed < 2000
                && let Some(buffer) = queue.take_buffer()
            {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let block = (random >> 40) % BLOCKS as u64;
                let tag = pushed << 32 | block;
                queue.push_read(&device, block * BLOCK as u64, BLOCK, buffer, tag).expect("push");
                pushed += 1;
                if pushed.is_multiple_of(3) {
                    queue.flush().expect("flush");
                }
            }
            if pushed.is_multiple_of(2) {
                queue.flush().expect("flush");
                queue.poll(&mut out).expect("poll");
            } else {
                queue.wait(&mut out).expect("wait");
            }
            for done in out.drain(..) {
                assert_eq!(done.result, Ok(BLOCK));
                let offset = (done.tag & 0xFFFF_FFFF) as usize * BLOCK;
                assert_eq!(queue.buffer(done.buffer)[..BLOCK], content(offset, BLOCK));
                queue.return_buffer(done.buffer);
                assert!(taken.insert(done.tag), "each completion comes once");
            }
            if pushed == 2000 && queue.in_flight() > 0 {
                queue.wait(&mut out).expect("wait");
            }
        }
        assert_eq!(queue.in_flight(), 0);
    });
}

#[test]
fn a_full_queue_says_so_and_recovers() {
    every(|rig| {
        let device = Device::whole(&rig.file("f", BLOCKS * BLOCK)).expect("a length");
        let mut queue = rig
            .backend
            .queue(&QueueOptions { depth: 5, buffers: 6, ..QueueOptions::default() })
            .expect("a queue");
        let buffers: Vec<_> = (0..6).map(|_| queue.take_buffer().expect("six buffers")).collect();
        assert_eq!(queue.take_buffer(), None, "buffers are exhausted");
        for (i, &buffer) in buffers[..5].iter().enumerate() {
            queue.push_read(&device, 0, BLOCK, buffer, i as u64).expect("room");
        }
        let full = queue.push_read(&device, 0, BLOCK, buffers[5], 5).expect_err("no room");
        assert_eq!((full.clone(), full.class()), (IoError::Full { depth: 5 }, ErrorClass::Retry));
        assert_eq!(queue.push_sync(&device, 6), Err(full));
        let mut out = Vec::new();
        while queue.in_flight() == 5 {
            queue.wait(&mut out).expect("wait");
        }
        queue.push_read(&device, 0, BLOCK, buffers[5], 5).expect("room again");
        while queue.in_flight() > 0 {
            queue.wait(&mut out).expect("wait");
        }
        let tags: HashSet<u64> = out.iter().map(|c| c.tag).collect();
        assert_eq!((out.len(), tags), (6, (0..6).collect()));
    });
}

#[test]
fn an_idle_queue_neither_blocks_nor_answers() {
    every(|rig| {
        let mut queue = rig.queue(2);
        let mut out = Vec::new();
        queue.flush().expect("flush");
        queue.wait(&mut out).expect("wait");
        queue.poll(&mut out).expect("poll");
        assert!(out.is_empty());
    });
}

#[test]
fn nothing_starts_before_the_flush_and_poll_alone_sees_the_end() {
    every(|rig| {
        let device = Device::whole(&rig.file("f", BLOCK)).expect("a length");
        for wait in [Wait::Sleep, Wait::Spin] {
            let options = QueueOptions { wait, ..QueueOptions::default() };
            let mut queue = rig.backend.queue(&options).expect("a queue");
            let buffer = queue.take_buffer().expect("a buffer");
            queue.push_read(&device, 0, BLOCK, buffer, 3).expect("push");
            let mut out = Vec::with_capacity(1);
            queue.poll(&mut out).expect("poll");
            assert!(out.is_empty());
            queue.flush().expect("flush");
            while out.is_empty() {
                queue.poll(&mut out).expect("poll");
            }
            assert_eq!(out, [Completion { tag: 3, buffer, result: Ok(BLOCK) }]);
            queue.push_read(&device, 0, BLOCK, buffer, 4).expect("push");
            assert_eq!(one(&mut *queue).result, Ok(BLOCK));
        }
    });
}

#[test]
fn reads_beyond_the_end_name_what_was_there() {
    every(|rig| {
        let file = rig.file("f", BLOCK + BLOCK / 2);
        let path = rig.path("f");
        // The device believes the file to be longer than it is.
        let extent = Extent { file, offset: 0, bytes: 4 * BLOCK as u64 };
        let device = Device::new(vec![extent]);
        let mut queue = rig.queue(2);
        for (offset, wanted, there) in [(0, 2 * BLOCK, 6144), (2 * BLOCK, BLOCK, 0)] {
            let error = read(&mut *queue, &device, offset as u64, wanted).expect_err("short");
            assert_eq!(error.class(), ErrorClass::Stop);
            let (offset, wanted) = (offset as u64, wanted as u32);
            let path = std::sync::Arc::from(path.as_path());
            assert_eq!(error, IoError::Short { path, offset, wanted, got: there });
        }
        let outside = read(&mut *queue, &device, 4 * BLOCK as u64, BLOCK);
        assert!(matches!(outside, Err(IoError::OutOfRange { .. })));
        assert_eq!(queue.in_flight(), 0);
    });
}

#[test]
fn requests_that_do_not_fit_are_refused_and_leave_the_queue_usable() {
    every(|rig| {
        let file = rig.file("f", BLOCKS * BLOCK);
        let piece = |block: u64| Extent {
            file: file.clone(),
            offset: block * BLOCK as u64,
            bytes: 2 * BLOCK as u64,
        };
        let device = Device::new(vec![piece(7), piece(3)]);
        let mut queue = rig.queue(2);
        let block = BLOCK as u64;
        assert_eq!(read(&mut *queue, &device, 2 * block, BLOCK), Ok(content(3 * BLOCK, BLOCK)));
        assert_eq!(read(&mut *queue, &device, 0, 2 * BLOCK), Ok(content(7 * BLOCK, 2 * BLOCK)));
        let crossing = read(&mut *queue, &device, block, 2 * BLOCK);
        assert!(matches!(crossing, Err(IoError::CrossesExtents { extent_end: 8192, .. })));
        let whole = Device::whole(&file).expect("a length");
        let long = read(&mut *queue, &whole, 0, 5 * BLOCK);
        assert!(matches!(long, Err(IoError::BufferTooSmall { buffer_bytes: 16384, .. })));
        if rig.backend.block_bytes() > 1 {
            let askew = read(&mut *queue, &whole, 100, BLOCK).expect_err("not aligned");
            assert!(matches!(askew, IoError::Misaligned { offset: 100, .. }));
            assert_eq!(askew.class(), ErrorClass::FixInput);
        }
        assert_eq!(read(&mut *queue, &whole, block, BLOCK), Ok(content(BLOCK, BLOCK)));
    });
}

#[test]
fn buffered_files_are_read_at_any_offset() {
    every(|rig| {
        rig.file("f", BLOCKS * BLOCK);
        let mode = OpenMode::read().buffered();
        let file = rig.backend.open_file(&rig.path("f"), mode).expect("opens");
        let device = Device::whole(&file).expect("a length");
        let mut queue = rig.queue(1);
        for (offset, bytes) in [(0, 1), (1, 4095), (4095, 2), (12345, 6789), (64 * BLOCK - 3, 3)] {
            let got = read(&mut *queue, &device, offset as u64, bytes);
            assert_eq!(got, Ok(content(offset, bytes)));
        }
    });
}

#[test]
fn what_is_written_synced_and_extended_is_read_back() {
    every(|rig| {
        let path = rig.path("new");
        let file = rig.backend.open_file(&path, OpenMode::create()).expect("created");
        let mut queue = rig.queue(4);
        let empty = Device::whole(&file).expect("a length");
        let device = queue.extend(&empty, 8 * BLOCK as u64).expect("space");
        assert_eq!((empty.bytes(), device.bytes()), (0, 8 * BLOCK as u64));
        assert_eq!(file.bytes(), Ok(8 * BLOCK as u64));
        let buffer = queue.take_buffer().expect("a buffer");
        queue.buffer_mut(buffer)[..2 * BLOCK].copy_from_slice(&content(99, 2 * BLOCK));
        queue.push_write(&device, 3 * BLOCK as u64, 2 * BLOCK, buffer, 5).expect("push");
        let done = Completion { tag: 5, buffer, result: Ok(2 * BLOCK) };
        assert_eq!(one(&mut *queue), done);
        queue.return_buffer(buffer);
        let both = Device::new(
            [device.extents(), Device::whole(&rig.file("f", BLOCK)).expect("a length").extents()]
                .concat(),
        );
        queue.push_sync(&both, 6).expect("push");
        assert_eq!(one(&mut *queue), Completion { tag: 6, buffer: BufferId::NONE, result: Ok(0) });
        assert_eq!(
            read(&mut *queue, &device, 3 * BLOCK as u64, 2 * BLOCK),
            Ok(content(99, 2 * BLOCK))
        );
        assert_eq!(read(&mut *queue, &device, 5 * BLOCK as u64, BLOCK), Ok(vec![0; BLOCK]));
        assert_eq!(queue.extend(&device, 1).expect("long enough").bytes(), device.bytes());
        let nothing = Device::new(vec![]);
        assert!(matches!(queue.extend(&nothing, 1), Err(IoError::NoExtent)));
        let too_much = queue.extend(&device, 1 << 62).expect_err("no disk is that large");
        assert!(matches!(too_much, IoError::NoSpace { .. } | IoError::Length { .. }));
    });
}

#[test]
fn a_missing_file_names_itself() {
    every(|rig| {
        let error =
            rig.backend.open_file(&rig.path("absent"), OpenMode::read()).expect_err("absent");
        assert_eq!(error.errno(), Some(Errno(libc::ENOENT)));
        assert!(error.to_string().contains("absent"));
    });
}

#[test]
fn a_queue_dropped_with_reads_in_flight_leaves_memory_alone() {
    every(|rig| {
        let device = Device::whole(&rig.file("f", BLOCKS * BLOCK)).expect("a length");
        for round in 0..50 {
            let mut queue = rig.queue(32);
            for i in 0..32 {
                let buffer = queue.take_buffer().expect("a buffer");
                queue
                    .push_read(&device, (i % 60) * BLOCK as u64, 4 * BLOCK, buffer, i)
                    .expect("push");
                if i == 24 && round % 2 == 0 {
                    queue.flush().expect("flush");
                }
            }
            drop(queue);
            // The allocator hands out the same addresses again at once.
            let fresh = AlignedBuf::zeroed(32 * 4 * BLOCK);
            std::thread::yield_now();
            assert!(fresh.iter().all(|&b| b == 0));
        }
    });
}

#[test]
fn a_queue_moves_to_another_thread_with_reads_in_flight() {
    every(|rig| {
        let device = Device::whole(&rig.file("f", BLOCKS * BLOCK)).expect("a length");
        let mut queue = rig.queue(2);
        let buffer = queue.take_buffer().expect("a buffer");
        queue.push_read(&device, BLOCK as u64, BLOCK, buffer, 1).expect("push");
        queue.flush().expect("flush");
        let mover = std::thread::Builder::new().name("mover".into());
        let moved = mover.spawn(move || {
            assert_eq!(one(&mut *queue).result, Ok(BLOCK));
            assert_eq!(read(&mut *queue, &device, 0, BLOCK), Ok(content(0, BLOCK)));
            queue.buffer(buffer)[..BLOCK].to_vec()
        });
        let moved = moved.expect("a thread");
        assert_eq!(moved.join().expect("no panic"), content(BLOCK, BLOCK));
    });
}

#[test]
fn a_forked_child_is_refused_and_harms_nothing() {
    every(|rig| {
        let device = Device::whole(&rig.file("f", BLOCKS * BLOCK)).expect("a length");
        let mut queue = rig.queue(4);
        let buffer = queue.take_buffer().expect("a buffer");
        queue.push_read(&device, 0, BLOCK, buffer, 1).expect("push");
        queue.flush().expect("flush");
        // SAFETY: the child only uses the queue, which has to refuse, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut out = Vec::new();
            let forked = |r: Result<(), IoError>| matches!(r, Err(IoError::Forked { .. }));
            let refused = forked(queue.push_read(&device, 0, BLOCK, BufferId(1), 2))
                && forked(queue.push_sync(&device, 2))
                && forked(queue.flush())
                && forked(queue.poll(&mut out))
                && forked(queue.wait(&mut out))
                && forked(queue.extend(&device, 0).map(|_| ()));
            drop(queue);
            // SAFETY: ends the child without running the parent's clean-up.
            unsafe { libc::_exit(if refused { 0 } else { 1 }) }
        }
        let mut status = -1;
        // SAFETY: `status` outlives the call; the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "{} refuses in a child", rig.backend.name());
        assert_eq!(one(&mut *queue).result, Ok(BLOCK));
        assert_eq!(queue.buffer(buffer)[..BLOCK], content(0, BLOCK));
    });
}

#[test]
fn files_of_another_backend_are_refused() {
    let memory =
        Device::whole(&File::from_bytes("bytes".as_ref(), vec![0; BLOCK])).expect("a length");
    every(|rig| {
        assert!(rig.backend.queue(&QueueOptions { depth: 0, ..QueueOptions::default() }).is_err());
    });
    let rig = Rig::new(Threads::new());
    let error = read(&mut *rig.queue(1), &memory, 0, BLOCK).expect_err("a memory file");
    assert!(matches!(error, IoError::ForeignFile { backend: "threads", .. }));
    let disk = Device::whole(&rig.file("f", BLOCK)).expect("a length");
    let mut queue = Memory::new().queue(&QueueOptions::default()).expect("a queue");
    assert!(matches!(read(&mut *queue, &disk, 0, BLOCK), Err(IoError::ForeignFile { .. })));
    assert_eq!(read(&mut *queue, &memory, 0, BLOCK), Ok(vec![0; BLOCK]));
}
