//! Escape sequences and formats of `echo -e` and `printf`.

/// Expands escape sequences. Returns `true` if a `\c` ended the output.
pub(super) fn unescape(text: &str) -> (String, bool) {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        if next != '\\' {
            expanded.push(next);
            continue;
        }
        match rest.next() {
            Some('n') => expanded.push('\n'),
            Some('t') => expanded.push('\t'),
            Some('r') => expanded.push('\r'),
            Some('a') => expanded.push('\u{7}'),
            Some('b') => expanded.push('\u{8}'),
            Some('e') => expanded.push('\u{1b}'),
            Some('f') => expanded.push('\u{c}'),
            Some('v') => expanded.push('\u{b}'),
            Some('\\') => expanded.push('\\'),
            Some('c') => return (expanded, true),
            Some('x') => expanded.push(code(&mut rest, 16, 2)),
            Some('0') => expanded.push(code(&mut rest, 8, 3)),
            Some(other) => expanded.extend(['\\', other]),
            None => expanded.push('\\'),
        }
    }
    (expanded, false)
}

/// Parses a character code of at most `digits` digits.
fn code(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, base: u32, digits: usize) -> char {
    let mut code = 0;
    for _ in 0..digits {
        let Some(digit) = rest.peek().and_then(|next| next.to_digit(base)) else { break };
        rest.next();
        code = code * base + digit;
    }
    char::from_u32(code & 0xff).unwrap_or('\0')
}

/// Returns the output of `printf`, which repeats the format until its arguments are used up; `None` if the
/// format is not supported or the output far exceeds `bytes_max`.
pub(super) fn printf(words: &[&str], bytes_max: usize) -> Option<String> {
    let (format, mut arguments) = words.split_first()?;
    let mut output = String::new();
    loop {
        let before = arguments.len();
        let ends_output = format_once(format, &mut arguments, &mut output)?;
        if ends_output || arguments.is_empty() || arguments.len() == before {
            return Some(output);
        }
        if output.len() > bytes_max {
            return None;
        }
    }
}

/// Formats once. Returns `true` if a `\c` ended the output; `None` if the format is not supported.
fn format_once(format: &str, arguments: &mut &[&str], output: &mut String) -> Option<bool> {
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        let (text, ends_output) = unescape(&rest[..at]);
        output.push_str(&text);
        if ends_output {
            return Some(true);
        }
        let specifier = rest[at + 1..].chars().next()?;
        rest = &rest[at + 1 + specifier.len_utf8()..];
        if specifier == '%' {
            output.push('%');
            continue;
        }
        let argument = match arguments.split_first() {
            Some((first, others)) => {
                *arguments = others;
                *first
            }
            None => "",
        };
        match specifier {
            's' => output.push_str(argument),
            'b' => output.push_str(&unescape(argument).0),
            'd' | 'i' | 'u' if argument.is_empty() => output.push('0'),
            'd' | 'i' | 'u' => output.push_str(&argument.trim().parse::<i64>().ok()?.to_string()),
            _ => return None,
        }
    }
    let (text, ends_output) = unescape(rest);
    output.push_str(&text);
    Some(ends_output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_expanded() {
        assert_eq!(unescape(r"a\tb\n\\c\x41\0101\q"), ("a\tb\n\\cAA\\q".to_owned(), false));
        assert_eq!(unescape(r"a\cb"), ("a".to_owned(), true));
    }

    #[test]
    fn printf_repeats_its_format_until_arguments_are_used_up() {
        assert_eq!(printf(&["hello\\n"], 9).as_deref(), Some("hello\n"));
        assert_eq!(printf(&["%s=%d;", "a", "1", "b"], 9).as_deref(), Some("a=1;b=0;"));
        assert_eq!(printf(&["100%%\\n", "x"], 9).as_deref(), Some("100%\n"));
        assert_eq!((printf(&["%5.2f", "1"], 9), printf(&["%"], 9), printf(&[], 9)), (None, None, None));
        assert_eq!(printf(&["12345%s", "a", "b", "c"], 9), None, "more than there is room for");
    }
}
