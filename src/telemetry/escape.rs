//! Values as they stand in a line: numbers, and strings that cannot leave their place.
//!
//! A quoted string is a JSON string in both formats. Besides what JSON demands, everything that a
//! terminal or an editor may take for a new line or a change of direction is escaped.

/// Longer values are cut: what identifies a request is short.
pub(super) const MAX_VALUE: usize = 256;

/// As it is if it is one plain word, else quoted.
pub(super) fn push_word(out: &mut Vec<u8>, value: &str, max: usize) {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./:@+-,;%[]{}~*".contains(byte);
    if !value.is_empty() && value != "-" && value.len() <= max && value.bytes().all(|b| plain(&b)) {
        out.extend_from_slice(value.as_bytes());
    } else {
        push_quoted(out, value, max);
    }
}

/// At most `max` bytes of the value, with `...` after them if there were more.
pub(super) fn push_quoted(out: &mut Vec<u8>, value: &str, max: usize) {
    out.push(b'"');
    let mut end = value.len().min(max);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    let mut plain_from = 0;
    for (at, char) in value[..end].char_indices() {
        if !needs_escape(char) {
            continue;
        }
        out.extend_from_slice(&value.as_bytes()[plain_from..at]);
        push_escape(out, char);
        plain_from = at + char.len_utf8();
    }
    out.extend_from_slice(&value.as_bytes()[plain_from..end]);
    if end < value.len() {
        out.extend_from_slice(b"...");
    }
    out.push(b'"');
}

fn needs_escape(char: char) -> bool {
    matches!(char, '"' | '\\' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{feff}')
        || char.is_control()
}

fn push_escape(out: &mut Vec<u8>, char: char) {
    let short = match char {
        '"' => b'"',
        '\\' => b'\\',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        _ => {
            out.extend_from_slice(b"\\u");
            for shift in [12, 8, 4, 0] {
                let digit = (u32::from(char) >> shift & 0xf) as usize;
                out.push(b"0123456789abcdef"[digit]);
            }
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

pub(super) fn push_number(out: &mut Vec<u8>, value: u64) {
    push_padded(out, value, 1);
}

/// With leading zeros up to `width`.
pub(super) fn push_padded(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while value > 0 {
        first -= 1;
        digits[first] += (value % 10) as u8;
        value /= 10;
    }
    first = first.min(digits.len() - width);
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn strings_cannot_leave_their_place() {
        for (value, word, quoted) in [
            ("plain/v1-2.x", "plain/v1-2.x", r#""plain/v1-2.x""#),
            ("", r#""""#, r#""""#),
            ("-", r#""-""#, r#""-""#),
            ("a b", r#""a b""#, r#""a b""#),
            ("a=b", r#""a=b""#, r#""a=b""#),
            ("a\nstatus=200", r#""a\nstatus=200""#, r#""a\nstatus=200""#),
            (
                "\"\\\r\t\0\x1b\x7f",
                r#""\"\\\r\t\u0000\u001b\u007f""#,
                r#""\"\\\r\t\u0000\u001b\u007f""#,
            ),
            (
                "\u{85}\u{2028}\u{202e}",
                r#""\u0085\u2028\u202e""#,
                r#""\u0085\u2028\u202e""#,
            ),
            ("模型", r#""模型""#, r#""模型""#),
            (
                "0123456789abcdefg",
                r#""0123456789abcdef...""#,
                r#""0123456789abcdef...""#,
            ),
            (
                "0123456789abcd模",
                r#""0123456789abcd...""#,
                r#""0123456789abcd...""#,
            ),
        ] {
            let (mut as_word, mut as_quoted) = (Vec::new(), Vec::new());
            push_word(&mut as_word, value, 16);
            push_quoted(&mut as_quoted, value, 16);
            assert_eq!(String::from_utf8(as_word).unwrap(), word);
            assert_eq!(String::from_utf8(as_quoted).unwrap(), quoted);
        }
    }

    #[test]
    fn numbers_are_written_in_full() {
        for (value, width, expected) in [
            (0, 1, "0"),
            (7, 3, "007"),
            (1234, 3, "1234"),
            (u64::MAX, 1, "18446744073709551615"),
        ] {
            let mut out = Vec::new();
            push_padded(&mut out, value, width);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    proptest! {
        #[test]
        fn any_quoted_string_reads_back_as_json(value in any::<String>()) {
            let mut out = Vec::new();
            push_quoted(&mut out, &value, usize::MAX);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), value);
        }
    }
}
