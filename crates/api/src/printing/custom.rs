//! Printer of custom resources: the columns that a definition declares, after the name.
//!
//! A column whose path does not fit an object shows null, as upstream. If one path is malformed, only the columns
//! before it are shown.

use std::sync::OnceLock;

use crate::custom::PrinterColumn;
use crate::go_format::GoFloat;
use crate::json;
use crate::json_path::JsonPath;
use crate::rfc3339;
use crate::time::Time;
use crate::value::{Map, Value};

use super::{AGE, Cell, NAME, cell, human_duration};

/// Columns of one version of a custom resource. Their paths are compiled on first use.
#[derive(Clone, Debug)]
pub struct CustomColumns {
    columns: Vec<PrinterColumn>,
    /// Paths of the columns before the first one that is malformed.
    paths: OnceLock<Vec<JsonPath>>,
}

impl CustomColumns {
    /// Returns printer columns; without any, the age is shown.
    #[must_use]
    pub fn new(columns: &[PrinterColumn]) -> CustomColumns {
        let age = [PrinterColumn {
            name: AGE.name.into(),
            kind: "date".into(),
            description: AGE.description().into(),
            json_path: ".metadata.creationTimestamp".into(),
            ..PrinterColumn::default()
        }];
        let columns = if columns.is_empty() { &age } else { columns };
        CustomColumns { columns: columns.to_vec(), paths: OnceLock::new() }
    }

    /// Columns that are shown, with their paths.
    fn shown(&self) -> impl Iterator<Item = (&PrinterColumn, &JsonPath)> {
        let paths = self.paths.get_or_init(|| {
            let paths = self.columns.iter().map_while(|column| JsonPath::parse(&column.json_path).ok());
            paths.collect()
        });
        self.columns.iter().zip(paths)
    }

    /// Definitions of all columns, as a `Table` has them.
    #[must_use]
    pub fn definitions(&self) -> Vec<Value> {
        let own = self.shown().map(|(column, _)| {
            let described = || {
                format!("Custom resource definition column (in JSONPath format): {}", column.json_path).into()
            };
            let description =
                if column.description.is_empty() { described() } else { column.description.clone() };
            let mut map = Map::with_capacity(5);
            map.insert("name", column.name.clone());
            map.insert("type", column.kind.clone());
            map.insert("format", column.format.clone());
            map.insert("description", String::from(description));
            map.insert("priority", column.priority);
            Value::Map(map)
        });
        std::iter::once(NAME.to_value()).chain(own).collect()
    }

    /// Cells of an object.
    #[must_use]
    pub fn row(&self, object: &Value, now: Time) -> Vec<Cell> {
        let own = self.shown().map(|(column, path)| match path.first(object) {
            Some(value) => custom_cell(&column.kind, &value, now),
            None => Value::Null,
        });
        std::iter::once(Value::from(cell::name(object))).chain(own).collect()
    }
}

/// Converts a value to the type of its column; null if it has another type.
fn custom_cell(kind: &str, value: &Value, now: Time) -> Cell {
    match (kind, value) {
        ("string", value) => printed(value).into(),
        ("integer", Value::Int(number)) => Value::Int(*number),
        // A conversion to an integer truncates, as in Go.
        ("integer", Value::Float(number)) => Value::Int(*number as i64),
        ("number", Value::Int(number)) => Value::Float(*number as f64),
        ("number", Value::Float(number)) => Value::Float(*number),
        ("boolean", Value::Bool(truth)) => Value::Bool(*truth),
        ("date", Value::Str(text)) => match text.as_str() {
            "" | "null" => "<unknown>".into(),
            text => match rfc3339::parse(text) {
                Ok(time) if time == rfc3339::UNSET => "<unknown>".into(),
                Ok(time) => human_duration(time, now).into(),
                Err(_) => "<invalid>".into(),
            },
        },
        _ => Value::Null,
    }
}

