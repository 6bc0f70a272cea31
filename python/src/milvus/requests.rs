//! Parts of requests, from what Python gives.

use numpy::PyReadonlyArray2;
use pipeann_milvus::proto::common::{
    KeyValuePair, PlaceholderGroup, PlaceholderType, PlaceholderValue,
};
use pipeann_milvus::proto::milvus::search_request::SearchInput;
use prost::Message as _;

/// The tag that filters know the vectors by.
const TAG: &str = "$0";

/// Query vectors: the only part that is encoded, since the wire has it as bytes.
pub(super) fn vectors(queries: &PyReadonlyArray2<'_, f32>) -> SearchInput {
    let rows = queries.as_array();
    let bytes = |row: numpy::ndarray::ArrayView1<'_, f32>| {
        row.iter().flat_map(|component| component.to_le_bytes()).collect()
    };
    let values = rows.rows().into_iter().map(bytes).collect();
    let floats = PlaceholderType::FloatVector.into();
    let value = PlaceholderValue { tag: TAG.to_owned(), r#type: floats, values };
    let group = PlaceholderGroup { placeholders: vec![value] };
    SearchInput::PlaceholderGroup(group.encode_to_vec())
}

pub(super) fn pairs(given: Vec<(String, String)>) -> Vec<KeyValuePair> {
    given.into_iter().map(|(key, value)| KeyValuePair { key, value }).collect()
}
