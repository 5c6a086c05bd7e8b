//! Regular expressions of schemas, in the syntax of Go's RE2.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// Maximum bytes of a compiled program.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of a matcher's cache.
const CACHE_BYTES_MAX: usize = 1 << 20;
/// Maximum number of nested groups.
const NESTING_MAX: u32 = 100;
/// Maximum count of a repetition in RE2.
const REPEAT_MAX: u32 = 1000;

/// Named classes of POSIX.
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];
/// Estimated states of a program of [`PROGRAM_BYTES_MAX`].
const PROGRAM_STATES_MAX: u64 = 40_000;
/// Estimated states of all distinct patterns that one definition may have. Their compilation takes about 100 ns for each.
pub const PATTERN_STATES_MAX: u64 = 1_000_000;

/// A pattern, compiled on first use.
pub struct SchemaPattern {
    source: Box<str>,
    states: OnceLock<u64>,
    compiled: OnceLock<Result<Box<Regex>, Box<str>>>,
}

impl SchemaPattern {
    pub(super) fn new(source: &str) -> SchemaPattern {
        SchemaPattern { source: source.into(), states: OnceLock::new(), compiled: OnceLock::new() }
    }

    /// Pattern as in the schema.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Bound of the steps of a match: the product of the bytes of the text and the states of the pattern. Each takes up
    /// to 10 ns.
    #[must_use]
    pub fn steps(&self, text: &str) -> u64 {
        let states = *self.states.get_or_init(|| pattern_states(&self.source));
        states.saturating_mul(text.len() as u64)
    }

    /// `true` if the pattern occurs in the text.
    ///
    /// # Errors
    /// If the pattern is invalid, or larger than its bound.
    pub fn is_match(&self, text: &str) -> Result<bool, &str> {
        match self.compiled.get_or_init(|| compile(&self.source)) {
            Ok(regex) => Ok(regex.is_match(text)),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for SchemaPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.source)
    }
}

/// Reason for which a pattern is invalid, with the text of Go; `None` if it is valid.
#[must_use]
pub fn pattern_fault(source: &str) -> Option<Box<str>> {
    compile(source).err()
}

/// Estimates the states of the program of a pattern.
#[must_use]
pub fn pattern_states(source: &str) -> u64 {
    let mut translator = Translator::new(source);
    let translated = translator.translate();
    // Other engines accept more than this one.
    translated.map_or(PROGRAM_STATES_MAX, |_| translator.states().min(PROGRAM_STATES_MAX))
}

/// Validates the patterns of a definition. Equal patterns are compiled once.
#[derive(Default)]
pub(super) struct PatternChecks<'s> {
    known: BTreeMap<&'s str, Option<Box<str>>>,
    states: u64,
}

impl<'s> PatternChecks<'s> {
    /// Reason for which a pattern is invalid.
    pub fn fault(&mut self, source: &'s str) -> Option<&str> {
        self.known
            .entry(source)
            .or_insert_with(|| {
                self.states = self.states.saturating_add(pattern_states(source));
                if self.states > PATTERN_STATES_MAX {
                    return Some("the patterns of the schema are too large together".into());
                }
                compile(source).err()
            })
            .as_deref()
    }
}

fn compile(source: &str) -> Result<Box<Regex>, Box<str>> {
    let translated = Translator::new(source).translate()?;
    let mut builder = RegexBuilder::new(&translated);
    builder.size_limit(PROGRAM_BYTES_MAX).dfa_size_limit(CACHE_BYTES_MAX).nest_limit(NESTING_MAX);
    builder.build().map(Box::new).map_err(|error| summarize(&error, source).into())
}

/// One line, in the form of Go's errors.
fn summarize(error: &regex::Error, source: &str) -> String {
    let text = match error {
        regex::Error::CompiledTooBig(_) => "expression too large".to_owned(),
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            let last = last.strip_prefix("error: ").unwrap_or(last);
            if last.starts_with("invalid character class range") || last.starts_with("Unicode property") {
                let part = marked(&text).unwrap_or(source);
                return format!("error parsing regexp: invalid character class range: `{part}`");
            }
            match last {
                "unclosed group" => "missing closing )".to_owned(),
                "unopened group" => "unexpected )".to_owned(),
                other => other.to_owned(),
            }
        }
    };
    format!("error parsing regexp: {text}: `{source}`")
}

/// Part of a pattern that a message of the `regex` crate marks: a line of carets below the pattern.
fn marked(message: &str) -> Option<&str> {
    let mut lines = message.lines().skip(1);
    let (pattern, carets) = (lines.next()?, lines.next()?);
    let start = carets.find('^')?;
    let len = carets[start..].bytes().take_while(|byte| *byte == b'^').count();
    pattern.get(start..start + len)
}

