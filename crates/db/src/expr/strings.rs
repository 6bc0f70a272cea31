//! Texts in quotes, and the other way round.
//!
//! Escapes are those of C, and `\uXXXX`, `\UXXXXXXXX`. A backslash before anything else stays,
//! so that a like pattern may say `\%` as well as `\\%`.

use super::error::FilterFault;

/// How backslashes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    Escaped,
    Raw,
}

type FilterFailure = (FilterFault, usize);

/// The text at the front of `quoted`, which begins with a quote, and the bytes that it takes up
/// with its quotes; else the fault and its offset.
pub(super) fn unquote(quoted: &str, quoting: Quoting) -> Result<(String, usize), FilterFailure> {
    let mut chars = quoted.char_indices();
    let quote = chars.next().map_or('"', |(_, quote)| quote);
    let mut text = Vec::new();
    while let Some((at, found)) = chars.next() {
        if found == quote {
            let text = String::from_utf8(text)
                .map_err(|_| escape("the bytes of \\x and octal escapes are not UTF-8", 0))?;
            return Ok((text, at + quote.len_utf8()));
        }
        if found != '\\' {
            text.extend(found.encode_utf8(&mut [0; 4]).bytes());
            continue;
        }
        if quoting == Quoting::Raw {
            text.push(b'\\');
            // As in Python: a quote behind a backslash does not end the text, and both stay.
            if let Some((_, next)) = chars.next() {
                text.extend(next.encode_utf8(&mut [0; 4]).bytes());
            }
            continue;
        }
        let rest = chars.as_str();
        let used = unescape(rest, &mut text).map_err(|why| escape(why, at))?;
        for _ in 0..used {
            chars.next();
        }
    }
    Err((FilterFault::Unterminated { quote }, 0))
}

fn escape(why: &'static str, at: usize) -> FilterFailure {
    (FilterFault::Escape { why }, at)
}

/// Appends what the escape stands for whose characters behind the backslash begin `rest`, and
/// returns how many characters it has.
fn unescape(rest: &str, text: &mut Vec<u8>) -> Result<usize, &'static str> {
    let Some(first) = rest.chars().next() else { return Ok(0) };
    let simple = match first {
        '\\' | '\'' | '"' | '?' => Some(first as u8),
        'n' => Some(b'\n'),
        't' => Some(b'\t'),
        'r' => Some(b'\r'),
        'a' => Some(7),
        'b' => Some(8),
        'f' => Some(12),
        'v' => Some(11),
        _ => None,
    };
    if let Some(byte) = simple {
        text.push(byte);
        return Ok(1);
    }
    match first {
        'x' => {
            let value = digits(&rest[1..], 2, 2, 16).ok_or("\\x is followed by two digits")?;
            text.push(u8::try_from(value).map_err(|_| "\\x is followed by two digits")?);
            Ok(3)
        }
        'u' => unicode(rest, 4, text).ok_or("\\u is followed by the four digits of a character"),
        'U' => unicode(rest, 8, text).ok_or("\\U is followed by the eight digits of a character"),
        '0'..='7' => {
            let length = rest.bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
            let value = digits(rest, length, length, 8).ok_or("an octal escape has digits")?;
            text.push(u8::try_from(value).map_err(|_| "an octal escape goes up to \\377")?);
            Ok(length)
        }
        other => {
            text.push(b'\\');
            text.extend(other.encode_utf8(&mut [0; 4]).bytes());
            Ok(1)
        }
    }
}

fn digits(rest: &str, least: usize, most: usize, radix: u32) -> Option<u32> {
    let length = rest.chars().take(most).take_while(|c| c.is_digit(radix)).count();
    (length >= least).then(|| u32::from_str_radix(&rest[..length], radix).ok())?
}

fn unicode(rest: &str, length: usize, text: &mut Vec<u8>) -> Option<usize> {
    let found = char::from_u32(digits(&rest[1..], length, length, 16)?)?;
    text.extend(found.encode_utf8(&mut [0; 4]).bytes());
    Some(1 + length)
}

/// The text in quotes.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push_str(&format!("\\U{:08x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_read() {
        for (quoted, text) in [
            (r#""a b""#, "a b"),
            (r#"'it\'s'"#, "it's"),
            (r#""\\\"\n\t\r""#, "\\\"\n\t\r"),
            (r#""\x41\101\0""#, "AA\0"),
            (r#""\u00e4\U0001F600""#, "ä😀"),
            (r#""\xc3\xa4""#, "ä"),
            (r"'a\%b'", "a\\%b"),
            (r"'a\\%b'", "a\\%b"),
            ("'ä'", "ä"),
            ("''", ""),
        ] {
            assert_eq!(
                unquote(quoted, Quoting::Escaped),
                Ok((text.into(), quoted.len())),
                "{quoted}"
            );
        }
        assert_eq!(unquote(r"'a\n\'b' x", Quoting::Raw), Ok((r"a\n\'b".into(), 8)));
    }

    #[test]
    fn faults_are_where_they_begin() {
        for (quoted, at) in [
            ("'abc", 0),
            ("'a\\", 0),
            (r"'ab\x4'", 3),
            (r"'\ud800'", 1),
            (r"'\xff'", 0),
            (r"'a\777'", 2),
        ] {
            let found = unquote(quoted, Quoting::Escaped);
            assert_eq!(found.as_ref().err().map(|(_, at)| *at), Some(at), "{quoted}: {found:?}");
        }
    }

    proptest! {
        #[test]
        fn quoting_comes_back(text in any::<String>()) {
            let quoted = quote(&text);
            prop_assert_eq!(unquote(&quoted, Quoting::Escaped), Ok((text, quoted.len())));
        }
    }
}
