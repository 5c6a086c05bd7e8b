//! Label keys and values, and other short strings with a format.

use std::borrow::Cow;

use super::{Faults, dns, faults, has_ends_and_middle, max_bytes, max_characters};
use crate::field_error::{ErrorList, FieldError, Path};

/// Maximum bytes of a label value, and of the name part of a label key.
pub const LABEL_BYTES_MAX: usize = 63;
/// Maximum bytes of a port name.
const PORT_NAME_BYTES_MAX: usize = 15;

const LABEL_KEY_FAULT: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_KEY_SLASHES_FAULT: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const LABEL_VALUE_FAULT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY_FAULT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const ENV_RELAXED_FAULT: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const C_IDENTIFIER_FAULT: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
const HEADER_FAULT: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const PERCENT_FAULT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const PATH_FAULT: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

fn is_alphanumeric(b: u8) -> bool {
    b.is_ascii_alphanumeric()
}

fn is_label_middle(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

/// A label key, also called a qualified name: `name` or `example.com/name`.
#[must_use]
pub fn label_key(key: &str) -> Faults {
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((_, name)) if name.contains('/') => return vec![LABEL_KEY_SLASHES_FAULT.into()],
        Some((prefix, name)) => (Some(prefix), name),
    };
    let mut wrong = match prefix {
        None => Faults::new(),
        Some("") => vec![Cow::Borrowed("prefix part must be non-empty")],
        Some(prefix) => {
            let faults = dns::subdomain_in_key(prefix);
            faults.into_iter().map(|fault| format!("prefix part {fault}").into()).collect()
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".into());
    }
    if let Some(too_long) = max_bytes(name.as_bytes(), LABEL_BYTES_MAX) {
        wrong.push(format!("name part {too_long}").into());
    }
    if !has_ends_and_middle(name.as_bytes(), is_alphanumeric, is_label_middle) {
        wrong.push(LABEL_KEY_FAULT.into());
    }
    wrong
}

/// A label value; may be empty.
#[must_use]
pub fn label_value(value: &str) -> Faults {
    let value = value.as_bytes();
    let good = value.is_empty() || has_ends_and_middle(value, is_alphanumeric, is_label_middle);
    faults(max_bytes(value, LABEL_BYTES_MAX), (!good).then_some(LABEL_VALUE_FAULT))
}

/// A key in a ConfigMap or a Secret.
#[must_use]
pub(crate) fn config_key(key: &str) -> Faults {
    let bytes = key.as_bytes();
    let good = !bytes.is_empty() && bytes.iter().all(|b| is_label_middle(*b));
    let too_long = max_characters(bytes, dns::SUBDOMAIN_BYTES_MAX);
    let mut wrong = faults(too_long, (!good).then_some(CONFIG_KEY_FAULT));
    wrong.extend(directory_fault(key));
    wrong
}

/// Name of an environment variable, by the relaxed rule in force: printable ASCII except `=`.
#[must_use]
pub(crate) fn env_name_relaxed(name: &str) -> Faults {
    if name.is_empty() {
        return vec!["environment variable name must be non-empty".into()];
    }
    let good = name.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=');
    faults(None, (!good).then_some(ENV_RELAXED_FAULT))
}

fn directory_fault(text: &str) -> Option<Cow<'static, str>> {
    match text {
        "." => Some("must not be '.'".into()),
        ".." => Some("must not be '..'".into()),
        text if text.starts_with("..") => Some("must not start with '..'".into()),
        _ => None,
    }
}

/// A C identifier.
#[must_use]
pub(crate) fn c_identifier(text: &str) -> Faults {
    let bytes = text.as_bytes();
    let good = bytes.first().is_some_and(|b| !b.is_ascii_digit())
        && bytes.iter().all(|b| *b == b'_' || b.is_ascii_alphanumeric());
    faults(None, (!good).then_some(C_IDENTIFIER_FAULT))
}

/// Name of an HTTP header.
#[must_use]
pub(crate) fn http_header_name(text: &str) -> Faults {
    let good = !text.is_empty() && text.bytes().all(|b| b == b'-' || b.is_ascii_alphanumeric());
    faults(None, (!good).then_some(HEADER_FAULT))
}

/// A percentage: `25%`.
#[must_use]
pub fn percent(text: &str) -> Faults {
    let good = text
        .strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    faults(None, (!good).then_some(PERCENT_FAULT))
}

