//! Rows that enter the graph of a server that follows by the links of the one that leads.

use std::sync::Arc;

use pipeann_db::collection::Collection;
use pipeann_db::field_index::LinkOf;
use pipeann_db::ids::RowId;
use pipeann_db::replication::MemoryLog;
use pipeann_db::schema::FieldId;

use crate::data::{batch, create, eventually, keys, rows, search_by, vector};
use crate::shared::{Server, graph, insert};

/// A leader whose graph has 900 rows, and a server that follows, with a graph of its own.
struct Pair {
    _dirs: [tempfile::TempDir; 2],
    leader: Server,
    follower: Server,
    led: Arc<Collection>,
    following: Arc<Collection>,
}

impl Pair {
    fn new() -> Self {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let log = MemoryLog::default();
        let mut leader = Server::open(dirs[0].path(), &log, 0);
        let mut follower = Server::open(dirs[1].path(), &log, 0);
        leader.lead();
        let led = create(&leader.database);
        insert(&led, 0..900);
        leader.database.apply(graph()).unwrap();
        led.build_index("graph").unwrap();
        led.wait_for_index("graph").unwrap();
        follower.catch_up();
        let following = follower.collection();
        assert_eq!(following.wait_for_index("graph").unwrap().linked, 900);
        Self { _dirs: dirs, leader, follower, led, following }
    }

    /// Rows that both have, and that the leader has linked.
    fn insert_linked(&mut self, some: std::ops::Range<i64>) {
        insert(&self.led, some);
        assert_eq!(self.led.wait_for_index("graph").unwrap().pending, 0);
        self.follower.catch_up();
    }

    /// What the follower wants to know of its only field.
    fn wanted(&self) -> (FieldId, Vec<RowId>) {
        let mut wanted = self.following.links_wanted();
        assert_eq!(wanted.len(), 1);
        wanted.remove(0)
    }

    fn pending(&self) -> u64 {
        self.following.index_status("graph").unwrap().pending
    }
}

#[test]
fn a_server_that_follows_links_rows_as_the_leader_has() {
    let mut pair = Pair::new();
    assert!(pair.following.links_wanted().is_empty(), "nothing waits");
    assert!(pair.led.links_wanted().is_empty());
    pair.following.expect_links(true);
    pair.insert_linked(1_000..1_400);
    pair.led.delete(&keys(&[1_001])).unwrap();
    let (field, wanted) = pair.wanted();
    assert_eq!(wanted.len(), 400, "none of them was linked here");
    let told = pair.led.links_of(field, &wanted);
    assert!(told.iter().all(|told| matches!(told, LinkOf::Made { .. })));
    // In any order; one is gone meanwhile.
    pair.follower.catch_up();
    let told = wanted.iter().copied().zip(told).rev();
    pair.following.tell_links(field, told);
    assert_eq!(pair.following.wait_for_index("graph").unwrap().pending, 0);
    eventually(|| pair.following.adopted_links(), |&adopted| adopted == 399);
    assert_eq!(rows(&pair.following), rows(&pair.led));
    let found = search_by(&pair.following, 1, vector(1_200));
    assert_eq!(found[0].row.key, keys(&[1_200])[0]);
    // They are in its graph on disk, as those that it has linked.
    pair.following.flush().unwrap();
    let damage = pair.follower.database.verify().unwrap();
    assert!(damage.is_empty(), "{damage:?}");
}

#[test]
fn rows_of_which_the_leader_knows_nothing_are_linked_here() {
    let mut pair = Pair::new();
    pair.following.expect_links(true);
    pair.insert_linked(1_000..1_100);
    let (field, wanted) = pair.wanted();
    let told = |told: LinkOf| wanted.iter().copied().map(move |row| (row, told.clone()));
    pair.following.tell_links(field, told(LinkOf::Waits));
    assert_eq!(pair.wanted().1, wanted, "they are asked for again");
    // Of another row, and of another field.
    let LinkOf::Made { link, .. } = pair.led.links_of(field, &wanted).remove(0) else {
        panic!("it is kept")
    };
    let made = LinkOf::Made { order: 0, link };
    pair.following.tell_links(field, [(wanted[1], made.clone())]);
    pair.following.tell_links(FieldId(77), [(wanted[0], made)]);
    assert_eq!((pair.wanted().1, pair.pending()), (wanted.clone(), 100));
    let nobody = pair.led.links_of(field, &[RowId(1 << 40)]);
    assert_eq!(
        (nobody, pair.led.links_of(FieldId(77), &wanted[..1])),
        (vec![LinkOf::Unknown], vec![LinkOf::Unknown])
    );
    pair.following.tell_links(field, told(LinkOf::Unknown));
    assert!(pair.following.links_wanted().is_empty(), "nobody is asked for them any more");
    assert_eq!(pair.following.wait_for_index("graph").unwrap().pending, 0);
    assert_eq!(pair.following.adopted_links(), 0);
}

#[test]
fn rows_are_linked_here_when_links_come_no_more_and_when_this_server_leads() {
    let mut pair = Pair::new();
    pair.following.expect_links(true);
    pair.insert_linked(1_000..1_100);
    assert_eq!(pair.pending(), 100);
    pair.following.expect_links(false);
    assert_eq!(pair.following.wait_for_index("graph").unwrap().pending, 0);
    pair.following.expect_links(true);
    pair.insert_linked(1_100..1_200);
    pair.leader.database.follow().unwrap();
    pair.follower.lead();
    pair.following.insert(batch(&[(2_000, 2_000)]), None).unwrap();
    assert_eq!(pair.following.wait_for_index("graph").unwrap().pending, 0);
    // Both again, the other way round.
    pair.led.expect_links(true);
    pair.leader.catch_up();
    let wanted = pair.led.links_wanted();
    assert_eq!(wanted.len(), 1);
    let (field, wanted) = &wanted[0];
    let told = pair.following.links_of(*field, wanted);
    let told = wanted.iter().copied().zip(told);
    pair.led.tell_links(*field, told);
    assert_eq!(pair.led.wait_for_index("graph").unwrap().pending, 0);
    // They are counted when they are in the graph.
    eventually(|| pair.led.adopted_links(), |&adopted| adopted == 1);
}
