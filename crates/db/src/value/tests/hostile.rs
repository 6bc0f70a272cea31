//! The row decoder on random, truncated and tampered bytes: an error or a value, never a panic.

use proptest::prelude::*;

use super::{encode, layout_and_row};
use crate::value::{ArrayRef, RowLayout, ScalarType, Value};

/// Reads everything there is, and encodes again what was valid.
fn read(layout: &RowLayout, bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(row) = layout.open(bytes) else { return Ok(()) };
    let values: Vec<_> = (0..layout.columns()).map(|i| row.get(i)).collect();
    if row.verify().is_ok() {
        let values: Vec<Value> = values.into_iter().map(|v| v.unwrap().to_value()).collect();
        let again = encode(layout, &values);
        let reread = layout.open(&again).unwrap();
        for (i, value) in values.iter().enumerate() {
            prop_assert!(super::same(&reread.get(i).unwrap().to_value(), value));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn tampered_rows(
        (layout, row) in layout_and_row(),
        edits in prop::collection::vec((any::<usize>(), any::<u8>()), 0..6),
        cut in prop::option::of(0usize..200),
    ) {
        let mut bytes = encode(&layout, &row);
        bytes.truncate(cut.unwrap_or(bytes.len()));
        for (at, value) in edits {
            let length = bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at % length) {
                *byte = value;
            }
        }
        read(&layout, &bytes)?;
    }

    #[test]
    fn a_cut_is_always_found((layout, row) in layout_and_row(), cut in any::<prop::sample::Index>()) {
        let bytes = encode(&layout, &row);
        let cut = &bytes[..cut.index(bytes.len())];
        let complete = layout.open(cut).and_then(|row| row.verify());
        prop_assert!(complete.is_err());
    }

    #[test]
    fn random_bytes((layout, _) in layout_and_row(), bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        read(&layout, &bytes)?;
        for element in ScalarType::ALL {
            if let Ok(array) = ArrayRef::decode(element, &bytes) {
                prop_assert_eq!(array.iter().count(), array.len());
            }
        }
    }
}
