//! Times the kernels of `distance` and `quant` on this machine.
//!
//! `cargo run --release -p pipeann-engine --example code_kernels [-- CODES]`, where CODES is
//! the number of 32-byte codes (1,000,000 unless told). Every line is the best of short
//! rounds that take the kernels in turn, so that a busy machine disturbs it least.

use std::hint::black_box;
use std::time::Instant;

use pipeann_engine::distance::{Kernel, PairOp, SimdLevel};
use pipeann_engine::quant::{
    CodeKernel, CodeOptions, Codebook, CodesView, LookupTable, default_code_bytes, score_many,
};
use pipeann_engine::types::{Metric, SplitMix64, VectorSet, VectorType};

const ROUNDS: usize = 60;

/// Batches scored in a round.
const BATCHES: usize = 512;

/// Codes that a ranking scores at once.
const AT_ONCE: usize = 512;

fn best(times: impl IntoIterator<Item = f64>) -> f64 {
    times.into_iter().fold(f64::INFINITY, f64::min)
}

/// Nanoseconds of one call, over `calls` of them.
fn time_ns(calls: usize, mut call: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(&mut call);
    start.elapsed().as_nanos() as f64 / calls as f64
}

fn main() {
    let rows = match std::env::args().nth(1) {
        Some(rows) => rows.parse().expect("CODES is a number"),
        None => 1_000_000,
    };
    distances();
    let mut draws = SplitMix64::new(1);
    let book = encoding(&mut draws);
    for rows in [1000, rows] {
        let codes: Vec<u8> = (0..rows * 4).flat_map(|_| draws.next_u64().to_le_bytes()).collect();
        for neighbours in [1, 4, 6, 7, 8, 12, 16, 32, 64, 128] {
            scoring(&book, &codes, neighbours, &mut draws);
        }
    }
    let codes: Vec<u8> = (0..rows * 4).flat_map(|_| draws.next_u64().to_le_bytes()).collect();
    println!("ranking with {:?}: ns a code", CodeKernel::detected());
    for one_in in [1, 2, 5, 20, 100] {
        ranking(&book, &codes, one_in, &mut draws);
    }
}

/// Distances with both vectors in the first-level cache.
fn distances() {
    println!("distance, in cache: ns");
    for (ty, dim) in [
        (VectorType::U8, 128),
        (VectorType::F32, 128),
        (VectorType::F32, 768),
        (VectorType::F32, 100),
    ] {
        let bytes: Vec<u8> = (0..ty.vector_bytes(dim) * 4).map(|i| (i % 60) as u8).collect();
        let set = VectorSet::new(&bytes, dim, ty).expect("whole rows");
        for op in [PairOp::SquaredL2, PairOp::Dot] {
            for level in SimdLevel::ALL {
                let Some(kernel) = Kernel::with_level(op, ty, dim, level) else { continue };
                let times = (0..ROUNDS).map(|_| {
                    time_ns(5000, |i| {
                        black_box(kernel.eval(set.row(i % 4), set.row(i / 4 % 4)));
                    })
                });
                println!("  {ty}x{dim} {op:?} {level:?}: {:.1}", best(times));
            }
        }
    }
}

/// Trains on, encodes and looks up made-up vectors of 128 bytes.
fn encoding(draws: &mut SplitMix64) -> Codebook {
    let rows = 200_000;
    let bytes: Vec<u8> = (0..rows * 16).flat_map(|_| draws.next_u64().to_le_bytes()).collect();
    let set = VectorSet::new(&bytes, 128, VectorType::U8).expect("whole rows");
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one thread");
    let start = Instant::now();
    let book = one.install(|| Codebook::train(set, Metric::L2, &CodeOptions::for_dim(128)));
    println!(
        "train u8x128, {} B: {:.2} s on one thread",
        default_code_bytes(128),
        start.elapsed().as_secs_f64()
    );
    let mut codes = vec![0; rows * book.code_bytes()];
    let start = Instant::now();
    one.install(|| book.encode_all(set, &mut codes));
    let seconds = start.elapsed().as_secs_f64() * 1e6 / rows as f64;
    println!("encode u8x128, {} B: {seconds:.2} s per million on one thread", book.code_bytes());
    for kernel in CodeKernel::ALL {
        let Some(mut table) = LookupTable::with_kernel(&book, kernel) else { continue };
        let times =
            (0..ROUNDS).map(|_| time_ns(100, |i| table.fill(&book, set.row(i), VectorType::U8)));
        println!("fill for {kernel:?}: {:.0} ns", best(times));
    }
    book
}

/// Scores batches of random ids with every kernel in turn.
fn scoring(book: &Codebook, codes: &[u8], neighbours: usize, draws: &mut SplitMix64) {
    let view = CodesView::from_slice(codes, book.code_bytes());
    let query = vec![100u8; 128];
    let mut tables: Vec<(CodeKernel, LookupTable)> = CodeKernel::ALL
        .into_iter()
        .filter_map(|k| Some((k, LookupTable::with_kernel(book, k)?)))
        .collect();
    let mut times = vec![Vec::new(); tables.len()];
    let mut out = vec![0f32; neighbours];
    for _ in 0..ROUNDS {
        for ((_, table), times) in tables.iter_mut().zip(&mut times) {
            // Fresh ids for each kernel: none finds codes that another has brought in.
            let ids: Vec<u32> = (0..neighbours * BATCHES)
                .map(|_| (draws.next_u64() % view.rows() as u64) as u32)
                .collect();
            table.fill(book, &query, VectorType::U8);
            times.push(time_ns(BATCHES, |i| {
                score_many(table, view, &ids[i * neighbours..][..neighbours], &mut out);
                black_box(&out);
            }));
        }
    }
    println!("{neighbours} of {} codes: ns a batch", view.rows());
    for ((kernel, _), times) in tables.iter().zip(times) {
        println!("  {kernel:?}: {:.0}", best(times));
    }
}

/// Scores a share of all codes, in their order and as many at once as a ranking does.
fn ranking(book: &Codebook, codes: &[u8], one_in: u64, draws: &mut SplitMix64) {
    let view = CodesView::from_slice(codes, book.code_bytes());
    let rows = u32::try_from(view.rows()).expect("fewer codes than ids");
    let ids: Vec<u32> = (0..rows).filter(|_| draws.next_u64().is_multiple_of(one_in)).collect();
    let mut table = LookupTable::new(book);
    table.fill(book, &[100; 128], VectorType::U8);
    let mut out = vec![0f32; AT_ONCE];
    let times = (0..ROUNDS).map(|_| {
        let whole = time_ns(1, |_| {
            for ids in ids.chunks(AT_ONCE) {
                score_many(&table, view, ids, &mut out[..ids.len()]);
                black_box(&out);
            }
        });
        whole / ids.len() as f64
    });
    println!("  one in {one_in} of {rows}: {:.2}", best(times));
}
