//! The file: pinned bytes, and every damage refused by name.

use std::path::PathBuf;

use proptest::prelude::*;

use super::{Ease as _, NOW, create, index, new_catalog, pairs, place};
use crate::catalog::file;
use crate::catalog::limits::{MAX_ALIASES, MAX_COLLECTIONS, MAX_DATABASES, MAX_PARTITIONS};
use crate::catalog::{
    CATALOG_MAGIC, CATALOG_VERSION, CHANGE_MAGIC, Catalog, CatalogError, CollectionPath,
    EntryChange, FileError, IndexState, KIND_CHANGE, KIND_CHANGE_MARK, MemoryStore, NewCollection,
    Properties, Snapshot, Subject, change_header, file_header,
};
use crate::files::documentation::{DOCUMENT, assert_numbers, assert_table};
use crate::ids::ErrorClass;
use crate::schema::{FieldSpec, Schema};
use crate::value::{DataType, ScalarType, VectorKind};

/// A file with this body, put together as `docs/database-format.md` says.
fn seal(body: &str) -> Vec<u8> {
    let mut bytes = b"PIPECATL\x03\0\0\0\0\0\0\0".to_vec();
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body.as_bytes());
    bytes.extend(crc_fast::crc64_nvme(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Snapshot, FileError> {
    file::decode(bytes).map(|decoded| decoded.snapshot)
}

fn encode(snapshot: &Snapshot) -> Vec<u8> {
    file::encode(snapshot).0
}

fn body(file: &[u8]) -> &str {
    std::str::from_utf8(&file[24..file.len() - 8]).unwrap()
}

/// A catalogue with one of everything.
fn rich() -> (Catalog, MemoryStore) {
    let (catalog, store) = new_catalog();
    let properties = pairs(&[("owner", "ä")]);
    catalog.make(EntryChange::CreateDatabase { name: "other".into(), properties }).unwrap();
    catalog.make(create("c", false)).unwrap();
    let EntryChange::CreateCollection { new, .. } = create("k", true) else { unreachable!() };
    let mut new = new;
    new.partitions = Some(2);
    let keyed = CollectionPath::new("other", "k");
    catalog.make(EntryChange::CreateCollection { place: keyed, new }).unwrap();
    catalog.make(EntryChange::CreateAlias { place: place("c"), alias: "a".into() }).unwrap();
    catalog
        .make(EntryChange::CreatePartition { place: place("c"), partition: "p".into() })
        .unwrap();
    let made = catalog.make(EntryChange::CreateIndex { place: place("c"), new: index("vector") });
    let Subject::Index(collection, id) = made.unwrap().subject else { unreachable!() };
    let state = IndexState::Building { rows_done: 1, rows: 2 };
    catalog.make(EntryChange::SetIndexState { collection, index: id, state }).unwrap();
    catalog.make(EntryChange::CreateIndex { place: place("c"), new: index("tenant") }).unwrap();
    let partitions = Some(vec!["p".into()]);
    catalog.make(EntryChange::Load { place: place("c"), partitions }).unwrap();
    (catalog, store)
}

/// The file of [`rich`] without changes behind it.
fn rich_file() -> Vec<u8> {
    encode(&rich().0.snapshot())
}

fn open(file: Vec<u8>) -> Result<Catalog, CatalogError> {
    Catalog::open(Box::new(MemoryStore::holding(file)))
}

#[test]
fn a_saved_catalogue_comes_back() {
    let (catalog, store) = rich();
    let opened = open(store.file().unwrap()).unwrap();
    assert_eq!(opened.snapshot(), catalog.snapshot());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "regenerates the file on a developer's wish")]
fn golden_catalogue() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/catalogue.json");
    let file = rich_file();
    if std::env::var_os("PIPEANN_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("{}\n", body(&file))).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(body(&file), golden.trim_end(), "the body of the file has changed");
    assert_eq!(file, seal(golden.trim_end()), "the frame of the file has changed");
}

#[test]
fn a_catalogue_that_was_lost_is_not_an_empty_one() {
    let error = Catalog::open(Box::new(MemoryStore::default())).err().unwrap();
    assert!(matches!(error, CatalogError::Missing));
    let (_, store) = rich();
    let before = store.file();
    let error = Catalog::create(Box::new(store.clone()), NOW).err().unwrap();
    assert!(matches!(error, CatalogError::AlreadyThere));
    assert_eq!(store.file(), before);
}

#[test]
fn every_cut_is_refused_by_name() {
    let file = rich_file();
    for length in 0..file.len() {
        let error = decode(&file[..length]).unwrap_err();
        let named = matches!(error, FileError::Short { .. } | FileError::Length { .. });
        assert!(named, "cut to {length}: {error}");
    }
    let longer = [&of_version(2, &file)[..], &[0]].concat();
    assert!(matches!(decode(&longer), Err(FileError::Length { .. })));
}

#[test]
fn every_flipped_bit_is_refused_by_name() {
    let mut file = rich_file();
    for bit in 0..file.len() * 8 {
        file[bit / 8] ^= 1 << (bit % 8);
        let error = decode(&file).unwrap_err();
        let named = match bit / 8 {
            0..8 => error == FileError::Magic,
            // Of another version that is read, whose checksum it does not have.
            8..12 => matches!(error, FileError::Version { .. } | FileError::Checksum { .. }),
            // Where it says less, what it says ends elsewhere.
            16..24 => {
                matches!(error, FileError::Length { .. } | FileError::Checksum { .. })
            }
            _ => matches!(error, FileError::Checksum { .. }),
        };
        assert!(named, "bit {bit}: {error}");
        file[bit / 8] ^= 1 << (bit % 8);
    }
}

/// The file as an earlier version wrote it.
fn of_version(version: u8, file: &[u8]) -> Vec<u8> {
    let mut covered = file[..file.len() - 8].to_vec();
    covered[8] = version;
    let checksum = crc_fast::crc64_nvme(&covered).to_le_bytes();
    [covered, checksum.to_vec()].concat()
}

#[test]
fn version_1_is_read_unless_it_kept_vectors_in_rows() {
    let (catalog, _) = rich();
    let opened = open(of_version(1, &rich_file())).unwrap();
    assert_eq!(opened.snapshot(), catalog.snapshot());
    for kind in [VectorKind::Float16, VectorKind::BFloat16, VectorKind::Int8, VectorKind::Binary] {
        let (catalog, _) = new_catalog();
        let schema = Schema::builder()
            .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
            .field(FieldSpec::new("v", DataType::Vector(kind)).dim(8));
        let new = Box::new(NewCollection::new(schema.build().unwrap()));
        catalog.make(EntryChange::CreateCollection { place: place("c"), new }).unwrap();
        let file = encode(&catalog.snapshot());
        assert!(open(file.clone()).is_ok());
        let error = open(of_version(1, &file)).err().unwrap();
        assert_eq!(error.class(), ErrorClass::FixInput);
        let text = error.to_string();
        assert!(text.contains("collection `c`") && text.contains("`v` in rows"), "{text}");
    }
}

#[test]
fn a_later_version_asks_for_another_build_and_damage_to_stop() {
    let mut file = rich_file();
    file[8] = 4;
    let error = open(file.clone()).err().unwrap();
    assert_eq!(
        error.to_string(),
        "catalogue: catalogue version 4 is unknown, this build reads 1 to 3"
    );
    assert_eq!(error.class(), ErrorClass::FixInput);
    file[8] = 3;
    *file.last_mut().unwrap() ^= 1;
    let error = open(file).err().unwrap();
    assert!(error.to_string().contains("the file is damaged"), "{error}");
    assert_eq!(error.class(), ErrorClass::Stop);
}

#[test]
fn an_intact_file_that_contradicts_itself_is_refused() {
    let file = rich_file();
    let body = body(&file);
    for (from, to, expected) in [
        (r#""default":{"#, r#""defuult":{"#, "no default database"),
        (r#""other":{"#, r#""o-her":{"#, "invalid database name `o-her`"),
        (
            r#""a":{"alias":3}"#,
            r#""a":{"alias":9}"#,
            "`a` in database `default` stands for no collection",
        ),
        (r#""a":{"alias":3}"#, r#""a":{"alias":5}"#, "stands for a collection of another database"),
        (
            r#""c":{"collection":3}"#,
            r#""d":{"collection":3}"#,
            "`d` in database `default` is not the collection's name",
        ),
        (r#""c":{"collection":3}"#, r#""c":{"alias":3}"#, "a collection has no name"),
        (r#""3":{"id":3"#, r#""3":{"id":5"#, "collection `c`: its id is not its key"),
        (r#""next_id":"#, r#""next_id":1,"next_id_":"#, "unknown field `next_id_`"),
        (r#""shards":1"#, r#""shards":0"#, "collection `c`: 0 shards"),
        (
            r#""name":"_default_1""#,
            r#""name":"_default_2""#,
            "collection `k`: partition 1 is named `_default_2`",
        ),
        (r#""name":"_default","#, r#""name":"_defoult","#, "its first partition is not `_default`"),
        (r#""name":"p""#, r#""name":"_default""#, "two partitions `_default`"),
        (r#""metric":"l2""#, r#""metric":"l3""#, "unknown metric `l3`"),
        (r#""metric":"l2","#, "", "index `vector`: an index on a vector needs a metric"),
        (r#""partitions":[8]"#, r#""partitions":[80]"#, "partitions are loaded that do not exist"),
        (r#""name":"tenant","field""#, r#""name":"vector","field""#, "two indexes `vector`"),
    ] {
        let tampered = body.replacen(from, to, 1);
        assert_ne!(tampered, body, "{from} stands in {body}");
        let error = decode(&seal(&tampered)).unwrap_err();
        assert!(error.to_string().contains(expected), "{from}: {error}");
    }
}

#[test]
fn ids_that_were_not_given_out_or_given_out_twice_are_refused() {
    let (catalog, _) = rich();
    let mut low = Snapshot::clone(&catalog.snapshot());
    low.next_id -= 1;
    let error = decode(&encode(&low)).unwrap_err().to_string();
    assert!(error.contains("not given out yet"), "{error}");
    let mut twice = Snapshot::clone(&catalog.snapshot());
    let collection = catalog.get("c");
    twice.collection_mut(collection.id).partitions[1].id = collection.partitions[0].id;
    let error = decode(&encode(&twice)).unwrap_err().to_string();
    assert!(error.contains("partition `p` shares the id"), "{error}");
}

#[test]
fn the_document_agrees_with_the_constants() {
    assert_eq!(assert_table("Catalogue header", file_header::FIELDS), file_header::BYTES);
    let width = assert_table("Catalogue change header", change_header::FIELDS);
    assert_eq!(width, change_header::BYTES);
    assert_numbers(&[
        ("catalogue version", CATALOG_VERSION as usize),
        ("kind of a change", KIND_CHANGE as usize),
        ("kind of a mark of changes", KIND_CHANGE_MARK as usize),
        ("databases", MAX_DATABASES),
        ("collections", MAX_COLLECTIONS),
        ("aliases of a database", MAX_ALIASES),
        ("partitions of a collection", MAX_PARTITIONS as usize),
    ]);
    assert!(DOCUMENT.contains(std::str::from_utf8(&CATALOG_MAGIC).unwrap()));
    assert_eq!(CHANGE_MAGIC, *b"PCF\x01", "the document says it so");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn tampered_bodies_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
    ) {
        let file = rich_file();
        let mut tampered = body(&file).as_bytes().to_vec();
        for (at, value) in edits {
            let at = at.index(tampered.len());
            tampered[at] = value & 0x7f;
        }
        let tampered = String::from_utf8(tampered);
        prop_assume!(tampered.is_ok());
        if let Ok(read) = decode(&seal(&tampered.unwrap())) {
            prop_assert_eq!(decode(&encode(&read)), Ok(read));
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&bytes).is_err());
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(decode(&seal(&text)).is_err());
    }
}

#[test]
fn properties_are_kept_as_they_are() {
    let (catalog, store) = new_catalog();
    let properties: Properties = pairs(&[("", ""), ("\u{0}\"\\ä", "{}\n")]);
    let change = EntryChange::AlterDatabase {
        name: "default".into(),
        set: properties.clone(),
        remove: vec![],
    };
    catalog.make(change).unwrap();
    let opened = open(store.file().unwrap()).unwrap();
    assert_eq!(opened.snapshot().database("default").unwrap().properties, properties);
}
