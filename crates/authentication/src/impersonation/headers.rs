//! Headers that request impersonation.

use http::HeaderMap;
use setpoint_api::Identity;
use setpoint_api::quote::Quoted;
use setpoint_api::status::Status;

use crate::request_header::{HeaderError, add_extra, rest_of, strip_prefixed, text};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// `true` if a request has headers of impersonation.
#[must_use]
pub fn has_headers(headers: &HeaderMap) -> bool {
    let is_extra = |name| rest_of(name, EXTRA_PREFIX).is_some();
    [USER, GROUP, UID].iter().any(|name| headers.contains_key(*name)) || headers.keys().any(is_extra)
}

/// Removes the headers of impersonation.
pub fn strip(headers: &mut HeaderMap) {
    for name in [USER, GROUP, UID] {
        headers.remove(name);
    }
    strip_prefixed(headers, EXTRA_PREFIX);
}

/// Returns the user that the headers request, exactly as they name it; `None` if there are none.
///
/// # Errors
/// 400 if a header is not UTF-8, or the headers name no user.
pub fn wanted_user(headers: &HeaderMap) -> Result<Option<Identity>, Box<Status>> {
    let wanted = read(headers).map_err(|error| Box::new(Status::bad_request(error.to_string())))?;
    if !wanted.user.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == Identity::default() {
        return Ok(None);
    }
    let message = format!("requested {} without impersonating a user name", go_syntax(&wanted));
    Err(Box::new(Status::bad_request(message)))
}

fn read(headers: &HeaderMap) -> Result<Identity, HeaderError> {
    let first = |name: &str| headers.get(name).map_or(Ok(""), |value| text(name, value));
    let mut wanted = Identity::new(first(USER)?, Vec::new());
    wanted.uid = first(UID)?.to_owned();
    for value in headers.get_all(GROUP) {
        wanted.groups.push(text(GROUP, value)?.to_owned());
    }
    add_extra(headers, EXTRA_PREFIX, &mut wanted.extra)?;
    Ok(wanted)
}

/// User in the syntax of Go, as upstream's message shows it.
fn go_syntax(user: &Identity) -> String {
    let list = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| Quoted(text).to_string()).collect();
        format!("[]string{{{}}}", texts.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let fields = user.extra.iter().map(|(key, values)| format!("{}:{}", Quoted(key), list(values)));
        format!("map[string][]string{{{}}}", fields.collect::<Vec<_>>().join(", "))
    };
    let (name, uid) = (Quoted(&user.user), Quoted(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}
