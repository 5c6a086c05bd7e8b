//! Property: no text makes the parser panic or overflow its stack, and every AST prints as source of itself.

use proptest::prelude::*;
use setpoint_cel::parse;

const PIECES: [&str; 46] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "a",
    "b.c",
    ".",
    "?",
    ":",
    ",",
    "!",
    "-",
    "+",
    "*",
    "&&",
    "||",
    "==",
    "in",
    "1",
    "2u",
    "1.5",
    ".5",
    "0x",
    "'s'",
    "\"",
    "'''",
    "r'",
    "b'",
    "\\",
    "\\x4",
    "\n",
    "\r",
    "//",
    "`",
    "`x`",
    "é",
    "😀",
    "has(",
    ".all(x,",
    ".map(",
    "cel.bind(x,",
    ".optMap(x,",
    "null",
    "var",
];

fn check(source: &str) {
    match parse(source) {
        Ok(ast) => {
            let printed = ast.to_string();
            assert!(parse(&printed).as_ref() == Ok(&ast), "{source:?} prints as {printed:?}");
        }
        Err(error) => assert!(error.to_string().starts_with("ERROR: <input>:"), "{source:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn arbitrary_text_is_parsed_or_rejected(source in any::<String>()) {
        check(&source);
    }

    #[test]
    fn arbitrary_pieces_are_parsed_or_rejected(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..40)
    ) {
        check(&pieces.concat());
        check(&pieces.join(" "));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn repeated_pieces_do_not_overflow_the_stack(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 1..5),
        times in 1usize..3000,
    ) {
        check(&pieces.concat().repeat(times));
    }
}

#[test]
fn highest_asts_are_copied_compared_and_printed() {
    let levels = setpoint_cel::NESTING_MAX - 2;
    for (open, close) in
        [("[!f(1, ", ")]"), ("a.exists_one(x, ", ")"), ("o.optMap(x, !", ")"), ("[-{1: ", "}]")]
    {
        let levels = if open.starts_with('[') { levels / 2 } else { levels };
        let nested = format!("{}a{}", open.repeat(levels), close.repeat(levels));
        check(&nested);
        assert!(parse(&nested).is_ok(), "{open}");
        check(&format!("({nested}).optMap(x, x)"));
    }
}
