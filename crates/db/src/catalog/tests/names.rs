//! Databases, aliases, and the names of collections.

use super::{Ease as _, NOW, create, new_catalog, pairs, place};
use crate::catalog::limits::MAX_DATABASES;
use crate::catalog::{CollectionPath, EntryChange, Properties, UnixMs};

fn database(name: &str) -> EntryChange {
    EntryChange::CreateDatabase { name: name.into(), properties: Properties::new() }
}

fn alias(collection: &str, alias: &str) -> EntryChange {
    EntryChange::CreateAlias { place: place(collection), alias: alias.into() }
}

fn drop_alias(alias: &str) -> EntryChange {
    EntryChange::DropAlias { database: "default".into(), alias: alias.into() }
}

#[test]
fn the_default_database_is_there_and_stays() {
    let (catalog, _) = new_catalog();
    let names: Vec<_> = catalog.snapshot().databases().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["default"]);
    let found = catalog.refusal(EntryChange::DropDatabase { name: "default".into() });
    assert_eq!(found, "the database `default` cannot be dropped");
}

#[test]
fn a_database_with_collections_cannot_be_dropped() {
    let (catalog, _) = new_catalog();
    catalog.make(database("other")).unwrap();
    let EntryChange::CreateCollection { new, .. } = create("c", false) else { unreachable!() };
    let there = CollectionPath::new("other", "c");
    catalog.make(EntryChange::CreateCollection { place: there.clone(), new }).unwrap();
    let drop = || EntryChange::DropDatabase { name: "other".into() };
    let expected = "database `other` cannot be dropped: it holds 1 collections; drop them first";
    assert_eq!(catalog.refusal(drop()), expected);
    catalog.make(EntryChange::DropCollection { place: there }).unwrap();
    catalog.make(drop()).unwrap();
    assert_eq!(catalog.refusal(drop()), "database not found[database=other] in `the catalogue`");
}

#[test]
fn databases_have_names_properties_and_a_limit() {
    let (catalog, _) = new_catalog();
    assert!(catalog.refusal(database("a-b")).starts_with("invalid database name `a-b`"));
    let taken = "`default` is already the name of a database in `the catalogue`";
    assert_eq!(catalog.refusal(database("default")), taken);
    for i in 1..MAX_DATABASES {
        catalog.make(database(&format!("d{i}"))).unwrap();
    }
    let full = "`the catalogue` has 64 of kind database already, more are not possible";
    assert_eq!(catalog.refusal(database("more")), full);
    let alter = |set: &[(&str, &str)], remove: &[&str]| EntryChange::AlterDatabase {
        name: "default".into(),
        set: pairs(set),
        remove: remove.iter().map(|key| (*key).into()).collect(),
    };
    assert!(catalog.make(alter(&[("a", "1"), ("b", "2")], &[])).unwrap().changed);
    assert!(!catalog.make(alter(&[("a", "1")], &["c"])).unwrap().changed);
    catalog.make(alter(&[("b", "3")], &["a"])).unwrap();
    let snapshot = catalog.snapshot();
    assert_eq!(snapshot.database("default").unwrap().properties, pairs(&[("b", "3")]));
}

#[test]
fn an_alias_serves_wherever_a_collection_is_meant() {
    let (catalog, _) = new_catalog();
    catalog.make(create("c", false)).unwrap();
    catalog.make(alias("c", "a")).unwrap();
    catalog.make(alias("a", "b")).unwrap();
    assert_eq!(catalog.get("b").name, "c");
    let partition = EntryChange::CreatePartition { place: place("a"), partition: "p".into() };
    catalog.make(partition).unwrap();
    assert!(catalog.get("c").partition("p").is_ok());
    let snapshot = catalog.snapshot();
    let aliases: Vec<_> = snapshot.aliases("default").unwrap().map(|(name, _)| name).collect();
    assert_eq!(aliases, ["a", "b"]);
    assert_eq!(snapshot.aliases_of(&catalog.get("c")), ["a", "b"]);
    assert_eq!(snapshot.alias("default", "a").unwrap().name, "c");
    assert_eq!(snapshot.collections("default").unwrap().count(), 1);
    let error = snapshot.alias("default", "c").unwrap_err();
    assert_eq!(error.to_string(), "alias not found[alias=c] in `default`");
}