/// Estimated states of a set of nearly all characters, which UTF-8 encodes in up to four bytes.
const ANY_STATES: u64 = 10;
/// Estimated states of a Unicode property.
const PROPERTY_STATES: u64 = 500;

/// Translates RE2 to the syntax of the `regex` crate: Perl classes are ASCII, a brace that begins no repetition is
/// a literal, and classes have no nested sets or set operations.
struct Translator<'s> {
    source: &'s str,
    rest: std::iter::Peekable<std::str::CharIndices<'s>>,
    out: String,
    before: Before,
    /// Estimated states of each open group, innermost last; the first is the whole pattern.
    groups: Vec<u64>,
    /// Estimated states of the last expression.
    last: u64,
}

/// Position relative to what a repetition operator repeats.
#[derive(Clone, Copy)]
enum Before {
    /// Nothing to repeat.
    Start,
    /// An expression.
    Expression,
    /// A repetition, with the position of its operator.
    Repetition(usize),
}

impl<'s> Translator<'s> {
    fn new(source: &'s str) -> Translator<'s> {
        Translator {
            source,
            rest: source.char_indices().peekable(),
            out: String::with_capacity(source.len() + 8),
            before: Before::Start,
            groups: vec![0],
            last: 0,
        }
    }

    /// Estimated states so far.
    fn states(&self) -> u64 {
        self.groups.iter().copied().fold(1, u64::saturating_add)
    }

    /// Adds an expression of so many states.
    fn add_states(&mut self, states: u64) {
        self.last = states;
        self.repeat_last(1);
    }

    /// Adds the states of the last expression again.
    fn repeat_last(&mut self, times: u64) {
        let more = self.last.saturating_mul(times);
        if let Some(group) = self.groups.last_mut() {
            *group = group.saturating_add(more);
        }
    }

    fn translate(&mut self) -> Result<String, Box<str>> {
        while let Some((at, c)) = self.rest.next() {
            let mut before = Before::Expression;
            match c {
                '\\' => self.escape(at)?,
                '[' => {
                    let start = self.out.len();
                    self.class(at)?;
                    self.add_states(class_states(&self.out[start..]));
                }
                '{' if repetition_len(&self.source[at..]).is_some() => before = self.brace(at)?,
                '{' | '}' => {
                    self.out.push('\\');
                    self.out.push(c);
                    self.add_states(1);
                }
                '*' | '+' | '?' => before = self.operator(at, at + 1)?,
                '(' => {
                    before = self.group(at)?;
                    self.groups.push(1);
                }
                ')' => {
                    self.out.push(')');
                    // The end of a group that is not open is an error of the compilation.
                    if self.groups.len() > 1 {
                        let states = self.groups.pop().unwrap_or(0);
                        self.add_states(states);
                    }
                }
                '|' => {
                    self.out.push('|');
                    before = Before::Start;
                }
                other => {
                    self.out.push(other);
                    self.add_states(if other == '.' { ANY_STATES } else { other.len_utf8() as u64 });
                }
            }
            self.before = before;
        }
        Ok(std::mem::take(&mut self.out))
    }

    /// A repetition operator up to `end`, and the `?` that makes it lazy.
    fn operator(&mut self, at: usize, end: usize) -> Result<Before, Box<str>> {
        let lazy = self.rest.next_if(|(_, c)| *c == '?').is_some();
        let end = end + usize::from(lazy);
        let operator = &self.source[at..end];
        match self.before {
            Before::Start => Err(self.fault("missing argument to repetition operator", operator)),
            Before::Repetition(first) => {
                Err(self.fault("invalid nested repetition operator", &self.source[first..end]))
            }
            Before::Expression => {
                self.out.push_str(operator);
                Ok(Before::Repetition(at))
            }
        }
    }

    /// Start of a group, with its flags or name.
    fn group(&mut self, at: usize) -> Result<Before, Box<str>> {
        self.out.push('(');
        if self.rest.next_if(|(_, c)| *c == '?').is_none() {
            return Ok(Before::Start);
        }
        self.out.push('?');
        let text = &self.source[at..];
        if text.starts_with("(?P<") || text.starts_with("(?<") {
            let Some(len) = text.find('>') else { return Err(self.fault("invalid named capture", text)) };
            let name = text[..len].trim_start_matches("(?").trim_start_matches('P').trim_start_matches('<');
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return Err(self.fault("invalid named capture", &text[..=len]));
            }
            self.copy_to(at + len + 1);
            return Ok(Before::Start);
        }
        let (mut is_negative, mut has_flag) = (false, false);
        while let Some((next, c)) = self.rest.next() {
            self.out.push(c);
            match c {
                'i' | 'm' | 's' | 'U' => has_flag = true,
                '-' if !is_negative => (is_negative, has_flag) = (true, false),
                ':' | ')' if !is_negative || has_flag => return Ok(Before::Start),
                _ => {
                    let part = &self.source[at..next + c.len_utf8()];
                    return Err(self.fault("invalid or unsupported Perl syntax", part));
                }
            }
        }
        Err(self.fault("missing closing )", ""))
    }

