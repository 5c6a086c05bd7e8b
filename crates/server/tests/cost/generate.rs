//! Large objects made from the schema: one list or map of a kind filled with many elements.

use setpoint_api::Value;
use setpoint_api::schema::{Field, Shape, Struct, TypeRef};

/// Difference between the elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// All elements are equal.
    Equal,
    /// Distinct keys and names.
    Distinct,
    /// Distinct keys and names that differ at the end only, with all fields set.
    Near,
}

impl Variant {
    pub const ALL: [Variant; 3] = [Variant::Equal, Variant::Distinct, Variant::Near];

    fn text(self, number: usize) -> String {
        match self {
            Variant::Equal => "x000000".into(),
            Variant::Distinct => format!("x{number:06}"),
            Variant::Near => format!("xxxxxxxxxxxxxxxxxxxxxxxxxxxx{number:06}"),
        }
    }

    fn number(self, number: usize) -> i64 {
        if self == Variant::Equal { 1 } else { 1 + number as i64 }
    }
}

/// A list or map of a kind.
#[derive(Clone)]
pub struct Place {
    /// Fields from the object to the list; inside lists and maps, the first element.
    pub path: Vec<Field<'static>>,
    /// Definition and name of the last field, which identify a list that several kinds share.
    pub identity: (String, String),
}

impl Place {
    pub fn text(&self) -> String {
        self.path.iter().map(|field| field.name()).collect::<Vec<_>>().join(".")
    }

    pub fn is_status(&self) -> bool {
        self.path[0].name() == "status"
    }
}

/// All lists and maps of a definition, those within elements too. A definition that contains itself is entered once.
pub fn places(of: Struct<'static>) -> Vec<Place> {
    let mut found = Vec::new();
    walk(of, &mut Vec::new(), &mut vec![of], &mut found);
    found
}

fn walk(
    of: Struct<'static>,
    path: &mut Vec<Field<'static>>,
    within: &mut Vec<Struct<'static>>,
    found: &mut Vec<Place>,
) {
    for field in of.fields() {
        // Field owners are measured by the scenarios.
        if field.name() == "managedFields" {
            continue;
        }
        path.push(field);
        let mut ty = field.ty();
        if let Shape::List(_) | Shape::Map(_) = ty.shape() {
            let identity = (of.definition().to_owned(), field.name().to_owned());
            found.push(Place { path: path.clone(), identity });
        }
        while let Shape::List(inner) | Shape::Map(inner) = ty.shape() {
            ty = inner;
        }
        if let Shape::Struct(inner) = ty.shape()
            && !within.contains(&inner)
        {
            within.push(inner);
            walk(inner, path, within, found);
            within.pop();
        }
        path.pop();
    }
}

/// Fills the place of an object with `len` elements.
pub fn fill(object: &mut Value, place: &Place, variant: Variant, len: usize) {
    let mut value = object;
    let (last, parents) = place.path.split_last().unwrap();
    for field in parents {
        value = descend(value, *field, variant);
    }
    let slot = value.make_map().ensure(last.name(), || Value::Null);
    let ty = last.ty();
    *slot = match ty.shape() {
        Shape::List(item) => {
            let template = slot.as_list().and_then(<[Value]>::first).cloned();
            let keys: Vec<&str> = ty.list_keys().chain(last.merge_key()).collect();
            Value::List((0..len).map(|number| element(item, &template, &keys, variant, number)).collect())
        }
        Shape::Map(item) => {
            let template = slot.as_map().and_then(|map| map.iter().next()).map(|(_, value)| value.clone());
            // A map cannot have equal keys.
            let keyed = if variant == Variant::Equal { Variant::Distinct } else { variant };
            let entry = |number| (keyed.text(number), element(item, &template, &[], variant, number));
            Value::Map((0..len).map(entry).collect())
        }
        _ => unreachable!("a place is a list or a map"),
    };
}

