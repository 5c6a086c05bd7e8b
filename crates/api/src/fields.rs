//! Field selectors, as in `metadata.name=web,status.phase!=Running`.
//!
//! In values, a backslash escapes itself, commas and equals signs. Each kind supports few fields, under
//! labels that may differ from their path; [`FieldLabels`] lists them with the error text for unsupported
//! labels.

use std::borrow::Cow;
use std::fmt;

use thiserror::Error;

use crate::quote::Quoted;

/// Operator of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldOperator {
    /// `field=value` or `field==value`.
    Equals,
    /// `field!=value`.
    NotEquals,
}

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// Label of the field.
    pub field: Box<str>,
    /// Relation between field and value.
    pub operator: FieldOperator,
    /// Value, unescaped.
    pub value: Box<str>,
}

/// Field selector: the conjunction of its terms. Without terms it selects every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

impl FieldSelector {
    /// Selects every object.
    pub const EVERYTHING: FieldSelector = FieldSelector { terms: Vec::new() };

    /// Selects the objects whose field has this value.
    #[must_use]
    pub fn equals(field: &str, value: &str) -> FieldSelector {
        let term = Term { field: field.into(), operator: FieldOperator::Equals, value: value.into() };
        FieldSelector { terms: vec![term] }
    }

    /// Parses a selector from a query parameter.
    ///
    /// # Errors
    /// If the text is not a selector; the message is meant for the client.
    pub fn parse(text: &str) -> Result<FieldSelector, FieldSelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::with_capacity(parts.len());
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (field, operator, value) = split_term(part)
                .ok_or_else(|| FieldSelectorError::Term { selector: text.into(), term: part.into() })?;
            let value = unescape(value)?;
            // A term with neither field nor value is skipped.
            if !(field.is_empty() && value.is_empty()) {
                terms.push(Term { field: field.into(), operator, value: value.into() });
            }
        }
        Ok(FieldSelector { terms })
    }

    /// Translates the labels of a request to those under which the kind stores its fields.
    ///
    /// # Errors
    /// If the kind does not support one of the labels; the message is meant for the client.
    pub fn translate(mut self, labels: &FieldLabels<'_>) -> Result<FieldSelector, FieldSelectorError> {
        for term in &mut self.terms {
            match labels.stored_label(&term.field) {
                Some(kept) if *kept == *term.field => {}
                Some(kept) => term.field = kept.into(),
                None => return Err(labels.unsupported_error(&term.field)),
            }
        }
        Ok(self)
    }

    /// Splits the selector: terms on fields that pass, and all others.
    #[must_use]
    pub fn partition(self, passes: impl Fn(&str) -> bool) -> (FieldSelector, FieldSelector) {
        let (passed, others) = self.terms.into_iter().partition(|term| passes(&term.field));
        (FieldSelector { terms: passed }, FieldSelector { terms: others })
    }

    /// Conditions of the selector.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// `true` if it selects every object.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// `true` if it selects an object with these fields. An absent field is an empty one.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| {
            let equal = field(&term.field).unwrap_or_default() == &*term.value;
            equal == (term.operator == FieldOperator::Equals)
        })
    }

    /// Value that the selector requires for a field, if any, so that an index on the field can be used.
    #[must_use]
    pub fn required_value(&self, field: &str) -> Option<&str> {
        let wanted = |term: &&Term| term.operator == FieldOperator::Equals && *term.field == *field;
        self.terms.iter().find(wanted).map(|term| &*term.value)
    }
}

/// A field selector compiled for matching many objects: terms merged by field, values sorted. Matching costs
/// O(fields × log(terms)).
#[derive(Clone, Debug)]
pub struct CompiledFieldSelector {
    rules: Vec<FieldRule>,
    is_nothing: bool,
}

/// All terms on one field.
#[derive(Clone, Debug)]
struct FieldRule {
    field: Box<str>,
    /// Required value.
    required: Option<Box<str>>,
    /// Excluded values, sorted.
    denied: Vec<Box<str>>,
}

