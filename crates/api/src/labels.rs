//! Label selectors: which objects are meant, said by their labels.
//!
//! A [`Selector`] is a conjunction of [`Requirement`]s, sorted by key, or the selector that selects nothing, which
//! an absent selector of a workload means. It is read from a query (`app=web,tier in (a,b),!legacy`) or made
//! from a `LabelSelector` of an object, and matches anything that can look up a label. It prints in the form in
//! which clients know it, and that form reads back as the same selector.

use std::fmt;

use thiserror::Error;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::names::key::{label_key, label_value};
use crate::quote::Quoted;

mod compiled;
mod parse;
mod validate;

pub use compiled::CompiledSelector;
pub use parse::{ParseError, RequirementError};
pub use validate::{validate, validate_requirement};

/// How a requirement relates a label to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `key in (a,b)`: the label has one of the values.
    In,
    /// `key notin (a,b)`: the label is absent or has none of the values.
    NotIn,
    /// `key=a`.
    Equals,
    /// `key==a`, the same as `key=a`.
    DoubleEquals,
    /// `key!=a`: the label is absent or has another value.
    NotEquals,
    /// `key>5`: the label is an integer and larger.
    GreaterThan,
    /// `key<5`: the label is an integer and smaller.
    LessThan,
    /// `key`: the label is there.
    Exists,
    /// `!key`: the label is absent.
    DoesNotExist,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    key: Box<str>,
    operator: Operator,
    values: Vec<Box<str>>,
    /// Indexes of the values in their order, where they are too many to read each.
    order: Box<[u32]>,
}

/// Values of a requirement up to which each is read.
const SCAN_LEN_MAX: usize = 16;

/// Indexes of values in their order; none for few.
fn order(values: &[Box<str>]) -> Box<[u32]> {
    let len = if values.len() <= SCAN_LEN_MAX { 0 } else { u32::try_from(values.len()).unwrap_or(u32::MAX) };
    let mut order: Box<[u32]> = (0..len).collect();
    order.sort_unstable_by(|a, b| values[*a as usize].cmp(&values[*b as usize]));
    order
}

impl Requirement {
    /// Makes a requirement.
    ///
    /// # Errors
    /// If the key or a value cannot be that of a label, or the operator does not go with so many values.
    pub fn new<S: AsRef<str>>(key: &str, operator: Operator, values: &[S]) -> Result<Requirement, ErrorList> {
        let errors = faults(key, operator, values);
        if !errors.is_empty() {
            return Err(errors);
        }
        let values: Vec<Box<str>> = values.iter().map(|value| value.as_ref().into()).collect();
        Ok(Requirement { key: key.into(), operator, order: order(&values), values })
    }

    /// The label.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How it relates to the values.
    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, in the order in which they were given.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(AsRef::as_ref)
    }

    /// Whether a label with this value, or an absent one, meets the requirement.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        let has = |value: &str| self.has(value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(has),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(has),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value, |label, bound| label > bound),
            Operator::LessThan => self.compare(value, |label, bound| label < bound),
        }
    }

    fn has(&self, value: &str) -> bool {
        if self.order.is_empty() {
            return self.values.iter().any(|one| **one == *value);
        }
        self.order.binary_search_by(|at| (*self.values[*at as usize]).cmp(value)).is_ok()
    }

    /// The number that a label is compared with.
    fn bound(&self) -> Option<i64> {
        self.values.first().and_then(|bound| bound.parse().ok())
    }

    fn compare(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let label = value.and_then(|value| value.parse().ok());
        label.zip(self.bound()).is_some_and(|(label, bound)| holds(label, bound))
    }
}

