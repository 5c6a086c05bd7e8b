//! Runtime costs. The expected costs of calls are those of Kubernetes' tests, without the cost of constant lists and
//! maps, which only an unoptimized program has.

use setpoint_api::value;

use super::{LIMIT, evaluate, evaluate_self, evaluate_with};
use crate::{Activation, EvalError, Value};

#[test]
fn calls_cost_as_in_kubernetes() {
    for (source, cost) in [
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii()", 3),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", 9),
        ("strings.quote('ABCDEFGHIJ abcdefghij')", 3),
        ("'abc 123 def 123'.replace('123', '456')", 3),
        ("'abc 123 def 123'.replace('', 'x')", 3),
        ("'abc 123 def 123'.split(' ', 1)", 3),
        ("'abc 123 def 123'.substring(5, 8)", 2),
        ("'  abc 123 def 123  '.trim()", 2),
        ("['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join(' ')", 5),
        ("['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join()", 3),
        ("'abc 123 def 123'.find('123')", 2),
        ("'abc 123 def 123'.findAll('123', 1)", 2),
        ("jsonpatch.escapeKey('abc/def~ abc/def~')", 2),
        ("quantity('12Mi')", 1),
        ("quantity('200M') == quantity('200M')", 3),
        ("quantity('50k').add(20).sub(quantity('100k')).sub(-50000).asInteger() > 0", 7),
        ("format.named('dns1123Subdomain').value().validate('my-name')", 17),
        ("format.named('dns1123Label').value() == format.named('dns1123Label').value()", 5),
        ("sets.contains([1, 2.0, 3u], [1.0, 2u, 3])", 10),
        ("sets.equivalent([1, 2, 3], [3u, 2.0, 1])", 19),
        ("!sets.intersects([1], [1.1, 2u])", 4),
        ("semver('1234.56789012345.67890123456789')", 4),
        ("semver('1.0.0').isLessThan(semver('1.1.0'))", 3),
        ("{'a': 1, 'b': 2}.all(k, v, v > 0)", 11),
        ("{'a': 1, 'b': 2}.exists(k, v, v > 0)", 10),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v < 5, v + 1)", 15),
        ("{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})", 71),
        ("[1, 2].all(i, v, v > 0)", 11),
        ("[1, 2].exists(i, v, v > 0)", 10),
        ("[1, 2].existsOne(i, v, v > 0)", 10),
        ("[1, 2].transformList(i, v, v + 1)", 29),
        ("[1, 2].transformList(i, v, v < 5, v + 1)", 33),
    ] {
        let evaluation = evaluate(source);
        assert!(evaluation.result.is_ok(), "{source}: {:?}", evaluation.result);
        assert_eq!(evaluation.cost, cost, "{source}");
    }
}

#[test]
fn selections_cost_one_each() {
    let object = value!({"a": {"b": 1}, "list": [1, 2], "key": "a", "t": true});
    for (source, cost) in [
        ("self", 1),
        ("self.a.b", 3),
        // Presence tests are free, the selections within them are not.
        ("has(self.a.b)", 2),
        ("has(self.x)", 1),
        ("self.list[0]", 3),
        // The variable at the start of an index or branch is free.
        ("self.list[self.a.b]", 5),
        ("self[self.key]", 3),
        ("self.t ? self.a : self.a.b", 3),
        ("self.a.b in [1, 2]", 3),
        ("self.a.b in []", 0),
        ("self.?x.y", 1),
        ("self.?a.b", 3),
        ("self.list.all(x, x > 0)", 13),
        ("self.list.map(x, 1)", 7),
        ("[self.t, true]", 12),
        ("{'k': self.t}", 32),
        ("duration('1h') == duration('60m')", 1),
    ] {
        assert_eq!(evaluate_self(source, &object, None).cost, cost, "{source}");
    }
}

#[test]
fn evaluation_stops_at_the_limit() {
    let object = value!({"list": [1, 2, 3, 4, 5, 6, 7, 8]});
    let mut activation = Activation::new();
    activation.bind("self", Value::from_json(&object, None).unwrap());
    let source = "self.list.all(x, self.list.all(y, x + y > 0))";
    let full = evaluate_with(source, &activation, LIMIT);
    assert!(full.result.is_ok());
    assert!(evaluate_with(source, &activation, full.cost).result.is_ok());
    let stopped = evaluate_with(source, &activation, full.cost - 1);
    assert_eq!(stopped.result.unwrap_err(), EvalError::CostLimit);
    assert_eq!(EvalError::CostLimit.to_string(), "operation cancelled: actual cost limit exceeded");
    // No operator absorbs the error.
    let absorbed = format!("({source}) || true");
    let stopped = evaluate_with(&absorbed, &activation, 20);
    assert_eq!(stopped.result.unwrap_err(), EvalError::CostLimit);
    assert!(stopped.cost <= 30, "{}", stopped.cost);
}
