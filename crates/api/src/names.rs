//! Formats of names, label keys and values, addresses and other short strings.
//!
//! Each function is named after the format that it checks and returns [`Faults`]: upstream's messages, empty
//! if the string is valid. Checking a valid string takes one pass over its bytes and does not allocate.
//! Functions that check a field and may report a part of its value take the field's path and add to an
//! [`ErrorList`](crate::field_error::ErrorList) instead.
//!
//! - [`dns`]: DNS labels and subdomains.
//! - [`key`]: label keys and values, keys of ConfigMaps, environment variables and the like.
//! - [`ip`]: IP addresses and CIDRs.
//! - [`metadata`]: the maps and lists in `metadata`.
//! - [`generate`]: names generated from `generateName`.

use std::borrow::Cow;

pub mod dns;
pub mod generate;
pub mod ip;
pub mod key;
pub mod metadata;

/// Messages of a failed format check; empty if the string is valid.
pub type Faults = Vec<Cow<'static, str>>;

/// Format of the names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain: most kinds.
    Subdomain,
    /// A DNS label: namespaces and others.
    Label,
    /// A DNS label that begins with a letter.
    Dns1035Label,
    /// Any string that is valid as a path segment: roles and others.
    PathSegment,
    /// An IP address in canonical form.
    Ip,
    /// Any string: the kind checks its names itself, or not at all.
    Any,
}

impl NameRule {
    /// Checks a name.
    #[must_use]
    pub fn check(self, name: &str) -> Faults {
        match self {
            NameRule::PathSegment => key::path_segment(name),
            NameRule::Ip => ip::faults(name),
            NameRule::Any => Faults::new(),
            rule => rule.check_bytes(name.as_bytes()),
        }
    }

    /// Checks a `generateName`: the prefix of a name, which may end in a dash because a suffix follows.
    #[must_use]
    pub(crate) fn check_prefix(self, prefix: &str) -> Faults {
        let bytes = prefix.as_bytes();
        match self {
            NameRule::PathSegment => key::path_segment_prefix(prefix),
            NameRule::Ip | NameRule::Any => self.check(prefix),
            // The dash and the character before it are replaced by one letter, so the character before a dash
            // is never checked: `a_-` is a valid prefix. Clients rely on it.
            rule if bytes.len() > 1 && bytes.ends_with(b"-") => {
                let mut masked = bytes[..bytes.len() - 2].to_vec();
                masked.push(b'a');
                rule.check_bytes(&masked)
            }
            rule => rule.check_bytes(bytes),
        }
    }

    fn check_bytes(self, name: &[u8]) -> Faults {
        match self {
            NameRule::Subdomain | NameRule::PathSegment | NameRule::Ip | NameRule::Any => {
                dns::subdomain_bytes(name)
            }
            NameRule::Label => dns::label_bytes(name),
            NameRule::Dns1035Label => dns::label_1035_bytes(name),
        }
    }
}

/// Combines the message for a string that is too long with the one for a wrong format.
fn faults(too_long: Option<String>, malformed: Option<&'static str>) -> Faults {
    if too_long.is_none() && malformed.is_none() {
        return Faults::new();
    }
    too_long.map(Cow::from).into_iter().chain(malformed.map(Cow::from)).collect()
}

/// Message for a string of more than `max` bytes, in the older wording.
fn max_characters(text: &[u8], max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} characters"))
}

/// Message for a string of more than `max` bytes, in the newer wording.
fn max_bytes(text: &[u8], max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} bytes"))
}

/// `true` if the first and the last byte match `ends` and all others match `middle`; an empty text does not match.
fn has_ends_and_middle(text: &[u8], ends: impl Fn(u8) -> bool, middle: impl Fn(u8) -> bool) -> bool {
    match text {
        [] => false,
        [only] => ends(*only),
        [first, inner @ .., last] => ends(*first) && ends(*last) && inner.iter().all(|b| middle(*b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generate_name_may_end_in_a_dash() {
        for rule in [NameRule::Subdomain, NameRule::Label, NameRule::Dns1035Label] {
            assert!(!rule.check("web-").is_empty());
            assert!(rule.check_prefix("web-").is_empty());
            assert!(rule.check_prefix("a-").is_empty());
            assert!(rule.check_prefix("web_-").is_empty());
            assert!(!rule.check_prefix("-").is_empty());
            assert!(!rule.check_prefix("w_b-").is_empty());
        }
        assert!(NameRule::PathSegment.check_prefix("..").is_empty());
        assert_eq!(NameRule::PathSegment.check(".."), ["may not be '..'"]);
    }
}
