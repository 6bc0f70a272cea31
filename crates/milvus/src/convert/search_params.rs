//! What a search asks for beside its vectors.
//!
//! The parameters of several families of indexes all say how hard to look, and become the length of
//! one candidate list: `ef` (HNSW), `search_list` (DISKANN) and `L` are that length. `nprobe` (IVF) is
//! a number of cells, and counts eight each, which finds about as much at the usual 1,024 cells. A list
//! is never shorter than the number of hits.

use pipeann_db::ids::Metric;

use super::index::{METRIC_TYPE, known_metric};
use super::instants::refuse_zones;
use super::parameters::Parameters;
use super::selection::{ITERATOR, RADIUS};
use crate::status::CallFailure;

/// The most hits, with those that are passed over.
pub(crate) const MAX_WINDOW: usize = 16_384;
/// What later servers know, and what of an answer it would change.
const OF_LATER_SERVERS: [(&str, &str); 2] =
    [("order_by_fields", "another order"), ("group_by_fields", "grouping by several fields")];
/// Marks a page of an iterator.
pub(crate) const ITERATES: &str = "iterator";
/// Entries of the candidate list for each cell that IVF would look into.
const ENTRIES_OF_CELL: usize = 8;
/// The longest candidate list.
const MAX_LIST: usize = 65_536;

/// A search as it is asked for.
#[derive(Debug)]
pub(crate) struct WireSearchParams {
    /// Hits of each query.
    pub(crate) limit: usize,
    /// Hits that are passed over first.
    pub(crate) offset: usize,
    /// Name of the vector field; the only one unless given.
    pub(crate) field: Option<String>,
    pub(crate) metric: Option<Metric>,
    /// Length of the candidate list.
    pub(crate) list: Option<usize>,
    /// Digits behind the point.
    pub(crate) round: Option<u32>,
    /// Everything else.
    pub(crate) others: Parameters,
}

impl WireSearchParams {
    /// `ranked` hits are ranked in all, where it is one search of several whose hits are ranked as one.
    /// Clients send the offset of the whole with each of these too; it counts behind the ranking alone.
    pub(crate) fn new(given: Parameters, ranked: Option<usize>) -> Result<Self, CallFailure> {
        refuse_zones(|name| given.get(name))?;
        refuse_later_forms(&given)?;
        let limit = match given.number::<i64>("topk")? {
            Some(limit) => Some(limit),
            None => given.number("limit")?,
        };
        let usual = ranked.and_then(|ranked| i64::try_from(ranked).ok()).unwrap_or(0);
        let limit = limit.unwrap_or(usual);
        let limit = usize::try_from(limit).ok().filter(|limit| (1..=MAX_WINDOW).contains(limit));
        let limit = limit.ok_or_else(|| {
            let found = given.get("topk").or(given.get("limit")).unwrap_or("0");
            CallFailure::parameter(format!(
                "topk [{found}] is invalid, it should be in range [1, {MAX_WINDOW}], but got {found}"
            ))
        })?;
        let offset = match ranked {
            Some(_) => 0,
            None => window(limit, given.number::<i64>("offset")?)?,
        };
        let round = match given.number::<i32>("round_decimal")? {
            None | Some(-1) => None,
            Some(digits @ 0..=6) => Some(digits.unsigned_abs()),
            Some(other) => {
                return Err(CallFailure::parameter(format!(
                    "round_decimal [{other}] is invalid, it should be -1 or an integer in range [0, 6]"
                )));
            }
        };
        Ok(Self {
            limit,
            offset,
            field: given.get("anns_field").map(str::to_owned),
            metric: given.get(METRIC_TYPE).map(known_metric).transpose()?,
            list: list(&given, limit + offset)?,
            round,
            others: given,
        })
    }

    /// Hits of each query, with those that are passed over.
    pub(crate) fn window(&self) -> usize {
        self.limit + self.offset
    }
}

/// Refuses what would have other rows in the answer, or in another order.
pub(crate) fn refuse_later_forms(given: &Parameters) -> Result<(), CallFailure> {
    match OF_LATER_SERVERS.iter().find(|(name, _)| given.get(name).is_some()) {
        Some((name, what)) => Err(CallFailure::unsupported(format!("{what} ({name})"))),
        None => Ok(()),
    }
}

/// An offset that fits beside a limit.
pub(crate) fn window(limit: usize, offset: Option<i64>) -> Result<usize, CallFailure> {
    let offset = offset.unwrap_or(0);
    if !(0..=MAX_WINDOW as i64).contains(&offset) {
        return Err(CallFailure::parameter(format!(
            "offset [{offset}] is invalid, it should be in range [1, {MAX_WINDOW}], but got {offset}"
        )));
    }
    let fits = |offset: &usize| limit + offset <= MAX_WINDOW;
    usize::try_from(offset).ok().filter(|&offset| offset <= MAX_WINDOW).filter(fits).ok_or_else(|| {
        let sum = i128::from(offset) + limit as i128;
        CallFailure::parameter(format!(
            "invalid max query result window, (offset+limit) should be in range [1, {MAX_WINDOW}], but got {sum}"
        ))
    })
}

