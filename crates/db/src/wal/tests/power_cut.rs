//! The power goes at every operation of a recorded load, and at every operation of the opening
//! that follows: nothing that was answered is lost, nothing comes twice, order is kept.

use std::sync::Arc;

use super::super::*;
use super::load::{Model, Random, reopen, run, steps};
use super::{DIR, ID, create, small};
use crate::disk::{CrashDisk, Disk, FaultKind, PlannedFault, PowerCut};

fn power_off(operation: u64) -> PlannedFault {
    PlannedFault { operation, kind: FaultKind::PowerOff }
}

/// The operations that the load of a seed takes.
fn operations(seed: u64) -> u64 {
    let disk = CrashDisk::new();
    run(seed, &disk, &mut Model::default()).unwrap();
    disk.operations()
}

/// What a cut at `operation` of the load leaves, and what has to be in it.
fn cut_at(seed: u64, operation: u64) -> (CrashDisk, Model) {
    let (disk, mut model) = (CrashDisk::new(), Model::default());
    disk.inject(power_off(operation));
    let stopped = run(seed, &disk, &mut model);
    assert!(stopped.is_err(), "seed {seed}: the power went at operation {operation}");
    (disk, model)
}

/// A cut before the log was created leaves none; nothing was answered then.
fn was_not_created(disk: &CrashDisk) -> bool {
    disk.files().keys().all(|name| !name.ends_with(".wal"))
}

#[test]
fn a_power_cut_at_every_operation_loses_nothing_answered() {
    let mut torn = 0;
    for seed in 0..6 {
        for operation in 1..=operations(seed) {
            let (disk, model) = cut_at(seed, operation);
            let cuts = (0..4).map(|i| PowerCut::Torn(seed * 1000 + operation * 10 + i));
            for cut in cuts.chain([PowerCut::Drop, PowerCut::Keep]) {
                let context = format!("seed {seed}, operation {operation}, {cut:?}");
                let (after, mut model) = (disk.after(cut), model.clone());
                if was_not_created(&after) && model.kept_none() {
                    continue;
                }
                let before = verify(&(Arc::new(after.clone()) as Arc<dyn Disk>), DIR, ID)
                    .unwrap_or_else(|e| panic!("{context}: {e}"));
                torn += usize::from(before.torn.is_some());
                let log = reopen(&after, &mut model, &context).unwrap();
                // What comes after must not be mistaken for the torn rest, nor be lost.
                let mut log = Some(log);
                steps(operation, 3, &after, &mut log, &mut model).unwrap();
                drop(log);
                let context = format!("{context}, and again");
                reopen(&after.after(PowerCut::Torn(operation)), &mut model, &context).unwrap();
            }
        }
    }
    assert!(torn > 500, "{torn} cuts tore a write");
}

#[test]
fn a_power_cut_at_every_operation_of_an_opening_loses_nothing() {
    let mut interrupted = 0;
    for seed in 10..13 {
        for operation in (1..=operations(seed)).step_by(3) {
            let (disk, model) = cut_at(seed, operation);
            let after = disk.after(PowerCut::Torn(operation));
            if was_not_created(&after) {
                continue;
            }
            for second in 1.. {
                let context = format!("seed {seed}, operation {operation}, opening {second}");
                let (again, mut model) = (after.after(PowerCut::Keep), model.clone());
                again.inject(power_off(second));
                if Log::open(Arc::new(again.clone()), DIR, ID, small()).is_ok() {
                    break;
                }
                interrupted += 1;
                for cut in [PowerCut::Torn(second), PowerCut::Torn(second + 100), PowerCut::Drop] {
                    reopen(&again.after(cut), &mut model.clone(), &context).unwrap();
                }
                reopen(&again.after(PowerCut::Keep), &mut model, &context).unwrap();
            }
        }
    }
    assert!(interrupted > 500, "{interrupted} openings were interrupted");
}

#[test]
fn threads_that_append_together_lose_nothing_answered() {
    for seed in 0..40 {
        let disk = CrashDisk::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let log = create(&shared, small());
        disk.inject(power_off(disk.operations() + 1 + Random::new(seed).below(60)));
        let answered: Vec<(u64, Vec<u8>)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6u8)
                .map(|thread| {
                    let log = &log;
                    scope.spawn(move || {
                        let mut answered = Vec::new();
                        for i in 0..30u8 {
                            let payload = vec![thread, i, 1, 2, 3];
                            let ticket = match log.submit(RecordKind::Put, &payload) {
                                Ok(ticket) => ticket,
                                Err(_) => break,
                            };
                            match log.wait(ticket) {
                                Ok(seq) => answered.push((seq.0, payload)),
                                Err(_) => break,
                            }
                        }
                        answered
                    })
                })
                .collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        for cut in [PowerCut::Drop, PowerCut::Torn(seed), PowerCut::Keep] {
            let shared: Arc<dyn Disk> = Arc::new(disk.after(cut));
            let found = super::contents(&super::open(&shared), 1);
            for (seq, payload) in &answered {
                let there = found.get(*seq as usize - 1);
                assert_eq!(there, Some(&(*seq, payload.clone())), "seed {seed}, {cut:?}");
            }
            let mut once: Vec<_> = found.iter().map(|(_, payload)| payload).collect();
            once.sort();
            assert!(once.windows(2).all(|w| w[0] != w[1]), "seed {seed}, {cut:?}: twice");
        }
    }
}