/// The struct in a field; that of the first element in a list or map.
fn descend<'v>(value: &'v mut Value, field: Field<'static>, variant: Variant) -> &'v mut Value {
    let mut value = value.make_map().ensure(field.name(), || Value::Null);
    let mut ty = field.ty();
    loop {
        match ty.shape() {
            Shape::List(item) => {
                if value.as_list().is_none_or(<[Value]>::is_empty) {
                    *value = Value::List(vec![make(item, field, variant, 0, 2)]);
                }
                value = &mut value.as_list_mut().unwrap()[0];
                ty = item;
            }
            Shape::Map(item) => {
                let map = value.make_map();
                if map.is_empty() {
                    map.insert("x000000", make(item, field, variant, 0, 2));
                }
                value = map.iter_mut().next().unwrap().1;
                ty = item;
            }
            _ => break,
        }
    }
    if value.as_map().is_none() {
        *value = make(ty, field, variant, 0, 2);
    }
    value
}

/// An element: a copy of one that the base object has, with other keys, or one made from the schema.
fn element(
    item: TypeRef<'static>,
    template: &Option<Value>,
    keys: &[&str],
    variant: Variant,
    number: usize,
) -> Value {
    let Some(template) = template.clone().filter(|_| variant != Variant::Near) else {
        return make_item(item, variant, number, 2);
    };
    if variant == Variant::Equal {
        return template;
    }
    let mut element = template;
    let vary = |value: &mut Value| match value {
        Value::Int(_) => *value = Value::Int(variant.number(number)),
        Value::Str(text) => text.push_str(&format!("{number:06}")),
        _ => {}
    };
    match &mut element {
        Value::Map(map) => {
            for (key, value) in map.iter_mut() {
                if keys.contains(&key) || matches!(key, "name" | "key" | "ip" | "host" | "uid") {
                    vary(value);
                }
            }
        }
        other => vary(other),
    }
    element
}

fn make(
    item: TypeRef<'static>,
    field: Field<'static>,
    variant: Variant,
    number: usize,
    depth: usize,
) -> Value {
    match (item.shape(), field.values().next()) {
        (Shape::String, Some(first)) => first.into(),
        _ => make_item(item, variant, number, depth),
    }
}

fn make_item(item: TypeRef<'static>, variant: Variant, number: usize, depth: usize) -> Value {
    match item.shape() {
        Shape::Struct(of) => make_struct(of, variant, number, depth),
        Shape::Map(inner) => {
            let entry = (variant.text(number), make_item(inner, variant, number, depth.saturating_sub(1)));
            Value::Map([entry].into_iter().collect())
        }
        Shape::List(inner) => Value::List(vec![make_item(inner, variant, number, depth.saturating_sub(1))]),
        Shape::String => variant.text(number).into(),
        Shape::Bytes => "AAAA".into(),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => variant.number(number).into(),
        Shape::Double => 1.5.into(),
        Shape::Bool => true.into(),
        Shape::Quantity => "1".into(),
        Shape::Time => "2024-01-01T00:00:00Z".into(),
        Shape::MicroTime => "2024-01-01T00:00:00.000000Z".into(),
        Shape::Fields | Shape::Raw | Shape::Any | Shape::SchemaOr(..) => Value::map(),
    }
}

/// Required fields and names; with [`Variant::Near`] and [`Variant::Equal`] all that is no list or struct, and required
/// ones of those.
fn make_struct(of: Struct<'static>, variant: Variant, number: usize, depth: usize) -> Value {
    let mut made = Value::map();
    for field in of.fields() {
        let is_nested = matches!(field.ty().shape(), Shape::Struct(_) | Shape::Map(_) | Shape::List(_));
        let is_named = matches!(field.name(), "name" | "key" | "ip" | "host" | "uid" | "path");
        let is_wanted = field.is_required() || is_named || (variant != Variant::Distinct && !is_nested);
        if !is_wanted || (is_nested && depth == 0) || field.name() == "managedFields" {
            continue;
        }
        let value = make(field.ty(), field, variant, number, depth.saturating_sub(1));
        made.make_map().insert(field.name(), value);
    }
    made
}
