//! A naive model of the catalogue: lists that are searched from front to back.

use crate::catalog::{Catalog, CatalogError, CollectionPath, EntryChange, WantedLoad};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct MCollection {
    database: String,
    name: String,
    keyed: bool,
    aliases: Vec<String>,
    partitions: Vec<String>,
    indexes: Vec<String>,
    /// Whether all partitions are loaded; else those in `loaded` are.
    whole: bool,
    loaded: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    databases: Vec<String>,
    collections: Vec<MCollection>,
}

/// Whether something changed, or the name of the refusal.
pub(super) type Outcome = Result<bool, &'static str>;

impl Model {
    /// The default database and nothing in it.
    pub(super) fn new() -> Self {
        Self { databases: vec!["default".into()], collections: vec![] }
    }

    fn database(&self, name: &str) -> Result<(), &'static str> {
        self.databases.iter().any(|d| d == name).then_some(()).ok_or("NotFound")
    }

    fn find(&mut self, at: &CollectionPath) -> Result<&mut MCollection, &'static str> {
        self.database(&at.database)?;
        let means = |c: &&mut MCollection| {
            c.database == at.database
                && (c.name == at.collection || c.aliases.contains(&at.collection))
        };
        self.collections.iter_mut().find(means).ok_or("NotFound")
    }

    fn free(&mut self, at: &CollectionPath) -> Result<(), &'static str> {
        self.database(&at.database)?;
        if self.find(at).is_ok() { Err("Exists") } else { Ok(()) }
    }

    fn by_own_name(&mut self, at: &CollectionPath) -> Result<MCollection, &'static str> {
        let found = self.find(at)?.clone();
        if found.name == at.collection { Ok(found) } else { Err("ViaAlias") }
    }

    /// Makes a change; after a refusal nothing has changed.
    pub(super) fn apply(&mut self, change: &EntryChange) -> Outcome {
        match change {
            EntryChange::CreateDatabase { name, .. } => {
                if self.database(name).is_ok() {
                    return Err("Exists");
                }
                self.databases.push(name.clone());
                Ok(true)
            }
            EntryChange::DropDatabase { name } => {
                self.database(name)?;
                if name == "default" {
                    return Err("Permanent");
                }
                if self.collections.iter().any(|c| c.database == *name) {
                    return Err("InUse");
                }
                self.databases.retain(|d| d != name);
                Ok(true)
            }
            EntryChange::CreateCollection { place, new } => {
                check_name(&place.collection)?;
                self.database(&place.database)?;
                let keyed = new.schema.partition_key_position().is_some();
                if let Ok(there) = self.find(place)
                    && there.name == place.collection
                {
                    return if there.keyed == keyed { Ok(false) } else { Err("Differs") };
                }
                self.free(place)?;
                let partitions = if keyed {
                    (0..16).map(|i| format!("_default_{i}")).collect()
                } else {
                    vec!["_default".into()]
                };
                self.collections.push(MCollection {
                    database: place.database.clone(),
                    name: place.collection.clone(),
                    keyed,
                    aliases: vec![],
                    partitions,
                    indexes: vec![],
                    whole: false,
                    loaded: vec![],
                });
                Ok(true)
            }
            EntryChange::DropCollection { place } => {
                let found = self.by_own_name(place)?;
                if !found.aliases.is_empty() {
                    return Err("InUse");
                }
                self.collections.retain(|c| *c != found);
                Ok(true)
            }
            EntryChange::RenameCollection { place, to } => {
                check_name(&to.collection)?;
                let found = self.by_own_name(place)?;
                if place == to {
                    return Ok(false);
                }
                self.free(to)?;
                if place.database != to.database && !found.aliases.is_empty() {
                    return Err("InUse");
                }
                let there = self.find(place)?;
                there.database.clone_from(&to.database);
                there.name.clone_from(&to.collection);
                Ok(true)
            }
            EntryChange::CreateAlias { place, alias } => {
                check_name(alias)?;
                if self.find(place)?.aliases.contains(alias) {
                    return Ok(false);
                }
                self.free(&CollectionPath::new(&place.database, alias))?;
                self.find(place)?.aliases.push(alias.clone());
                Ok(true)
            }
            EntryChange::AlterAlias { place, alias } => {
                self.unalias(&place.database, alias).map(|_| ())?;
                let there = self.find(place)?;
                if there.aliases.contains(alias) {
                    return Ok(false);
                }
                self.unalias(&place.database, alias)?.aliases.retain(|a| a != alias);
                // The place may have been named by this very alias; then nothing changed above.
                self.find(place)?.aliases.push(alias.clone());
                Ok(true)
            }
            EntryChange::DropAlias { database, alias } => {
                self.unalias(database, alias)?.aliases.retain(|a| a != alias);
                Ok(true)
            }
            EntryChange::CreatePartition { place, partition } => {
                check_name(partition)?;
                let there = self.find(place)?;
                if there.keyed {
                    return Err("PartitionKeyed");
                }
                if there.partitions.contains(partition) {
                    return Ok(false);
                }
                there.partitions.push(partition.clone());
                Ok(true)
            }
            EntryChange::DropPartition { place, partition } => {
                let there = self.find(place)?;
                if there.keyed {
                    return Err("PartitionKeyed");
                }
                if !there.partitions.contains(partition) {
                    return Err("NotFound");
                }
                if partition == "_default" {
                    return Err("Permanent");
                }
                if there.whole || there.loaded.contains(partition) {
                    return Err("InUse");
                }
                there.partitions.retain(|p| p != partition);
                Ok(true)
            }
            EntryChange::CreateIndex { place, new } => {
                let there = self.find(place)?;
                match new.field.as_str() {
                    "gone" => return Err("NotFound"),
                    "words" => return Err("Index"),
                    _ => {}
                }
                if there.indexes.contains(&new.field) {
                    return Ok(false);
                }
                there.indexes.push(new.field.clone());
                Ok(true)
            }
            EntryChange::DropIndex { place, index } => {
                let there = self.find(place)?;
                if !there.indexes.contains(index) {
                    return Err("NotFound");
                }
                if index == "vector" && (there.whole || !there.loaded.is_empty()) {
                    return Err("InUse");
                }
                there.indexes.retain(|i| i != index);
                Ok(true)
            }
            EntryChange::Load { place, partitions } => {
                let there = self.find(place)?;
                let before = there.clone();
                match partitions {
                    None => {
                        there.whole = true;
                        there.loaded.clear();
                    }
                    Some(names) => {
                        if names.iter().any(|name| !there.partitions.contains(name)) {
                            return Err("NotFound");
                        }
                        for name in names {
                            if !there.whole && !there.loaded.contains(name) {
                                there.loaded.push(name.clone());
                            }
                        }
                        there.loaded.sort_unstable();
                    }
                }
                Ok(*there != before)
            }
            EntryChange::Release { place, partitions } => {
                let there = self.find(place)?;
                let before = there.clone();
                match partitions {
                    None => {
                        there.whole = false;
                        there.loaded.clear();
                    }
                    Some(names) => {
                        if names.iter().any(|name| !there.partitions.contains(name)) {
                            return Err("NotFound");
                        }
                        if there.whole && !names.is_empty() {
                            there.whole = false;
                            there.loaded = there.partitions.clone();
                        }
                        there.loaded.retain(|name| !names.contains(name));
                        there.loaded.sort_unstable();
                    }
                }
                Ok(*there != before)
            }
            other => unreachable!("{other:?} is not generated"),
        }
    }

    /// The collection with this alias.
    fn unalias(&mut self, database: &str, alias: &str) -> Result<&mut MCollection, &'static str> {
        let at = CollectionPath::new(database, alias);
        let found = self.find(&at)?;
        if found.aliases.iter().any(|a| a == alias) { Ok(found) } else { Err("NotFound") }
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if name.contains(' ') { Err("Name") } else { Ok(()) }
}

