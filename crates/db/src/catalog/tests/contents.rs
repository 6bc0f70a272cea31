//! Partitions, indexes, and what is loaded.

use std::collections::BTreeSet;

use super::{Ease as _, create, index, new_catalog, pairs, place};
use crate::catalog::limits::MAX_PARTITIONS;
use crate::catalog::{
    Catalog, EntryChange, IndexState, NewIndex, Subject, WantedLoad, WriteTarget, is_exact_kind,
};
use crate::ids::Metric;

fn catalog_with(name: &str, keyed: bool) -> Catalog {
    let (catalog, _) = new_catalog();
    catalog.make(create(name, keyed)).unwrap();
    catalog
}

fn partition(name: &str) -> EntryChange {
    EntryChange::CreatePartition { place: place("c"), partition: name.into() }
}

fn drop_partition(name: &str) -> EntryChange {
    EntryChange::DropPartition { place: place("c"), partition: name.into() }
}

fn load(names: &[&str]) -> EntryChange {
    EntryChange::Load { place: place("c"), partitions: Some(owned(names)) }
}

fn release(names: &[&str]) -> EntryChange {
    EntryChange::Release { place: place("c"), partitions: Some(owned(names)) }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).into()).collect()
}

fn create_index(new: NewIndex) -> EntryChange {
    EntryChange::CreateIndex { place: place("c"), new }
}

#[test]
fn partitions_come_and_go_but_for_the_default() {
    let catalog = catalog_with("c", false);
    let made = catalog.make(partition("p")).unwrap();
    let again = catalog.make(partition("p")).unwrap();
    assert_eq!((again.changed, again.subject), (false, made.subject));
    assert!(catalog.refusal(partition("p q")).starts_with("invalid partition name `p q`"));
    let permanent = "the partition `_default` cannot be dropped";
    assert_eq!(catalog.refusal(drop_partition("_default")), permanent);
    assert_eq!(catalog.make(drop_partition("p")).unwrap().subject, made.subject);
    let missing = "partition not found[partition=p] in `c`";
    assert_eq!(catalog.refusal(drop_partition("p")), missing);
}

#[test]
fn the_number_of_partitions_is_bounded() {
    let catalog = catalog_with("c", false);
    for i in 1..MAX_PARTITIONS {
        catalog.make(partition(&format!("p{i}"))).unwrap();
    }
    let full = "`c` has 1024 of kind partition already, more are not possible";
    assert_eq!(catalog.refusal(partition("more")), full);
}

#[test]
fn partitions_of_a_partition_key_cannot_be_named() {
    let catalog = catalog_with("c", true);
    let refused = "collection `c` has a partition key, its partitions cannot be named";
    assert_eq!(catalog.refusal(partition("p")), refused);
    assert_eq!(catalog.refusal(drop_partition("_default_0")), refused);
    let collection = catalog.get("c");
    let error = collection.write_target(Some("_default_0")).unwrap_err();
    assert_eq!(error.to_string(), refused);
    let Ok(WriteTarget::ByKey(partitions)) = collection.write_target(None) else { panic!() };
    assert_eq!(partitions.len(), 16);
}