impl CompiledFieldSelector {
    /// Compiles a selector. Contradicting terms make it select nothing.
    #[must_use]
    pub fn new(selector: &FieldSelector) -> CompiledFieldSelector {
        let mut terms = selector.terms.clone();
        terms.sort();
        terms.dedup();
        let mut rules = Vec::new();
        for same in terms.chunk_by(|a, b| a.field == b.field) {
            let of = |operator| same.iter().filter(move |term| term.operator == operator);
            let mut required = of(FieldOperator::Equals).map(|term| term.value.clone());
            let rule = FieldRule {
                field: same[0].field.clone(),
                required: required.next(),
                denied: of(FieldOperator::NotEquals).map(|term| term.value.clone()).collect(),
            };
            let is_denied =
                rule.required.as_ref().is_some_and(|value| rule.denied.binary_search(value).is_ok());
            if required.next().is_some() || is_denied {
                return CompiledFieldSelector { rules: Vec::new(), is_nothing: true };
            }
            rules.push(rule);
        }
        CompiledFieldSelector { rules, is_nothing: false }
    }

    /// `true` if an object with these fields is selected. An absent field is an empty one.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.is_nothing
            && self.rules.iter().all(|rule| {
                let value = field(&rule.field).unwrap_or_default();
                rule.required.as_ref().is_none_or(|required| **required == *value)
                    && rule.denied.binary_search_by(|one| (**one).cmp(value)).is_err()
            })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let separator = if i > 0 { "," } else { "" };
            let operator = if term.operator == FieldOperator::Equals { "=" } else { "!=" };
            write!(f, "{separator}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// Field labels by which objects of a kind can be selected.
#[derive(Clone, Copy, Debug)]
pub struct FieldLabels<'a> {
    /// Each label that clients may use, with the label under which the kind stores the field.
    pub known: &'a [(&'a str, &'a str)],
    /// Error text for other labels.
    pub unsupported: UnsupportedLabel<'a>,
}

/// Error text of a kind for an unsupported field label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsupportedLabel<'a> {
    /// `field label not supported: x`: kinds with field labels of their own.
    Plain,
    /// `field label "x" not supported for Job`.
    ForKind(&'a str),
    /// `field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x`.
    ForVersionKind(&'a str),
    /// `"x" is not a known field selector: only "metadata.name", "metadata.namespace"`: all other kinds.
    OnlyMetadata,
}

impl FieldLabels<'static> {
    /// Labels of every kind without field labels of its own.
    pub const METADATA: FieldLabels<'static> = FieldLabels {
        known: &[("metadata.name", "metadata.name"), ("metadata.namespace", "metadata.namespace")],
        unsupported: UnsupportedLabel::OnlyMetadata,
    };
}

impl<'a> FieldLabels<'a> {
    fn stored_label(&self, label: &str) -> Option<&'a str> {
        self.known.iter().find(|(known, _)| *known == label).map(|(_, kept)| *kept)
    }

    fn unsupported_error(&self, label: &str) -> FieldSelectorError {
        let message = match self.unsupported {
            UnsupportedLabel::Plain => format!("field label not supported: {label}"),
            UnsupportedLabel::ForKind(kind) => {
                format!("field label {} not supported for {kind}", Quoted(label))
            }
            UnsupportedLabel::ForVersionKind(kind) => {
                format!("field label not supported for {kind}: {label}")
            }
            UnsupportedLabel::OnlyMetadata => format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                Quoted(label)
            ),
        };
        FieldSelectorError::Unknown(message.into())
    }
}

/// Invalid field selector.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FieldSelectorError {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// Whole selector.
        selector: Box<str>,
        /// Offending term.
        term: Box<str>,
    },
    /// A backslash before a character that needs no escape, or at the end.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(Box<str>),
    /// A character that must be escaped. The message shows its code point, as upstream.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
    /// The kind does not support the field label.
    #[error("{0}")]
    Unknown(Box<str>),
}

/// Splits a selector at unescaped commas.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits a term at its first operator.
fn split_term(term: &str) -> Option<(&str, FieldOperator, &str)> {
    let bytes = term.as_bytes();
    for at in 0..bytes.len() {
        let (operator, length) = match bytes[at..] {
            [b'!', b'=', ..] => (FieldOperator::NotEquals, 2),
            [b'=', b'=', ..] => (FieldOperator::Equals, 2),
            [b'=', ..] => (FieldOperator::Equals, 1),
            _ => continue,
        };
        return Some((&term[..at], operator, &term[at + length..]));
    }
    None
}

/// Escapes a value for a selector.
#[must_use]
pub fn escape(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', ',', '=']) {
        return Cow::Borrowed(value);
    }
    let mut escaped = String::with_capacity(value.len() + 1);
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    Cow::Owned(escaped)
}

