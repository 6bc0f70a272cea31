//! What a view makes of lists, changes that come late, and garbage.

use super::*;
use crate::ServerKey;

fn view() -> View {
    View::new(KeySpace::new("blue").unwrap(), Arc::default())
}

fn leads(shard: u64, server: u128, term: u64, revision: i64) -> KeyCell {
    let throne = Throne { server: Uuid::from_u128(server), address: "a:1".into(), term };
    let key = KeySpace::new("blue").unwrap().leader(shard).into_bytes();
    KeyCell { key, value: Some(throne.encode()), lease: 9, revision }
}

fn gone(cell: &KeyCell, revision: i64) -> KeyCell {
    KeyCell { key: cell.key.clone(), revision, ..KeyCell::default() }
}

#[test]
fn a_late_change_does_not_undo_a_newer_one() {
    let view = view();
    view.apply(leads(1, 7, 5, 20));
    view.apply(leads(1, 8, 4, 19));
    view.apply(gone(&leads(1, 7, 5, 0), 18));
    assert_eq!(view.leader(1).unwrap().term, 5);
    view.apply(gone(&leads(1, 7, 5, 0), 21));
    assert_eq!(view.leader(1), None);
    assert_eq!(view.seen(1), 5);
}

#[test]
fn what_was_removed_does_not_come_back_by_an_answer_that_comes_late() {
    let view = view();
    view.apply(leads(1, 7, 5, 20));
    view.apply(gone(&leads(1, 7, 5, 0), 21));
    // The answer of a lost election, which had found that leader.
    view.apply(leads(1, 7, 5, 20));
    assert_eq!(view.leader(1), None);
    // What the watch has told of before that is known, or gone too.
    view.apply(leads(2, 8, 3, 19));
    assert_eq!(view.leader(2), None);
    // One transaction removes a key and puts another.
    view.apply(leads(3, 8, 3, 21));
    view.apply(leads(1, 8, 6, 22));
    assert_eq!((view.leader(3).unwrap().term, view.leader(1).unwrap().term), (3, 6));
    view.replace(vec![leads(3, 8, 3, 21)]);
    view.apply(leads(1, 8, 6, 20));
    assert_eq!(view.leader(1), None, "it was not in the list");
}

#[test]
fn a_new_list_counts_even_where_revisions_began_anew() {
    let view = view();
    view.apply(leads(1, 7, 5, 20));
    view.stale(Duration::from_secs(1));
    view.replace(vec![leads(2, 8, 1, 3)]);
    assert_eq!((view.leader(1), view.leader(2).unwrap().term), (None, 1));
    assert_eq!((view.seen(1), view.stale_since()), (5, None));
}

#[test]
fn who_leads_less_goes_before() {
    let view = view();
    let seat = |id: u128| {
        let info = ServerInfo {
            id: Uuid::from_u128(id),
            name: "x".into(),
            address: "a:1".into(),
            peer_address: "a:2".into(),
            version: "1".into(),
            formats: crate::SharedFormats::FIRST,
            regions: Vec::new(),
            key: ServerKey::default(),
            guards: None,
            started_ms: 0,
        };
        let key = KeySpace::new("blue").unwrap().server(info.id).into_bytes();
        KeyCell {
            key,
            value: Some(ServerSeat { info, instance: Uuid::max() }.encode()),
            lease: 9,
            revision: 1,
        }
    };
    view.replace(vec![seat(7), seat(8), leads(1, 7, 1, 1), leads(2, 7, 1, 1)]);
    let wait = |id| view.patience(3, Uuid::from_u128(id));
    assert!(wait(7) > wait(8) && wait(8).is_zero());
    view.apply(leads(1, 8, 2, 2));
    view.apply(leads(2, 8, 2, 3));
    assert!(wait(7).is_zero() && wait(8) > wait(7));
}

#[test]
fn what_is_refused_is_counted_and_nobody_leads_by_it() {
    let view = view();
    let mut cell = leads(1, 7, 5, 20);
    cell.value = Some(b"garbage".to_vec());
    view.apply(cell);
    view.apply(KeyCell { lease: 0, ..leads(2, 7, 5, 21) });
    assert_eq!(view.leaders(), []);
    assert!(matches!(view.throne(1).unwrap().what, Err(Unreadable::Garbage(_))));
    assert!(matches!(view.throne(2).unwrap().what, Err(Unreadable::Garbage(_))));
    assert_eq!(view.tallies.traffic().refused_records, 2);
}
