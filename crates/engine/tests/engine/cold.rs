//! Searches before all codes are in memory: the same answers, and damage is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::io::{self, Backend, Errno, File, IoError, OpenMode, Queue, QueueOptions};
use pipeann_engine::search::{Policy, SearchParams, Width};
use pipeann_engine::types::{Metric, VectorType};

use crate::data::{Vectors, build_in, clustered, open, open_options, options};

/// A backend without memory for long reads: the codes do not stream in, so that every block of
/// them is read by the search that needs it.
struct ShortReads(Arc<dyn Backend>);

impl Backend for ShortReads {
    fn name(&self) -> &'static str {
        "short reads"
    }
    fn block_bytes(&self) -> usize {
        self.0.block_bytes()
    }
    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<File, IoError> {
        self.0.open_file(path, mode)
    }
    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError> {
        match options.buffer_bytes {
            0..=16_384 => self.0.queue(options),
            _ => Err(IoError::Setup { what: "long reads", errno: Errno(12) }),
        }
    }
}

fn open_cold(path: &Path) -> Index {
    let backend: Option<Arc<dyn Backend>> = Some(Arc::new(ShortReads(io::best())));
    Index::open(path, &OpenOptions { backend, ..open_options() }).unwrap()
}

fn built() -> (tempfile::TempDir, PathBuf, Vectors) {
    let base = clustered(6000, 24, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    (dir, path, base)
}

/// Policies whose answers do not depend on the order in which reads finish.
fn policies() -> [Policy; 2] {
    [Policy::beam(8), Policy { width: Width::Fixed(1), ..Policy::pipe() }]
}

/// All that a search answers: rows, bits of their distances, and what was read and ranked.
fn answer(index: &Index, query: &[u8], params: &SearchParams) -> Result<Vec<u64>, String> {
    let answer = index.search(query, params, None).map_err(|e| e.to_string())?;
    let hits = answer.hits.iter().flat_map(|h| [h.row.0, u64::from(h.distance.to_bits())]);
    Ok(hits.chain([answer.stats.reads, answer.stats.code_distances]).collect())
}

#[test]
fn a_search_before_the_codes_have_come_answers_as_one_after() {
    let (_dir, path, base) = built();
    let warm = open(&path);
    warm.wait_resident().unwrap();
    for policy in policies() {
        let params = SearchParams { list: 30, policy, ..Default::default() };
        for row in [5, 2100, 5999] {
            let query = base.set().row(row);
            let expected = answer(&warm, query, &params).unwrap();
            // Opened anew for each, so that none finds what another has read.
            assert_eq!(answer(&open_cold(&path), query, &params), Ok(expected.clone()));
            assert_eq!(answer(&open(&path), query, &params), Ok(expected));
        }
    }
}

#[test]
fn searches_on_several_threads_share_what_they_read_of_the_codes() {
    let (_dir, path, base) = built();
    let (warm, cold) = (open(&path), open_cold(&path));
    warm.wait_resident().unwrap();
    let params = SearchParams { list: 30, policy: Policy::beam(8), ..Default::default() };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (base, params, warm, cold) = (&base, &params, &warm, &cold);
            scope.spawn(move || {
                for row in (thread..6000).step_by(97) {
                    let query = base.set().row(row);
                    assert_eq!(answer(cold, query, params), answer(warm, query, params));
                }
            });
        }
    });
    cold.wait_resident().unwrap();
}

#[test]
fn a_damaged_block_of_codes_is_an_error_and_never_another_answer() {
    let (_dir, path, base) = built();
    let warm = open(&path);
    warm.wait_resident().unwrap();
    let codes = path.join("part-0000/codes-1");
    let whole = fs::read(&codes).unwrap();
    let params = SearchParams { k: 1, list: 4, policy: Policy::beam(2), ..Default::default() };
    // Of searches read on demand, and of those behind a stream that came to the damage first.
    let mut told = [(0, 0); 2];
    // All searches begin alike, so that a block may be needed by all of them: one is damaged after the
    // other.
    for part in 1..17 {
        let mut bytes = whole.clone();
        bytes[whole.len() * part / 18] ^= 4;
        fs::write(&codes, &bytes).unwrap();
        let streamed = Index::open(&path, &open_options()).unwrap();
        let refused = streamed.wait_resident().unwrap_err().to_string();
        assert!(refused.contains("codes-1"), "{refused}");
        for (index, (good, bad)) in [open_cold(&path), streamed].iter().zip(&mut told) {
            for row in (part..6000).step_by(16) {
                let query = base.set().row(row);
                match answer(index, query, &params) {
                    Ok(found) => {
                        *good += 1;
                        assert_eq!(Ok(found), answer(&warm, query, &params));
                    }
                    Err(e) => {
                        *bad += 1;
                        assert!(e.contains("codes-1") && e.contains("block"), "{e}");
                    }
                }
            }
        }
    }
    assert!(told.iter().all(|(good, bad)| *good > 0 && *bad > 0), "good and bad: {told:?}");
}
