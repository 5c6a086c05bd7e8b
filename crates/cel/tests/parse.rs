//! Grammar: precedence, literals, members, positions, errors and bounds.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use setpoint_cel::{DEPTH_MAX, ExprKind, Literal, Location, NESTING_MAX, ParseErrorKind, parse};

/// Checks that a source parses to the AST of another, and prints as it.
fn assert_prints(source: &str, printed: &str) {
    let ast = parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    assert_eq!(ast.to_string(), printed, "{source}");
    assert_eq!(parse(printed).unwrap(), ast, "{source}");
}

fn literal(source: &str) -> Literal {
    match &parse(source).unwrap_or_else(|error| panic!("{error}")).root().kind {
        ExprKind::Literal(literal) => literal.clone(),
        other => panic!("{source}: {other:?}"),
    }
}

fn error(source: &str) -> String {
    parse(source).unwrap_err().to_string()
}

#[test]
fn operators_bind_by_precedence() {
    for (source, same) in [
        ("a || b && c", "a || (b && c)"),
        ("a && b == c", "a && (b == c)"),
        ("a == b + c", "a == (b + c)"),
        ("a + b * c", "a + (b * c)"),
        ("a * b + c", "(a * b) + c"),
        ("a - b - c", "(a - b) - c"),
        ("a < b == c", "(a < b) == c"),
        ("a in b in c", "(a in b) in c"),
        ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
        ("a || b ? c : d", "(a || b) ? c : d"),
        ("-a.b", "-(a.b)"),
        ("!a.b(c)[d]", "!(((a.b(c)))[d])"),
        ("-a * b", "(-a) * b"),
        ("a && b && c && d", "(a && b) && (c && d)"),
        ("a || b || c", "(a || b) || c"),
        ("-1.x", "(-1).x"),
        ("!!a", "a"),
        ("---a", "-a"),
        ("--1", "1"),
    ] {
        assert_eq!(parse(source).unwrap(), parse(same).unwrap(), "{source} is {same}");
    }
    for (source, other) in [
        ("a - (b - c)", "a - b - c"),
        ("(a ? b : c) ? d : e", "a ? b : c ? d : e"),
        ("a && (b && (c && d))", "a && b && c && d"),
        ("-(1)", "-1"),
        ("!(!a)", "a"),
        ("(a + b) * c", "a + b * c"),
    ] {
        assert_ne!(parse(source).unwrap(), parse(other).unwrap(), "{source} is not {other}");
        assert_prints(source, source);
    }
}

#[test]
fn members_and_aggregates_round_trip() {
    for source in [
        ".a.b.c",
        ".f(1)",
        "a.b.c(d, e)[f].g",
        "a.?b[?c].?`x-y`",
        "a.`in`.as.`b.c/d e`",
        "[a, ?b, [c]]",
        "{a: b, ?\"c\": d}",
        "a.b.Msg{f: 1, ?g: 2, `h-i`: 3}",
        ".Msg{}.f",
        "[]",
        "{}",
        "-(1.x)",
        "!-1",
        "a - -1",
    ] {
        assert_prints(source, source);
    }
    assert_prints("[1, 2,]", "[1, 2]");
    assert_prints("[,]", "[]");
    assert_prints("{1: 2,}", "{1: 2}");
    assert_prints("Msg{a: 1,}", "Msg{a: 1}");
    assert_prints("a // first\n // second\r\n\t\x0c + b", "a + b");
}

#[test]
fn numbers_have_their_values() {
    for (source, value) in [
        ("0", Literal::Int(0)),
        ("-9223372036854775808", Literal::Int(i64::MIN)),
        ("9223372036854775807", Literal::Int(i64::MAX)),
        ("-0x8000000000000000", Literal::Int(i64::MIN)),
        ("0xFf", Literal::Int(255)),
        ("18446744073709551615u", Literal::Uint(u64::MAX)),
        ("0x10U", Literal::Uint(16)),
        ("1.5", Literal::Double(1.5)),
        (".5", Literal::Double(0.5)),
        ("1e3", Literal::Double(1000.0)),
        ("-1.5E-3", Literal::Double(-0.0015)),
        ("-0.0", Literal::Double(-0.0)),
        ("true", Literal::Bool(true)),
        ("null", Literal::Null),
    ] {
        assert_eq!(literal(source), value, "{source}");
    }
    for (source, kind) in [
        ("9223372036854775808", "int"),
        ("-9223372036854775809", "int"),
        ("18446744073709551616u", "uint"),
        ("1e999", "double"),
    ] {
        assert_eq!(parse(source).unwrap_err().kind(), &ParseErrorKind::InvalidNumber(kind), "{source}");
    }
}

