//! Equality of values, with the identities of lists that a schema declares.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::{ListValue, MapKey, MapValue, Opaque, Value};
use crate::decl::{Decl, DeclKind, ListDecl};
use crate::eval::EvalError;
use crate::runtime_cost::Meter;

/// Comparison of values, whose steps a meter counts.
pub(crate) struct Comparison<'m> {
    meter: &'m mut Meter,
}

impl<'m> Comparison<'m> {
    pub(crate) fn new(meter: &'m mut Meter) -> Self {
        Self { meter }
    }

    /// `true` if the values are equal. Values of different types are not, but numbers compare by their value.
    pub(crate) fn equal(&mut self, a: &Value<'_>, b: &Value<'_>) -> Result<bool, EvalError> {
        self.meter.work(1)?;
        Ok(match (a, b) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) | (Value::Type(a), Value::Type(b)) => {
                self.meter.scan(a.len().min(b.len()))?;
                a == b
            }
            (Value::Bytes(a), Value::Bytes(b)) => {
                self.meter.scan(a.len().min(b.len()))?;
                a == b
            }
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::List(a), Value::List(b)) => self.equal_lists(a, b)?,
            (Value::Map(a), Value::Map(b)) => self.equal_maps(a, b)?,
            (Value::Optional(Some(a)), Value::Optional(Some(b))) => self.equal(a, b)?,
            (Value::Optional(None), Value::Optional(None)) => true,
            (Value::Opaque(a), Value::Opaque(b)) => Opaque::equal(a, b),
            (Value::Object(a), Value::Object(b)) => {
                if a.name != b.name || a.fields.len() != b.fields.len() {
                    return Ok(false);
                }
                for ((a_name, a_value), (b_name, b_value)) in a.fields.iter().zip(&b.fields) {
                    if a_name != b_name || !self.equal(a_value, b_value)? {
                        return Ok(false);
                    }
                }
                true
            }
            _ => a.compare_numbers(b) == Some(Some(Ordering::Equal)),
        })
    }

    fn equal_lists(&mut self, a: &ListValue<'_>, b: &ListValue<'_>) -> Result<bool, EvalError> {
        if a.len() != b.len() {
            return Ok(false);
        }
        match a.identity() {
            ListDecl::Set => return self.equal_sets(a, b),
            ListDecl::Map(keys) => return self.equal_map_lists(a, b, keys),
            ListDecl::Atomic => {}
        }
        for (a, b) in a.iter().zip(b.iter()) {
            if !self.equal(&a?, &b?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lists of the same length are equal as sets if each contains the distinct elements of the other.
    fn equal_sets(&mut self, a: &ListValue<'_>, b: &ListValue<'_>) -> Result<bool, EvalError> {
        Ok(self.contains_all(a, b)? && self.contains_all(b, a)?)
    }

    /// `true` if `list` has an element that equals each of `elements`.
    pub(crate) fn contains_all(
        &mut self,
        list: &ListValue<'_>,
        elements: &ListValue<'_>,
    ) -> Result<bool, EvalError> {
        let set = ElementSet::of(list, self.meter)?;
        for element in elements.iter() {
            if !set.contains(&element?, self)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn equal_map_lists(
        &mut self,
        a: &ListValue<'_>,
        b: &ListValue<'_>,
        keys: &[Box<str>],
    ) -> Result<bool, EvalError> {
        let mut by_key = BTreeMap::new();
        for element in a.iter() {
            let element = element?;
            self.meter.work(1)?;
            by_key.insert(element_key(&element, keys), element);
        }
        let mut seen = BTreeSet::new();
        for element in b.iter() {
            let element = element?;
            let key = element_key(&element, keys);
            match by_key.get(&key) {
                Some(own) if self.equal(own, &element)? => seen.insert(key),
                _ => return Ok(false),
            };
        }
        Ok(seen.len() == by_key.len())
    }

    fn equal_maps(&mut self, a: &MapValue<'_>, b: &MapValue<'_>) -> Result<bool, EvalError> {
        if a.len() != b.len() {
            return Ok(false);
        }
        if let (
            MapValue::Json(a_map, Some(Decl { kind: DeclKind::Object(object), .. })),
            MapValue::Json(b_map, _),
        ) = (a, b)
        {
            // Fields that the schema does not declare compare as JSON.
            for (name, value) in a_map.iter() {
                self.meter.work(1)?;
                let is_declared = object.fields.contains_key(name);
                if !is_declared && b_map.get(name).is_some_and(|other| other != value) {
                    return Ok(false);
                }
            }
        }
        for key in a.keys() {
            let other = if b.contains(&key)? { b.find(&key) } else { None };
            match (a.find(&key), other) {
                (Some(a), Some(b)) => {
                    if !self.equal(&a?, &b?)? {
                        return Ok(false);
                    }
                }
                (None, None) => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Elements of a list, indexed if all of them can be keys of a map.
pub(crate) struct ElementSet<'v, 'a> {
    list: &'v ListValue<'a>,
    keys: Option<BTreeSet<MapKey<'a>>>,
}

impl<'v, 'a> ElementSet<'v, 'a> {
    pub(crate) fn of(list: &'v ListValue<'a>, meter: &mut Meter) -> Result<Self, EvalError> {
        let mut keys = BTreeSet::new();
        for element in list.iter() {
            meter.work(1)?;
            match MapKey::of(&element?) {
                Some(key) => keys.insert(key),
                None => return Ok(Self { list, keys: None }),
            };
        }
        Ok(Self { list, keys: Some(keys) })
    }

    pub(crate) fn contains(
        &self,
        value: &Value<'_>,
        comparison: &mut Comparison<'_>,
    ) -> Result<bool, EvalError> {
        if let Some(keys) = &self.keys {
            comparison.meter.work(1)?;
            return Ok(MapKey::of(value).is_some_and(|key| contains_key(keys, &key)));
        }
        for element in self.list.iter() {
            if comparison.equal(&element?, value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn contains_key<'k>(keys: &BTreeSet<MapKey<'k>>, key: &MapKey<'k>) -> bool {
    keys.contains(key)
}

/// Values of the keys of an element of a list that is a map.
pub(crate) fn element_key<'a>(element: &Value<'a>, keys: &[Box<str>]) -> Vec<Option<MapKey<'a>>> {
    let field = |name: &str| match element {
        Value::Map(map) => map.field(name)?.ok(),
        _ => None,
    };
    keys.iter().map(|name| MapKey::of(&field(name)?)).collect()
}
