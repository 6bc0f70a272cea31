//! What matches in JSON and in arrays, and what exists.

use super::rows::{TestRow, check, json, row};

#[test]
fn json_is_typed_by_its_values() {
    let row = row();
    check(
        &row,
        Some(true),
        &[
            "j['n'] == 5",
            "j['n'] == 5.0",
            "j['x'] > 1",
            "j['t'] == 'hi'",
            "j['z'] == true",
            "j['n'] in [1, 5, 'x']",
            "j['t'] in ['hi', 3]",
            "j['l'][0] == 1",
            "j['l'][2][1] == 3",
            "j['l'][2] == [2, 3]",
            "j['l'][2] in [[2, 3], 4]",
            "4 < j['n'] < 6",
            "color == 'red'",
            "$meta['size'] == 12",
            "size >= 12",
            "tags[0] == 'a'",
            "j['big'] > 1",
            "j['big'] < 18446744073709551615.0",
            "j['l'] != [1]",
            "j['n'] not in [1, 2.5]",
        ],
    );
    check(
        &row,
        Some(false),
        &[
            "j['n'] == 6",
            "j['t'] == 'ho'",
            "j['z'] == false",
            "j['l'] == [1]",
            "j['n'] in []",
            // As a double it is 2^64, which the integer is one short of.
            "j['big'] == 18446744073709551615.0",
        ],
    );
    // A value of another type cannot be compared, so neither way is known.
    check(
        &row,
        None,
        &[
            "j['t'] == 5",
            "j['t'] != 5",
            "j['n'] == '5'",
            "j['n'] != '5'",
            "j['z'] == 1",
            "j['n'] > 'a'",
            "not (j['t'] > 5)",
            "not (j['t'] <= 5)",
            "j['n'] in ['5']",
            "j['n'] not in ['5']",
            "j['n'] not in ['5', 6]",
            "j['o'] != 1",
            "j['l'] == 1",
            "j == 1",
            "j['n'] like '5'",
            "json_contains(j['n'], 5)",
            "not json_contains_all(j['o'], [])",
        ],
    );
    // Neither a missing value nor null is known to be anything.
    check(
        &row,
        None,
        &[
            "j['missing'] == 1",
            "j['missing'] != 1",
            "j['o']['k'] == 1",
            "j['o']['k'] in [1]",
            "j['l'][9] == 1",
            "j['l'][3] != 1",
            "j['n']['deeper'] == 1",
            "j['l']['0'] == 1",
            "j['missing'] like '%'",
            "missing == 1",
            "missing not in [1]",
            "4 < j['missing'] < 6",
            "json_contains(j['missing'], 1)",
            "array_length(j['missing']) == 0",
        ],
    );
}

#[test]
fn existence_is_always_known() {
    let row = row();
    check(
        &row,
        Some(true),
        &[
            "exists j['n']",
            "exists j['o']",
            "exists j['e']",
            "exists color",
            "exists $meta['color']",
            "exists j",
            "j['missing'] is null",
            "j['o']['k'] is null",
            "not exists j['o']['k']",
            "not exists missing",
            "missing is null",
            "a is not null",
            "ints[3] is null",
            "ints[2] is not null",
        ],
    );
    let empty = TestRow::new(&[]);
    check(
        &empty,
        Some(true),
        &[
            "a is null",
            "s is null",
            "ints is null",
            "ints[0] is null",
            "j is null",
            "not exists j['n']",
            "flag is null",
        ],
    );
}

/// `serde_json` has a use of its own for this key.
#[test]
fn an_object_with_a_key_of_the_parser_is_an_object() {
    for inner in ["1", r#""{""#, r#""\"red\"""#, r#""null""#, r#""1", "b": 2"#] {
        let meta = format!(r#"{{"color": {{"$serde_json::private::RawValue": {inner}}}}}"#);
        let row = TestRow::new(&[("$meta", json(&meta))]);
        check(&row, Some(true), &["exists color", "color is not null"]);
        check(&row, None, &["color == 'red'", "color != 'red'", "color in [1]", "color like '%'"]);
    }
}

#[test]
fn arrays_and_their_elements() {
    let row = row();
    check(
        &row,
        Some(true),
        &[
            "array_contains(ints, 5)",
            "array_contains_all(ints, [4, 6])",
            "array_contains_any(ints, [1, 6])",
            "array_contains(texts, 'x')",
            "ints[0] == 4",
            "ints[2] in [6]",
            "ints == [4, 5, 6]",
            "ints != [4, 5]",
            "array_length(texts) == 2",
            "array_length(j['l']) == 4",
            "json_contains(j['l'], 'a')",
            "json_contains(j['l'], [2, 3])",
            "json_contains_all(j['l'], [1, 'a'])",
            "json_contains_all(j['l'], [[2, 3], [2.0, 3]])",
            "json_contains_any(j['l'], ['b', 1.0])",
            "JSON_CONTAINS(tags, 'b')",
            "array_contains(tags, 'a')",
            "array_contains_all(ints, [])",
            "json_contains(ints, 4)",
            "array_contains(ints, 4.0)",
        ],
    );
    check(
        &row,
        Some(false),
        &[
            "array_contains(ints, 7)",
            "array_contains_all(ints, [4, 7])",
            "array_contains_any(ints, [])",
            "ints == [4, 5]",
            "array_contains_any(tags, ['c'])",
            "json_contains(j['l'], 2)",
        ],
    );
    check(&row, None, &["ints[3] == 4", "array_length(j['n']) == 1"]);
}
