//! The tree keeps to its map, and the check would notice if it did not.

use std::path::Path;

use super::{Crate, check, circles_of_rooms, dependencies, members, module_of};
use crate::table::{Room, rooms};

const MAP: &str = "
| room | place | does | may import | never |
|---|---|---|---|---|
| `engine` | `crates/engine/src` | all | nothing | Python (`pyo3`) |
| `types` | `crates/engine/src/types` | words | nothing | `std::fs` |
| `quant` | `crates/engine/src/quant` | codes | `types` | I/O (`std::fs`, `std::net`) |
| `search` | `crates/engine/src/search` | searches | `types`, `quant` | clocks (`std::time`) outside `driver` |
| `index` | `crates/engine/src/index` | opens | all | network (`std::net`) |
| `cli` | `crates/cli/src` | composes | `engine` | nothing |
";

fn map() -> Vec<Room> {
    rooms(MAP).unwrap()
}

/// Findings in one file of the crate `home`, given as `room/file.rs`.
fn findings_in(home: &str, file: &str, source: &str) -> Vec<String> {
    let rooms = map();
    let home = rooms.iter().find(|r| r.name == home).unwrap();
    let of_crate = Crate { home, rooms: rooms.iter().filter(|r| r.is_within(home)).collect() };
    of_crate.file(Path::new(file), source)
}

fn findings(file: &str, source: &str) -> usize {
    findings_in("engine", file, source).len()
}

#[test]
fn the_tree_keeps_to_its_map() {
    let found = check(crate::repository_root()).unwrap();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn allowed_imports_pass() {
    assert_eq!(findings("search/beam.rs", "use crate::{types::NodeId, quant, search::list};"), 0);
    assert_eq!(findings("index/mod.rs", "use crate::search::S; use crate::quant::C;"), 0);
    assert_eq!(findings("lib.rs", "pub mod types; pub use crate::index::Index;"), 0);
    assert_eq!(
        findings_in("cli", "main.rs", "use crate::args; use pipeann_engine::index;").len(),
        0
    );
}

#[test]
fn imports_against_the_direction_are_found() {
    for source in [
        "use crate::search::S;",
        "use crate::{types::NodeId, search::S};",
        "fn f() { crate::search::go() }",
        "use super::super::search::S;",
        "#[cfg(test)] mod tests { use crate::search::S; }",
        "use crate::*;",
        "use crate::SomethingInTheRoot;",
        "use pipeann_cli::args;",
    ] {
        assert_eq!(findings("quant/codebook.rs", source), 1, "{source}");
    }
    assert_eq!(findings("quant/codebook_tests.rs", "use crate::search::S;"), 1);
    assert_eq!(findings("types/mod.rs", "use crate::quant::C;"), 1);
}

#[test]
fn a_finding_names_place_and_rule() {
    let found = findings_in("engine", "quant/mod.rs", "\n\nuse crate::search::S;");
    assert_eq!(
        found,
        ["crates/engine/src/quant/mod.rs:3: `crate::search::S`: `quant` may not import `search`"]
    );
}

#[test]
fn banned_paths_are_found() {
    for source in ["use std::fs;", "use std::{io, net::TcpStream};", "fn f() { std::fs::read(p) }"]
    {
        assert_eq!(findings("quant/mod.rs", source), 1, "{source}");
    }
    assert_eq!(
        findings("quant/mod.rs", "use pyo3::prelude::*;"),
        1,
        "the crate's bans hold in its rooms"
    );
    assert_eq!(findings("lib.rs", "use pyo3::prelude::*;"), 1, "and in its root");
}

#[test]
fn bans_are_lifted_in_tests_and_where_the_table_says() {
    assert_eq!(findings("quant/mod.rs", "#[cfg(test)] mod tests { use std::fs; }"), 0);
    assert_eq!(findings("quant/codebook_tests.rs", "use std::fs;"), 0);
    assert_eq!(findings("search/driver.rs", "use std::time::Instant;"), 0);
    assert_eq!(findings("search/driver/pool.rs", "use std::time::Instant;"), 0);
    assert_eq!(findings("search/beam.rs", "use std::time::Instant;"), 1);
}

#[test]
fn code_outside_every_room_is_found() {
    assert_eq!(findings("utils.rs", ""), 1);
    assert_eq!(findings("misc/mod.rs", ""), 1);
    assert_eq!(findings_in("cli", "args.rs", "").len(), 0, "a crate without rooms has free files");
}

#[test]
fn dependencies_of_crates_follow_the_table() {
    let rooms = map();
    let cli = rooms.iter().find(|r| r.name == "cli").unwrap();
    let manifest =
        "name = \"pipeann-cli\"\n[dependencies]\npipeann-engine.workspace = true\npipeann-db = {}";
    let found = dependencies(cli, "crates/cli/Cargo.toml", manifest);
    assert_eq!(found, ["crates/cli/Cargo.toml: `cli` may not import `db`"]);
}

#[test]
fn circles_and_unknown_rooms_are_found() {
    assert!(circles_of_rooms(&map()).is_empty());
    let circle = MAP.replace("| words | nothing |", "| words | `search` |");
    assert_eq!(circles_of_rooms(&rooms(&circle).unwrap()).len(), 1);
    let unknown = MAP.replace("| words | nothing |", "| words | `cellar` |");
    assert_eq!(circles_of_rooms(&rooms(&unknown).unwrap()).len(), 1);
}

#[test]
fn members_are_read_from_the_manifest() {
    assert_eq!(
        members("[workspace]\nmembers = [\"crates/engine\", \"python\"]\n"),
        ["crates/engine", "python"]
    );
}

#[test]
fn files_become_modules() {
    let module = |p: &str| module_of(Path::new(p)).join("::");
    assert_eq!(module("lib.rs"), "");
    assert_eq!(module("graph/mod.rs"), "graph");
    assert_eq!(module("graph/head.rs"), "graph::head");
    assert_eq!(module("graph/head_tests.rs"), "graph::head::tests");
}
