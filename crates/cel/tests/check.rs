//! Type checker: verdicts, result types and messages. The expectations are those of cel-go and Kubernetes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_cel::{
    CHECK_ERRORS_MAX, Checked, Decl, DeclKind, Environment, FieldDecl, ListDecl, ObjectDecl, ObjectFields,
    ObjectType, Reference, Type, assign_type_names, check, parse,
};

fn decl(kind: DeclKind) -> Decl {
    Decl::new(kind)
}

fn list(item: Decl) -> Decl {
    decl(DeclKind::List { item: Arc::new(item), list_type: ListDecl::Atomic })
}

fn map(value: Decl) -> Decl {
    decl(DeclKind::Map { value: Arc::new(value), key_size_max: 0 })
}

fn object(fields: &[(&str, Decl)]) -> Decl {
    let fields = fields
        .iter()
        .map(|(name, decl)| ((*name).into(), FieldDecl { decl: decl.clone(), is_required: false }));
    decl(DeclKind::Object(Arc::new(ObjectDecl { name: "object".into(), fields: fields.collect() })))
}

fn self_decl() -> Decl {
    let inner = object(&[("s", decl(DeclKind::String)), ("i", decl(DeclKind::Int))]);
    let root = object(&[
        ("i", decl(DeclKind::Int)),
        ("b", decl(DeclKind::Bool)),
        ("s", decl(DeclKind::String)),
        ("d", decl(DeclKind::Double)),
        ("any", decl(DeclKind::Dyn)),
        ("bytes", decl(DeclKind::Bytes)),
        ("time", decl(DeclKind::Timestamp)),
        ("date", decl(DeclKind::Date)),
        ("wait", decl(DeclKind::Duration)),
        ("list", list(decl(DeclKind::String))),
        ("objects", list(inner.clone())),
        ("map", map(decl(DeclKind::Int))),
        ("o", inner.clone()),
        ("p", inner),
        ("a-b.c/d", decl(DeclKind::String)),
        ("namespace", decl(DeclKind::String)),
        ("under__score", decl(DeclKind::String)),
        ("not an identifier", decl(DeclKind::String)),
    ]);
    assign_type_names(&root, "selfType")
}

fn environment() -> Environment {
    let scoped = Type::from(&self_decl());
    Environment::new()
        .with_bindings()
        .with_variable("self", scoped.clone())
        .with_variable("oldSelf", Type::optional(scoped))
        .with_variable("authorizer", Type::named("kubernetes.authorization.Authorizer"))
        .with_variable("object", Type::Dyn)
        .with_variable("a", Type::optional(Type::map(Type::String, Type::String)))
        .with_variable("m", Type::map(Type::String, Type::String))
        .with_variable("y.z", Type::Int)
        .with_variable("x", Type::Int)
}

fn checked(source: &str) -> Checked {
    check(&environment(), parse(source).unwrap()).unwrap_or_else(|errors| panic!("{source}: {errors}"))
}

