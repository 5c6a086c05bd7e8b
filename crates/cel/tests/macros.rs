//! Expansions and errors of macros.

use setpoint_cel::{Ast, Environment, ExprId, ExprKind, Operator, check, parse};

/// Renders an AST in prefix form, with comprehensions spelled out.
fn render(ast: &Ast, id: ExprId) -> String {
    let all = |ids: &[ExprId]| ids.iter().map(|id| render(ast, *id)).collect::<Vec<_>>().join(", ");
    match &ast.expr(id).kind {
        ExprKind::Literal(literal) => format!("{literal:?}"),
        ExprKind::Ident(name) => name.to_string(),
        ExprKind::Select { operand, field, test_only } => {
            format!("{}.{field}{}", render(ast, *operand), if *test_only { "~test" } else { "" })
        }
        ExprKind::Operation { operator, operands } => format!("{}({})", operator.function(), all(operands)),
        ExprKind::Call { function, target, args } => match target {
            Some(target) => format!("{}.{function}({})", render(ast, *target), all(args)),
            None => format!("{function}({})", all(args)),
        },
        ExprKind::List(elements) => {
            format!("[{}]", all(&elements.iter().map(|element| element.value).collect::<Vec<_>>()))
        }
        ExprKind::Map(entries) => format!("map of {}", entries.len()),
        ExprKind::Message { name, .. } => name.to_string(),
        ExprKind::Comprehension(fold) => format!(
            "fold({}{}, {}, {} = {}, while {}, {}, {})",
            fold.iter_var,
            fold.iter_var2.as_ref().map_or(String::new(), |second| format!(" {second}")),
            render(ast, fold.iter_range),
            fold.accu_var,
            render(ast, fold.accu_init),
            render(ast, fold.loop_condition),
            render(ast, fold.loop_step),
            render(ast, fold.result)
        ),
    }
}

const ONE: &str = "_?_:_(p, _+_(@result, Int(1)), @result), _==_(@result, Int(1)))";

#[test]
fn macros_expand_as_in_cel_go() {
    let not_false = "while @not_strictly_false";
    let list = "@result = [], while Bool(true)";
    let map = "@result = map of 0, while Bool(true)";
    for (source, expansion) in [
        ("has(a.b)", "a.b~test".to_owned()),
        ("r.all(x, p)", format!("fold(x, r, @result = Bool(true), {not_false}(@result), _&&_(@result, p), @result)")),
        ("r.all(i, x, p)", format!("fold(i x, r, @result = Bool(true), {not_false}(@result), _&&_(@result, p), @result)")),
        ("r.exists(x, p)", format!("fold(x, r, @result = Bool(false), {not_false}(!_(@result)), _||_(@result, p), @result)")),
        ("r.exists_one(x, p)", format!("fold(x, r, @result = Int(0), while Bool(true), {ONE}")),
        ("r.existsOne(x, p)", format!("fold(x, r, @result = Int(0), while Bool(true), {ONE}")),
        ("r.existsOne(i, x, p)", format!("fold(i x, r, @result = Int(0), while Bool(true), {ONE}")),
        ("r.map(x, t)", format!("fold(x, r, {list}, _+_(@result, [t]), @result)")),
        ("r.map(x, p, t)", format!("fold(x, r, {list}, _?_:_(p, _+_(@result, [t]), @result), @result)")),
        ("r.filter(x, p)", format!("fold(x, r, {list}, _?_:_(p, _+_(@result, [x]), @result), @result)")),
        ("r.transformList(i, x, t)", format!("fold(i x, r, {list}, _+_(@result, [t]), @result)")),
        ("r.transformList(i, x, p, t)", format!("fold(i x, r, {list}, _?_:_(p, _+_(@result, [t]), @result), @result)")),
        ("r.transformMap(i, x, t)", format!("fold(i x, r, {map}, cel.@mapInsert(@result, i, t), @result)")),
        ("r.transformMap(i, x, p, t)", format!("fold(i x, r, {map}, _?_:_(p, cel.@mapInsert(@result, i, t), @result), @result)")),
        ("r.transformMapEntry(i, x, t)", format!("fold(i x, r, {map}, cel.@mapInsert(@result, t), @result)")),
        ("cel.bind(x, a, r)", "fold(#unused, [], x = a, while Bool(false), x, r)".to_owned()),
        ("r.sortBy(x, k)", format!("fold(#unused, [], @__sortBy_input__ = r, while Bool(false), @__sortBy_input__, @__sortBy_input__.@sortByAssociatedKeys(fold(x, @__sortBy_input__, {list}, _+_(@result, [k]), @result)))")),
        ("o.optMap(x, t)", "_?_:_(o.hasValue(), optional.of(fold(#unused, [], x = o.value(), while Bool(false), x, t)), optional.none())".to_owned()),
        ("o.optFlatMap(x, t)", "_?_:_(o.hasValue(), fold(#unused, [], x = o.value(), while Bool(false), x, t), optional.none())".to_owned()),
    ] {
        let ast = parse(source).unwrap();
        assert_eq!(render(&ast, ast.root().id), expansion, "{source}");
        assert_eq!(ast.to_string(), source);
        assert!(ast.macro_call(ast.root().id).is_some());
    }
}

