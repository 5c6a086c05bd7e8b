//! Arbitrary rules and objects neither panic nor run without bound.

use setpoint_api::Value;

use super::{errors_of, parse};

const ATOMS: [&str; 16] = [
    "self",
    "oldSelf",
    "self.a",
    "self.l",
    "self.m",
    "self.s",
    "1",
    "'x'",
    "true",
    "null",
    "[1, 2]",
    "{'a': 1}",
    "self.t",
    "self.?a",
    "self.l[0]",
    "-1",
];
const SHAPES: [&str; 16] = [
    "X == Y",
    "X + Y",
    "X && Y",
    "X.all(v, Y)",
    "X.exists(v, v == Y)",
    "X ? Y : X",
    "X.map(v, Y)",
    "X[Y]",
    "has(self.a)",
    "size(X) > Y",
    "X in Y",
    "string(X) + Y",
    "X.matches(Y)",
    "!X",
    "X.filter(v, Y).size() < 2",
    "(X",
];
const VALUES: [&str; 8] =
    ["1", "x", "[1, {a: b}]", "{a: 1, x: [2]}", "null", "true", "1.5", "2020-01-01T00:00:00Z"];
const RULES: usize = 400;

/// Pseudo-random numbers with a fixed seed.
struct Numbers(u64);

impl Numbers {
    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list[usize::try_from(self.0 >> 33).unwrap() % list.len()]
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&ATOMS).to_owned();
        }
        let shape = self.pick(&SHAPES).to_owned();
        let (left, right) = (self.expression(depth - 1), self.expression(depth - 1));
        shape.replace('X', &left).replace('Y', &right)
    }
}

#[test]
fn arbitrary_rules_and_objects_do_not_panic() {
    let schema = "{type: object, properties: {a: {type: integer}, l: {type: array, items: {type: string}}, m: {type: object, additionalProperties: {type: integer}}, s: {x-kubernetes-int-or-string: true}, t: {type: string, format: date-time}}}";
    let schema = parse(schema);
    let mut numbers = Numbers(17);
    let mut violations = 0;
    for turn in 0..RULES {
        let mut rule = parse("{rule: x, optionalOldSelf: true}");
        let map = rule.as_map_mut().unwrap();
        map.insert("rule", Value::from(numbers.expression(1 + turn % 3).as_str()));
        map.insert("messageExpression", Value::from(numbers.expression(1).as_str()));
        let mut schema = schema.clone();
        schema.as_map_mut().unwrap().insert("x-kubernetes-validations", Value::List(vec![rule]));
        let mut object = || {
            let mut object = parse("{}");
            for field in ["a", "l", "m", "s", "t", "z"] {
                object.as_map_mut().unwrap().insert(field, parse(numbers.pick(&VALUES)));
            }
            object
        };
        let (new, old) = (object(), object());
        violations += errors_of(&schema, &new, None).len() + errors_of(&schema, &new, Some(&old)).len();
        violations += errors_of(&schema, &Value::from("x"), Some(&old)).len();
    }
    assert!(violations > RULES / 4, "{violations}");
}
