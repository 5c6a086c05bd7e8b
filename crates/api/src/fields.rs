//! Field selectors: which objects are meant, said by their fields.
//!
//! `metadata.name=web,status.phase!=Running`. In values, a backslash escapes itself, commas and equals signs. Each
//! kind knows few fields, under labels that may differ from where it keeps them; [`FieldLabels`] holds that
//! knowledge and the words in which the kind refuses others.

use std::borrow::Cow;
use std::fmt;

use thiserror::Error;

use crate::quote::Quoted;

/// How a term relates a field to its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `field=value` or `field==value`.
    Equals,
    /// `field!=value`.
    NotEquals,
}

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// The label of the field.
    pub field: Box<str>,
    /// How it relates to the value.
    pub operator: Operator,
    /// The value, without escapes.
    pub value: Box<str>,
}

/// Which objects are meant: those that meet every term, hence all if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    terms: Vec<Term>,
}

impl Selector {
    /// Selects every object.
    pub const EVERYTHING: Selector = Selector { terms: Vec::new() };

    /// Selects the objects in which a field has a value.
    #[must_use]
    pub fn equals(field: &str, value: &str) -> Selector {
        let term = Term { field: field.into(), operator: Operator::Equals, value: value.into() };
        Selector { terms: vec![term] }
    }

    /// Reads a selector from a query.
    ///
    /// # Errors
    /// If the text is no selector; the message is meant for the client.
    pub fn parse(text: &str) -> Result<Selector, FieldSelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::with_capacity(parts.len());
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (field, operator, value) = split_term(part)
                .ok_or_else(|| FieldSelectorError::Term { selector: text.into(), term: part.into() })?;
            let value = unescape(value)?;
            // A term about no field and no value is no term.
            if !(field.is_empty() && value.is_empty()) {
                terms.push(Term { field: field.into(), operator, value: value.into() });
            }
        }
        Ok(Selector { terms })
    }

    /// The same selector in terms of the fields that a kind keeps.
    ///
    /// # Errors
    /// If the kind does not know one of the fields; the message is meant for the client.
    pub fn translate(mut self, labels: &FieldLabels<'_>) -> Result<Selector, FieldSelectorError> {
        for term in &mut self.terms {
            match labels.kept_as(&term.field) {
                Some(kept) if *kept == *term.field => {}
                Some(kept) => term.field = kept.into(),
                None => return Err(labels.refuse(&term.field)),
            }
        }
        Ok(self)
    }

    /// The terms.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether it selects every object.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether it selects an object with these fields. An absent field is an empty one.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| {
            let equal = field(&term.field).unwrap_or_default() == &*term.value;
            equal == (term.operator == Operator::Equals)
        })
    }

    /// The one value that a field must have, if the selector asks for one: an index on the field then answers.
    #[must_use]
    pub fn required_value(&self, field: &str) -> Option<&str> {
        let wanted = |term: &&Term| term.operator == Operator::Equals && *term.field == *field;
        self.terms.iter().find(wanted).map(|term| &*term.value)
    }
}

/// A field selector to match many objects with: terms merged by field, values in order. Matching costs O(fields ×
/// log(terms)).
#[derive(Clone, Debug)]
pub struct CompiledSelector {
    rules: Vec<FieldRule>,
    is_nothing: bool,
}

/// All terms about one field.
#[derive(Clone, Debug)]
struct FieldRule {
    field: Box<str>,
    /// The value that it must have.
    required: Option<Box<str>>,
    /// Values that it must not have, sorted.
    denied: Vec<Box<str>>,
}

impl CompiledSelector {
    /// Compiles a selector. One whose terms contradict each other selects nothing.
    #[must_use]
    pub fn new(selector: &Selector) -> CompiledSelector {
        let mut terms = selector.terms.clone();
        terms.sort();
        terms.dedup();
        let mut rules = Vec::new();
        for same in terms.chunk_by(|a, b| a.field == b.field) {
            let of = |operator| same.iter().filter(move |term| term.operator == operator);
            let mut required = of(Operator::Equals).map(|term| term.value.clone());
            let rule = FieldRule {
                field: same[0].field.clone(),
                required: required.next(),
                denied: of(Operator::NotEquals).map(|term| term.value.clone()).collect(),
            };
            let is_denied =
                rule.required.as_ref().is_some_and(|value| rule.denied.binary_search(value).is_ok());
            if required.next().is_some() || is_denied {
                return CompiledSelector { rules: Vec::new(), is_nothing: true };
            }
            rules.push(rule);
        }
        CompiledSelector { rules, is_nothing: false }
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

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let separator = if i > 0 { "," } else { "" };
            let operator = if term.operator == Operator::Equals { "=" } else { "!=" };
            write!(f, "{separator}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// The fields by which objects of a kind can be selected.
#[derive(Clone, Copy, Debug)]
pub struct FieldLabels<'a> {
    /// Each label that clients may use, and the label under which the kind keeps the field.
    pub known: &'a [(&'a str, &'a str)],
    /// How other labels are refused.
    pub refusal: Refusal<'a>,
}

/// The words in which a kind refuses a field that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// `field label not supported: x`: kinds with fields of their own.
    Plain,
    /// `field label "x" not supported for Job`.
    ForKind(&'a str),
    /// `field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x`.
    ForVersionKind(&'a str),
    /// `"x" is not a known field selector: only "metadata.name", "metadata.namespace"`: all other kinds.
    OnlyMetadata,
}

impl FieldLabels<'static> {
    /// What every kind knows that has no fields of its own.
    pub const METADATA: FieldLabels<'static> = FieldLabels {
        known: &[("metadata.name", "metadata.name"), ("metadata.namespace", "metadata.namespace")],
        refusal: Refusal::OnlyMetadata,
    };
}

impl<'a> FieldLabels<'a> {
    fn kept_as(&self, label: &str) -> Option<&'a str> {
        self.known.iter().find(|(known, _)| *known == label).map(|(_, kept)| *kept)
    }

