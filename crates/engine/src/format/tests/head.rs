//! Head index bodies and the two maps.

use proptest::prelude::*;

use crate::format::constants::ABSENT;
use crate::format::{
    FormatError, HeadParts, decode_page_map, decode_row_map, decode_row_pairs, encode_map,
};

fn heads() -> impl Strategy<Value = HeadParts> {
    (0usize..30, 0u32..9).prop_flat_map(|(n, max_degree)| {
        let last = n.max(1) as u32;
        (
            prop::collection::vec(0..1000u32, n),
            prop::collection::vec(0..=max_degree as u16, n),
            prop::collection::vec(0..last, n * max_degree as usize),
            0..last,
        )
            .prop_map(move |(nodes, degrees, adjacency, entry)| HeadParts {
                nodes,
                max_degree,
                degrees,
                adjacency,
                entry,
            })
    })
}

proptest! {
    #[test]
    fn head_comes_back(head in heads()) {
        let bytes = head.encode().unwrap();
        prop_assert_eq!(HeadParts::decode(&bytes, 1000), Ok(head));
        for length in 0..bytes.len() {
            let cut = HeadParts::decode(&bytes[..length], 1000).unwrap_err();
            prop_assert!(matches!(cut, FormatError::CutOff { .. }), "{}", cut);
        }
    }
}

#[test]
fn head_beyond_the_index_is_refused() {
    let fine = HeadParts {
        nodes: vec![4, 9],
        max_degree: 1,
        degrees: vec![1, 0],
        adjacency: vec![1, 0],
        entry: 0,
    };
    let refused = |change: &dyn Fn(&mut HeadParts)| {
        let mut head = fine.clone();
        change(&mut head);
        match head.encode().unwrap_err() {
            FormatError::Value { field, .. } => field,
            other => panic!("{other}"),
        }
    };
    assert_eq!(refused(&|h| h.entry = 2), "entry");
    assert_eq!(refused(&|h| h.degrees[0] = 2), "degree");
    assert_eq!(refused(&|h| h.adjacency[1] = 2), "neighbour");
    assert_eq!(refused(&|h| h.max_degree = 1025), "max degree");
    assert_eq!(refused(&|h| h.max_degree = 2), "adjacency");
    assert_eq!(refused(&|h| h.degrees.clear()), "number of degrees");
    let bytes = fine.encode().unwrap();
    assert!(HeadParts::decode(&bytes, 10).is_ok());
    let beyond = HeadParts::decode(&bytes, 9).unwrap_err();
    assert_eq!(beyond.to_string(), "head index: node is 9, expected below 9");
}

#[test]
fn maps_come_back_and_stay_in_range() {
    let entries = [3, ABSENT, 0];
    let body = encode_map(&entries);
    assert_eq!(decode_page_map(&body, 3, 4).unwrap(), entries);
    assert_eq!(decode_row_map(&body, 4).unwrap(), entries);
    assert!(matches!(decode_page_map(&body, 4, 4), Err(FormatError::Length { .. })));
    assert!(matches!(decode_row_map(&body[1..], 4), Err(FormatError::Length { .. })));
    assert!(matches!(decode_page_map(&body, 3, 3), Err(FormatError::Value { .. })));
    assert!(matches!(decode_row_map(&body, 3), Err(FormatError::Value { .. })));
}

#[test]
fn a_map_of_some_rows_is_in_order_and_within_the_index() {
    let bytes = |pairs: &[u32]| encode_map(pairs);
    assert_eq!(decode_row_pairs(&bytes(&[1, 7, 5, 3]), 8).unwrap(), [(1, 7), (5, 3)]);
    assert_eq!(decode_row_pairs(&[], 8).unwrap(), []);
    let refused = |body: &[u8]| decode_row_pairs(body, 8).unwrap_err();
    assert!(matches!(refused(&bytes(&[1, 7, 5])), FormatError::Length { .. }));
    assert!(matches!(refused(&bytes(&[1, 8])), FormatError::Value { .. }));
    assert!(matches!(refused(&bytes(&[5, 1, 5, 2])), FormatError::Value { .. }));
    assert!(matches!(refused(&bytes(&[5, 1, 4, 2])), FormatError::Value { .. }));
}