#[test]
fn rows_go_to_the_named_partition_or_the_default() {
    let catalog = catalog_with("c", false);
    catalog.make(partition("p")).unwrap();
    let collection = catalog.get("c");
    let name = |partition| match collection.write_target(partition) {
        Ok(WriteTarget::One(partition)) => partition.name.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((name(None), name(Some("p"))), ("_default".into(), "p".into()));
    let error = collection.write_target(Some("q")).unwrap_err();
    assert_eq!(error.to_string(), "partition not found[partition=q] in `c`");
}

#[test]
fn partitions_are_loaded_and_released_one_by_one() {
    let catalog = catalog_with("c", false);
    for name in ["p", "q"] {
        catalog.make(partition(name)).unwrap();
    }
    let ids = |names: &[&str]| -> BTreeSet<_> {
        let collection = catalog.get("c");
        names.iter().map(|name| collection.partition(name).unwrap().id).collect()
    };
    let is = |load: WantedLoad| assert_eq!(catalog.get("c").load, load);
    catalog.make(load(&["p"])).unwrap();
    is(WantedLoad::Partitions(ids(&["p"])));
    let used = "partition `p` cannot be dropped: it is loaded; release it first";
    assert_eq!(catalog.refusal(drop_partition("p")), used);
    catalog.make(load(&["q"])).unwrap();
    is(WantedLoad::Partitions(ids(&["p", "q"])));
    assert!(!catalog.make(load(&["q"])).unwrap().changed);
    catalog.make(release(&["p"])).unwrap();
    is(WantedLoad::Partitions(ids(&["q"])));
    catalog.make(release(&["q"])).unwrap();
    is(WantedLoad::Released);
    assert_eq!(catalog.refusal(load(&["x"])), "partition not found[partition=x] in `c`");
    catalog.make(drop_partition("p")).unwrap();
}

#[test]
fn a_whole_collection_is_loaded_and_parts_of_it_released() {
    let catalog = catalog_with("c", false);
    catalog.make(partition("p")).unwrap();
    let whole = || EntryChange::Load { place: place("c"), partitions: None };
    catalog.make(whole()).unwrap();
    assert!(!catalog.make(load(&["p"])).unwrap().changed, "it is loaded already");
    assert!(catalog.get("c").load.includes(catalog.get("c").partition("p").unwrap().id));
    catalog.make(release(&["p"])).unwrap();
    let default = catalog.get("c").partition("_default").unwrap().id;
    assert_eq!(catalog.get("c").load, WantedLoad::Partitions([default].into()));
    catalog.make(whole()).unwrap();
    catalog.make(EntryChange::Release { place: place("c"), partitions: None }).unwrap();
    assert_eq!(catalog.get("c").load, WantedLoad::Released);
}

#[test]
fn an_index_is_named_for_its_field_and_there_is_one() {
    let catalog = catalog_with("c", false);
    let made = catalog.make(create_index(index("vector"))).unwrap();
    let there = catalog.get("c").index("vector").unwrap().clone();
    assert_eq!(there.state, IndexState::NotBuilt);
    assert_eq!(Subject::Index(catalog.get("c").id, there.id), made.subject);
    assert!(!catalog.make(create_index(index("vector"))).unwrap().changed, "the same is fine");
    for other in [
        NewIndex { metric: Some(Metric::Cosine), ..index("vector") },
        NewIndex { kind: "HNSW".into(), ..index("vector") },
        NewIndex { parameters: pairs(&[("M", "8")]), ..index("vector") },
        NewIndex { name: Some("other".into()), ..index("vector") },
    ] {
        assert_eq!(
            catalog.refusal(create_index(other)),
            "field `vector`: it has the index `vector` already; at most one distinct index is \
             allowed per field"
        );
    }
    let taken = NewIndex { name: Some("vector".into()), ..index("tenant") };
    let expected = "`vector` is already the name of an index in `c`";
    assert_eq!(catalog.refusal(create_index(taken)), expected);
}

#[test]
fn an_index_that_cannot_be_is_refused_by_name() {
    let catalog = catalog_with("c", false);
    let kind = |field: &str, kind: &str| NewIndex { kind: kind.into(), ..index(field) };
    for (new, expected) in [
        (index("gone"), "field not found[field=gone] in `c`"),
        (index("words"), "field `words`: sparse_float_vector cannot be indexed in this version"),
        (
            kind("vector", "GPU_CAGRA"),
            "field `vector`: `GPU_CAGRA` is no index type for float_vector",
        ),
        (kind("vector", "STL_SORT"), "field `vector`: `STL_SORT` is no index type"),
        (kind("tenant", "HNSW"), "field `tenant`: `HNSW` is no index type for int64"),
        (
            NewIndex { metric: None, ..index("vector") },
            "field `vector`: an index on a vector needs",
        ),
        (
            NewIndex { metric: Some(Metric::L2), ..index("tenant") },
            "field `tenant`: an index on int64 has no metric",
        ),
        (NewIndex { name: Some("a b".into()), ..index("vector") }, "invalid index name `a b`"),
    ] {
        let refused = catalog.refusal(create_index(new));
        assert!(refused.starts_with(expected), "{refused}");
    }
}

#[test]
fn scans_go_by_two_names() {
    for name in ["FLAT", "BRUTE_FORCE"] {
        let catalog = catalog_with("c", false);
        catalog.make(create_index(NewIndex { kind: name.into(), ..index("vector") })).unwrap();
        assert!(is_exact_kind(&catalog.get("c").index("vector").unwrap().kind));
    }
}

#[test]
fn a_json_field_has_an_index_for_each_path() {
    let catalog = catalog_with("c", false);
    let of = |path: &str, name: &str| NewIndex {
        name: Some(name.into()),
        parameters: pairs(&[("json_path", path)]),
        kind: "INVERTED".into(),
        ..index("json")
    };
    catalog.make(create_index(of("json['a']", "a"))).unwrap();
    catalog.make(create_index(of("json['b']", "b"))).unwrap();
    let second = catalog.refusal(create_index(of("json['a']", "c")));
    assert!(second.starts_with("field `json`: it has the index `a` already"), "{second}");
    let field = catalog.get("c").schema.field("json").unwrap().id;
    assert_eq!(catalog.get("c").indexes_of(field).count(), 2);
    let alter = |set: &[(&str, &str)]| EntryChange::AlterIndex {
        place: place("c"),
        index: "a".into(),
        set: pairs(set),
        remove: vec![],
    };
    catalog.make(alter(&[("mmap.enabled", "true")])).unwrap();
    let refused = catalog.refusal(alter(&[("json_path", "json['b']")]));
    assert!(refused.starts_with("field `json`: the json_path of index `a` cannot"), "{refused}");
}

#[test]
fn a_build_reports_by_id_and_not_to_a_later_index_of_the_name() {
    let catalog = catalog_with("c", false);
    let Subject::Index(collection, first) =
        catalog.make(create_index(index("vector"))).unwrap().subject
    else {
        panic!()
    };
    let set = |index, state| EntryChange::SetIndexState { collection, index, state };
    let building = IndexState::Building { rows_done: 5, rows: 9 };
    catalog.make(set(first, building.clone())).unwrap();
    assert_eq!(catalog.get("c").index("vector").unwrap().state, building);
    assert!(!catalog.make(set(first, building)).unwrap().changed);
    let beyond = catalog.refusal(set(first, IndexState::Building { rows_done: 10, rows: 9 }));
    assert_eq!(beyond, "field `vector`: 10 rows of 9 cannot be done");
    catalog.make(EntryChange::DropIndex { place: place("c"), index: "vector".into() }).unwrap();
    catalog.make(create_index(index("vector"))).unwrap();
    let late = catalog.refusal(set(first, IndexState::Finished { rows: 9 }));
    assert_eq!(late, format!("index not found[index=id {}] in `the catalogue`", first.0));
}

#[test]
fn a_vector_index_is_dropped_only_while_nothing_is_loaded() {
    let catalog = catalog_with("c", false);
    catalog.make(create_index(index("vector"))).unwrap();
    catalog.make(create_index(index("tenant"))).unwrap();
    catalog.make(load(&["_default"])).unwrap();
    let drop = |name: &str| EntryChange::DropIndex { place: place("c"), index: name.into() };
    let used = "index `vector` cannot be dropped: it is loaded; release it first";
    assert_eq!(catalog.refusal(drop("vector")), used);
    catalog.make(drop("tenant")).unwrap();
    catalog.make(release(&["_default"])).unwrap();
    catalog.make(drop("vector")).unwrap();
    assert_eq!(catalog.refusal(drop("vector")), "index not found[index=vector] in `c`");
}
