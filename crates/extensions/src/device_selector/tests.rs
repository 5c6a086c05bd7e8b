//! Selectors of devices: results, costs and errors as upstream's.

use setpoint_api::json;

use super::*;

/// Attributes and capacities of the device that most cases select.
fn device() -> Device<'static> {
    let attributes = [
        ("bool", AttributeValue::Bool(true)),
        ("int", AttributeValue::Int(1)),
        ("string", AttributeValue::String("fish")),
        ("version", AttributeValue::Version("1.0.0")),
        ("services", AttributeValue::String("some_example_value")),
        ("other.example.com/name", AttributeValue::Bool(true)),
    ];
    let capacity = [("memory", Quantity::parse("1Mi").unwrap())];
    Device::new("dra.example.com", false, attributes, capacity).unwrap()
}

/// Expression, whether it matches, and its estimated cost in Kubernetes.
const MATCHES: &[(&str, bool, u64)] = &[
    ("true", true, 0),
    ("false", false, 0),
    (r#""no-such-domain" in device.attributes"#, false, 3),
    (r#""dra.example.com" in device.attributes"#, true, 3),
    (r#"device.driver == """#, false, 2),
    (r#"device.driver == "dra.example.com""#, true, 4),
    (r#"device.attributes["dra.example.com"].bool"#, true, 4),
    (r#"device.attributes["dra.example.com"]["bool"]"#, true, 4),
    (r#"cel.bind(dra, device.attributes["dra.example.com"], dra.bool)"#, true, 15),
    (r#"device.attributes["other.example.com"].name"#, true, 4),
    (r#"device.attributes["dra.example.com"].int > 0"#, true, 5),
    (r#"device.attributes["dra.example.com"].string == "fish""#, true, 5),
    (r#"device.attributes["dra.example.com"].version.isGreaterThan(semver("0.0.1"))"#, true, 6),
    (r#"device.capacity["dra.example.com"].memory.isGreaterThan(quantity("1Ki"))"#, true, 6),
    (
        r#""memory" in device.capacity["dra.example.com"] && device.capacity["dra.example.com"].memory.isGreaterThan(quantity("1Ki"))"#,
        true,
        10,
    ),
    (
        r#"!("name" in device.capacity["no-such-domain"]) || device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))"#,
        true,
        11,
    ),
    (r#"device.attributes.exists_one(x, x == "dra.example.com")"#, true, 164),
    (r#"device.attributes["dra.example.com"].exists_one(x, x == "services")"#, true, 133),
    (r#"device.attributes["dra.example.com"].services.split("example").size() >= 2"#, true, 19),
    (r#"device.attributes["dra.example.com"].services.matches("[^a]?som")"#, true, 18),
    (r#"device.capacity["dra.example.com"].exists_one(x, x == "memory")"#, true, 133),
    ("device.allowMultipleAllocations == true", false, 3),
    (r#"has(device.attributes["dra.example.com"].int)"#, true, 3),
    (r#"device.attributes["dra.example.com"].?absent.orValue(false)"#, false, 5),
];

#[test]
fn results_and_costs_are_those_of_kubernetes() {
    let device = device();
    let mut faults = Vec::new();
    for (source, is_match, cost) in MATCHES {
        let selector = DeviceSelector::compile(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(selector.evaluate(&device).0, Ok(*is_match), "{source}");
        assert!(selector.evaluate(&device).1 <= *cost, "{source}");
        if selector.max_cost() != *cost {
            faults.push(format!("{source}: {} instead of {cost}", selector.max_cost()));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn invalid_selectors_do_not_compile() {
    for (source, expected) in [
        ("?!", "compilation failed: ERROR: <input>:1:1: Syntax error"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.unknown == 1", "undefined field 'unknown'"),
        (
            r#"device.attributes["dra.example.com"].ids.exists(id, id == 1)"#,
            "expression of type 'any' cannot be range of a comprehension",
        ),
        (r#"device.capacity["dra.example.com"].memory > 1"#, "found no matching overload for '_>_'"),
    ] {
        let error = DeviceSelector::compile(source).unwrap_err().to_string();
        assert!(error.contains(expected), "{source}: {error}");
    }
}

#[test]
fn runtime_errors_have_the_texts_of_kubernetes() {
    let hint = "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields";
    let absent = format!("no such key: noSuchAttr. {hint}");
    let expensive = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(x, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(y, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z2, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z3, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z4, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z5, int('1'.find('[0-9]*')) < 100)))))))";
    for (source, expected) in [
        (r#"device.attributes["no-such-domain"].noSuchAttr.isGreaterThan(quantity("0"))"#, absent.as_str()),
        (r#"device.attributes["no-such-domain"]["noSuchAttr"].isGreaterThan(quantity("0"))"#, &absent),
        (
            r#"device.attributes["dra.example.com"].int"#,
            "CEL result of type int could not be converted to bool: type conversion error from 'int' to 'bool'",
        ),
        (expensive, "operation cancelled: actual cost limit exceeded"),
    ] {
        let selector = DeviceSelector::compile(source).unwrap();
        assert_eq!(selector.evaluate(&device()).0.unwrap_err(), expected, "{source}");
    }
    let error = Device::new("d", false, [("v", AttributeValue::Version("1"))], []).unwrap_err();
    assert_eq!(error, "attribute v: parse semantic version: No Major.Minor.Patch elements found");
    assert_eq!(DeviceSelector::compile(expensive).unwrap().max_cost(), 85_555_551);
}

fn errors_of(kind: &str, new: &str, old: Option<&str>) -> Vec<String> {
    let mut errors = ErrorList::new();
    let old = old.map(|old| json::parse(old.as_bytes()).unwrap());
    validate_selectors(kind, &json::parse(new.as_bytes()).unwrap(), old.as_ref(), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn selectors_are_compiled_when_they_are_written() {
    let selector = |source: &str| format!(r#"[{{"cel": {{"expression": "{source}"}}}}]"#);
    let class = |source: &str| format!(r#"{{"spec": {{"selectors": {}}}}}"#, selector(source));
    let invalid = r#"spec.selectors[0].cel.expression: Invalid value: "1": must evaluate to bool or the unknown type, not int"#;
    assert_eq!(errors_of("DeviceClass", &class("1"), None), [invalid]);
    assert_eq!(errors_of("DeviceClass", &class("1"), Some(&class("2"))), [invalid]);
    assert_eq!(errors_of("DeviceClass", &class("1"), Some(&class("1"))), [""; 0]);
    let list = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let mut expensive = "true".to_owned();
    for name in ["a", "b", "c", "d", "e", "f"] {
        expensive = format!("{list}.all({name}, {expensive})");
    }
    assert_eq!(
        errors_of("DeviceClass", &class(&expensive), None),
        ["spec.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit"]
    );
    let spec = format!(
        r#"{{"devices": {{"requests": [{{"name": "a", "exactly": {{"selectors": {}}}}},
        {{"name": "b", "firstAvailable": [{{"name": "c", "selectors": {}}}, {{"name": "d", "selectors": {}}}]}}]}}}}"#,
        selector("true"),
        selector("false"),
        selector("1")
    );
    let claim = format!(r#"{{"spec": {spec}}}"#);
    let text = "cel.expression: Invalid value: \"1\": must evaluate to bool or the unknown type, not int";
    let at = "spec.devices.requests[1].firstAvailable[1].selectors[0]";
    assert_eq!(errors_of("ResourceClaim", &claim, None), [format!("{at}.{text}")]);
    assert_eq!(errors_of("ResourceClaim", &claim, Some(&claim)), [""; 0]);
    let template = format!(r#"{{"spec": {{"spec": {spec}}}}}"#);
    assert_eq!(errors_of("ResourceClaimTemplate", &template, None), [format!("spec.{at}.{text}")]);
    assert_eq!(errors_of("Pod", &claim, None), [""; 0]);
}
