//! Environment of an expression: variables and the types that it may construct.

use std::collections::BTreeMap;

use crate::declarations::{self, FunctionDecl};
use crate::types::{ObjectType, Type, find_declared_field, find_reserved_field};

/// Type of JSON patches in mutations.
const JSON_PATCH: &str = "JSONPatch";

/// Type of objects in mutations; `Object.spec` and so on are the types of its fields.
const OBJECT: &str = "Object";

/// Test of a regular expression: `true` if it compiles.
pub type RegexTest = fn(&str) -> bool;

/// Variables and options of expressions. The functions of the libraries are shared by all environments.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<Box<str>, Type>,
    has_mutation_types: bool,
    has_bindings: bool,
    is_compatible: bool,
    regex_test: Option<RegexTest>,
}

/// Field of an object.
pub(super) enum FieldLookup {
    /// Field with a type.
    Found(Type),
    /// Field of a JSON patch that does not exist: it has no type, but cel-go finds it.
    Untyped,
    /// Object without this field.
    Undefined,
    /// Object without known fields.
    Unresolved,
}

impl Environment {
    /// Returns an environment with the functions of the libraries and without variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable. The types of declarations are `Type::from(&decl)`.
    #[must_use]
    pub fn with_variable(mut self, name: &str, ty: impl Into<Type>) -> Self {
        self.variables.insert(name.into(), ty.into());
        self
    }

    /// Adds the types of mutations: `Object`, `Object.spec` and so on with any fields, `JSONPatch`, and the function
    /// `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_mutation_types(mut self) -> Self {
        self.has_mutation_types = true;
        self
    }

    /// Adds the macro `cel.bind`, which Kubernetes enables for device selectors, but neither for validation rules nor
    /// for admission policies.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.has_bindings = true;
        self
    }

    /// Leaves out the functions that the release before this one does not have. Upstream rejects them in expressions
    /// that are written for the first time, so that an older server can read what is stored.
    #[must_use]
    pub fn with_compatible_functions(mut self) -> Self {
        self.is_compatible = true;
        self
    }

    /// Adds a test of the regular expressions that are literal arguments of `matches`.
    #[must_use]
    pub fn with_regex_test(mut self, test: RegexTest) -> Self {
        self.regex_test = Some(test);
        self
    }

    pub(super) fn has_bindings(&self) -> bool {
        self.has_bindings
    }

    pub(super) fn regex_test(&self) -> Option<RegexTest> {
        self.regex_test
    }

    /// Returns the type of a variable, or of a type as a value.
    pub(super) fn find_variable(&self, name: &str) -> Option<Type> {
        self.variables.get(name).cloned().or_else(|| self.find_type(name).map(Type::type_of))
    }

    /// Returns the type that a name denotes.
    pub(super) fn find_type(&self, name: &str) -> Option<Type> {
        match name {
            // Kubernetes' provider of declared types knows these names besides those of protobuf.
            "timestamp" => Some(Type::Timestamp),
            "duration" => Some(Type::Duration),
            _ if self.is_mutation_type(name) => Some(Type::named(name)),
            _ => declarations::find_type(name),
        }
    }

    fn is_mutation_type(&self, name: &str) -> bool {
        let is_object =
            name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.has_mutation_types && (name == JSON_PATCH || is_object)
    }

    pub(super) fn find_function(&self, name: &str) -> Option<&'static FunctionDecl> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let of_mutations =
            if self.has_mutation_types { declarations::find_mutation_function(name) } else { None };
        if self.is_compatible && declarations::NEWEST_FUNCTIONS.contains(&name) {
            return None;
        }
        of_mutations.or_else(|| declarations::find_function(name))
    }

    pub(super) fn find_field(&self, object: &ObjectType, field: &str) -> FieldLookup {
        let found = match object {
            ObjectType::Declared(decl) => {
                let declared = find_declared_field(decl, field).or_else(|| find_reserved_field(decl, field));
                declared.map(|field| Type::from(&field.decl))
            }
            ObjectType::Fields(fields) => fields.fields.get(field).cloned(),
            ObjectType::Named(name) if **name == *JSON_PATCH && self.has_mutation_types => match field {
                "op" | "path" | "from" => Some(Type::String),
                "value" => Some(Type::Dyn),
                _ => return FieldLookup::Untyped,
            },
            ObjectType::Named(name) if self.is_mutation_type(name) => Some(Type::Dyn),
            ObjectType::Named(_) => return FieldLookup::Unresolved,
        };
        found.map_or(FieldLookup::Undefined, FieldLookup::Found)
    }
}
