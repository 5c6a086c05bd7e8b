//! `matches`, `find` and `findAll` with the syntax of RE2.

use regex::{Regex, RegexBuilder};
use setpoint_api::structural::pattern_states;

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::with_pattern("find", find),
    Function::with_pattern("findAll", find_all),
    Function::with_pattern("matches", matches),
];

/// Largest compiled pattern in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Work of a compilation, which can take as long as thousands of simple steps.
const WORK_PER_COMPILATION: usize = 2_000;
/// Pairs of a byte of the text and a state of the pattern in one unit of work. A match takes up to 10 ns for each.
const STEPS_PER_WORK: u64 = 8;
/// Bytes of a text from which on the work of its matches is counted: shorter ones take well below a millisecond for
/// each unit of cost that upstream counts.
const SHORT_TEXT_BYTES: usize = 256;
/// Largest pattern in bytes.
const PATTERN_BYTES_MAX: usize = 10_000;

/// `true` if a pattern of `matches`, `find` or `findAll` is valid.
#[must_use]
pub fn is_valid_pattern(pattern: &str) -> bool {
    compile(pattern).is_ok()
}

/// Compiles a pattern of RE2.
pub(crate) fn compile(pattern: &str) -> Result<Regex, EvalError> {
    let invalid = |reason: &str| EvalError::new(format!("error parsing regexp: {reason}"));
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(invalid("expression too large"));
    }
    let compiled = RegexBuilder::new(&translate(pattern)).size_limit(COMPILED_BYTES_MAX).build();
    compiled.map_err(|error| match error {
        regex::Error::Syntax(text) => {
            if let Some(fault) = setpoint_api::structural::pattern_fault(pattern) {
                return EvalError::new(fault.into_string());
            }
            let reason = text.lines().last().unwrap_or_default();
            invalid(&format!("{}: `{pattern}`", reason.trim_start_matches("error: ")))
        }
        _ => invalid("expression too large"),
    })
}

/// Runs a function with the pattern, which is compiled now unless it is constant.
fn with_pattern<'a, T>(
    call: &mut Call<'_, 'a>,
    context: &str,
    run: impl FnOnce(&Regex, &mut Call<'_, 'a>) -> Result<T, EvalError>,
) -> Result<T, EvalError> {
    let text = call.text(0)?;
    if let Some(pattern) = call.pattern {
        match_work(text, pattern, call)?;
        return run(pattern, call);
    }
    let pattern = call.text(1)?;
    let compiled = match &*call.cache {
        Some((known, compiled)) if **known == *pattern => compiled.clone(),
        _ => {
            call.meter.work(WORK_PER_COMPILATION)?;
            let compiled = compile(pattern).map_err(|error| EvalError::new(format!("{context}{error}")))?;
            *call.cache = Some((pattern.into(), compiled.clone()));
            compiled
        }
    };
    match_work(text, &compiled, call)?;
    run(&compiled, call)
}

/// Counts the work of a match. Most patterns are small, and few texts are long.
fn match_work(text: &str, pattern: &Regex, call: &mut Call<'_, '_>) -> Result<(), EvalError> {
    if text.len() < SHORT_TEXT_BYTES {
        return Ok(());
    }
    let steps = (text.len() as u64).saturating_mul(pattern_states(pattern.as_str()));
    call.meter.work(usize::try_from(steps / STEPS_PER_WORK).unwrap_or(usize::MAX))
}

fn matches<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let text = call.text(0)?;
    with_pattern(call, "", |pattern, _| Ok(Value::Bool(pattern.is_match(text))))
}

fn find<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let text = call.text(0)?;
    with_pattern(call, "Illegal regex: ", |pattern, call| {
        let found = pattern.find(text).map_or("", |found| found.as_str());
        call.meter.allocate(found.len())?;
        Ok(Value::string(found))
    })
}

fn find_all<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let text = call.text(0)?;
    let limit =
        if call.args.len() > 2 { usize::try_from(call.int(2)?).unwrap_or(usize::MAX) } else { usize::MAX };
    with_pattern(call, "Illegal regex: ", |pattern, call| {
        let mut found = Vec::new();
        for part in pattern.find_iter(text).take(limit) {
            call.meter.work(1)?;
            call.meter.allocate(part.len())?;
            found.push(Value::string(part.as_str()));
        }
        Ok(Value::list(found))
    })
}

