//! Pages that servers of one process are counted to have read.

use pipeann_engine::index::QueryError;

use super::*;
use crate::relay::Asker;
use crate::walker::Counted;

#[test]
fn a_page_is_counted_at_the_server_that_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    index_in(&path, 3000);
    let (placement, _listeners) = cluster(SERVERS);
    let placement = Arc::new(placement);
    let mut counted = Counted::open::<QueryError>(&placement, |number| {
        let pool = PoolOptions { threads: 1, in_flight: 4, waiting: 1024, ..Default::default() };
        let longest = Duration::from_secs(60);
        let beside =
            WalkerOptions { separate: None, separate_filters: None, filters: None, pool, longest };
        Ok((Arc::new(Index::open(&path, &open_options(Some(number))).unwrap()), beside))
    })
    .unwrap();
    let (mut at_one, mut at_more) = (0, 0);
    for vector in vectors(40, 2).chunks_exact(DIM) {
        let settings =
            AskerSettings { me: Counted::asker(), attempt_us: 20_000_000, attempts: 1, waiting: 1 };
        let mut asker = Asker::new(settings, Arc::clone(&placement));
        let before = counted.pages();
        let asked = query(vector, ONE, Duration::from_secs(60));
        let found = counted.ask(&mut asker, [asked]).unwrap().remove(0).ended.unwrap();
        let read: Vec<u64> =
            counted.pages().iter().zip(before).map(|(after, at)| after - at).collect();
        let spent = Spent::decode(&found.stats).unwrap();
        assert_eq!(read.iter().sum::<u64>(), u64::from(spent.reads + spent.from_memory));
        let readers: Vec<u32> = (0..SERVERS).filter(|at| read[*at as usize] > 0).collect();
        assert!(readers.iter().all(|reader| found.trace.contains(reader)), "{read:?} {found:?}");
        if readers.len() == 1 {
            at_one += 1;
        } else {
            at_more += 1;
        }
    }
    assert!(at_one > 0 && at_more > 0, "{at_one} read at one server, {at_more} at more");
}
