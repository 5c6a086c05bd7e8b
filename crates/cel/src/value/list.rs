//! Lists: borrowed JSON arrays and lists of values.

use std::sync::Arc;

use setpoint_api::Value as Json;

use super::Value;
use crate::decl::{Decl, DeclKind, ListDecl};
use crate::eval::EvalError;

/// List of an expression.
#[derive(Clone, Debug)]
pub enum ListValue<'a> {
    /// Array of a JSON value, with the declaration of the array.
    Json(&'a [Json], Option<&'a Decl>),
    /// Values that the expression made.
    Owned(Arc<Vec<Value<'a>>>),
    /// Sum of a list with this identity and another list.
    Sum(Arc<Vec<Value<'a>>>, &'a ListDecl),
}

impl<'a> From<Vec<Value<'a>>> for ListValue<'a> {
    fn from(values: Vec<Value<'a>>) -> Self {
        Self::Owned(Arc::new(values))
    }
}

impl<'a> ListValue<'a> {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Json(items, _) => items.len(),
            Self::Owned(values) | Self::Sum(values, _) => values.len(),
        }
    }

    /// `true` if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an element; `None` if the index is out of bounds.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Json(items, decl) => items.get(index).map(|item| Value::from_json(item, item_decl(*decl))),
            Self::Owned(values) | Self::Sum(values, _) => values.get(index).cloned().map(Ok),
        }
    }

    /// Returns the elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, EvalError>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Identity of the elements, which equality and concatenation follow.
    pub(crate) fn identity(&self) -> &'a ListDecl {
        match self {
            Self::Json(_, Some(Decl { kind: DeclKind::List { list_type, .. }, .. })) => list_type,
            Self::Sum(_, identity) => identity,
            _ => &ListDecl::Atomic,
        }
    }
}

fn item_decl(decl: Option<&Decl>) -> Option<&Decl> {
    match decl {
        Some(Decl { kind: DeclKind::List { item, .. }, .. }) => Some(item),
        _ => None,
    }
}
