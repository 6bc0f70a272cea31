//! Vectors without a length, by the cosine: they are found like others, at distance 1, by the graph
//! and before they are in it.

use pipeann_db::catalog::{EntryChange, IndexState, NewIndex, Properties};
use pipeann_db::collection::{Collection, SearchHit, SearchRequest};
use pipeann_db::ids::{Metric, VectorType};
use pipeann_db::schema::PrimaryKey;
use pipeann_engine::types::VectorSet;

use crate::data::{DIM, batch, bytes, collection, create, keys, open, place, vector};

/// The seed whose vector is zero.
const ZERO: u32 = 1_192_979_645;

fn nearest(c: &Collection, query: [f32; DIM], k: usize) -> Vec<SearchHit> {
    let query = bytes(&[query]);
    let queries = VectorSet::new(&query, DIM, VectorType::F32).unwrap();
    let search =
        SearchRequest { metric: Some(Metric::Cosine), ..SearchRequest::new("v", queries, k) };
    c.search(&search).unwrap().hits.remove(0)
}

fn check(c: &Collection, rows: usize, zeros: &[i64]) {
    let hits = nearest(c, vector(7), rows);
    assert_eq!(hits.len(), rows);
    for key in zeros {
        let hit = hits.iter().find(|hit| hit.row.key == PrimaryKey::Int64(*key));
        assert_eq!(hit.map(|hit| hit.distance), Some(1.0), "key {key}");
    }
    let hits = nearest(c, [0.0; DIM], 5);
    assert_eq!(hits.iter().map(|hit| hit.distance).collect::<Vec<_>>(), [1.0; 5]);
}

#[test]
fn a_zero_vector_is_found_before_and_after_it_joins_the_graph() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let rows = |range: std::ops::Range<i64>| -> Vec<(i64, u32)> {
        range.map(|key| (key, if key % 50 == 3 { ZERO } else { key as u32 + 9 })).collect()
    };
    c.insert(batch(&rows(0..500)), None).unwrap();
    assert_eq!(vector(ZERO), [0.0; DIM]);
    check(&c, 500, &[3, 53, 453]);
    let (field, name, metric) = ("v".to_owned(), Some("graph".to_owned()), Some(Metric::Cosine));
    let kind = "DISKANN".to_owned();
    let new = NewIndex { field, name, kind, metric, parameters: Properties::new() };
    database.apply(EntryChange::CreateIndex { place: place(), new }).unwrap();
    c.build_index("graph").unwrap();
    let status = c.wait_for_index("graph").unwrap();
    assert_eq!((status.state, status.linked), (IndexState::Finished { rows: 500 }, 500));
    check(&c, 500, &[3, 53, 453]);
    c.insert(batch(&rows(500..600)), None).unwrap();
    check(&c, 600, &[3, 503, 553]);
    while c.wait_for_index("graph").unwrap().linked < 600 {
        std::thread::yield_now();
    }
    check(&c, 600, &[3, 503, 553]);
    c.delete(&keys(&[503])).unwrap();
    check(&c, 599, &[553]);
    drop(c);
    drop(database);
    let database = open(dir.path());
    check(&collection(&database), 599, &[3, 553]);
}
