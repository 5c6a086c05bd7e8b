//! Objects as upstream prints them in messages: as internal types with Go field names in declaration order,
//! absent fields as `null` or zero.
//!
//! This form occurs in errors that show a whole object, and in the diff of a rejected pod update.
//! `internal.txt` lists the types, one per line: the name, then each field as `GoName=jsonName:type`; the
//! JSON name is omitted if it is the Go name with a lower case first letter. Types: `s` string, `b` boolean,
//! `i` number, `q` quantity, `x` int-or-string, `j` an object in its JSON form, `J` an embedded object; `*`
//! for nullable, `[]` lists, `{}` maps.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use super::diff;
use crate::field_error::BadValue;
use crate::json;
use crate::quote::json_string;
use crate::value::Value;

const TYPES: &str = include_str!("internal.txt");

/// Formats an object for a message.
pub(crate) fn shown(value: &Value, ty: &str) -> BadValue {
    let mut printer = GoPrinter { out: String::new(), indent: None };
    printer.value(Some(value), ty, 0);
    BadValue::Json(printer.out.into())
}

/// Formats a list of objects for a message; an empty one is `null`.
pub(crate) fn shown_list(values: &[Value], ty: &str) -> BadValue {
    if values.is_empty() {
        return BadValue::Null;
    }
    let mut printer = GoPrinter { out: String::new(), indent: None };
    printer.list(values, ty, 0);
    BadValue::Json(printer.out.into())
}

/// Formats an object with one field per line, indented by one space per level.
fn pretty(value: &Value, ty: &str) -> String {
    let mut printer = GoPrinter { out: String::new(), indent: Some(1) };
    printer.value(Some(value), ty, 0);
    printer.out
}

/// Difference between two objects, as messages show it.
pub(crate) fn difference(old: &Value, new: &Value, ty: &str) -> String {
    diff::unified(&pretty(old, ty), &pretty(new, ty))
}

struct GoPrinter {
    out: String,
    /// Spaces per level; `None` for a single line.
    indent: Option<usize>,
}

impl GoPrinter {
    fn value(&mut self, value: Option<&Value>, ty: &str, depth: usize) {
        let value = value.filter(|value| !value.is_null());
        if let Some(pointed) = ty.strip_prefix('*') {
            return match value {
                Some(_) => self.value(value, pointed, depth),
                None => self.out.push_str("null"),
            };
        }
        if let Some(item) = ty.strip_prefix("[]") {
            return match value.and_then(Value::as_list).filter(|list| !list.is_empty()) {
                Some(list) => self.list(list, item, depth),
                None => self.out.push_str("null"),
            };
        }
        if let Some(item) = ty.strip_prefix("{}") {
            return self.map(value, item, depth);
        }
        match ty {
            "s" | "q" => {
                let zero = if ty == "q" { "0" } else { "" };
                self.out.push_str(&json_string(value.and_then(Value::as_str).unwrap_or(zero)));
            }
            "b" => {
                self.out.push_str(if value.and_then(Value::as_bool) == Some(true) { "true" } else { "false" })
            }
            "i" => {
                let number = value.and_then(Value::as_i64).unwrap_or_default();
                write!(self.out, "{number}").expect("writing to a String cannot fail");
            }
            "x" => match value {
                Some(value) => self.plain(value, depth),
                None => self.out.push('0'),
            },
            "j" => self.plain(value.unwrap_or(&Value::Null), depth),
            _ => self.object(value, ty, depth),
        }
    }

    fn object(&mut self, value: Option<&Value>, ty: &str, depth: usize) {
        let mut first = true;
        for (name, json_name, ty) in fields(ty) {
            let field = value.and_then(|value| value.get(json_name));
            if *ty == "J" {
                for (key, value) in field.and_then(Value::as_map).into_iter().flat_map(|map| map.iter()) {
                    self.key(key, &mut first, depth);
                    self.plain(value, depth + 1);
                }
                continue;
            }
            self.key(name, &mut first, depth);
            self.value(field, ty, depth + 1);
        }
        self.close('}', first, depth);
    }

    fn map(&mut self, value: Option<&Value>, item: &str, depth: usize) {
        let Some(map) = value.and_then(Value::as_map).filter(|map| !map.is_empty()) else {
            return self.out.push_str("null");
        };
        let mut first = true;
        for (key, value) in map.iter() {
            self.key(key, &mut first, depth);
            self.value(Some(value), item, depth + 1);
        }
        self.close('}', first, depth);
    }

    fn list(&mut self, list: &[Value], item: &str, depth: usize) {
        for (i, value) in list.iter().enumerate() {
            self.out.push(if i == 0 { '[' } else { ',' });
            self.line(depth + 1);
            self.value(Some(value), item, depth + 1);
        }
        self.close(']', list.is_empty(), depth);
    }

