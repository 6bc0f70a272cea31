//! The file `CATALOG`: as it is, with changes behind what its length tells of, or its length made
//! right.

use pipeann_db::catalog::Snapshot;

use super::scratch::with_length;
use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &[
    "catalogue",
    "several databases",
    "properties",
    "collection",
    "partitions",
    "alias",
    "vector index",
    "scalar index",
    "dynamic field",
    "default value",
    "version 1",
    "changes",
];

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let read = |bytes: &[u8]| bounded(bytes.len(), || Snapshot::from_file_bytes(bytes));
    let sized = with_length(data);
    let as_it_is = read(data);
    reached.mark("changes", as_it_is.is_ok() && sized != data);
    let Ok(catalogue) = as_it_is.or_else(|_| read(&sized)) else { return };
    reached.mark("catalogue", true);
    reached.mark("version 1", data[8] == 1);
    reached.mark("several databases", catalogue.databases().count() > 1);
    for (name, database) in catalogue.databases() {
        reached.mark("properties", !database.properties.is_empty());
        // What was read is whole: every name leads somewhere.
        let aliases = catalogue.aliases(name).expect("a database that is listed");
        reached.mark("alias", aliases.count() > 0);
        for collection in catalogue.collections(name).expect("a database that is listed") {
            reached.mark("collection", true);
            assert!(catalogue.collection(name, &collection.name).is_ok());
            reached.mark("partitions", collection.partitions.len() > 1);
            reached.mark("dynamic field", collection.schema.dynamic_position().is_some());
            for field in collection.schema.fields() {
                reached.mark("default value", field.spec.default.is_some());
            }
            for index in &collection.indexes {
                reached.mark("vector index", index.metric.is_some());
                reached.mark("scalar index", index.metric.is_none());
            }
        }
    }
}
