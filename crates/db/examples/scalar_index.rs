//! What scalar indexes cost and how fast they answer, with real tags.
//!
//! `cargo run --release -p pipeann-db --example scalar_index -- DIRECTORY TAGS QUERIES [ROWS]`
//!
//! `TAGS` and `QUERIES` are `.spmat` files: tags of rows, and for each query the tags that a row
//! has to have. Beside its tags a row has a unique integer in random order, a price with few
//! values, and a text. Rows come in batches of 1,000 and are flushed when that is asked for. Needs
//! Linux, whose scheduler counts a thread's time.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pipeann_db::ids::{RowId, Seq};
use pipeann_db::scalar::{
    Condition, Judged, KeyPredicate, Pressure, ScalarBatch, ScalarColumn, ScalarIndexes,
    ScalarOptions, ScalarView, Sketch, Verdict,
};
use pipeann_db::schema::FieldId;
use pipeann_db::value::{Array, ScalarType, Value};
use pipeann_engine::memory::{Accountant, Pool};
use roaring::RoaringTreemap;

type Failure = Box<dyn std::error::Error>;

const BATCH: u64 = 1000;
const ROUNDS: usize = 5;
const BUFFER_BYTES: u64 = 32 << 20;

const ID: usize = 0;
const PRICE: usize = 1;
const NAME: usize = 2;
const TAGS: usize = 3;

/// Rows of column numbers.
struct Sparse {
    ends: Vec<usize>,
    columns: Vec<i32>,
}

impl Sparse {
    fn read(path: &str) -> Result<Self, Failure> {
        let bytes = std::fs::read(path)?;
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| usize::try_from(i64::from_le_bytes(words[at]));
        let (rows, entries) = (word(0)?, word(2)?);
        let ends = (0..=rows).map(|row| word(3 + row)).collect::<Result<_, _>>()?;
        let at = (4 + rows) * 8;
        let (columns, _) = bytes[at..at + entries * 4].as_chunks::<4>();
        Ok(Self { ends, columns: columns.iter().map(|c| i32::from_le_bytes(*c)).collect() })
    }

    fn rows(&self) -> usize {
        self.ends.len() - 1
    }

    fn row(&self, row: usize) -> &[i32] {
        &self.columns[self.ends[row]..self.ends[row + 1]]
    }
}

/// Microseconds of processor time of this thread.
fn cpu_us() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split(' ').next().ok_or("schedstat has fields")?.parse::<f64>()? / 1000.0)
}

