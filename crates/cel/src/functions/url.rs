//! URLs, split as Go's `net/url` does.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::quote::Quoted;

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::{MapKey, MapValue, Opaque, TextValue, Url, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("getEscapedPath", |call| part(call, |url| &url.escaped_path), CostRule::Call),
    Function::new("getHost", |call| part(call, |url| &url.host), CostRule::Call),
    Function::new("getHostname", |call| part(call, |url| hostname(&url.host)), CostRule::Call),
    Function::new("getPort", |call| part(call, |url| port(&url.host)), CostRule::Call),
    Function::new("getQuery", query, CostRule::Call),
    Function::new("getScheme", |call| part(call, |url| &url.scheme), CostRule::Call),
    Function::new("isURL", is_url, CostRule::Call),
    Function::new("url", url, CostRule::Scan { times: 1 }),
];

fn url<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let text = call.text(0)?;
    call.meter.allocate(text.len() * 2)?;
    let parsed = parse(text).map_err(|reason| {
        let reason = format!("parse {}: {reason}", Quoted(text));
        EvalError::new(format!("URL parse error during conversion from string: {reason}"))
    })?;
    Ok(Value::opaque(Opaque::Url(parsed)))
}

fn is_url<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let text = call.text(0)?;
    call.meter.scan(text.len())?;
    Ok(Value::Bool(parse(text).is_ok()))
}

fn receiver<'c>(call: &Call<'c, '_>) -> Result<&'c Url, EvalError> {
    match call.opaque(0)? {
        Opaque::Url(url) => Ok(url),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn part<'a>(call: &mut Call<'_, 'a>, read: fn(&Url) -> &str) -> Returned<'a> {
    let text = read(receiver(call)?);
    call.meter.allocate(text.len())?;
    Ok(Value::string(text))
}

fn hostname(host: &str) -> &str {
    if let Some(bracketed) = host.strip_prefix('[') {
        return bracketed.split_once(']').map_or(host, |(name, _)| name);
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

fn port(host: &str) -> &str {
    let after = host.rsplit_once(']').map_or(host, |(_, after)| after);
    after.rsplit_once(':').map_or("", |(_, port)| port)
}

fn query<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let query = &receiver(call)?.query;
    call.meter.allocate(query.len())?;
    let mut values: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        call.meter.work(1)?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        // Go drops pairs whose escapes are invalid.
        if let (Some(key), Some(value)) = (unescape(key), unescape(value)) {
            values.entry(key).or_default().push(Value::string(value));
        }
    }
    let entries = values
        .into_iter()
        .map(|(key, values)| (MapKey::String(TextValue::Shared(key.into())), Value::list(values)));
    Ok(Value::Map(MapValue::Owned(Arc::new(entries.collect()))))
}

fn unescape(text: &str) -> Option<String> {
    String::from_utf8(decode(text, true)?).ok()
}

/// Replaces `%xx`, and in queries `+` by a space; `None` for an invalid escape.
fn decode(text: &str, is_query: bool) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'%' => {
                let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                rest = &after[2..];
            }
            b'+' if is_query => bytes.push(b' '),
            other => bytes.push(*other),
        }
    }
    Some(bytes)
}

/// Parses an absolute URL or an absolute path, as `ParseRequestURI` accepts them.
pub(super) fn parse(text: &str) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    if text.is_empty() {
        return Err("empty url".into());
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, _fragment) = rest.split_once('#').map_or((rest, ""), |(rest, fragment)| (rest, fragment));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        if scheme.is_empty() {
            return Err("invalid URI for request".into());
        }
        // An opaque URL such as `mailto:a@b`.
        return Ok(build(text, &scheme, "", "", query));
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() || !after.starts_with('/') => {
            let end = after.find('/').unwrap_or(after.len());
            after.split_at(end)
        }
        _ => ("", rest),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    check_host(host)?;
    if let Some(invalid) = invalid_escape(path) {
        return Err(format!("invalid URL escape {}", Quoted(invalid)));
    }
    Ok(build(text, &scheme, host, path, query))
}

fn build(text: &str, scheme: &str, host: &str, path: &str, query: &str) -> Url {
    Url {
        text: text.into(),
        scheme: scheme.into(),
        host: host.into(),
        escaped_path: escape_path(path).into(),
        query: query.into(),
    }
}

fn split_scheme(text: &str) -> Result<(String, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok((text[..index].to_ascii_lowercase(), &text[index + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn invalid_escape(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let escape = &rest[at..];
        let is_valid =
            escape.as_bytes().get(1..3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        if !is_valid {
            return Some(&escape[..escape.floor_char_boundary(3.min(escape.len()))]);
        }
        rest = &escape[3..];
    }
    None
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(bracketed) => {
            let Some((_, port)) = bracketed.rsplit_once(']') else {
                return Err("missing ']' in host".into());
            };
            port
        }
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {} after host", Quoted(port)));
    }
    if let Some(invalid) = host.chars().find(|character| " \"<>\\^`{|}".contains(*character)) {
        return Err(format!("invalid character {} in host name", Quoted(&invalid.to_string())));
    }
    match invalid_escape(host) {
        Some(invalid) => Err(format!("invalid URL escape {}", Quoted(invalid))),
        None => Ok(()),
    }
}

/// Escapes the characters that a path must not have; existing escapes stay.
fn escape_path(path: &str) -> String {
    use std::fmt::Write as _;
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => escaped.push(char::from(byte)),
            byte if b"-_.~$&+,/:;=@!'()*%[]".contains(&byte) => escaped.push(char::from(byte)),
            byte => write!(escaped, "%{byte:02X}").expect("writing to a String cannot fail"),
        }
    }
    escaped
}
