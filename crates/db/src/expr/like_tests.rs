//! Patterns beside a matcher that tries everything.

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