fn list(given: &Parameters, window: usize) -> Result<Option<usize>, CallFailure> {
    // Ranges and pages of iterators are as long as they are, and begin with any list.
    let is_any = [ITERATES, ITERATOR].iter().any(|name| given.flag(name));
    let is_any = is_any || given.get(RADIUS).is_some();
    if let Some(ef) = given.number::<usize>("ef")? {
        if ef < window && !is_any {
            return Err(CallFailure::parameter(format!(
                "ef({ef}) should be larger than k({window})"
            )));
        }
        return Ok(Some(ef.clamp(window, MAX_LIST)));
    }
    if let Some(list) = given.number::<usize>("search_list")? {
        if list < window && !is_any {
            return Err(CallFailure::parameter(format!(
                "search_list_size({list}) should be larger than k({window})"
            )));
        }
        return Ok(Some(list.clamp(window, MAX_LIST)));
    }
    let list = match (given.number::<usize>("L")?, given.number::<usize>("nprobe")?) {
        (Some(list), _) => list,
        (None, Some(0)) => {
            return Err(CallFailure::parameter(
                "Out of range in json: param 'nprobe' (0) should be in range [1, 65536]",
            ));
        }
        (None, Some(cells)) => cells.saturating_mul(ENTRIES_OF_CELL),
        (None, None) => return Ok(None),
    };
    Ok(Some(list.clamp(window, MAX_LIST)))
}

#[cfg(test)]
mod tests {
    use super::super::parameters::pair;
    use super::*;

    fn asked(given: &[(&str, &str)]) -> Result<WireSearchParams, CallFailure> {
        let given = given.iter().map(|(key, value)| pair(*key, *value)).collect();
        WireSearchParams::new(Parameters::new(given)?, None)
    }

    #[test]
    fn every_family_says_how_long_the_candidate_list_is() {
        let list = |params: &str| asked(&[("topk", "10"), ("params", params)]).unwrap().list;
        assert_eq!(list("{}"), None);
        assert_eq!(list(r#"{"ef":64}"#), Some(64));
        assert_eq!(list(r#"{"search_list":"32"}"#), Some(32));
        assert_eq!(list(r#"{"L":4}"#), Some(10));
        assert_eq!(list(r#"{"nprobe":16}"#), Some(128));
    }

    #[test]
    fn ranges_and_iterators_take_any_list() {
        for (name, value) in
            [("search_iter_v2", "True"), ("iterator", "True"), ("radius", "0.5"), ("radius", "0")]
        {
            let list = |params| {
                asked(&[("topk", "1000"), (name, value), ("params", params)]).unwrap().list
            };
            assert_eq!(list(r#"{"ef":64}"#), Some(1000), "{name}");
            assert_eq!(list(r#"{"search_list":64}"#), Some(1000), "{name}");
            assert_eq!(list(r#"{"ef":2000}"#), Some(2000), "{name}");
        }
        let given = [("topk", "1000"), ("params", r#"{"ef":64}"#), ("search_iter_v2", "False")];
        assert!(asked(&given).is_err());
    }

    #[test]
    fn the_offset_of_a_hybrid_search_is_none_of_its_searches() {
        let one = |given: &[(&str, &str)]| {
            let given = given.iter().map(|(key, value)| pair(*key, *value)).collect();
            let params = WireSearchParams::new(Parameters::new(given)?, Some(30))?;
            Ok::<_, CallFailure>((params.limit, params.offset, params.list))
        };
        let page = [("limit", "50"), ("offset", "20"), ("params", r#"{"ef":64}"#)];
        assert_eq!(one(&page).unwrap(), (50, 0, Some(64)));
        assert_eq!(one(&[("topk", "10000"), ("offset", "8000")]).unwrap(), (10_000, 0, None));
        assert_eq!(one(&[("offset", "20")]).unwrap(), (30, 0, None), "as many as are ranked");
        assert!(one(&[("limit", "80"), ("params", r#"{"ef":64}"#)]).is_err());
        assert!(one(&[("limit", "0")]).is_err());
    }

    #[test]
    fn what_is_out_of_range_is_refused_in_known_words() {
        let refused = |given: &[(&str, &str)]| asked(given).unwrap_err().reason;
        let range = "should be in range [1, 16384], but got";
        assert!(refused(&[("topk", "0")]).contains(&format!("topk [0] is invalid, it {range} 0")));
        assert!(refused(&[("topk", "16385")]).contains(range));
        assert!(refused(&[("topk", "many")]).contains("topk [many] is invalid"));
        assert!(refused(&[("topk", "1"), ("offset", "16384")]).contains("but got 16385"));
        for offset in ["-1", "16385"] {
            let text = format!("offset [{offset}] is invalid, it {range} {offset}");
            assert_eq!(refused(&[("topk", "1"), ("offset", offset)]), text);
        }
        let ef = refused(&[("topk", "10"), ("params", r#"{"ef":1}"#)]);
        assert_eq!(ef, "ef(1) should be larger than k(10)");
        assert!(refused(&[("topk", "1"), ("round_decimal", "7")]).contains("round_decimal [7]"));
        assert!(refused(&[("topk", "1"), ("metric_type", "x")]).contains("metric type: x"));
        for (name, _) in OF_LATER_SERVERS {
            let reason = refused(&[("topk", "1"), (name, "likes:desc")]);
            assert!(reason.contains(name), "{reason}");
        }
    }
}
