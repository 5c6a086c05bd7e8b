//! Rules and the objects that violate them.

use setpoint_api::Value;

use super::{errors_of, mismatch, parse};

const OBJECTS: &str = include_str!("objects.txt");
const VALID: &str = include_str!("valid.txt");

/// Objects have exactly the errors of their case.
#[test]
fn objects_have_the_expected_errors() {
    let (mut count, mut wrong) = (0, String::new());
    for case in OBJECTS.split("\n\n").filter(|case| !case.trim().is_empty()) {
        let mut lines = case.trim().lines();
        let name = lines.next().unwrap();
        let (mut schema, mut object, mut old, mut expected) = (None, None, None, Vec::new());
        for line in lines {
            let (word, text) = line.split_once(' ').unwrap();
            match word {
                "schema" => schema = Some(parse(text)),
                "object" => object = Some(parse(text)),
                "old" => old = Some(parse(text)),
                "!" => expected.push(text),
                _ => panic!("{name}: {line}"),
            }
        }
        let found = errors_of(&schema.unwrap(), &object.unwrap(), old.as_ref());
        wrong.extend(mismatch(name, &found, &expected));
        count += 1;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 30, "{count}");
}

/// Rules of `valid.txt` are true: a schema of properties, an object, and rules, one per line.
#[test]
fn valid_objects_have_no_errors() {
    let (mut count, mut wrong) = (0, String::new());
    for case in VALID.split("\n\n").filter(|case| !case.trim().is_empty()) {
        let mut lines = case.trim().lines();
        let name = lines.next().unwrap();
        let properties = parse(lines.next().unwrap());
        let object = parse(lines.next().unwrap());
        for rule in lines {
            let mut schema = parse("{type: object}");
            let map = schema.as_map_mut().unwrap();
            map.insert("properties", properties.clone());
            let mut validation = parse("{rule: x}");
            validation.as_map_mut().unwrap().insert("rule", Value::from(rule));
            map.insert("x-kubernetes-validations", Value::List(vec![validation]));
            wrong.extend(mismatch(&format!("{name}: {rule}"), &errors_of(&schema, &object, None), &[]));
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 60, "{count}");
}
