//! The simulation keeps its seed's promise: same seed, same story; faults come out as errors.

use super::*;
use crate::types::ErrorClass;

const BLOCK: usize = 4096;

fn sim(options: SimOptions) -> (Sim, Device) {
    let sim = Sim::new(options);
    sim.files.insert("f".into(), MemoryFile::journaled(vec![1; 64 * BLOCK]));
    let file = sim.open_file(Path::new("f"), OpenMode::read_write()).expect("the file is there");
    let device = Device::whole(&file).expect("a length");
    (sim, device)
}

/// Pushes 64 reads and returns the completions in the order they came.
fn story(options: SimOptions) -> Vec<Completion> {
    let (sim, device) = sim(options);
    let mut queue = sim.queue(&QueueOptions::default()).expect("a queue");
    for i in 0..64 {
        let buffer = queue.take_buffer().expect("64 buffers");
        queue.push_read(&device, i * BLOCK as u64, BLOCK, buffer, i).expect("room");
    }
    let mut out = Vec::new();
    while queue.in_flight() > 0 {
        queue.wait(&mut out).expect("wait");
    }
    out
}

/// Writes block `i` filled with `value` and takes the completion.
fn write(queue: &mut dyn Queue, device: &Device, i: u64, value: u8) -> Result<usize, IoError> {
    let buffer = queue.take_buffer().expect("a buffer");
    queue.buffer_mut(buffer).fill(value);
    queue.push_write(device, i * BLOCK as u64, BLOCK, buffer, i).expect("room");
    let mut out = Vec::new();
    queue.wait(&mut out).expect("wait");
    queue.return_buffer(buffer);
    out.remove(0).result
}

fn sync(queue: &mut dyn Queue, device: &Device) -> Result<usize, IoError> {
    queue.push_sync(device, 0).expect("room");
    let mut out = Vec::new();
    queue.wait(&mut out).expect("wait");
    out.remove(0).result
}

fn written(sim: &Sim) -> Vec<u8> {
    sim.files.open(Path::new("f"), OpenMode::read(), true).expect("the file").durable().0
}

#[test]
fn same_seed_same_order_other_seed_other_order() {
    let faulty = |seed| SimOptions { seed, read_failures: 0.1, ..SimOptions::default() };
    assert_eq!(story(faulty(1)), story(faulty(1)));
    assert_ne!(story(faulty(1)), story(faulty(2)));
    let in_order: Vec<u64> = (0..64).collect();
    let order: Vec<u64> = story(faulty(3)).iter().map(|c| c.tag).collect();
    assert_ne!(order, in_order);
}

#[test]
fn queues_of_one_disk_draw_differently() {
    let (sim, _) = sim(SimOptions::default());
    assert_eq!(sim.seed(), 0);
    let (mut a, mut b) = (Chance::new(7, 0), Chance::new(7, 1));
    assert_ne!(a.next(), b.next());
}

#[test]
fn failures_and_short_reads_surface() {
    let options = SimOptions { read_failures: 0.3, short_reads: 0.3, ..SimOptions::default() };
    let results: Vec<_> = story(options).into_iter().map(|c| c.result).collect();
    let failed = |f: fn(&IoError) -> bool| results.iter().flat_map(|r| r.as_ref().err()).any(f);
    assert!(failed(|e| matches!(e, IoError::Read { errno: Errno(libc::EIO), .. })));
    assert!(failed(|e| matches!(e, IoError::Short { wanted: 4096, got: 0..4096, .. })));
    assert!(results.iter().any(Result::is_ok));
    assert!(results.iter().flat_map(|r| r.as_ref().err()).all(|e| e.class() == ErrorClass::Stop));
}

#[test]
fn failed_writes_and_syncs_surface() {
    let (sim, device) =
        sim(SimOptions { write_failures: 1.0, sync_failures: 1.0, ..SimOptions::default() });
    let mut queue = sim.queue(&QueueOptions::default()).expect("a queue");
    let errors: Vec<_> = (0..32).filter_map(|i| write(&mut *queue, &device, i, 9).err()).collect();
    assert_eq!(errors.len(), 32);
    assert!(errors.iter().any(|e| matches!(e, IoError::NoSpace { .. })));
    assert!(errors.iter().any(|e| matches!(e, IoError::Write { .. })));
    assert!(matches!(sync(&mut *queue, &device), Err(IoError::Sync { .. })));
    assert!(written(&sim).iter().all(|&b| b == 1), "nothing became durable");
}

#[test]
fn power_loss_keeps_what_was_synced_and_tears_the_rest() {
    let (sim, device) = sim(SimOptions::default());
    let mut queue = sim.queue(&QueueOptions::default()).expect("a queue");
    for i in 0..16 {
        write(&mut *queue, &device, i, 2).expect("no faults");
    }
    sync(&mut *queue, &device).expect("no faults");
    for i in 8..24 {
        write(&mut *queue, &device, i, 3).expect("no faults");
    }
    let (mut kept, mut dropped, mut torn) = (0, 0, 0);
    for seed in 0..20 {
        let after = written(&sim.after_power_loss(seed));
        assert_eq!(after, written(&sim.after_power_loss(seed)), "seed {seed}");
        assert!(after[..8 * BLOCK].iter().all(|&b| b == 2), "seed {seed}");
        assert!(after[24 * BLOCK..].iter().all(|&b| b == 1), "seed {seed}");
        for block in after[8 * BLOCK..24 * BLOCK].chunks(BLOCK) {
            for sector in block.chunks(SECTOR_BYTES) {
                assert!(sector.iter().all(|&b| b == sector[0]), "seed {seed}");
            }
            match block.iter().filter(|&&b| b == 3).count() {
                BLOCK => kept += 1,
                0 => dropped += 1,
                _ => torn += 1,
            }
        }
    }
    assert!(kept > 50 && dropped > 50 && torn > 50, "{kept} {dropped} {torn}");
}
