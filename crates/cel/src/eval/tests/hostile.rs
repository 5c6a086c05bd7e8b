//! Expressions that try to run, allocate or recurse without bound.

use proptest::prelude::*;
use setpoint_api::{Map, Value as Json};

use super::{LIMIT, evaluate, evaluate_with};
use crate::{Activation, EvalError, Program, Value, parse};

/// Nests `cel.bind` so that each variable is twice as large as the one before.
fn doubling(times: usize, first: &str, step: &str, last: &str) -> String {
    let mut source = String::new();
    for index in 0..times {
        let value = if index == 0 { first.to_owned() } else { step.replace('$', &format!("v{}", index - 1)) };
        source.push_str(&format!("cel.bind(v{index}, {value}, "));
    }
    source.push_str(&last.replace('$', &format!("v{}", times - 1)));
    source.push_str(&")".repeat(times));
    source
}

#[test]
fn doubling_values_exceed_the_budget() {
    for source in [
        doubling(60, "[1, 2]", "$ + $", "size($)"),
        doubling(60, "'ab'", "$ + $", "size($)"),
        doubling(60, "[dyn(1)]", "[$, $]", "$ == $"),
        doubling(60, "[dyn(1)]", "[$, $]", "$.flatten(100)"),
        doubling(60, "[dyn(1)]", "[$, $]", "$.indexOf(1)"),
        doubling(60, "['a']", "[$, $]", "'%s'.format([$])"),
        doubling(60, "'ab'", "$.replace('a', $)", "size($)"),
        doubling(60, "'ab'", "[$, $].join($)", "size($)"),
        "lists.range(1000000000000)".to_owned(),
        "lists.range(1000).map(x, lists.range(1000).map(y, lists.range(1000)))".to_owned(),
    ] {
        assert_eq!(evaluate(&source).result.unwrap_err(), EvalError::CostLimit, "{source}");
    }
    let text = format!("['{}']", "a".repeat(10_000));
    let texts = evaluate(&doubling(16, &text, "$ + $", "$"));
    assert_eq!(texts.result.unwrap().to_json().unwrap_err(), EvalError::CostLimit);
    let shared = evaluate(&doubling(60, "[dyn(1)]", "[$, $]", "$"));
    assert_eq!(shared.result.unwrap().to_json().unwrap_err(), EvalError::CostLimit);
}

#[test]
fn deepest_expressions_evaluate_or_are_rejected() {
    let depths = [10, 60, 120, 200, 240];
    for depth in depths {
        for (before, middle, after) in [
            ("(1 + ", "1", ")"),
            ("[1].map(x, ", "x", ")"),
            ("[", "1", "]"),
            ("{'a': ", "1", "}"),
            ("[1].all(x, true && ", "true", ")"),
            ("(true ? ", "1", " : 2)"),
            ("cel.bind(x, 1, ", "x", ")"),
            ("optional.of(", "1", ")"),
        ] {
            let source = [before.repeat(depth), middle.into(), after.repeat(depth)].concat();
            let Ok(ast) = parse(&source) else { continue };
            if let Ok(program) = Program::new(&ast) {
                let _ = program.evaluate(&Activation::new(), LIMIT);
            }
        }
    }
    assert!(evaluate(&format!("{}true{}", "[1].all(x, ".repeat(60), ")".repeat(60))).result.is_ok());
}

#[test]
fn deep_values_compare_below_the_deepest_expression() {
    let depth = setpoint_api::json::DEPTH_MAX - 1;
    let text = [vec![b'['; depth], vec![b']'; depth]].concat();
    let json = setpoint_api::json::parse(&text).unwrap();
    let mut activation = Activation::new();
    activation.bind("self", Value::from_json(&json, None).unwrap());
    let deepest = (1..250).rev().find_map(|depth| {
        let source = [&"[self].map(x, ".repeat(depth), "[x] == [self]", &")".repeat(depth)].concat();
        Program::new(&parse(&source).ok()?).ok()
    });
    let evaluation = deepest.unwrap().evaluate(&activation, LIMIT);
    assert!(evaluation.result.unwrap().to_json().is_ok());
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i64>().prop_map(Json::Int),
        any::<f64>().prop_map(Json::Float),
        "[a-z0-9.:/é]{0,8}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::List),
            prop::collection::vec(("[ab]", inner), 0..4).prop_map(|entries| {
                let mut map = Map::new();
                for (key, value) in entries {
                    map.insert(key, value);
                }
                Json::Map(map)
            }),
        ]
    })
}

