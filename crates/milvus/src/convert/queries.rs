//! Query vectors: a message in bytes, in which each vector stands as its own bytes.

use pipeann_db::collection::QueryVectors;
use pipeann_db::ids::VectorType;
use pipeann_db::value::{VectorKind, to_halves};
use prost::Message as _;

use super::types;
use crate::proto::common::{PlaceholderGroup, PlaceholderType};
use crate::status::CallFailure;

/// The most query vectors of a request.
const MAX_QUERIES: usize = 16_384;
/// The most rows that a request may find, those of all its query vectors together.
const MAX_HITS: usize = 4 << 20;

/// Refuses requests of no query vector, and of too many.
pub(crate) fn check_queries(queries: usize) -> Result<(), CallFailure> {
    if (1..=MAX_QUERIES).contains(&queries) {
        return Ok(());
    }
    Err(CallFailure::parameter(format!(
        "nq [{queries}] is invalid, nq (number of search vector per search request) should be in range [1, {MAX_QUERIES}], but got {queries}"
    )))
}

/// Refuses requests that may find too many rows: they are held in memory until all are found, some tens
/// of bytes each. `rows` says how many there are.
pub(crate) fn check_hits(
    queries: usize,
    window: usize,
    rows: impl FnOnce() -> u64,
) -> Result<(), CallFailure> {
    let fits = |window: usize| queries.saturating_mul(window) <= MAX_HITS;
    if fits(window) || usize::try_from(rows()).is_ok_and(fits) {
        return Ok(());
    }
    Err(CallFailure::parameter(format!(
        "number of result entries is too large: nq [{queries}] * (offset+limit) [{window}] should be at most {MAX_HITS}"
    )))
}

/// The query vectors of a request, one after the other.
#[derive(Debug)]
pub(crate) struct Queries {
    bytes: Vec<u8>,
    dim: usize,
    vector_type: VectorType,
}

impl Queries {
    /// The vectors in a placeholder group, for a field of `dim` components of this kind; floats are taken
    /// for halves too.
    pub(crate) fn new(group: &[u8], kind: VectorKind, dim: usize) -> Result<Self, CallFailure> {
        let malformed =
            |error| CallFailure::parameter(format!("the placeholder group is malformed: {error}"));
        let mut group = PlaceholderGroup::decode(group).map_err(malformed)?;
        let vectors = match group.placeholders.as_mut_slice() {
            [one] => one,
            other => {
                let found = other.len();
                return Err(CallFailure::parameter(format!(
                    "please check the placeholder group: it has {found} placeholders, and one is needed"
                )));
            }
        };
        let Some(vector_type) = kind.engine_type() else {
            return Err(CallFailure::unsupported(format!("searching fields of type {kind}")));
        };
        let given = vectors.r#type();
        let given_type = match types::from_wire(given as i32, 0).ok().and_then(|t| t.vector_kind())
        {
            Some(same) if same == kind => vector_type,
            Some(VectorKind::Float) if to_halves(&[], kind).is_some() => VectorType::F32,
            _ => {
                let given = PlaceholderType::as_str_name(&given);
                return Err(CallFailure::parameter(format!(
                    "vector type must be the same, field is of type {kind}, search vectors of type {given}"
                )));
            }
        };
        let queries = vectors.values.len();
        check_queries(queries)?;
        let expected = given_type.vector_bytes(dim);
        if let Some(wrong) = vectors.values.iter().find(|vector| vector.len() != expected) {
            return Err(CallFailure::parameter(format!(
                "vector dimension mismatch, expected vector size(byte) {expected}, actual {}",
                wrong.len()
            )));
        }
        let mut bytes = match vectors.values.as_mut_slice() {
            [one] => std::mem::take(one),
            many => many.concat(),
        };
        if given_type == VectorType::F32
            && let Some(halves) = to_halves(&bytes, kind)
        {
            bytes = halves;
        }
        Ok(Self { bytes, dim, vector_type })
    }

    /// Vectors that were read from rows, each whole.
    pub(crate) fn of_rows(
        vectors: &[Vec<u8>],
        kind: VectorKind,
        dim: usize,
    ) -> Result<Self, CallFailure> {
        let Some(vector_type) = kind.engine_type() else {
            return Err(CallFailure::unsupported(format!("searching fields of type {kind}")));
        };
        Ok(Self { bytes: vectors.concat(), dim, vector_type })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.bytes.len() / self.vector_type.vector_bytes(self.dim)
    }

