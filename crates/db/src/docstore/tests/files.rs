//! Files that stay open, of all stores together.

use super::*;

/// Files below `dir` that this process has open, whether they still have a name or not.
fn open_below(dir: &Path) -> usize {
    let dir = dir.canonicalize().unwrap();
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
    targets.filter(|target| target.starts_with(&dir)).count()
}

#[test]
#[cfg(target_os = "linux")]
fn stores_share_the_files_that_stay_open_and_a_dropped_one_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let options = RowStoreOptions { lock: false, ..options() };
    let log = Log::mixed(5);
    let stores: Vec<_> = (0..200)
        .map(|i| {
            let store = LsmRows::open(&dir.path().join(i.to_string()), &options).unwrap();
            log.replay(&store);
            store.flush().unwrap();
            contents(&*store.snapshot()).unwrap();
            store
        })
        .collect();
    // Each has a table of rows and one of keys.
    let open = open_below(dir.path());
    assert!((100..=300).contains(&open), "{open}");
    for (i, store) in stores.into_iter().enumerate() {
        drop(store);
        let dir = dir.path().join(i.to_string());
        assert_eq!(open_below(&dir), 0, "their room is free when they are removed");
    }
    assert_eq!(open_below(dir.path()), 0);
}
