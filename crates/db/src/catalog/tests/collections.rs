//! Creating and altering collections.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Ease as _, NOW, collection_id, create, new_catalog, pairs, place, schema};
use crate::catalog::{ConsistencyLevel, EntryChange, NewCollection, UnixMs};
use crate::ids::ErrorClass;
use crate::schema::{FieldAlteration, FieldSpec};
use crate::value::{DataType, ScalarType};

fn with(edit: impl FnOnce(&mut NewCollection)) -> EntryChange {
    let mut new = NewCollection::new(schema(true));
    edit(&mut new);
    EntryChange::CreateCollection { place: place("c"), new: Box::new(new) }
}

#[test]
fn the_same_collection_again_is_fine_and_another_of_its_name_is_not() {
    let (catalog, store) = new_catalog();
    let created = catalog.make(with(|_| {})).unwrap();
    let saves = store.replaced();
    let again = catalog.make(with(|new| new.partitions = Some(16))).unwrap();
    assert_eq!((again.changed, again.subject), (false, created.subject));
    assert_eq!((again.revision, store.replaced()), (created.revision, saves), "nothing is saved");
    let differs = "create duplicate collection with different parameters, collection: c";
    for other in [
        with(|new| new.partitions = Some(15)),
        with(|new| new.shards = 2),
        with(|new| new.consistency = ConsistencyLevel::Strong),
        with(|new| new.properties = pairs(&[("ttl", "1")])),
        with(|new| new.schema = schema(false)),
    ] {
        assert_eq!(catalog.refusal(other), differs);
    }
}

#[test]
fn what_a_door_noted_of_a_collection_makes_it_no_other_one() {
    let (catalog, _) = new_catalog();
    let asked = |properties: &[(&str, &str)]| {
        let properties = pairs(properties);
        with(|new| new.properties = properties)
    };
    catalog.make(asked(&[("ttl", "1")])).unwrap();
    let noted = EntryChange::AlterCollection {
        place: place("c"),
        set: pairs(&[("pipeann.released", "true")]),
        remove: Vec::new(),
        description: None,
        consistency: None,
    };
    catalog.make(noted).unwrap();
    assert!(!catalog.make(asked(&[("ttl", "1")])).unwrap().changed);
    assert!(!catalog.make(asked(&[("pipeann.released", "true"), ("ttl", "1")])).unwrap().changed);
    assert_eq!(catalog.get("c").properties.len(), 2, "the mark stays");
    for other in [
        asked(&[]),
        asked(&[("ttl", "2")]),
        asked(&[("pipeann.released", "false"), ("ttl", "1")]),
        asked(&[("pipeann.key_type", "open"), ("ttl", "1")]),
    ] {
        assert!(catalog.refusal(other).starts_with("create duplicate collection"));
    }
}

#[test]
fn partitions_of_a_new_collection_follow_its_partition_key() {
    let (catalog, _) = new_catalog();
    catalog.make(create("plain", false)).unwrap();
    let names = |name: &str| {
        let collection = catalog.get(name);
        collection.partitions.into_iter().map(|partition| partition.name).collect::<Vec<_>>()
    };
    assert_eq!(names("plain"), ["_default"]);
    catalog.make(create("keyed", true)).unwrap();
    assert_eq!(names("keyed"), (0..16).map(|i| format!("_default_{i}")).collect::<Vec<_>>());
    let refused = catalog.refusal(with(|new| new.partitions = Some(1025)));
    assert_eq!(refused, "1025 partitions are not possible, 1 to 1024 are");
    catalog.make(with(|new| new.partitions = Some(1024))).unwrap();
    assert_eq!(names("c").len(), 1024);
    let new = NewCollection { partitions: Some(2), ..NewCollection::new(schema(false)) };
    let change = EntryChange::CreateCollection { place: place("x"), new: Box::new(new) };
    let refused = "collection `x` has no partition key, and so no number of partitions";
    assert_eq!(catalog.refusal(change), refused);
}

