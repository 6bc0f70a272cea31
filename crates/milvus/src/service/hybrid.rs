//! Hybrid search: several searches of one collection, ranked as one.

use pipeann_db::collection::{SearchHit, SearchRequest, fuse};
use pipeann_db::ids::Metric;

use super::frontend::Call;
use super::search::{AnswerShape, target};
use crate::convert::hits::{ScoredHits, results, round};
use crate::convert::output::Output;
use crate::convert::queries::check_hits;
use crate::convert::ranking::Ranking;
use crate::proto::milvus as wire;
use crate::status::CallFailure;

/// The most searches of a request.
const MAX_SEARCHES: usize = 1024;

pub(super) fn search(
    call: &Call,
    request: wire::HybridSearchRequest,
) -> Result<wire::SearchResults, CallFailure> {
    if !request.function_chains.is_empty() {
        return Err(CallFailure::unsupported("ranking by functions (function_chains)"));
    }
    let searches = request.requests.len();
    if !(1..=MAX_SEARCHES).contains(&searches) {
        let reason = format!("maximum of ann search requests is {MAX_SEARCHES}, and one is needed");
        return Err(CallFailure::parameter(reason));
    }
    let ranking = Ranking::new(request.rank_params, request.function_score, searches)?;
    let whole = wire::SearchRequest {
        db_name: request.db_name,
        collection_name: request.collection_name,
        partition_names: request.partition_names,
        ..Default::default()
    };
    let (entry, collection) = target(call, &whole)?;
    let output = Output::new(&entry.schema, &request.output_fields)?;
    let ranked = ranking.limit + ranking.offset;
    let shape = |mut one: wire::SearchRequest| {
        one.partition_names.clone_from(&whole.partition_names);
        AnswerShape::new((&entry, &collection), (one, Some(ranked)), &output)
    };
    let shapes = request.requests.into_iter().map(shape);
    let shapes: Vec<(AnswerShape, SearchRequest<'_>)> = shapes.collect::<Result<_, _>>()?;
    if shapes.iter().any(|(asked, _)| asked.has_groups_or_pages()) {
        return Err(CallFailure::unsupported("grouping and iterating in a hybrid search"));
    }
    // What all of them have found is ranked together.
    let queries = shapes.iter().map(|(_, request)| request.vectors.as_set().rows()).sum();
    let window = shapes.iter().map(|(_, request)| request.k).max().unwrap_or(0);
    check_hits(queries, window, || collection.stats().rows)?;
    let mut by_search: Vec<(Metric, Vec<Vec<SearchHit>>)> = Vec::with_capacity(searches);
    for (asked, request) in shapes {
        by_search.push((asked.scoring.metric, collection.search(&request)?.hits));
    }
    let queries = by_search.first().map_or(0, |(_, queries)| queries.len());
    if by_search.iter().any(|(_, found)| found.len() != queries) {
        return Err(CallFailure::parameter(
            "nq of all searches of a hybrid search has to be the same",
        ));
    }
    let fused: Vec<ScoredHits> = (0..queries)
        .map(|query| {
            let of_query = by_search
                .iter_mut()
                .map(|(metric, found)| (*metric, std::mem::take(&mut found[query])));
            let fused = fuse(of_query.collect(), &ranking.ranker).into_iter();
            let fused = fused.skip(ranking.offset).take(ranking.limit);
            fused.map(|(score, row)| (round(score, ranking.round), row)).collect()
        })
        .collect();
    let results = results(&entry.schema, &output, None, ranking.limit, fused);
    Ok(wire::SearchResults {
        results: Some(results),
        collection_name: entry.name.clone(),
        session_ts: call.timestamp(),
        ..Default::default()
    })
}
