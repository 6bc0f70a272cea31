//! Search: the nearest rows of one vector field.

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

use pipeann_db::catalog::CollectionEntry as Entry;
use pipeann_db::collection::{Collection, Filter, FoundRow, SearchHit, SearchRequest};
use pipeann_db::ids::{Metric, RowId};
use pipeann_db::schema::Field;
use pipeann_db::value::Value;

use super::frontend::Call;
use super::loading::to_be_read;
use crate::convert::columns_in::{count_keys, keys};
use crate::convert::hits::{Scoring, results, scored};
use crate::convert::output::Output;
use crate::convert::parameters::Parameters;
use crate::convert::queries::{Queries, check_hits, check_queries};
use crate::convert::search_params::{ITERATES, MAX_WINDOW, WireSearchParams};
use crate::convert::selection::{Page, Selected};
use crate::convert::templates::templates;
use crate::convert::types::dim;
use crate::proto::milvus as wire;
use crate::proto::milvus::search_request::SearchInput;
use crate::proto::schema::{IDs, SearchIteratorV2Results};
use crate::status::CallFailure;

/// Answers a search on this thread.
pub(super) fn search(
    call: &Call,
    request: wire::SearchRequest,
) -> Result<wire::SearchResults, CallFailure> {
    let ReadSearch { collection, request, under_way } = ReadSearch::new(call, request)?;
    let found = collection.search(&request)?;
    under_way.answer(call, found.hits)
}

/// A search as it was read from the wire: what is asked of which collection, and how it is answered.
pub(super) struct ReadSearch {
    pub(super) collection: Arc<Collection>,
    pub(super) request: SearchRequest<'static>,
    pub(super) under_way: SearchUnderWay,
}

impl ReadSearch {
    /// The search that a request asks for.
    pub(super) fn new(call: &Call, mut request: wire::SearchRequest) -> Result<Self, CallFailure> {
        let (entry, collection) = target(call, &request)?;
        let names = std::mem::take(&mut request.output_fields);
        let output = Output::new(&entry.schema, &names)?;
        let named = request.guarantee_timestamp;
        let (asked, request) = AnswerShape::new((&entry, &collection), (request, None), &output)?;
        let (moment, session_ts) = call.moment(&collection, named, asked.iterates())?;
        let mut request = SearchRequest { moment, ..request };
        let given = asked.behind().map(|behind| call.border(session_ts, behind));
        let given = given.unwrap_or_default();
        if let (Some(behind), 1..=MAX_WINDOW) = (asked.behind(), given.len()) {
            // Of those that are as far, more than these may be there.
            request.within.from = Bound::Included(behind);
            request.k += given.len();
            request.list = request.list.map(|list| list.max(request.k));
        }
        let under_way = SearchUnderWay { entry, output: names, asked, session_ts, given };
        Ok(Self { collection, request, under_way })
    }
}

/// How a search that is under way is answered.
pub(super) struct SearchUnderWay {
    entry: Arc<Entry>,
    output: Vec<String>,
    asked: AnswerShape,
    session_ts: u64,
    /// Rows of pages before this one that may be found again, ascending.
    given: Arc<[RowId]>,
}

impl SearchUnderWay {
    /// Whether it looks for rows by a filter.
    pub(super) fn is_filtered(&self) -> bool {
        self.asked.filtered
    }

    /// The answer with what was found.
    pub(super) fn answer(
        self,
        call: &Call,
        mut hits: Vec<Vec<SearchHit>>,
    ) -> Result<wire::SearchResults, CallFailure> {
        let Self { entry, output, asked, session_ts, given } = self;
        if let (true, Some(hits)) = (asked.selected.page.is_some(), hits.first_mut()) {
            hits.retain(|hit| given.binary_search(&hit.row.row).is_err());
            hits.truncate(asked.params.window());
            note_border(call, session_ts, (asked.behind(), &given), hits);
        }
        let AnswerShape { params, scoring, selected, .. } = asked;
        let output = Output::new(&entry.schema, &output)?;
        let last = hits.first().and_then(|hits| hits.last()).map(|hit| hit.distance);
        let groups = selected.group_field.as_deref();
        let found = scored(hits, scoring, (params.offset, groups.is_some()));
        let mut results = results(&entry.schema, &output, groups, params.limit, found);
        results.search_iterator_v2_results = selected.page.map(|page| next_page(call, page, last));
        Ok(wire::SearchResults {
            results: Some(results),
            collection_name: entry.name.clone(),
            session_ts,
            ..Default::default()
        })
    }
}

/// The collection of a request, loaded.
pub(super) fn target(
    call: &Call,
    request: &wire::SearchRequest,
) -> Result<(Arc<Entry>, Arc<Collection>), CallFailure> {
    let named = (request.db_name.as_str(), request.collection_name.as_str());
    let entry = to_be_read(call, named, &request.partition_names)?;
    let collection = call.collection(named.0, named.1)?;
    Ok((entry, collection))
}

/// Where an iterator goes on. The token only has to be there: all of its state is the bound.
fn next_page(call: &Call, page: Page, last: Option<f32>) -> SearchIteratorV2Results {
    let token = page.token.unwrap_or_else(|| format!("pages-{}", call.session()));
    // An empty page stays where it is.
    SearchIteratorV2Results { token, last_bound: last.or(page.behind).unwrap_or(0.0) }
}

