//! What any estimate has to keep to, whatever its coefficients are.

use super::{Effort, EstimateError, Expectation, Limit, Machine, Question, expect};
use crate::build::BuildOptions;
use crate::types::{Metric, VectorType};

fn question() -> Question {
    Question {
        rows: 1_000_000,
        dim: 128,
        vector_type: VectorType::U8,
        build: BuildOptions::new(Metric::L2),
        limit: Limit::Floor,
        effort: Effort::List(25),
        machine: Machine { threads: 2, device: None },
    }
}

fn told(question: &Question) -> Expectation {
    expect(question).expect("the question has an answer")
}

#[test]
fn bytes_are_those_of_an_index_that_was_built() {
    // A million SIFT rows, as `pipeann inspect` tells of them.
    let told = told(&question());
    assert_eq!((told.shape.page_bytes, told.shape.records_per_page), (4096, 12));
    let near = |value: u64, of: u64| value.abs_diff(of) * 1000 <= of;
    assert!(near(told.shape.pages, 86_807), "{} pages", told.shape.pages);
    assert!(near(told.memory.floor, 39_439_831), "a floor of {}", told.memory.floor);
    assert!(near(told.build.disk_bytes, 394_801_060), "{} on disk", told.build.disk_bytes);
}

#[test]
fn a_longer_list_finds_and_reads_more() {
    let of = |list| told(&Question { effort: Effort::List(list), ..question() });
    for pair in [10, 15, 25, 40, 64, 80].map(of).windows(2) {
        for (short, long) in [(pair[0].idle, pair[1].idle), (pair[0].busy, pair[1].busy)] {
            assert!(short.recall < long.recall, "{short:?} {long:?}");
            assert!(short.reads < long.reads && short.qps > long.qps, "{short:?} {long:?}");
        }
    }
}

#[test]
fn longer_codes_spare_reads_and_take_memory() {
    let of = |code_bytes| {
        let build = BuildOptions { code_bytes: Some(code_bytes), ..question().build };
        told(&Question { build, ..question() })
    };
    let (short, usual, long) = (of(16), of(32), of(64));
    assert_eq!(usual, told(&question()));
    assert!(short.busy.reads > usual.busy.reads && usual.busy.reads > long.busy.reads);
    assert!(short.memory.floor < usual.memory.floor && usual.memory.floor < long.memory.floor);
}

#[test]
fn more_rows_read_more_and_find_less() {
    let of = |rows| told(&Question { rows, ..question() });
    for pair in [60_000, 250_000, 1_000_000, 10_000_000].map(of).windows(2) {
        assert!(pair[0].busy.reads < pair[1].busy.reads);
        assert!(pair[0].busy.recall > pair[1].busy.recall);
    }
}

#[test]
fn more_memory_reads_less_until_nothing_is_read() {
    let whole = told(&Question { limit: Limit::All, ..question() });
    assert_eq!((whole.resident, whole.busy.reads, whole.idle.reads), (1.0, 0.0, 0.0));
    let (floor, all) = (whole.memory.floor, whole.memory.total);
    let steps = (0..=8).map(|step| Limit::Bytes(floor + (all - floor) * step / 8));
    let steps: Vec<_> = steps.map(|limit| told(&Question { limit, ..question() })).collect();
    assert_eq!(steps[0].resident, 0.0);
    assert_eq!(steps[8].busy, whole.busy);
    for pair in steps.windows(2) {
        assert!(pair[1].memory.total > pair[0].memory.total);
        assert!(pair[1].busy.reads < pair[0].busy.reads);
        assert!(pair[1].busy.qps >= pair[0].busy.qps);
        assert!(pair[1].idle.mean_us < pair[0].idle.mean_us);
    }
}

#[test]
fn the_list_is_the_shortest_that_has_the_recall() {
    let found = told(&Question { effort: Effort::Recall(0.95), ..question() });
    let of = |list| told(&Question { effort: Effort::List(list), ..question() }).busy.recall;
    assert!(of(found.list) >= 0.95 && of(found.list - 1) < 0.95, "list {}", found.list);
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let refused = |question: &Question| expect(question).expect_err("no answer");
    let error = refused(&Question { limit: Limit::Bytes(1 << 20), ..question() });
    let floor = told(&question()).memory.floor;
    assert!(matches!(error, EstimateError::BelowFloor { needed, .. } if needed == floor));
    let error = refused(&Question { effort: Effort::List(9), ..question() });
    assert_eq!(error.to_string(), "list 9 is not from 10 to 80");
    let error = refused(&Question { effort: Effort::Recall(1.0), ..question() });
    assert!(error.to_string().contains("list of up to 80"), "{error}");
    assert!(matches!(refused(&Question { rows: 0, ..question() }), EstimateError::NoRows));
    assert!(refused(&Question { dim: 0, ..question() }).to_string().contains("dimension"));
}
