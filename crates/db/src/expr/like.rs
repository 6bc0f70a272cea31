//! Patterns of `like`: `%` is any run of characters, `_` any one character, and a backslash takes
//! the meaning from `%`, `_` and itself. Before anything else, and at the end, it stands for
//! itself.
//!
//! A pattern is the parts between its `%`. Each is looked for behind the one before, as far left
//! as it is found, the last at the end; no text is gone through again for another try. Parts
//! without `_` are found in linear time. Those with `_` are bounded in length, and all places at which
//! one may stand are followed at once, a bit for each, so that no text is dear.

use std::collections::HashMap;

/// Most characters of a part that has `_` in it.
pub const MAX_WILD_CHARS: usize = 1024;

/// Parts of at most so many characters are tried at each place of a text.
const FEW_CHARS: usize = 8;

/// Characters, or any one where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Wild(Vec<Option<char>>),
}

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikePattern {
    /// At least one; between each two of them is a `%`.
    parts: Vec<Part>,
}

impl LikePattern {
    /// Compiles a pattern; `None` where it would take too long to look for.
    pub fn new(pattern: &str) -> Option<Self> {
        let mut parts = vec![Vec::new()];
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            let part = match c {
                '%' => {
                    parts.push(Vec::new());
                    continue;
                }
                '_' => None,
                '\\' => Some(chars.next_if(|next| matches!(next, '%' | '_' | '\\')).unwrap_or(c)),
                c => Some(c),
            };
            parts.last_mut()?.push(part);
        }
        let parts = parts.into_iter().map(|part| match part.iter().copied().collect() {
            Some(literal) => Some(Part::Literal(literal)),
            None => (part.len() <= MAX_WILD_CHARS).then_some(Part::Wild(part)),
        });
        Some(Self { parts: parts.collect::<Option<_>>()? })
    }

    /// The pattern of all texts that begin with this one.
    pub fn starting_with(prefix: &str) -> Self {
        let parts = [prefix, ""].map(|part| Part::Literal(part.to_owned()));
        Self { parts: parts.into() }
    }

    /// The text that it is equal to, where it has no wildcard.
    pub fn exact(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// What every text that matches begins with; empty where that may be anything.
    pub fn prefix(&self) -> String {
        match self.parts.first() {
            Some(Part::Literal(text)) => text.clone(),
            Some(Part::Wild(part)) => part.iter().map_while(|c| *c).collect(),
            None => String::new(),
        }
    }

    /// Whether it asks for nothing but a [`prefix`](Self::prefix).
    pub fn is_prefix(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Literal(_), Part::Literal(rest)] if rest.is_empty())
    }

    /// Whether a text matches.
    pub fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.parts.split_first() else { return false };
        let Some(length) = first.at_start(text) else { return false };
        let mut left = &text[length..];
        let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
        for part in middle {
            let Some(behind) = part.find(left) else { return false };
            left = &left[behind..];
        }
        last.at_end(left)
    }
}

impl Part {
    /// Bytes that it takes up at the start of a text, where it stands there.
    fn at_start(&self, text: &str) -> Option<usize> {
        match self {
            Self::Literal(literal) => text.starts_with(literal).then_some(literal.len()),
            Self::Wild(part) => {
                let mut chars = text.chars();
                let stands = part.iter().all(|wanted| {
                    chars.next().is_some_and(|found| wanted.is_none_or(|c| c == found))
                });
                stands.then(|| text.len() - chars.as_str().len())
            }
        }
    }

    /// Where the first place ends at which it stands.
    fn find(&self, text: &str) -> Option<usize> {
        match self {
            Self::Literal(literal) => text.find(literal.as_str()).map(|at| at + literal.len()),
            Self::Wild(part) if part.len() > FEW_CHARS && text.len() > part.len() => {
                find_wild(part, text)
            }
            Self::Wild(_) => text
                .char_indices()
                .find_map(|(at, _)| self.at_start(&text[at..]).map(|length| at + length)),
        }
    }

    fn at_end(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => text.ends_with(literal.as_str()),
            Self::Wild(part) => {
                let start = part.len().checked_sub(1);
                let start = start.and_then(|back| text.char_indices().rev().nth(back));
                start.is_some_and(|(at, _)| self.at_start(&text[at..]).is_some())
            }
        }
    }
}

/// Where the first place ends at which the characters stand. Bit `i` of `followed` says that the
/// first `i + 1` of them end at the character that was read last.
fn find_wild(part: &[Option<char>], text: &str) -> Option<usize> {
    let words = part.len().div_ceil(64);
    // At which of its places each character may stand; any other one, at the `_` alone.
    let mut places: HashMap<char, Vec<u64>> = HashMap::new();
    let mut anywhere = vec![0; words];
    for (at, _) in part.iter().enumerate().filter(|(_, c)| c.is_none()) {
        anywhere[at / 64] |= 1u64 << (at % 64);
    }
    for (at, c) in part.iter().enumerate() {
        if let Some(c) = c {
            let of_char = places.entry(*c).or_insert_with(|| anywhere.clone());
            of_char[at / 64] |= 1 << (at % 64);
        }
    }
    let (last, mut followed) = (part.len() - 1, vec![0u64; words]);
    for (at, c) in text.char_indices() {
        let may_stand = places.get(&c).unwrap_or(&anywhere);
        let mut carried = 1;
        for (followed, may_stand) in followed.iter_mut().zip(may_stand) {
            let next = (*followed << 1 | carried) & may_stand;
            carried = *followed >> 63;
            *followed = next;
        }
        if followed[last / 64] >> (last % 64) & 1 == 1 {
            return Some(at + c.len_utf8());
        }
    }
    None
}

#[cfg(test)]
#[path = "like_tests.rs"]
mod tests;
