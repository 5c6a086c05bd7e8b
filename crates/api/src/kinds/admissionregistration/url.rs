//! Validation of the client configuration of a webhook: a URL, or a service.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::check;
use crate::names::{dns, key};
use crate::quote::Quoted;
use crate::value::Value;

const FORM: &str = "; desired format: https://host[/path]";

/// Validates the client configuration.
pub(in crate::kinds) fn check_client_config(errors: &mut ErrorList, path: &Path<'_>, config: &Value) {
    let (address, target) = (check::field(config, "url").as_str(), check::field(config, "service"));
    match (address, target.is_null()) {
        (Some(address), true) => check_url(errors, &path.child("url"), address),
        (None, false) => check_service(errors, &path.child("service"), target),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

/// `true` if a text is an absolute URL with a host.
pub(in crate::kinds) fn has_scheme_and_host(text: &str) -> bool {
    parse(text).is_ok_and(|parts| !parts.scheme.is_empty() && !parts.host.is_empty())
}

/// Parts of a URL that are validated.
struct UrlParts<'a> {
    scheme: String,
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
    fragment: &'a str,
}

fn check_url(errors: &mut ErrorList, path: &Path<'_>, text: &str) {
    let parts = match parse(text) {
        Ok(parts) => parts,
        Err(fault) => {
            let detail = format!("url must be a valid URL: parse {}: {fault}{FORM}", Quoted(text));
            return errors.push(FieldError::required(path, detail));
        }
    };
    let mut reject = |value: &str, detail: String| errors.push(FieldError::invalid(path, value, detail));
    if parts.scheme != "https" {
        reject(&parts.scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if parts.host.is_empty() {
        reject("", format!("host must be specified{FORM}"));
    }
    if let Some(user) = parts.user {
        reject(user, "user information is not permitted in the URL".to_owned());
    }
    if !parts.fragment.is_empty() {
        reject(parts.fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !parts.query.is_empty() {
        reject(parts.query, "query parameters are not permitted in the URL".to_owned());
    }
}

fn parse(text: &str) -> Result<UrlParts<'_>, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let scheme = scheme.to_ascii_lowercase();
    let Some(authority) = rest.strip_prefix("//") else {
        let first = rest.split('/').next().unwrap_or_default();
        if scheme.is_empty() && first.contains(':') {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
        escapes(rest)?;
        return Ok(UrlParts { scheme, user: None, host: "", query, fragment });
    };
    let (authority, rest) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    port(host)?;
    if let Some(odd) =
        host.chars().find(|c| matches!(c, ' ' | '<' | '>' | '"' | '\\' | '^' | '`' | '{' | '|' | '}'))
    {
        return Err(format!("invalid character {} in host name", Quoted(odd.encode_utf8(&mut [0; 4]))));
    }
    escapes(rest)?;
    Ok(UrlParts { scheme, user, host, query, fragment })
}

/// Splits off the scheme before the first colon, if it is valid.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

/// Checks that a port follows the host name.
fn port(host: &str) -> Result<(), String> {
    let after = match host.rsplit_once(']') {
        Some((_, after)) => after,
        None if host.starts_with('[') => return Err("missing ']' in host".to_owned()),
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    let digits = after.strip_prefix(':').unwrap_or(after);
    let good = after.is_empty() || (after.starts_with(':') && digits.bytes().all(|b| b.is_ascii_digit()));
    if good { Ok(()) } else { Err(format!("invalid port {} after host", Quoted(after))) }
}

/// Checks that every percent sign begins an escape.
fn escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let escape: String = text[at..].chars().take(3).collect();
        if escape.len() != 3 || !escape.bytes().skip(1).all(|b| b.is_ascii_hexdigit()) {
            return Err(format!("invalid URL escape {}", Quoted(&escape)));
        }
    }
    Ok(())
}

fn check_service(errors: &mut ErrorList, path: &Path<'_>, service: &Value) {
    // As upstream, a missing namespace is reported at the name and vice versa.
    for (missing, shown) in [("namespace", "name"), ("name", "namespace")] {
        if check::text(service, missing).is_empty() {
            errors.push(FieldError::required(&path.child(shown), ""));
        }
    }
    let port = check::number(service, "port");
    let faults = key::port_number(port);
    if !faults.is_empty() {
        let detail = format!("port is not valid: {}", faults.join(", "));
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    let (text, path) = (check::text(service, "path"), path.child("path"));
    let mut reject = |detail: String| errors.push(FieldError::invalid(&path, text, detail));
    match text {
        "" | "/" => return,
        "//" => return reject("segment[0] may not be empty".to_owned()),
        _ => {}
    }
    let steps = text.strip_prefix('/').unwrap_or_else(|| {
        reject("must start with a '/'".to_owned());
        let mut rest = text.chars();
        rest.next();
        rest.as_str()
    });
    for (i, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            reject(format!("segment[{i}] may not be empty"));
            continue;
        }
        dns::subdomain(step).into_iter().for_each(|fault| reject(format!("segment[{i}]: {fault}")));
    }
}
