//! Property: an expression over any functions and macros is parsed, checked, estimated and evaluated without a panic, and
//! within its limit.
//!
//! `SETPOINT_CASES` sets the number of expressions, in hundreds. A failure prints the expression and its input.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "fuzz/grammar.rs"]
mod grammar;

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::{Map, Value as Json, json};
use setpoint_cel::{
    Activation, Checked, Decl, DeclKind, Environment, EvalError, FieldDecl, ListDecl, ObjectDecl, Program,
    Type, Value, check, estimate, parse,
};

use grammar::Grammar;

/// Cost limit of an evaluation: that of Kubernetes is ten times as high.
const LIMIT: u64 = 100_000;
/// Longest result in JSON. Texts of a result count by their bytes, and are escaped.
const RESULT_BYTES_MAX: usize = 512 << 20;
/// Most characters of a text, and most elements of a list or map.
const ELEMENTS_MAX: usize = 6;

fn decl(kind: DeclKind) -> Decl {
    // A character has up to four bytes.
    let max_elements = match kind {
        DeclKind::String | DeclKind::Bytes | DeclKind::Dyn => Some(4 * ELEMENTS_MAX as u64),
        DeclKind::List { .. } | DeclKind::Map { .. } => Some(ELEMENTS_MAX as u64),
        _ => None,
    };
    Decl { kind, max_elements }
}

fn list(item: Decl) -> Decl {
    decl(DeclKind::List { item: Arc::new(item), list_type: ListDecl::Atomic })
}

fn map(value: Decl) -> Decl {
    decl(DeclKind::Map { value: Arc::new(value), key_size_max: 4 * ELEMENTS_MAX as u64 })
}

/// Declaration of `self`.
fn root() -> Decl {
    let fields = [
        ("b", decl(DeclKind::Bool)),
        ("i", decl(DeclKind::Int)),
        ("d", decl(DeclKind::Double)),
        ("s", decl(DeclKind::String)),
        ("y", decl(DeclKind::Bytes)),
        ("li", list(decl(DeclKind::Int))),
        ("ls", list(decl(DeclKind::String))),
        ("ll", list(list(decl(DeclKind::Int)))),
        ("ms", map(decl(DeclKind::String))),
        ("mi", map(decl(DeclKind::Int))),
    ];
    let fields = fields.map(|(name, decl)| (Box::<str>::from(name), FieldDecl { decl, is_required: false }));
    Decl::new(DeclKind::Object(Arc::new(ObjectDecl { name: "selfType".into(), fields: fields.into() })))
}

/// Value of a declaration.
fn input(grammar: &mut Grammar, decl: &Decl) -> Json {
    let len = grammar.number(ELEMENTS_MAX + 1);
    match &decl.kind {
        DeclKind::Bool => Json::Bool(grammar.number(2) == 0),
        DeclKind::Int => Json::Int([0, 1, -1, 7, i64::MAX, i64::MIN][grammar.number(6)]),
        DeclKind::Double => Json::Float([0.0, -1.5, 1e300, 3.0][grammar.number(4)]),
        DeclKind::Bytes => Json::from(["", "AAAA", "/+8="][grammar.number(3)]),
        DeclKind::List { item, .. } => Json::List((0..len).map(|_| input(grammar, item)).collect()),
        DeclKind::Map { value, .. } => {
            let mut map = Map::new();
            for at in 0..len {
                map.insert(["a", "b", "é", "", "1Ki", "x.y"][at], input(grammar, value));
            }
            Json::Map(map)
        }
        DeclKind::Object(object) => {
            let mut map = Map::new();
            for (name, field) in &object.fields {
                if grammar.number(8) > 0 {
                    map.insert(&**name, input(grammar, &field.decl));
                }
            }
            Json::Map(map)
        }
        _ => Json::from(["", "a", "abcdef", "é😀", "1Ki", "%s%d", "[a-z]*", "a.b.c"][grammar.number(8)]),
    }
}

/// Counts of a run.
#[derive(Debug, Default)]
struct Counts {
    accepted: usize,
    evaluated: usize,
    results: usize,
    over_limit: usize,
}

/// Runs an expression, accepted by the checker or not.
fn run(source: &str, checked: Option<&Checked>, root: &Decl, input: &Json, counts: &mut Counts) {
    let shown = || format!("{source}\non {}", json::to_text(input));
    let Ok(ast) = parse(source) else { return };
    let Ok(program) = Program::new(checked.map_or(&ast, Checked::ast)) else { return };
    let mut activation = Activation::new();
    activation.bind("self", Value::from_json(input, checked.map(|_| root)).unwrap());
    let evaluation = program.evaluate(&activation, LIMIT);
    counts.evaluated += 1;
    match &evaluation.result {
        Ok(value) => {
            counts.results += 1;
            assert!(evaluation.cost <= LIMIT, "{}: cost {}", shown(), evaluation.cost);
            if let Ok(result) = value.to_json() {
                assert!(json::to_vec(&result).len() <= RESULT_BYTES_MAX, "{}", shown());
            }
        }
        Err(EvalError::CostLimit) => counts.over_limit += 1,
        Err(_) => {}
    }
    if let Some(checked) = checked {
        // Never panics. It is no upper bound: as upstream's, it does not know the sizes of constructed containers.
        let estimated = estimate(checked, Some(root));
        assert!(estimated.min <= estimated.max, "{}: estimated {estimated:?}", shown());
    }
}

fn cases() -> usize {
    let cases = std::env::var("SETPOINT_CASES").ok().and_then(|text| text.parse().ok());
    cases.unwrap_or(128) * 100
}

#[test]
fn evaluation_of_generated_expressions_keeps_its_limit() {
    let root = root();
    let environment = Environment::new().with_bindings().with_variable("self", Type::from(&root));
    let mut counts = Counts::default();
    for case in 0..cases() {
        let mut grammar = Grammar::new(case as u64);
        let ty = grammar.any_type(2);
        let depth = 1 + case % 5;
        let source = grammar.expression(&ty, depth);
        let Ok(ast) = parse(&source) else { panic!("{source} does not parse") };
        let checked = check(&environment, ast).ok();
        counts.accepted += usize::from(checked.is_some());
        for _ in 0..3 {
            let input = input(&mut grammar, &root);
            run(&source, checked.as_ref(), &root, &input, &mut counts);
        }
    }
    // The test tests something.
    assert!(counts.accepted * 2 > cases(), "{counts:?} of {}", cases());
    assert!(counts.results * 4 > counts.evaluated, "{counts:?}");
}

#[test]
fn every_function_of_the_libraries_is_generated() {
    let mut generated: BTreeMap<&str, usize> = BTreeMap::new();
    let mut grammar = Grammar::new(1);
    for _ in 0..200 {
        for name in grammar::FUNCTIONS {
            let source = grammar.call(name, 1);
            if source.is_some_and(|source| parse(&source).is_ok()) {
                *generated.entry(name).or_default() += 1;
            }
        }
    }
    let missing: Vec<_> = grammar::FUNCTIONS.iter().filter(|name| !generated.contains_key(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
