//! Search: the nearest rows of one vector field.

use std::sync::Arc;

use pipeann_db::catalog::Collection as Entry;
use pipeann_db::collection::{Collection, Filter, FoundRow, HeldMoment, SearchHit, VectorSearch};
use pipeann_db::expr::Templates;
use pipeann_db::ids::Metric;
use pipeann_db::schema::Field;
use pipeann_db::value::Value;

use super::door::Call;
use super::loading::check_loaded;
use super::query::{ITERATES, names};
use crate::convert::columns_in::keys;
use crate::convert::hits::{Scoring, results, scored};
use crate::convert::output::Output;
use crate::convert::parameters::Parameters;
use crate::convert::queries::Queries;
use crate::convert::search_params::SearchParams;
use crate::convert::selection::{Page, Selected};
use crate::convert::templates::templates;
use crate::convert::types::dim;
use crate::proto::milvus as wire;
use crate::proto::milvus::search_request::SearchInput;
use crate::proto::schema::{IDs, SearchIteratorV2Results};
use crate::status::Failure;

pub(super) fn search(
    call: &Call,
    request: wire::SearchRequest,
) -> Result<wire::SearchResults, Failure> {
    let (entry, collection) = target(call, &request)?;
    let output = Output::new(&entry.schema, &request.output_fields)?;
    let named = request.guarantee_timestamp;
    let asked = Asked::new((&entry, &collection), request, &output)?;
    let (held, session_ts) = call.moment(&collection, named, asked.iterates())?;
    let found = asked.found(&collection, held.as_deref())?;
    let Found { params, scoring, selected, hits } = found;
    let last = hits.first().and_then(|hits| hits.last()).map(|hit| hit.distance);
    let groups = selected.group_field.as_deref();
    let found = scored(hits, scoring, params.offset);
    let mut results = results(&entry.schema, &output, groups, params.limit, found);
    results.search_iterator_v2_results = selected.page.map(|page| next_page(call, page, last));
    Ok(wire::SearchResults {
        results: Some(results),
        collection_name: entry.name.clone(),
        session_ts,
        ..Default::default()
    })
}

/// The collection of a request, loaded.
pub(super) fn target(
    call: &Call,
    request: &wire::SearchRequest,
) -> Result<(Arc<Entry>, Arc<Collection>), Failure> {
    let entry = call.entry(&request.db_name, &request.collection_name)?;
    let collection = call.collection(&request.db_name, &request.collection_name)?;
    check_loaded(&entry, &request.partition_names)?;
    Ok((entry, collection))
}

/// Where an iterator goes on. The token only has to be there: all of its state is the bound.
fn next_page(call: &Call, page: Page, last: Option<f32>) -> SearchIteratorV2Results {
    let token = page.token.unwrap_or_else(|| format!("pages-{}", call.session()));
    // An empty page stays where it is.
    SearchIteratorV2Results { token, last_bound: last.or(page.behind).unwrap_or(0.0) }
}

/// One search, read.
pub(super) struct Asked<'a> {
    params: SearchParams,
    scoring: Scoring,
    selected: Selected,
    field: &'a Field,
    queries: Queries,
    expression: String,
    templates: Templates,
    partitions: Vec<String>,
    output: Vec<&'a str>,
}

/// What would change the answer and is not served.
fn refuse_what_is_not_served(request: &wire::SearchRequest) -> Result<(), Failure> {
    let asked = [
        (request.function_score.is_some(), "ranking by a function (function_score)"),
        (!request.function_chains.is_empty(), "ranking by functions (function_chains)"),
        (request.search_aggregation.is_some(), "counting hits (search_aggregation)"),
        (request.highlighter.is_some(), "highlighting (highlighter)"),
    ];
    match asked.into_iter().find(|(there, _)| *there) {
        Some((_, what)) => Err(Failure::unsupported(what)),
        None => Ok(()),
    }
}