const TOKENS: [&str; 58] = [
    "self",
    "self.a",
    "self.b",
    "x",
    "1",
    "2u",
    "-3",
    "1.5",
    "'a'",
    "b'a'",
    "true",
    "null",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ".",
    ",",
    ":",
    "?",
    "+",
    "-",
    "*",
    "/",
    "%",
    "<",
    ">=",
    "==",
    "!=",
    "!",
    "&&",
    "||",
    "in",
    ".size()",
    ".all(x, ",
    ".map(x, ",
    ".filter(x, ",
    ".exists_one(x, ",
    ".transformMap(k, x, ",
    ".?a",
    "[?0]",
    ".matches('a*')",
    ".split('')",
    ".join('a')",
    ".replace('a', 'aa')",
    ".sum()",
    ".min()",
    ".sort()",
    ".flatten()",
    "string(",
    "timestamp(",
    "quantity(",
    "has(self.a)",
    "optional.of(",
    "cel.bind(x, ",
    ".orValue(",
];

const CALLS: [&str; 39] = [
    ".a",
    ".b",
    "[0]",
    "['a']",
    ".?a",
    "[?1]",
    ".size()",
    ".all(x, x == self)",
    ".map(x, [x, self])",
    ".filter(x, x != null)",
    ".exists_one(x, x > 1)",
    ".map(x, x + x)",
    ".transformMap(k, x, k)",
    ".transformList(k, x, x)",
    ".sort()",
    ".distinct()",
    ".flatten(3)",
    ".reverse()",
    ".sum()",
    ".max()",
    ".isSorted()",
    ".indexOf(1)",
    ".join('-')",
    ".split('')",
    ".replace('', 'ab')",
    ".substring(1)",
    ".charAt(0)",
    ".matches('[a-z]+')",
    ".find('a')",
    ".findAll('')",
    ".orValue(1)",
    ".hasValue()",
    ".value()",
    ".first()",
    ".lowerAscii()",
    ".trim()",
    ".startsWith('a')",
    ".contains('')",
    ".lastIndexOf('a', 1)",
];

const WRAPS: [&str; 27] = [
    "$",
    "string($)",
    "-$",
    "$ + $",
    "$ == $",
    "$ < 1",
    "$ in self",
    "type($)",
    "'%s'.format([$])",
    "int($)",
    "double($)",
    "timestamp($)",
    "quantity($)",
    "ip($)",
    "cidr($)",
    "url($)",
    "semver($)",
    "duration($)",
    "bytes($)",
    "lists.range($)",
    "[$].sort()",
    "sets.contains($, $)",
    "!$",
    "$ || true",
    "$ ? 1 : 2",
    "{$: 1}",
    "optional.ofNonZeroValue($)",
];

/// Chains of calls on `self` that parse.
fn chain() -> impl Strategy<Value = String> {
    let call = prop::sample::select(CALLS.to_vec());
    let wrap = prop::sample::select(WRAPS.to_vec());
    (prop::collection::vec(call, 0..5), wrap)
        .prop_map(|(calls, wrap)| wrap.replace('$', &format!("self{}", calls.concat())))
}

fn check(source: &str, json: &Json, limit: u64) {
    let Ok(ast) = parse(source) else { return };
    let Ok(program) = Program::new(&ast) else { return };
    let mut activation = Activation::new();
    activation.bind("self", Value::from_json(json, None).unwrap());
    let evaluation = program.evaluate(&activation, limit);
    if let Ok(value) = &evaluation.result {
        assert!(evaluation.cost <= limit, "{source}: {}", evaluation.cost);
        let _ = value.to_json();
        let _ = format!("{value}");
    }
    // The cost does not depend on the limit, and a limit below the cost stops the evaluation.
    if evaluation.result.is_ok() && evaluation.cost > 0 {
        let stopped = evaluate_with(source, &activation, evaluation.cost - 1);
        assert_eq!(stopped.result.unwrap_err(), EvalError::CostLimit, "{source}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn token_soup_never_panics(
        tokens in prop::collection::vec(prop::sample::select(TOKENS.to_vec()), 0..16),
        json in json(),
    ) {
        check(&tokens.concat(), &json, 10_000);
    }

    #[test]
    fn chains_of_calls_never_panic_and_keep_the_budget(source in chain(), json in json()) {
        check(&source, &json, 10_000);
    }
}