/// The name that the model has for an error.
pub(super) fn refusal(error: &CatalogError) -> &'static str {
    match error {
        CatalogError::NotFound { .. } => "NotFound",
        CatalogError::Exists { .. } => "Exists",
        CatalogError::Differs { .. } => "Differs",
        CatalogError::InUse { .. } => "InUse",
        CatalogError::Permanent { .. } => "Permanent",
        CatalogError::ViaAlias { .. } => "ViaAlias",
        CatalogError::PartitionKeyed { .. } => "PartitionKeyed",
        CatalogError::Index { .. } => "Index",
        CatalogError::Name(_) => "Name",
        other => panic!("{other} was not expected"),
    }
}

/// All that a reader sees, as the model has it.
pub(super) fn seen(catalog: &Catalog) -> (Vec<String>, Vec<MCollection>) {
    let snapshot = catalog.snapshot();
    let databases: Vec<String> = snapshot.databases().map(|(name, _)| name.to_owned()).collect();
    let mut collections = Vec::new();
    for database in &databases {
        for collection in snapshot.collections(database).unwrap() {
            let partitions = || collection.partitions.iter();
            let whole = collection.load == WantedLoad::Whole;
            let mut loaded: Vec<String> = partitions()
                .filter(|partition| !whole && collection.load.includes(partition.id))
                .map(|partition| partition.name.clone())
                .collect();
            loaded.sort_unstable();
            let aliases = snapshot.aliases_of(collection);
            for alias in &aliases {
                assert_eq!(snapshot.collection(database, alias).unwrap().id, collection.id);
            }
            collections.push(MCollection {
                database: database.clone(),
                name: collection.name.clone(),
                keyed: collection.has_partition_key(),
                aliases: aliases.into_iter().map(str::to_owned).collect(),
                partitions: partitions().map(|partition| partition.name.clone()).collect(),
                indexes: collection.indexes.iter().map(|index| index.name.clone()).collect(),
                whole,
                loaded,
            });
        }
    }
    (databases, collections)
}

/// The same of the model.
pub(super) fn of_model(model: &Model) -> (Vec<String>, Vec<MCollection>) {
    let mut model = model.clone();
    model.databases.sort_unstable();
    model.collections.iter_mut().for_each(|collection| collection.aliases.sort_unstable());
    model.collections.sort_by_key(|c| (c.database.clone(), c.name.clone()));
    (model.databases, model.collections)
}
