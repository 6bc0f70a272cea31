//! The table of rooms in `ARCHITECTURE.md`, read into rules.
//!
//! Its columns are `room | place | does | may import | never`. Only code spans carry meaning for
//! the check; the words around them are for the reader:
//! - `place` is the folder of the room;
//! - `may import` names rooms of the same crate, or crates; the bare word `all` stands for every
//!   other room of the crate;
//! - each code span in `never` bans the path it names. After the word `outside`, code spans name
//!   files or folders of the room, by the beginning of their name, where the ban is lifted; a
//!   `;` ends the clause.

use anyhow::{Context, Result, bail, ensure};

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) name: String,
    /// Folder, relative to the repository.
    pub(crate) place: String,
    pub(crate) imports: Imports,
    pub(crate) bans: Vec<Ban>,
}

/// What a room may import beside itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Imports {
    /// Every other room of its crate.
    All,
    /// These rooms or crates.
    These(Vec<String>),
}

/// A path that a room does not name outside its tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ban {
    pub(crate) path: Vec<String>,
    /// Beginnings of file or folder names within the room where it may be named.
    pub(crate) lifted_in: Vec<String>,
}

impl Room {
    /// Whether the row stands for a whole crate rather than for a module of one.
    pub(crate) fn is_crate(&self) -> bool {
        self.place.ends_with("/src")
    }

    /// Whether `self` is a module of `parent`.
    pub(crate) fn is_within(&self, parent: &Room) -> bool {
        self.place.strip_prefix(&parent.place).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl Ban {
    /// Whether `path` is the banned one, or lies below it, or is a glob that takes it in.
    pub(crate) fn covers(&self, path: &[String]) -> bool {
        let glob =
            path.last().is_some_and(|s| s == "*") && self.path.starts_with(&path[..path.len() - 1]);
        glob || path.starts_with(&self.path)
    }
}

/// Reads the table out of the text of `ARCHITECTURE.md`.
pub(crate) fn rooms(text: &str) -> Result<Vec<Room>> {
    let mut lines = text.lines().map(str::trim).skip_while(|l| cells(l).first() != Some(&"room"));
    let header = lines.next().context("no table whose first column is `room`")?;
    let columns = cells(header);
    ensure!(
        columns == ["room", "place", "does", "may import", "never"],
        "the table of rooms has the columns {columns:?}"
    );
    let rows = lines.skip(1).take_while(|l| l.starts_with('|'));
    let rooms: Vec<Room> =
        rows.map(|l| room(l).with_context(|| format!("row `{l}`"))).collect::<Result<_>>()?;
    ensure!(!rooms.is_empty(), "the table of rooms has no rows");
    for (i, room) in rooms.iter().enumerate() {
        ensure!(
            rooms[..i].iter().all(|r| r.name != room.name),
            "two rooms are named `{}`",
            room.name
        );
    }
    Ok(rooms)
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

fn room(line: &str) -> Result<Room> {
    let cells = cells(line);
    let &[name, place, _, imports, never] = cells.as_slice() else {
        bail!("has {} cells, not 5", cells.len());
    };
    Ok(Room {
        name: only_span(name)?,
        place: only_span(place)?,
        imports: match (imports, spans(imports)) {
            ("all", _) => Imports::All,
            ("nothing", _) => Imports::These(Vec::new()),
            (_, spans) if spans.is_empty() => {
                bail!("`may import` is no list of rooms, `all` or `nothing`")
            }
            (_, spans) => Imports::These(spans),
        },
        bans: never.split(';').flat_map(bans).collect(),
    })
}

fn bans(clause: &str) -> Vec<Ban> {
    let (banned, lifted) = clause.split_once("outside").unwrap_or((clause, ""));
    let segments = |path: String| path.split("::").map(str::to_owned).collect();
    spans(banned).into_iter().map(|p| Ban { path: segments(p), lifted_in: spans(lifted) }).collect()
}

fn only_span(cell: &str) -> Result<String> {
    match spans(cell).as_slice() {
        [span] => Ok(span.clone()),
        found => bail!("`{cell}` has {} code spans, not one", found.len()),
    }
}

pub(crate) fn spans(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{Ban, Imports, rooms};

    const HEAD: &str =
        "text\n\n| room | place | does | may import | never |\n|---|---|---|---|---|\n";

    fn path(p: &str) -> Vec<String> {
        p.split("::").map(str::to_owned).collect()
    }

    #[test]
    fn a_row_becomes_rules() {
        let row = "| `search` | `crates/engine/src/search` | searches | `types`, `io` | I/O (`std::fs`); clocks (`std::time`) outside `driver` |";
        let rooms = rooms(&format!("{HEAD}{row}\n\n| not | a | row |")).unwrap();
        assert_eq!(rooms.len(), 1);
        assert_eq!(rooms[0].imports, Imports::These(vec!["types".into(), "io".into()]));
        let fs = Ban { path: path("std::fs"), lifted_in: vec![] };
        let time = Ban { path: path("std::time"), lifted_in: vec!["driver".into()] };
        assert_eq!(rooms[0].bans, [fs, time]);
    }

    #[test]
    fn a_ban_covers_what_lies_below_and_globs_above() {
        let ban = Ban { path: path("std::fs"), lifted_in: vec![] };
        for covered in ["std::fs", "std::fs::File", "std::fs::*", "std::*"] {
            assert!(ban.covers(&path(covered)), "{covered}");
        }
        for free in ["std::io", "std", "std::io::*", "tokio::fs"] {
            assert!(!ban.covers(&path(free)), "{free}");
        }
    }

    #[test]
    fn a_table_that_says_nothing_is_refused() {
        assert!(rooms("# no table").is_err());
        assert!(rooms(HEAD).is_err());
        assert!(rooms(&HEAD.replace("never", "avoids")).is_err());
        assert!(rooms(&format!("{HEAD}| `a` | `a/src` | x | whatever | y |")).is_err());
        assert!(rooms(&format!("{HEAD}| a | `a/src` | x | all | y |")).is_err());
        assert!(rooms(&format!("{HEAD}| `a` | `a/src` | x | all |")).is_err());
        let row = "| `a` | `a/src` | x | all | y |\n";
        assert!(rooms(&format!("{HEAD}{row}{row}")).is_err());
    }
}
