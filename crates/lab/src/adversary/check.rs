//! Opens what a crash left, and compares it with what was answered.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use pipeann_db::collection::{Collection, FoundRow, RowQuery};
use pipeann_db::database::Database;
use pipeann_db::schema::PrimaryKey;
use pipeann_db::value::Value;

use crate::adversary::load::{FIELD, NAME, VALUE, WritingOptions, search, vector_of};
use crate::adversary::model::ExpectedRows;
use crate::adversary::vectors::Vectors;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Findings {
    /// Live rows.
    pub rows: u64,
    /// Recall of the searches at ten, by exact truth; of none, 1.
    pub recall: f64,
}

/// Opens the database in `dir`, and compares all of its rows with `model`, which learns of the
/// writes that came through without an answer. `queries` searches are compared with exact truth.
///
/// # Errors
/// It does not open, `verify` finds something, or rows are lost, back or other ones.
pub fn check(
    dir: &Path,
    vectors: &Vectors,
    model: &mut ExpectedRows,
    options: &WritingOptions,
    queries: u64,
) -> anyhow::Result<Findings> {
    let database = Database::open(dir, options.database(1)).context("it does not open")?;
    let c = match database.collection("default", NAME) {
        Ok(c) => c,
        // The power went before there was anything.
        Err(_) if model.rows.is_empty() && model.answered == [0, 0] => {
            return Ok(Findings { rows: 0, recall: 1.0 });
        }
        Err(error) => return Err(error).context("the collection is lost"),
    };
    let findings = c.verify()?;
    if let Some(finding) = findings.first() {
        bail!("verify finds {}: {}", finding.component, finding.what);
    }
    let found = rows(&c, vectors)?;
    ensure!(c.count(None)? == found.len() as u64, "the count is another");
    model.settle(&found).map_err(anyhow::Error::msg)?;
    // Before the first row the power may have gone even before the collection was loaded.
    let compares = queries > 0 && !found.is_empty();
    let recall = if compares { recall(&c, vectors, &found, queries)? } else { 1.0 };
    Ok(Findings { rows: found.len() as u64, recall })
}

/// Keys and values of all rows, each with the vector of its value.
fn rows(c: &Collection, vectors: &Vectors) -> anyhow::Result<BTreeMap<i64, u64>> {
    let all = c.query(&RowQuery { fields: &[VALUE, FIELD], ..RowQuery::default() })?;
    let mut found = BTreeMap::new();
    for FoundRow { key, values, .. } in &all {
        let (PrimaryKey::Int64(key), [Value::Int64(value), Value::Vector(vector)]) =
            (key, &values[..])
        else {
            bail!("a row of other fields: {key:?} {values:?}")
        };
        let value = *value as u64;
        ensure!(
            vectors.get(vector_of(value, vectors)) == vector,
            "key {key:#x} has the vector of another row"
        );
        ensure!(found.insert(*key, value).is_none(), "key {key:#x} comes twice");
    }
    Ok(found)
}

/// How many of the ten nearest rows of each query are found: a row as near as the tenth counts.
fn recall(
    c: &Collection,
    vectors: &Vectors,
    rows: &BTreeMap<i64, u64>,
    queries: u64,
) -> anyhow::Result<f64> {
    let (mut right, mut wanted) = (0, 0);
    for query in 0..queries {
        let hits = search(c, vectors, query)?;
        let vector = vectors.get(query.wrapping_mul(7919) % vectors.rows());
        let far = |value: u64| -> u64 {
            let other = vectors.get(vector_of(value, vectors));
            vector.iter().zip(other).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2)).sum()
        };
        let mut truth: Vec<u64> = rows.values().map(|value| far(*value)).collect();
        truth.sort_unstable();
        truth.truncate(10);
        wanted += truth.len();
        let Some(&tenth) = truth.last() else { continue };
        for (_, key) in &hits {
            let value = rows.get(key).with_context(|| format!("key {key:#x} does not live"))?;
            right += usize::from(far(*value) <= tenth);
        }
    }
    Ok(if wanted == 0 { 1.0 } else { right as f64 / wanted as f64 })
}
