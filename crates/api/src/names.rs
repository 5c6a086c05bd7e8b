//! What things may be called: the rules for names, label keys and values, and other short texts.
//!
//! Each rule returns [`Faults`]: nothing if the text follows the rule, else what is wrong with it, in words that
//! clients know. Following a rule costs one pass over the bytes and no allocation. Rules that check a field and
//! may complain about a part of its value take the field's path and add to an
//! [`ErrorList`](crate::field_error::ErrorList) instead.
//!
//! - [`dns`]: names of the domain name system.
//! - [`key`]: label keys and values, keys of config maps, environment variables and the like.
//! - [`ip`]: addresses and networks.
//! - [`metadata`]: the maps and lists in `metadata`.
//! - [`generate`]: names made from `generateName`.

use std::borrow::Cow;

pub mod dns;
pub mod generate;
pub mod ip;
pub mod key;
pub mod metadata;

/// What is wrong with a text; empty if nothing is.
pub type Faults = Vec<Cow<'static, str>>;

/// Which names objects of a kind may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain: most kinds.
    Subdomain,
    /// A DNS label: namespaces and others.
    Label,
    /// A DNS label that begins with a letter.
    Dns1035Label,
    /// Anything that can stand in a path: roles and others.
    PathSegment,
    /// An address in canonical form.
    Ip,
    /// Anything: the kind has a rule of its own, or none.
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

    /// Checks a `generateName`: the beginning of a name, which may end in a dash because more follows.
    #[must_use]
    pub fn check_prefix(self, prefix: &str) -> Faults {
        let bytes = prefix.as_bytes();
        match self {
            NameRule::PathSegment => key::path_segment_prefix(prefix),
            NameRule::Ip | NameRule::Any => self.check(prefix),
            // The dash and the character before it are taken for one letter, so what stands before a dash is
            // never judged: `a_-` is a good prefix. Clients have come to rely on it.
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

/// The faults of a text that may hold at most `max` characters and must have a shape.
fn faults(too_long: Option<String>, misshapen: Option<&'static str>) -> Faults {
    if too_long.is_none() && misshapen.is_none() {
        return Faults::new();
    }
    too_long.map(Cow::from).into_iter().chain(misshapen.map(Cow::from)).collect()
}

/// The complaint that a text has more than `max` bytes, in the older words.
fn max_characters(text: &[u8], max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} characters"))
}

/// The complaint that a text has more than `max` bytes, in the newer words.
fn max_bytes(text: &[u8], max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} bytes"))
}

/// Whether the text is one character out of `ends`, or a run of `middle` between two of `ends`.
fn is_capped_run(text: &[u8], ends: impl Fn(u8) -> bool, middle: impl Fn(u8) -> bool) -> bool {
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
    fn a_prefix_may_end_in_a_dash() {
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
