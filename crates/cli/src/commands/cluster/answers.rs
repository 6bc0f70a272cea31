//! What each query found and read, for whoever compares answers bit for bit.

use pipeann_engine::pool::Travelled;
use serde_json::{Value, json};

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct QueryAnswers {
    /// Rows and distances of each query, nearest first; none of one that failed.
    pub(super) hits: Vec<Vec<(u64, f32)>>,
    /// Pages that each one read, those in memory among them.
    pub(super) pages: Vec<u64>,
}

impl QueryAnswers {
    /// Of searches that were counted.
    pub(super) fn of(answers: &[Travelled]) -> Self {
        let hits =
            |answer: &Travelled| answer.hits.iter().map(|hit| (hit.row.0, hit.distance)).collect();
        let pages = |answer: &Travelled| answer.stats.reads + answer.stats.resident_pages;
        Self {
            hits: answers.iter().map(hits).collect(),
            pages: answers.iter().map(pages).collect(),
        }
    }

    /// Adds them to what is told of a list. A distance is a number that says its bits: no two others
    /// are written alike.
    pub(super) fn tell(&self, told: &mut Value) {
        told["hits"] = json!(self.hits);
        told["pages"] = json!(self.pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_that_differ_in_a_bit_are_told_apart() {
        let near = 1234.567_f32;
        let told = [near, f32::from_bits(near.to_bits() + 1)].map(|distance| {
            let mut told = json!({"list": 20});
            QueryAnswers { hits: vec![vec![(7, distance)], Vec::new()], pages: vec![3, 0] }
                .tell(&mut told);
            told
        });
        assert_ne!(told[0], told[1]);
        let text = told[0].to_string();
        assert!(text.starts_with("{\"list\":20,\"hits\":[[[7,1234.5"), "{text}");
        assert!(text.ends_with(",[]],\"pages\":[3,0]}"), "{text}");
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["hits"][0][0][1].as_f64().unwrap() as f32, near);
    }
}
