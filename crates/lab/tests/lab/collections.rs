//! Searches of a collection with columns, and what is told of their filters.

use serde_json::{Value, json};

use crate::data::{DIM, Place, clustered, text};

const ROWS: usize = 3000;
const QUERIES: usize = 50;
const SEARCH: &str = "collections search --dir db --queries query.u8bin";

fn group(row: usize) -> usize {
    row * 7 % 20
}

/// A database of clustered rows: each has a group, texts and a number, and there is a graph.
fn place() -> Place {
    let place = Place::new(ROWS);
    let fields = json!([
        {"name": "group", "data_type": "int64"},
        {"name": "marks", "data_type": "array<varchar>", "max_capacity": 4, "max_bytes": 8},
        {"name": "share", "data_type": "double"},
    ]);
    let mut lines = vec![fields.to_string()];
    for row in 0..ROWS {
        let marks = [format!("g{}", group(row)), "all".to_owned()];
        lines.push(json!([group(row), marks, row as f64 / ROWS as f64]).to_string());
    }
    place.write("columns.jsonl", lines.join("\n").as_bytes());
    let fill = "collections fill --dir db --base base.u8bin --columns columns.jsonl --build";
    let filled = place.run(fill);
    assert!(filled.status.success(), "{}", text(&filled.stderr));
    place
}

/// A truth file of the nearest ten rows that `matches` allows each query, and a filter that it
/// stands for.
fn write_truth(place: &Place, matches: impl Fn(usize, usize) -> bool) {
    let (rows, queries) = (clustered(ROWS, 1), clustered(QUERIES, 2));
    let (mut ids, mut distances) = (Vec::new(), Vec::new());
    for (query, vector) in queries.chunks_exact(DIM).enumerate() {
        let gap = |(a, b): (&u8, &u8)| (f32::from(*a) - f32::from(*b)).powi(2);
        let all = rows.chunks_exact(DIM).enumerate().filter(|(row, _)| matches(query, *row));
        let mut near: Vec<(f32, u32)> =
            all.map(|(row, v)| (vector.iter().zip(v).map(gap).sum(), row as u32)).collect();
        near.sort_by(|a, b| a.partial_cmp(b).unwrap());
        near.resize(near.len().max(10), (f32::INFINITY, u32::MAX));
        ids.extend(near[..10].iter().map(|near| near.1));
        distances.extend(near[..10].iter().map(|near| near.0));
    }
    let bytes = [QUERIES as u32, 10].into_iter().chain(ids).flat_map(u32::to_le_bytes);
    let bytes: Vec<u8> = bytes.chain(distances.into_iter().flat_map(f32::to_le_bytes)).collect();
    place.write("truth.bin", &bytes);
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"))
}

#[test]
fn each_query_has_its_filter_and_recall_counts_what_matches() {
    let place = place();
    let filters: Vec<_> = (0..QUERIES).map(|q| format!("group == {}", q % 20)).collect();
    place.write("filters.txt", filters.join("\n").as_bytes());
    write_truth(&place, |query, row| group(row) == query % 20);
    let line = format!("{SEARCH} --filters filters.txt --truth truth.bin --threads 2 --explain");
    let found = place.json(&line);
    assert_eq!(found.len(), 2, "one list, and the plans");
    assert!(number(&found[0], "recall") > 0.98, "{}", found[0]);
    assert_eq!((&found[0]["wrong"], &found[0]["list"]), (&0.into(), &Value::Null));
    let ways = ["walked", "ranked", "changed", "compared"].map(|way| number(&found[0], way));
    assert_eq!(ways.iter().sum::<f64>(), QUERIES as f64, "{}", found[0]);
    assert!(number(&found[0], "exact_distances") >= 10.0, "{}", found[0]);
    assert_eq!(number(&found[1], "matches"), 150.0);
    let plans = found[1]["plans"].as_object().unwrap();
    assert_eq!(plans.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), QUERIES as u64);

    // The wrong filters find rows that the truth does not have.
    let found = place.json(&format!("{SEARCH} --filter group<10 --truth truth.bin")).remove(0);
    assert!(number(&found, "wrong") > 0.0, "{found}");
}

