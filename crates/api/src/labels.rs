//! Label selectors, as in `app=web,tier in (a,b),!legacy`.
//!
//! A [`Selector`] is a conjunction of [`Requirement`]s, sorted by key, or [`Selector::Nothing`], the meaning
//! of an absent selector of a workload. It is parsed from a query parameter or built from the `LabelSelector`
//! of an object, and matches anything that can look up a label. It prints in upstream's form, which parses
//! back to the same selector. [`CompiledSelector`] is the form for matching many objects.

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
pub use validate::validate;
pub(crate) use validate::validate_requirement;

/// Operator of a requirement.
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
    /// `key`: the label exists.
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
    /// Indexes of the values in sorted order, if there are more than [`SCAN_LEN_MAX`].
    order: Box<[u32]>,
}

/// Maximum number of values for which a lookup is a linear scan.
const SCAN_LEN_MAX: usize = 16;

/// Indexes of the values in sorted order; empty for few values.
fn order(values: &[Box<str>]) -> Box<[u32]> {
    let len = if values.len() <= SCAN_LEN_MAX { 0 } else { u32::try_from(values.len()).unwrap_or(u32::MAX) };
    let mut order: Box<[u32]> = (0..len).collect();
    order.sort_unstable_by(|a, b| values[*a as usize].cmp(&values[*b as usize]));
    order
}

impl Requirement {
    /// Creates a requirement.
    ///
    /// # Errors
    /// If the key or a value is not valid for a label, or the operator does not allow this number of values.
    pub fn new<S: AsRef<str>>(key: &str, operator: Operator, values: &[S]) -> Result<Requirement, ErrorList> {
        let errors = faults(key, operator, values);
        if !errors.is_empty() {
            return Err(errors);
        }
        let values: Vec<Box<str>> = values.iter().map(|value| value.as_ref().into()).collect();
        Ok(Requirement { key: key.into(), operator, order: order(&values), values })
    }

    /// Key of the label.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Relation between label and values.
    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Values in the order in which they were given.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(AsRef::as_ref)
    }

    /// `true` if a label with this value, or an absent one (`None`), meets the requirement.
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

    /// Number that a label is compared with.
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

/// Match expression of a `LabelSelector`, as in an object.
#[derive(Clone, Debug)]
pub struct Expression<'a> {
    /// Key of the label.
    pub key: &'a str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`; any other is an error.
    pub operator: &'a str,
    /// Values of the expression.
    pub values: Vec<&'a str>,
}

/// Label selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// Selects no object.
    Nothing,
    /// Selects the objects that meet every requirement: all objects, if there are none.
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

    /// Parses a selector from a query parameter.
    ///
    /// # Errors
    /// If the text is not a selector; the message is meant for the client.
    pub fn parse(text: &str) -> Result<Selector, ParseError> {
        parse::parse(text).map(Selector::new)
    }

    /// Selects the objects that have all of these labels. The labels are not validated: they come from a
    /// stored object.
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

    /// Converts a `LabelSelector`. An absent one is [`Selector::Nothing`], an empty one selects everything.
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

    /// `true` if it selects every object.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        matches!(self, Selector::All(requirements) if requirements.is_empty())
    }

    /// Requirements; empty for [`Selector::Nothing`] too, so check for that first.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        match self {
            Selector::Nothing => &[],
            Selector::All(requirements) => requirements,
        }
    }

    /// `true` if it selects an object with these labels.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        match self {
            Selector::Nothing => false,
            // Requirements on one key are adjacent: its label is looked up once.
            Selector::All(requirements) => requirements.chunk_by(|a, b| a.key == b.key).all(|same| {
                let value = label(&same[0].key);
                same.iter().all(|one| one.matches(value))
            }),
        }
    }

    /// Value that the selector requires for a label, if any, so that an index on the label can be used.
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

/// Invalid `LabelSelector`.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SelectorError {
    /// Unknown operator.
    #[error("{} is not a valid label selector operator", Quoted(.0))]
    Operator(Box<str>),
    /// Invalid requirement.
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