/// Prints a value as text: scalars as Go's `%v`, others as JSON with sorted fields.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Str(text) => text.to_string(),
        Value::Float(number) => GoFloat(*number).to_string(),
        value => {
            let mut value = value.clone();
            value.sort_fields();
            json::to_text(&value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printing::table::{
        IncludeObject, ListMeta, TableKind, TableObject, TableOptions, write_table,
    };

    fn column(name: &str, kind: &str, path: &str) -> PrinterColumn {
        PrinterColumn {
            name: name.into(),
            kind: kind.into(),
            json_path: path.into(),
            ..PrinterColumn::default()
        }
    }

    fn row(kind: &str, path: &str, object: &str) -> String {
        let object = json::parse(object.as_bytes()).unwrap();
        let now = rfc3339::parse("2026-11-15T21:00:00Z").unwrap();
        let cells = CustomColumns::new(&[column("C", kind, path)]).row(&object, now);
        json::to_text(&cells[1])
    }

    #[test]
    fn cells_are_converted_to_the_type_of_the_column() {
        for (kind, value, expected) in [
            ("string", r#""x""#, r#""x""#),
            ("string", "1", r#""1""#),
            ("string", "1.5", r#""1.5""#),
            ("string", "true", r#""true""#),
            ("string", "null", r#""\u003cno value\u003e""#),
            ("string", r#"["a",1]"#, r#""[\"a\",1]""#),
            ("string", r#"{"b":1,"a":{}}"#, r#""{\"a\":{},\"b\":1}""#),
            ("integer", "7", "7"),
            ("integer", "7.9", "7"),
            ("integer", r#""7""#, "null"),
            ("integer", "null", "null"),
            ("number", "7", "7"),
            ("number", "7.5", "7.5"),
            ("number", "true", "null"),
            ("boolean", "false", "false"),
            ("boolean", r#""false""#, "null"),
            ("date", r#""2026-11-15T20:55:00Z""#, r#""5m""#),
            ("date", r#""yesterday""#, r#""\u003cinvalid\u003e""#),
            ("date", r#""""#, r#""\u003cunknown\u003e""#),
            ("date", "5", "null"),
        ] {
            assert_eq!(row(kind, ".v", &format!(r#"{{"v":{value}}}"#)), expected, "{kind} {value}");
        }
        let conditions =
            r#"{"status":{"conditions":[{"type":"A","status":"no"},{"type":"Ready","status":"yes"}]}}"#;
        let path = r#".status.conditions[?(@.type=="Ready")].status"#;
        assert_eq!(row("string", path, conditions), r#""yes""#);
        assert_eq!(row("string", ".status.conditions[2].status", conditions), "null");
        assert_eq!(row("string", ".status.conditions[*].status", conditions), r#""no""#);
        assert_eq!(row("string", ".spec.missing", conditions), "null");
    }

    #[test]
    fn age_is_shown_without_columns() {
        let columns = CustomColumns::new(&[]);
        let definitions = columns.definitions();
        let shown: Vec<(&str, &str)> =
            definitions.iter().map(|column| (column.str_at(&["name"]), column.str_at(&["type"]))).collect();
        assert_eq!(shown, [("Name", "string"), ("Age", "date")]);
        assert!(definitions[1].str_at(&["description"]).starts_with("CreationTimestamp is a timestamp"));
    }

    #[test]
    fn columns_after_a_malformed_path_are_left_out() {
        let columns =
            [column("A", "string", ".a"), column("B", "string", ".b["), column("C", "string", ".c")];
        let definitions = CustomColumns::new(&columns).definitions();
        let names: Vec<&str> = definitions.iter().map(|column| column.str_at(&["name"])).collect();
        assert_eq!(names, ["Name", "A"]);
        let described = "Custom resource definition column (in JSONPath format): .a";
        assert_eq!(definitions[1].str_at(&["description"]), described);
    }

    #[test]
    fn table_has_a_row_for_each_object() {
        let columns = CustomColumns::new(&[column("A", "integer", ".a")]);
        let objects: Vec<Value> = ["x", "y"]
            .iter()
            .map(|name| {
                json::parse(format!(r#"{{"metadata":{{"name":"{name}"}},"a":1}}"#).as_bytes()).unwrap()
            })
            .collect();
        let options =
            TableOptions { include: IncludeObject::None, with_columns: false, ..TableOptions::default() };
        let print = |objects: &[Value]| {
            let mut out = Vec::new();
            let meta = ListMeta { resource_version: "9", ..ListMeta::default() };
            let rows: Vec<TableObject<'_>> = objects.iter().map(TableObject::from).collect();
            write_table(TableKind::Custom(&columns), &rows, meta, options, Time::from_seconds(0), &mut out);
            String::from_utf8(out).unwrap()
        };
        let head = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"columnDefinitions":null,"rows":"#;
        let rows = r#"[{"cells":["x",1],"object":null},{"cells":["y",1],"object":null}]}"#;
        assert_eq!(print(&objects), format!("{head}{rows}"));
        assert_eq!(print(&[]), format!("{head}[]}}"));
    }
}
