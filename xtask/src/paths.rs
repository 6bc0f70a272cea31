//! The paths that a source file names: imports, grouped imports, and paths in expressions.
//!
//! `self` and `super` are resolved, so that a room cannot be left by `super::super`. Inline
//! modules count; macros are read as if their arguments were code.

use crate::tokens::{SourceToken, TokenKind, tokens};

/// A path as it is named somewhere in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPath {
    /// Segments; the first is `crate` or the name of another crate. `*` stands for a glob, or
    /// for the whole crate root under another name.
    pub(crate) segments: Vec<String>,
    /// Line, counted from 1.
    pub(crate) line: usize,
    /// Whether it stands under `#[cfg(test)]`.
    pub(crate) in_tests: bool,
    /// How it is named.
    pub(crate) naming: Naming,
}

/// How a file names a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Within code.
    Expression,
    /// By an import, which gives it this name.
    Import(String),
    /// By an import for others, which gives it this name.
    ReExport(String),
}

/// All paths that `source` names, which is the module `module` of its crate (empty: the root).
pub(crate) fn named_paths(source: &str, module: &[String]) -> Vec<NamedPath> {
    let tokens = tokens(source);
    let mut reader = PathReader {
        tokens: &tokens,
        at: 0,
        module: module.to_vec(),
        open: Vec::new(),
        tests_follow: false,
        in_tests: false,
        is_public: false,
        out: Vec::new(),
    };
    reader.run();
    reader.out
}

/// What the closing of a brace restores.
struct OpenBrace {
    is_module: bool,
    was_in_tests: bool,
}

struct PathReader<'t> {
    tokens: &'t [SourceToken],
    at: usize,
    module: Vec<String>,
    open: Vec<OpenBrace>,
    /// `#[cfg(test)]` was read; the item it belongs to has not begun its body.
    tests_follow: bool,
    in_tests: bool,
    /// Of the import that is read.
    is_public: bool,
    out: Vec<NamedPath>,
}