#[test]
fn names_and_shards_have_limits() {
    let (catalog, _) = new_catalog();
    assert!(catalog.refusal(create("9c", false)).starts_with("invalid collection name `9c`"));
    assert!(catalog.refusal(create(&"c".repeat(256), false)).starts_with("invalid collection"));
    catalog.make(create(&"c".repeat(255), false)).unwrap();
    for shards in [0, 17] {
        let refused = catalog.refusal(with(|new| new.shards = shards));
        assert_eq!(refused, format!("{shards} shards are not possible, 1 to 16 are"));
    }
}

#[test]
fn a_refused_name_asks_for_other_input() {
    let (catalog, _) = new_catalog();
    let error = catalog.make(create("9c", false)).unwrap_err();
    assert_eq!(error.class(), ErrorClass::FixInput);
}

#[test]
fn ids_are_never_used_twice() {
    let (catalog, _) = new_catalog();
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let id = collection_id(catalog.make(create("c", false)).unwrap());
        let partition = catalog.get("c").partitions[0].id;
        assert!(seen.insert(id.0) && seen.insert(partition.0), "{seen:?}");
        catalog.make(EntryChange::DropCollection { place: place("c") }).unwrap();
        assert!(catalog.snapshot().collection_by_id(id).is_none());
    }
}

#[test]
fn what_is_said_about_a_collection_can_change() {
    let (catalog, _) = new_catalog();
    catalog.make(create("c", false)).unwrap();
    let alter = |description: Option<&str>, consistency| EntryChange::AlterCollection {
        place: place("c"),
        set: pairs(&[("k", "v")]),
        remove: vec!["gone".into()],
        description: description.map(str::to_owned),
        consistency,
    };
    let change = || alter(Some("rows"), Some(ConsistencyLevel::Strong));
    catalog.apply(change(), UnixMs(NOW.0 - 500)).unwrap();
    let collection = catalog.get("c");
    assert_eq!(collection.schema.description(), "rows");
    assert_eq!(collection.consistency, ConsistencyLevel::Strong);
    assert_eq!(collection.properties, pairs(&[("k", "v")]));
    assert_eq!(collection.updated, NOW, "a clock that goes backwards does no harm");
    assert!(!catalog.make(change()).unwrap().changed);
    assert!(!catalog.make(alter(None, None)).unwrap().changed);
}

#[test]
fn a_field_is_altered_under_the_next_version_of_the_schema() {
    let (catalog, _) = new_catalog();
    catalog.make(create("c", false)).unwrap();
    let alter = |field: &str, set: &[(&str, &str)]| {
        let alteration = FieldAlteration { set: pairs(set), ..FieldAlteration::default() };
        EntryChange::AlterField { place: place("c"), field: field.into(), alteration }
    };
    catalog.make(alter("tenant", &[("mmap.enabled", "true")])).unwrap();
    assert_eq!(catalog.get("c").schema.version(), 2);
    assert!(!catalog.make(alter("tenant", &[("mmap.enabled", "true")])).unwrap().changed);
    assert_eq!(catalog.refusal(alter("gone", &[])), "the schema declares no field `gone`");
}

#[test]
fn fields_are_added_under_the_next_version_of_the_schema() {
    let (catalog, _) = new_catalog();
    catalog.make(create("c", false)).unwrap();
    let held = catalog.snapshot();
    let spec = FieldSpec::new("more", DataType::Scalar(ScalarType::Bool));
    let add = |spec: FieldSpec| EntryChange::AddField { place: place("c"), field: Box::new(spec) };
    let refused = catalog.refusal(add(spec.clone()));
    assert!(refused.starts_with("field `more`: a field added to a collection"), "{refused}");
    catalog.make(add(spec.nullable())).unwrap();
    let dynamic = || EntryChange::AddDynamicField { place: place("c") };
    catalog.make(dynamic()).unwrap();
    assert!(!catalog.make(dynamic()).unwrap().changed);
    let schema = catalog.get("c").schema;
    assert_eq!((schema.version(), schema.fields().len()), (3, 7));
    let old = Arc::clone(held.collection("default", "c").unwrap());
    assert_eq!(old.schema.version(), 1, "a reader keeps what it had");
}
