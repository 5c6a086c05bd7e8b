//! Estimated costs. The expectations are those of Kubernetes' and cel-go's tests.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use setpoint_cel::{
    CostEstimate, Decl, DeclKind, Environment, FieldDecl, ListDecl, ObjectDecl, Type, check, estimate, parse,
};

/// Largest request of Kubernetes, in bytes.
const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// Declaration and the size of its shortest value in JSON, in bytes.
type Schema = (Decl, u64);

fn scalar(kind: DeclKind) -> Schema {
    let (bytes, max_elements) = match kind {
        DeclKind::Bool => (4, None),
        DeclKind::String | DeclKind::Bytes => (2, Some(REQUEST_BYTES_MAX - 2)),
        DeclKind::Dyn => (1, Some(REQUEST_BYTES_MAX - 2)),
        DeclKind::Duration => (3, None),
        DeclKind::Date => (12, None),
        DeclKind::Timestamp => (21, None),
        _ => (1, None),
    };
    (Decl { kind, max_elements }, bytes)
}

/// A string of at most `max` characters of up to 4 bytes.
fn string(max: Option<u64>) -> Schema {
    let (decl, bytes) = scalar(DeclKind::String);
    (Decl { max_elements: max.map(|max| max * 4).or(decl.max_elements), ..decl }, bytes)
}

fn list(item: Schema, max: Option<u64>) -> Schema {
    let max_elements = Some(max.unwrap_or((REQUEST_BYTES_MAX - 2) / (item.1 + 1)));
    let kind = DeclKind::List { item: Arc::new(item.0), list_type: ListDecl::Atomic };
    (Decl { kind, max_elements }, 2)
}

fn map(value: Schema, max: Option<u64>) -> Schema {
    let max_elements = Some(max.unwrap_or((REQUEST_BYTES_MAX - 2) / (value.1 + 6)));
    (Decl { kind: DeclKind::Map { value: Arc::new(value.0), key_size_max: 0 }, max_elements }, 2)
}

/// An object; the first field is required.
fn object(fields: &[(&str, Schema)]) -> Schema {
    let bytes = 2 + fields.first().map_or(0, |(name, (_, bytes))| name.len() as u64 + bytes + 4);
    let fields = fields.iter().enumerate().map(|(index, (name, (decl, _)))| {
        ((*name).into(), FieldDecl { decl: decl.clone(), is_required: index == 0 })
    });
    let kind = DeclKind::Object(Arc::new(ObjectDecl { name: "selfType".into(), fields: fields.collect() }));
    (Decl::new(kind), bytes)
}

fn cost(rule: &str, root: &Decl) -> CostEstimate {
    let ty = Type::from(root);
    let environment = Environment::new().with_variable("self", ty.clone()).with_variable("oldSelf", ty);
    let checked =
        check(&environment, parse(rule).unwrap()).unwrap_or_else(|errors| panic!("{rule}: {errors}"));
    estimate(&checked, Some(root))
}

