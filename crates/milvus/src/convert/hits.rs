//! What a search found, as clients are answered: all hits one after the other, in columns.

use pipeann_db::collection::{FoundRow, SearchHit};
use pipeann_db::ids::Metric;
use pipeann_db::schema::Schema;

use super::columns_out::{column, columns, ids};
use super::output::Output;
use crate::proto::schema::SearchResultData;

/// How distances become scores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scoring {
    pub(crate) metric: Metric,
    /// Digits behind the point.
    pub(crate) round: Option<u32>,
}

impl Scoring {
    /// What clients see: the distance (L2's squared), or the similarity.
    pub(crate) fn score(self, distance: f32) -> f32 {
        let score = match self.metric {
            Metric::L2 | Metric::Hamming | Metric::Jaccard => distance,
            Metric::InnerProduct => -distance,
            // What is calculated of copies may lie a little beyond.
            Metric::Cosine => (1.0 - distance).clamp(-1.0, 1.0),
        };
        round(score, self.round)
    }

    /// The distance of a score.
    pub(crate) fn distance(self, score: f32) -> f32 {
        match self.metric {
            Metric::L2 | Metric::Hamming | Metric::Jaccard => score,
            Metric::InnerProduct => -score,
            Metric::Cosine => 1.0 - score,
        }
    }
}

/// Rounds to so many digits behind the point, where any are given.
pub(crate) fn round(score: f32, digits: Option<u32>) -> f32 {
    let Some(digits) = digits else { return score };
    let unit = 10f64.powi(digits.cast_signed());
    ((f64::from(score) * unit).round() / unit) as f32
}

/// Hits of one query with their scores, best first.
pub(crate) type ScoredHits = Vec<(f32, FoundRow)>;

/// Scores of what was found, without the first `offset` hits of each query, or groups of hits.
pub(crate) fn scored(
    found: Vec<Vec<SearchHit>>,
    scoring: Scoring,
    (offset, in_groups): (usize, bool),
) -> Vec<ScoredHits> {
    let score = |hit: SearchHit| (scoring.score(hit.distance), hit.row);
    let of_query = |hits: Vec<SearchHit>| {
        let passed = if in_groups { hits_of_groups(&hits, offset) } else { offset };
        hits.into_iter().skip(passed).map(score).collect()
    };
    found.into_iter().map(of_query).collect()
}

/// How many hits the first `groups` groups are. Those of a group stand together, and have its value as
/// their last.
fn hits_of_groups(hits: &[SearchHit], groups: usize) -> usize {
    let together = hits.chunk_by(|a, b| a.row.values.last() == b.row.values.last());
    together.take(groups).map(<[SearchHit]>::len).sum()
}

/// The answer with the hits of all queries. Behind the fields of the output, rows may have the value of
/// one more, by which they were put into groups.
pub(crate) fn results(
    schema: &Schema,
    output: &Output<'_>,
    group_field: Option<&str>,
    limit: usize,
    found: Vec<ScoredHits>,
) -> SearchResultData {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let topks: Vec<i64> = found.iter().map(|hits| count(hits.len())).collect();
    let num_queries = count(found.len());
    let (scores, mut rows): (Vec<f32>, Vec<FoundRow>) = found.into_iter().flatten().unzip();
    let key = |row: &mut FoundRow| row.key.clone();
    let group_by_field_value = group_field.and_then(|name| {
        let values = rows.iter_mut().filter_map(|row| row.values.pop());
        schema.field(name).map(|field| column(field, values.collect::<Vec<_>>().into_iter()))
    });
    SearchResultData {
        num_queries,
        top_k: count(limit),
        group_by_field_value,
        fields_data: columns(schema, &output.fields, &mut rows),
        scores,
        ids: Some(ids(schema, rows.iter_mut().map(key))),
        topks,
        output_fields: output.names.clone(),
        primary_field_name: schema.primary_key().spec.name.clone(),
        ..SearchResultData::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_distances_or_similarities() {
        let scoring = |metric, round| Scoring { metric, round };
        assert_eq!(scoring(Metric::L2, None).score(4.5), 4.5);
        assert_eq!(scoring(Metric::InnerProduct, None).score(-4.5), 4.5);
        assert_eq!(scoring(Metric::Cosine, None).score(0.25), 0.75);
        assert_eq!(scoring(Metric::L2, Some(2)).score(1.239), 1.24);
        let nearest = |distance| scoring(Metric::Cosine, None).score(distance);
        assert_eq!((nearest(-1.2e-7), nearest(2.000_000_2)), (1.0, -1.0));
        for metric in Metric::ALL {
            let scoring = scoring(metric, None);
            assert_eq!(scoring.distance(scoring.score(0.5)), 0.5);
        }
    }
}
