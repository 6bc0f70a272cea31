//! Reading rows by filter, in the order of their keys.

use std::borrow::Cow;

use pipeann_db::catalog::CollectionEntry as Entry;
use pipeann_db::collection::{Collection, Filter, PinnedSnapshot, RowOrder, RowQuery};

use super::frontend::Call;
use super::loading::{readable, to_be_read};
use crate::convert::columns_out::columns;
use crate::convert::instants::refuse_zones;
use crate::convert::output::Output;
use crate::convert::parameters::Parameters;
use crate::convert::search_params::{ITERATES, MAX_WINDOW, refuse_later_forms, window};
use crate::convert::templates::templates;
use crate::proto::milvus as wire;
use crate::proto::schema::field_data::Field;
use crate::proto::schema::scalar_field::Data;
use crate::proto::schema::{DataType, FieldData, LongArray, ScalarField};
use crate::status::CallFailure;

const COUNT: &str = "count(*)";

pub(super) fn query(
    call: &Call,
    request: wire::QueryRequest,
) -> Result<wire::QueryResults, CallFailure> {
    let named = (request.db_name.as_str(), request.collection_name.as_str());
    let entry = to_be_read(call, named, &request.partition_names)?;
    let collection = call.collection(&request.db_name, &request.collection_name)?;
    let partitions = readable(&entry, &request.partition_names)?;
    let parameters = Parameters::new(request.query_params)?;
    refuse_zones(|name| parameters.get(name))?;
    refuse_later_forms(&parameters)?;
    let limit = limit(&parameters)?;
    let offset = window(limit.unwrap_or(0), parameters.number("offset")?)?;
    let templates = templates(request.expr_template_values)?;
    let filter =
        Filter { expression: Cow::Borrowed(&request.expr), templates: Cow::Owned(templates) };
    let iterates = parameters.flag(ITERATES);
    let (held, session_ts) = call.moment(&collection, request.guarantee_timestamp, iterates)?;
    let (held, partitions) = (held.as_deref(), partitions.as_deref());
    let asked = QueryContext { entry: &entry, filter, partitions, limit, offset, held };
    let counts = request.output_fields.iter().any(|name| is_count(name));
    let (fields_data, output_fields) = match counts {
        true => (vec![asked.count(&collection)?], vec![COUNT.to_owned()]),
        false => asked.rows(&collection, &request.output_fields)?,
    };
    Ok(wire::QueryResults {
        fields_data,
        output_fields,
        collection_name: entry.name.clone(),
        session_ts,
        primary_field_name: entry.schema.primary_key().spec.name.clone(),
        ..Default::default()
    })
}

fn is_count(name: &str) -> bool {
    name.trim().eq_ignore_ascii_case(COUNT)
}

/// How many rows, where it is said; -1 stands for all.
fn limit(parameters: &Parameters) -> Result<Option<usize>, CallFailure> {
    match parameters.number::<i64>("limit")? {
        None | Some(-1) => Ok(None),
        Some(limit) => {
            let fits = usize::try_from(limit).ok().filter(|fit| (1..=MAX_WINDOW).contains(fit));
            fits.map(Some).ok_or_else(|| {
                CallFailure::parameter(format!(
                    "invalid max query result window, (offset+limit) should be in range [1, {MAX_WINDOW}], but got {limit}"
                ))
            })
        }
    }
}

struct QueryContext<'a> {
    entry: &'a Entry,
    filter: Filter<'a>,
    partitions: Option<&'a [&'a str]>,
    limit: Option<usize>,
    offset: usize,
    /// The moment that is read; now, unless there is one.
    held: Option<&'a PinnedSnapshot>,
}

impl QueryContext<'_> {
    fn count(&self, collection: &Collection) -> Result<FieldData, CallFailure> {
        if self.limit.is_some() {
            return Err(CallFailure::parameter("count entities with pagination is not allowed"));
        }
        let rows = collection.count_as_of(self.filter.borrowed(), self.partitions, self.held)?;
        let data = vec![i64::try_from(rows).unwrap_or(i64::MAX)];
        Ok(FieldData {
            r#type: DataType::Int64.into(),
            field_name: COUNT.to_owned(),
            field: Some(Field::Scalars(ScalarField {
                data: Some(Data::LongData(LongArray { data })),
            })),
            ..Default::default()
        })
    }

    fn rows(
        &self,
        collection: &Collection,
        output: &[String],
    ) -> Result<(Vec<FieldData>, Vec<String>), CallFailure> {
        if self.filter.expression.trim().is_empty() && self.limit.is_none() {
            return Err(CallFailure::parameter("empty expression should be used with limit"));
        }
        let schema = &self.entry.schema;
        let output = Output::new(schema, output)?.with_key(schema);
        let query = RowQuery {
            fields: &output.fields,
            partitions: self.partitions,
            filter: Some(self.filter.borrowed()),
            order: RowOrder::NewestOfKey,
            offset: self.offset,
            limit: self.limit,
            ..RowQuery::default()
        };
        let mut rows = collection.query_as_of(&query, self.held)?;
        Ok((columns(schema, &output.fields, &mut rows), output.names))
    }
}