fn faults<S: AsRef<str>>(key: &str, operator: Operator, values: &[S]) -> ErrorList {
    let mut errors = ErrorList::new();
    let wrong = label_key(key);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(&Path::root("key"), key, wrong.join("; ")));
    }
    let path = Path::root("values");
    let count_fault = match operator {
        Operator::In | Operator::NotIn => {
            values.is_empty().then_some("for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
            (values.len() != 1).then_some("exact-match compatibility requires one single value")
        }
        Operator::Exists | Operator::DoesNotExist => {
            (!values.is_empty()).then_some("values set must be empty for exists and does not exist")
        }
        Operator::GreaterThan | Operator::LessThan => {
            (values.len() != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
        }
    };
    if let Some(detail) = count_fault {
        errors.push(FieldError::invalid(&path, BadValue::json_strings(values), detail));
    }
    let compares = matches!(operator, Operator::GreaterThan | Operator::LessThan);
    for (i, value) in values.iter().enumerate() {
        if compares && value.as_ref().parse::<i64>().is_err() {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(FieldError::invalid(&path.index(i), value.as_ref(), detail));
        }
    }
    for (i, value) in values.iter().enumerate() {
        let wrong = label_value(value.as_ref());
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(&path.index(i).key(key), value.as_ref(), wrong.join("; ")));
        }
    }
    errors
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            Operator::Exists => return f.write_str(&self.key),
            Operator::DoesNotExist => return write!(f, "!{}", self.key),
            Operator::Equals => "=",
            Operator::DoubleEquals => "==",
            Operator::NotEquals => "!=",
            Operator::GreaterThan => ">",
            Operator::LessThan => "<",
            Operator::In => " in (",
            Operator::NotIn => " notin (",
        };
        write!(f, "{}{operator}", self.key)?;
        let mut values: Vec<&str> = self.values().collect();
        values.sort_unstable();
        f.write_str(&values.join(","))?;
        if matches!(self.operator, Operator::In | Operator::NotIn) { f.write_str(")") } else { Ok(()) }
    }
}

/// A condition of a `LabelSelector`, as it stands in an object.
#[derive(Clone, Debug)]
pub struct Expression<'a> {
    /// The label.
    pub key: &'a str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`; any other is refused.
    pub operator: &'a str,
    /// The values.
    pub values: Vec<&'a str>,
}

/// Which objects are meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// No object at all.
    Nothing,
    /// The objects that meet every requirement: all objects, if there is none.
    All(Vec<Requirement>),
}

impl Selector {
    /// Selects every object.
    pub const EVERYTHING: Selector = Selector::All(Vec::new());

    /// Selects the objects that meet all of `requirements`.
    #[must_use]
    pub fn new(mut requirements: Vec<Requirement>) -> Selector {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Selector::All(requirements)
    }

    /// Reads a selector from a query.
    ///
    /// # Errors
    /// If the text is no selector; the message is meant for the client.
    pub fn parse(text: &str) -> Result<Selector, ParseError> {
        parse::parse(text).map(Selector::new)
    }

    /// Selects the objects that have all of these labels. The labels are not checked: they come from a stored
    /// object.
    #[must_use]
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Selector {
        let equals = |(key, value): (&str, &str)| Requirement {
            key: key.into(),
            operator: Operator::Equals,
            values: vec![value.into()],
            order: Box::default(),
        };
        Selector::new(labels.into_iter().map(equals).collect())
    }

    /// Selects what a `LabelSelector` means. An absent one is [`Selector::Nothing`], an empty one everything.
    ///
    /// # Errors
    /// If it is not valid.
    pub fn from_parts<'a>(
        match_labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        match_expressions: impl IntoIterator<Item = Expression<'a>>,
    ) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in match_labels {
            requirements.push(Requirement::new(key, Operator::Equals, &[value])?);
        }
        for expression in match_expressions {
            let operator = match expression.operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(SelectorError::Operator(other.into())),
            };
            requirements.push(Requirement::new(expression.key, operator, &expression.values)?);
        }
        Ok(Selector::new(requirements))
    }

    /// Whether it selects every object.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        matches!(self, Selector::All(requirements) if requirements.is_empty())
    }

    /// The requirements; none for [`Selector::Nothing`] too, so ask for that first.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        match self {
            Selector::Nothing => &[],
            Selector::All(requirements) => requirements,
        }
    }

    /// Whether it selects an object with these labels.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        match self {
            Selector::Nothing => false,
            // Requirements on one key stand together: its label is looked up once.
            Selector::All(requirements) => requirements.chunk_by(|a, b| a.key == b.key).all(|same| {
                let value = label(&same[0].key);
                same.iter().all(|one| one.matches(value))
            }),
        }
    }

    /// The one value that a label must have, if the selector asks for one: an index on the label then answers.
    #[must_use]
    pub fn required_value(&self, key: &str) -> Option<&str> {
        let requirement = self.requirements().iter().find(|one| *one.key == *key)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements().iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

/// Why a `LabelSelector` means nothing.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SelectorError {
    /// There is no such operator.
    #[error("{} is not a valid label selector operator", Quoted(.0))]
    Operator(Box<str>),
    /// A requirement is not valid.
    #[error("{0}")]
    Requirement(ErrorList),
}

impl From<ErrorList> for SelectorError {
    fn from(errors: ErrorList) -> SelectorError {
        SelectorError::Requirement(errors)
    }
}

#[cfg(test)]
mod tests;
