//! Operators, macros and standard functions.

use super::{assert_errors, assert_true, evaluate};

#[test]
fn operators_follow_cel() {
    assert_true(&[
        "1 + 2 * 3 == 7",
        "-7 / 2 == -3 && -7 % 2 == -1",
        "7u / 2u == 3u",
        "1.5 + 1.5 == 3.0",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab'",
        "[1] + [2, 3] == [1, 2, 3]",
        "1 == 1u && 1 == 1.0 && 1u == 1.0",
        "1 < 1.5 && 2u > 1 && 1 <= 1u && 9223372036854775807 < 9223372036854775808.0",
        "1 != 'a' && null == null && null != 0",
        "{'a': 1, 'b': [2]} == {'b': [2], 'a': 1}",
        "'b' > 'a' && b'b' > b'a' && true > false",
        "2 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1} && 2.0 in [1, 2] && 1.5 in [1.5]",
        "[1, 2][1] == 2 && {'a': 1}['a'] == 1 && {1: 'x'}[1u] == 'x' && {'a': {'b': 1}}.a.b == 1",
        "(true ? 1 : 2) == 1 && (false ? 1 / 0 : 2) == 2",
        "duration('1h') + duration('30m') == duration('90m')",
        "timestamp('2026-01-01T00:00:00Z') + duration('1s') > timestamp('2026-01-01T00:00:00Z')",
        "timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z') == duration('24h')",
        "double('NaN') != double('NaN')",
        "-(-5) == 5 && !false",
    ]);
}

#[test]
fn logical_operators_absorb_errors() {
    assert_true(&[
        "true || 1 / 0 == 0",
        "1 / 0 == 0 || true",
        "!(false && 1 / 0 == 0)",
        "!(1 / 0 == 0 && false)",
        "[0, 1].exists(x, 1 / x == 1)",
        "![0, 2].all(x, 2 / x == 2)",
        "!(dyn('a') && false)",
    ]);
    assert_errors(&[
        ("1 / 0 == 0 && true", "division by zero"),
        ("false || dyn(1)", "no such overload"),
        ("[0, 1].all(x, 1 / x == 1)", "division by zero"),
        ("dyn(1) ? 1 : 2", "no such overload"),
    ]);
}

