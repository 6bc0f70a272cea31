//! What a leader puts into a store, read back from a directory, and means of servers' rows.

use std::path::Path;
use std::time::Duration;

use pipeann_cluster::walker::Centroids;
use pipeann_engine::types::{Metric, VectorSet, VectorType};
use pipeann_store::log::{EntryRef, LeaderName, Position, ShardId, Stamp};
use pipeann_store::{ClusterStore, ShardGenerations, ShardLeader};

use super::seed::Seeds;

const SHARD: ShardId = ShardId(3);
const HOUR: Duration = Duration::from_secs(3600);
/// Where the version stands in objects of a store and in files of centroids.
const VERSION_AT: usize = 8;

pub(super) fn add(seeds: &mut Seeds) {
    let home = tempfile::tempdir().expect("a directory for a store can be made");
    fill(home.path());
    for (folder, name) in
        [("log/3", "log"), ("manifest/3", "manifest"), ("pin", "pin"), ("", "cluster")]
    {
        let mut files: Vec<_> = std::fs::read_dir(home.path().join("store").join(folder))
            .expect("the store has it")
            .map(|entry| entry.expect("it can be listed").path())
            .filter(|path| path.is_file())
            .collect();
        files.sort();
        for (number, path) in files.iter().enumerate() {
            let bytes = std::fs::read(path).expect("it can be read");
            seeds.add("stored", format!("{name}-{number}"), bytes);
        }
    }
    let mut newer = seeds.0.last().expect("the identity").bytes.clone();
    newer[..VERSION_AT].copy_from_slice(b"pastolog");
    newer[VERSION_AT] = 9;
    seeds.add("stored", "newer", newer);
    let mut centroids = Centroids::new(Metric::L2, 2);
    for (server, row) in [(2, [0, 8]), (5, [200, 100])] {
        centroids.add(server, VectorSet::new(&row, 2, VectorType::U8).expect("one row"));
    }
    let mut bytes = centroids.encode();
    seeds.add("centroids", "two-servers", bytes.as_slice());
    seeds.add("centroids", "none", Centroids::new(Metric::Cosine, 3).encode());
    bytes[VERSION_AT] = 9;
    seeds.add("centroids", "newer", bytes);
}

/// A log of two objects, a generation of two files, and a pin.
fn fill(home: &Path) {
    let url = format!("file://{}/store", home.display());
    let store = ClusterStore::open(&url, "blue").expect("a directory is a store");
    let name = LeaderName::new("first").expect("a name");
    let leader =
        ShardLeader::open(&store, SHARD, None, &name, &mut |_| Ok(())).expect("nobody leads");
    let records = [b"one".as_slice(), b""];
    let entries = [1, 2].map(|seq| EntryRef { seq, kind: 1, payload: records[seq as usize - 1] });
    let stamp = Stamp { catalogue_version: 1, timestamp: 7 };
    let position: Position = leader.append(stamp, &entries).expect("it leads");
    let files = ["a", "b"].map(|name| (format!("deep/{name}"), home.join(name)));
    for (path, place) in &files {
        std::fs::write(place, path).expect("a file can be written");
    }
    let generations = ShardGenerations::new(&store, SHARD);
    let made = generations.publish(1, position, b"header", &files).expect("the files are there");
    let pin = generations.pin(made.id, "seeds", HOUR).expect("the store answers");
    assert!(pin.is_some(), "it is there");
}