/// Translates a pattern of RE2: classes such as `\d` are ASCII, brackets and `&&` within a class are literal, and so is
/// a brace that begins no repetition.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        rest = match first {
            '\\' => translate_escape(after, &mut out),
            '[' => translate_class(after, &mut out),
            '{' if !is_repetition(after) => {
                out.push_str("\\{");
                after
            }
            other => {
                out.push(other);
                after
            }
        };
    }
    out
}

fn is_repetition(after: &str) -> bool {
    let Some((bounds, _)) = after.split_once('}') else { return false };
    let (min, max) = bounds.split_once(',').unwrap_or((bounds, ""));
    !min.is_empty() && min.bytes().chain(max.bytes()).all(|byte| byte.is_ascii_digit())
}

/// Translates an escape outside of a class, and returns the text after it.
fn translate_escape<'t>(after: &'t str, out: &mut String) -> &'t str {
    let Some(code) = after.chars().next() else {
        out.push('\\');
        return after;
    };
    let rest = &after[code.len_utf8()..];
    match code {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' => out.push_str("(?-u:\\b)"),
        'Q' => {
            let (quoted, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
            out.push_str(&regex::escape(quoted));
            return rest;
        }
        code if code.is_ascii_punctuation() => out.push_str(&regex::escape(code.encode_utf8(&mut [0; 4]))),
        code => {
            out.push('\\');
            out.push(code);
        }
    }
    rest
}

/// Translates a class after its opening bracket, and returns the text after it.
fn translate_class<'t>(after: &'t str, out: &mut String) -> &'t str {
    out.push('[');
    let mut rest = after;
    if let Some(next) = rest.strip_prefix('^') {
        out.push('^');
        rest = next;
    }
    let mut is_first = true;
    let mut in_range = false;
    while let Some(first) = rest.chars().next() {
        let next = &rest[first.len_utf8()..];
        match first {
            ']' if !is_first => {
                out.push(']');
                return next;
            }
            '[' if next.starts_with(':') && next.contains(":]") => {
                let end = next.find(":]").map_or(0, |end| end + 2);
                out.push('[');
                out.push_str(&next[..end]);
                rest = &next[end..];
            }
            '\\' => rest = translate_class_escape(next, out),
            // A dash between two characters forms a range; any other is literal.
            '-' if !is_first && !in_range && !next.starts_with(']') => {
                out.push('-');
                in_range = true;
                rest = next;
                continue;
            }
            '[' | ']' | '&' | '~' | '-' | '^' => {
                out.push('\\');
                out.push(first);
                rest = next;
            }
            other => {
                out.push(other);
                rest = next;
            }
        }
        is_first = false;
        in_range = false;
    }
    rest
}

fn translate_class_escape<'t>(after: &'t str, out: &mut String) -> &'t str {
    let Some(code) = after.chars().next() else {
        out.push('\\');
        return after;
    };
    match code {
        'd' => out.push_str("0-9"),
        'w' => out.push_str("0-9A-Za-z_"),
        's' => out.push_str("\\t\\n\\f\\r "),
        'D' => out.push_str("[^0-9]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        code => {
            out.push('\\');
            out.push(code);
        }
    }
    &after[code.len_utf8()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_re2() {
        for (pattern, text, expected) in [
            ("^\\d+$", "123", true),
            ("^\\d+$", "\u{0663}", false),
            ("^[\\w.-]+$", "a.b-c_d", true),
            ("^\\w$", "é", false),
            ("[[]", "[", true),
            ("[a&&b]", "&", true),
            ("a{,2}", "a{,2}", true),
            ("^a{2,3}$", "aaa", true),
            ("^[^]a]$", "b", true),
            ("^[[:alpha:]]+$", "abc", true),
            ("\\Qa.b\\E", "a.b", true),
            ("\\Qa.b\\E", "axb", false),
            ("\\bword\\b", "a word here", true),
            ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
            ("^[+--]$", ",", true),
            ("\\/", "/", true),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(text), expected, "{pattern} {text}");
        }
        for pattern in ["(", "[", "(?P<n", "x{1000000}"] {
            assert!(!is_valid_pattern(pattern), "{pattern}");
        }
    }
}