fn errors(source: &str) -> String {
    match check(&environment(), parse(source).unwrap()) {
        Ok(checked) => panic!("{source} has the type {}", checked.result_type()),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn expressions_have_the_types_of_cel_go() {
    for (source, ty) in [
        ("null", "null"),
        ("b'ABC'", "bytes"),
        ("12u", "uint"),
        ("[]", "list(dyn)"),
        ("{}", "map(dyn, dyn)"),
        ("[1]", "list(int)"),
        ("[] + [1, 2] + [4]", "list(int)"),
        ("{1: 2u, 2: 3u}", "map(int, uint)"),
        ("{'a': 1}.a", "int"),
        ("false && !true || false ? 2 : 3", "int"),
        ("1.0 + 2.0 * 3.0 - 1.0 / 2.2 != 66.6", "bool"),
        ("b'abc' + b'def'", "bytes"),
        ("null == null && null != null", "bool"),
        ("list == type([1]) && map == type({1: 2u})", "bool"),
        ("1 in dyn([1, 2, 3])", "bool"),
        ("type(null) == null_type && type(type) == type", "bool"),
        ("type(1)", "type(int)"),
        ("[1] + [dyn('string')]", "list(dyn)"),
        ("[dyn('string')] + [1]", "list(dyn)"),
        ("object.b + 1 == object[0]", "bool"),
        ("object.list.filter(e, e > 1.5)", "list(dyn)"),
        ("[1].map(x, [x, x]).map(x, [x, x])", "list(list(list(int)))"),
        ("[{}.map(c, c, c)] + [{}.map(c, c, c)]", "list(list(bool))"),
        ("m.?b", "optional_type(string)"),
        ("type(m.?b) == optional_type", "bool"),
        ("a.b", "optional_type(string)"),
        ("has(object.?b.c)", "bool"),
        ("{?'key': {'a': 'b'}.?value}", "map(string, string)"),
        ("{?'nested': a.b}.nested", "string"),
        ("[?a.b, 'world']", "list(string)"),
        ("[0].exists(x, x != .x)", "bool"),
        ("[{'z': 0}].exists(y, .y.z == y.z)", "bool"),
        ("y.z", "int"),
        ("[{'y': 0}].exists(x, x.y == 0)", "bool"),
        ("1 <= 1.0 && 1u < 1.0 && 1.0 > 1 && 1.0 >= 1u && 1 <= 1u && 1u <= 1", "bool"),
        ("cel.bind(v, 'a', v + v)", "string"),
        ("m.?b.optMap(v, v.size())", "optional_type(int)"),
        ("m.?b.optFlatMap(v, optional.of([v])).orValue([])", "list(string)"),
        ("optional.none().orValue(1)", "int"),
        ("{'a': 1}.transformMap(k, v, [v])", "map(string, list(int))"),
        ("['a'].transformList(i, v, i)", "list(int)"),
        ("['a'].transformMapEntry(i, v, {v: i})", "map(string, int)"),
        ("[1, 2].all(i, v, i == v)", "bool"),
        ("timestamp('2024-01-01T00:00:00Z') - duration('1h')", "timestamp"),
        ("timestamp('2024-01-01T00:00:00Z').getHours('+01:00')", "int"),
        ("dyn(1) + 1", "int"),
        ("dyn(1) + dyn(1)", "dyn"),
    ] {
        assert_eq!(checked(source).result_type().to_string(), ty, "{source}");
    }
}

#[test]
fn libraries_of_kubernetes_are_declared() {
    for (source, ty) in [
        ("url('https://a').getQuery()", "map(string, list(string))"),
        ("'abc'.findAll('a', 1)", "list(string)"),
        ("quantity('1Gi').add(1).sub(quantity('1')).asInteger()", "int"),
        ("sign(quantity('1'))", "int"),
        ("ip('::1').family() + cidr('::/1').ip().family()", "int"),
        ("cidr('10.0.0.0/8').containsIP('10.0.0.1') && ip.isCanonical('::1')", "bool"),
        ("string(ip('::1')) + string(cidr('::/1'))", "string"),
        ("type(ip('::1')) == net.IP", "bool"),
        ("format.dns1123Label().validate('a').orValue([])", "list(string)"),
        ("format.named('date')", "optional_type(kubernetes.NamedFormat)"),
        ("semver('1.0.0', true).isLessThan(semver('2.0.0'))", "bool"),
        ("[1, 2].sum() + ['a'].indexOf('a') + 'a'.lastIndexOf('a')", "int"),
        ("[duration('1s')].max()", "duration"),
        ("[[1], [2]].flatten().distinct().sort().reverse().slice(0, 1)", "list(int)"),
        ("lists.range(3).sortBy(e, -e)", "list(int)"),
        ("['b', 'a'].sortBy(e, e.size()).join(',')", "string"),
        ("[1].first().value() + [1].last().value()", "int"),
        ("sets.contains([1], [2]) && sets.intersects(['a'], [])", "bool"),
        ("'%s %d'.format([dyn('a'), 1])", "string"),
        ("'%d %s %f %s'.format([1, 'abc', 1.0, duration('1m')])", "string"),
        ("strings.quote('a').upperAscii().charAt(0)", "string"),
        (
            "authorizer.group('').resource('pods').namespace('a').fieldSelector('a=b').check('get').allowed()",
            "bool",
        ),
        ("authorizer.serviceAccount('a', 'b').path('/').check('get').reason()", "string"),
        ("[1].includes(1)", "bool"),
    ] {
        assert_eq!(checked(source).result_type().to_string(), ty, "{source}");
    }
}

#[test]
fn fields_have_their_declared_types() {
    for (source, ty) in [
        ("self.i", "int"),
        ("self.date", "timestamp"),
        ("self.wait", "duration"),
        ("self.bytes", "bytes"),
        ("self.any.thing", "dyn"),
        ("self.list", "list(string)"),
        ("self.objects[0].s", "string"),
        ("self.map['a'] + self.map.b", "int"),
        ("self.o", "selfType.o"),
        ("self.objects", "list(selfType.objects.@idx)"),
        ("has(self.o.s) && self.o.?s.orValue('') == ''", "bool"),
        ("oldSelf.o.i.value()", "int"),
        ("self.i >= oldSelf.i.orValue(1)", "bool"),
        ("self.o == oldSelf.o.value()", "bool"),
        ("self.a__dash__b__dot__c__slash__d", "string"),
        ("self.__namespace__ + self.namespace", "string"),
        ("self.under__underscores__score", "string"),
        ("self.objects.all(e, e.i > 0)", "bool"),
        ("type(self.time) == timestamp", "bool"),
        ("self.o != null", "bool"),
    ] {
        assert_eq!(checked(source).result_type().to_string(), ty, "{source}");
    }
}

/// Sources, and messages without their beginning.
const ERRORS: &[(&str, &str)] = &[
    ("foo", "1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^"),
    ("1 + foo", "1:5: undeclared reference to 'foo' (in container '')\n | 1 + foo\n | ....^"),
    ("fun()", "1:4: undeclared reference to 'fun' (in container '')\n | fun()\n | ...^"),
    (
        "'string'.fun()",
        "1:13: undeclared reference to 'fun' (in container '')\n | 'string'.fun()\n | ............^",
    ),
    ("Msg{}", "1:4: undeclared reference to 'Msg' (in container '')\n | Msg{}\n | ...^"),
    ("int{}", "1:4: 'int' is not a message type\n | int{}\n | ...^"),
    ("[].length", "1:3: type 'list(_var0)' does not support field selection\n | [].length\n | ..^"),
    (
        "self.list + [1]",
        "1:11: found no matching overload for '_+_' applied to '(list(string), list(int))'\n | self.list + [1]\n | ..........^",
    ),
    (
        "self.list[1u]",
        "1:10: found no matching overload for '_[_]' applied to '(list(string), uint)'\n | self.list[1u]\n | .........^",
    ),
    (
        "self.map[2]",
        "1:9: found no matching overload for '_[_]' applied to '(map(string, int), int)'\n | self.map[2]\n | ........^",
    ),
    (
        "self.i != null",
        "1:8: found no matching overload for '_!=_' applied to '(int, null)'\n | self.i != null\n | .......^",
    ),
    ("1 < 'a'", "1:3: found no matching overload for '_<_' applied to '(int, string)'\n | 1 < 'a'\n | ..^"),
    (
        "self.b.all(y, y)",
        "1:5: expression of type 'bool' cannot be range of a comprehension (must be list, map, or dynamic)\n | self.b.all(y, y)\n | ....^",
    ),
    (
        "[].map(x, [].map(y, x in y && y in x))",
        "1:33: found no matching overload for '@in' applied to '(list(dyn), dyn)'\n | [].map(x, [].map(y, x in y && y in x))\n | ................................^",
    ),
    (
        "{?'key': 'hi'}",
        "1:10: expected type 'optional_type(string)' but found 'string'\n | {?'key': 'hi'}\n | .........^",
    ),
    ("[?'value']", "1:3: expected type 'optional_type(string)' but found 'string'\n | [?'value']\n | ..^"),
    ("[1, 'a']", "1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^"),
    ("{1: 2, 'a': 3}", "1:8: expected type 'int' but found 'string'\n | {1: 2, 'a': 3}\n | .......^"),
    ("[1, dyn(2)]", "1:8: expected type 'int' but found 'dyn'\n | [1, dyn(2)]\n | .......^"),
    (
        "self.i >= oldSelf.i",
        "1:8: found no matching overload for '_>=_' applied to '(int, optional_type(int))'\n | self.i >= oldSelf.i\n | .......^",
    ),
    (
        "oldSelf.s.orValue(0)",
        "1:18: found no matching overload for 'orValue' applied to 'optional_type(string).(int)'\n | oldSelf.s.orValue(0)\n | .................^",
    ),
    (
        "isIP(cidr('::/1'))",
        "1:5: found no matching overload for 'isIP' applied to '(net.CIDR)'\n | isIP(cidr('::/1'))\n | ....^",
    ),
    (
        "self.o == self.p",
        "1:8: found no matching overload for '_==_' applied to '(selfType.o, selfType.p)'\n | self.o == self.p\n | .......^",
    ),
    (
        "authorizer.allowed()",
        "1:19: found no matching overload for 'allowed' applied to 'kubernetes.authorization.Authorizer.()'\n | authorizer.allowed()\n | ..................^",
    ),
    (
        "url('a').host",
        "1:9: unexpected failed resolution of 'kubernetes.URL'\n | url('a').host\n | ........^",
    ),
    ("self.missing", "1:5: undefined field 'missing'\n | self.missing\n | ....^"),
    ("has(self.o.missing)", "1:4: undefined field 'missing'\n | has(self.o.missing)\n | ...^"),
    ("self.`a-b.c/d`", "1:5: undefined field 'a-b.c/d'\n | self.`a-b.c/d`\n | ....^"),
    ("self.under__score", "1:5: undefined field 'under__score'\n | self.under__score\n | ....^"),
    ("true\n ? 1\n : foo", "3:4: undeclared reference to 'foo' (in container '')\n |  : foo\n | ...^"),
    (
        "Object{spec: 1}",
        "1:7: undeclared reference to 'Object' (in container '')\n | Object{spec: 1}\n | ......^",
    ),
];

#[test]
fn errors_have_the_form_of_cel_go() {
    for (source, message) in ERRORS {
        assert_eq!(errors(source), format!("ERROR: <input>:{message}"), "{source}");
    }
}

#[test]
fn every_error_is_reported_in_order() {
    assert_eq!(
        errors("self.o.missing == self.missing && has(self.o.s)"),
        "ERROR: <input>:1:7: undefined field 'missing'\n | self.o.missing == self.missing && has(self.o.s)\n \
         | ......^\nERROR: <input>:1:23: undefined field 'missing'\n \
         | self.o.missing == self.missing && has(self.o.s)\n | ......................^"
    );
    assert_eq!(
        errors("self.o.all(e, 0)"),
        "ERROR: <input>:1:5: expression of type 'selfType.o' cannot be range of a comprehension (must be list, \
         map, or dynamic)\n | self.o.all(e, 0)\n | ....^\nERROR: <input>:1:15: expected type 'bool' but found \
         'int'\n | self.o.all(e, 0)\n | ..............^"
    );
    // Literals are compared only if the types are correct.
    assert_eq!(errors("[1, 'a', 2.0] == missing").matches("ERROR").count(), 1);
    assert_eq!(errors("1 || 'a' || 2.0").matches("expected type 'bool'").count(), 3);
    let many = format!("[{}]", "foo,".repeat(CHECK_ERRORS_MAX + 5));
    assert!(errors(&many).ends_with("\n5 more errors were truncated"));
}

#[test]
fn bindings_are_unknown_unless_they_are_enabled() {
    let errors = check(&Environment::new(), parse("cel.bind(v, 1, v)").unwrap()).unwrap_err();
    let found: Vec<(usize, String)> =
        errors.errors().iter().map(|error| (error.location().column, error.kind().to_string())).collect();
    let undeclared = |column, name| (column, format!("undeclared reference to '{name}' (in container '')"));
    assert_eq!(
        found,
        [undeclared(1, "cel"), undeclared(9, "bind"), undeclared(10, "v"), undeclared(16, "v")]
    );
}

#[test]
fn literal_arguments_are_validated() {
    for (source, message) in [
        ("duration('1d')", "1:10: invalid duration argument"),
        ("timestamp('2024')", "1:11: invalid timestamp argument"),
        ("duration('1us') < duration('1nns')", "1:28: invalid duration argument"),
        ("timestamp('1000-00-00T00:00:00Z')", "1:11: invalid timestamp argument"),
        ("timestamp('1000-01-01T00:00:00ZZ')", "1:11: invalid timestamp argument"),
        ("timestamp(-62135596801)", "1:11: invalid timestamp argument"),
        ("[1, 'a', false].filter(x, string(x) == 'a')", "1:5: expected type 'int' but found 'string'"),
        ("self.s.matches('(')", "1:16: invalid matches argument"),
        (
            "'%d'.format(['a'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%s'.format([ip('::1')])",
            "1:16: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given net.IP",
        ),
        ("'%s %s'.format(['a'])", "1:15: index 1 out of range"),
        ("'%s'.format(['a', 'b'])", "1:12: too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%'.format([])", "1:11: unexpected end of string"),
        ("'%y'.format([1])", "1:12: could not parse formatting clause: unrecognized formatting clause \"y\""),
        (
            "'%.f'.format([1.0])",
            "1:13: could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \"\": invalid syntax",
        ),
    ] {
        let environment = environment().with_regex_test(|pattern| pattern != "(");
        let errors = check(&environment, parse(source).unwrap()).unwrap_err().to_string();
        assert!(errors.starts_with(&format!("ERROR: <input>:{message}\n")), "{source}\n{errors}");
    }
    for source in ["duration('1h')", "self.s.matches('a+')", "'%%%.3f %x %s'.format([1.0, dyn(2), dyn([3])])"]
    {
        let environment = environment().with_regex_test(|pattern| pattern != "(");
        check(&environment, parse(source).unwrap()).unwrap_or_else(|errors| panic!("{source}: {errors}"));
    }
}

#[test]
fn mutations_construct_objects_and_patches() {
    let environment = environment().with_mutation_types();
    let verdict = |source: &str| {
        check(&environment, parse(source).unwrap())
            .map(|checked| checked.result_type().to_string())
            .map_err(|errors| errors.errors()[0].kind().to_string())
    };
    for (source, expected) in [
        ("Object{spec: Object.spec{replicas: 1}}", Ok("Object")),
        ("Object.spec{a: [1]}", Ok("Object.spec")),
        ("Object{}.spec", Ok("dyn")),
        ("[JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey('a/b'), value: 1}]", Ok("list(JSONPatch)")),
        ("JSONPatch{op: 1}", Err("expected type of field 'op' is 'string' but provided type is 'int'")),
        ("JSONPatch{other: 1}", Err("expected type of field 'other' is '' but provided type is 'int'")),
        ("JSONPatch{?op: 'a'}", Err("expected type 'optional_type(string)' but found 'string'")),
        ("Objectfoo{}", Err("undeclared reference to 'Objectfoo' (in container '')")),
    ] {
        assert_eq!(verdict(source), expected.map(str::to_owned).map_err(str::to_owned), "{source}");
    }
    let errors = check(&environment, parse("JSONPatch{path: 'a', op: (1 + 2)}").unwrap()).unwrap_err();
    assert_eq!(errors.errors()[0].location().column, 24);
}

#[test]
fn references_name_variables_and_overloads() {
    let checked = checked("optional.of(oldSelf).value().o == oldSelf.o && y.z == 1");
    assert!(
        checked.uses_variable("oldSelf") && checked.uses_variable("y.z") && !checked.uses_variable("self")
    );
    let ids = |source: &str| {
        let checked = check(&environment(), parse(source).unwrap()).unwrap();
        match checked.reference(checked.ast().root().id) {
            Some(Reference::Function { overloads, name, is_global }) => {
                let ids: Vec<&str> = overloads.iter().map(|overload| overload.id).collect();
                format!("{name} {is_global} {}", ids.join(","))
            }
            other => panic!("{source}: {other:?}"),
        }
    };
    assert_eq!(ids("1 + 2"), "_+_ true add_int64");
    assert_eq!(ids("optional.of(1)"), "optional.of true optional_of");
    assert_eq!(ids("'a'.size()"), "size false string_size");
    assert_eq!(ids("dyn(1) < 2"), "_<_ true less_int64,less_uint64_int64,less_double_int64");
}

#[test]
fn objects_may_have_fields_of_any_type() {
    let fields = BTreeMap::from([("address".into(), Type::Opaque("net.IP"))]);
    let variables = ObjectType::Fields(Arc::new(ObjectFields { name: "variables".into(), fields }));
    let environment = Environment::new().with_variable("variables", Type::Object(variables));
    let check = |source: &str| check(&environment, parse(source).unwrap());
    assert_eq!(*check("variables.address.family()").unwrap().result_type(), Type::Int);
    assert!(check("variables.other").unwrap_err().to_string().contains("1:10: undefined field 'other'"));
}

#[test]
fn results_of_other_types_are_rejected() {
    let message = |source: &str, allowed: &[Type]| {
        checked(source).require_result_type(allowed).map_err(|error| error.to_string())
    };
    assert_eq!(message("self.b", &[Type::Bool]), Ok(()));
    assert_eq!(message("null", &[Type::String, Type::Null]), Ok(()));
    assert_eq!(message("object.a", &[Type::Bool]), Err("must evaluate to bool but got dyn".to_owned()));
    assert_eq!(
        message("[self.time]", &[Type::String, Type::Null]),
        Err("must evaluate to one of [string null_type] but got list(google.protobuf.Timestamp)".to_owned())
    );
}
