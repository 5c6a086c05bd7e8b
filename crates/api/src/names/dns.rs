//! DNS labels and subdomains.

use std::borrow::Cow;

use super::{Faults, faults, has_ends_and_middle, max_bytes, max_characters};
use crate::field_error::{ErrorList, FieldError, Path};

/// Maximum bytes of a DNS label.
pub const LABEL_BYTES_MAX: usize = 63;
/// Maximum bytes of a DNS subdomain.
pub const SUBDOMAIN_BYTES_MAX: usize = 253;

const LABEL_FAULT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_FAULT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SUBDOMAIN_UNDERSCORE_FAULT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const SUBDOMAIN_CASELESS_FAULT: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035_FAULT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const WILDCARD_FAULT: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// A DNS label: `web-1`.
#[must_use]
pub fn label(text: &str) -> Faults {
    label_bytes(text.as_bytes())
}

pub(super) fn label_bytes(text: &[u8]) -> Faults {
    let malformed = match (is_label(text), is_subdomain(text)) {
        (true, _) => None,
        (false, true) => Some("must not contain dots"),
        (false, false) => Some(LABEL_FAULT),
    };
    faults(max_characters(text, LABEL_BYTES_MAX), malformed)
}

/// A DNS subdomain: `web-1.example.com`.
#[must_use]
pub fn subdomain(text: &str) -> Faults {
    subdomain_bytes(text.as_bytes())
}

pub(super) fn subdomain_bytes(text: &[u8]) -> Faults {
    faults(max_characters(text, SUBDOMAIN_BYTES_MAX), (!is_subdomain(text)).then_some(SUBDOMAIN_FAULT))
}

/// A DNS subdomain as the prefix of a label key, for which the length has another message.
pub(super) fn subdomain_in_key(text: &str) -> Faults {
    let text = text.as_bytes();
    faults(max_bytes(text, SUBDOMAIN_BYTES_MAX), (!is_subdomain(text)).then_some(SUBDOMAIN_FAULT))
}

/// A DNS subdomain whose labels may contain underscores, as in `_tcp.example.com`.
#[must_use]
pub(crate) fn subdomain_with_underscore(text: &str) -> Faults {
    let text = text.as_bytes();
    let good = text.split(|b| *b == b'.').all(|label| {
        has_ends_and_middle(label.strip_prefix(b"_").unwrap_or(label), is_lower_alphanumeric, |b| {
            b == b'-' || b == b'_' || is_lower_alphanumeric(b)
        })
    });
    faults(max_characters(text, SUBDOMAIN_BYTES_MAX), (!good).then_some(SUBDOMAIN_UNDERSCORE_FAULT))
}

/// A case-insensitive DNS subdomain: names of CSI drivers.
#[must_use]
pub(crate) fn subdomain_caseless(text: &str) -> Faults {
    // Two characters outside ASCII have `s` and `k` as their lower case; upstream accepts them.
    let folded: Cow<'_, str> = if text.is_ascii() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.replace('\u{17f}', "s").replace('\u{212a}', "k"))
    };
    let good = folded.as_bytes().split(|b| *b == b'.').all(|label| {
        has_ends_and_middle(label, |b| b.is_ascii_alphanumeric(), |b| b == b'-' || b.is_ascii_alphanumeric())
    });
    faults(max_bytes(text.as_bytes(), SUBDOMAIN_BYTES_MAX), (!good).then_some(SUBDOMAIN_CASELESS_FAULT))
}

/// A DNS label that begins with a letter.
#[must_use]
pub(crate) fn label_1035(text: &str) -> Faults {
    label_1035_bytes(text.as_bytes())
}

pub(super) fn label_1035_bytes(text: &[u8]) -> Faults {
    let good = is_label(text) && text[0].is_ascii_lowercase();
    faults(max_characters(text, LABEL_BYTES_MAX), (!good).then_some(LABEL_1035_FAULT))
}

/// A DNS subdomain after `*.`.
#[must_use]
pub(crate) fn wildcard_subdomain(text: &str) -> Faults {
    let text = text.as_bytes();
    let good = text.strip_prefix(b"*.").is_some_and(is_subdomain);
    faults(max_characters(text, SUBDOMAIN_BYTES_MAX), (!good).then_some(WILDCARD_FAULT))
}

/// A domain of at least three labels.
pub(crate) fn fully_qualified_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let wrong = subdomain(name);
    if !wrong.is_empty() {
        return errors.push(FieldError::invalid(path, name, wrong.join(",")));
    }
    if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

/// A domain of at least two labels, which may end in a dot.
pub(crate) fn fully_qualified_domain_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong = subdomain(name);
    if !wrong.is_empty() {
        return errors.push(FieldError::invalid(path, name, wrong.join(",")));
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return errors.push(FieldError::invalid(path, name, detail));
    }
    for part in name.split('.') {
        let wrong = label(part);
        if !wrong.is_empty() {
            return errors.push(FieldError::invalid(path, part, wrong.join(",")));
        }
    }
}

fn is_lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn is_label(text: &[u8]) -> bool {
    has_ends_and_middle(text, is_lower_alphanumeric, |b| b == b'-' || is_lower_alphanumeric(b))
}

fn is_subdomain(text: &[u8]) -> bool {
    text.split(|b| *b == b'.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_have_no_faults() {
        for name in ["a", "0", "web-1", "a--b"] {
            assert!(label(name).is_empty() && subdomain(name).is_empty(), "{name}");
        }
        assert!(subdomain("a.b-c.0").is_empty());
        assert!(label_1035("a-0").is_empty());
        assert!(wildcard_subdomain("*.a.b").is_empty());
        assert!(subdomain_with_underscore("_a._b_c.d").is_empty());
        assert!(subdomain_caseless("Example.COM").is_empty());
        assert!(label(&"a".repeat(63)).is_empty());
        assert!(subdomain(&"a".repeat(253)).is_empty());
    }

    #[test]
    fn malformed_names_are_rejected() {
        for name in ["", "-a", "a-", "A", "a_b", "a b", "é", ".", "a.", ".a", "a..b", "a.-b", "a\n"] {
            assert_eq!(subdomain(name), [SUBDOMAIN_FAULT], "{name}");
            assert_eq!(label(name), [LABEL_FAULT], "{name}");
        }
        assert_eq!(label_1035("0a"), [LABEL_1035_FAULT]);
        assert_eq!(label_1035("a.b"), [LABEL_1035_FAULT]);
        for name in ["*", "*.", "a.b", "*a.b", "*.*.b", "*.a*"] {
            assert_eq!(wildcard_subdomain(name), [WILDCARD_FAULT], "{name}");
        }
    }

    #[test]
    fn dots_in_a_label_have_their_own_message() {
        assert_eq!(label("a.b"), ["must not contain dots"]);
    }

    #[test]
    fn long_names_are_rejected_with_their_limit() {
        assert_eq!(label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
        assert_eq!(label(&"A".repeat(64)), ["must be no more than 63 characters", LABEL_FAULT]);
    }

    #[test]
    fn fully_qualified_name_has_at_least_two_labels() {
        let check = |name| {
            let mut errors = ErrorList::new();
            fully_qualified_domain_name(&mut errors, &Path::root("f"), name);
            errors.to_string()
        };
        assert_eq!(check(""), "f: Required value");
        assert_eq!(
            check("a."),
            "f: Invalid value: \"a\": should be a domain with at least two segments separated by dots"
        );
        assert_eq!(check("a.b."), "[]");
        let long = "a".repeat(64);
        assert!(check(&format!("b.{long}")).ends_with("must be no more than 63 characters"));
    }
}
