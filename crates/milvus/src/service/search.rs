//! Search: the nearest rows of one vector field.

use pipeann_db::catalog::Collection as Entry;
use pipeann_db::collection::{Collection, Filter, VectorSearch};
use pipeann_db::ids::Metric;
use pipeann_db::schema::Field;

use super::door::Call;
use super::loading::check_loaded;
use super::query::names;
use crate::convert::hits::{Scored, Scoring, results, scored};
use crate::convert::output::Output;
use crate::convert::parameters::Parameters;
use crate::convert::queries::Queries;
use crate::convert::search_params::SearchParams;
use crate::convert::templates::templates;
use crate::convert::types::dim;
use crate::proto::milvus as wire;
use crate::proto::milvus::search_request::SearchInput;
use crate::status::Failure;

pub(super) fn search(
    call: &Call,
    request: wire::SearchRequest,
) -> Result<wire::SearchResults, Failure> {
    let entry = call.entry(&request.db_name, &request.collection_name)?;
    let collection = call.collection(&request.db_name, &request.collection_name)?;
    check_loaded(&entry, &request.partition_names)?;
    let output = Output::new(&entry.schema, &request.output_fields)?;
    let limit_of = |params: &SearchParams| params.limit;
    let (params, found) = found(&entry, &collection, request, &output)?;
    let results = results(&entry.schema, &output, limit_of(&params), found);
    Ok(wire::SearchResults {
        results: Some(results),
        collection_name: entry.name.clone(),
        session_ts: call.timestamp(),
        ..Default::default()
    })
}

/// What one search finds.
fn found(
    entry: &Entry,
    collection: &Collection,
    request: wire::SearchRequest,
    output: &Output<'_>,
) -> Result<(SearchParams, Vec<Scored>), Failure> {
    if request.function_score.is_some() {
        return Err(Failure::unsupported("ranking by a function (function_score)"));
    }
    let params = SearchParams::new(Parameters::new(request.search_params)?)?;
    refuse_unserved(&params)?;
    let field = vector_field(entry, params.field.as_deref())?;
    let kind = field.spec.data_type.vector_kind().expect("it is a vector field");
    let group = match request.search_input {
        Some(SearchInput::PlaceholderGroup(group)) => group,
        Some(SearchInput::Ids(_)) => return Err(Failure::unsupported("searching by primary keys")),
        None => Vec::new(),
    };
    let queries = Queries::new(&group, kind, dim(&field.spec))?;
    let templates = templates(request.expr_template_values)?;
    let filter = Filter { expression: &request.dsl, templates: &templates };
    let partitions = names(&request.partition_names);
    let scoring = Scoring { metric: metric(entry, field, params.metric)?, round: params.round };
    let search = VectorSearch {
        field: &field.spec.name,
        k: params.window(),
        metric: Some(scoring.metric),
        list: params.list,
        partitions: partitions.as_deref(),
        filter: (!filter.expression.trim().is_empty()).then_some(filter),
        output: &output.fields,
    };
    let hits = collection.search(&search, queries.as_set())?;
    let offset = params.offset;
    Ok((params, scored(hits, scoring, offset)))
}

/// Parameters that would change the answer, and are not served, are refused and not passed over.
fn refuse_unserved(params: &SearchParams) -> Result<(), Failure> {
    for name in ["group_by_field", "radius", "range_filter", "search_iter_id"] {
        if params.others.get(name).is_some() {
            return Err(Failure::unsupported(format!("the search parameter {name}")));
        }
    }
    Ok(())
}

/// The vector field of this name, or the only one.
fn vector_field<'e>(entry: &'e Entry, name: Option<&str>) -> Result<&'e Field, Failure> {
    let mut vectors =
        entry.schema.fields().iter().filter(|field| field.spec.data_type.vector_kind().is_some());
    match name {
        Some(name) => vectors.find(|field| field.spec.name == name).ok_or_else(|| {
            Failure::parameter(format!(
                "failed to create query plan: failed to get field schema by name: fieldName({name}) not found"
            ))
        }),
        None => match (vectors.next(), vectors.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(Failure::parameter(
                "multiple anns_fields exist, please specify a anns_field in search_params",
            )),
        },
    }
}

/// The metric of the index, which a request may name too.
fn metric(entry: &Entry, field: &Field, asked: Option<Metric>) -> Result<Metric, Failure> {
    let indexed = entry.indexes_of(field.id).find_map(|index| index.metric);
    asked.or(indexed).ok_or_else(|| {
        Failure::parameter(format!(
            "field {} has no index, so a metric_type is needed",
            field.spec.name
        ))
    })
}
