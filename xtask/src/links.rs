//! Every relative link in the project's Markdown leads to a file, and to a heading if it names
//! one.
//!
//! Addresses with a scheme are left alone: a check that needs the network fails on bad days.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders that hold what others wrote, or what a build made.
const SKIPPED: [&str; 5] = ["target", ".git", ".venv", ".cache", "node_modules"];

/// Checks every `.md` file below `root`; each finding is a line for the reader.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in markdown_files(root)? {
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let shown = file.strip_prefix(root).expect("the walk stays inside").display();
        for link in links(&text) {
            if let Some(why) = broken(root, &file, &link.target) {
                findings.push(format!("{shown}:{}: {}: {why}", link.line, link.target));
            }
        }
    }
    Ok(findings)
}

/// A link and its line, counted from 1.
#[derive(Debug, PartialEq, Eq)]
struct MarkdownLink {
    target: String,
    line: usize,
}

/// The lines of `text` outside fenced code, with their numbers and without code spans.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fence = None;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let mark = ["```", "~~~"].into_iter().find(|m| line.trim_start().starts_with(m));
        match (fence, mark) {
            (None, None) => {
                Some((i + 1, line.split('`').step_by(2).collect::<Vec<_>>().join("code")))
            }
            (None, mark) => {
                fence = mark;
                None
            }
            (open, mark) => {
                fence = if open == mark { None } else { open };
                None
            }
        }
    })
}

/// Inline links and images, and reference definitions.
fn links(text: &str) -> Vec<MarkdownLink> {
    let mut found = Vec::new();
    for (line, text) in prose(text) {
        let mut target = |t: &str| {
            let t = t.trim().trim_start_matches('<');
            let end = t.find(['>', ' ']).unwrap_or(t.len());
            found.push(MarkdownLink { target: t[..end].to_owned(), line });
        };
        for (at, _) in text.match_indices("](") {
            let rest = &text[at + 2..];
            target(&rest[..rest.find(')').unwrap_or(rest.len())]);
        }
        if let Some((_, definition)) = text.strip_prefix('[').and_then(|t| t.split_once("]: ")) {
            target(definition);
        }
    }
    found
}

/// Why `target`, named in `file`, leads nowhere, if so.
fn broken(root: &Path, file: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').map_or((target, None), |(p, h)| (p, Some(h)));
    let folder = file.parent().expect("a file stands in a folder");
    let meant = if path.is_empty() { file.to_owned() } else { folder.join(path) };
    let Ok(meant) = meant.canonicalize() else { return Some("no such file".into()) };
    if !root.canonicalize().is_ok_and(|root| meant.starts_with(root)) {
        return Some("leads out of the repository".into());
    }
    let heading = heading.filter(|_| meant.extension().is_some_and(|e| e == "md"))?;
    let text = fs::read_to_string(&meant).unwrap_or_default();
    (!headings(&text).iter().any(|h| h == heading)).then(|| "no such heading".into())
}

/// The anchors of a file's headings, as GitHub makes them.
fn headings(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        found.push(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    found
}

fn markdown_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
        {
            let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
            let path = entry.path();
            let name = entry.file_name();
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                if !SKIPPED.iter().any(|s| name == *s) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "md") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{broken, check, headings, links};

    #[test]
    fn every_link_of_the_project_resolves() {
        let found = check(crate::repository_root()).unwrap();
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }

    #[test]
    fn links_are_found_outside_code() {
        let text = "[a](a.md) and ![b](<b.png> \"title\")\n```\n[no](no.md)\n```\n`[no](no.md)` [c](c.md#d)\n[ref]: e.md";
        let found: Vec<(String, usize)> =
            links(text).into_iter().map(|l| (l.target, l.line)).collect();
        let expected = [("a.md", 1), ("b.png", 1), ("c.md#d", 5), ("e.md", 6)];
        assert_eq!(found, expected.map(|(t, l)| (t.to_owned(), l)));
    }

    #[test]
    fn broken_links_are_told_from_good_ones() {
        let root = crate::repository_root();
        let file = root.join("README.md");
        for good in
            ["LICENSE", "docs/", "ARCHITECTURE.md#rooms", "https://example.org/x", "#licence"]
        {
            assert_eq!(broken(root, &file, good), None, "{good}");
        }
        for bad in ["missing.md", "../outside", "ARCHITECTURE.md#cellar", "#nothing"] {
            assert!(broken(root, &file, bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn headings_become_anchors() {
        assert_eq!(headings("# A `b`, c: d\n```\n# no\n```\n## Two_w"), ["a-b-c-d", "two_w"]);
    }
}
