//! What inserting rows with scalar fields and a vector into a collection costs, flushes included.
//!
//! `cargo run --release -p pipeann-db --example collection_insert -- DIRECTORY TAGS [ROWS]`
//!
//! `TAGS` is a `.spmat` file with the tags of each row; a row also has a key, a price, a text and a
//! vector of 128 bytes. Batches of 1,000 rows, not synced one by one.

use std::path::Path;
use std::time::Instant;

use pipeann_db::catalog::{NewCollection, UnixMs};
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::schema::{Batch, FieldSpec, Schema};
use pipeann_db::value::{
    Array, Arrays, Column, ColumnValues, DataType, DenseVectors, ScalarType, ValueRef, VectorKind,
};
use pipeann_db::wal::Level;

type Failure = Box<dyn std::error::Error>;

const BATCH: usize = 1000;
const DIM: usize = 128;

fn scatter(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Tags by row: where each row's begin, and all of them.
fn tags(path: &str) -> Result<(Vec<usize>, Vec<i32>), Failure> {
    let bytes = std::fs::read(path)?;
    let (words, _) = bytes.as_chunks::<8>();
    let word = |at: usize| usize::try_from(i64::from_le_bytes(words[at]));
    let (rows, entries) = (word(0)?, word(2)?);
    let starts = (0..=rows).map(|row| word(3 + row)).collect::<Result<_, _>>()?;
    let at = (4 + rows) * 8;
    let (columns, _) = bytes[at..at + entries * 4].as_chunks::<4>();
    Ok((starts, columns.iter().map(|column| i32::from_le_bytes(*column)).collect()))
}

fn schema() -> Result<Schema, Failure> {
    let field = |name: &str, data_type| FieldSpec::new(name, data_type);
    let scalar = DataType::Scalar;
    Ok(Schema::builder()
        .field(field("id", scalar(ScalarType::Int64)).primary_key())
        .field(field("price", scalar(ScalarType::Double)))
        .field(field("name", scalar(ScalarType::VarChar)).max_bytes(64))
        .field(field("tags", DataType::Array(ScalarType::Int32)).max_capacity(64))
        .field(field("v", DataType::Vector(VectorKind::UInt8)).dim(DIM as u32))
        .build()?)
}

fn batch(from: usize, starts: &[usize], tags: &[i32]) -> Result<Batch, Failure> {
    let mixed: Vec<u64> = (from..from + BATCH).map(|row| scatter(row as u64)).collect();
    let vectors = mixed.iter().flat_map(|mix| (0..DIM as u64 / 8).map(move |i| scatter(mix ^ i)));
    let vectors = vectors.flat_map(u64::to_le_bytes).collect();
    let mut arrays = Arrays::new(ScalarType::Int32);
    for row in from..from + BATCH {
        let own = tags[starts[row]..starts[row + 1]].iter().map(|tag| ValueRef::Int32(*tag));
        arrays.push(&Array::collect(ScalarType::Int32, own)?);
    }
    Ok(Batch {
        rows: BATCH,
        columns: vec![
            Column::new(
                "id",
                ColumnValues::Int64(mixed.iter().map(|mix| (mix >> 1) as i64).collect()),
            ),
            Column::new(
                "price",
                ColumnValues::Double(mixed.iter().map(|mix| (mix % 10_000) as f64).collect()),
            ),
            Column::new(
                "name",
                ColumnValues::VarChar(
                    mixed.iter().map(|mix| format!("user-{}", mix % 50_000)).collect(),
                ),
            ),
            Column::new("tags", ColumnValues::Array(arrays)),
            Column::new(
                "v",
                ColumnValues::Dense(DenseVectors::new(VectorKind::UInt8, DIM, vectors)?),
            ),
        ],
    })
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().collect();
    let [_, dir, path, rest @ ..] = &args[..] else {
        return Err("usage: collection_insert DIRECTORY TAGS [ROWS]".into());
    };
    let (starts, tags) = tags(path)?;
    let rows = rest.first().map_or(Ok(starts.len() - 1), |rows| rows.parse())?;
    let mut options = DatabaseOptions::new(|| UnixMs(0));
    options.collection.log.level = Level::None;
    let database = Database::open(Path::new(dir), options)?;
    let new = NewCollection::new(schema()?);
    let collection = database.create_collection("default", "c", new)?;
    let (mut insert_s, mut longest_ms) = (0.0, 0.0_f64);
    for from in (0..rows / BATCH * BATCH).step_by(BATCH) {
        let batch = batch(from, &starts, &tags)?;
        let began = Instant::now();
        collection.insert(batch, None)?;
        let took = began.elapsed().as_secs_f64();
        insert_s += took;
        longest_ms = longest_ms.max(took * 1e3);
    }
    let began = Instant::now();
    collection.flush()?;
    let flush_s = began.elapsed().as_secs_f64();
    println!("inserting    {:.2} us a row, flushes included", insert_s * 1e6 / rows as f64);
    println!("longest      {longest_ms:.0} ms");
    println!("last flush   {:.0} ms", flush_s * 1e3);
    Ok(())
}
