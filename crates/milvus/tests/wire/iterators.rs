//! Iterators of clients: all pages are of the moment of the first one.

use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::schema::SearchIteratorV2Results;

use crate::rows::{keys, numbers, search};
use crate::served::{Served, assert_ok, insert, pair, query};

fn page(served: &Served, expr: &str, limit: &str, moment: u64) -> (Vec<i64>, u64) {
    let mut request = query("a", expr, &["id"]);
    request.query_params = vec![pair("iterator", "True"), pair("limit", limit)];
    request.guarantee_timestamp = moment;
    let found = served.call(served.client().query(request));
    assert_ok(&found.status.unwrap());
    (keys(&found.fields_data), found.session_ts)
}

fn delete(served: &Served, expr: &str) {
    let request = wire::DeleteRequest {
        collection_name: "a".into(),
        expr: expr.into(),
        ..Default::default()
    };
    assert_ok(&served.call(served.client().delete(request)).status.unwrap());
}

#[test]
fn pages_of_a_query_are_of_one_moment() {
    let served = Served::new();
    served.filled("a", 10);
    let (first, moment) = page(&served, "id >= 0", "4", 0);
    assert_eq!(first, [0, 1, 2, 3]);
    delete(&served, "id in [4, 5]");
    assert_ok(&served.call(served.client().insert(insert("a", 10..12))).status.unwrap());
    let (second, again) = page(&served, "id > 3", "4", moment);
    assert_eq!((second, again), (vec![4, 5, 6, 7], moment));
    // A client passes over rows with reads that are no pages.
    let mut seek = query("a", "id > 7", &["id"]);
    (seek.guarantee_timestamp, seek.query_params) = (moment, vec![pair("limit", "9")]);
    assert_eq!(keys(&served.call(served.client().query(seek)).fields_data), [8, 9]);
    let (now, other) = page(&served, "id > 3", "4", 0);
    assert_eq!(now, [6, 7, 8, 9]);
    assert_ne!(other, moment);
    // A moment that is not kept, as after a restart: the client reads on.
    let (unknown, named) = page(&served, "id > 8", "4", 77);
    assert_eq!((unknown, named), (vec![9, 10, 11], 77));
}

#[test]
fn pages_of_a_search_are_of_one_moment() {
    let served = Served::new();
    served.filled("a", 12);
    let page = |extra: &[(&str, &str)], moment: u64| {
        let mut params = vec![("topk", "4"), ("iterator", "True")];
        params.extend(extra);
        let request =
            wire::SearchRequest { guarantee_timestamp: moment, ..search(&[0.0], &params) };
        let found = served.call(served.client().search(request));
        assert_ok(&found.status.unwrap());
        let results = found.results.unwrap();
        (numbers(results.ids), found.session_ts, results.search_iterator_v2_results)
    };
    let (first, moment, next) = page(&[("search_iter_v2", "True")], 0);
    let next = next.unwrap();
    assert_eq!(first, [0, 1, 2, 3]);
    let (_, earlier, _) = page(&[("params", r#"{"radius":1000.0}"#)], 0);
    delete(&served, "id in [4, 5]");
    let upsert = wire::UpsertRequest {
        collection_name: "a".into(),
        fields_data: vec![crate::served::longs("id", vec![6]), crate::served::vectors(90..91)],
        num_rows: 1,
        ..Default::default()
    };
    assert_ok(&served.call(served.client().upsert(upsert)).status.unwrap());
    let bound = next.last_bound.to_string();
    let behind = [
        ("search_iter_v2", "True"),
        ("search_iter_id", next.token.as_str()),
        ("search_iter_last_bound", bound.as_str()),
    ];
    assert_eq!(page(&behind, moment).0, [4, 5, 6, 7]);
    assert_eq!(page(&behind, 0).0, [7, 8, 9, 10], "an iterator that begins now");
    // The first kind of iterator asks for a range.
    let range = [("params", r#"{"radius":1000.0,"range_filter":64.0}"#)];
    assert_eq!(page(&range, earlier).0, [4, 5, 6, 7]);
}

#[test]
fn pages_give_all_rows_that_are_equally_far() {
    let served = Served::new();
    served.filled("a", 40);
    let page = |query: f32, limit: &str, moment, behind: Option<&SearchIteratorV2Results>| {
        let bound = behind.map(|it| it.last_bound.to_string());
        let mut params = vec![("topk", limit), ("iterator", "True"), ("search_iter_v2", "True")];
        params.extend(behind.map(|it| ("search_iter_id", it.token.as_str())));
        params.extend(bound.as_deref().map(|bound| ("search_iter_last_bound", bound)));
        let request =
            wire::SearchRequest { guarantee_timestamp: moment, ..search(&[query], &params) };
        let found = served.call(served.client().search(request));
        assert_ok(&found.status.unwrap());
        let results = found.results.unwrap();
        (numbers(results.ids), found.session_ts, results.search_iterator_v2_results.unwrap())
    };
    for (query, limit) in [(19.0, "4"), (19.5, "1"), (19.5, "3")] {
        let (mut all, moment, mut behind) = page(query, limit, 0, None);
        loop {
            let (mut some, _, next) = page(query, limit, moment, Some(&behind));
            if some.is_empty() {
                break;
            }
            if next.last_bound > behind.last_bound {
                let again = page(query, limit, moment, Some(&behind)).0;
                assert_eq!(again, some, "a page that is asked for once more is the same");
            }
            all.append(&mut some);
            behind = next;
        }
        assert!(all.is_sorted_by_key(|id| (*id as f64 - f64::from(query)).abs()), "{all:?}");
        all.sort_unstable();
        assert_eq!(all, (0..40).collect::<Vec<_>>());
    }
}

#[test]
fn pages_may_be_longer_than_the_list_that_is_asked_for() {
    let served = Served::new();
    served.filled("a", 200);
    let list = ("params", r#"{"ef":64}"#);
    let params = [("topk", "150"), ("iterator", "True"), ("search_iter_v2", "True"), list];
    let first = served.call(served.client().search(search(&[0.0], &params)));
    assert_ok(&first.status.unwrap());
    let results = first.results.unwrap();
    let next = results.search_iterator_v2_results.unwrap();
    let bound = next.last_bound.to_string();
    let behind =
        [("search_iter_id", next.token.as_str()), ("search_iter_last_bound", bound.as_str())];
    let behind: Vec<_> = params.into_iter().chain(behind).collect();
    let request =
        wire::SearchRequest { guarantee_timestamp: first.session_ts, ..search(&[0.0], &behind) };
    let second = served.call(served.client().search(request));
    assert_ok(&second.status.unwrap());
    let all = [numbers(results.ids), numbers(second.results.unwrap().ids)].concat();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
    let range = ("params", r#"{"ef":64,"radius":1000000.0}"#);
    let found = served.call(served.client().search(search(&[0.0], &[("topk", "150"), range])));
    assert_ok(&found.status.unwrap());
    assert_eq!(numbers(found.results.unwrap().ids), (0..150).collect::<Vec<_>>());
}

#[test]
fn a_collection_that_is_dropped_has_no_moments() {
    let served = Served::new();
    served.filled("a", 3);
    let (_, moment) = page(&served, "id >= 0", "1", 0);
    let drop = wire::DropCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_ok(&served.call(served.client().drop_collection(drop)));
    served.filled("a", 2);
    assert_eq!(page(&served, "id >= 0", "9", moment).0, [0, 1]);
}