    fn refuse(&self, label: &str) -> FieldSelectorError {
        let message = match self.refusal {
            Refusal::Plain => format!("field label not supported: {label}"),
            Refusal::ForKind(kind) => format!("field label {} not supported for {kind}", Quoted(label)),
            Refusal::ForVersionKind(kind) => format!("field label not supported for {kind}: {label}"),
            Refusal::OnlyMetadata => format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                Quoted(label)
            ),
        };
        FieldSelectorError::Unknown(message.into())
    }
}

/// Why a text is no field selector, or not one for this kind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FieldSelectorError {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole selector.
        selector: Box<str>,
        /// The term.
        term: Box<str>,
    },
    /// A backslash stands before a character that needs none, or at the end.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(Box<str>),
    /// A character needs a backslash. The message shows its number, as clients know it.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
    /// The kind does not know the field.
    #[error("{0}")]
    Unknown(Box<str>),
}

/// Splits a selector at the commas that no backslash escapes.
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
fn split_term(term: &str) -> Option<(&str, Operator, &str)> {
    let bytes = term.as_bytes();
    for at in 0..bytes.len() {
        let (operator, length) = match bytes[at..] {
            [b'!', b'=', ..] => (Operator::NotEquals, 2),
            [b'=', b'=', ..] => (Operator::Equals, 2),
            [b'=', ..] => (Operator::Equals, 1),
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

/// Undoes [`escape`].
///
/// # Errors
/// If a backslash escapes what needs no escape, or something that needs one has none.
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

    fn selector(text: &str) -> Selector {
        Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
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
    fn mistakes_are_named() {
        for (text, message) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
            ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
            ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            ("a===b", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn fields_meet_terms_and_absent_ones_are_empty() {
        let fields = |field: &str| (field == "a").then_some("x");
        for (text, expected) in
            [("", true), ("a=x", true), ("a!=x", false), ("b=", true), ("b!=", false), ("a=x,b=y", false)]
        {
            assert_eq!(selector(text).matches(fields), expected, "{text}");
        }
        assert_eq!(selector("a=x,b!=y").required_value("a"), Some("x"));
        assert_eq!(selector("a=x,b!=y").required_value("b"), None);
        assert!(Selector::equals("a", "x").matches(fields));
    }

    #[test]
    fn kinds_translate_what_they_know_and_refuse_the_rest() {
        let pods = FieldLabels { known: &[("spec.host", "spec.nodeName")], refusal: Refusal::Plain };
        assert_eq!(selector("spec.host=a").translate(&pods).unwrap().to_string(), "spec.nodeName=a");
        let refused =
            |labels: FieldLabels<'_>| selector("spec.x=a").translate(&labels).unwrap_err().to_string();
        assert_eq!(refused(pods), "field label not supported: spec.x");
        assert_eq!(
            refused(FieldLabels::METADATA),
            "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        let jobs = FieldLabels { known: &[], refusal: Refusal::ForKind("Job") };
        assert_eq!(refused(jobs), "field label \"spec.x\" not supported for Job");
        let slices = FieldLabels {
            known: &[],
            refusal: Refusal::ForVersionKind("resource.k8s.io/v1, Kind=ResourceSlice"),
        };
        assert_eq!(
            refused(slices),
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x"
        );
    }

    proptest! {
        #[test]
        fn compiled_selector_selects_what_the_selector_selects(
            text in "(a|b)(=|!=)(x|y)?(,(a|b)(=|!=)(x|y)?){0,4}",
            a in "(x|y)?",
            b in "(x|y)?",
        ) {
            let selector = selector(&text);
            let fields = |field: &str| match field {
                "a" => Some(a.as_str()),
                _ => Some(b.as_str()).filter(|value| !value.is_empty()),
            };
            prop_assert_eq!(CompiledSelector::new(&selector).matches(fields), selector.matches(fields));
        }

        #[test]
        fn any_value_survives_its_escapes(value in "\\PC*") {
            let text = format!("f={}", escape(&value));
            let selector = selector(&text);
            prop_assert_eq!(selector.required_value("f"), Some(value.as_str()));
        }

        #[test]
        fn the_printed_form_reads_back_as_the_same_selector(text in "[ab=!,\\\\]{0,12}") {
            if let Ok(first) = Selector::parse(&text) {
                let mut again = selector(&first.to_string());
                let mut terms = first.terms.clone();
                terms.sort();
                again.terms.sort();
                prop_assert_eq!(again.terms, terms);
            }
        }
    }
}
