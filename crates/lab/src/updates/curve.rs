//! Recall and reads of the generation on disk over a curve of list lengths.
//!
//! The index is opened as a reader beside the writer, at the lowest memory limit, so that a
//! changed index and a fresh build are measured by the same code under the same conditions.

use anyhow::Result;
use pipeann_engine::index::BatchOptions;
use pipeann_engine::search::{Policy, SearchParams, SearchStats};
use pipeann_engine::types::VectorSet;
use serde_json::{Value, json};

use pipeann_cli::measure::rounded;
use pipeann_cli::opening::IndexArgs;
use pipeann_cli::table::{Table, print_json, print_line};
use pipeann_cli::truth::Truth;
use pipeann_engine::memory::MemoryLimit;

/// Results of a query: what recall is taken at.
pub(super) const K: usize = 10;

/// Threads that search, each with one query in flight.
const THREADS: usize = 2;

/// Waits for all reads of a round, so that what is read does not depend on how quick the device is
/// and who else uses it, as in a pipeline.
fn policy() -> Policy {
    Policy::page(2)
}

/// Prints what was found after a load: one object, or a table for people.
///
/// # Errors
/// Where standard output cannot be written.
pub(super) fn print(result: &Value, json: bool) -> Result<()> {
    if json {
        return print_json(result);
    }
    if let Value::Object(fields) = result {
        let plain = fields.iter().filter(|(_, value)| !value.is_array() && !value.is_object());
        let words: Vec<String> = plain.map(|(name, value)| format!("{name} {value}")).collect();
        print_line(&format!("{}; {}", words.join(", "), result["load"]))?;
    }
    let table = Table::new(&["list", "recall", "reads", "hops"]);
    print_line(&table.header())?;
    for point in result["curve"].as_array().into_iter().flatten() {
        let cells = ["list", "recall", "reads", "hops"].map(|name| point[name].to_string());
        print_line(&table.line(&cells))?;
    }
    Ok(())
}

/// One object for each list length. Row `first_row + i` of the index is row `i` of the truth.
///
/// # Errors
/// Whatever keeps the index from opening or a search from ending.
pub(super) fn curve(
    index: &IndexArgs,
    queries: VectorSet<'_>,
    truth: &Truth,
    first_row: u64,
    lists: &[usize],
) -> Result<Vec<Value>> {
    let index = index.open(MemoryLimit::Floor)?;
    index.wait_resident()?;
    let batch = BatchOptions { threads: THREADS, in_flight: 1, allow: None };
    let mut rows = Vec::with_capacity(lists.len());
    for &list in lists {
        let params = SearchParams { k: K, list, policy: policy(), ..SearchParams::default() };
        let answers = index.search_batch(queries, &params, &batch)?;
        let mut stats = SearchStats::default();
        answers.iter().for_each(|a| stats += a.stats);
        let of_truth = |row: u64| row.checked_sub(first_row).unwrap_or(u64::MAX);
        let found: Vec<Vec<(u64, f32)>> = answers
            .iter()
            .map(|a| a.hits.iter().map(|h| (of_truth(h.row.0), h.distance)).collect())
            .collect();
        let n = answers.len() as f64;
        rows.push(json!({
            "list": list, "recall": rounded(truth.recall(K, &found), 5),
            "reads": rounded(stats.reads as f64 / n, 3), "hops": rounded(stats.hops as f64 / n, 3),
        }));
    }
    Ok(rows)
}
