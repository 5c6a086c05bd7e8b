//! Field names of JSON objects as CEL identifiers.
//!
//! `__` is `__underscores__`, `.` is `__dot__`, `-` is `__dash__`, `/` is `__slash__`, and a reserved word is enclosed
//! in `__`. A name with other characters, or one that begins with a digit, has no identifier.

use std::borrow::Cow;

use crate::decl::{FieldDecl, ObjectDecl};

/// Words that CEL does not accept as identifiers.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns the identifier for a field name; `None` if it has characters that cannot be escaped.
#[must_use]
pub fn escape_identifier(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__").into());
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte)) {
        return None;
    }
    if !name.contains(['-', '.', '/']) && !name.contains("__") {
        return Some(name.into());
    }
    let name = name.replace("__", "__underscores__");
    Some(name.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__").into())
}

/// Returns the field name for an identifier; `None` if an escape sequence is not known.
#[must_use]
pub fn unescape_identifier(identifier: &str) -> Option<Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(identifier.into());
    }
    let mut name = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(start) = rest.find("__") {
        let (before, sequence) = rest.split_at(start);
        name.push_str(before);
        // A sequence is two underscores, characters other than underscores, and two underscores.
        let content = &sequence[2..];
        let length = content.find('_').unwrap_or(content.len());
        if length == 0 || !content[length..].starts_with("__") {
            name.push('_');
            rest = &sequence[1..];
            continue;
        }
        let word = &content[..length];
        name.push_str(match word {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            _ if RESERVED.contains(&word) && identifier.len() == length + 4 => word,
            _ => return None,
        });
        rest = &content[length + 2..];
    }
    name.push_str(rest);
    Some(name.into())
}

/// Returns the field of an object that an identifier in an expression names.
#[must_use]
pub fn find_declared_field<'a>(object: &'a ObjectDecl, identifier: &str) -> Option<&'a FieldDecl> {
    let name = unescape_identifier(identifier)?;
    // `a__dot__b` names the field `a.b`, and the field `a-b` in backquotes has no identifier of its own.
    if escape_identifier(&name)? != identifier {
        return None;
    }
    object.fields.get(&*name)
}

/// Returns the field that is named by a reserved word without escaping: `self.namespace`.
pub(crate) fn find_reserved_field<'a>(object: &'a ObjectDecl, identifier: &str) -> Option<&'a FieldDecl> {
    RESERVED.contains(&identifier).then(|| object.fields.get(identifier)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_identifiers() {
        for (name, identifier) in [
            ("name", Some("name")),
            ("a_b", Some("a_b")),
            ("_", Some("_")),
            ("a__b", Some("a__underscores__b")),
            ("a.b-c/d", Some("a__dot__b__dash__c__slash__d")),
            ("namespace", Some("__namespace__")),
            ("namespaces", Some("namespaces")),
            ("__namespace__", Some("__underscores__namespace__underscores__")),
            ("___", Some("__underscores___")),
            ("a_-b", Some("a___dash__b")),
            ("-_", Some("__dash___")),
            ("--", Some("__dash____dash__")),
            ("", None),
            ("1a", None),
            ("a b", None),
            ("$ref", None),
            ("é", None),
        ] {
            assert_eq!(escape_identifier(name).as_deref(), identifier, "{name}");
            if let Some(identifier) = identifier {
                assert_eq!(unescape_identifier(identifier).as_deref(), Some(name));
            }
        }
        assert_eq!(unescape_identifier("a__b").as_deref(), Some("a__b"));
        for invalid in ["__unknown__", "x__dots__y", "a__namespace__", "__namespace__a", "__true____dot__"] {
            assert_eq!(unescape_identifier(invalid), None, "{invalid}");
        }
    }
}
