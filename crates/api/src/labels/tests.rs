//! Tests of label selectors: syntax, matching and error texts.

use proptest::prelude::*;

use super::*;

fn selector(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn matches(text: &str, labels: &[(&str, &str)]) -> bool {
    selector(text).matches(|key| labels.iter().find(|(label, _)| *label == key).map(|(_, value)| *value))
}

#[test]
fn selectors_print_as_upstream() {
    for (text, printed) in [
        ("", ""),
        ("\t ", ""),
        ("a=b", "a=b"),
        ("x = a , y==b", "x=a,y==b"),
        ("z,a", "a,z"),
        ("!x", "!x"),
        ("x in (b,a,b)", "x in (a,b)"),
        ("x notin ()", "x notin ()"),
        ("x in (,a)", "x in (,a)"),
        ("x in (a,,b)", "x in (,a,b)"),
        ("x in (a,)", "x in (,a)"),
        ("a=,b", "a=,b"),
        ("a!=b,k>5,j<3", "a!=b,j<3,k>5"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("a=in", "a=in"),
        ("example.com/a=b", "example.com/a=b"),
        ("a=\0b", "a=b"),
        ("a \0b", "a"),
    ] {
        assert_eq!(selector(text).to_string(), printed, "{text}");
    }
}

#[test]
fn syntax_errors_have_the_texts_of_go() {
    for (text, message) in [
        ("==", "found '==', expected: !, identifier, or 'end of string'"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!=a", "found '!=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ] {
        assert_eq!(Selector::parse(text).unwrap_err().to_string(), message, "{text}");
    }
    let key = Selector::parse("-a=b").unwrap_err().to_string();
    assert!(
        key.starts_with("unable to parse requirement: <nil>: Invalid value: \"-a\": name part must"),
        "{key}"
    );
    let value = Selector::parse("a=-b").unwrap_err().to_string();
    assert!(
        value.starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label"),
        "{value}"
    );
}

#[test]
fn labels_match_requirements() {
    let labels = [("app", "web"), ("tier", "5"), ("empty", "")];
    for (text, expected) in [
        ("", true),
        ("app=web", true),
        ("app==web,tier", true),
        ("app=db", false),
        ("app!=db", true),
        ("absent!=db", true),
        ("absent=", false),
        ("empty=", true),
        ("app in (db,web)", true),
        ("absent in (,x)", false),
        ("app notin (db,web)", false),
        ("absent notin (x)", true),
        ("!app", false),
        ("!absent", true),
        ("absent", false),
        ("tier>4", true),
        ("tier>5", false),
        ("tier<6", true),
        ("app<6", false),
        ("absent<6", false),
        ("app=web,tier=6", false),
    ] {
        assert_eq!(matches(text, &labels), expected, "{text}");
    }
}

#[test]
fn empty_selector_matches_everything_and_nothing_matches_no_labels() {
    assert_eq!(Selector::parse(""), Ok(Selector::EVERYTHING));
    assert_ne!(Selector::Nothing, Selector::EVERYTHING);
    assert!(Selector::EVERYTHING.is_everything() && !Selector::Nothing.is_everything());
    assert!(Selector::EVERYTHING.matches(|_| None) && !Selector::Nothing.matches(|_| None));
    assert_eq!(Selector::from_parts([], []), Ok(Selector::EVERYTHING));
}

#[test]
fn required_value_is_the_only_match() {
    let selector = selector("a=1,b in (2),c in (3,4),d!=5,e==6,f=7,f=8");
    let required: Vec<_> = ["a", "b", "c", "d", "e", "f", "g"].map(|key| selector.required_value(key)).into();
    assert_eq!(required, [Some("1"), Some("2"), None, None, Some("6"), Some("7"), None]);
    assert_eq!(Selector::Nothing.required_value("a"), None);
}

#[test]
fn label_selectors_of_objects_are_converted() {
    let expression =
        |operator, values: &[&'static str]| Expression { key: "k", operator, values: values.to_vec() };
    let made = Selector::from_parts(
        [("b", "1"), ("a", "2")],
        [expression("In", &["y", "x"]), expression("Exists", &[]), expression("DoesNotExist", &[])],
    );
    assert_eq!(made.unwrap().to_string(), "a=2,b=1,k in (x,y),k,!k");
    let refused =
        |operator, values| Selector::from_parts([], [expression(operator, values)]).unwrap_err().to_string();
    assert_eq!(refused("Gt", &["1"]), "\"Gt\" is not a valid label selector operator");
    assert_eq!(
        refused("In", &[]),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    );
    assert_eq!(
        refused("Exists", &["a", "b"]),
        "values: Invalid value: [\"a\",\"b\"]: values set must be empty for exists and does not exist"
    );
    assert_eq!(Selector::from_labels([("b", "1"), ("a", "2")]).to_string(), "a=2,b=1");
}

#[test]
fn errors_of_label_selectors_name_their_fields() {
    let mut errors = ErrorList::new();
    let expressions = [
        Expression { key: "a b", operator: "In", values: vec![] },
        Expression { key: "k", operator: "Exists", values: vec!["-"] },
        Expression { key: "k", operator: "Like", values: vec![] },
    ];
    validate(&mut errors, &Path::root("selector"), [("k", "-")], &expressions, false);
    let found: Vec<String> =
        errors.iter().map(|error| format!("{} {}", error.field, error.kind.title())).collect();
    assert_eq!(
        found,
        [
            "selector.matchLabels Invalid value",
            "selector.matchExpressions[0].values Required value",
            "selector.matchExpressions[0].key Invalid value",
            "selector.matchExpressions[1].values Forbidden",
            "selector.matchExpressions[1].values[0] Invalid value",
            "selector.matchExpressions[2].operator Invalid value",
        ]
    );
    let mut lenient = ErrorList::new();
    validate(&mut lenient, &Path::root("selector"), [], &expressions[1..2], true);
    assert_eq!(lenient.len(), 1);
}

fn requirements() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec!["a", "b", "in", "example.com/c"]);
    let value = prop::sample::select(vec!["", "x", "y", "5", "notin"]);
    (key, value.clone(), value, 0..9).prop_map(|(key, v, w, form)| match form {
        0 => key.to_owned(),
        1 => format!("!{key}"),
        2 => format!("{key}={v}"),
        3 => format!("{key}=={v}"),
        4 => format!("{key} != {v}"),
        5 => format!("{key} in ({v},{w})"),
        6 => format!("{key} notin ({v})"),
        7 => format!("{key}>5"),
        _ => format!("{key}<7"),
    })
}

proptest! {
    #[test]
    fn printed_selector_parses_back(parts in prop::collection::vec(requirements(), 0..6)) {
        let first = selector(&parts.join(","));
        prop_assert_eq!(selector(&first.to_string()), first);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[a-c=!(),<> \0in]{0,20}") {
        if let Ok(selector) = Selector::parse(&text) {
            prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
    }
}

proptest::proptest! {
    #[test]
    fn compiled_selector_matches_as_the_selector_does(
        text in "(a|!a|b|a (in|notin) \\((x|y|5)(,(x|5|7)){0,2}\\)|b(=|!=|==)(x|y|7)|b(>|<)[4-8])(,(!b|a|b(>|<)[4-8]|a(=|!=)(x|5|6)|a in \\((x|5),6\\))){0,4}",
        a in proptest::option::of("(x|y|5|6|7)"),
        b in proptest::option::of("(x|y|5|6|7)"),
    ) {
        let selector = Selector::parse(&text).unwrap();
        let labels = [("a", &a), ("b", &b), ("c", &a)];
        let present = labels.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?)));
        let one = |key: &str| present.clone().find(|(name, _)| *name == key).map(|(_, value)| value);
        proptest::prop_assert_eq!(
            CompiledSelector::new(&selector).matches(present.clone()), selector.matches(one), "{}", text
        );
    }
}

#[test]
fn value_of_a_long_list_is_found() {
    let values: Vec<String> = (0..40).rev().map(|number| format!("v{number}")).collect();
    let requirement = Requirement::new("k", Operator::In, &values).unwrap();
    assert!(values.iter().all(|value| requirement.matches(Some(value))));
    assert!(
        !requirement.matches(Some("v")) && !requirement.matches(Some("v40")) && !requirement.matches(None)
    );
    assert_eq!(requirement.values().next(), Some("v39"), "values keep the order in which they were given");
}