#[test]
fn nothing_kept_of_filters_helps_those_asked_as_unseen() {
    let place = place();
    write_truth(&place, |_, row| group(row) == 3);
    let line = format!("{SEARCH} --filter group==3 --truth truth.bin --rounds 2");
    let (seen, unseen) = (place.json(&line), place.json(&format!("{line} --unseen")));
    let kept = |found: &[Value]| number(&found[0]["pools"], "postings");
    // An answer is kept for each time that the filter was asked, warm-up included, and not one for
    // all; two bytes for each of its 150 rows are the least that it takes.
    let answers = (3 * QUERIES - 1) as f64;
    assert!(kept(&unseen) - kept(&seen) >= answers * 300.0, "{} and {}", seen[0], unseen[0]);
    for name in ["recall", "wrong", "expected"] {
        assert_eq!(seen[0][name], unseen[0][name], "{name}");
    }
}

#[test]
fn few_rows_are_all_that_is_expected_and_lists_end_at_the_recall() {
    let place = place();
    write_truth(&place, |_, row| row < 3);
    let line = format!("{SEARCH} --filter share<0.001 --truth truth.bin --list 10,20 --until 0.9");
    let found = place.json(&line);
    assert_eq!(found.len(), 1, "the first list has the recall");
    assert_eq!((&found[0]["expected"], &found[0]["recall"]), (&150.into(), &1.0.into()));
    let all = place.json(&format!("{SEARCH} --list 10,20"));
    assert_eq!((all.len(), &all[1]["recall"]), (2, &Value::Null));
}

#[test]
fn answers_are_written_as_the_truth_of_the_next_search() {
    let place = place();
    place.json(&format!("{SEARCH} --filter share<0.002 --out truth.bin"));
    let row = place.json(&format!("{SEARCH} --filter 0.002>share --truth truth.bin")).remove(0);
    assert_eq!((&row["expected"], &row["recall"]), (&(6 * QUERIES).into(), &1.0.into()));
}

#[test]
fn vectors_without_an_index_are_searched_by_a_metric_that_is_named() {
    let place = Place::new(300);
    place.truth();
    let filled = place.run("collections fill --dir db --base base.u8bin --flush");
    assert!(filled.status.success(), "{}", text(&filled.stderr));
    let row = place.json(&format!("{SEARCH} --metric l2 --truth truth.bin")).remove(0);
    assert_eq!(row["recall"], 1.0);
    let error = place.refusal(SEARCH);
    assert!(error.contains("metric"), "{error}");
}

#[test]
fn a_plan_is_told() {
    let place = place();
    let explain = "collections explain --dir db --filter group==3";
    let plan = place.json(explain).remove(0);
    assert_eq!((&plan["matches"], &plan["rows"]), (&150.into(), &ROWS.into()));
    assert_eq!(plan["conditions"][0]["field"], "group");
    assert_eq!(plan["searches"][0]["linked"], 150);
    let said = text(&place.run(explain).stdout);
    assert!(said.contains("150 of 3,000 rows"), "{said}");
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let place = place();
    place.write("two.txt", b"group == 1\ngroup == 2\n");
    let error = place.refusal(&format!("{SEARCH} --filters two.txt"));
    assert!(error.contains("2 filters for 50 queries"), "{error}");
    let error = place.refusal(&format!("{SEARCH} --until 0.9"));
    assert!(error.contains("--until takes a --truth"), "{error}");
    let error = place.refusal(&format!("{SEARCH} --filter colour==1"));
    assert!(error.contains("colour"), "{error}");
    let fields = json!([{"name": "n", "data_type": "int64"}]);
    let fill = "collections fill --dir other --base base.u8bin --columns bad.jsonl";
    for (row, what) in [("[1.5]", "1.5 is no int64"), ("[1, 2]", "2 values for 1 fields")] {
        place.write("bad.jsonl", format!("{fields}\n[0]\n{row}\n").as_bytes());
        let error = place.refusal(&format!("{fill} --count 2"));
        assert!(error.contains("row 1") && error.contains(what), "{error}");
    }
}
