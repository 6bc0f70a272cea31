//! Digits to numbers: decimal, octal (0..), hexadecimal (0x..), binary (0b..), and decimal or
//! hexadecimal fractions with an exponent.

use super::token::Token;

const TOO_LARGE: &str = "the integer does not fit 64 bits";

/// The number at the front of `rest`, which begins with a digit or with a point and a digit, and
/// the bytes that belong to it, also to what is none.
pub(super) fn numeral(rest: &str) -> (Result<Token<'static>, &'static str>, usize) {
    let bytes = rest.as_bytes();
    let hexadecimal = matches!(bytes, [b'0', b'x' | b'X', ..]);
    let mut end = 0;
    while let Some(&byte) = bytes.get(end) {
        let in_exponent = end > 0 && {
            let before = bytes[end - 1].to_ascii_lowercase();
            if hexadecimal { before == b'p' } else { before == b'e' }
        };
        let belongs = byte.is_ascii_alphanumeric()
            || byte == b'_'
            || byte == b'.'
            || (matches!(byte, b'+' | b'-') && in_exponent);
        if !belongs {
            break;
        }
        end += 1;
    }
    (number(&rest[..end]), end)
}

fn number(word: &str) -> Result<Token<'static>, &'static str> {
    let lower = word.to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0x") {
        if digits.contains(['.', 'p']) {
            return hexadecimal_float(digits).map(Token::Float);
        }
        return integer(digits, 16);
    }
    if let Some(digits) = lower.strip_prefix("0b") {
        return integer(digits, 2);
    }
    if lower.contains(['.', 'e']) {
        let plain = lower.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'+' | b'-'));
        let value = lower.parse::<f64>().ok().filter(|_| plain);
        let value = value.ok_or("these characters are no number")?;
        return match value.is_finite() {
            true => Ok(Token::Float(value)),
            false => Err("the number does not fit a double"),
        };
    }
    if let Some(digits) = lower.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        return integer(digits, 8);
    }
    integer(&lower, 10)
}

fn integer(digits: &str, radix: u32) -> Result<Token<'static>, &'static str> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(match radix {
            8 => "a number that begins with 0 is octal, and has digits 0 to 7",
            _ => "these characters are no number",
        });
    }
    u64::from_str_radix(digits, radix).map(Token::Integer).map_err(|_| TOO_LARGE)
}

/// Digits, a point, a binary exponent: `1.8p3`.
fn hexadecimal_float(text: &str) -> Result<f64, &'static str> {
    const WRONG: &str = "a hexadecimal fraction is written as 0x1.8p3";
    const MOST_DIGITS: usize = 13;
    let (digits, exponent) = text.split_once('p').ok_or(WRONG)?;
    let exponent: i32 = exponent.parse().map_err(|_| WRONG)?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || all.len() > MOST_DIGITS || !all.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(WRONG);
    }
    // At most 52 bits, so exact.
    let mantissa = u64::from_str_radix(&all, 16).map_err(|_| WRONG)? as f64;
    let places = i32::try_from(4 * fraction.len()).map_err(|_| WRONG)?;
    let value = mantissa * 2f64.powi(exponent.saturating_sub(places));
    if value.is_finite() { Ok(value) } else { Err("the number does not fit a double") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_base_are_read() {
        for (text, value) in [
            ("0", 0),
            ("42", 42),
            ("017", 15),
            ("0x1F", 31),
            ("0XfF", 255),
            ("0b101", 5),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(numeral(text), (Ok(Token::Integer(value)), text.len()), "{text}");
        }
    }

    #[test]
    fn fractions_are_read() {
        for (text, value) in [
            ("1.5", 1.5),
            ("1.", 1.0),
            (".5", 0.5),
            ("1e3", 1000.0),
            ("1E-3", 0.001),
            ("2.5e+2", 250.0),
            ("0.5", 0.5),
            ("0x1.8p3", 12.0),
            ("0xAp-1", 5.0),
        ] {
            assert_eq!(numeral(text), (Ok(Token::Float(value)), text.len()), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused_as_a_whole() {
        for text in [
            "1abc",
            "09",
            "0x",
            "0b2",
            "1.2.3",
            "1e",
            "1e999",
            "18446744073709551616",
            "1_000",
            "0x1.8",
        ] {
            let (found, bytes) = numeral(text);
            assert!(found.is_err(), "{text} gave {found:?}");
            assert_eq!(bytes, text.len(), "{text}");
        }
        assert_eq!(numeral("1-2").1, 1);
        assert_eq!(numeral("0xe-1"), (Ok(Token::Integer(14)), 3));
    }
}