/// Reverts [`escape`].
///
/// # Errors
/// If a backslash precedes a character that needs no escape, or a special character is not escaped.
pub fn unescape(text: &str) -> Result<Cow<'_, str>, FieldSelectorError> {
    if !text.contains(['\\', ',', '=']) {
        return Ok(Cow::Borrowed(text));
    }
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                Some(other) => return Err(FieldSelectorError::Escape(format!("\\{other}").into())),
                None => return Err(FieldSelectorError::Escape("\\".into())),
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped(c)),
            c => value.push(c),
        }
    }
    Ok(Cow::Owned(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selector(text: &str) -> FieldSelector {
        FieldSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn selectors_print_sorted_and_escaped() {
        for (text, printed) in [
            ("", ""),
            ("b=1,a!=2", "a!=2,b=1"),
            ("a==b", "a=b"),
            ("a=b,,", "a=b"),
            ("a=\\,\\=\\\\", "a=\\,\\=\\\\"),
            ("a=", "a="),
            ("=", ""),
            ("!=", ""),
            ("=x", "=x"),
            ("a!b=c", "a!b=c"),
            ("a=b!", "a=b!"),
        ] {
            assert_eq!(selector(text).to_string(), printed, "{text}");
        }
    }

    #[test]
    fn syntax_errors_have_the_texts_of_go() {
        for (text, message) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
            ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
            ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            ("a===b", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn absent_fields_match_as_empty() {
        let fields = |field: &str| (field == "a").then_some("x");
        for (text, expected) in
            [("", true), ("a=x", true), ("a!=x", false), ("b=", true), ("b!=", false), ("a=x,b=y", false)]
        {
            assert_eq!(selector(text).matches(fields), expected, "{text}");
        }
        assert_eq!(selector("a=x,b!=y").required_value("a"), Some("x"));
        assert_eq!(selector("a=x,b!=y").required_value("b"), None);
        assert!(FieldSelector::equals("a", "x").matches(fields));
    }

    #[test]
    fn labels_are_translated_and_unsupported_ones_rejected() {
        let pods =
            FieldLabels { known: &[("spec.host", "spec.nodeName")], unsupported: UnsupportedLabel::Plain };
        assert_eq!(selector("spec.host=a").translate(&pods).unwrap().to_string(), "spec.nodeName=a");
        let refused =
            |labels: FieldLabels<'_>| selector("spec.x=a").translate(&labels).unwrap_err().to_string();
        assert_eq!(refused(pods), "field label not supported: spec.x");
        assert_eq!(
            refused(FieldLabels::METADATA),
            "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        let jobs = FieldLabels { known: &[], unsupported: UnsupportedLabel::ForKind("Job") };
        assert_eq!(refused(jobs), "field label \"spec.x\" not supported for Job");
        let slices = FieldLabels {
            known: &[],
            unsupported: UnsupportedLabel::ForVersionKind("resource.k8s.io/v1, Kind=ResourceSlice"),
        };
        assert_eq!(
            refused(slices),
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x"
        );
    }

    proptest! {
        #[test]
        fn compiled_selector_matches_as_the_selector_does(
            text in "(a|b)(=|!=)(x|y)?(,(a|b)(=|!=)(x|y)?){0,4}",
            a in "(x|y)?",
            b in "(x|y)?",
        ) {
            let selector = selector(&text);
            let fields = |field: &str| match field {
                "a" => Some(a.as_str()),
                _ => Some(b.as_str()).filter(|value| !value.is_empty()),
            };
            prop_assert_eq!(CompiledFieldSelector::new(&selector).matches(fields), selector.matches(fields));
        }

        #[test]
        fn escaped_values_unescape_to_themselves(value in "\\PC*") {
            let text = format!("f={}", escape(&value));
            let selector = selector(&text);
            prop_assert_eq!(selector.required_value("f"), Some(value.as_str()));
        }

        #[test]
        fn printed_selector_parses_back(text in "[ab=!,\\\\]{0,12}") {
            if let Ok(first) = FieldSelector::parse(&text) {
                let mut again = selector(&first.to_string());
                let mut terms = first.terms.clone();
                terms.sort();
                again.terms.sort();
                prop_assert_eq!(again.terms, terms);
            }
        }
    }
}
