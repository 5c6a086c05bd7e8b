//! Names of object types, after their place in a schema.

use std::borrow::Cow;
use std::sync::Arc;

use crate::decl::{Decl, DeclKind, FieldDecl, ObjectDecl};
use crate::types::escape_identifier;

/// Name of an object that has not been named.
const UNNAMED: &str = "object";

/// Returns the declaration with every unnamed object named after its place: `name`, `name.field`, `name.field.@idx`
/// for the items of a list, `name.field.@elem` for the values of a map. Objects named `object`, or not at all, are
/// unnamed. Types are equal by name, so that a schema needs names before it is checked.
#[must_use]
pub fn assign_type_names(decl: &Decl, name: &str) -> Decl {
    let kind = match &decl.kind {
        DeclKind::Object(object) => DeclKind::Object(Arc::new(name_object(object, name))),
        DeclKind::Map { value, key_size_max } => DeclKind::Map {
            value: Arc::new(assign_type_names(value, &format!("{name}.@elem"))),
            key_size_max: *key_size_max,
        },
        DeclKind::List { item, list_type } => DeclKind::List {
            item: Arc::new(assign_type_names(item, &format!("{name}.@idx"))),
            list_type: list_type.clone(),
        },
        other => other.clone(),
    };
    Decl { kind, max_elements: decl.max_elements }
}

fn name_object(object: &ObjectDecl, name: &str) -> ObjectDecl {
    let is_unnamed = object.name.is_empty() || &*object.name == UNNAMED;
    let name = if is_unnamed { name } else { &object.name };
    let fields = object.fields.iter().map(|(field, declared)| {
        let identifier = escape_identifier(field).unwrap_or(Cow::Borrowed(field));
        let decl = assign_type_names(&declared.decl, &format!("{name}.{identifier}"));
        (field.clone(), FieldDecl { decl, is_required: declared.is_required })
    });
    ObjectDecl { name: name.into(), fields: fields.collect() }
}
