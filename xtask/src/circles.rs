//! Files of a room that need each other in a circle.
//!
//! A file needs those whose items it names, followed through the `use` lines of the modules between:
//! what a `mod.rs` only hands on, it does not need itself. Tests do not count.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::paths::{NamedPath, Naming};

/// Modules through which an item is followed.
const MOST_HOPS: usize = 8;

/// A file of a crate, outside tests.
pub(crate) struct SourceFile {
    /// From the repository's root.
    pub(crate) shown: PathBuf,
    pub(crate) module: Vec<String>,
    /// What it names, outside tests.
    pub(crate) paths: Vec<NamedPath>,
}

/// Files that need each other.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Circle {
    files: Vec<PathBuf>,
    /// Which needs which, and for what.
    needs: Vec<String>,
}

/// For each file those of its room that it needs, and a path by which it names each.
pub(crate) fn needs(files: &[SourceFile]) -> Vec<BTreeMap<usize, &NamedPath>> {
    let modules: BTreeMap<&[String], usize> =
        files.iter().enumerate().map(|(at, file)| (&*file.module, at)).collect();
    let needs_of = |at: usize| {
        let file = &files[at];
        let named = file.paths.iter().filter(|path| !matches!(path.naming, Naming::ReExport(_)));
        let found = named.filter_map(|path| {
            let to = declared(files, &modules, &file.module, &path.segments, MOST_HOPS)?;
            let same_room = files[to].module.first() == file.module.first();
            (to != at && same_room).then_some((to, path))
        });
        found.collect()
    };
    (0..files.len()).map(needs_of).collect()
}

/// The circles of a crate's files.
pub(crate) fn circles(files: &[SourceFile]) -> Vec<Circle> {
    let needs = needs(files);
    let shown = |at: usize| files[at].shown.display();
    let circle = |mut circle: Vec<usize>| {
        circle.sort_unstable();
        let within = circle.iter().flat_map(|from| {
            let needed = needs[*from].iter().filter(|(to, _)| circle.contains(to));
            needed.map(move |(to, path)| (*from, *to, path.segments.join("::")))
        });
        let needs =
            within.map(|(a, b, what)| format!("{} needs {} for {what}", shown(a), shown(b)));
        Circle {
            needs: needs.collect(),
            files: circle.iter().map(|at| files[*at].shown.clone()).collect(),
        }
    };
    let all = components(&needs).into_iter();
    let mut found: Vec<Circle> = all.filter(|files| files.len() > 1).map(circle).collect();
    found.sort();
    found
}

/// What is wrong with these circles of all crates.
pub(crate) fn findings(circles: &[Circle]) -> Vec<String> {
    let needs = circles.iter().map(|circle| circle.needs.join("\n    "));
    needs.map(|needs| format!("files in a circle:\n    {needs}")).collect()
}

/// The file that declares what a path names that stands in the module `within`, if it is one of these.
fn declared(
    files: &[SourceFile],
    modules: &BTreeMap<&[String], usize>,
    within: &[String],
    path: &[String],
    hops: usize,
) -> Option<usize> {
    if hops == 0 {
        return None;
    }
    let whole;
    let path = match path.first()?.as_str() {
        "crate" => path,
        // What does not begin in a child of the module is declared by another crate.
        child => {
            let child = [within, &[child.to_owned()]].concat();
            modules.get(&*child)?;
            whole = [&["crate".to_owned()], within, path].concat();
            &whole
        }
    };
    let mut depth = 1;
    while depth < path.len() && modules.contains_key(&path[1..=depth]) {
        depth += 1;
    }
    let at = *modules.get(&path[1..depth])?;
    let Some(name) = path.get(depth) else { return Some(at) };
    let hands_on = |named: &&NamedPath| match &named.naming {
        Naming::Import(given) | Naming::ReExport(given) => given == name,
        Naming::Expression => false,
    };
    let handed = files[at].paths.iter().find(hands_on);
    let Some(handed) = handed.filter(|handed| handed.segments != path) else { return Some(at) };
    declared(files, modules, &files[at].module, &handed.segments, hops - 1)
}

/// Strongly connected components (Tarjan, 1972).
fn components(needs: &[BTreeMap<usize, &NamedPath>]) -> Vec<Vec<usize>> {
    struct TarjanWalk<'n> {
        needs: &'n [BTreeMap<usize, &'n NamedPath>],
        met: Vec<Option<usize>>,
        low: Vec<usize>,
        on_stack: Vec<bool>,
        stack: Vec<usize>,
        next: usize,
        found: Vec<Vec<usize>>,
    }
    impl TarjanWalk<'_> {
        fn visit(&mut self, at: usize) {
            (self.met[at], self.low[at]) = (Some(self.next), self.next);
            self.next += 1;
            self.stack.push(at);
            self.on_stack[at] = true;
            for &to in self.needs[at].keys() {
                match self.met[to] {
                    None => {
                        self.visit(to);
                        self.low[at] = self.low[at].min(self.low[to]);
                    }
                    Some(met) if self.on_stack[to] => self.low[at] = self.low[at].min(met),
                    Some(_) => {}
                }
            }
            if Some(self.low[at]) == self.met[at] {
                let from = self.stack.iter().position(|&on| on == at).expect("it was put there");
                let component = self.stack.split_off(from);
                component.iter().for_each(|&of| self.on_stack[of] = false);
                self.found.push(component);
            }
        }
    }
    let count = needs.len();
    let mut walk = TarjanWalk {
        needs,
        met: vec![None; count],
        low: vec![0; count],
        on_stack: vec![false; count],
        stack: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for at in 0..count {
        if walk.met[at].is_none() {
            walk.visit(at);
        }
    }
    walk.found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::named_paths;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<PathBuf>> {
        let file = |&(module, source): &(&str, &str)| {
            let module: Vec<String> =
                module.split("::").filter(|m| !m.is_empty()).map(str::to_owned).collect();
            let paths = named_paths(source, &module);
            let paths = paths.into_iter().filter(|path| !path.in_tests).collect();
            SourceFile { shown: module.join("/").into(), module, paths }
        };
        let files: Vec<SourceFile> = files.iter().map(file).collect();
        circles(&files).into_iter().map(|circle| circle.files).collect()
    }

    #[test]
    fn files_that_need_each_other_are_found_through_what_hands_their_items_on() {
        let parent = ("a", "mod x; mod y; pub use x::X; pub(crate) use y::{Y as Z};");
        let x = ("a::x", "use super::Z; pub struct X;");
        let y = ("a::y", "pub struct Y; fn f(x: super::X) {}");
        assert_eq!(found(&[parent, x, y]), [[PathBuf::from("a/x"), PathBuf::from("a/y")]]);
        let y = ("a::y", "pub struct Y;");
        assert!(found(&[parent, x, y]).is_empty(), "what is handed on is not needed");
    }

    #[test]
    fn a_parent_and_its_child_may_stand_in_a_circle_too() {
        let parent = ("a", "mod x; use x::X; pub struct A(X);");
        let child = ("a::x", "use super::A; pub struct X;");
        assert_eq!(found(&[parent, child]).len(), 1);
        let child = ("a::x", "pub struct X; #[cfg(test)] mod tests { use super::super::A; }");
        assert!(found(&[parent, child]).is_empty(), "tests do not count");
    }

    #[test]
    fn rooms_are_looked_at_one_by_one() {
        let files = [
            ("a::x", "use crate::b::y::Y; pub struct X;"),
            ("b::y", "use crate::a::x::X; pub struct Y;"),
        ];
        assert!(found(&files).is_empty(), "the table is for those");
    }
}
