//! Standard string functions and the strings extension of cel-go. Indexes count code points.

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("charAt", char_at, CostRule::Call),
    Function::new("contains", contains, CostRule::Contains),
    Function::new("endsWith", ends_with, CostRule::Affix),
    Function::new("join", join, CostRule::Joined),
    Function::new("lowerAscii", lower_ascii, CostRule::Scan { times: 1 }),
    Function::new("replace", replace, CostRule::Scan { times: 2 }),
    Function::new("split", split, CostRule::Scan { times: 2 }),
    Function::new("startsWith", starts_with, CostRule::Affix),
    Function::new("strings.quote", quote, CostRule::Scan { times: 1 }),
    Function::new("substring", substring, CostRule::Scan { times: 1 }),
    Function::new("trim", trim, CostRule::Scan { times: 1 }),
    Function::new("upperAscii", upper_ascii, CostRule::Scan { times: 1 }),
];

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

/// Returns the byte offset of a code point; the number of code points is the end.
fn byte_offset(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    text.char_indices().map(|(offset, _)| offset).chain([text.len()]).nth(index)
}

fn code_points(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn char_at<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (text, index) = (call.text(0)?, call.int(1)?);
    call.meter.scan(text.len())?;
    let offset = byte_offset(text, index).ok_or_else(|| out_of_range(index))?;
    let character: String = text[offset..].chars().take(1).collect();
    Ok(Value::string(character))
}

fn contains<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Bool(call.text(0)?.contains(call.text(1)?)))
}

fn starts_with<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Bool(call.text(0)?.starts_with(call.text(1)?)))
}

fn ends_with<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Bool(call.text(0)?.ends_with(call.text(1)?)))
}

/// `indexOf` of a string.
pub(super) fn index_of<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (text, part) = (call.text(0)?, call.text(1)?);
    let start = if call.args.len() > 2 { call.int(2)? } else { 0 };
    call.meter.scan(text.len())?;
    if start < 0 {
        return Err(out_of_range(start));
    }
    if part.is_empty() {
        return Ok(Value::Int(start.min(code_points(text))));
    }
    let found = byte_offset(text, start)
        .and_then(|offset| Some(offset + text[offset..].find(part)?))
        .map_or(-1, |offset| code_points(&text[..offset]));
    Ok(Value::Int(found))
}

/// `lastIndexOf` of a string.
pub(super) fn last_index_of<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (text, part) = (call.text(0)?, call.text(1)?);
    call.meter.scan(text.len())?;
    let length = code_points(text);
    let Some(start) = (call.args.len() > 2).then(|| call.int(2)).transpose()? else {
        let found = text.rfind(part).map_or(-1, |offset| code_points(&text[..offset]));
        return Ok(Value::Int(found));
    };
    if start < 0 {
        return Err(out_of_range(start));
    }
    if part.is_empty() {
        return Ok(Value::Int(start.min(length)));
    }
    if start >= length {
        return Ok(Value::Int(-1));
    }
    // A match may begin at `start` at the latest.
    let end = byte_offset(text, start).map_or(text.len(), |offset| (offset + part.len()).min(text.len()));
    let end = text.floor_char_boundary(end);
    let found = text[..end].rfind(part).map_or(-1, |offset| code_points(&text[..offset]));
    Ok(Value::Int(found))
}

fn join<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let separator = if call.args.len() > 1 { call.text(1)? } else { "" };
    let mut joined = String::new();
    for (index, element) in call.list(0)?.iter().enumerate() {
        let element = element?;
        let Value::String(text) = &element else {
            return Err(EvalError::new(format!("join: invalid input: {element}")));
        };
        call.meter.allocate(text.len() + separator.len() + 32)?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Value::string(joined))
}

fn lower_ascii<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let text = call.text(0)?;
    call.meter.allocate(text.len())?;
    Ok(Value::string(text.to_ascii_lowercase()))
}

fn upper_ascii<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let text = call.text(0)?;
    call.meter.allocate(text.len())?;
    Ok(Value::string(text.to_ascii_uppercase()))
}

fn replace<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (text, old, new) = (call.text(0)?, call.text(1)?, call.text(2)?);
    let limit =
        if call.args.len() > 3 { usize::try_from(call.int(3)?).unwrap_or(usize::MAX) } else { usize::MAX };
    let count = text.matches(old).count().min(limit);
    call.meter.allocate(text.len().saturating_add(count.saturating_mul(new.len())))?;
    Ok(Value::string(text.replacen(old, new, limit)))
}

fn split<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (text, separator) = (call.text(0)?, call.text(1)?);
    let limit = if call.args.len() > 2 { usize::try_from(call.int(2)?).ok() } else { None };
    call.meter.work(text.matches(separator).count().min(limit.unwrap_or(usize::MAX)))?;
    call.meter.allocate(text.len())?;
    // Go splits by the empty string after each code point, without empty parts at the ends.
    let parts: Vec<String> = match limit {
        Some(0) => Vec::new(),
        limit if separator.is_empty() => split_characters(text, limit.unwrap_or(usize::MAX)),
        Some(limit) => text.splitn(limit, separator).map(str::to_owned).collect(),
        None => text.split(separator).map(str::to_owned).collect(),
    };
    call.strings(parts.into_iter())
}

fn split_characters(text: &str, limit: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if parts.len() + 1 == limit { rest.len() } else { first.len_utf8() };
        let (part, next) = rest.split_at(length);
        parts.push(part.to_owned());
        rest = next;
    }
    parts
}

fn substring<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (text, start) = (call.text(0)?, call.int(1)?);
    let end = (call.args.len() > 2).then(|| call.int(2)).transpose()?;
    if let Some(end) = end
        && start > end
    {
        return Err(EvalError::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let first = byte_offset(text, start).ok_or_else(|| out_of_range(start))?;
    let last = match end {
        Some(end) => byte_offset(text, end).ok_or_else(|| out_of_range(end))?,
        None => text.len(),
    };
    call.meter.allocate(last - first)?;
    Ok(Value::string(&text[first..last]))
}

fn trim<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let text = call.text(0)?;
    call.meter.allocate(text.len())?;
    Ok(Value::string(text.trim()))
}

/// `reverse` of a string.
pub(super) fn reverse<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let text = call.text(0)?;
    call.meter.allocate(text.len())?;
    Ok(Value::string(text.chars().rev().collect::<String>()))
}

fn quote<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let text = call.text(0)?;
    call.meter.allocate(text.len() * 2)?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(Value::string(quoted))
}
