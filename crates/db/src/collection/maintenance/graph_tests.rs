//! Graphs beside whoever else holds them, and beside the log.

use crate::catalog::EntryChange;
use crate::collection::fixture::{Fixture, batch, options};
use crate::field_index::FieldIndex;
use crate::wal::Level;

#[test]
fn a_graph_that_was_dropped_is_not_written_by_whoever_holds_it() {
    let fixture = Fixture::new(options());
    fixture.build(0..400);
    let (c, field) = (&fixture.collection, fixture.field());
    c.upsert(batch(400..450), None).unwrap();
    c.wait_for_index("graph").unwrap();
    let held = fixture.graph();
    assert!(held.is_changed());
    let index = c.entry().unwrap().indexes[0].id;
    fixture.apply(EntryChange::Release { place: Fixture::place(), partitions: None });
    let index_name = "graph".to_owned();
    fixture.apply(EntryChange::DropIndex { place: Fixture::place(), index: index_name });
    c.drop_graph(index, field.id);
    // A flush that had looked for it before.
    c.write_graph(field, &held, FieldIndex::checkpoint).unwrap();
    assert!(held.is_changed() && !c.graph_dir(index).exists());
}

#[test]
fn what_a_graph_is_built_of_is_in_the_log_on_stable_storage() {
    let mut options = options();
    options.log.level = Level::None;
    let fixture = Fixture::new(options);
    let c = &fixture.collection;
    c.upsert(batch(0..400), None).unwrap();
    assert!(c.log.durable() < c.log.last(), "nothing was synced");
    fixture.build(400..500);
    let applied = fixture.graph().applied();
    assert!(c.log.durable() >= applied, "{:?} of {applied:?}", c.log.durable());
}