fn us(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// A bijection of 64-bit numbers that looks like chance.
fn scatter(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn columns() -> Arc<[ScalarColumn]> {
    let column = |field, scalar, array| {
        let field = FieldId(field);
        ScalarColumn { field, scalar, array, absent: Value::Null }
    };
    Arc::new([
        column(100, ScalarType::Int64, false),
        column(101, ScalarType::Double, false),
        column(102, ScalarType::VarChar, false),
        column(103, ScalarType::Int32, true),
    ])
}

fn row(number: u64, tags: &[i32]) -> Result<[Value; 4], Failure> {
    let mix = scatter(number);
    let tags: Vec<_> = tags.iter().map(|tag| Value::Int32(*tag)).collect();
    Ok([
        Value::Int64((mix >> 1).cast_signed()),
        Value::Double((mix % 10_000) as f64 / 100.0),
        Value::VarChar(format!("user-{}", mix % 50_000)),
        Value::Array(Array::collect(ScalarType::Int32, tags.iter().map(Value::as_ref))?),
    ])
}

fn insert(indexes: &ScalarIndexes, tags: &Sparse, rows: u64) -> Result<(), Failure> {
    let (mut add_us, mut flush_us, mut flushes, mut longest_ms) = (0.0, 0.0, 0, 0.0_f64);
    let columns = columns();
    for start in (0..rows).step_by(BATCH as usize) {
        let end = (start + BATCH).min(rows);
        let values = (start..end).map(|number| row(number, tags.row(number as usize)));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let began = cpu_us()?;
        let mut batch = ScalarBatch::new(Arc::clone(&columns));
        for (number, values) in (start..end).zip(&values) {
            batch.push(RowId(number), values.iter().map(Value::as_ref));
        }
        let pressure = indexes.apply(Seq(end), &batch)?;
        add_us += cpu_us()? - began;
        if pressure == Pressure::Flush || end == rows {
            let (began, wall) = (cpu_us()?, Instant::now());
            let live = (0..end).collect();
            indexes.flush(Judged { live: &live, next_row: RowId(end) })?;
            flush_us += cpu_us()? - began;
            flushes += 1;
            longest_ms = longest_ms.max(wall.elapsed().as_secs_f64() * 1e3);
        }
    }
    let each = rows as f64;
    println!("adding       {:.2} us a row of processor time", add_us / each);
    println!("flushing     {:.2} us a row, {flushes} flushes", flush_us / each);
    println!("longest      {longest_ms:.0} ms");
    Ok(())
}

fn conditions(tags: &Sparse) -> Vec<(String, usize, Condition)> {
    let mut rows_of = BTreeMap::new();
    tags.columns.iter().for_each(|tag| *rows_of.entry(*tag).or_insert(0_u64) += 1);
    let all = tags.rows() as f64;
    let mut out = Vec::new();
    for share in [0.0001, 0.001, 0.01, 0.05, 0.2] {
        let off = |rows: u64| (rows as f64 / all / share).ln().abs();
        let near = rows_of.iter().min_by(|a, b| off(*a.1).total_cmp(&off(*b.1)));
        let tag = Value::Int32(near.map_or(0, |(tag, _)| *tag));
        out.push((format!("tag {share}"), TAGS, Condition::Contains(tag)));
    }
    for share in [0.0001, 0.001, 0.01, 0.05, 0.2, 0.5, 0.9] {
        let until = Value::Int64((share * i64::MAX as f64) as i64);
        let below = Condition::Within(Bound::Unbounded, Bound::Excluded(until));
        out.push((format!("unique < {share}"), ID, below));
        let until = Value::Double(share * 100.0);
        let below = Condition::Within(Bound::Unbounded, Bound::Excluded(until));
        out.push((format!("price < {share}"), PRICE, below));
    }
    out.push(("name = one".into(), NAME, Condition::Equal(Value::VarChar("user-77".into()))));
    out.push(("name like user-4%".into(), NAME, Condition::StartsWith("user-4".into())));
    out
}

fn ask(view: &ScalarView, tags: &Sparse, rows: u64) -> Result<(), Failure> {
    let live: RoaringTreemap = (0..rows).collect();
    let order: Vec<RowId> = (0..1_000_000).map(|i| RowId(scatter(i) % rows)).collect();
    println!(
        "{:<22}{:>9}{:>12}{:>12}{:>11}{:>9}{:>9}",
        "condition", "rows", "postings ms", "estimate us", "compile us", "maybe ns", "maybe %"
    );
    for (name, column, condition) in conditions(tags) {
        let predicate = KeyPredicate::new(&columns()[column], &condition).ok_or("it is indexed")?;
        let (mut postings, mut estimates, mut compiles, mut tests) =
            (vec![], vec![], vec![], vec![]);
        let (mut found, mut maybe) = (0, 0);
        for _ in 0..ROUNDS {
            let began = Instant::now();
            found = view.postings(&predicate, &live)?.rows.len();
            postings.push(us(began) / 1e3);
            let began = Instant::now();
            black_box(view.estimate(&predicate, &live)?);
            estimates.push(us(began));
            let began = Instant::now();
            let test = view.signature_test(&Sketch::Is(predicate.clone()));
            compiles.push(us(began));
            let began = Instant::now();
            maybe = order.iter().filter(|row| test.maybe(**row)).count();
            tests.push(us(began) * 1e3 / order.len() as f64);
        }
        println!(
            "{name:<22}{found:>9}{:>12.3}{:>12.1}{:>11.1}{:>9.1}{:>9.3}",
            median(postings),
            median(estimates),
            median(compiles),
            median(tests),
            maybe as f64 * 100.0 / order.len() as f64
        );
    }
    Ok(())
}

/// False positives of tag queries by how many rows match them.
fn false_positives(view: &ScalarView, queries: &Sparse, rows: u64) -> Result<(), Failure> {
    let live: RoaringTreemap = (0..rows).collect();
    let mut by_share = BTreeMap::<i32, (u64, f64, f64, f64)>::new();
    for query in (0..queries.rows()).step_by(20) {
        let wanted = queries.row(query).iter().map(|tag| Value::Int32(*tag)).collect();
        let predicate = KeyPredicate::new(&columns()[TAGS], &Condition::ContainsAll(wanted));
        let predicate = predicate.ok_or("tags are indexed")?;
        let matching = view.postings(&predicate, &live)?.rows.len();
        let guess = view.estimate(&predicate, &live)?.guess;
        let test = view.signature_test(&Sketch::Is(predicate));
        let maybe = (0..rows).filter(|row| test.verdict(RowId(*row)) != Verdict::No).count() as u64;
        let share = matching as f64 / rows as f64;
        let cell = by_share.entry(share.max(1e-6).log10().floor() as i32).or_default();
        cell.0 += 1;
        cell.1 += share;
        cell.2 += (maybe - matching) as f64 / rows as f64;
        cell.3 += ((guess.max(1)) as f64 / (matching.max(1)) as f64).ln().abs();
    }
    println!("matching share from    queries   mean share   false positives   estimate off by");
    for (share, (count, matching, wrong, off)) in by_share {
        let each = count as f64;
        println!(
            "1e{share:<20}{count:>8}{:>13.5}{:>18.5}{:>16.2}",
            matching / each,
            wrong / each,
            (off / each).exp()
        );
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().collect();
    let [_, dir, tags, queries, rest @ ..] = &args[..] else {
        return Err("usage: scalar_index DIRECTORY TAGS QUERIES [ROWS]".into());
    };
    let (tags, queries) = (Sparse::read(tags)?, Sparse::read(queries)?);
    let rows = rest.first().map_or(Ok(tags.rows() as u64), |rows| rows.parse())?;
    let dir = Path::new(dir);
    let accountant = Accountant::new(None);
    let options = || ScalarOptions {
        collection: *b"an index to time",
        buffer_bytes: BUFFER_BYTES,
        accountant: Arc::clone(&accountant),
    };
    let indexes = ScalarIndexes::open(dir, columns(), options())?;
    indexes.load()?;
    insert(&indexes, &tags, rows)?;
    drop(indexes);
    let began = Instant::now();
    let indexes = ScalarIndexes::open(dir, columns(), options())?;
    let opened = began.elapsed();
    indexes.load()?;
    println!(
        "opening      {:.1} ms, with signatures {:.1} ms",
        opened.as_secs_f64() * 1e3,
        began.elapsed().as_secs_f64() * 1e3
    );
    let view = indexes.view();
    let held = accountant.pool_bytes(Pool::Postings) - BUFFER_BYTES;
    println!("memory       {:.2} bytes a row", held as f64 / rows as f64);
    println!(
        "disk         {:.2} bytes a row in {} runs",
        view.disk_bytes() as f64 / rows as f64,
        view.runs()
    );
    ask(&view, &tags, rows)?;
    false_positives(&view, &queries, rows)
}
