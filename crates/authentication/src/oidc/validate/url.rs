//! URLs of issuers.

use setpoint_api::field_error::{ErrorList, FieldError, Path};
use setpoint_api::quote::Quoted;

/// Parts of a URL that the rules are about.
struct Parts<'a> {
    scheme: &'a str,
    has_user: bool,
    has_query: bool,
    has_fragment: bool,
}

/// Splits a URL, with the errors of Go's parser.
fn split(url: &str) -> Result<Parts<'_>, String> {
    let failed = |why: &str| format!("parse {}: {why}", Quoted(url));
    if url.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err(failed("net/url: invalid control character in URL"));
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let is_scheme_char = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let (scheme, rest) = match rest.split_once(':') {
        Some(("", _)) => return Err(failed("missing protocol scheme")),
        Some((scheme, after))
            if scheme.bytes().all(is_scheme_char) && scheme.as_bytes()[0].is_ascii_alphabetic() =>
        {
            (scheme, after)
        }
        Some((first, _)) if !first.contains('/') => {
            return Err(failed("first path segment in URL cannot contain colon"));
        }
        _ => ("", rest),
    };
    let authority = rest.strip_prefix("//").map(|rest| rest.split('/').next().unwrap_or_default());
    let authority = authority.unwrap_or_default();
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let after_bracket = host.rsplit_once(']').map_or(host, |(_, after)| after);
    if let Some((_, port)) = after_bracket.split_once(':')
        && !port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(failed(&format!("invalid port {} after host", Quoted(&format!(":{port}")))));
    }
    if host.contains(' ') {
        return Err(failed("invalid character \" \" in host name"));
    }
    Ok(Parts {
        scheme,
        has_user: user.is_some(),
        has_query: !query.is_empty(),
        has_fragment: !fragment.is_empty(),
    })
}

/// Checks the URL of an issuer.
pub(super) fn check_url(url: &str, disallowed: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    if disallowed.iter().any(|one| one == url) {
        let mut disallowed = disallowed.to_vec();
        disallowed.sort_unstable();
        let why = format!("URL must not overlap with disallowed issuers: [{}]", disallowed.join(" "));
        errors.push(FieldError::invalid(path, url, why));
    }
    let parts = match split(url) {
        Ok(parts) => parts,
        Err(why) => return errors.push(FieldError::invalid(path, url, why)),
    };
    let faults = [
        (!parts.scheme.eq_ignore_ascii_case("https"), "URL scheme must be https"),
        (parts.has_user, "URL must not contain a username or password"),
        (parts.has_query, "URL must not contain a query"),
        (parts.has_fragment, "URL must not contain a fragment"),
    ];
    for (is_fault, why) in faults {
        if is_fault {
            errors.push(FieldError::invalid(path, url, why));
        }
    }
}
