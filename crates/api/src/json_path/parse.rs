//! Parser of paths.

use super::{Filter, JsonPathError, NESTING_MAX, PathStep, Slice, SliceEnd};
use crate::value::Value;

/// Parses a path at this nesting depth.
pub(super) fn parse(text: &str, depth: usize) -> Result<Vec<PathStep>, JsonPathError> {
    if depth > NESTING_MAX {
        return Err(JsonPathError::Nesting);
    }
    let mut parser = PathParser { rest: text, depth, steps: Vec::new() };
    parser.run()?;
    Ok(parser.steps)
}

struct PathParser<'t> {
    rest: &'t str,
    depth: usize,
    steps: Vec<PathStep>,
}

fn syntax<T>(message: impl Into<String>) -> Result<T, JsonPathError> {
    Err(JsonPathError::Syntax(message.into()))
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

impl<'t> PathParser<'t> {
    fn run(&mut self) -> Result<(), JsonPathError> {
        while let Some(first) = self.rest.chars().next() {
            match first {
                '}' => break,
                '\r' | '\n' => return syntax("unclosed action"),
                ' ' | '@' | '$' => drop(self.take(1)),
                '[' if self.rest.starts_with("[?(") => self.filter()?,
                '[' => self.array()?,
                '"' | '\'' => self.quoted(first)?,
                '.' if self.rest.starts_with("..") => self.recursive()?,
                '.' => {
                    self.take(1);
                    self.field();
                }
                '+' | '-' | '0'..='9' => self.number()?,
                c if c == '_' || c.is_alphanumeric() => self.word(),
                c => {
                    return syntax(format!("unrecognized character in action: U+{:04X} '{c}'", u32::from(c)));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// Takes a field name up to a terminator that is not escaped.
    fn field(&mut self) {
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                chars.next();
            } else if is_terminator(c) {
                end = at;
                break;
            }
        }
        let name = self.take(end);
        self.steps.push(match name {
            "*" => PathStep::Wildcard,
            name => PathStep::Field(name.replace('\\', "")),
        });
    }

    fn recursive(&mut self) -> Result<(), JsonPathError> {
        if matches!(self.steps.last(), Some(PathStep::Recursive)) {
            return syntax("invalid multiple recursive descent");
        }
        self.take(2);
        self.steps.push(PathStep::Recursive);
        if self.rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
            self.field();
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonPathError> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = &self.rest[sign..];
        let end = digits.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(digits.len());
        let text = self.take(sign + end);
        let value = text.parse::<i64>().map(Value::Int).or_else(|_| text.parse::<f64>().map(Value::Float));
        match value {
            Ok(value) => self.steps.push(PathStep::Literal(value)),
            Err(_) => return syntax(format!("cannot parse number {text}")),
        }
        Ok(())
    }

    fn word(&mut self) {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let text = self.take(end);
        self.steps.push(match text {
            "true" => PathStep::Literal(true.into()),
            "false" => PathStep::Literal(false.into()),
            word => PathStep::Word(word.to_owned()),
        });
    }

    fn quoted(&mut self, quote: char) -> Result<(), JsonPathError> {
        let Some(end) = closing_quote(self.rest, quote) else {
            return syntax("unterminated quoted string");
        };
        let text = self.take(end + 1);
        let text = unquote(&text[1..end]);
        self.steps.push(PathStep::Literal(text.into()));
        Ok(())
    }

    /// Takes `[…]` up to the first bracket that closes.
    fn array(&mut self) -> Result<(), JsonPathError> {
        let Some(end) = self.rest.find([']', '\n']).filter(|at| self.rest[*at..].starts_with(']')) else {
            return syntax("unterminated array");
        };
        let text = self.take(end + 1);
        let text = &text[1..end];
        if text.contains(',') {
            let parts =
                text.split(',').map(|part| parse(&format!("[{}]", part.trim_matches(' ')), self.depth + 1));
            self.steps.push(PathStep::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            self.steps.extend(parse(&format!(".{key}"), self.depth + 1)?);
            return Ok(());
        }
        self.steps.push(PathStep::Slice(slice(if text == "*" { ":" } else { text })?));
        Ok(())
    }

    fn filter(&mut self) -> Result<(), JsonPathError> {
        self.take("[?(".len());
        let Some(end) = filter_end(self.rest) else { return syntax("unterminated filter") };
        let text = self.take(end);
        self.take(1);
        if !self.rest.starts_with(']') {
            return syntax("unclosed array expect ]");
        }
        self.take(1);
        let depth = self.depth + 1;
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let split = text.find(is_operator).filter(|at| *at > 0).and_then(|at| {
            let (left, rest) = text.split_at(at);
            let (operator, right) = rest.split_at(rest.find(|c| !is_operator(c))?);
            Some((left, operator, right))
        });
        let filter = match split {
            None => Filter { left: parse(text, depth)?, comparison: None },
            Some((left, operator, right)) => Filter {
                left: parse(left, depth)?,
                comparison: Some((operator.to_owned(), parse(right, depth)?)),
            },
        };
        self.steps.push(PathStep::Filter(Box::new(filter)));
        Ok(())
    }
}

/// Position of the parenthesis that closes a filter: the first one outside of its string.
fn filter_end(text: &str) -> Option<usize> {
    let (mut quote, mut is_closed, mut before) = (None, false, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '\n' => return None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            c if Some(c) == quote && before != '\\' => is_closed = true,
            ')' if quote.is_some() == is_closed => return Some(at),
            _ => {}
        }
        before = c;
    }
    None
}

/// Position of the quote that closes a string, which begins with one.
fn closing_quote(text: &str, quote: char) -> Option<usize> {
    let mut before = quote;
    for (at, c) in text.char_indices().skip(1) {
        if c == '\n' {
            return None;
        }
        if c == quote && before != '\\' {
            return Some(at);
        }
        before = c;
    }
    None
}

/// Replaces the escapes of a string.
fn unquote(text: &str) -> String {
    let (mut out, mut chars) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

/// Parses `start:end:step`.
fn slice(text: &str) -> Result<Slice, JsonPathError> {
    let parts: Vec<&str> = text.split(':').collect();
    let is_number = |part: &&str| part.strip_prefix('-').unwrap_or(part).bytes().all(|b| b.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(is_number) {
        return syntax(format!("invalid array index {text}"));
    }
    let number = |at: usize| match parts.get(at) {
        None | Some(&"") => Ok(None),
        Some(part) => match part.parse::<i64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => syntax(format!("array index {part} is not a number")),
        },
    };
    let end = match (parts.len(), number(1)?) {
        (1, _) => SliceEnd::AfterStart,
        (_, Some(end)) => SliceEnd::At(end),
        (_, None) => SliceEnd::Length,
    };
    Ok(Slice { start: number(0)?.unwrap_or(0), end, step: number(2)? })
}
