//! The list keeps the nearest, in order, and each of them once.

use super::*;

fn unread(distance: f32, node: u32) -> Candidate {
    Candidate {
        distance,
        node: NodeId(node),
        stash: 0,
        progress: CandidateProgress::Unread,
        allowed: true,
    }
}

#[test]
fn keeps_the_nearest_sorted_and_hands_back_what_falls_off() {
    let mut list = CandidateList::new(3);
    for (d, n) in [(5.0, 1), (3.0, 2), (4.0, 3)] {
        assert_eq!(list.insert(unread(d, n)), None);
    }
    assert_eq!(list.bound(), 5.0);
    assert_eq!(list.insert(unread(1.0, 4)).map(|c| c.node), Some(NodeId(1)));
    assert_eq!(list.insert(unread(9.0, 5)).map(|c| c.node), Some(NodeId(5)));
    let order: Vec<u32> = list.entries().iter().map(|c| c.node.0).collect();
    assert_eq!(order, [4, 2, 3]);
    assert_eq!(list.bound(), 4.0);
}

#[test]
fn first_unread_follows_insertions_removals_and_progress() {
    let mut list = CandidateList::new(4);
    for (d, n) in [(2.0, 1), (3.0, 2), (4.0, 3)] {
        list.insert(unread(d, n));
    }
    assert_eq!(list.first_unread(4), Some(0));
    list.set_progress(0, CandidateProgress::Issued);
    assert_eq!(list.first_unread(4), Some(1));
    assert_eq!(list.first_unread(1), None, "outside the window");
    list.insert(unread(1.0, 9));
    assert_eq!(list.first_unread(4), Some(0));
    list.set_progress(0, CandidateProgress::Issued);
    assert_eq!(list.first_unread(4), Some(2));
    assert_eq!(list.remove(NodeId(1), 2.0).map(|c| c.node), Some(NodeId(1)));
    assert_eq!(list.first_unread(4), Some(1));
    list.insert(Candidate { progress: CandidateProgress::Explored, ..unread(0.5, 11) });
    assert_eq!(list.first_unread(4), Some(2));
    assert_eq!(list.remove(NodeId(77), 2.0), None);
}

#[test]
fn the_first_at_hand_is_the_one_that_looking_at_all_finds() {
    let states = [
        CandidateProgress::Unread,
        CandidateProgress::Issued,
        CandidateProgress::AtHand,
        CandidateProgress::Explored,
    ];
    let mut list = CandidateList::new(24);
    let mut noise = 1_u32;
    for node in 0..4_000 {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (state, place) = (states[(noise >> 30) as usize], (noise >> 8) as usize % 24);
        match noise >> 28 & 3 {
            0 if place < list.entries().len() => list.set_progress(place, state),
            1 if place < list.entries().len() => drop(list.remove_at(place)),
            _ => {
                let distance = (noise >> 16 & 1023) as f32;
                list.insert(Candidate { progress: state, ..unread(distance, node) });
            }
        }
        for window in [3, 12, 24] {
            let mut nearest = list.entries().iter().take(window);
            let expected = nearest.position(|c| c.progress == CandidateProgress::AtHand);
            assert_eq!(list.first_at_hand(window), expected, "after {node}");
        }
    }
}

#[test]
fn the_bound_never_grows() {
    let mut list = CandidateList::new(2);
    list.insert(unread(1.0, 1));
    list.insert(unread(2.0, 2));
    list.remove(NodeId(2), 2.0);
    list.insert(unread(8.0, 3));
    assert_eq!(list.bound(), 2.0);
}
