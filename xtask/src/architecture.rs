//! Compares the source with the table of rooms in `ARCHITECTURE.md`.
//!
//! Findings are: an import that the table does not allow, in code and tests alike; a path that
//! the room's `never` column bans, outside its tests; code in no room; a row without a folder;
//! a crate without a row; a dependency in a `Cargo.toml` that the table does not allow; rooms
//! that import each other in a circle, files of a room that do, and
//! folders of a collection that the second table does not let.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::circles::{self, SourceFile};
use crate::parts;
use crate::paths::{NamedPath, named_paths};
use crate::table::{Imports, Room, rooms};

/// Checks the repository at `root`; each finding is a line for the reader.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let read = |file: &str| {
        fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
    };
    let architecture = read("ARCHITECTURE.md")?;
    let rooms = rooms(&architecture).context("ARCHITECTURE.md")?;
    let mut findings = circles_of_rooms(&rooms);
    let mut in_circles = Vec::new();
    for member in members(&read("Cargo.toml")?) {
        if !rooms.iter().any(|r| r.is_crate() && r.place == format!("{member}/src")) {
            findings
                .push(format!("Cargo.toml: the crate {member} is in no row of ARCHITECTURE.md"));
        }
    }
    for room in &rooms {
        if !root.join(&room.place).is_dir() {
            findings.push(format!("ARCHITECTURE.md: `{}` has no folder {}", room.name, room.place));
        }
    }
    for home in rooms.iter().filter(|r| r.is_crate()) {
        let manifest = home.place.replace("/src", "/Cargo.toml");
        findings.extend(dependencies(home, &manifest, &read(&manifest)?));
        let mut sources = Vec::new();
        let of_crate = Crate { home, rooms: rooms.iter().filter(|r| r.is_within(home)).collect() };
        for file in rust_files(&root.join(&home.place))? {
            let source = fs::read_to_string(&file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let within = file.strip_prefix(root.join(&home.place)).expect("the walk stays inside");
            findings.extend(of_crate.file(within, &source));
            sources.extend(outside_tests(within, &source, Path::new(&home.place)));
        }
        in_circles.extend(circles::circles(&sources));
        findings.extend(parts::findings(&architecture, &sources));
    }
    findings.extend(circles::findings(&in_circles));
    Ok(findings)
}

/// A crate of the table and the rooms in it, if it has any.
struct Crate<'r> {
    home: &'r Room,
    rooms: Vec<&'r Room>,
}

impl Crate<'_> {
    /// The findings in one file, `file` being its path within the crate's `src`.
    fn file(&self, file: &Path, source: &str) -> Vec<String> {
        let module = module_of(file);
        let room = self.rooms.iter().find(|r| module.first() == Some(&r.name)).copied();
        let shown = Path::new(&self.home.place).join(file);
        if room.is_none() && !self.rooms.is_empty() && !module.is_empty() {
            return vec![format!("{}: is in no room of ARCHITECTURE.md", shown.display())];
        }
        let test_file = module.iter().any(|m| m == "tests");
        let mut findings = Vec::new();
        for path in named_paths(source, &module) {
            let at = format!("{}:{}", shown.display(), path.line);
            let name = path.segments.join("::");
            if let Some(why) = self.forbidden_import(room, &path) {
                findings.push(format!("{at}: `{name}`: {why}"));
            }
            let applies = [Some(self.home), room].into_iter().flatten();
            for rules in applies.filter(|_| !test_file && !path.in_tests) {
                let lifted = |names: &[String]| {
                    module.iter().skip(1).any(|m| names.iter().any(|n| m.starts_with(n)))
                };
                for ban in
                    rules.bans.iter().filter(|b| b.covers(&path.segments) && !lifted(&b.lifted_in))
                {
                    let banned = ban.path.join("::");
                    findings
                        .push(format!("{at}: `{name}`: `{}` never uses `{banned}`", rules.name));
                }
            }
        }
        findings
    }

    /// Why the table does not allow this import, if so.
    fn forbidden_import(&self, room: Option<&Room>, path: &NamedPath) -> Option<String> {
        let first = path.segments.first()?;
        if let Some(other) = first.strip_prefix("pipeann_") {
            return (other != self.home.name && !allows(self.home, other))
                .then(|| format!("`{}` may not import `{other}`", self.home.name));
        }
        let room = room.filter(|_| first == "crate")?;
        let target = path.segments.get(1)?;
        if *target == room.name {
            None
        } else if !self.rooms.iter().any(|r| r.name == *target) {
            Some("what lies in the crate's root is in no room; name the room instead".into())
        } else {
            (!allows(room, target)).then(|| format!("`{}` may not import `{target}`", room.name))
        }
    }
}

