//! Declared types of kinds, as their OpenAPI documents describe them: for the type check of policies.
//!
//! Unlike validation rules, policies see all metadata. Fields whose schema has no type, such as quantities, are not
//! declared.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use setpoint_api::Value as Json;
use setpoint_api::schema::{self, Shape, Struct, TypeRef};
use setpoint_api::structural::Schema;
use setpoint_cel::{Decl, DeclKind, FieldDecl, ListDecl, ObjectDecl, assign_type_names, escape_identifier};

use super::{UNNAMED, declare_with};

/// Metadata of every object.
static OBJECT_META: LazyLock<Decl> = LazyLock::new(|| {
    let meta = schema::builtin().meta("ObjectMeta");
    meta.map_or(Decl::new(DeclKind::Dyn), |of| declare_struct(of, &mut Vec::new()))
});

/// Returns the declared type of a built-in kind; `None` if there is none.
pub(crate) fn declare_built_in(group: &str, version: &str, kind: &str) -> Option<Decl> {
    let of = schema::builtin().kind(group, version, kind)?;
    Some(assign_type_names(&declare_struct(of, &mut Vec::new()), kind))
}

/// Returns the declared type of a custom kind with this `openAPIV3Schema`. One that is not structural declares no
/// fields of its own.
pub(crate) fn declare_custom(kind: &str, props: &Json) -> Option<Decl> {
    let compiled = Schema::compile(props).or_else(|_| {
        let object = Json::Map([("type", Json::from("object"))].into_iter().collect());
        Schema::compile(&object)
    });
    let declared = declare_with(&compiled.ok()?, true, Some(&*OBJECT_META))?;
    Some(assign_type_names(&declared.decl, kind))
}

/// Declares a definition. `outer` are the definitions around it: one that contains itself ends as an object without
/// fields.
fn declare_struct<'a>(of: Struct<'a>, outer: &mut Vec<&'a str>) -> Decl {
    let mut fields = BTreeMap::new();
    if !outer.contains(&of.definition()) {
        outer.push(of.definition());
        for field in of.fields().filter(|field| escape_identifier(field.name()).is_some()) {
            if let Some(decl) = declare_type(field.ty(), outer) {
                fields.insert(field.name().into(), FieldDecl { decl, is_required: field.is_required() });
            }
        }
        outer.pop();
    }
    Decl::new(DeclKind::Object(Arc::new(ObjectDecl { name: UNNAMED.into(), fields })))
}

/// Declares a type; `None` if its schema has no type.
fn declare_type<'a>(ty: TypeRef<'a>, outer: &mut Vec<&'a str>) -> Option<Decl> {
    let kind = match ty.shape() {
        Shape::Struct(of) => return Some(declare_struct(of, outer)),
        Shape::Map(value) => DeclKind::Map { value: Arc::new(declare_type(value, outer)?), key_size_max: 0 },
        Shape::List(item) => {
            DeclKind::List { item: Arc::new(declare_type(item, outer)?), list_type: ListDecl::Atomic }
        }
        Shape::String => DeclKind::String,
        Shape::Bytes => DeclKind::Bytes,
        Shape::Int32 | Shape::Int64 => DeclKind::Int,
        Shape::Double => DeclKind::Double,
        Shape::Bool => DeclKind::Bool,
        Shape::IntOrString => DeclKind::Dyn,
        Shape::Time | Shape::MicroTime => DeclKind::Timestamp,
        Shape::Fields | Shape::Raw => {
            let object = ObjectDecl { name: UNNAMED.into(), fields: BTreeMap::new() };
            DeclKind::Object(Arc::new(object))
        }
        Shape::Quantity | Shape::Any | Shape::SchemaOr(..) => return None,
    };
    Some(Decl::new(kind))
}
