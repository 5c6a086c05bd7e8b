//! Function libraries.

use super::{LIMIT, assert_errors, assert_true, evaluate_with};
use crate::{
    Activation, AuthorizationCheck, AuthorizationDecision, Authorizer, Bindings, CheckTarget, EvalError,
    LazyObject, Value,
};

#[test]
fn strings_index_code_points() {
    assert_true(&[
        "'tacocat'.charAt(3) == 'o' && 'é'.charAt(1) == ''",
        "'hello mellow'.indexOf('ello') == 1 && 'hello mellow'.indexOf('ello', 2) == 7",
        "'hello'.indexOf('jello') == -1 && 'hello'.indexOf('', 9) == 5",
        "'hello mellow'.lastIndexOf('ello') == 7 && 'hello mellow'.lastIndexOf('ello', 6) == 1",
        "'äöü'.indexOf('ü') == 2 && 'äöü'.substring(1, 2) == 'ö' && 'äöü'.reverse() == 'üöä'",
        "['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab'",
        "'TacoCät'.lowerAscii() == 'tacocät' && 'tacoCät'.upperAscii() == 'TACOCäT'",
        "'hello hello'.replace('he', 'we', 1) == 'wello hello' && 'ab'.replace('', '_') == '_a_b_'",
        "'hello hello'.split(' ') == ['hello', 'hello'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'hello hello hello'.split(' ', 2) == ['hello', 'hello hello'] && 'a b'.split(' ', 0) == []",
        "' \\n trim'.trim() == 'trim'",
        "strings.quote('a\"b\\n') == '\"a\\\\\"b\\\\n\"'",
        "'foobar'.matches('o+b') && matches('foobar', '^foo') && !'foobar'.matches('^bar')",
    ]);
    assert_errors(&[
        ("'abc'.charAt(4)", "index out of range: 4"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("[dyn(1)].join('')", "join: invalid input: 1"),
    ]);
}

#[test]
fn strings_format() {
    assert_true(&[
        "'%s is %d%%'.format(['x', 5]) == 'x is 5%'",
        "'%.2f %e'.format([1.239, 1234.5]) == '1.24 1.234500×10⁰³'",
        "'%b %o %x %X'.format([5, 8, 255, 'hi']) == '101 10 ff 6869'",
        "'%s'.format([[1, 'a', {'k': true}]]) == '[1, \"a\", {\"k\":true}]'",
    ]);
    assert_errors(&[
        ("'%s'.format([])", "index 0 out of range"),
        (
            "'%d'.format(['a'])",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
    ]);
}

#[test]
fn lists_and_regular_expressions() {
    assert_true(&[
        "[1, 2, 3].isSorted() && !['b', 'a'].isSorted() && [].sum() == 0 && [1, 2].sum() == 3",
        "[3, 1, 2].min() == 1 && [3, 1, 2].max() == 3 && [1, 2, 2].indexOf(2) == 1",
        "[1, 2, 2].lastIndexOf(2) == 2 && ['a'].indexOf('b') == -1 && [1, 2].includes(2)",
        "lists.range(3) == [0, 1, 2] && [1, 2, 3].slice(1, 2) == [2] && [1, 2].reverse() == [2, 1]",
        "[[1], [2, [3]]].flatten() == [1, 2, [3]] && [[1], [2, [3]]].flatten(2) == [1, 2, 3]",
        "[3, 1, 2].sort() == [1, 2, 3] && [1, 1.0, 'a', 'a', [1], [1]].distinct() == [1, 'a', [1]]",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('x') == ''",
        "'a1 b2'.findAll('[a-z][0-9]') == ['a1', 'b2'] && 'a1 b2'.findAll('[a-z][0-9]', 1) == ['a1']",
        "sets.contains([1, 2], [2.0]) && sets.equivalent([1, 1], [1u]) && !sets.intersects([1], ['1'])",
    ]);
    assert_errors(&[
        ("[].min()", "min called on empty list"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        ("lists.range(-1)", "lists.range: size must be non-negative, got -1"),
    ]);
}

#[test]
fn quantities_and_versions_compare() {
    assert_true(&[
        "quantity('200M') == quantity('0.2G') && quantity('50Mi').isGreaterThan(quantity('50M'))",
        "quantity('50k').add(20).compareTo(quantity('50020')) == 0 && quantity('-1').sign() == -1",
        "isQuantity('1.5Gi') && !isQuantity('x') && quantity('50k').asInteger() == 50000",
        "!quantity('50.5').isInteger() && quantity('1.5').asApproximateFloat() == 1.5",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-alpha').isLessThan(semver('1.0.0'))",
        "semver('v1.2', true).minor() == 2 && !isSemver('v1.2') && isSemver('01.2', true)",
        "semver('1.0.0-alpha.2').compareTo(semver('1.0.0-alpha.10')) == -1 && semver('1.2.3').patch() == 3",
    ]);
    assert_errors(&[
        ("quantity('50.5').asInteger()", "cannot convert value to integer"),
        ("semver('1.2')", "No Major.Minor.Patch elements found"),
    ]);
}

#[test]
fn addresses_networks_and_urls() {
    assert_true(&[
        "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && string(ip('1.2.3.4')) == '1.2.3.4'",
        "isIP('10.0.0.1') && !isIP('10.0.0.256') && !isIP('::ffff:1.2.3.4') && !ip.isCanonical('2001:DB8::1')",
        "ip('0.0.0.0').isUnspecified() && ip('224.0.0.1').isLinkLocalMulticast()",
        "ip('fe80::1').isLinkLocalUnicast() && ip('192.168.0.1').isGlobalUnicast()",
        "cidr('192.168.0.0/24').containsIP('192.168.0.1') && !cidr('192.168.0.0/24').containsIP(ip('10.0.0.1'))",
        "cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24') && !cidr('192.168.0.0/24').containsCIDR('192.168.0.0/16')",
        "cidr('192.168.1.5/24').masked() == cidr('192.168.1.0/24') && cidr('192.168.1.5/24').ip() == ip('192.168.1.5')",
        "cidr('10.0.0.0/8').prefixLength() == 8 && isCIDR('::/0') && !isCIDR('10.0.0.0/33')",
        "url('https://user@example.com:8080/a b?x=1&x=2&y=%20#f').getHost() == 'example.com:8080'",
        "url('https://example.com:80/').getHostname() == 'example.com' && url('https://[::1]:80/').getPort() == '80'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('https://a/b c').getEscapedPath() == '/b%20c'",
        "url('https://a/?x=1&x=2&y=%20').getQuery() == {'x': ['1', '2'], 'y': [' ']}",
        "url('/path').getScheme() == '' && isURL('https://a') && !isURL('../relative') && !isURL('https://a:b/')",
    ]);
    assert_errors(&[("ip('::ffff:1.2.3.4')", "IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed")]);
}

#[test]
fn formats_validate_names() {
    assert_true(&[
        "!format.dns1123Label().validate('my-label').hasValue()",
        "format.dns1123Label().validate('My Label').value().size() == 1",
        "!format.dns1123LabelPrefix().validate('my-label-').hasValue()",
        "format.named('nope') == optional.none() && format.named('uuid').hasValue()",
        "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "format.byte().validate('*').value() == ['invalid base64'] && !format.date().validate('2026-11-18').hasValue()",
        "!format.datetime().validate('2026-11-18T00:00:00Z').hasValue() && !format.uri().validate('https://a').hasValue()",
    ]);
}

#[derive(Debug)]
struct PodReader;

impl Authorizer for PodReader {
    fn authorize(&self, check: &AuthorizationCheck<'_>) -> AuthorizationDecision {
        let is_allowed = match &check.target {
            CheckTarget::Path(path) => *path == "/healthz",
            CheckTarget::Resource(resource) => {
                &*resource.resource == "pods" && &*resource.namespace == "ns" && check.verb == "get"
            }
        };
        let reason = format!("{:?}", check.service_account);
        AuthorizationDecision { is_allowed, reason, error: None }
    }
}

#[test]
fn authorizer_of_the_caller_decides() {
    let mut activation = Activation::new();
    activation.bind("authorizer", Value::authorizer(Some(&PodReader)));
    let check =
        crate::ResourceCheck { resource: "pods".into(), namespace: "ns".into(), ..Default::default() };
    activation.bind("authorizer.requestResource", Value::resource_check(Some(&PodReader), check));
    for (source, cost) in [
        ("authorizer.path('/healthz').check('get').allowed()", 350_003),
        ("authorizer.group('').resource('pods').namespace('ns').check('get').allowed()", 350_005),
        ("!authorizer.group('').resource('nodes').check('get').allowed()", 350_005),
        ("authorizer.requestResource.check('get').allowed()", 350_002),
        (
            "authorizer.serviceAccount('ns', 'sa').path('/x').check('get').reason() == 'Some((\"ns\", \"sa\"))'",
            350_006,
        ),
    ] {
        let evaluation = evaluate_with(source, &activation, LIMIT);
        assert!(matches!(evaluation.result, Ok(Value::Bool(true))), "{source}: {:?}", evaluation.result);
        assert_eq!(evaluation.cost, cost, "{source}");
    }
    let mut activation = Activation::new();
    activation.bind("authorizer", Value::authorizer(None));
    let result = evaluate_with("authorizer.path('/x').check('get').allowed()", &activation, LIMIT).result;
    assert_eq!(result.unwrap_err().to_string(), "authorizer is not available");
}

#[derive(Debug)]
struct PolicyVariables;

impl LazyObject for PolicyVariables {
    fn field(&self, name: &str) -> Option<Result<Value<'_>, EvalError>> {
        match name {
            "x" => Some(Ok(Value::Int(5))),
            "broken" => Some(Err(EvalError::constant("composited variable \"broken\" fails to evaluate"))),
            _ => None,
        }
    }
}

struct Policy<'a>(&'a PolicyVariables);

impl<'a> Bindings<'a> for Policy<'a> {
    fn resolve(&self, name: &str) -> Option<Value<'a>> {
        (name == "variables").then_some(Value::Lazy(self.0))
    }
}

#[test]
fn lazy_fields_are_computed_on_access() {
    let program =
        crate::Program::new(&crate::parse("variables.x == 5 || variables.broken").unwrap()).unwrap();
    assert_eq!(program.variables().collect::<Vec<_>>(), ["variables"]);
    assert_eq!(program.evaluate(&Policy(&PolicyVariables), LIMIT).result.unwrap().as_bool(), Some(true));
    let program = crate::Program::new(&crate::parse("variables.broken").unwrap()).unwrap();
    let error = program.evaluate(&Policy(&PolicyVariables), LIMIT).result.unwrap_err();
    assert_eq!(error.to_string(), "composited variable \"broken\" fails to evaluate");
}