fn allows(room: &Room, target: &str) -> bool {
    match &room.imports {
        Imports::All => true,
        Imports::These(names) => names.iter().any(|n| n == target),
    }
}

/// A file as its circles are looked for, unless it is one of tests.
fn outside_tests(file: &Path, source: &str, place: &Path) -> Option<SourceFile> {
    let module = module_of(file);
    if module.iter().any(|m| m == "tests") {
        return None;
    }
    let mut paths = named_paths(source, &module);
    paths.retain(|path| !path.in_tests);
    Some(SourceFile { shown: place.join(file), module, paths })
}

/// The module path of a file within `src`. `head_tests.rs` is taken for `head::tests`, which is
/// how a long test module is moved beside its file.
pub(crate) fn module_of(file: &Path) -> Vec<String> {
    let stem = file.with_extension("");
    let mut module: Vec<String> = stem.iter().map(|s| s.to_string_lossy().into_owned()).collect();
    let last = module.pop().unwrap_or_default();
    match (last.as_str(), last.strip_suffix("_tests")) {
        ("lib" | "main", _) if module.is_empty() => {}
        ("mod", _) => {}
        (_, Some(tested)) => module.extend([tested.to_owned(), "tests".to_owned()]),
        (_, None) => module.push(last),
    }
    module
}

/// Dependencies on other crates of the workspace that the table does not allow.
fn dependencies(home: &Room, file: &str, manifest: &str) -> Vec<String> {
    let names = manifest.lines().filter_map(|l| l.trim().strip_prefix("pipeann-"));
    names
        .map(|l| l.split(|c: char| !c.is_alphanumeric() && c != '-').next().unwrap_or(l))
        .filter(|name| !allows(home, name))
        .map(|name| format!("{file}: `{}` may not import `{name}`", home.name))
        .collect()
}

/// The folders in the `members` line of the workspace's manifest.
pub(crate) fn members(manifest: &str) -> Vec<String> {
    let list = manifest.lines().find(|l| l.starts_with("members"));
    list.map_or(Vec::new(), |l| l.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Rooms that may import each other in a circle, or name a room that is not there.
fn circles_of_rooms(rooms: &[Room]) -> Vec<String> {
    let crate_of = |room: &Room| rooms.iter().position(|c| c.is_crate() && room.is_within(c));
    let edges = |from: &Room| -> Vec<usize> {
        let meant = |to: &Room| match &from.imports {
            Imports::All => to.name != from.name && crate_of(to) == crate_of(from),
            Imports::These(names) => names.contains(&to.name),
        };
        (0..rooms.len()).filter(|&i| meant(&rooms[i])).collect()
    };
    let mut findings = Vec::new();
    for room in rooms {
        if let Imports::These(names) = &room.imports {
            for name in names.iter().filter(|n| rooms.iter().all(|r| r.name != **n)) {
                findings.push(format!(
                    "ARCHITECTURE.md: `{}` may import `{name}`, which is no room",
                    room.name
                ));
            }
        }
    }
    let mut settled = vec![false; rooms.len()];
    while let Some(next) =
        (0..rooms.len()).find(|&i| !settled[i] && edges(&rooms[i]).iter().all(|&e| settled[e]))
    {
        settled[next] = true;
    }
    let left: Vec<&str> =
        rooms.iter().zip(&settled).filter(|(_, s)| !**s).map(|(r, _)| r.name.as_str()).collect();
    if !left.is_empty() {
        findings
            .push(format!("ARCHITECTURE.md: imports run in a circle among {}", left.join(", ")));
    }
    findings
}

/// All `.rs` files below `folder`, sorted.
pub(crate) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
#[path = "architecture_tests.rs"]
mod tests;