#[test]
fn strings_and_bytes_have_their_values() {
    for (source, value) in [
        (r#""a'b""#, "a'b"),
        (r#"'a"b'"#, "a\"b"),
        ("'''a'\n\"b'''", "a'\n\"b"),
        ("\"\"\"a\r\nb\rc\"\"\"", "a\nb\nc"),
        (r#"r"\n""#, "\\n"),
        (r"R'''\'''", "\\"),
        (r#""\a\b\f\n\r\t\v\\\'\"\?\`""#, "\u{7}\u{8}\u{c}\n\r\t\u{b}\\'\"?`"),
        (r#""\x41\X42\103\u00e9\U0001F600""#, "ABCé😀"),
        (r#""\377""#, "ÿ"),
        ("''", ""),
        ("\"\"\"\"\"\"", ""),
    ] {
        assert_eq!(literal(source), Literal::String(value.into()), "{source}");
    }
    for (source, value) in
        [(r#"b"\xff\377\n""#, &b"\xff\xff\n"[..]), ("B'é'", "é".as_bytes()), (r#"br"\x""#, br"\x")]
    {
        assert_eq!(literal(source), Literal::Bytes(value.into()), "{source}");
    }
    assert!(matches!(parse(r#"b"\u0041""#).unwrap_err().kind(), ParseErrorKind::InvalidEscape(_)));
    assert!(error(r#""\ud800""#).contains("invalid unicode code point"));
}

/// First tokens of an expression, in the notation of error messages.
const START: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
     STRING, BYTES, IDENTIFIER}";

#[test]
fn syntax_errors_have_the_form_of_cel_go() {
    for (source, message) in [
        ("a b", "1:3: Syntax error: extraneous input 'b' expecting <EOF>\n | a b\n | ..^".to_owned()),
        ("1 + ", format!("1:5: Syntax error: mismatched input '<EOF>' expecting {START}\n | 1 + \n | ....^")),
        ("*a", format!("1:1: Syntax error: extraneous input '*' expecting {START}\n | *a\n | ^")),
        ("[1", "1:3: Syntax error: mismatched input '<EOF>' expecting {']', ','}\n | [1\n | ..^".to_owned()),
        ("f(1", "1:4: Syntax error: missing ')' at '<EOF>'\n | f(1\n | ...^".to_owned()),
        ("a\n\t+ var", "2:4: reserved identifier: var\n |  + var\n | ...^".to_owned()),
        ("'é' + if", "1:7: reserved identifier: if\n | 'é' + if\n | .\u{ff0e}....^".to_owned()),
        ("a{b}", "1:4: Syntax error: mismatched input '}' expecting ':'\n | a{b}\n | ...^".to_owned()),
        (
            "{}.\"a\"",
            "1:4: Syntax error: no viable alternative at input '.\"a\"'\n | {}.\"a\"\n | ...^".to_owned(),
        ),
    ] {
        assert_eq!(error(source), format!("ERROR: <input>:{message}"), "{source}");
    }
    for source in
        ["", "a.in", "a.?b()", "a.`b`()", "`a`", "!-a", "f(a,)", "a[0]{}", "1.", "'a\n'", "{a}", "``"]
    {
        assert!(error(source).starts_with("ERROR: <input>:1:"), "{source}");
    }
}

#[test]
fn errors_behind_the_first_are_reported() {
    for (source, messages) in [
        (
            "a = 'b'",
            [
                "1:3: Syntax error: token recognition error at: '= '",
                "1:5: Syntax error: extraneous input ''b'' expecting <EOF>",
            ],
        ),
        (
            "1 + $",
            [
                "1:5: Syntax error: token recognition error at: '$'",
                &format!("1:6: Syntax error: mismatched input '<EOF>' expecting {START}"),
            ],
        ),
        (
            "a.in",
            [
                "1:3: Syntax error: no viable alternative at input '.in'",
                &format!("1:5: Syntax error: mismatched input '<EOF>' expecting {START}"),
            ],
        ),
        (
            "a[+]",
            [
                &format!(
                    "1:3: Syntax error: mismatched input '+' expecting {}",
                    START.replace("'!',", "'!', '?',")
                ),
                &format!("1:4: Syntax error: mismatched input ']' expecting {START}"),
            ],
        ),
        (
            "1 + +",
            [
                &format!("1:5: Syntax error: mismatched input '+' expecting {START}"),
                &format!("1:6: Syntax error: mismatched input '<EOF>' expecting {START}"),
            ],
        ),
        (
            "a $ b",
            [
                "1:3: Syntax error: token recognition error at: '$'",
                "1:5: Syntax error: extraneous input 'b' expecting <EOF>",
            ],
        ),
    ] {
        let error = error(source);
        let heads: Vec<&str> =
            error.lines().filter_map(|line| line.strip_prefix("ERROR: <input>:")).collect();
        assert_eq!(heads, messages, "{source}");
    }
}

#[test]
fn nodes_have_locations_and_unique_ids() {
    let ast = parse("a +\n b.c").unwrap();
    let ExprKind::Operation { operands, .. } = &ast.root().kind else { panic!("{ast:?}") };
    assert_eq!(ast.location(ast.root().id), Location { line: 1, column: 3 });
    assert_eq!(ast.location(operands[1]), Location { line: 2, column: 3 });
    assert_eq!(ast.expr(operands[0]).span.text(ast.source()), "a");
    assert_eq!(ast.len(), 4);
    assert!(operands.iter().all(|id| id.index() < ast.len() && *id == ast.expr(*id).id));
}

#[test]
fn nesting_and_depth_are_bounded() {
    let nested = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
    assert!(parse(&nested(NESTING_MAX - 1)).is_ok());
    assert_eq!(error(&nested(NESTING_MAX)), "ERROR: <input>:-1:0: expression recursion limit exceeded: 250");
    let chained = |links: usize| format!("a{}", ".b".repeat(links));
    assert!(parse(&chained(DEPTH_MAX.into())).is_ok());
    assert_eq!(
        error(&chained(usize::from(DEPTH_MAX) + 1)),
        "ERROR: <input>:-1:0: max recursion depth exceeded"
    );
    let many = 100_000;
    for hostile in ["(", "[", "{1:", "f(", "a.b(", "!(", "-(", "a?b:", "a[", "M{a:", "a.all(x,"] {
        let source = hostile.repeat(many);
        assert_eq!(parse(&source).unwrap_err().kind(), &ParseErrorKind::NestingLimit, "{hostile}");
    }
    for hostile in [".b", "[1]", ".f()", " + a", " < a", ".?b", ".all(x, x)"] {
        let source = format!("a{}", hostile.repeat(many));
        assert_eq!(parse(&source).unwrap_err().kind(), &ParseErrorKind::DepthLimit, "{hostile}");
    }
    assert!(parse(&format!("{}a", "!".repeat(many + 1))).is_ok());
    assert!(parse(&format!("{}a", "-".repeat(many))).is_ok());
    assert!(parse(&format!("a{}", " && a".repeat(many))).is_ok());
    assert!(parse(&format!("[{}]", "1,".repeat(many))).is_ok());
}

#[test]
fn copies_of_receivers_are_bounded() {
    let chained = |links: usize| format!("o{}", ".optMap(x, x)".repeat(links));
    assert!(parse(&chained(8)).is_ok());
    assert_eq!(parse(&chained(60)).unwrap_err().kind(), &ParseErrorKind::CopyLimit);
}
