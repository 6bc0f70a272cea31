//! The names of the tree: as a process sees them, as they are durable, and the changes between.

use std::collections::BTreeMap;

use super::super::path::parent;
use super::PowerCut;
use super::random::Random;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Dir,
    /// Position among the inodes.
    File(usize),
}

/// Names that change together, or not at all.
type Change = Vec<(String, Option<Node>)>;

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) live: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    /// What leads from `durable` to `live`, in order.
    pending: Vec<Change>,
}

impl Names {
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
        let change: Change = change.map(|(path, node)| (path.to_owned(), node)).into();
        apply(&mut self.live, &change);
        self.pending.push(change);
    }

    pub(super) fn sync(&mut self, dir: &str) {
        for change in std::mem::take(&mut self.pending) {
            if change.iter().any(|(path, _)| parent(path) == dir) {
                apply(&mut self.durable, &change);
            } else {
                self.pending.push(change);
            }
        }
    }

    pub(super) fn after(&self, cut: PowerCut, random: &mut Random) -> Self {
        let mut names = self.durable.clone();
        for change in &self.pending {
            let kept = match cut {
                PowerCut::Drop => false,
                PowerCut::Keep => true,
                PowerCut::Torn(_) => random.coin(),
            };
            if kept {
                apply(&mut names, change);
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

fn apply(names: &mut BTreeMap<String, Node>, change: &Change) {
    for (path, node) in change {
        match node {
            Some(node) => names.insert(path.clone(), node.clone()),
            None => names.remove(path),
        };
    }
}