    /// Copies the source up to a position.
    fn copy_to(&mut self, end: usize) {
        while let Some((_, c)) = self.rest.next_if(|(next, _)| *next < end) {
            self.out.push(c);
        }
    }

    /// An escape outside of a class.
    fn escape(&mut self, at: usize) -> Result<(), Box<str>> {
        let Some((_, c)) = self.rest.next() else {
            return Err(self.fault("trailing backslash at end of expression", ""));
        };
        self.add_states(match c {
            'p' | 'P' => PROPERTY_STATES,
            'D' | 'W' | 'S' => ANY_STATES,
            'Q' => (self.source.len() - at) as u64,
            _ => 1,
        });
        match c {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str("[\\t\\n\\f\\r ]"),
            'S' => self.out.push_str("[^\\t\\n\\f\\r ]"),
            'b' => self.out.push_str("(?-u:\\b)"),
            'Q' => self.quoted(at),
            other => self.plain_escape(at, other)?,
        }
        Ok(())
    }

    /// Text between `\Q` and `\E`.
    fn quoted(&mut self, at: usize) {
        let text = &self.source[at + 2..];
        let (literal, end) = match text.find("\\E") {
            Some(len) => (&text[..len], at + 2 + len + 2),
            None => (text, self.source.len()),
        };
        self.out.push_str(&regex::escape(literal));
        while self.rest.next_if(|(next, _)| *next < end).is_some() {}
    }

