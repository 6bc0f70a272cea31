//! Sets of nodes say what they hold, whichever form they have.

use super::*;

const IDS: [u32; 7] = [700, 3, 700, 64, 63, 127, 999];

fn taken(set: &AllowSet, first: u32, most: usize) -> Vec<u32> {
    let mut out = vec![9];
    set.take_from(NodeId(first), most, &mut out);
    assert_eq!(out.remove(0), 9, "what was there stays");
    out
}

#[test]
fn a_set_holds_what_it_was_given_once_in_either_form() {
    for set in [
        AllowSet::new(IDS.map(NodeId)),
        AllowSet::below(1000, 7, IDS.map(NodeId)),
        AllowSet::below(1000, 400, IDS.map(NodeId)),
    ] {
        assert_eq!(set.len(), 6);
        assert!(set.may_allow(NodeId(3)) && !set.may_allow(NodeId(4)));
        assert!(set.may_allow(NodeId(999)) && !set.may_allow(NodeId(1000)));
        assert!(!set.may_allow(NodeId(u32::MAX)));
        assert_eq!(taken(&set, 0, 10), [3, 63, 64, 127, 700, 999]);
        assert_eq!(taken(&set, 4, 3), [63, 64, 127]);
        assert_eq!(taken(&set, 64, 2), [64, 127]);
        assert!(taken(&set, 1000, 2).is_empty());
    }
    assert!(AllowSet::default().is_empty());
}

#[test]
fn bits_are_taken_as_by_looking_at_each() {
    // Words of all fillings, from none to 64 of 64.
    let words: Vec<u64> = (0..40_u64)
        .map(|i| {
            let noise = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            [0, noise & noise.rotate_left(7) & noise.rotate_left(19), noise, u64::MAX]
                [(i % 4) as usize]
        })
        .collect();
    let all: Vec<u32> =
        (0..40 * 64).filter(|n| words[*n as usize / 64] >> (n % 64) & 1 != 0).collect();
    for first in [0, 1, 63, 64, 200, 1_000, 2_559, 2_560, u32::MAX] {
        let from: Vec<u32> = all.iter().copied().filter(|n| *n >= first).collect();
        for most in [0, 1, 7, 63, 64, 65, 500, usize::MAX] {
            let mut out = vec![5; 3];
            take_bits(&words, first, most, &mut out);
            assert_eq!(out[..3], [5; 3], "what was there stays");
            assert_eq!(out[3..], from[..from.len().min(most)], "{most} from {first}");
        }
    }
    let mut out = Vec::with_capacity(100 + SLACK);
    let room = out.capacity();
    take_bits(&words, 0, 100, &mut out);
    assert_eq!(out.capacity(), room, "as much room as was promised");
}

#[test]
fn a_test_is_asked_for_rows_only() {
    let set = AllowSet::tested(5, |row| row.0.is_multiple_of(2));
    assert!(!set.is_listed() && AllowSet::default().is_listed());
    assert_eq!((set.len(), set.bytes(), taken(&set, 0, 9)), (5, 0, vec![]));
    assert!(set.may_allow(NodeId(3)));
    assert!(set.allows(NodeId(3), || RowId(4)) && !set.allows(NodeId(4), || RowId(3)));
    let listed = AllowSet::new([NodeId(3)]);
    assert!(listed.allows(NodeId(3), || unreachable!("it is listed")));
}

#[test]
fn nodes_that_are_none_are_left_out() {
    for expected in [0, 100] {
        let set = AllowSet::below(100, expected, IDS.map(NodeId));
        assert_eq!(taken(&set, 0, 10), [3, 63, 64]);
    }
}
