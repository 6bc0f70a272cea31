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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        LikePattern::new(pattern).unwrap().matches(text)
    }

    #[test]
    fn wildcards_stand_anywhere() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("abc", "abc", true),
            ("abc", "ABC", false),
            ("a%", "abc", true),
            ("a%", "bac", false),
            ("%c", "abc", true),
            ("%b%", "abc", true),
            ("%b%", "ac", false),
            ("a%c", "ac", true),
            ("a%c", "abcb", false),
            ("ab%ba", "aba", false),
            ("a_c", "äbc", false),
            ("_bc", "äbc", true),
            ("_", "", false),
            ("__", "ä", false),
            ("%_", "ä", true),
            ("%a_%", "bab", true),
            ("%a_", "ba", false),
            ("%", "", true),
            ("%%", "x", true),
            ("a%b%c", "a-b-b-c", true),
            (r"100\%", "100%", true),
            (r"100\%", "1000", false),
            (r"a\_b", "axb", false),
            (r"a\\b", r"a\b", true),
            (r"a\b", r"a\b", true),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{text:?} like {pattern:?}");
        }
    }

    #[test]
    fn what_an_index_can_use_is_known() {
        let of = |pattern| LikePattern::new(pattern).unwrap();
        assert_eq!(of("a%").prefix(), "a");
        assert!(of("a%").is_prefix() && !of("a%b").is_prefix() && !of("a").is_prefix());
        assert_eq!(of("ab_c%").prefix(), "ab");
        assert_eq!(of("%a").prefix(), "");
        assert_eq!((of(r"a\%").exact(), of("a%").exact()), (Some("a%"), None));
        assert_eq!(LikePattern::starting_with("a%"), of(r"a\%%"));
    }

    #[test]
    fn patterns_made_to_blow_up_do_not() {
        let text = "a".repeat(65_000);
        assert!(!matches(&format!("{}b", "%a".repeat(30_000)), &text));
        assert!(!matches(&format!("%{}b%", "a".repeat(30_000)), &text));
        assert!(!matches(&format!("%_{}b%", "a".repeat(1000)), &text));
        assert_eq!(LikePattern::new(&"_".repeat(MAX_WILD_CHARS + 1)), None);
    }

    /// By trying every length for each `%`.
    fn slowly(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|skipped| slowly(rest, &text[skipped..])),
            ['_', rest @ ..] => !text.is_empty() && slowly(rest, &text[1..]),
            [c, rest @ ..] => text.first() == Some(c) && slowly(rest, &text[1..]),
        }
    }

    #[test]
    fn long_parts_with_wildcards_are_found_where_they_stand_first() {
        let text: String = ('a'..='z').cycle().take(1000).collect();
        for (from, length) in [(0, 9), (3, 64), (5, 65), (100, 130), (700, 300), (0, 999)] {
            let part: String = text[from..from + length].to_owned();
            let wild: String =
                part.chars().enumerate().map(|(i, c)| if i % 3 == 1 { '_' } else { c }).collect();
            let chars: Vec<_> = wild.chars().map(|c| (c != '_').then_some(c)).collect();
            assert_eq!(find_wild(&chars, &text), Some(from % 26 + length), "{wild}");
            assert!(matches(&format!("%{wild}%"), &text), "{wild}");
            assert!(!matches(&format!("%{wild}ä%"), &text), "{wild}");
        }
    }

    #[test]
    fn a_text_costs_the_same_whatever_the_pattern() {
        // By trying each place this would compare a thousand characters at each of 400,000.
        let text = "a".repeat(400_000);
        let pattern = LikePattern::new(&format!("%{}b%", "_a".repeat(500))).unwrap();
        for _ in 0..20 {
            assert!(!pattern.matches(&text));
        }
    }

    proptest! {
        #[test]
        fn long_wild_parts_agree_with_trying_each_place(
            part in "[ab_]{9,90}", text in "[ab]{0,300}",
        ) {
            let chars: Vec<_> = part.chars().map(|c| (c != '_').then_some(c)).collect();
            let wild = Part::Wild(chars.clone());
            let slowly = text
                .char_indices()
                .find_map(|(at, _)| wild.at_start(&text[at..]).map(|length| at + length));
            prop_assert_eq!(find_wild(&chars, &text), slowly);
        }

        #[test]
        fn agrees_with_trying_everything(pattern in "[abä%_]{0,8}", text in "[abä]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = slowly(&chars(&pattern), &chars(&text));
            prop_assert_eq!(matches(&pattern, &text), expected, "{:?} like {:?}", text, pattern);
        }
    }
}
