//! A word means one thing: the names of types, the length of the front page, and its links.
//!
//! A name that two types share makes a reader ask which one is meant. So names that are declared
//! more than once outside tests are counted, and held below a bound that only falls. Each room may
//! have one `Error` and one `Options`, which say by their path whose they are. A name does not
//! become unique by repeating its room: `wal::WalRecord` says no more than `wal::Record`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::architecture::{members, module_of, rust_files};
use crate::links;
use crate::tokens::{SourceToken, TokenKind, tokens};

/// Names that may be declared more than once.
const SHARED_NAMES: usize = 30;
/// Names that may begin with that of their room.
const REPEATING_NAMES: usize = 38;
/// Words of the README.
const README_WORDS: usize = 700;
/// What each room may have one of.
const OF_EACH_ROOM: [&str; 2] = ["Error", "Options"];

/// Checks the repository at `root`; each finding is a line for the reader.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = links::check(root)?;
    let readme = fs::read_to_string(root.join("README.md")).context("cannot read README.md")?;
    let words = readme.split_whitespace().count();
    if words > README_WORDS {
        findings.push(format!("README.md: {words} words, {README_WORDS} are the most"));
    }
    let declared = declared_in(root)?;
    let repeating: Vec<_> = declared.iter().filter(|it| it.repeats_its_room()).collect();
    let shared = shared(&declared);
    println!(
        "words: {} names of types are shared, {} repeat their room's, README.md has {words} words",
        shared.len(),
        repeating.len()
    );
    if repeating.len() > REPEATING_NAMES {
        findings.push(format!(
            "{} names of types repeat their room's, {REPEATING_NAMES} are the most:",
            repeating.len()
        ));
        findings.extend(repeating.iter().map(|it| format!("    {}: {}", it.name, it.place())));
    }
    if shared.len() > SHARED_NAMES {
        findings.push(format!(
            "{} names of types are declared more than once, {SHARED_NAMES} are the most:",
            shared.len()
        ));
        for (name, places) in shared {
            let shown: Vec<String> = places.iter().map(|it| it.place()).collect();
            findings.push(format!("    {name}: {}", shown.join(", ")));
        }
    }
    Ok(findings)
}

/// A type or trait, and where it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Declaration {
    name: String,
    file: PathBuf,
    line: usize,
    /// The crate, then modules.
    module: Vec<String>,
}

impl Declaration {
    /// The crate and the room in it.
    fn room(&self) -> &[String] {
        &self.module[..self.module.len().min(2)]
    }

    fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }

    /// `wal::WalRecord`; `wal::Wal` is what the room is about, and `WalError` and `WalOptions` stand
    /// beside those of other rooms.
    fn repeats_its_room(&self) -> bool {
        let Some(room) = self.module.get(1) else { return false };
        let title: String = room
            .split('_')
            .flat_map(|part| {
                let (first, rest) = part.split_at(part.len().min(1));
                [first.to_uppercase(), rest.to_owned()]
            })
            .collect();
        self.name.strip_prefix(&title).is_some_and(|rest| {
            rest.starts_with(|c: char| c.is_uppercase()) && !matches!(rest, "Error" | "Options")
        })
    }
}

/// Names that more than one type has, the most shared first.
fn shared(declared: &[Declaration]) -> Vec<(&str, Vec<&Declaration>)> {
    let mut by_name: BTreeMap<&str, Vec<&Declaration>> = BTreeMap::new();
    for it in declared {
        by_name.entry(&it.name).or_default().push(it);
    }
    let one_a_room = |name: &str, places: &[&Declaration]| {
        let mut rooms: Vec<&[String]> = places.iter().map(|it| it.room()).collect();
        rooms.sort_unstable();
        OF_EACH_ROOM.contains(&name) && rooms.windows(2).all(|pair| pair[0] != pair[1])
    };
    let mut shared: Vec<_> = by_name
        .into_iter()
        .filter(|(name, places)| places.len() > 1 && !one_a_room(name, places))
        .collect();
    shared.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
    shared
}

/// All types that the workspace declares outside tests.
fn declared_in(root: &Path) -> Result<Vec<Declaration>> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let mut declared = Vec::new();
    for member in members(&manifest) {
        let home = root.join(&member).join("src");
        for file in rust_files(&home)? {
            let within = file.strip_prefix(&home).expect("the walk stays inside");
            let module = module_of(within);
            if module.iter().any(|part| part == "tests") {
                continue;
            }
            let source = fs::read_to_string(&file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let shown = file.strip_prefix(root).expect("the walk stays inside").to_owned();
            let module = [vec![member.clone()], module].concat();
            declared.extend(declared_by(&source).into_iter().map(|(name, line)| Declaration {
                name,
                file: shown.clone(),
                line,
                module: module.clone(),
            }));
        }
    }
    Ok(declared)
}