impl PathReader<'_> {
    fn run(&mut self) {
        while let Some(token) = self.peek(0) {
            match &token.kind {
                TokenKind::Word(w) if w == "use" => self.import(),
                // Who may see an item is no need of it.
                TokenKind::Word(w)
                    if w == "pub" && self.peek(2).is_some_and(|t| t.is_word("in")) =>
                {
                    while self.peek(0).is_some_and(|t| !t.is_punct(')')) {
                        self.at += 1;
                    }
                }
                TokenKind::Word(w)
                    if w == "mod" && self.peek(2).is_some_and(|t| t.is_punct('{')) =>
                {
                    let Some(TokenKind::Word(name)) = self.peek(1).map(|t| t.kind.clone()) else {
                        self.at += 1;
                        continue;
                    };
                    self.module.push(name);
                    self.at += 3;
                    self.begin(true);
                }
                TokenKind::Word(_) => self.expression_path(),
                TokenKind::Punct('#') if self.at_cfg_test() => {
                    self.tests_follow = true;
                    self.at += 7;
                }
                TokenKind::Punct('{') => {
                    self.at += 1;
                    self.begin(false);
                }
                TokenKind::Punct('}') => {
                    self.at += 1;
                    self.end();
                }
                TokenKind::Punct(';') => {
                    self.at += 1;
                    self.tests_follow = false;
                }
                _ => self.at += 1,
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<&SourceToken> {
        self.tokens.get(self.at + ahead)
    }

    fn separator(&self) -> bool {
        self.peek(0).is_some_and(|t| t.kind == TokenKind::PathSeparator)
    }

    /// `#[cfg(test)]`
    fn at_cfg_test(&self) -> bool {
        let punct = |i: usize, c| self.peek(i).is_some_and(|t| t.is_punct(c));
        let word = |i: usize, w| self.peek(i).is_some_and(|t| t.is_word(w));
        punct(1, '[') && word(2, "cfg") && punct(3, '(') && word(4, "test") && punct(5, ')')
    }

    fn begin(&mut self, is_module: bool) {
        self.open.push(OpenBrace { is_module, was_in_tests: self.in_tests });
        self.in_tests |= self.tests_follow;
        self.tests_follow = false;
    }

    fn end(&mut self) {
        if let Some(block) = self.open.pop() {
            self.in_tests = block.was_in_tests;
            if block.is_module {
                self.module.pop();
            }
        }
    }

    /// `use a::{b, c::d as e, f::*};`
    fn import(&mut self) {
        self.is_public = self.follows_pub();
        self.at += 1;
        self.import_tree(&[]);
    }

    /// Whether what comes stands behind `pub` or `pub(…)`.
    fn follows_pub(&self) -> bool {
        let mut before = &self.tokens[..self.at];
        if before.last().is_some_and(|t| t.is_punct(')')) {
            let open = before.iter().rposition(|t| t.is_punct('('));
            before = &before[..open.unwrap_or(0)];
        }
        before.last().is_some_and(|t| t.is_word("pub"))
    }

    /// One branch of an import, up to and without its `,`, `}` or `;`.
    fn import_tree(&mut self, prefix: &[String]) {
        let mut path = prefix.to_vec();
        let mut alias = None;
        let line = self.peek(0).map_or(0, |t| t.line);
        while let Some(token) = self.peek(0).cloned() {
            match token.kind {
                TokenKind::PathSeparator => self.at += 1,
                TokenKind::Word(w) if w == "as" => {
                    alias = match self.peek(1).map(|t| &t.kind) {
                        Some(TokenKind::Word(alias)) => Some(alias.clone()),
                        _ => None,
                    };
                    self.at += 2;
                }
                TokenKind::Word(w) => {
                    path.push(w);
                    self.at += 1;
                }
                TokenKind::Punct('*') => {
                    path.push("*".into());
                    self.at += 1;
                }
                TokenKind::Punct('{') => {
                    self.at += 1;
                    self.import_group(&path);
                    return;
                }
                TokenKind::Punct(_) => break,
            }
        }
        if path.len() > 1 && path.last().is_some_and(|s| s == "self") {
            path.pop();
        }
        let within = matches!(path.last().map(String::as_str), Some("crate" | "self" | "super"));
        if within {
            path.push("*".into());
        }
        let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
        let naming = if self.is_public { Naming::ReExport(name) } else { Naming::Import(name) };
        self.name(path, line, naming);
    }

    fn import_group(&mut self, prefix: &[String]) {
        while let Some(token) = self.peek(0) {
            if token.is_punct('}') {
                self.at += 1;
                return;
            }
            if token.is_punct(',') {
                self.at += 1;
            } else if matches!(token.kind, TokenKind::Punct(c) if !"{*".contains(c)) {
                return;
            } else {
                self.import_tree(prefix);
            }
        }
    }

    /// `crate::a::b` or `std::fs::read` within code; a lone word is no path.
    fn expression_path(&mut self) {
        let line = self.peek(0).map_or(0, |t| t.line);
        let mut path = Vec::new();
        while let Some(TokenKind::Word(w)) = self.peek(0).map(|t| t.kind.clone()) {
            path.push(w);
            self.at += 1;
            if !self.separator() {
                break;
            }
            self.at += 1;
        }
        if path.len() > 1 {
            self.name(path, line, Naming::Expression);
        }
    }

    /// Notes `path`, with its `self` and `super` resolved.
    fn name(&mut self, mut path: Vec<String>, line: usize, naming: Naming) {
        let Some(first) = path.first().cloned() else { return };
        if first == "self" || first == "super" {
            let mut module = self.module.clone();
            let ups = path.iter().take_while(|s| *s == "self" || *s == "super").count();
            for up in path.drain(..ups) {
                if up == "super" {
                    module.pop();
                }
            }
            path.splice(0..0, module);
            path.insert(0, "crate".into());
        }
        let in_tests = self.in_tests;
        self.out.push(NamedPath { segments: path, line, in_tests, naming });
    }
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