#[test]
fn aliases_and_collections_do_not_shadow_each_other() {
    let (catalog, _) = new_catalog();
    catalog.make(create("c", false)).unwrap();
    catalog.make(create("d", false)).unwrap();
    catalog.make(alias("c", "a")).unwrap();
    let collection = "`d` is already the name of a collection in `default`";
    assert_eq!(catalog.refusal(alias("c", "d")), collection);
    let taken = "`a` is already the name of an alias in `default`";
    assert_eq!(catalog.refusal(create("a", false)), taken);
    assert_eq!(catalog.refusal(alias("d", "a")), taken);
    let rename = EntryChange::RenameCollection { place: place("d"), to: place("a") };
    assert_eq!(catalog.refusal(rename), taken);
    assert!(!catalog.make(alias("c", "a")).unwrap().changed, "the same alias again is fine");
}

#[test]
fn an_alias_is_altered_and_dropped() {
    let (catalog, _) = new_catalog();
    catalog.make(create("c", false)).unwrap();
    catalog.make(create("d", false)).unwrap();
    let alter = |alias: &str| EntryChange::AlterAlias { place: place("d"), alias: alias.into() };
    assert_eq!(catalog.refusal(alter("a")), "alias not found[alias=a] in `default`");
    assert_eq!(catalog.refusal(alter("c")), "alias not found[alias=c] in `default`");
    catalog.make(alias("c", "a")).unwrap();
    catalog.make(alter("a")).unwrap();
    assert_eq!(catalog.get("a").name, "d");
    assert_eq!(catalog.refusal(drop_alias("d")), "alias not found[alias=d] in `default`");
    catalog.make(drop_alias("a")).unwrap();
    assert_eq!(catalog.refusal(drop_alias("a")), "alias not found[alias=a] in `default`");
}

#[test]
fn a_collection_is_not_dropped_or_renamed_by_an_alias_nor_dropped_with_one() {
    let (catalog, _) = new_catalog();
    catalog.make(create("c", false)).unwrap();
    catalog.make(alias("c", "a")).unwrap();
    let drop = |name: &str| EntryChange::DropCollection { place: place(name) };
    let by_alias = "cannot drop the collection via alias = a; its name is `c`";
    assert_eq!(catalog.refusal(drop("a")), by_alias);
    let rename = EntryChange::RenameCollection { place: place("a"), to: place("x") };
    let by_alias = "cannot rename the collection via alias = a; its name is `c`";
    assert_eq!(catalog.refusal(rename), by_alias);
    let used = "collection `c` cannot be dropped: it has the aliases a; drop them first";
    assert_eq!(catalog.refusal(drop("c")), used);
    catalog.make(drop_alias("a")).unwrap();
    catalog.make(drop("c")).unwrap();
    assert_eq!(catalog.refusal(drop("c")), "collection not found[collection=c] in `default`");
}

#[test]
fn a_renamed_collection_keeps_its_id_and_aliases() {
    let (catalog, _) = new_catalog();
    catalog.make(create("c", false)).unwrap();
    catalog.make(alias("c", "a")).unwrap();
    let before = catalog.get("c");
    let rename =
        |from: &str, to: CollectionPath| EntryChange::RenameCollection { place: place(from), to };
    catalog.apply(rename("c", place("d")), UnixMs(NOW.0 + 5)).unwrap();
    let after = catalog.get("a");
    assert_eq!((after.id, after.name.as_str()), (before.id, "d"));
    assert_eq!((after.created, after.updated), (NOW, UnixMs(NOW.0 + 5)));
    assert!(!catalog.make(rename("d", place("d"))).unwrap().changed);
    assert!(catalog.refusal(rename("d", place(""))).starts_with("invalid collection name ``"));
    catalog.make(database("other")).unwrap();
    let away = || rename("d", CollectionPath::new("other", "d"));
    assert!(catalog.refusal(away()).contains("it has the aliases a"));
    catalog.make(drop_alias("a")).unwrap();
    catalog.make(away()).unwrap();
    let snapshot = catalog.snapshot();
    assert_eq!(snapshot.collection("other", "d").unwrap().id, before.id);
    assert!(snapshot.collection("default", "d").is_err());
}
