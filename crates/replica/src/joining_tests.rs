//! Fetching into place, with what kills and damage leave.

use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_store::{GenerationId, Position};
use uuid::Uuid;

use super::*;

/// A database that was published twice, and a directory that joins.
struct PublishedTwice {
    root: tempfile::TempDir,
    store: ClusterStore,
    databases: usize,
}

impl PublishedTwice {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let url = format!("file://{}", root.path().join("store").display());
        let store = ClusterStore::open(&url, "test").unwrap();
        let mut made = Self { root, store, databases: 0 };
        made.publish(1);
        made.publish(2);
        made
    }

    /// Publishes a database that has as many databases in it as its number.
    fn publish(&mut self, number: u64) {
        let dir = self.root.path().join(format!("source-{number}"));
        let database = Database::open(&dir, DatabaseOptions::new(|| UnixMs(1_000))).unwrap();
        for made in 0..number {
            let name = format!("d{made}");
            let change = pipeann_db::catalog::EntryChange::CreateDatabase {
                name,
                properties: Default::default(),
            };
            database.apply(change).unwrap();
        }
        self.databases = database.catalog().databases().count();
        drop(database);
        std::fs::create_dir_all(dir.join("collections/7")).unwrap();
        std::fs::write(dir.join("collections/7/large"), vec![number as u8; 100_000]).unwrap();
        std::fs::write(dir.join("collections/7/same"), vec![9; 50_000]).unwrap();
        let paths = ["CATALOG", "collections/7/large", "collections/7/same"];
        let files: Vec<_> = paths.iter().map(|path| (path.to_string(), dir.join(path))).collect();
        let generations = ShardGenerations::new(&self.store, SHARD);
        generations.publish(3, at(number), b"{}", &files).unwrap();
    }

    fn joining(&self) -> ServerDirectory {
        let dir = self.root.path().join("server");
        let file = ReplicaFile::open(&dir, self.store.cluster_id(), Uuid::from_u128(5)).unwrap();
        ServerDirectory::new(&dir, &self.store, file)
    }

    fn take(&self) -> Result<JoinedGeneration, ReplicaError> {
        self.joining().take_generation("a test", UnixMs(1_000))
    }

    /// The object of a file of the newest generation.
    fn object(&self, path: &str) -> PathBuf {
        let newest = ShardGenerations::new(&self.store, SHARD).newest().unwrap().unwrap();
        let file = newest.files.iter().find(|file| file.path == path).unwrap();
        self.root.path().join("store").join(file.object())
    }

    fn large(&self) -> u8 {
        let bytes = fs::read(self.root.path().join("server/collections/7/large")).unwrap();
        assert!(bytes.len() == 100_000 && bytes.iter().all(|byte| *byte == bytes[0]));
        bytes[0]
    }
}

fn at(number: u64) -> Position {
    Position { term: 3, number: 10 * number }
}

#[test]
fn the_newest_takes_its_place_and_what_is_there_is_not_fetched_again() {
    let mut published = PublishedTwice::new();
    assert!(published.joining().wants_generation().unwrap(), "the directory is empty");
    let joined = published.take().unwrap();
    assert_eq!((joined.position, joined.fetched.files), (at(2), 3));
    assert_eq!(published.joining().file.position(), Some(at(2)), "as the directory says");
    assert_eq!(published.large(), 2);
    assert!(!published.root.path().join("server/generations").exists());
    // Only what is otherwise comes of a newer one, and what was there before goes.
    let old = published.root.path().join("server/collections/8");
    fs::create_dir_all(&old).unwrap();
    published.publish(3);
    let joined = published.take().unwrap();
    assert_eq!((joined.position, joined.fetched.kept, joined.fetched.files), (at(3), 1, 2));
    assert_eq!(published.large(), 3);
    assert!(!old.exists());
    let dir = published.root.path().join("server");
    fs::remove_dir_all(dir.join("collections/7")).unwrap();
    let mut options = DatabaseOptions::new(|| UnixMs(1_000));
    options.shared = true;
    let opened = Database::open(&dir, options).unwrap();
    assert_eq!(opened.catalog().databases().count(), published.databases);
}

