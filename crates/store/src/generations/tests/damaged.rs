//! Files and manifests with other bytes than were put, and pins of what takes long.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::objects::Surroundings;

/// Turns one bit of an object.
async fn flip(store: &Generations, name: &str) {
    let mut bytes = store.bucket.get(name, 1 << 20).await.unwrap().unwrap().to_vec();
    bytes[1] ^= 4;
    store.bucket.put_over(name, bytes.into()).await.unwrap();
}

/// Leaves nothing pinned, as an hour does.
async fn forget_pins(store: &Generations) {
    for pin in store.listed_names("pin").await {
        store.delete(&pin).await.unwrap();
    }
}

#[tokio::test]
async fn a_damaged_file_is_put_anew_by_the_next_publication() {
    let store = of("memory://");
    let leader = lead(&store).await;
    let into = tempfile::tempdir().unwrap();
    let files = bytes(&[("a", b"one"), ("b", b"two")]);
    let first = store.publish(SHARD, 1, at(1), b"", &files).await.unwrap();
    let name = first.files[0].object();
    flip(&store, &name).await;
    // One that fails leaves nothing under way, in which the next one would meet itself.
    for _ in 0..50 {
        let _ = std::fs::remove_file(into.path().join("b"));
        let error = store.fetch(&first, into.path()).await.unwrap_err();
        assert!(matches!(error, ObjectsError::Damaged { .. }), "{error}");
    }
    assert_eq!(store.listed_names("damaged").await.len(), 1);
    let next = store.publish(SHARD, 1, at(2), b"", &files).await.unwrap();
    store.fetch(&next, into.path()).await.unwrap();
    assert_eq!(std::fs::read(into.path().join("a")).unwrap(), b"one");
    assert_eq!(next.files[1], first.files[1], "only what is damaged is put anew");
    // And not once more by each that follows.
    let third = store.publish(SHARD, 1, at(3), b"", &files).await.unwrap();
    assert_eq!(third.files, next.files);
    // The new one may be damaged as well.
    flip(&store, &next.files[0].object()).await;
    std::fs::remove_file(into.path().join("a")).unwrap();
    store.fetch(&third, into.path()).await.unwrap_err();
    let fourth = store.publish(SHARD, 1, at(4), b"", &files).await.unwrap();
    store.fetch(&fourth, into.path()).await.unwrap();
    // Marks go with what they are of.
    forget_pins(&store).await;
    let done = store.collect(&leader, &all(&[])).await.unwrap();
    assert_eq!((done.generations, done.files), (3, 2));
    assert_eq!(store.listed_names("damaged").await.len(), 2);
    store.collect(&leader, &all(&[])).await.unwrap();
    assert_eq!(store.listed_names("damaged").await, [""; 0]);
    store.fetch(&fourth, into.path()).await.unwrap();
}

#[tokio::test]
async fn a_manifest_that_cannot_be_read_ends_no_collection_and_loses_nothing() {
    let store = of("memory://");
    let leader = lead(&store).await;
    let mut made = Vec::new();
    let own = |number: u64| bytes(&[("own", &number.to_le_bytes()), ("shared", b"shared")]);
    for number in 1..=3u64 {
        made.push(store.publish(SHARD, 1, at(number), b"", &own(number)).await.unwrap());
    }
    forget_pins(&store).await;
    let manifest = |it: &ShardGeneration| names::manifest(SHARD, it.id);
    flip(&store, &manifest(&made[2])).await;
    let error = store.pin(SHARD, made[2].id, "reader", HOUR).await.unwrap_err();
    assert!(matches!(error, ObjectsError::Damaged { .. }), "{error}");
    assert_eq!(store.listed_names("pin").await, [""; 0], "nobody would release it");
    assert_eq!(store.newest(SHARD).await.unwrap().as_ref(), Some(&made[1]));
    // While it is the newest, any file may be its own.
    let done = store.collect(&leader, &all(&[])).await.unwrap();
    assert_eq!((done.generations, done.files), (1, 0));
    assert_eq!(store.ids(SHARD).await.unwrap(), [made[1].id, made[2].id]);
    // Its bytes come right again.
    flip(&store, &manifest(&made[2])).await;
    let into = tempfile::tempdir().unwrap();
    store.fetch(&made[2], into.path()).await.unwrap();
    flip(&store, &manifest(&made[2])).await;
    // With a newer one it goes.
    made.push(store.publish(SHARD, 1, at(4), b"", &own(4)).await.unwrap());
    forget_pins(&store).await;
    let done = store.collect(&leader, &all(&[])).await.unwrap();
    assert_eq!((done.generations, done.files), (2, 3));
    assert_eq!(store.ids(SHARD).await.unwrap(), [made[3].id]);
    store.fetch(&made[3], into.path()).await.unwrap();
}

