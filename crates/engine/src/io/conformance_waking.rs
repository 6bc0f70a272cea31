//! What every backend promises of its wakers.

use super::*;

#[test]
fn a_wake_ends_a_wait_and_no_operation_is_lost() {
    every(|rig| {
        let device = Device::whole(&rig.file("f", BLOCKS * BLOCK)).expect("a length");
        let mut queue = rig.queue(4);
        let waker = queue.waker().expect("a waker");
        let mut ended_early = false;
        for round in 0..1000 {
            let offset = (round % BLOCKS * BLOCK) as u64;
            let buffer = queue.take_buffer().expect("a buffer");
            queue.push_read(&device, offset, BLOCK, buffer, offset).expect("push");
            waker.wake();
            waker.wake();
            let mut out = Vec::new();
            queue.wait(&mut out).expect("wait");
            ended_early |= out.is_empty();
            while queue.in_flight() > 0 {
                queue.wait(&mut out).expect("wait");
            }
            assert_eq!(out, [Completion { tag: offset, buffer, result: Ok(BLOCK) }]);
            assert_eq!(queue.buffer(buffer)[..BLOCK], content(offset as usize, BLOCK));
            queue.return_buffer(buffer);
        }
        // In memory nothing takes time, so that there is no wait to end.
        let waits = rig.backend.name() != "memory";
        assert_eq!(ended_early, waits, "{}", rig.backend.name());
        waker.wake();
        let mut out = Vec::new();
        queue.wait(&mut out).expect("nothing is in flight, and nothing is waited for");
        assert!(out.is_empty());
        drop(queue);
        waker.wake();
    });
}

#[test]
fn wakes_from_another_thread_meet_reads_of_a_full_queue() {
    every(|rig| {
        let device = Device::whole(&rig.file("f", BLOCKS * BLOCK)).expect("a length");
        let mut queue = rig.queue(8);
        let waker = queue.waker().expect("a waker");
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    waker.wake();
                    std::thread::yield_now();
                }
            });
            let mut seen = HashSet::new();
            for round in 0..200_u64 {
                for i in 0..8 {
                    let tag = 8 * round + i;
                    let buffer = queue.take_buffer().expect("a buffer");
                    let offset = tag % BLOCKS as u64 * BLOCK as u64;
                    queue.push_read(&device, offset, BLOCK, buffer, tag).expect("push");
                }
                let mut out = Vec::new();
                while queue.in_flight() > 0 {
                    queue.wait_for(8, &mut out).expect("wait");
                }
                for done in out {
                    assert_eq!(done.result, Ok(BLOCK));
                    let offset = done.tag as usize % BLOCKS * BLOCK;
                    assert_eq!(queue.buffer(done.buffer)[..BLOCK], content(offset, BLOCK));
                    assert!(seen.insert(done.tag), "each read ends once");
                    queue.return_buffer(done.buffer);
                }
            }
            assert_eq!(seen.len(), 1600);
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    });
}

#[test]
fn a_wait_of_a_slow_device_is_ended_from_another_thread() {
    let rig = Rig::new(Injected::new(Speed { latency_us: 1_000_000, per_second: None }));
    let device = Device::whole(&rig.file("f", BLOCK)).expect("a length");
    let mut queue = rig.queue(1);
    let waker = queue.waker().expect("a waker");
    let buffer = queue.take_buffer().expect("a buffer");
    queue.push_read(&device, 0, BLOCK, buffer, 1).expect("push");
    let mut out = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| waker.wake());
        queue.wait(&mut out).expect("wait");
    });
    assert!(out.is_empty() && queue.in_flight() == 1, "the read is under way still");
    queue.wait(&mut out).expect("wait");
    assert_eq!(out.len(), 1);
}

/// A pipe that nobody writes to is a file whose reads take as long as the test wants.
#[cfg(target_os = "linux")]
#[test]
fn a_sleep_in_the_kernel_is_ended_from_another_thread() {
    let Ok(backend) = uring::Uring::new() else {
        return eprintln!("io_uring is not checked here");
    };
    let rig = Rig::new(backend);
    let path = std::ffi::CString::new(rig.path("pipe").into_os_string().into_encoded_bytes());
    let path = path.expect("a path without zeros");
    // SAFETY: the path is a string that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    let mode = OpenMode { direct: false, ..OpenMode::read_write() };
    let file = rig.backend.open_file(&rig.path("pipe"), mode).expect("a pipe");
    let device = Device::new(vec![Extent { file, offset: 0, bytes: BLOCK as u64 }]);
    let mut queue = rig.queue(2);
    let waker = queue.waker().expect("a waker");
    let buffer = queue.take_buffer().expect("a buffer");
    queue.push_read(&device, 0, BLOCK, buffer, 1).expect("push");
    let mut out = Vec::new();
    for _ in 0..3 {
        std::thread::scope(|scope| {
            scope.spawn(|| waker.wake());
            queue.wait(&mut out).expect("wait");
        });
        assert!(out.is_empty() && queue.in_flight() == 1, "the read is under way still");
    }
    let mut pipe = std::fs::OpenOptions::new().write(true).open(rig.path("pipe")).expect("it");
    std::io::Write::write_all(&mut pipe, &content(0, BLOCK)).expect("room for a block");
    while queue.in_flight() > 0 {
        queue.wait(&mut out).expect("wait");
    }
    assert_eq!(out, [Completion { tag: 1, buffer, result: Ok(BLOCK) }]);
    assert_eq!(queue.buffer(buffer)[..BLOCK], content(0, BLOCK));
}