    /// As the database takes them.
    pub(crate) fn into_vectors(self) -> QueryVectors<'static> {
        QueryVectors::new(self.bytes, self.dim, self.vector_type).expect("every vector is whole")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::common::PlaceholderValue;

    fn group(kind: PlaceholderType, values: Vec<Vec<u8>>) -> Vec<u8> {
        let value = PlaceholderValue { tag: "$0".into(), r#type: kind.into(), values };
        PlaceholderGroup { placeholders: vec![value] }.encode_to_vec()
    }

    #[test]
    fn vectors_stand_one_after_the_other() {
        let bytes = group(PlaceholderType::FloatVector, vec![vec![0; 8], vec![1; 8]]);
        let queries = Queries::new(&bytes, VectorKind::Float, 2).unwrap().into_vectors();
        let set = queries.as_set();
        assert_eq!((set.rows(), set.dim(), set.row(1)), (2, 2, &[1; 8][..]));
    }

    #[test]
    fn what_would_find_too_many_rows_is_refused() {
        let check = |queries, window, rows| check_hits(queries, window, || rows);
        check(1, 16_384, u64::MAX).unwrap();
        check(16_384, 256, u64::MAX).unwrap();
        check(16_384, 16_384, 200).unwrap();
        let refused = check(16_384, 257, 257).unwrap_err().reason;
        assert!(refused.contains("number of result entries is too large: nq [16384]"), "{refused}");
    }

    #[test]
    fn vectors_of_every_type_are_taken() {
        for (wire, kind, bytes) in [
            (PlaceholderType::Float16Vector, VectorKind::Float16, 32),
            (PlaceholderType::BFloat16Vector, VectorKind::BFloat16, 32),
            (PlaceholderType::Int8Vector, VectorKind::Int8, 16),
            (PlaceholderType::BinaryVector, VectorKind::Binary, 2),
        ] {
            let group = group(wire, vec![vec![1; bytes], vec![2; bytes]]);
            let queries = Queries::new(&group, kind, 16).unwrap().into_vectors();
            let set = queries.as_set();
            assert_eq!((set.rows(), set.dim(), set.row(1)), (2, 16, &vec![2; bytes][..]));
        }
    }

    #[test]
    fn floats_are_taken_for_halves() {
        let floats = [1.0, -0.5].map(f32::to_le_bytes).concat();
        let bytes = group(PlaceholderType::FloatVector, vec![floats.clone(), floats]);
        let queries = Queries::new(&bytes, VectorKind::Float16, 2).unwrap().into_vectors();
        let set = queries.as_set();
        assert_eq!((set.rows(), set.dim(), set.row(1)), (2, 2, &[0, 0x3c, 0, 0xb8][..]));
        let half = group(PlaceholderType::FloatVector, vec![vec![0; 4]]);
        let refused = Queries::new(&half, VectorKind::BFloat16, 2).unwrap_err().reason;
        assert!(refused.contains("expected vector size(byte) 8, actual 4"), "{refused}");
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let floats = PlaceholderType::FloatVector;
        let refused = |bytes: &[u8], kind| Queries::new(bytes, kind, 2).unwrap_err().reason;
        let one = || group(floats, vec![vec![0; 8]]);
        assert!(refused(&[0xff; 9], VectorKind::Float).contains("malformed"));
        assert!(refused(&[], VectorKind::Float).contains("0 placeholders"));
        assert!(refused(&one(), VectorKind::Sparse).contains("not supported"));
        let binary = group(PlaceholderType::BinaryVector, vec![vec![0; 8]]);
        assert!(refused(&binary, VectorKind::Float).contains("vector type must be the same"));
        assert!(refused(&group(floats, vec![]), VectorKind::Float).contains("but got 0"));
        let many = group(floats, vec![vec![0; 8]; MAX_QUERIES + 1]);
        assert!(refused(&many, VectorKind::Float).contains("but got 16385"));
        let short = group(floats, vec![vec![0; 8], vec![0; 7]]);
        assert!(
            refused(&short, VectorKind::Float).contains("expected vector size(byte) 8, actual 7")
        );
    }
}