    /// An escape that means the same inside and outside of a class.
    fn plain_escape(&mut self, at: usize, c: char) -> Result<(), Box<str>> {
        match c {
            'a' | 'f' | 't' | 'n' | 'r' | 'v' | 'x' | 'p' | 'P' | 'A' | 'z' | 'B' => {
                self.out.push('\\');
                self.out.push(c);
                // A brace after `\x` or `\p` begins its argument.
                if matches!(c, 'x' | 'p' | 'P') && self.rest.peek().is_some_and(|(_, c)| *c == '{') {
                    for (_, c) in self.rest.by_ref() {
                        self.out.push(c);
                        if c == '}' {
                            break;
                        }
                    }
                }
            }
            c if c.is_ascii_alphanumeric() || !c.is_ascii() => {
                let end = at + 1 + c.len_utf8();
                return Err(self.fault("invalid escape sequence", &self.source[at..end]));
            }
            c => self.out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
        Ok(())
    }

    /// A bracketed class.
    fn class(&mut self, at: usize) -> Result<(), Box<str>> {
        self.out.push('[');
        if self.rest.next_if(|(_, c)| *c == '^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        while let Some((next, c)) = self.rest.next() {
            match c {
                ']' if !is_first => {
                    self.out.push(']');
                    return Ok(());
                }
                ']' => self.out.push_str("\\]"),
                '[' if self.source[next..].starts_with("[:") => self.named_class(next)?,
                '\\' => match self.rest.next() {
                    Some((_, 'd')) => self.out.push_str("0-9"),
                    Some((_, 'w')) => self.out.push_str("0-9A-Za-z_"),
                    Some((_, 's')) => self.out.push_str("\\t\\n\\f\\r "),
                    Some((_, 'D')) => self.out.push_str("[^0-9]"),
                    Some((_, 'W')) => self.out.push_str("[^0-9A-Za-z_]"),
                    Some((_, 'S')) => self.out.push_str("[^\\t\\n\\f\\r ]"),
                    Some((_, other)) => self.plain_escape(next, other)?,
                    None => break,
                },
                '-' if self.out.ends_with('-') && !self.out.ends_with("\\-") => self.out.push_str("\\-"),
                '[' | '&' | '~' => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                other => self.out.push(other),
            }
            is_first = false;
        }
        Err(self.fault("missing closing ]", &self.source[at..]))
    }

    /// A class such as `[:alpha:]`; without an end, a literal bracket.
    fn named_class(&mut self, at: usize) -> Result<(), Box<str>> {
        let Some(len) = self.source[at..].find(":]") else {
            self.out.push_str("\\[");
            return Ok(());
        };
        let end = at + len + 2;
        let name = self.source[at + 2..at + len].trim_start_matches('^');
        if !CLASSES.contains(&name) {
            return Err(self.fault("invalid character class range", &self.source[at..end]));
        }
        self.out.push_str(&self.source[at..end]);
        while self.rest.next_if(|(next, _)| *next < end).is_some() {}
        Ok(())
    }

    /// A repetition in braces.
    fn brace(&mut self, at: usize) -> Result<Before, Box<str>> {
        let len = repetition_len(&self.source[at..]).unwrap_or(1);
        let repetition = &self.source[at..at + len];
        let counts = repetition.trim_matches(['{', '}']).split(',').filter(|count| !count.is_empty());
        let counts: Vec<u32> = counts.map(|count| count.parse().unwrap_or(u32::MAX)).collect();
        let times = counts.iter().copied().max().map_or(1, u64::from);
        self.repeat_last(times.saturating_sub(1));
        self.last = self.last.saturating_mul(times.max(1));
        if counts.iter().any(|count| *count > REPEAT_MAX) || !counts.is_sorted() {
            return Err(self.fault("invalid repeat count", repetition));
        }
        while self.rest.next_if(|(next, _)| *next < at + len).is_some() {}
        self.operator(at, at + len)
    }

    fn fault(&self, code: &str, part: &str) -> Box<str> {
        let part = if part.is_empty() { self.source } else { part };
        format!("error parsing regexp: {code}: `{part}`").into()
    }
}

/// States of a class, from its translation.
fn class_states(class: &str) -> u64 {
    if class.contains("\\p") || class.contains("\\P") {
        PROPERTY_STATES
    } else if class.starts_with("[^") || !class.is_ascii() || class.contains("[^") {
        ANY_STATES
    } else {
        1
    }
}

/// Bytes of `{n}`, `{n,}` or `{n,m}` at the start of a text.
fn repetition_len(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('{')?;
    let end = inner.find('}')?;
    let (low, high) = inner[..end].split_once(',').unwrap_or((&inner[..end], ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (!low.is_empty() && is_number(low) && is_number(high)).then_some(end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_re2() {
        for (pattern, text, expected) in [
            (r"^\d+$", "12", true),
            // An Arabic digit: Perl classes are ASCII.
            (r"^\d+$", "\u{661}", false),
            (r"^[\w.-]+$", "a.b-c_1", true),
            (r"^[\w]+$", "\u{e9}", false),
            (r"^[^\s]+$", "a b", false),
            (r"^[\D]+$", "ab", true),
            (r"^.{3}$", "\u{e9}\u{e9}\u{e9}", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^{}$", "{}", true),
            (r"^\{a\}$", "{a}", true),
            (r"^[a[b]+$", "[ab", true),
            (r"^[a&&b]+$", "&a", true),
            (r"^[+--]+$", "+,-", true),
            (r"^[]a]+$", "]a", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\<a\>$", "<a>", true),
            (r"^\/\_\-$", "/_-", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^\p{Greek}+$", "\u{3b1}", true),
            (r"^(?i)ABC$", "abc", true),
            (r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", "a.b-c", true),
            (r"a$", "a\n", false),
            (r"b", "abc", true),
        ] {
            assert_eq!(SchemaPattern::new(pattern).is_match(text), Ok(expected), "{pattern} on {text:?}");
        }
    }

    #[test]
    fn states_are_counted_with_their_repetitions() {
        for (pattern, states) in [
            ("", 1),
            ("abc", 4),
            ("^[a-z]{1,63}$", 66),
            ("(ab){3}", 1 + 9),
            ("((a{1000}){10}){3}", 30_034),
            ("((a{1000}){1000}){1000}", PROGRAM_STATES_MAX),
            (r"\pL[\pL1]", 1002),
            (".[^a]", 21),
            ("a**", PROGRAM_STATES_MAX),
        ] {
            assert_eq!(pattern_states(pattern), states, "{pattern}");
        }
    }

    #[test]
    fn patterns_of_a_definition_have_a_bound_together() {
        let patterns: Vec<String> =
            (0..100).map(|number| format!("{number}((a{{1000}}){{10}}){{3}}")).collect();
        let mut checks = PatternChecks::default();
        let valid = patterns.iter().filter(|pattern| checks.fault(pattern.as_str()).is_none()).count();
        assert_eq!(valid, 33);
        assert_eq!(checks.fault(&patterns[0]), None, "a known pattern is not counted again");
        assert_eq!(checks.fault("a"), Some("the patterns of the schema are too large together"));
    }

    #[test]
    fn invalid_patterns_are_errors() {
        for (pattern, expected) in [
            ("+", "missing argument to repetition operator: `+`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("x[b-a]", "invalid character class range: `b-a`"),
            (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("a(?<!b)", "invalid named capture: `(?<!b)`"),
            ("(?P<a b>c)", "invalid named capture: `(?P<a b>`"),
            ("(?i-)", "invalid or unsupported Perl syntax: `(?i-)`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\", r"trailing backslash at end of expression: `\`"),
            ("((a{1000}){1000}){1000}", "expression too large: `((a{1000}){1000}){1000}`"),
        ] {
            let fault = pattern_fault(pattern).expect(pattern);
            assert_eq!(&*fault, format!("error parsing regexp: {expected}"), "{pattern}");
        }
    }
}