/// Rule, schema for a bound, cost without the bound (0 if it does not matter), bound, and cost with it.
type Row = (&'static str, fn(Option<u64>) -> Schema, u64, u64, u64);

const SCALARS: &[Row] = &[
    ("self.all(x, true)", |max| list(scalar(DeclKind::Double), max), 4_718_591, 10, 32),
    ("self.all(x, true)", |max| list(string(None), max), 3_145_727, 20, 62),
    ("self.all(x, true)", |max| list(scalar(DeclKind::Bool), max), 1_887_437, 5, 17),
    ("self.all(x, true)", |max| list(scalar(DeclKind::Duration), max), 2_359_295, 5, 17),
    ("self.all(x, true)", |max| list(scalar(DeclKind::Date), max), 725_936, 15, 47),
    ("self.all(x, true)", |max| list(scalar(DeclKind::Timestamp), max), 428_963, 25, 77),
    ("self.all(x, true)", |max| map(scalar(DeclKind::Double), max), 1_348_169, 10, 32),
    ("self.all(x, true)", |max| map(string(None), max), 1_179_647, 3, 11),
    ("has(self.x)", |max| map(string(None), max), 1, 550, 1),
    ("self[1] == 0.0", |max| list(scalar(DeclKind::Double), max), 2, 5000, 2),
    ("self[1] == self[1]", |max| list(string(None), max), 314_577, 8, 314_577),
    ("self[0] == 5", |max| list(scalar(DeclKind::Dyn), max), 3, 10, 3),
    ("self[0].getHours() == 2", |max| list(scalar(DeclKind::Duration), max), 4, 525, 4),
    ("self['x'] == 0.0", |max| map(scalar(DeclKind::Double), max), 2, 0, 2),
    ("self['a'] == self['b']", |max| map(scalar(DeclKind::Timestamp), max), 8, 7, 8),
    ("self['c'] == self['d']", |max| map(scalar(DeclKind::Duration), max), 8, 42, 8),
    ("oldSelf.size() == self.size()", |max| map(scalar(DeclKind::Int), max), 5, 10, 5),
    ("self.all(x, self.all(y, true))", |max| list(scalar(DeclKind::Double), max), 0, 10, 352),
    ("self.all(x, self.all(y, self.all(z, true)))", |max| list(scalar(DeclKind::Double), max), 0, 10, 3552),
    ("self.all(x, x == 0.0)", |max| list(scalar(DeclKind::Double), max), 6_291_454, 6_291_456, 25_165_826),
    ("self.all(x, x.contains(self[x]))", |max| map(string(max), max), 2_752_507, 10, 72),
];

const STRINGS: &[Row] = &[
    ("self.contains('test')", string, 314_574, 10, 5),
    ("self.startsWith('test')", string, 2, 15, 2),
    ("size(self + 'hello') > size('hello')", string, 314_578, 4, 7),
    ("self.matches('x')", string, 314_574, 50, 22),
    ("''.matches('(((((((((())))))))))[0-9]')", string, 7, 10, 7),
    ("self.matches('')", string, 1, 100, 1),
    ("self == 'x'", string, 2, 0, 1),
    ("self.find('[0-9]+') == ''", string, 629_147, 10, 11),
    ("self.lowerAscii() == 'lower!'", string, 314_575, 10, 6),
    ("self.join(' ') == 'aa bb'", |max| list(string(max), max), 329_853_068_905, 10, 43),
    ("self.isSorted() == true", |max| list(string(max), max), 329_854_432_052, 10, 52),
    (
        "self.str.replace(self.before, self.after) == 'does not matter'",
        |max| object(&[("str", string(max)), ("before", string(Some(2))), ("after", string(Some(4)))]),
        629_154,
        4,
        12,
    ),
    (
        "self.str.split(self.separator) == []",
        |max| object(&[("str", string(max)), ("separator", string(max))]),
        629_160,
        10,
        22,
    ),
];

const NESTED: &[Row] = &[
    ("self.all(x, true)", |max| list(list(scalar(DeclKind::Double), None), max), 3_145_727, 100, 302),
    ("self[0][0] == -1.0", |max| list(list(scalar(DeclKind::Double), None), max), 3, 51, 3),
    ("self.all(x, x.y == 25.2)", |max| list(map(scalar(DeclKind::Double), None), max), 6_291_452, 12, 74),
    ("self[0].x > 2.0", |max| list(map(scalar(DeclKind::Double), None), max), 4, 3000, 4),
    ("self.all(x, true)", |max| map(required(), max), 428_963, 20, 62),
    ("self[0] == null", |max| list(required(), max), 2, 422, 2),
    ("self.all(x, x['y'].required == 'z')", |max| list(map(required(), max), max), 7_340_027, 10, 72),
    ("self.all(x, x['y'].required == 'z')", |max| list(map(required(), max), None), 7_340_027, 10, 7_340_027),
];

fn required() -> Schema {
    object(&[("required", string(None)), ("optional", string(None))])
}

#[test]
fn costs_of_rules_are_those_of_kubernetes() {
    for (rule, schema, unbounded, bound, bounded) in SCALARS.iter().chain(STRINGS).chain(NESTED) {
        if *unbounded > 0 {
            assert_eq!(cost(rule, &schema(None).0).max, *unbounded, "{rule} without a bound");
        }
        assert_eq!(cost(rule, &schema(Some(*bound)).0).max, *bounded, "{rule} with the bound {bound}");
    }
}

/// Expressions without a declaration, and their lowest and highest costs.
const CALLS: &[(&str, u64, u64)] = &[
    ("'ABCDEFGHIJ abcdefghij'.lowerAscii()", 3, 3),
    ("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", 7, 9),
    ("'ABCDEFGHIJ abcdefghij'.upperAscii()", 3, 3),
    ("'ABCDEFGHIJ abcdefghij'.upperAscii() == 'abcdefghij ABCDEFGHIJ'.upperAscii()", 7, 9),
    ("strings.quote('ABCDEFGHIJ abcdefghij')", 3, 3),
    ("strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')", 7, 11),
    ("'abc 123 def 123'.replace('123', '456')", 3, 3),
    ("'abc 123 def 123'.replace('', 'x')", 3, 3),
    ("'abc 123 def 123'.replace('123', '')", 3, 3),
    ("'abc 123 def 123'.replace('123', '456', 1)", 3, 3),
    ("'abc 123 def 123'.split(' ')", 3, 3),
    ("'abc 123 def 123'.split(' ', 1)", 3, 3),
    ("'abc 123 def 123'.substring(5)", 2, 2),
    ("'abc 123 def 123'.substring(5, 8)", 2, 2),
    ("'  abc 123 def 123  '.trim()", 2, 2),
    ("'abc 123 def 123'.find('123')", 2, 2),
    ("'abc 123 def 123'.findAll('123')", 2, 2),
    ("'abc 123 def 123'.findAll('123', 1)", 2, 2),
    ("jsonpatch.escapeKey('abc/def~ abc/def~')", 2, 2),
    ("authorizer.path('/healthz')", 2, 2),
    (
        "authorizer.group('apps').resource('deployments').subresource('status').namespace('test').name('backend')",
        6,
        6,
    ),
    ("authorizer.path('/healthz').check('get').allowed()", 350_003, 350_003),
    ("quantity(\"12Mi\")", 1, 1),
    ("isQuantity(\"20\")", 1, 1),
    ("isQuantity(\"20M\")", 1, 1),
    ("quantity(\"200M\") == quantity(\"200M\")", 3, 3),
    ("quantity(\"200M\") == quantity(\"0.2G\") && quantity(\"0.2G\") == quantity(\"200M\")", 3, 6),
    (
        "quantity(\"2M\") == quantity(\"0.002G\") && quantity(\"2000k\") == quantity(\"2M\") && quantity(\"0.002G\") == quantity(\"2000k\")",
        3,
        9,
    ),
    ("quantity(\"50M\").isLessThan(quantity(\"50Mi\"))", 3, 3),
    ("quantity(\"50Mi\").isGreaterThan(quantity(\"50M\"))", 3, 3),
    ("quantity(\"200M\").compareTo(quantity(\"0.2G\")) > 0", 4, 4),
    ("quantity(\"50k\").add(quantity(\"20\")) == quantity(\"50.02k\")", 5, 5),
    ("quantity(\"50k\").sub(quantity(\"20\")) == quantity(\"49.98k\")", 5, 5),
    ("quantity(\"50k\").sub(20) == quantity(\"49980\")", 4, 4),
    ("quantity(\"50k\").add(20).sub(quantity(\"100k\")).asInteger() > 0", 6, 6),
    ("quantity(\"50k\").add(20).sub(quantity(\"100k\")).sub(-50000).asInteger() > 0", 7, 7),
    ("quantity(\"50k\").asInteger() > 0", 3, 3),
    ("quantity(\"50\").isInteger()", 2, 2),
    ("quantity(\"50.703k\").asApproximateFloat() > 0.0", 3, 3),
    ("format.named(\"dns1123subdomain\")", 1, 1),
    ("format.named(\"dns1123Label\").value().validate(\"my-name\")", 34, 34),
    ("format.named(\"dns1123Label\").value() == format.named(\"dns1123Label\").value()", 5, 11),
    ("sets.contains([], [])", 21, 21),
    ("sets.contains([1], [])", 21, 21),
    ("sets.contains([1], [1])", 22, 22),
    ("sets.contains([1], [1, 1])", 23, 23),
    ("sets.contains([1, 1], [1])", 23, 23),
    ("sets.contains([2, 1], [1])", 23, 23),
    ("sets.contains([1, 2, 3, 4], [2, 3])", 29, 29),
    ("!sets.contains([1], [2])", 23, 23),
    ("!sets.contains([1], [1, 2])", 24, 24),
    ("sets.equivalent([], [])", 21, 21),
    ("sets.equivalent([1], [1])", 23, 23),
    ("sets.equivalent([1], [1, 1])", 25, 25),
    ("sets.equivalent([1, 1], [1])", 25, 25),
    ("!sets.equivalent([2, 1], [1])", 26, 26),
    ("!sets.equivalent([1], [1, 2])", 26, 26),
    ("sets.intersects([1], [1])", 22, 22),
    ("sets.intersects([1], [1, 1])", 23, 23),
    ("sets.intersects([1, 1], [1])", 23, 23),
    ("sets.intersects([2, 1], [1])", 23, 23),
    ("sets.intersects([1], [1, 2])", 23, 23),
    ("!sets.intersects([], [])", 22, 22),
    ("!sets.intersects([1], [])", 22, 22),
    ("!sets.intersects([1], [2])", 23, 23),
    ("semver(\"1.0.0\")", 1, 1),
    ("semver(\"1234.56789012345.67890123456789\")", 4, 4),
    ("isSemver(\"1.0.0\")", 1, 1),
    ("isSemver(\"1234.56789012345.67890123456789\")", 4, 4),
    ("semver(\"1.2.3\").major()", 2, 2),
    ("semver(\"1.2.3\").minor()", 2, 2),
    ("semver(\"1.2.3\").patch()", 2, 2),
    ("semver(\"1.0.0\").isLessThan(semver(\"1.1.0\"))", 3, 3),
    ("semver(\"1.1.0\").isGreaterThan(semver(\"1.0.0\"))", 3, 3),
    ("semver(\"1.0.0\").compareTo(semver(\"1.2.3\"))", 3, 3),
    ("{'a': 1, 'b': 2}.all(k, v, v > 0)", 37, 41),
    ("{'a': 1, 'b': 2}.exists(k, v, v > 0)", 39, 43),
    ("{'a': 1, 'b': 2}.existsOne(k, v, v > 0)", 38, 40),
    ("{'a': 1, 'b': 2}.transformMap(k, v, v + 1)", 71, 71),
    ("{'a': 1, 'b': 2}.transformMap(k, v, v < 5, v + 1)", 67, 75),
    ("{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})", 131, 131),
    ("{'a': 1, 'b': 2}.transformMapEntry(k, v, v < 5, {k: v + 1})", 67, 135),
    ("[1, 2].all(i, v, v > 0)", 17, 21),
    ("[1, 2].exists(i, v, v > 0)", 19, 23),
    ("[1, 2].existsOne(i, v, v > 0)", 18, 20),
    ("[1, 2].transformList(i, v, v + 1)", 49, 49),
    ("[1, 2].transformList(i, v, v < 5, v + 1)", 27, 53),
    ("[1, 2, 3]", 10, 10),
    ("{\"a\": 1, \"b\": 2, \"c\": 3}", 30, 30),
    ("[1, 2, 3].all(x, true)", 20, 20),
    ("'123'.matches('[0-9]')", 2, 2),
    ("string(1)", 1, 1),
    ("list1.size() == list2.size()", 5, 5),
    ("x > y ? list1.size() : list2.size()", 5, 5),
    ("str1.endsWith(\"abcdefghijklmnopqrstuvwxyz\") == str2.endsWith(\"abcdefghijklmnopqrstuvwxyz\")", 9, 9),
    ("((5 != 6) == (1 == 2)) == ((3 <= 4) == (9 != 9))", 7, 7),
    ("string(timestamp1) == string(timestamp2)", 5, 1_844_674_407_370_955_268),
    ("timestamp1 == timestamp2", 3, 3),
    ("duration1 != duration2", 3, 3),
    ("[1,2,3,4,5].filter(x, x % 2 == 0)", 41, 101),
    ("[1,2,3,4,5].map(x, x)", 86, 86),
    ("[1,2,3,4,5].map(x, x).filter(x, x % 2 == 0)", 117, 177),
    ("[1,2,3,4,5].map(x, x).exists(x, x == 5) == true", 108, 118),
    ("[1,2,3,4,5].map(x, x)[4]", 87, 87),
    ("[[1,2],[1,2],[1,2],[1,2],[1,2]][4]", 61, 61),
    ("{'a': [1,2], 'b': [1,2], 'c': [1,2], 'd': [1,2], 'e': [1,2]}.b", 81, 81),
    ("[[1, 1], [2, 2], [3, 3], [4, 4], [5, 5]].all(y, y.all(y, y == 1))", 76, 136),
    ("[1,2,3,4,5].map(x, [x, x]).all(y, y.all(y, y == 1))", 157, 217),
    (
        "[\"a\", \"ab\", \"abc\", \"abcd\", \"abcde\"].map(x, [x, x]).all(y, y.all(y, y.startsWith('a')))",
        157,
        217,
    ),
    ("[1,2,3,4,5].map(x, x).map(x, x) + [1]", 173, 173),
    ("[1,2,3].all(i, i in [1,2,3].map(j, j + j))", 20, 230),
    ("dyn([1,2,3]).all(i, i in dyn([1,2,3]).map(j, j + j))", 21, 234),
    ("{'hello': 'hi'}['hello'] != {'hello': 'bye'}['hello']", 63, 63),
    ("['hello', 'hi'][0] != ['hello', 'bye'][1]", 23, 23),
    ("type(1) == int", 3, 1_844_674_407_370_955_266),
    ("[1, 2, 3, 4, 5].sum()", 15, 15),
    ("[1, 2, 3, 4, 5].isSorted()", 15, 15),
    ("[1, 2, 3, 4, 5].max()", 15, 15),
    ("[1, 2, 3, 4, 5].min()", 15, 15),
    ("[uint(1), uint(2), uint(3), uint(4), uint(5)].indexOf(uint(3))", 21, 21),
    ("'01234567890123456789012345678901234567890123456789'.indexOf('123')", 5, 5),
    ("'01234567890123456789012345678901234567890123456789'.includes('123')", 50, 50),
    ("url('https:://kubernetes.io/').getScheme()", 4, 4),
    ("url('https:://kubernetes.io/') == url('https:://kubernetes.io/')", 7, 9),
    ("url('https:://kubernetes.io/') == url('http://x.b')", 5, 5),
    ("ip('192.168.0.1').family()", 3, 3),
    ("ip('192.168.0.1') == ip('192.168.0.1')", 5, 5),
    ("cidr('192.168.0.0/16').containsCIDR(cidr('192.0.0.0/30'))", 7, 11),
    ("cidr('192.168.0.0/16').containsCIDR('192.0.0.0/30')", 7, 11),
    ("cidr('192.168.0.0/16').containsIP(ip('192.169.0.1'))", 5, 8),
    ("cidr('192.168.0.0/16').containsIP('192.0.0.1')", 4, 7),
    ("cidr('192.168.0.0/16').ip()", 3, 3),
];

#[test]
fn costs_of_calls_are_those_of_kubernetes_and_cel_go() {
    let variables = [
        ("authorizer", Type::named("kubernetes.authorization.Authorizer")),
        ("list1", Type::list(Type::Int)),
        ("list2", Type::list(Type::Int)),
        ("x", Type::Int),
        ("y", Type::Int),
        ("str1", Type::String),
        ("str2", Type::String),
        ("timestamp1", Type::Timestamp),
        ("timestamp2", Type::Timestamp),
        ("duration1", Type::Duration),
        ("duration2", Type::Duration),
    ];
    let mut environment = Environment::new().with_mutation_types();
    for (name, ty) in variables {
        environment = environment.with_variable(name, ty);
    }
    for (source, min, max) in CALLS {
        let checked = check(&environment, parse(source).unwrap());
        let checked = checked.unwrap_or_else(|errors| panic!("{source}: {errors}"));
        assert_eq!(estimate(&checked, None), CostEstimate { min: *min, max: *max }, "{source}");
    }
}