#[test]
fn other_calls_are_not_expanded() {
    for source in [
        "has(a, b)",
        "a.has(b)",
        "all(x, p)",
        "r.all(x)",
        ".has(a.b)",
        "other.bind(x, a, b)",
        "r.filter(i, x, p)",
    ] {
        let ast = parse(source).unwrap();
        assert!(matches!(ast.root().kind, ExprKind::Call { .. }), "{source}");
        assert_eq!(ast.to_string(), source);
    }
}

#[test]
fn copies_have_ids_of_their_own() {
    let ast = parse("o.optMap(x, x)").unwrap();
    let ExprKind::Operation { operator: Operator::Conditional, operands } = &ast.root().kind else {
        panic!()
    };
    let ExprKind::Call { target: Some(target), .. } = ast.expr(operands[0]).kind else { panic!() };
    let ExprKind::Call { args, .. } = &ast.expr(operands[1]).kind else { panic!() };
    let ExprKind::Comprehension(fold) = &ast.expr(args[0]).kind else { panic!() };
    let ExprKind::Call { target: Some(copy), .. } = ast.expr(fold.accu_init).kind else { panic!() };
    assert_ne!(target, copy);
    assert_eq!(ast.expr(target).span, ast.expr(copy).span);
}

#[test]
fn macro_errors_are_those_of_cel_go() {
    for (source, message) in [
        ("has(a)", "1:5: invalid argument to has() macro\n | has(a)\n | ....^"),
        ("has(a.?b)", "1:6: invalid argument to has() macro\n | has(a.?b)\n | .....^"),
        ("1.all(2, 3)", "1:7: argument must be a simple name\n | 1.all(2, 3)\n | ......^"),
        ("r.exists(a.b, c)", "1:11: argument must be a simple name\n | r.exists(a.b, c)\n | ..........^"),
        ("r.map(1, c)", "1:7: argument is not an identifier\n | r.map(1, c)\n | ......^"),
        ("r.filter(1, c)", "1:10: argument is not an identifier\n | r.filter(1, c)\n | .........^"),
        ("r.all(i, i, c)", "1:10: duplicate variable name: i\n | r.all(i, i, c)\n | .........^"),
        (
            "r.all(__result__, c)",
            "1:7: iteration variable overwrites accumulator variable\n | r.all(__result__, c)\n | ......^",
        ),
        (
            "r.all(i, __result__, c)",
            "1:10: iteration variable overwrites accumulator variable\n | r.all(i, __result__, c)\n | .........^",
        ),
        (
            "o.optMap(1, 2)",
            "1:10: optMap() variable name must be a simple identifier\n | o.optMap(1, 2)\n | .........^",
        ),
        (
            "{}.sortBy(x, x)",
            "1:1: sortBy can only be applied to a list, identifier, comprehension, call or select expression\n \
             | {}.sortBy(x, x)\n | ^",
        ),
        ("r.sortBy(1, x)", "1:10: argument is not an identifier\n | r.sortBy(1, x)\n | .........^"),
        (
            "o.optFlatMap(1, 2)",
            "1:14: optFlatMap() variable name must be a simple identifier\n | o.optFlatMap(1, 2)\n | .............^",
        ),
    ] {
        let error = parse(source).unwrap_err();
        assert_eq!(error.to_string(), format!("ERROR: <input>:{message}"), "{source}");
    }
}

#[test]
fn checker_rejects_a_binding_of_something_other_than_an_identifier() {
    let environment = Environment::new().with_bindings();
    let errors = check(&environment, parse("cel.bind(1, 2, 3)").unwrap()).unwrap_err();
    let expected = "ERROR: <input>:1:10: cel.bind() variable names must be simple identifiers\n | cel.bind(1, 2, 3)\n | .........^";
    assert_eq!(errors.to_string(), expected);
}
