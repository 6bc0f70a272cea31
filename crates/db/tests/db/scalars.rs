//! Scalar indexes of a collection: as of the same moment as its rows, after whatever happened to
//! the collection or to their files.

use std::fs;
use std::path::{Path, PathBuf};

use pipeann_db::catalog::EntryChange;
use pipeann_db::collection::{Collection, Filter};
use pipeann_db::database::Database;
use pipeann_db::scalar::{Condition, Sketch};
use pipeann_db::value::Value;
use pipeann_engine::memory::Pool;

use crate::data::{batch, collection, create, files, keys, load, open, options, place, rows};

/// Rows of keys from `from` up to `to`; their seeds repeat.
fn some(from: i64, to: i64) -> Vec<(i64, u32)> {
    (from..to).map(|key| (key, (key % 50) as u32)).collect()
}

/// Compares what the indexes say with the rows.
fn check(c: &Collection) {
    let stored = rows(c);
    let moment = c.scalar_moment().unwrap();
    assert_eq!(moment.live().len(), stored.len() as u64);
    let seeds = [0, 7, 33, 49, 77];
    for seed in seeds {
        let condition = Condition::Equal(Value::VarChar(format!("note {seed}")));
        let predicate = moment.predicate("note", &condition).unwrap();
        let matching: Vec<_> = stored.iter().filter(|row| row.1 == seed).collect();
        let found = moment.postings(&predicate).unwrap();
        assert!(found.exact);
        assert_eq!(found.rows.len(), matching.len() as u64, "{condition:?}");
        let estimate = moment.estimate(&predicate).unwrap();
        assert!(estimate.least <= found.rows.len() && found.rows.len() <= estimate.most);
        let test = moment.signature_test(&Sketch::Is(predicate));
        assert!(found.rows.iter().all(|row| test.maybe(pipeann_db::ids::RowId(row))));
    }
    for (key, _) in stored.iter().step_by(41) {
        let condition = Condition::Equal(Value::Int64(*key));
        let predicate = moment.predicate("id", &condition).unwrap();
        let same = stored.iter().filter(|row| row.0 == *key).count() as u64;
        assert_eq!(moment.postings(&predicate).unwrap().rows.len(), same, "key {key}");
    }
    assert!(moment.predicate("v", &Condition::IsNull).is_none(), "vectors have no such index");
    assert!(c.verify().unwrap().is_empty());
}

fn scalars(dir: &Path) -> PathBuf {
    let mut files = files(dir).into_iter();
    let list = files.find(|file| file.ends_with("scalars/SCALARS")).unwrap();
    list.parent().unwrap().to_owned()
}

/// Writes of all kinds, with flushes between.
fn write(c: &Collection) {
    c.insert(batch(&some(0, 500)), None).unwrap();
    c.delete(&keys(&(0..100).collect::<Vec<_>>())).unwrap();
    c.flush().unwrap();
    c.upsert(batch(&some(300, 700)), None).unwrap();
    c.flush().unwrap();
    c.delete(&keys(&(650..660).collect::<Vec<_>>())).unwrap();
    c.insert(batch(&some(660, 670)), None).unwrap();
}

#[test]
fn indexes_follow_writes_flushes_and_reopening() {
    let home = tempfile::tempdir().unwrap();
    let database = open(home.path());
    let c = create(&database);
    check(&c);
    write(&c);
    check(&c);
    drop((c, database));
    let database = open(home.path());
    let c = collection(&database);
    check(&c);
    c.flush().unwrap();
    check(&c);
}

#[test]
fn lost_or_older_indexes_are_made_anew() {
    let home = tempfile::tempdir().unwrap();
    let older = home.path().join("older");
    {
        let database = open(home.path());
        let c = create(&database);
        c.insert(batch(&some(0, 300)), None).unwrap();
        c.flush().unwrap();
        fs::create_dir(&older).unwrap();
        for file in files(&scalars(&home.path().join("collections"))) {
            fs::copy(&file, older.join(file.file_name().unwrap())).unwrap();
        }
        write(&c);
        c.flush().unwrap();
    }
    let dir = scalars(&home.path().join("collections"));
    let reopen = || {
        let database = open(home.path());
        let c = collection(&database);
        check(&c);
        c.insert(batch(&some(900, 910)), None).unwrap();
        check(&c);
    };
    fs::remove_dir_all(&dir).unwrap();
    reopen();
    for file in files(&dir) {
        fs::remove_file(&file).unwrap();
        reopen();
    }
    fs::remove_dir_all(&dir).unwrap();
    fs::rename(&older, &dir).unwrap();
    reopen();
}

#[test]
fn a_flush_that_found_damage_leads_to_indexes_made_anew() {
    let home = tempfile::tempdir().unwrap();
    let database = open(home.path());
    let c = create(&database);
    c.insert(batch(&some(0, 300)), None).unwrap();
    c.flush().unwrap();
    let run = files(&scalars(home.path())).into_iter().find(|file| !file.ends_with("SCALARS"));
    let run = run.unwrap();
    let mut bytes = fs::read(&run).unwrap();
    bytes[30] ^= 4;
    fs::write(&run, bytes).unwrap();
    c.insert(batch(&some(300, 900)), None).unwrap();
    c.flush().unwrap();
    c.insert(batch(&some(900, 950)), None).unwrap();
    assert!(!c.verify().unwrap().is_empty());
    drop((c, database));
    let database = open(home.path());
    check(&collection(&database));
}

#[test]
fn releasing_a_collection_drops_signatures_and_loading_reads_them() {
    let home = tempfile::tempdir().unwrap();
    let settings = options();
    let accountant = settings.collection.accountant.clone();
    let database = Database::open(home.path(), settings).unwrap();
    let c = create(&database);
    c.insert(batch(&some(0, 2000)), None).unwrap();
    c.flush().unwrap();
    let loaded = accountant.pool_bytes(Pool::Postings);
    c.count_matching(Filter::new("note == 'note 7'"), None).unwrap();
    assert!(accountant.pool_bytes(Pool::Postings) > loaded, "the answer is kept");
    database.apply(EntryChange::Release { place: place(), partitions: None }).unwrap();
    // A byte for the key, a byte for the note.
    assert_eq!(accountant.pool_bytes(Pool::Postings), loaded - 2 * 2000);
    check(&c);
    load(&database);
    assert_eq!(accountant.pool_bytes(Pool::Postings), loaded);
    check(&c);
    database.apply(EntryChange::DropCollection { place: place() }).unwrap();
    assert!(!files(home.path()).iter().any(|file| file.ends_with("SCALARS")));
}

#[test]
fn snapshots_and_backups_have_the_indexes() {
    let home = tempfile::tempdir().unwrap();
    let database = open(&home.path().join("db"));
    let c = create(&database);
    write(&c);
    let taken = home.path().join("taken");
    database.snapshot_to(&taken).unwrap();
    let of_writer = files(&scalars(&home.path().join("db"))).len();
    assert_eq!(files(&scalars(&taken)).len(), of_writer);
    let copy = open(&taken);
    check(&collection(&copy));
}