/// A block that is open: whether it holds members of a type, and whether it is a test's.
#[derive(Clone, Copy, Default)]
struct TokenScope {
    members: bool,
    tests: bool,
}

/// The names that a file declares outside its tests, with their lines.
fn declared_by(source: &str) -> Vec<(String, usize)> {
    let tokens = tokens(source);
    let mut open = vec![TokenScope::default()];
    let mut next = TokenScope::default();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let now = *open.last().unwrap_or(&TokenScope::default());
        match &token.kind {
            TokenKind::Punct('{') => {
                let inner = TokenScope {
                    members: now.members | next.members,
                    tests: now.tests | next.tests,
                };
                open.push(inner);
                next = TokenScope::default();
            }
            TokenKind::Punct('}') => {
                open.pop();
            }
            TokenKind::Punct(';') => next = TokenScope::default(),
            TokenKind::Punct('#') if is_cfg_test(&tokens[at..]) => next.tests = true,
            TokenKind::Word(word) => {
                let declares = match word.as_str() {
                    "struct" | "enum" | "union" => true,
                    "trait" => {
                        next.members = true;
                        true
                    }
                    "impl" => {
                        next.members = true;
                        false
                    }
                    "type" => !now.members,
                    _ => false,
                };
                let named = tokens.get(at + 1).map(|t| &t.kind);
                if let (true, Some(TokenKind::Word(name))) = (declares, named)
                    && name.starts_with(char::is_uppercase)
                    && !(now.tests || next.tests)
                {
                    found.push((name.clone(), token.line));
                }
            }
            _ => {}
        }
    }
    found
}

/// `#[cfg(test)]`
fn is_cfg_test(tokens: &[SourceToken]) -> bool {
    let punct = |i: usize, c| tokens.get(i).is_some_and(|t| t.is_punct(c));
    let word = |i: usize, w| tokens.get(i).is_some_and(|t| t.is_word(w));
    punct(1, '[') && word(2, "cfg") && punct(3, '(') && word(4, "test") && punct(5, ')')
}

#[cfg(test)]
mod tests {
    use super::{Declaration, check, declared_by, shared};

    fn names(source: &str) -> Vec<String> {
        declared_by(source).into_iter().map(|(name, _)| name).collect()
    }

    fn at(module: &str, name: &str) -> Declaration {
        let module = module.split("::").map(str::to_owned).collect();
        Declaration { name: name.into(), file: "a.rs".into(), line: 1, module }
    }

    #[test]
    fn the_project_keeps_to_its_words() {
        let found = check(crate::repository_root()).unwrap();
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }

    #[test]
    fn types_are_found_outside_tests() {
        let source = "
            pub(crate) struct A<T>(T); enum B { X } trait C { type Inner; fn f() { } }
            impl C for A<u8> { type Inner = u8; }
            type D = A<u8>;
            fn f() -> impl Fn() { struct E; }
            #[cfg(test)] struct F;
            #[cfg(test)] mod tests { struct G; mod more { enum H {} } }
            /* struct I; */ struct J;
        ";
        assert_eq!(names(source), ["A", "B", "C", "D", "E", "J"]);
    }

    #[test]
    fn names_are_shared_unless_each_room_has_one_error() {
        let declared = [
            at("db::wal", "Error"),
            at("db::flat", "Error"),
            at("db::wal::reader", "Options"),
            at("db::wal::writer", "Options"),
            at("db::wal", "State"),
            at("db::flat", "State"),
            at("db::flat", "Alone"),
        ];
        let found: Vec<&str> = shared(&declared).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, ["Options", "State"]);
    }

    #[test]
    fn a_name_may_be_its_rooms_and_not_repeat_it() {
        assert!(at("db::wal", "WalRecord").repeats_its_room());
        assert!(at("db::field_index::build", "FieldIndexBuild").repeats_its_room());
        let (wal, error) = (at("db::wal", "Wal"), at("db::wal", "WalError"));
        for good in [wal, error, at("db::wal", "Walk"), at("db", "DbRecord")] {
            assert!(!good.repeats_its_room(), "{}", good.name);
        }
    }
}