#[test]
fn errors_have_the_texts_of_cel_go() {
    assert_errors(&[
        ("{'a': 1}.b", "no such key: b"),
        ("{'a': 1}['b']", "no such key: b"),
        ("[1][5]", "index out of bounds: 5"),
        ("[1][dyn('x')]", "unsupported index type 'string' in list"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("-(-9223372036854775807 - 1)", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("dyn(1) + 'a'", "no such overload"),
        ("x", "no such attribute(s): x"),
        ("int('a')", "type conversion error from 'string' to 'int'"),
        ("duration('a')", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("int(1e30)", "integer overflow"),
        ("string(b'\\xff')", "invalid UTF-8 in bytes, cannot convert to string"),
        ("optional.none().value()", "optional.none() dereference"),
        ("dyn(1).startsWith('a')", "no such overload: startsWith(int, string)"),
        ("double('NaN') < 1.0", "NaN values cannot be ordered"),
        ("{'a': 1, 'b': 2}.transformMapEntry(k, v, {'x': v})", "insert failed: key x already exists"),
    ]);
}

#[test]
fn macros_iterate_and_bind() {
    assert_true(&[
        "[1, 2, 3].all(x, x > 0) && ![1, 2].all(x, x > 1)",
        "[1, 2, 3].exists(x, x == 2) && [1, 2, 3].exists_one(x, x == 2)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6]",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x != 2) == [1, 3]",
        "{'a': 1, 'b': 2}.all(k, k in ['a', 'b'])",
        "{'a': 1, 'b': 2}.map(k, k) == ['a', 'b']",
        "[1, 2].all(i, v, v == i + 1)",
        "{'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "[5, 6].transformList(i, v, i + v) == [5, 7]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
        "[[1, 2], [3]].map(x, x.map(y, y + 1)) == [[2, 3], [4]]",
        "[[1, 2], [3]].all(x, x.exists(y, y in x))",
        "cel.bind(x, 1 + 1, x * x == 4)",
        "cel.bind(x, 1 / 0, true)",
        "[1].map(x, cel.bind(y, x + 1, [y].map(x, x + y))) == [[4]]",
        "has({'a': 1}.a) && !has({'a': 1}.b)",
    ]);
}

#[test]
fn optionals_chain_and_default() {
    assert_true(&[
        "{'a': 1}.?a.value() == 1 && !{'a': 1}.?b.hasValue()",
        "{'a': {'b': 1}}.?a.b == optional.of(1)",
        "{'a': 1}.?b.c.orValue(5) == 5",
        "{'a': 1}[?'a'].orValue(0) == 1 && [1][?3].or(optional.of(2)).value() == 2",
        "optional.of(1).optMap(x, x + 1).value() == 2",
        "optional.none().optMap(x, x + 1) == optional.none()",
        "optional.of(1).optFlatMap(x, optional.of(x + 1)).value() == 2",
        "optional.ofNonZeroValue('') == optional.none()",
        "[1, ?{'a': 2}.?a, ?{'a': 2}.?b] == [1, 2]",
        "{'x': 1, ?'y': {'a': 2}.?b} == {'x': 1}",
        "[1, 2].first().value() == 1 && [].last() == optional.none()",
        "optional.unwrap([optional.of(1), optional.none()]) == [1]",
    ]);
}

#[test]
fn values_convert() {
    assert_true(&[
        "int('12') == 12 && int(3.9) == 3 && int(5u) == 5 && int(timestamp(7)) == 7",
        "uint('12') == 12u && double('1.5') == 1.5 && double(2) == 2.0",
        "string(1) == '1' && string(1.5) == '1.5' && string(true) == 'true' && string(b'a') == 'a'",
        "string(1000000.0) == '1e+06' && string(duration('90m')) == '5400s'",
        "bool('true') && !bool('f') && bytes('é').size() == 2 && size('é') == 1",
        "timestamp('2026-11-18T01:02:03.5Z') == timestamp('2026-11-18T02:02:03.500+01:00')",
        "string(timestamp('2026-11-18T02:02:03.500+01:00')) == '2026-11-18T02:02:03.5+01:00'",
        "type(1) == int && type('a') == string && type([]) == list && type(int) == type",
        "type(duration('1s')) == google.protobuf.Duration",
        "dyn([1, 'a'])[1] == 'a'",
    ]);
}

#[test]
fn timestamps_have_calendar_fields() {
    assert_true(&[
        "timestamp('2026-11-18T23:04:05.678Z').getFullYear() == 2026",
        "timestamp('2026-11-18T23:04:05Z').getMonth() == 10",
        "timestamp('2026-11-18T23:04:05Z').getDate() == 18",
        "timestamp('2026-11-18T23:04:05Z').getDayOfMonth() == 17",
        "timestamp('2026-11-18T23:04:05Z').getDayOfWeek() == 3",
        "timestamp('2026-01-02T23:04:05Z').getDayOfYear() == 1",
        "timestamp('2026-11-18T23:04:05.678Z').getMilliseconds() == 678",
        "timestamp('2026-11-18T23:04:05Z').getHours('+02:30') == 1",
        "timestamp('2026-07-18T23:04:05Z').getHours('Europe/Berlin') == 1",
        "duration('3h30m').getHours() == 3 && duration('90s').getMinutes() == 1",
    ]);
    assert_errors(&[("timestamp(0).getHours('Nowhere')", "unknown time zone Nowhere")]);
}

#[test]
fn unused_binding_is_not_evaluated() {
    assert_eq!(evaluate("cel.bind(x, [1, 2, 3].map(y, y), 5)").cost, 0);
}
