//! Property: random ASTs, printed and parsed, are equal.

use proptest::prelude::*;

use crate::ast::{Ast, Element, ExprId, ExprKind, FieldInit, MapEntry};
use crate::builder::{Builder, Built};
use crate::literal::Literal;
use crate::operator::Operator;
use crate::parser::parse;
use crate::source::Span;

/// Random expression before it has ids; macros are calls.
#[derive(Clone, Debug)]
enum Tree {
    Literal(Literal),
    Ident(String),
    Select(Box<Tree>, String),
    OptionalSelect(Box<Tree>, String),
    Operation(Operator, Vec<Tree>),
    Call(String, Option<Box<Tree>>, Vec<Tree>),
    List(Vec<(Tree, bool)>),
    Map(Vec<(Tree, Tree, bool)>),
    Message(String, Vec<(String, Tree, bool)>),
}

const SPAN: Span = Span { start: 0, end: 0 };

fn build(builder: &mut Builder, tree: &Tree) -> Built {
    let all = |builder: &mut Builder, trees: &[Tree]| -> Built<Box<[ExprId]>> {
        trees.iter().map(|tree| build(builder, tree)).collect()
    };
    match tree {
        Tree::Literal(literal) => builder.literal(SPAN, literal.clone()),
        Tree::Ident(name) => builder.add(SPAN, ExprKind::Ident(name.as_str().into())),
        Tree::Select(operand, field) => {
            let operand = build(builder, operand)?;
            builder.add(SPAN, ExprKind::Select { operand, field: field.as_str().into(), test_only: false })
        }
        Tree::OptionalSelect(operand, field) => {
            let operand = build(builder, operand)?;
            let field = builder.literal(SPAN, Literal::String(field.as_str().into()))?;
            builder.operation(SPAN, Operator::OptionalSelect, &[operand, field])
        }
        Tree::Operation(operator, operands) => {
            let operands = all(builder, operands)?;
            builder.operation(SPAN, *operator, &operands)
        }
        Tree::Call(function, target, args) => {
            let target = target.as_ref().map(|target| build(builder, target)).transpose()?;
            let args = all(builder, args)?;
            builder.call_or_macro(SPAN, function.as_str().into(), target, args)
        }
        Tree::List(elements) => {
            let element = |(tree, is_optional): &(Tree, bool)| {
                Ok(Element { value: build(builder, tree)?, is_optional: *is_optional })
            };
            let elements = elements.iter().map(element).collect::<Built<_>>()?;
            builder.add(SPAN, ExprKind::List(elements))
        }
        Tree::Map(entries) => {
            let entry = |(key, value, is_optional): &(Tree, Tree, bool)| {
                let key = build(builder, key)?;
                Ok(MapEntry { key, value: build(builder, value)?, is_optional: *is_optional })
            };
            let entries = entries.iter().map(entry).collect::<Built<_>>()?;
            builder.add(SPAN, ExprKind::Map(entries))
        }
        Tree::Message(name, fields) => {
            let field = |(name, value, is_optional): &(String, Tree, bool)| {
                let name = name.as_str().into();
                Ok(FieldInit { name, value: build(builder, value)?, is_optional: *is_optional })
            };
            let fields = fields.iter().map(field).collect::<Built<_>>()?;
            builder.add(SPAN, ExprKind::Message { name: name.as_str().into(), fields })
        }
    }
}

fn ast_of(tree: &Tree) -> Ast {
    let mut builder = Builder::default();
    let root = build(&mut builder, tree).unwrap();
    builder.finish(root, "")
}

fn literals() -> impl Strategy<Value = Literal> {
    prop_oneof![
        Just(Literal::Null),
        any::<bool>().prop_map(Literal::Bool),
        any::<i64>().prop_map(Literal::Int),
        (-2i64..3).prop_map(Literal::Int),
        any::<u64>().prop_map(Literal::Uint),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(Literal::Double),
        any::<String>().prop_map(|value| Literal::String(value.into())),
        any::<Vec<u8>>().prop_map(|value| Literal::Bytes(value.into())),
    ]
}

