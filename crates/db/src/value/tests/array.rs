//! Arrays: what goes in comes out, what does not fit is named.

use proptest::prelude::*;

use super::{same, scalar};
use crate::value::{Array, ArrayError, ArrayRef, ScalarType, Value, ValueRef};

#[test]
fn integers_of_another_width_are_taken_where_they_fit() {
    let array = Array::collect(ScalarType::Int8, [ValueRef::Int32(-7), ValueRef::Int64(127)]);
    let array = array.unwrap();
    assert_eq!(
        array.as_ref().iter().collect::<Vec<_>>(),
        [ValueRef::Int8(-7), ValueRef::Int8(127)]
    );
}

#[test]
fn an_element_that_does_not_fit_is_named() {
    let element = ScalarType::Int8;
    for bad in [ValueRef::Int64(128), ValueRef::Null, ValueRef::Bool(true), ValueRef::VarChar("1")]
    {
        let found = Array::collect(element, [ValueRef::Int8(1), bad]);
        assert_eq!(found, Err(ArrayError::Element { at: 1, element }), "{bad:?}");
    }
}

#[test]
fn damaged_bytes_are_no_array() {
    let texts =
        Array::collect(ScalarType::VarChar, ["ab", "", "ä"].map(ValueRef::VarChar)).unwrap();
    let whole = texts.as_ref().bytes();
    assert_eq!(ArrayRef::decode(ScalarType::VarChar, whole).unwrap().len(), 3);
    for cut in 0..whole.len() {
        assert!(ArrayRef::decode(ScalarType::VarChar, &whole[..cut]).is_err(), "cut at {cut}");
    }
    let mut surplus = whole.to_vec();
    surplus.push(b'x');
    assert!(ArrayRef::decode(ScalarType::VarChar, &surplus).is_err());
    let mut split_letter = whole.to_vec();
    split_letter[8] += 3;
    assert!(ArrayRef::decode(ScalarType::VarChar, &split_letter).is_err());
    assert!(ArrayRef::decode(ScalarType::VarChar, &[0xff; 4]).is_err());
    assert!(ArrayRef::decode(ScalarType::Int32, &[0; 6]).is_err());
    assert!(ArrayRef::decode(ScalarType::Bool, &[2]).is_err());
}

proptest! {
    #[test]
    fn elements_come_back(
        (element, values) in prop::sample::select(&ScalarType::ALL[..])
            .prop_flat_map(|element| (Just(element), prop::collection::vec(scalar(element), 0..9)))
    ) {
        let array = Array::collect(element, values.iter().map(Value::as_ref)).unwrap();
        let read = ArrayRef::decode(element, array.as_ref().bytes()).unwrap();
        prop_assert_eq!(read.len(), values.len());
        prop_assert!(read.iter().zip(&values).all(|(a, b)| same(&a.to_value(), b)));
    }
}