/// Notes which rows are as far as the last of a page, with those of the pages before it that ended there.
fn note_border(
    call: &Call,
    session_ts: u64,
    (behind, given): (Option<f32>, &[RowId]),
    hits: &[SearchHit],
) {
    let Some(last) = hits.last().map(|hit| hit.distance) else { return };
    let before = given.iter().copied().filter(|_| behind == Some(last));
    let here = hits.iter().rev().take_while(|hit| hit.distance == last).map(|hit| hit.row.row);
    let mut rows: Vec<RowId> = before.chain(here).collect();
    rows.sort_unstable();
    call.note_border(session_ts, last, rows.into());
}

/// What would change the answer and is not served.
fn refuse_what_is_not_served(request: &wire::SearchRequest) -> Result<(), CallFailure> {
    let asked = [
        (request.function_score.is_some(), "ranking by a function (function_score)"),
        (!request.function_chains.is_empty(), "ranking by functions (function_chains)"),
        (request.search_aggregation.is_some(), "counting hits (search_aggregation)"),
        (request.highlighter.is_some(), "highlighting (highlighter)"),
    ];
    match asked.into_iter().find(|(there, _)| *there) {
        Some((_, what)) => Err(CallFailure::unsupported(what)),
        None => Ok(()),
    }
}

/// What the answer to a search depends on beside what was found.
pub(super) struct AnswerShape {
    pub(super) params: WireSearchParams,
    pub(super) scoring: Scoring,
    selected: Selected,
    filtered: bool,
}

impl AnswerShape {
    /// Of a search, or of one of several, with how many hits are ranked in all.
    pub(super) fn new(
        (entry, collection): (&Entry, &Collection),
        (request, ranked): (wire::SearchRequest, Option<usize>),
        output: &Output<'_>,
    ) -> Result<(Self, SearchRequest<'static>), CallFailure> {
        refuse_what_is_not_served(&request)?;
        let params = WireSearchParams::new(Parameters::new(request.search_params)?, ranked)?;
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
        check_hits(queries.count(), params.window(), || collection.stats().rows)?;
        let scoring = Scoring { metric: metric(entry, field, params.metric)?, round: params.round };
        let mut output = output.fields.clone();
        let selected = Selected::new(&params.others, scoring, &entry.schema, output.len())?;
        if let Some(group) = &selected.group_field {
            let group = entry.schema.field(group).expect("it was found before");
            output.push(&group.spec.name);
        }
        let expression = request.dsl;
        let templates = templates(request.expr_template_values)?;
        let partitions = request.partition_names;
        let request = SearchRequest {
            metric: Some(scoring.metric),
            list: params.list,
            partitions: (!partitions.is_empty()).then(|| partitions.into()),
            filter: (!expression.trim().is_empty()).then(|| Filter {
                expression: expression.into(),
                templates: Cow::Owned(templates),
            }),
            within: selected.within,
            groups: selected.groups,
            output: output.into_iter().map(str::to_owned).collect(),
            ..SearchRequest::new(field.spec.name.clone(), queries.into_vectors(), params.window())
        };
        let filtered = request.filter.is_some();
        Ok((Self { params, scoring, selected, filtered }, request))
    }

    pub(super) fn has_groups_or_pages(&self) -> bool {
        self.selected.group_field.is_some() || self.selected.page.is_some()
    }

    /// With which distance the page before has ended, where this is the next one of an iterator.
    fn behind(&self) -> Option<f32> {
        self.selected.page.as_ref().and_then(|page| page.behind)
    }

    /// Whether this is a page of an iterator of either kind.
    fn iterates(&self) -> bool {
        self.selected.page.is_some() || self.params.others.flag(ITERATES)
    }
}

/// The vectors of the rows with these keys, all of which have to be there.
fn by_keys(collection: &Collection, field: &Field, ids: IDs) -> Result<Queries, CallFailure> {
    // Before they are made keys of; of none it is said below.
    check_queries(count_keys(&ids).max(1))?;
    let wanted = keys(ids);
    let rows = collection.get(&wanted, &[&field.spec.name])?;
    if rows.len() != wanted.len() || wanted.is_empty() {
        let (found, wanted) = (rows.len(), wanted.len());
        return Err(CallFailure::parameter(format!(
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
fn check_collection(entry: &Entry, params: &WireSearchParams) -> Result<(), CallFailure> {
    match params.others.number::<u64>("collection_id")? {
        Some(id) if id != entry.id.0 => Err(CallFailure::parameter(format!(
            "alter alias is not supported during iteration, alias or database may have been changed: collection id {id} is not that of {}",
            entry.name
        ))),
        _ => Ok(()),
    }
}

/// The vector field of this name, or the only one.
fn vector_field<'e>(entry: &'e Entry, name: Option<&str>) -> Result<&'e Field, CallFailure> {
    let mut vectors =
        entry.schema.fields().iter().filter(|field| field.spec.data_type.vector_kind().is_some());
    match name {
        Some(name) => vectors.find(|field| field.spec.name == name).ok_or_else(|| {
            CallFailure::parameter(format!(
                "failed to create query plan: failed to get field schema by name: fieldName({name}) not found: invalid parameter"
            ))
        }),
        None => match (vectors.next(), vectors.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(CallFailure::parameter(
                "multiple anns_fields exist, please specify a anns_field in search_params",
            )),
        },
    }
}

/// The metric of the index, which a request may name too.
fn metric(entry: &Entry, field: &Field, asked: Option<Metric>) -> Result<Metric, CallFailure> {
    let indexed = entry.indexes_of(field.id).find_map(|index| index.metric);
    asked.or(indexed).ok_or_else(|| {
        CallFailure::parameter(format!(
            "field {} has no index, so a metric_type is needed",
            field.spec.name
        ))
    })
}
