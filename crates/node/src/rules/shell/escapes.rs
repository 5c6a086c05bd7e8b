//! Escape sequences and formats of `echo -e` and `printf`.

/// Expands escape sequences. Returns `true` if a `\c` ended the output.
pub(super) fn unescape(text: &str) -> (String, bool) {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        if next != '\\' {
            plain.push(next);
            continue;
        }
        match rest.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('a') => plain.push('\u{7}'),
            Some('b') => plain.push('\u{8}'),
            Some('e') => plain.push('\u{1b}'),
            Some('f') => plain.push('\u{c}'),
            Some('v') => plain.push('\u{b}'),
            Some('\\') => plain.push('\\'),
            Some('c') => return (plain, true),
            Some('x') => plain.push(code(&mut rest, 16, 2)),
            Some('0') => plain.push(code(&mut rest, 8, 3)),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    (plain, false)
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
    let mut said = String::new();
    loop {
        let before = arguments.len();
        let is_over = once(format, &mut arguments, &mut said)?;
        if is_over || arguments.is_empty() || arguments.len() == before {
            return Some(said);
        }
        if said.len() > bytes_max {
            return None;
        }
    }
}

/// Formats once. Returns `true` if a `\c` ended the output; `None` if the format is not supported.
fn once(format: &str, arguments: &mut &[&str], said: &mut String) -> Option<bool> {
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        let (text, is_over) = unescape(&rest[..at]);
        said.push_str(&text);
        if is_over {
            return Some(true);
        }
        let sort = rest[at + 1..].chars().next()?;
        rest = &rest[at + 1 + sort.len_utf8()..];
        if sort == '%' {
            said.push('%');
            continue;
        }
        let argument = match arguments.split_first() {
            Some((first, others)) => {
                *arguments = others;
                *first
            }
            None => "",
        };
        match sort {
            's' => said.push_str(argument),
            'b' => said.push_str(&unescape(argument).0),
            'd' | 'i' | 'u' if argument.is_empty() => said.push('0'),
            'd' | 'i' | 'u' => said.push_str(&argument.trim().parse::<i64>().ok()?.to_string()),
            _ => return None,
        }
    }
    let (text, is_over) = unescape(rest);
    said.push_str(&text);
    Some(is_over)
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
