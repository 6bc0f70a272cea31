//! Searching: recall, the contract of the JSON lines, and the answers themselves.

use serde_json::Value;

use crate::data::{Place, text};

const SEARCH: &str = "search --index index --queries query.u8bin --truth truth.bin --buffered";

fn place() -> Place {
    let place = Place::new(4000);
    place.build();
    place.truth();
    place
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"))
}

#[test]
fn every_policy_finds_the_nearest_and_reports_all_figures() {
    let place = place();
    for policy in ["pipe", "beam", "page"] {
        let rows = place.json(&format!("{SEARCH} --policy {policy} --list 20,60"));
        assert_eq!(rows.len(), 2);
        for row in &rows {
            assert_eq!((&row["policy"], &row["queries"]), (&policy.into(), &50.into()));
            for name in [
                "qps",
                "mean_us",
                "p50_us",
                "p99_us",
                "reads",
                "reads_wasted",
                "reads_shared",
                "resident_pages",
                "bytes_read",
                "hops",
                "code_distances",
                "exact_distances",
                "width_max",
                "cpu_us",
                "user_us",
                "sys_us",
                "compute_us",
                "wait_us",
                "reads_per_s",
                "peak_rss_bytes",
            ] {
                number(row, name);
            }
            for pool in ["codes", "head_index", "page_map", "page_cache"] {
                number(&row["pools"], pool);
            }
            assert!(number(row, "reads") >= 1.0);
            assert!(number(row, "p50_us") <= number(row, "p99_us"));
        }
        assert_eq!((&rows[0]["list"], &rows[1]["list"]), (&20.into(), &60.into()));
        assert!(number(&rows[1], "recall") > 0.95, "{policy}: {}", rows[1]["recall"]);
    }
}

#[test]
fn threads_queries_in_flight_and_switches_change_cost_but_not_quality() {
    let place = place();
    for options in [
        "--threads 2 --in-flight 8 --repeat 3",
        "--switches issue=fill,dynamic=off,packed=off --width 8",
        "--switches head=off --max-width 16",
        "--memory-limit all",
        "--memory-limit 64MiB",
    ] {
        let row = place.json(&format!("{SEARCH} --list 80 {options}")).remove(0);
        assert!(number(&row, "recall") > 0.95, "{options}: {}", row["recall"]);
        if options.ends_with("all") {
            assert_eq!(number(&row, "reads"), 0.0);
            assert!(number(&row, "resident_pages") > 0.0);
        }
    }
}

#[test]
fn answers_are_written_and_can_be_judged_by_themselves() {
    let place = place();
    place.json(&format!("{SEARCH} --list 80 --out a.ivecs"));
    place.json(&format!("{SEARCH} --list 80 --out a.bin"));
    let ivecs = std::fs::read(place.path("a.ivecs")).unwrap();
    assert_eq!(ivecs.len(), 50 * (4 + 10 * 4));
    let itself = SEARCH.replace("truth.bin", "a.bin");
    assert_eq!(place.json(&format!("{itself} --list 80"))[0]["recall"], 1.0);
    let refused = place.refusal(&format!("{SEARCH} --list 20,30 --out a.ivecs"));
    assert!(refused.contains("one list"), "{refused}");
}

#[test]
fn fewer_queries_use_the_first_of_the_truth() {
    let place = place();
    let row = place.json(&format!("{SEARCH} --list 80 --limit-queries 7")).remove(0);
    assert_eq!(row["queries"], 7);
    assert!(number(&row, "recall") > 0.9);
}

#[test]
fn the_table_has_a_line_for_each_list_and_the_memory() {
    let place = place();
    let out = text(&place.run(&format!("{SEARCH} --list 20,40")).stdout);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(lines[0].starts_with("policy") && lines[0].contains("recall"));
    assert!(lines[3].starts_with("memory: codes"));
}

#[test]
fn raw_reads_are_measured() {
    let place = place();
    let raw =
        place.json("raw --index index --depth 8 --threads 2 --seconds 0.2 --buffered").remove(0);
    for name in ["reads_per_s", "mean_us", "p99_us", "cpu_us_per_read"] {
        assert!(number(&raw, name) > 0.0, "{name}");
    }
}