/// What one search found.
pub(super) struct Found {
    pub(super) params: SearchParams,
    pub(super) scoring: Scoring,
    selected: Selected,
    /// Of each query, those that are to be passed over too.
    pub(super) hits: Vec<Vec<SearchHit>>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(
        (entry, collection): (&'a Entry, &Collection),
        request: wire::SearchRequest,
        output: &Output<'a>,
    ) -> Result<Self, Failure> {
        refuse_what_is_not_served(&request)?;
        let params = SearchParams::new(Parameters::new(request.search_params)?)?;
        check_collection(entry, &params)?;
        let field = vector_field(entry, params.field.as_deref())?;
        let kind = field.spec.data_type.vector_kind().expect("it is a vector field");
        let queries = match request.search_input {
            Some(SearchInput::PlaceholderGroup(group)) => {
                Queries::new(&group, kind, dim(&field.spec))?
            }
            Some(SearchInput::Ids(ids)) => by_keys(collection, field, ids)?,
            None => Queries::new(&[], kind, dim(&field.spec))?,
        };
        let scoring = Scoring { metric: metric(entry, field, params.metric)?, round: params.round };
        let mut output = output.fields.clone();
        let selected = Selected::new(&params.others, scoring, &entry.schema, output.len())?;
        if let Some(group) = &selected.group_field {
            let group = entry.schema.field(group).expect("it was found before");
            output.push(&group.spec.name);
        }
        Ok(Self {
            queries,
            templates: templates(request.expr_template_values)?,
            expression: request.dsl,
            partitions: request.partition_names,
            params,
            scoring,
            selected,
            field,
            output,
        })
    }

    pub(super) fn has_groups_or_pages(&self) -> bool {
        self.selected.group_field.is_some() || self.selected.page.is_some()
    }

    /// Whether this is a page of an iterator of either kind.
    fn iterates(&self) -> bool {
        self.selected.page.is_some() || self.params.others.flag(ITERATES)
    }

    /// What there is, at a moment that is held, or now.
    pub(super) fn found(
        self,
        collection: &Collection,
        held: Option<&HeldMoment>,
    ) -> Result<Found, Failure> {
        let filter = Filter { expression: &self.expression, templates: &self.templates };
        let partitions = names(&self.partitions);
        let search = VectorSearch {
            field: &self.field.spec.name,
            k: self.params.window(),
            metric: Some(self.scoring.metric),
            list: self.params.list,
            partitions: partitions.as_deref(),
            filter: (!self.expression.trim().is_empty()).then_some(filter),
            output: &self.output,
        };
        let selection = &self.selected.selection;
        let queries = self.queries.as_set();
        let hits = collection.search_selected_as_of(&search, queries, (selection, held))?;
        let Self { params, scoring, selected, .. } = self;
        Ok(Found { params, scoring, selected, hits })
    }
}

/// The vectors of the rows with these keys, all of which have to be there.
fn by_keys(collection: &Collection, field: &Field, ids: IDs) -> Result<Queries, Failure> {
    let wanted = keys(ids);
    let rows = collection.get(&wanted, &[&field.spec.name])?;
    if rows.len() != wanted.len() || wanted.is_empty() {
        let (found, wanted) = (rows.len(), wanted.len());
        return Err(Failure::parameter(format!(
            "some of the provided primary key IDs do not exist: {found} of {wanted} were found"
        )));
    }
    let vector = |row: FoundRow| match row.values.into_iter().next() {
        Some(Value::Vector(bytes)) => bytes,
        _ => Vec::new(),
    };
    let vectors: Vec<Vec<u8>> = rows.into_iter().map(vector).collect();
    let kind = field.spec.data_type.vector_kind().expect("it is a vector field");
    Queries::of_rows(&vectors, kind, dim(&field.spec))
}

/// An iterator names the collection that it began with.
fn check_collection(entry: &Entry, params: &SearchParams) -> Result<(), Failure> {
    match params.others.number::<u64>("collection_id")? {
        Some(id) if id != entry.id.0 => Err(Failure::parameter(format!(
            "alter alias is not supported during iteration: collection id {id} is not that of {}",
            entry.name
        ))),
        _ => Ok(()),
    }
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
