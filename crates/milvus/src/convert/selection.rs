//! Which of the nearest rows a search wants: a range of scores, groups, the next page of an iterator.

use std::ops::Bound;

use pipeann_db::collection::Grouping;
use pipeann_db::ids::Metric;
use pipeann_db::schema::Schema;
use pipeann_db::value::{DataType, ScalarType};
use pipeann_engine::search::DistanceRange;

use super::hits::Scoring;
use super::parameters::Parameters;
use crate::status::CallFailure;

/// The most rows of a group.
const MAX_GROUP_SIZE: usize = 10;
/// What an iterator gives its first page, and gets back with each later one.
const ITERATOR_TOKEN: &str = "search_iter_id";
pub(super) const ITERATOR: &str = "search_iter_v2";
const LAST_BOUND: &str = "search_iter_last_bound";
/// The far end of a range.
pub(super) const RADIUS: &str = "radius";

/// What the parameters of a search ask for.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub(crate) within: DistanceRange,
    pub(crate) groups: Option<Grouping>,
    /// Name of the field whose values make groups.
    pub(crate) group_field: Option<String>,
    /// Where the search is a page of an iterator.
    pub(crate) page: Option<Page>,
}

/// A page of an iterator.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) token: Option<String>,
    /// The distance that the page before ended with. It is a distance and no score, which would be
    /// rounded; clients do not look at it.
    pub(crate) behind: Option<f32>,
}

impl Selected {
    /// `output` fields are read of each row, and the field that makes groups behind them.
    pub(crate) fn new(
        given: &Parameters,
        scoring: Scoring,
        schema: &Schema,
        output: usize,
    ) -> Result<Self, CallFailure> {
        let mut within = range(given, scoring)?;
        let page = given.flag(ITERATOR).then(|| page(given)).transpose()?;
        if let Some(behind) = page.as_ref().and_then(|page| page.behind) {
            within.from = Bound::Excluded(behind);
        }
        let mut groups = None;
        let group_field = given.get("group_by_field").map(str::to_owned);
        if let Some(field) = &group_field {
            if page.is_some() {
                return Err(CallFailure::parameter(
                    "Not allowed to do groupBy when doing iteration",
                ));
            }
            check_group_field(schema, field)?;
            groups = Some(grouping(given, output)?);
        }
        Ok(Self { within, groups, group_field, page })
    }
}

/// From `range_filter` to `radius`, which is the far end, as L2 counts: from the near end, which is
/// in it, to the far end, which is not.
fn range(given: &Parameters, scoring: Scoring) -> Result<DistanceRange, CallFailure> {
    let (far, near) = (given.number::<f32>(RADIUS)?, given.number::<f32>("range_filter")?);
    let Some(far) = far else {
        // Without a radius there is no range.
        return Ok(DistanceRange::default());
    };
    if let Some(near) = near {
        let (fits, less) = match scoring.metric {
            Metric::L2 | Metric::Hamming | Metric::Jaccard => (near < far, "less"),
            Metric::InnerProduct | Metric::Cosine => (near > far, "greater"),
        };
        if !fits {
            let metric = scoring.metric;
            return Err(CallFailure::parameter(format!(
                "metric type {metric}, range_filter({near}) must be {less} than radius({far})"
            )));
        }
    }
    // Nothing is nearer than a cosine of 1, but what is calculated of copies may lie beyond it.
    let near = near.filter(|near| scoring.metric != Metric::Cosine || *near < 1.0);
    Ok(DistanceRange {
        from: near.map_or(Bound::Unbounded, |near| Bound::Included(scoring.distance(near))),
        to: Bound::Excluded(scoring.distance(far)),
    })
}

fn page(given: &Parameters) -> Result<Page, CallFailure> {
    let token = given.get(ITERATOR_TOKEN).map(str::to_owned);
    let behind = given.number(LAST_BOUND)?;
    Ok(Page { token, behind })
}

fn grouping(given: &Parameters, output: usize) -> Result<Grouping, CallFailure> {
    let size = given.number::<i64>("group_size")?.unwrap_or(1);
    let fits = usize::try_from(size).ok().filter(|size| (1..=MAX_GROUP_SIZE).contains(size));
    let size = fits.ok_or_else(|| {
        CallFailure::parameter(match size < 1 {
            true => format!("input group size:{size} is negative, or none"),
            false => format!(
                "input group size:{size} exceeds configured max group size:{MAX_GROUP_SIZE}"
            ),
        })
    })?;
    Ok(Grouping { output, size, fill: given.flag("strict_group_size") })
}