#[test]
fn a_fetch_that_ended_midway_goes_on_and_flipped_bits_are_fetched_anew() {
    let published = PublishedTwice::new();
    let server = published.root.path().join("server");
    drop(published.joining());
    // As a kill leaves it: a whole file, one with a flipped bit, half a file, one of another generation.
    let fetching = server.join("generations/fetching");
    fs::create_dir_all(fetching.join("collections/7")).unwrap();
    let mut flipped = fs::read(published.object("CATALOG")).unwrap();
    flipped[3] ^= 1;
    fs::write(fetching.join("CATALOG"), flipped).unwrap();
    fs::write(fetching.join("collections/7/same"), vec![9; 50_000]).unwrap();
    fs::write(fetching.join("collections/7/large.fetching"), vec![2; 40_000]).unwrap();
    fs::write(fetching.join("collections/7/stranger"), b"of another").unwrap();
    assert!(published.joining().wants_generation().unwrap());
    let joined = published.take().unwrap();
    assert_eq!((joined.fetched.kept, joined.fetched.files), (1, 2));
    assert!(joined.fetched.bytes < 100_000, "half of it was there");
    assert_eq!(published.large(), 2);
    assert!(!server.join("collections/7/stranger").exists());
}

#[test]
fn a_kill_while_files_take_their_place_leaves_nothing_that_is_taken_for_a_database() {
    let published = PublishedTwice::new();
    published.take().unwrap();
    let server = published.root.path().join("server");
    // Before the last step: all is there but the catalogue.
    let fetching = server.join("generations/fetching");
    fs::create_dir_all(&fetching).unwrap();
    fs::rename(server.join("CATALOG"), fetching.join("CATALOG")).unwrap();
    assert!(published.joining().wants_generation().unwrap());
    let joined = published.take().unwrap();
    assert_eq!((joined.fetched.kept, joined.fetched.files), (3, 0));
    // After the old state has begun to go.
    fs::remove_file(server.join("CATALOG")).unwrap();
    fs::remove_dir_all(server.join("collections")).unwrap();
    assert!(published.joining().wants_generation().unwrap());
    assert_eq!(published.take().unwrap().fetched.files, 3);
}

#[test]
fn a_generation_that_is_damaged_or_half_there_gives_way_to_the_one_before() {
    let published = PublishedTwice::new();
    let large = published.object("collections/7/large");
    let mut bytes = fs::read(&large).unwrap();
    bytes[77] ^= 4;
    fs::write(&large, &bytes).unwrap();
    assert_eq!(published.take().unwrap().position, at(1));
    assert_eq!(published.large(), 1);
    fs::remove_file(&large).unwrap();
    assert_eq!(published.take().unwrap().position, at(1));
    // None is whole: by name, and what was here before is still here.
    fs::write(published.object("collections/7/same"), vec![8; 50_000]).unwrap();
    fs::remove_file(published.root.path().join("server/collections/7/same")).unwrap();
    let refused = published.take().unwrap_err();
    assert!(matches!(refused, ReplicaError::Store(ObjectsError::Damaged { .. })), "{refused}");
    assert!(published.root.path().join("server/CATALOG").exists());
}

