//! Field paths of selectable fields and validation rules: `.spec.a` and `.metadata.annotations['a.b/c']`, resolved
//! against a schema.

use std::collections::VecDeque;

use crate::kinds::check;
use crate::structural::Schema;
use crate::value::{Map, Value};

/// A path that the schema has.
pub(super) struct ResolvedPath<'a> {
    /// Canonical form of the path.
    pub path: String,
    /// First step.
    pub root: String,
    /// Schema of the field; `None` if any value is allowed there.
    pub schema: Option<&'a Value>,
}

const NO_FIELD: &str = "does not refer to a valid field";
const ENDS_EARLY: &str = "unexpected end of JSON path";

/// Finds the field that a path names.
pub(super) fn resolve<'a>(
    text: &str,
    schema: &'a Value,
    allows_brackets: bool,
) -> Result<ResolvedPath<'a>, String> {
    let mut found = ResolvedPath { path: String::new(), root: String::new(), schema: Some(schema) };
    for_each_step(text, allows_brackets, |name| step(&mut found, name))?;
    Ok(found)
}

/// Returns the canonical form of the path of a validation rule; `None` if the schema has no such field.
#[must_use]
pub fn normalize(text: &str, schema: &Schema) -> Option<String> {
    let (mut path, mut schema) = (String::new(), Some(schema));
    let walk = for_each_step(text, true, |name| {
        let node = schema.ok_or(NO_FIELD)?;
        if node.properties().len() > 0 {
            schema = Some(node.property(name).ok_or(NO_FIELD)?);
            path.push_str(if path.is_empty() { "" } else { "." });
            path.push_str(name);
        } else if node.additional.is_specified() {
            schema = node.additional.schema();
            path.push_str(&format!("[{name}]"));
        } else {
            return Err(NO_FIELD.to_owned());
        }
        Ok(())
    });
    walk.is_ok().then_some(path)
}

/// Calls `step` with each name of a path.
fn for_each_step(
    text: &str,
    allows_brackets: bool,
    mut step: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), String> {
    let mut tokens = tokens(text);
    while let Some(token) = tokens.pop_front() {
        match token {
            "." => step(tokens.pop_front().ok_or(ENDS_EARLY)?)?,
            "[" if !allows_brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.pop_front().ok_or(ENDS_EARLY)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                step(&unescape(inner)?)?;
                match tokens.pop_front().ok_or(ENDS_EARLY)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(())
}

fn step(found: &mut ResolvedPath<'_>, name: &str) -> Result<(), String> {
    let schema = found.schema.ok_or(NO_FIELD)?;
    let properties = check::field(schema, "properties").as_map().filter(|map: &&Map| !map.is_empty());
    let step = match properties {
        Some(properties) => {
            found.schema = Some(properties.get(name).ok_or(NO_FIELD)?);
            if found.path.is_empty() { name.to_owned() } else { format!(".{name}") }
        }
        None => {
            let others = check::field(schema, "additionalProperties");
            if others.is_null() {
                return Err(NO_FIELD.to_owned());
            }
            found.schema = Some(others).filter(|others| others.as_map().is_some());
            format!("[{name}]")
        }
    };
    if found.path.is_empty() {
        found.root.clone_from(&step);
    }
    found.path.push_str(&step);
    Ok(())
}

/// Splits a path: the delimiters `.`, `[` and `]`, quoted strings, and the text between them.
fn tokens(text: &str) -> VecDeque<&str> {
    let is_delimiter = |c: char| matches!(c, '.' | '[' | ']');
    let (mut tokens, mut rest) = (VecDeque::new(), text);
    while !rest.is_empty() {
        let end = if rest.starts_with(is_delimiter) {
            1
        } else if rest.starts_with('\'') {
            let closes = |at: &usize| !rest[..*at].ends_with('\\');
            let quotes = rest.match_indices('\'').skip(1).map(|(at, _)| at);
            quotes.into_iter().find(closes).map_or(rest.len(), |at| at + 1)
        } else {
            rest.find(is_delimiter).unwrap_or(rest.len())
        };
        tokens.push_back(&rest[..end]);
        rest = &rest[end..];
    }
    tokens
}

fn unescape(text: &str) -> Result<String, String> {
    let (mut out, mut chars) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('a') => '\x07',
            Some('b') => '\x08',
            Some('f') => '\x0c',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\x0b',
            Some(c @ ('\'' | '"' | '\\')) => c,
            _ => return Err("invalid string literal".to_owned()),
        });
    }
    Ok(out)
}
