//! What counts as a path, by example.

use super::named_paths;

fn found(source: &str) -> Vec<String> {
    let module = ["graph".to_owned(), "head".to_owned()];
    named_paths(source, &module).into_iter().map(|p| p.segments.join("::")).collect()
}

#[test]
fn grouped_imports_are_taken_apart() {
    let source = "use crate::{distance::{Kernel, Op as O}, quant, types::*};\npub use std::{fs, io::{self, Read}};";
    let expected = [
        "crate::distance::Kernel",
        "crate::distance::Op",
        "crate::quant",
        "crate::types::*",
        "std::fs",
        "std::io",
        "std::io::Read",
    ];
    assert_eq!(found(source), expected);
}

#[test]
fn paths_in_code_are_found() {
    let source = "fn f(x: &crate::io::Device) -> Vec<u8> { std::fs::read(crate::build::NAME) }";
    assert_eq!(found(source), ["crate::io::Device", "std::fs::read", "crate::build::NAME"]);
}

#[test]
fn macros_are_no_hiding_place() {
    assert_eq!(found("m!{ $crate::search::State }"), ["crate::search::State"]);
}

#[test]
fn visibility_is_no_path() {
    assert!(found("pub(crate) fn f() {} pub(super) struct S;").is_empty());
}

#[test]
fn super_is_resolved() {
    assert_eq!(found("use super::beam;"), ["crate::graph::beam"]);
    assert_eq!(found("use super::super::search::S;"), ["crate::search::S"]);
    assert_eq!(found("use self::inner::S;"), ["crate::graph::head::inner::S"]);
}

#[test]
fn inline_modules_count() {
    let source = "mod a { use super::x; } use super::y; mod b { mod c { use super::super::z; } }";
    assert_eq!(
        found(source),
        ["crate::graph::head::x", "crate::graph::y", "crate::graph::head::z"]
    );
}

#[test]
fn the_root_under_another_name_is_everything() {
    assert_eq!(found("use crate as root;"), ["crate::*"]);
    assert_eq!(found("use crate::{self as root};"), ["crate::*"]);
    assert_eq!(found("use super::super::*;"), ["crate::*"]);
}

#[test]
fn test_code_is_marked() {
    let source =
        "use std::a; #[cfg(test)] mod tests { use std::b; fn f() { std::c::d() } } use std::e;
        #[cfg(test)] mod far; fn g() { std::f::g() }";
    let marks: Vec<bool> = named_paths(source, &[]).into_iter().map(|p| p.in_tests).collect();
    assert_eq!(marks, [false, true, true, false, false]);
}
