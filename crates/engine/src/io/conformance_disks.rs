//! What every backend promises of devices and file systems that only Linux has.

use super::*;

#[test]
fn a_file_system_without_direct_io_is_named_with_a_way_out() {
    let path = "/proc/self/status";
    let error = Threads::new().open_file(path.as_ref(), OpenMode::read()).expect_err("proc");
    assert!(matches!(error, IoError::DirectRefused { .. }), "{error}");
    assert!(error.to_string().contains(path) && error.to_string().contains("direct: false"));
    assert!(Threads::new().open_file(path.as_ref(), OpenMode::read().buffered()).is_ok());
}

#[test]
fn a_full_device_is_no_space() {
    // Writes to this device always fail with ENOSPC.
    every(|rig| {
        let mode = OpenMode::read_write().buffered();
        // libaio takes no request for this device.
        if ["memory", "sim", "injected", "libaio", "spdk"].contains(&rig.backend.name()) {
            return;
        }
        let file = rig.backend.open_file("/dev/full".as_ref(), mode).expect("opens");
        let device = Device::new(vec![Extent { file, offset: 0, bytes: 4096 }]);
        let mut queue = rig.queue(1);
        let buffer = queue.take_buffer().expect("a buffer");
        queue.push_write(&device, 0, BLOCK, buffer, 0).expect("push");
        let error = one(&mut *queue).result.expect_err("full");
        assert!(matches!(error, IoError::NoSpace { bytes: 4096, .. }), "{error}");
        assert_eq!(error.class(), ErrorClass::FixInput);
    });
}

/// A device may have no end, which memory has.
#[test]
fn memory_holds_files_alone() {
    for backend in [&Memory::new() as &dyn Backend, &Injected::new("30".parse().unwrap())] {
        let refused = backend.open_file("/dev/zero".as_ref(), OpenMode::read().buffered());
        assert!(matches!(refused, Err(IoError::Open { .. })));
    }
}

/// Kernel-side submission, and buffers too large to register.
#[test]
fn the_rarer_set_ups_of_io_uring_read_the_same() {
    let Ok(backend) = uring::Uring::new() else { return };
    let rig = Rig::new(backend);
    let device = Device::whole(&rig.file("f", BLOCKS * BLOCK)).expect("a length");
    let polling = QueueOptions { depth: 3, sqpoll: true, ..QueueOptions::default() };
    let huge = QueueOptions { buffers: 300, buffer_bytes: 4 << 20, ..QueueOptions::default() };
    for options in [polling, huge] {
        let mut queue = rig.backend.queue(&options).expect("a queue");
        for round in 0..200 {
            let block = round % (BLOCKS - 2);
            for i in 0..3 {
                let buffer = queue.take_buffer().expect("a buffer");
                let offset = ((block + i) * BLOCK) as u64;
                queue.push_read(&device, offset, BLOCK, buffer, offset).expect("push");
            }
            let mut out = Vec::new();
            while queue.in_flight() > 0 {
                queue.wait(&mut out).expect("wait");
            }
            for done in out {
                assert_eq!(done.result, Ok(BLOCK));
                let got = &queue.buffer(done.buffer)[..BLOCK];
                assert_eq!(got, content(done.tag as usize, BLOCK));
                queue.return_buffer(done.buffer);
            }
        }
        let buffer = queue.take_buffer().expect("a buffer");
        queue.push_read(&device, 0, BLOCK, buffer, 0).expect("push");
    }
}

#[test]
fn the_best_backend_is_found_once() {
    assert!(std::sync::Arc::ptr_eq(&best(), &best()));
}