/// Name of a port (IANA service name): at most 15 lower case letters, digits and single dashes.
#[must_use]
pub(crate) fn port_name(name: &str) -> Faults {
    let bytes = name.as_bytes();
    let mut wrong = faults(max_characters(bytes, PORT_NAME_BYTES_MAX), None);
    let charset = |b: &u8| *b == b'-' || b.is_ascii_lowercase() || b.is_ascii_digit();
    if bytes.is_empty() || !bytes.iter().all(charset) {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !bytes.iter().any(u8::is_ascii_lowercase) {
        wrong.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".into());
    }
    wrong
}

/// Number of a port; 0 is not valid.
#[must_use]
pub(crate) fn port_number(port: i64) -> Faults {
    in_range(port, 1, 65535)
}

/// ID of a Unix user or group.
#[must_use]
pub(crate) fn unix_id(id: i64) -> Faults {
    in_range(id, 0, i64::from(i32::MAX))
}

/// A number in an inclusive range.
#[must_use]
pub(crate) fn in_range(value: i64, min: i64, max: i64) -> Faults {
    if (min..=max).contains(&value) {
        return Faults::new();
    }
    vec![format!("must be between {min} and {max}, inclusive").into()]
}

/// A string that is valid as a path segment.
#[must_use]
pub(crate) fn path_segment(name: &str) -> Faults {
    match name {
        "." => vec!["may not be '.'".into()],
        ".." => vec!["may not be '..'".into()],
        name => path_segment_prefix(name),
    }
}

/// Prefix of a string that is valid as a path segment.
#[must_use]
pub(crate) fn path_segment_prefix(name: &str) -> Faults {
    let slash = name.contains('/').then_some(Cow::Borrowed("may not contain '/'"));
    let percent = name.contains('%').then_some(Cow::Borrowed("may not contain '%'"));
    slash.into_iter().chain(percent).collect()
}

/// A path below a domain: `acme.io/foo`.
pub fn domain_prefixed_path(errors: &mut ErrorList, path: &Path<'_>, text: &str) {
    if text.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let Some((host, rest)) = text.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return errors.push(FieldError::invalid(path, text, detail));
    };
    errors.push_invalid(path, host, dns::subdomain(host));
    if !rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        errors.push(FieldError::invalid(path, rest, PATH_FAULT));
    }
}

/// A label key that must have a prefix, as a field.
pub(crate) fn domain_prefixed_key(errors: &mut ErrorList, path: &Path<'_>, key: &str) {
    if key.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let wrong = label_key(key);
    if wrong.is_empty() && !key.contains('/') {
        let detail = "must be a domain-prefixed key (such as \"acme.io/foo\")";
        return errors.push(FieldError::invalid(path, key, detail));
    }
    errors.push_invalid(path, key, wrong);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_have_an_optional_prefix() {
        for key in ["a", "A.b_c-9", "example.com/Name", "a/b"] {
            assert!(label_key(key).is_empty(), "{key}");
        }
        assert_eq!(label_key("a/b/c"), [LABEL_KEY_SLASHES_FAULT]);
        assert_eq!(label_key("/a"), ["prefix part must be non-empty"]);
        assert_eq!(label_key("a/"), ["name part must be non-empty", LABEL_KEY_FAULT]);
        assert_eq!(label_key("-a"), [LABEL_KEY_FAULT]);
        assert_eq!(label_key(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert!(label_key("A/a")[0].starts_with("prefix part a lowercase RFC 1123 subdomain"));
        let long = format!("{}/a", "a".repeat(254));
        assert_eq!(label_key(&long), ["prefix part must be no more than 253 bytes"]);
    }

    #[test]
    fn label_values_may_be_empty() {
        for value in ["", "a", "A.b_c-9"] {
            assert!(label_value(value).is_empty(), "{value}");
        }
        assert_eq!(label_value("a b"), [LABEL_VALUE_FAULT]);
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }

    #[test]
    fn dot_and_dot_dot_are_rejected_as_keys() {
        assert_eq!(config_key("."), ["must not be '.'"]);
        assert_eq!(config_key(".."), ["must not be '..'"]);
        assert_eq!(config_key("..a"), ["must not start with '..'"]);
        assert!(config_key(".a").is_empty());
        assert_eq!(config_key(""), [CONFIG_KEY_FAULT]);
        assert!(env_name_relaxed("1 a/b").is_empty());
        assert_eq!(env_name_relaxed("a=b"), [ENV_RELAXED_FAULT]);
        assert_eq!(env_name_relaxed(""), ["environment variable name must be non-empty"]);
    }

    #[test]
    fn port_names_report_all_faults() {
        assert!(port_name("http-2").is_empty());
        assert_eq!(port_name("0--0-").len(), 3);
        assert_eq!(port_name("abcdefghijklmnop"), ["must be no more than 15 characters"]);
        assert_eq!(port_name("").len(), 2);
        assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
        assert!(port_number(65535).is_empty());
        assert_eq!(unix_id(-1), ["must be between 0 and 2147483647, inclusive"]);
    }

    #[test]
    fn percent_header_name_c_identifier_and_path_segment_are_validated() {
        assert!(percent("10%").is_empty() && percent("0%").is_empty());
        assert_eq!(percent("%"), [PERCENT_FAULT]);
        assert!(http_header_name("X-1").is_empty());
        assert_eq!(http_header_name("X_1"), [HEADER_FAULT]);
        assert!(c_identifier("_a1").is_empty());
        assert_eq!(c_identifier("1a"), [C_IDENTIFIER_FAULT]);
        assert_eq!(path_segment("a/b%"), ["may not contain '/'", "may not contain '%'"]);
    }

    #[test]
    fn errors_of_prefixed_paths_and_keys_name_the_part() {
        let check = |rule: fn(&mut ErrorList, &Path<'_>, &str), text| {
            let mut errors = ErrorList::new();
            rule(&mut errors, &Path::root("f"), text);
            errors.to_string()
        };
        assert_eq!(check(domain_prefixed_path, "acme.io/foo/b:a"), "[]");
        assert_eq!(
            check(domain_prefixed_path, "acme.io/"),
            "f: Invalid value: \"acme.io/\": must be a domain-prefixed path (such as \"acme.io/foo\")"
        );
        assert_eq!(
            check(domain_prefixed_path, "a/\u{1}"),
            format!("f: Invalid value: \"\\x01\": {PATH_FAULT}")
        );
        assert_eq!(
            check(domain_prefixed_key, "foo"),
            "f: Invalid value: \"foo\": must be a domain-prefixed key (such as \"acme.io/foo\")"
        );
    }
}