    /// Formats a value in its JSON form.
    fn plain(&mut self, value: &Value, depth: usize) {
        match (value, self.indent) {
            (Value::Map(map), Some(_)) => {
                let mut first = true;
                for (key, value) in map.iter() {
                    self.key(key, &mut first, depth);
                    self.plain(value, depth + 1);
                }
                self.close('}', first, depth);
            }
            (Value::List(list), Some(_)) if !list.is_empty() => {
                for (i, value) in list.iter().enumerate() {
                    self.out.push(if i == 0 { '[' } else { ',' });
                    self.line(depth + 1);
                    self.plain(value, depth + 1);
                }
                self.close(']', false, depth);
            }
            (Value::Str(text), _) => self.out.push_str(&json_string(text)),
            _ => self.out.push_str(&json::to_text(value)),
        }
    }

    fn key(&mut self, key: &str, first: &mut bool, depth: usize) {
        self.out.push(if std::mem::take(first) { '{' } else { ',' });
        self.line(depth + 1);
        self.out.push_str(&json_string(key));
        self.out.push_str(if self.indent.is_some() { ": " } else { ":" });
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if empty {
            self.out.push(if bracket == '}' { '{' } else { '[' });
        } else {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }
}

/// A field of a type: Go name, JSON name, and type.
type GoField = (&'static str, String, &'static str);

/// Fields of a type.
fn fields(ty: &str) -> &'static [GoField] {
    static BY_TYPE: LazyLock<BTreeMap<&str, Vec<GoField>>> = LazyLock::new(|| {
        let lines = TYPES.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(ty, fields)| (ty, fields.split(' ').filter_map(field).collect())).collect()
    });
    BY_TYPE.get(ty).map_or(&[], Vec::as_slice)
}

fn field(text: &'static str) -> Option<GoField> {
    let (names, ty) = text.split_once(':')?;
    Some(match names.split_once('=') {
        Some((name, json_name)) => (name, json_name.to_owned(), ty),
        None => {
            let mut letters = names.chars();
            let small = letters.next().into_iter().flat_map(char::to_lowercase);
            (names, small.chain(letters).collect(), ty)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn every_referenced_type_is_listed() {
        for line in TYPES.lines() {
            let (name, _) = line.split_once(' ').unwrap();
            for (field, _, ty) in fields(name) {
                let base = ty.trim_start_matches(['*', '[', ']', '{', '}']);
                let known =
                    matches!(base, "s" | "b" | "i" | "q" | "x" | "j" | "J") || !fields(base).is_empty();
                assert!(known, "{name}.{field}: {ty}");
            }
        }
    }

    #[test]
    fn every_field_of_the_internal_spec_is_in_the_schema() {
        let schemas = crate::schema::builtin();
        for name in ["PodSpec", "Container", "Volume", "Probe", "SecurityContext", "PodSecurityContext"] {
            let of = schemas.definition(&format!("io.k8s.api.core.v1.{name}")).unwrap();
            let mut listed: Vec<String> =
                fields(name).iter().map(|(_, json_name, _)| json_name.clone()).collect();
            let mut known: Vec<String> = of.fields().map(|field| field.name().to_owned()).collect();
            listed.sort();
            known.sort();
            assert_eq!(listed, known, "{name}");
        }
    }

    #[test]
    fn absent_fields_are_written() {
        let port = value(r#"{"containerPort":80,"protocol":"TCP"}"#);
        let text = r#"{"Name":"","HostPort":0,"ContainerPort":80,"Protocol":"TCP","HostIP":""}"#;
        assert_eq!(shown(&port, "ContainerPort").to_string(), text);
        let term = value(r#"{"matchExpressions":[{"key":"a","operator":"In","values":["<"]}]}"#);
        let text =
            r#"{"MatchExpressions":[{"Key":"a","Operator":"In","Values":["\u003c"]}],"MatchFields":null}"#;
        assert_eq!(shown(&term, "NodeSelectorTerm").to_string(), text);
        assert_eq!(shown_list(&[], "PodIP").to_string(), "null");
    }

    #[test]
    fn lines_are_indented_by_one_space() {
        let probe = value(r#"{"httpGet":{"port":"web","path":"/"}}"#);
        let text = pretty(&probe, "Probe");
        assert!(
            text.starts_with("{\n \"Exec\": null,\n \"HTTPGet\": {\n  \"Path\": \"/\",\n  \"Port\": \"web\""),
            "{text}"
        );
        assert!(text.ends_with("\n \"TerminationGracePeriodSeconds\": null\n}"), "{text}");
    }
}