#[tokio::test]
async fn a_manifest_that_cannot_be_read_and_is_pinned_keeps_all_files() {
    let store = of("memory://");
    let leader = lead(&store).await;
    let mut made = Vec::new();
    for number in 1..=3u64 {
        let files = bytes(&[("own", &number.to_le_bytes())]);
        made.push(store.publish(SHARD, 1, at(number), b"", &files).await.unwrap());
    }
    forget_pins(&store).await;
    let pin = store.pin(SHARD, made[1].id, "reader", HOUR).await.unwrap().unwrap();
    let manifest = names::manifest(SHARD, made[1].id);
    flip(&store, &manifest).await;
    let done = store.collect(&leader, &all(&[])).await.unwrap();
    assert_eq!((done.generations, done.files), (1, 0));
    let into = tempfile::tempdir().unwrap();
    store.fetch(&pin.generation, into.path()).await.unwrap();
    store.release(pin).await.unwrap();
    let done = store.collect(&leader, &all(&[])).await.unwrap();
    assert_eq!((done.generations, done.files), (1, 2));
}

/// Lets a day and an hour pass for an object in a directory.
fn age(home: &Path, name: &str) {
    let file = std::fs::File::options().write(true).open(home.join(name)).unwrap();
    let now = file.metadata().unwrap().modified().unwrap();
    file.set_modified(now - 25 * HOUR).unwrap();
}

#[tokio::test]
async fn pins_and_dooms_that_cannot_be_read_hold_for_a_day() {
    let home = tempfile::tempdir().unwrap();
    let store = of(&format!("file://{}", home.path().display()));
    let leader = lead(&store).await;
    let mut made = Vec::new();
    for number in 1..=2u64 {
        let files = bytes(&[("own", &number.to_le_bytes())]);
        made.push(store.publish(SHARD, 1, at(number), b"", &files).await.unwrap());
    }
    forget_pins(&store).await;
    store.pin(SHARD, made[0].id, "reader", HOUR).await.unwrap().unwrap();
    let [pin] = &store.listed_names("pin").await[..] else { panic!("there is one") };
    flip(&store, pin).await;
    let error = store.collect(&leader, &all(&[])).await.unwrap_err();
    assert!(matches!(error, LogError::Objects(ObjectsError::Damaged { .. })), "{error}");
    store.pinned_ids(SHARD).await.unwrap_err();
    assert_eq!(store.ids(SHARD).await.unwrap().len(), 2);
    age(home.path(), pin);
    assert_eq!(store.pinned_ids(SHARD).await.unwrap(), []);
    // The doom of the collection that failed stands for a day as well, and may be damaged too.
    let [doom] = &store.listed_names("doom").await[..] else { panic!("there is one") };
    flip(&store, doom).await;
    store.pin(SHARD, made[1].id, "reader", HOUR).await.unwrap_err();
    age(home.path(), doom);
    store.pin(SHARD, made[1].id, "reader", HOUR).await.unwrap().unwrap();
    let done = store.collect(&leader, &all(&[])).await.unwrap();
    assert_eq!((done.generations, done.files), (1, 1));
    assert!(!store.listed_names("pin").await.contains(pin));
}

/// A time that passes when somebody looks at it.
struct HurryingTime {
    looks: AtomicU64,
    chance: OfThisMachine,
}

impl Surroundings for HurryingTime {
    fn now(&self) -> Duration {
        // Two looks are less than a sixth of an hour.
        Duration::from_secs(240) * self.looks.fetch_add(1, Ordering::SeqCst) as u32
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn random(&self) -> u128 {
        self.chance.random()
    }
}

#[tokio::test]
async fn a_pin_is_renewed_while_its_files_are_fetched() {
    let mut store = of("memory://");
    let time = HurryingTime { looks: AtomicU64::new(0), chance: OfThisMachine::default() };
    store.patience = RetryPatience::new(Duration::from_secs(1 << 30), Arc::new(time));
    let files = bytes(&[("a", b"one"), ("b", b"two"), ("c", b"three"), ("d", b"four")]);
    let made = store.publish(SHARD, 1, at(1), b"", &files).await.unwrap();
    forget_pins(&store).await;
    let into = tempfile::tempdir().unwrap();
    let mut pin = store.pin(SHARD, made.id, "reader", HOUR).await.unwrap().unwrap();
    let first = pin.name.clone();
    let fetched = store.fetch_held(&mut pin, into.path()).await.unwrap();
    assert_eq!(fetched, Fetched { kept: 0, files: 4, bytes: 15 });
    assert_ne!(pin.name, first);
    assert_eq!(store.listed_names("pin").await, [pin.name.as_str()]);
    // What went meanwhile is told by name, and leaves no pin.
    store.delete(&names::manifest(SHARD, made.id)).await.unwrap();
    let other = tempfile::tempdir().unwrap();
    let gone = store.fetch_held(&mut pin, other.path()).await.unwrap_err();
    assert!(matches!(gone, ObjectsError::Missing { .. }), "{gone}");
    store.release(pin).await.unwrap();
    assert_eq!(store.listed_names("pin").await, [""; 0]);
}
