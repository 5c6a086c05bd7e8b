//! Random objects of a definition, drawn from a seed.

use crate::schema::{SchemaOr, Shape, Struct, TypeRef};
use crate::value::{Map, Value};

/// Seeded random generator.
pub(crate) struct RandomObjects(pub(crate) u64);

impl RandomObjects {
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    /// Generates an object with nearly every field at the root and fewer further down.
    pub(crate) fn object(&mut self, schema: Struct<'_>, depth: u64) -> Value {
        let mut map = Map::new();
        for field in schema.fields().filter(|field| field.number().is_some()) {
            if depth < 9 && self.below(depth * depth / 2 + 5) < 4 {
                map.insert(field.name(), self.value(field.ty(), depth + 1));
            }
        }
        Value::Map(map)
    }

    fn value(&mut self, ty: TypeRef<'_>, depth: u64) -> Value {
        match ty.shape() {
            Shape::Struct(schema) => self.object(schema, depth),
            Shape::Map(item_type) => {
                let keys = self.below(4);
                Value::Map((0..keys).map(|i| (format!("k{i}"), self.value(item_type, depth + 1))).collect())
            }
            Shape::List(item_type) => {
                // An empty list that is a message of its own decodes as null.
                let count = self.below(3) + u64::from(ty.is_wrapped());
                Value::List((0..count).map(|_| self.value(item_type, depth + 1)).collect())
            }
            Shape::String => {
                self.one(&["", "a", "text that takes more than twenty-four bytes", "ä€😀"]).into()
            }
            Shape::Bytes => self.one(&["", "YQ==", "YWI=", "YWJj", "//79/A=="]).into(),
            Shape::Int32 => self.one(&[0, 1, -1, 300, i32::MAX, i32::MIN]).into(),
            Shape::Int64 => self.one(&[0, 1, -1, 1 << 40, i64::MAX, i64::MIN]).into(),
            Shape::Double => self.one(&[3.5, -0.25, 1e300]).into(),
            Shape::Bool => (self.below(2) == 0).into(),
            Shape::IntOrString => [Value::Int(-7), "25%".into()][self.below(2) as usize].clone(),
            Shape::Quantity => self.one(&["0", "1Gi", "100m", "1500"]).into(),
            Shape::Time => {
                self.one(&["2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]).into()
            }
            Shape::MicroTime => {
                self.one(&["2026-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.999999Z"]).into()
            }
            Shape::Fields => Map::from_iter([("f:metadata", Value::map())]).into(),
            Shape::Raw => Map::from_iter([("replicas", Value::from(0.5)), ("x", Value::Null)]).into(),
            Shape::Any => {
                [Value::Null, 1.into(), "x".into(), vec![true].into()][self.below(4) as usize].clone()
            }
            Shape::SchemaOr(or, schema) => match (or, self.below(2)) {
                (SchemaOr::Bool, 0) => Value::Bool(self.below(2) == 0),
                (SchemaOr::Array, 0) => vec![self.value(schema, depth + 1), Value::map()].into(),
                (SchemaOr::Strings, 0) => vec!["a", ""].into(),
                _ => self.value(schema, depth + 1),
            },
        }
    }
}
