//! Range searches over sockets.

use std::ops::Bound;

use super::*;

#[test]
fn a_range_is_answered_as_by_one_server_with_all() {
    let Servers { hosts: _hosts, client, whole, .. } = servers();
    let mut within_all = 0;
    for (from, to) in [
        (Bound::Unbounded, Bound::Excluded(4000.0)),
        (Bound::Included(2000.0), Bound::Excluded(5000.0)),
        (Bound::Included(3000.0), Bound::Unbounded),
        (Bound::Unbounded, Bound::Excluded(1.0)),
    ] {
        let asked = Asked { k: 60, list: 120, within: DistanceRange { from, to }, ..ONE };
        for vector in vectors(20, 6).chunks_exact(DIM) {
            let found = client.search(query(vector, asked, Duration::from_secs(60))).unwrap();
            let expected = whole.search(vector, &asked.params(), None).unwrap();
            let rows: Vec<_> = Hits::of(&found.hits).unwrap().iter().collect();
            assert_eq!(rows.len(), expected.hits.len());
            for (hit, expected) in rows.iter().zip(&expected.hits) {
                assert_eq!((hit.row, hit.distance), (expected.row.0, expected.distance));
                assert!(asked.within.contains(hit.distance));
            }
            let spent = Spent::decode(&found.stats).unwrap();
            assert_eq!(u64::from(spent.reads), expected.stats.reads, "not one page more");
            within_all += rows.len();
        }
    }
    assert!(within_all > 500, "{within_all} rows: the ranges hold something");
}

#[test]
fn a_range_that_is_none_is_refused_and_one_travels_as_it_was_written() {
    let within = DistanceRange { from: Bound::Included(-1.5), to: Bound::Excluded(f32::MAX) };
    let asked = Asked { within, ..ONE };
    assert_eq!(Asked::decode(&asked.encode_among(b"a < 3")), Some((asked, &b"a < 3"[..])));
    let mut unknown = asked.encode();
    unknown[14] = 3;
    assert_eq!(Asked::decode(&unknown), None);
    let Servers { hosts: _hosts, client, .. } = servers();
    let nan = DistanceRange { from: Bound::Included(f32::NAN), to: Bound::Unbounded };
    let asked = Asked { within: nan, ..ONE };
    let refused = client.search(query(&vectors(1, 4), asked, Duration::from_secs(60)));
    let Err(NoAnswer::Failed { code: FailureCode::Refused, words, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(words.contains("range of distances is NaN"), "{words}");
}