fn check_group_field(schema: &Schema, name: &str) -> Result<(), CallFailure> {
    let field = schema.field(name).ok_or_else(|| {
        CallFailure::parameter(format!("groupBy field not found in schema: field {name} not exist"))
    })?;
    match field.spec.data_type {
        DataType::Scalar(ScalarType::Float | ScalarType::Double)
        | DataType::Json
        | DataType::Array(_)
        | DataType::Vector(_) => Err(CallFailure::parameter(format!(
            "unsupported data type {} for group by operator, field {name}",
            field.spec.data_type
        ))),
        DataType::Scalar(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use pipeann_db::schema::FieldSpec;
    use pipeann_db::value::VectorKind;

    use super::super::parameters::pair;
    use super::*;

    fn asked(metric: Metric, given: &[(&str, &str)]) -> Result<Selected, CallFailure> {
        let schema = Schema::builder()
            .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
            .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(2))
            .build()
            .unwrap();
        let given = given.iter().map(|(key, value)| pair(*key, *value)).collect();
        let scoring = Scoring { metric, round: None };
        Selected::new(&Parameters::new(given)?, scoring, &schema, 3)
    }

    #[test]
    fn a_range_goes_from_near_to_far() {
        let range = |metric, near, far| {
            let given = [("radius", far), ("range_filter", near)];
            asked(metric, &given).map(|asked| (asked.within.from, asked.within.to))
        };
        let expected = (Bound::Included(1.0), Bound::Excluded(2.0));
        assert_eq!(range(Metric::L2, "1.0", "2.0").unwrap(), expected);
        assert!(range(Metric::L2, "2.0", "1.0").unwrap_err().reason.contains("must be less"));
        let expected = (Bound::Included(-2.0), Bound::Excluded(-1.0));
        assert_eq!(range(Metric::InnerProduct, "2.0", "1.0").unwrap(), expected);
        let error = range(Metric::Cosine, "0.1", "0.9").unwrap_err();
        assert!(error.reason.contains("must be greater"));
        let alone = asked(Metric::Cosine, &[("radius", "0.5")]).unwrap().within;
        assert_eq!((alone.from, alone.to), (Bound::Unbounded, Bound::Excluded(0.5)));
        // Copies may be a little nearer than they can be.
        let expected = (Bound::Unbounded, Bound::Excluded(0.5));
        assert_eq!(range(Metric::Cosine, "1.0", "0.5").unwrap(), expected);
        let expected = (Bound::Included(0.25), Bound::Excluded(0.5));
        assert_eq!(range(Metric::Cosine, "0.75", "0.5").unwrap(), expected);
        let expected = (Bound::Included(-1.0), Bound::Excluded(-0.5));
        assert_eq!(range(Metric::InnerProduct, "1.0", "0.5").unwrap(), expected);
    }

    #[test]
    fn a_page_begins_behind_the_one_before() {
        let first = asked(Metric::L2, &[(ITERATOR, "True")]).unwrap();
        assert_eq!(first.within.from, Bound::Unbounded);
        assert!(first.page.unwrap().token.is_none());
        let next = [(ITERATOR, "True"), (ITERATOR_TOKEN, "t"), (LAST_BOUND, "0.25")];
        let next = asked(Metric::L2, &next).unwrap();
        assert_eq!(next.within.from, Bound::Excluded(0.25));
        assert_eq!(next.page.unwrap().token.as_deref(), Some("t"));
    }

    #[test]
    fn groups_are_made_of_scalars_of_few_values() {
        let groups = asked(Metric::L2, &[("group_by_field", "id"), ("group_size", "2")]).unwrap();
        let groups = groups.groups.unwrap();
        assert_eq!((groups.output, groups.size, groups.fill), (3, 2, false));
        let refused = |given: &[(&str, &str)]| asked(Metric::L2, given).unwrap_err().reason;
        assert!(refused(&[("group_by_field", "v")]).contains("unsupported data type"));
        assert!(refused(&[("group_by_field", "x")]).contains("field x not exist"));
        assert!(refused(&[("group_by_field", "id"), ("group_size", "11")]).contains("group size"));
        assert!(refused(&[("group_by_field", "id"), (ITERATOR, "True")]).contains("groupBy"));
    }
}
