//! When a read is asked of another server too, by times that are told.

use super::*;

const KIND: ReadKind = ReadKind::Search;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One that has seen a hundred reads of 1 to 100 ms, here.
fn warm() -> Hedging {
    let hedging = Hedging::default();
    for took in 1..=100 {
        hedging.begin(KIND);
        hedging.answered_here(KIND, ms(took));
    }
    hedging
}

/// Has reads answered within `here` here and `there` elsewhere, hedged as far as the budget lasts.
fn reads(hedging: &Hedging, count: u32, here: Duration, there: Duration) -> (u32, u32) {
    let (mut hedged, mut elsewhere) = (0, 0);
    for _ in 0..count {
        match hedging.begin(KIND) {
            First::Here(Some(late)) if here > late && hedging.spend() => {
                hedged += 1;
                if late + there < here {
                    hedging.answered_there(KIND, late + there, there, Some(late + there));
                } else {
                    hedging.answered_here(KIND, here);
                }
            }
            First::Here(_) => hedging.answered_here(KIND, here),
            First::There(..) => {
                elsewhere += 1;
                hedging.answered_there(KIND, there, there, None);
            }
        }
    }
    (hedged, elsewhere)
}

#[test]
fn a_read_is_late_when_nearly_all_of_its_kind_took_less() {
    let hedging = Hedging::default();
    for took in 1..=31 {
        assert_eq!(hedging.begin(KIND), First::Here(None), "too few are known");
        hedging.answered_here(KIND, ms(took));
    }
    let hedging = warm();
    let First::Here(Some(late)) = hedging.begin(KIND) else { panic!("many are known") };
    assert!((ms(88)..=ms(96)).contains(&late), "{late:?}");
    assert_eq!(hedging.begin(ReadKind::Query), First::Here(None), "of another kind");
    for _ in 0..LATELY {
        hedging.answered_here(KIND, Duration::from_micros(300));
    }
    assert_eq!(hedging.begin(KIND), First::Here(Some(QUICK)));
}

#[test]
fn a_twentieth_of_reads_is_hedged_and_few_at_once() {
    let hedging = Hedging::default();
    assert!(!hedging.spend(), "nothing was read");
    let mut hedged = 0;
    for read in 1..=1000 {
        hedging.begin(KIND);
        hedged += u32::from(hedging.spend());
        assert!(hedged * READS_A_HEDGE <= read);
    }
    assert_eq!(hedged, 50);
    for _ in 0..10_000 {
        hedging.begin(KIND);
    }
    let at_once = (0..1000).filter(|_| hedging.spend()).count();
    assert_eq!(at_once, BURST as usize);
}

#[test]
fn a_slow_server_has_others_answer_until_it_is_quick_again() {
    let hedging = warm();
    reads(&hedging, 300, ms(10), ms(10));
    let (hedged, elsewhere) = reads(&hedging, 600, ms(100), ms(10));
    assert!(hedged <= 600 / READS_A_HEDGE + BURST, "{hedged}");
    assert!(elsewhere > 300, "{elsewhere} of 600");
    let (hedged, elsewhere) = reads(&hedging, 640, ms(100), ms(10));
    assert!(hedged <= 640 / READS_A_HEDGE, "{hedged}");
    assert_eq!(elsewhere, 640 - 640 / TRIED, "some are tried here");
    reads(&hedging, 1000, ms(10), ms(10));
    assert_eq!(reads(&hedging, 100, ms(10), ms(10)), (0, 0), "it has passed");
}

#[test]
fn who_is_as_slow_as_others_is_not_slow() {
    let hedging = warm();
    reads(&hedging, 300, ms(10), ms(10));
    let (_, elsewhere) = reads(&hedging, 1000, ms(100), ms(60));
    assert_eq!(elsewhere, 0);
}

#[test]
fn who_is_lost_is_asked_first_no_more() {
    let hedging = warm();
    reads(&hedging, 900, ms(100), ms(5));
    assert!((0..2).any(|_| matches!(hedging.begin(KIND), First::There(..))));
    hedging.lost_there(KIND);
    assert!(matches!(hedging.begin(KIND), First::Here(Some(_))));
}
