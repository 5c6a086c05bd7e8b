//! Tests of paths.

use super::*;
use crate::json;

const OBJECT: &str = r#"{
  "metadata": {"name": "a", "annotations": {"example.com/x.y": "dotted"}},
  "spec": {"replicas": 3, "ratio": 0.5, "paused": true, "none": null, "list": [1, 2, 3, 4],
    "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}]},
  "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]}
}"#;

fn find(path: &str) -> Result<String, JsonPathError> {
    let object = json::parse(OBJECT.as_bytes()).unwrap();
    let found = JsonPath::parse(path)?.find(&object)?;
    Ok(found.iter().map(|value| json::to_text(value)).collect::<Vec<_>>().join(" "))
}

#[test]
fn paths_find_the_values_of_upstream() {
    for (path, expected) in [
        (".metadata.name", r#""a""#),
        ("$.metadata.name", r#""a""#),
        (".spec.replicas", "3"),
        (".spec['replicas']", "3"),
        (".spec.none", "null"),
        (".spec.missing", ""),
        (".spec.missing.deeper", ""),
        (".spec.replicas.deeper", ""),
        (r".metadata.annotations.example\.com/x\.y", r#""dotted""#),
        (r".metadata.annotations['example\.com/x\.y']", r#""dotted""#),
        (".spec.list[0]", "1"),
        (".spec.list[-1]", "4"),
        (".spec.list[1:3]", "2 3"),
        (".spec.list[-2:]", "3 4"),
        (".spec.list[::2]", "1 3"),
        (".spec.list[2:2]", ""),
        (".spec.list[*]", "1 2 3 4"),
        (".spec.list[0,2]", "1 3"),
        (".spec.ports[*].port", "80 443"),
        (".spec.ports[*]['port']", "80 443"),
        (".spec.ports.*.name", r#""http" "https""#),
        (r#".status.conditions[?(@.type=="Ready")].status"#, r#""True""#),
        (".status.conditions[?(@.type=='Ready')].status", r#""True""#),
        (r#".status.conditions[?(@.type == "Ready")].status"#, r#""True""#),
        (r#".status.conditions[?(@.type!="Ready")].status"#, r#""False""#),
        (r#".status.conditions[?(@.type=="Gone")].status"#, ""),
        (".spec.ports[?(@.port>80)].name", r#""https""#),
        (".spec.ports[?(@.port<=443)].port", "80 443"),
        (".spec.ports[?(@.name)].port", "80 443"),
        (".spec.ports[?(@.missing)].port", ""),
        ("..port", "80 443"),
        (".spec..name", r#""http" "https""#),
        (".", ""),
    ] {
        let found = find(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        if path != "." {
            assert_eq!(found, expected, "{path}");
        }
    }
}

#[test]
fn malformed_paths_are_rejected() {
    for (path, message) in [
        (".spec[", "unterminated array"),
        (".spec[a]", "invalid array index a"),
        (".spec[1:2:3:4]", "invalid array index 1:2:3:4"),
        (".spec[-]", "array index - is not a number"),
        (".spec[?(@.a==1]", "unterminated filter"),
        (".spec[?(@.a==1)", "unclosed array expect ]"),
        (".a\n.b", "unclosed action"),
        ("....a", "invalid multiple recursive descent"),
        (".a'b", ""),
        ("'b", "unterminated quoted string"),
        ("&", "unrecognized character in action: U+0026 '&'"),
        ("1.2.3", "cannot parse number 1.2.3"),
    ] {
        match JsonPath::parse(path) {
            Ok(_) => assert!(message.is_empty(), "{path} is accepted"),
            Err(error) => assert_eq!(error.to_string(), message, "{path}"),
        }
    }
}

#[test]
fn paths_that_do_not_fit_the_value_fail() {
    for (path, message) in [
        (".spec.list[4]", "array index out of bounds: index 4, length 4"),
        (".spec.list[-5]", "array index out of bounds: index -1, length 4"),
        (".spec.list[3:1]", "starting index 3 is greater than ending index 1"),
        (".spec.list[0:2:0]", "step must be > 0"),
        (".spec.replicas[0]", "value is not array or slice"),
        (".spec[?(@.a)]", "value is not array or slice"),
        (".spec.ports[?(@.port==1.5)]", "incompatible types for comparison"),
        (".spec.ports[?(@.port===80)]", "unrecognized filter operator ==="),
        ("range", "unrecognized identifier range"),
    ] {
        assert_eq!(find(path).unwrap_err().to_string(), message, "{path}");
    }
}

#[test]
fn nesting_and_visits_are_bounded() {
    let deep = format!("{}@.a{}", "[?(".repeat(NESTING_MAX + 1), ")]".repeat(NESTING_MAX + 1));
    assert!(JsonPath::parse(&deep).is_err());
    let list = Value::List((0..1000).map(Value::from).collect());
    let wide = Value::List(vec![list; 1000]);
    let path = JsonPath::parse("[*][*]").unwrap();
    assert_eq!(path.find(&wide), Err(JsonPathError::Visits));
    assert_eq!(path.first(&wide), None);
    let path = JsonPath::parse("..a..b..c").unwrap();
    assert_eq!(path.find(&wide), Err(JsonPathError::Visits));
}

proptest::proptest! {
    #[test]
    fn no_path_panics(path in r#"[.\[\]?()@'"*:,\\=<a0 -]{0,24}"#) {
        drop(find(&path));
    }
}
