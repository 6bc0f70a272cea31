//! Filters over the schema of the target: a letter for a field of each type.

use super::seed::Seeds;

const FILTERS: &[&str] = &[
    "a > 5 and not (d <= 2.5 or b)",
    "5 > h >= 1 and f == 0.1",
    "a % 7 == 3 or (a + m) * 2 <= d - 0.5",
    "s in [\"x\", \"y\"] and a not in [1, 2, 3]",
    "s like \"prefix%\" or s like \"a_c%d\"",
    "s is null or j[\"x\"] is not null",
    "array_contains(A, 1) and array_contains_any(S, [\"a\", \"b\"])",
    "array_length(A) > 2 and A[0] == 4",
    "j[\"user\"][\"langs\"][0] == \"en\" and exists j[\"user\"]",
    "json_contains_all(j[\"tags\"], [1, \"two\"])",
    "j[\"k\"] in {list} and a > {n} and d < {f}",
    "z + INTERVAL \"P1M\" > ISO \"2025-03-01\"",
    "$meta[\"size\"] >= 12 and $meta[\"k\"][0] is null",
    "a between 1 and 5 and s not between \"a\" and \"c\"",
    "a == 2 ** 10 or 10 > -a",
    "id > \"text\"",
];

pub(super) fn add(seeds: &mut Seeds) {
    for (i, filter) in FILTERS.iter().enumerate() {
        seeds.add("filter", format!("filter-{i:02}"), *filter);
    }
    // As many nodes for a character as an expression can have.
    let (minuses, sums) = ("-".repeat(60), "a-a+".repeat(30));
    seeds.add("filter", "filter-minuses".to_owned(), vec![format!("{minuses}a>0"); 100].join("||"));
    seeds.add("filter", "filter-sums".to_owned(), vec![format!("{sums}a>0"); 60].join("||"));
}