#[test]
fn a_manifest_that_is_damaged_or_of_a_later_version_gives_way_to_the_one_before() {
    let published = PublishedTwice::new();
    let generations = ShardGenerations::new(&published.store, SHARD);
    let ids = generations.ids().unwrap();
    let manifest = |id: GenerationId| {
        published.root.path().join("store").join(ShardGeneration::object(SHARD, id))
    };
    let flip = |id: GenerationId, at: usize| {
        let mut bytes = fs::read(manifest(id)).unwrap();
        bytes[at] ^= 2;
        fs::write(manifest(id), bytes).unwrap();
    };
    // The version, and a byte of what follows it.
    for byte in [8, 60] {
        flip(ids[1], byte);
        let joined = published.take().unwrap();
        assert_eq!((joined.position, joined.held.generation().id), (at(1), ids[0]));
        assert_eq!(generations.pinned().unwrap(), [ids[0]], "until the log is read");
        drop(joined);
        assert_eq!(generations.pinned().unwrap(), []);
        flip(ids[1], byte);
    }
    ids.iter().for_each(|id| flip(*id, 60));
    let refused = published.take().unwrap_err();
    assert!(matches!(refused, ReplicaError::Store(ObjectsError::Damaged { .. })), "{refused}");
    assert_eq!(generations.pinned().unwrap(), []);
    assert!(published.root.path().join("server/CATALOG").exists());
    assert_eq!(published.large(), 1);
    fs::remove_dir_all(published.root.path().join("server")).unwrap();
    assert!(!published.joining().wants_generation().unwrap(), "the log has all");
}

#[test]
fn a_damaged_file_does_not_come_with_the_generations_that_follow() {
    let mut published = PublishedTwice::new();
    // Of both generations, and of the next.
    fs::write(published.object("collections/7/same"), vec![8; 50_000]).unwrap();
    published.take().unwrap_err();
    published.publish(3);
    assert_eq!(published.take().unwrap().position, at(3));
    assert_eq!(published.large(), 3);
}

#[test]
fn what_is_no_database_and_whose_directory_it_is_not_is_refused() {
    let published = PublishedTwice::new();
    let generations = ShardGenerations::new(&published.store, SHARD);
    let source = published.root.path().join("source-1/CATALOG");
    for path in ["LOCK", "REPLICA", "collections", "collections2/x", "pins/x"] {
        let files = [("CATALOG".to_owned(), source.clone()), (path.to_owned(), source.clone())];
        generations.publish(4, at(9), b"", &files).unwrap();
        let refused = published.take().unwrap_err();
        assert!(matches!(refused, ReplicaError::Generation { term: 4, .. }), "{refused}");
    }
    generations.publish(5, at(9), b"", &[("ACCESS".to_owned(), source)]).unwrap();
    assert!(matches!(published.take().unwrap_err(), ReplicaError::Generation { term: 5, .. }));
    let ids = generations.ids().unwrap();
    assert_eq!(*ids.last().unwrap(), GenerationId { term: 5, number: 1 });
    // Somebody else's directory is nobody's to clear.
    let dir = published.root.path().join("strange");
    fs::create_dir_all(dir.join("generations")).unwrap();
    let file = ReplicaFile::open(&dir, published.store.cluster_id(), Uuid::nil()).unwrap();
    let strange = ServerDirectory::new(&dir, &published.store, file);
    assert!(!strange.wants_generation().unwrap());
    assert!(dir.join("generations").exists());
    // One that is open elsewhere is left alone.
    let server = published.root.path().join("server");
    let _held = DirectoryLock::take(&server, &Holder::this_process(1)).unwrap();
    assert!(matches!(published.take().unwrap_err(), ReplicaError::Lock(_)));
}

#[test]
fn a_full_disk_is_told_by_name() {
    let path = "collections/7/large".to_owned();
    for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded] {
        let full = ObjectsError::Local { path: path.clone(), cause: kind.into() };
        let told = ReplicaError::from(full);
        assert!(matches!(told, ReplicaError::DiskFull { .. }), "{told}");
        let told = ReplicaError::files(Path::new("x"))(kind.into());
        assert!(told.to_string().contains("disk is full"), "{told}");
    }
    let other = ObjectsError::Local { path, cause: std::io::ErrorKind::PermissionDenied.into() };
    assert!(matches!(ReplicaError::from(other), ReplicaError::Store(_)));
}
