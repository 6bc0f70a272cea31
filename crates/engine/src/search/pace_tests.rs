//! What is learnt from laps that are told, alone and among others.

use super::*;

/// Half of the time idle on two processors, with room on the device.
const WAITS: Lap = Lap {
    searches: 32,
    slept: 0.5,
    threads: 2,
    processors: 2,
    crowding: Some(0.0),
    pages_per_read: Some(100.0),
    in_flight: 60.0,
};

fn after(pace: &Pace, searches: u32, laps: usize, lap: Lap) -> f32 {
    (0..laps).for_each(|_| pace.note(&Lap { searches, ..lap }));
    pace.share(searches).factor
}

#[test]
fn a_slow_device_with_room_widens_until_enough_is_in_flight() {
    let pace = Pace::default();
    let wider = after(&pace, 32, 10, WAITS);
    assert!(wider > 1.2, "{wider}");
    // Two processors compute 202 pages in the time of a read and of a page.
    let enough = Lap { in_flight: 203.0, ..WAITS };
    assert_eq!(after(&pace, 32, 100, enough), wider);
    assert_eq!(after(&pace, 32, 200, WAITS), Pace::BOUNDS.1.ln().exp());
}

#[test]
fn a_crowded_device_narrows_however_idle_processors_are() {
    let pace = Pace::default();
    let crowded = Lap { crowding: Some(1.0), ..WAITS };
    assert!(after(&pace, 32, 40, crowded) < 1.0 / 8.0);
    // As soon as there is room again it becomes wider.
    assert!(after(&pace, 32, 100, WAITS) > 0.5);
}

#[test]
fn busy_processors_return_to_an_equal_share() {
    let busy = Lap { slept: 0.01, ..WAITS };
    for before in [Lap { crowding: Some(1.0), ..WAITS }, WAITS] {
        let pace = Pace::default();
        let moved = after(&pace, 32, 30, before);
        assert!((moved - 1.0).abs() > 0.3, "{moved}");
        let back = after(&pace, 32, 200, busy);
        assert!((back - 1.0).abs() < 0.1, "{back}");
    }
}

#[test]
fn what_is_not_told_of_the_device_leads_back_to_an_equal_share() {
    for before in [Lap { crowding: Some(1.0), ..WAITS }, WAITS] {
        let pace = Pace::default();
        let moved = after(&pace, 32, 60, before);
        assert!((moved - 1.0).abs() > 0.3, "{moved}");
        let back = after(&pace, 32, 200, Lap { crowding: Some(0.4), ..WAITS });
        assert!((back - 1.0).abs() < 0.1, "{back}");
    }
}

#[test]
fn more_threads_than_processors_are_not_idle_while_some_compute() {
    let many = Lap { threads: 8, slept: 0.75, ..WAITS };
    assert_eq!(many.idle(), 0.0);
    assert_eq!(Lap { processors: 4, ..many }.idle(), 0.5);
    assert_eq!(Lap { processors: 16, ..many }.idle(), 0.75);
    assert_eq!(Lap { threads: 0, processors: 0, ..many }.idle(), 0.75);
}

#[test]
fn alone_the_width_follows_the_device_and_the_start_what_a_read_hides() {
    let pace = Pace::default();
    assert_eq!(pace.share(1), PaceShare::default());
    let slow = after(&pace, 1, 10, WAITS);
    assert_eq!((slow, pace.share(1).pages_per_read), (1.0, 100.0), "the widest already");
    let crowded = Lap { crowding: Some(1.0), pages_per_read: Some(3.0), ..WAITS };
    assert!(after(&pace, 1, 100, crowded) < 1.0 / 31.0);
    assert!(pace.share(1).pages_per_read < 4.0);
    assert!(after(&pace, 1, 200, WAITS) > 0.99);
    // What is learnt alone says nothing of searches among others.
    assert_eq!(pace.share(2), PaceShare::default());
}

#[test]
fn steps_shrink_where_their_direction_turns() {
    let pace = Pace::default();
    let crowded = Lap { crowding: Some(1.0), ..WAITS };
    after(&pace, 32, 20, crowded);
    let swings: Vec<f32> = (0..12)
        .map(|i| {
            let lap = Lap { crowding: Some([0.0, 1.0][i % 2]), ..WAITS };
            let before = pace.among.log.get();
            after(&pace, 32, 16, lap);
            (pace.among.log.get() - before).abs()
        })
        .collect();
    let widest = |of: &[f32]| of.iter().copied().fold(0.0, f32::max);
    assert!(widest(&swings[8..]) < widest(&swings[..4]) / 2.0, "{swings:?}");
}

#[test]
fn what_is_unknown_changes_nothing() {
    let pace = Pace::default();
    let unknown = Lap { crowding: None, pages_per_read: None, ..WAITS };
    assert_eq!(after(&pace, 1, 50, unknown), 1.0);
    assert_eq!(after(&pace, 32, 50, unknown), 1.0);
}
