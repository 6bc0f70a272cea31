//! The names of the tree: as a process sees them, as they are durable, and the changes between.

use std::collections::BTreeMap;

use super::super::path::parent;
use super::power_cut::PowerCut;
use super::random::CrashChance;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Dir,
    /// Position among the inodes.
    File(usize),
}

/// What happens as a whole, or not at all.
#[derive(Clone, Debug)]
enum NameChange {
    /// Names come, go, or stand for something else.
    Names(Vec<(String, Option<Node>)>),
    /// A directory gets another name, with all that is in it.
    MoveDir { from: String, to: String },
}

#[derive(Clone, Debug, Default)]
pub(super) struct NameTable {
    pub(super) live: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    /// What leads from `durable` to `live`, in order.
    pending: Vec<NameChange>,
}

impl NameTable {
    pub(super) fn is_dir(&self, path: &str) -> bool {
        path.is_empty() || self.live.get(path) == Some(&Node::Dir)
    }

    pub(super) fn has_parent(&self, path: &str) -> bool {
        self.is_dir(parent(path))
    }

    pub(super) fn file(&self, path: &str) -> Option<usize> {
        match self.live.get(path)? {
            Node::File(inode) => Some(*inode),
            Node::Dir => None,
        }
    }

    /// Names within a directory, in order.
    pub(super) fn children<'a>(
        &'a self,
        dir: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Node)> {
        let within = self.live.iter().filter(move |(path, _)| parent(path) == dir);
        within.map(|(path, node)| (path.rsplit('/').next().unwrap_or(path), node))
    }

    pub(super) fn change<const N: usize>(&mut self, change: [(&str, Option<Node>); N]) {
        self.happen(NameChange::Names(change.map(|(path, node)| (path.to_owned(), node)).into()));
    }

    pub(super) fn move_dir(&mut self, from: &str, to: &str) {
        self.happen(NameChange::MoveDir { from: from.to_owned(), to: to.to_owned() });
    }

    fn happen(&mut self, change: NameChange) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    pub(super) fn sync(&mut self, dir: &str) {
        for change in std::mem::take(&mut self.pending) {
            if change.is_in(dir) {
                change.apply(&mut self.durable);
            } else {
                self.pending.push(change);
            }
        }
    }

    pub(super) fn after(&self, cut: PowerCut, random: &mut CrashChance) -> Self {
        let mut names = self.durable.clone();
        for change in &self.pending {
            let kept = match cut {
                PowerCut::Drop => false,
                PowerCut::Keep => true,
                PowerCut::Torn(_) => random.coin(),
            };
            if kept {
                change.apply(&mut names);
            }
        }
        // What is in a directory that is not there cannot be found.
        let all = names.clone();
        names.retain(|path, _| {
            let mut dir = parent(path);
            while !dir.is_empty() && all.get(dir) == Some(&Node::Dir) {
                dir = parent(dir);
            }
            dir.is_empty()
        });
        Self { live: names.clone(), durable: names, pending: Vec::new() }
    }
}

impl NameChange {
    /// Whether it is a change of this directory, and on stable storage with its names.
    fn is_in(&self, dir: &str) -> bool {
        match self {
            Self::Names(names) => names.iter().any(|(path, _)| parent(path) == dir),
            Self::MoveDir { from, to } => parent(from) == dir || parent(to) == dir,
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Self::Names(changed) => {
                for (path, node) in changed {
                    match node {
                        Some(node) => names.insert(path.clone(), node.clone()),
                        None => names.remove(path),
                    };
                }
            }
            Self::MoveDir { from, to } => {
                let inner = format!("{from}/");
                let moved = names.keys().filter(|path| *path == from || path.starts_with(&inner));
                for path in moved.cloned().collect::<Vec<_>>() {
                    let node = names.remove(&path).expect("it was just listed");
                    names.insert(format!("{to}{}", &path[from.len()..]), node);
                }
            }
        }
    }
}
