//! Property: no expression makes the checker or the estimate panic, overflow the stack, or run without end.

use std::fmt::Write;

use proptest::prelude::*;
use setpoint_cel::{CheckErrorKind, Environment, NESTING_MAX, Type, check, estimate, parse};

const LEAVES: [&str; 24] = [
    "1",
    "2u",
    "1.5",
    "'s'",
    "b'x'",
    "null",
    "true",
    "[]",
    "{}",
    "m",
    "d",
    "l",
    "o",
    "x",
    "y",
    "int",
    "missing",
    ".x",
    "optional.none()",
    "q",
    "duration('1s')",
    "m.a",
    "d.a.b",
    "'%s'",
];

const TEMPLATES: [&str; 36] = [
    "(A + B)",
    "(A == B)",
    "(A < B)",
    "(A && B)",
    "(A ? B : A)",
    "(A in B)",
    "[A, B]",
    "[?A, B]",
    "{A: B}",
    "{A: B, ?B: A}",
    "A.f",
    "A.?f",
    "A[B]",
    "A[?B]",
    "has(A.f)",
    "A.all(x, B)",
    "A.exists(x, y, B)",
    "A.map(x, B)",
    "A.filter(y, B)",
    "A.transformMap(x, y, B)",
    "A.transformMapEntry(x, y, {y: B})",
    "A.sortBy(x, B)",
    "cel.bind(x, A, B)",
    "A.optMap(y, B)",
    "A.optFlatMap(y, B)",
    "optional.of(A)",
    "A.orValue(B)",
    "dyn(A)",
    "type(A)",
    "A.size()",
    "A.matches(B)",
    "'%s %d'.format([A, B])",
    "A.replace(B, A)",
    "A.flatten(B)",
    "Object{f: A, ?g: B}",
    "JSONPatch{op: A, other: B}",
];

fn environment() -> Environment {
    Environment::new()
        .with_bindings()
        .with_variable("m", Type::map(Type::String, Type::list(Type::Int)))
        .with_variable("d", Type::Dyn)
        .with_variable("l", Type::list(Type::String))
        .with_variable("o", Type::optional(Type::Int))
        .with_variable("x", Type::Int)
        .with_variable("q", Type::named("kubernetes.Quantity"))
        .with_mutation_types()
}

/// Checks an expression; returns whether it is correct.
fn verdict(source: &str) -> bool {
    let Ok(ast) = parse(source) else { return false };
    match check(&environment(), ast) {
        Ok(checked) => {
            let cost = estimate(&checked, None);
            assert!(cost.min <= cost.max, "{source}: {cost:?}");
            true
        }
        Err(errors) => {
            assert!(errors.to_string().starts_with("ERROR: <input>:"), "{source}");
            false
        }
    }
}

fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(LEAVES.to_vec()).prop_map(str::to_owned);
    leaf.prop_recursive(6, 64, 2, |inner| {
        (prop::sample::select(TEMPLATES.to_vec()), inner.clone(), inner).prop_map(
            |(template, first, second)| {
                let parts: Vec<String> = template.split('A').map(|part| part.replace('B', &second)).collect();
                parts.join(&first)
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn arbitrary_expressions_are_accepted_or_rejected(source in expressions()) {
        verdict(&source);
    }
}

#[test]
fn generated_expressions_are_often_correct() {
    let correct = TEMPLATES
        .iter()
        .flat_map(|template| LEAVES.iter().map(move |leaf| template.replace('B', "d").replace('A', leaf)))
        .filter(|source| verdict(source))
        .count();
    assert!(correct > 100, "{correct}");
}

#[test]
fn exponential_types_are_rejected() {
    let mut source = "cel.bind(x0, {[]: {}}, ".to_owned();
    for level in 1..200 {
        write!(source, "cel.bind(x{level}, {{x{0}: x{0}}}, ", level - 1).unwrap();
    }
    source += "x199";
    source += &")".repeat(200);
    let errors = check(&environment(), parse(&source).unwrap()).unwrap_err();
    assert_eq!(*errors.errors()[0].kind(), CheckErrorKind::Limit);
}

#[test]
fn deep_types_are_rejected() {
    let mut source = String::new();
    let lists = 60;
    for level in 0..60 {
        let inner = if level == 0 { "1".to_owned() } else { format!("x{}", level - 1) };
        write!(source, "cel.bind(x{level}, {}{inner}{}, ", "[".repeat(lists), "]".repeat(lists)).unwrap();
    }
    source += "x59";
    source += &")".repeat(60);
    let errors = check(&environment(), parse(&source).unwrap()).unwrap_err();
    assert_eq!(*errors.errors()[0].kind(), CheckErrorKind::Limit);
}

#[test]
fn deep_and_long_expressions_do_not_overflow_the_stack() {
    let levels = NESTING_MAX - 2;
    for (open, close) in [
        ("[", "]"),
        ("!(", ")"),
        ("{1: ", "}"),
        ("l.all(x, ", ")"),
        ("l.exists_one(x, ", ")"),
        ("cel.bind(x, 1, ", ")"),
        ("o.optMap(x, ", ")"),
        ("l.sortBy(x, ", ")"),
        ("dyn(", ")"),
        ("Object{a: ", "}"),
    ] {
        verdict(&format!("{}x{}", open.repeat(levels), close.repeat(levels)));
    }
    let chain = format!("(true{} && ", " && true".repeat(300));
    assert!(!verdict(&format!("{}true{}", chain.repeat(levels), ")".repeat(levels))));
    assert!(verdict(&format!("true{}", " && true".repeat(20_000))));
    assert!(verdict(&format!("[{}]", "[],".repeat(20_000))));
    assert!(verdict(&format!("d{}", ".a".repeat(200))));
    assert!(!verdict(&format!("[{}]", "missing,".repeat(20_000))));
}