fn fields() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_][a-zA-Z0-9_]{0,3}", "[a-z0-9_./ -]{1,4}", Just("in".to_owned()), Just("as".to_owned())]
}

fn binary_operators() -> impl Strategy<Value = Operator> {
    prop::sample::select(vec![
        Operator::Or,
        Operator::And,
        Operator::Equals,
        Operator::Less,
        Operator::In,
        Operator::Add,
        Operator::Subtract,
        Operator::Multiply,
        Operator::Modulo,
        Operator::Index,
        Operator::OptionalIndex,
    ])
}

fn ident(name: &str) -> Tree {
    Tree::Ident(name.to_owned())
}

fn macro_calls(inner: impl Strategy<Value = Tree> + Clone + 'static) -> impl Strategy<Value = Tree> {
    let one = ["all", "exists", "exists_one", "existsOne", "map", "filter", "optMap", "optFlatMap"];
    let two = ["all", "exists", "existsOne", "transformList", "transformMap", "transformMapEntry"];
    let receiver = |function: &str, target: Tree, args: Vec<Tree>| {
        Tree::Call(function.to_owned(), Some(Box::new(target)), args)
    };
    prop_oneof![
        (prop::sample::select(one.to_vec()), inner.clone(), inner.clone())
            .prop_map(move |(name, target, body)| receiver(name, target, vec![ident("x"), body])),
        (prop::sample::select(two.to_vec()), inner.clone(), inner.clone())
            .prop_map(move |(name, target, body)| receiver(name, target, vec![ident("i"), ident("x"), body])),
        (inner.clone(), inner.clone()).prop_map(move |(init, body)| receiver(
            "bind",
            ident("cel"),
            vec![ident("x"), init, body]
        )),
        (inner, fields()).prop_map(|(operand, field)| {
            Tree::Call("has".to_owned(), None, vec![Tree::Select(Box::new(operand), field)])
        }),
    ]
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![literals().prop_map(Tree::Literal), "\\.?[a-c]".prop_map(Tree::Ident)];
    leaf.prop_recursive(6, 48, 4, |inner| {
        let several = prop::collection::vec(inner.clone(), 0..3);
        let unary = prop::sample::select(vec![Operator::Not, Operator::Negate]);
        let binary = (binary_operators(), inner.clone(), inner.clone())
            .prop_map(|(operator, left, right)| Tree::Operation(operator, vec![left, right]));
        let other = prop_oneof![
            (inner.clone(), fields()).prop_map(|(tree, field)| Tree::Select(Box::new(tree), field)),
            (inner.clone(), fields()).prop_map(|(tree, field)| Tree::OptionalSelect(Box::new(tree), field)),
            (unary, inner.clone()).prop_map(|(operator, tree)| Tree::Operation(operator, vec![tree])),
            prop::collection::vec(inner.clone(), 3)
                .prop_map(|operands| Tree::Operation(Operator::Conditional, operands)),
            ("\\.?[f-h]", several.clone()).prop_map(|(name, args)| Tree::Call(name, None, args)),
            ("[f-h]", inner.clone(), several).prop_map(|(name, target, args)| Tree::Call(
                name,
                Some(Box::new(target)),
                args
            )),
            prop::collection::vec((inner.clone(), any::<bool>()), 0..3).prop_map(Tree::List),
            prop::collection::vec((inner.clone(), inner.clone(), any::<bool>()), 0..3).prop_map(Tree::Map),
            ("\\.?[A-C](\\.[a-c])?", prop::collection::vec((fields(), inner.clone(), any::<bool>()), 0..3))
                .prop_map(|(name, fields)| Tree::Message(name, fields)),
            macro_calls(inner),
        ];
        prop_oneof![1 => binary, 2 => other]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn printed_asts_parse_to_themselves(tree in trees()) {
        let ast = ast_of(&tree);
        let printed = ast.to_string();
        let parsed = parse(&printed).unwrap();
        prop_assert!(parsed == ast, "{}", printed);
        prop_assert_eq!(parsed.to_string(), printed);
    }
}
