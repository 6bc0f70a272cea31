//! Rooms within a room: which of the folders of a collection may name which, by the second table of
//! `ARCHITECTURE.md`.
//!
//! What a file needs is followed to where it is declared, so that no `mod.rs` hides from which folder
//! it is. What stands beside the folders is everybody's.

use crate::circles::{SourceFile, needs};
use crate::table::spans;

/// Begins the table.
const HEAD: &str = "| part of `collection` | does | may import |";
/// The room that has parts.
const ROOM: &str = "collection";

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
struct RoomPart {
    name: String,
    imports: Vec<String>,
}

/// The rows, in an order in which each names only those above it; else what is wrong.
fn parts(architecture: &str) -> Result<Vec<RoomPart>, String> {
    let mut lines = architecture.lines().skip_while(|line| line.trim() != HEAD).skip(2);
    let mut found: Vec<RoomPart> = Vec::new();
    for line in lines.by_ref().take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(name), Some(imports)) = (cells.first(), cells.get(2)) else {
            return Err(format!("ARCHITECTURE.md: a part has too few cells: {line}"));
        };
        let (Some(name), imports) = (spans(name).into_iter().next(), spans(imports)) else {
            return Err(format!("ARCHITECTURE.md: a part without a name: {line}"));
        };
        if let Some(later) = imports.iter().find(|to| found.iter().all(|part| part.name != **to)) {
            return Err(format!(
                "ARCHITECTURE.md: `{name}` imports `{later}`, which is not above it"
            ));
        }
        found.push(RoomPart { name, imports });
    }
    if found.is_empty() {
        Err(format!("ARCHITECTURE.md: no table begins with {HEAD}"))
    } else {
        Ok(found)
    }
}

/// Imports between the parts that the table does not allow, and folders that are not in it.
pub(crate) fn findings(architecture: &str, files: &[SourceFile]) -> Vec<String> {
    let is_inside = |file: &&SourceFile| file.module.first().is_some_and(|room| room == ROOM);
    if !files.iter().any(|file| is_inside(&file)) {
        return Vec::new();
    }
    let parts = match parts(architecture) {
        Ok(parts) => parts,
        Err(why) => return vec![why],
    };
    let part_of = |file: &SourceFile| {
        let name = file.module.get(1).filter(|_| is_inside(&file))?;
        parts.iter().find(|part| part.name == *name)
    };
    let mut found = Vec::new();
    for file in files.iter().filter(is_inside) {
        if file.module.len() > 2 && part_of(file).is_none() {
            found.push(format!("{}: is in no part of ARCHITECTURE.md", file.shown.display()));
        }
    }
    for part in &parts {
        if !files.iter().any(|file| part_of(file) == Some(part)) {
            found.push(format!("ARCHITECTURE.md: the part `{}` has no files", part.name));
        }
    }
    for (from, needed) in files.iter().zip(needs(files)) {
        let Some(part) = part_of(from) else { continue };
        for (to, path) in needed {
            let Some(other) = part_of(&files[to]) else { continue };
            if other != part && !part.imports.contains(&other.name) {
                let (shown, line, name) =
                    (from.shown.display(), path.line, path.segments.join("::"));
                let why = format!("`{}` may not import `{}`", part.name, other.name);
                found.push(format!("{shown}:{line}: `{name}`: {why}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::named_paths;

    const TABLE: &str = "| part of `collection` | does | may import |\n|---|---|---|\n\
        | `filter` | x | nothing |\n| `search` | y | `filter` |\n";

    fn file(module: &str, source: &str) -> SourceFile {
        let module: Vec<String> = module.split("::").map(str::to_owned).collect();
        let paths = named_paths(source, &module);
        SourceFile { shown: module.join("/").into(), module, paths }
    }

    #[test]
    fn parts_name_those_above_them_alone() {
        let root = file("collection", "pub use search::near::Near;");
        let search = file(
            "collection::search::near",
            "use crate::collection::filter::rows::Rows; pub struct Near;",
        );
        let filter = |source| file("collection::filter::rows", source);
        let files =
            |source| [file("collection", ""), filter(source), file("collection::search::near", "")];
        assert!(findings(TABLE, &[root, search, filter("pub struct Rows;")]).is_empty());
        let hidden = "use crate::collection::Near;";
        let root = file("collection", "pub use search::near::Near;");
        let near = file("collection::search::near", "pub struct Near;");
        let found =
            findings(TABLE, &[root, file("collection::search", "mod near;"), near, filter(hidden)]);
        assert!(
            found.len() == 1 && found[0].contains("`filter` may not import `search`"),
            "{found:?}"
        );
        assert!(findings("# no table", &files(""))[0].contains("no table"));
        let circle = TABLE.replace("nothing", "`search`");
        assert!(findings(&circle, &files(""))[0].contains("not above it"));
        let strange =
            [file("collection::other::x", ""), filter(""), file("collection::search::y", "")];
        assert!(findings(TABLE, &strange)[0].contains("no part"));
        assert!(findings(TABLE, &[filter("")])[0].contains("has no files"));
        assert!(findings("", &[file("other", "")]).is_empty());
    }
}
