//! PriorityLevelConfiguration: concurrency limit and queuing of requests.

use super::{builtin, check_status};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::check::{self, GoLayout};
use crate::kinds::{ALL_BUT_STATUS, Rules};
use crate::value::{Map, Value};

const QUEUES_MAX: i64 = 10_000_000;
const HASH_BITS_MAX: i64 = 60;
const ANNOTATION_KEEP_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

const QUEUING: GoLayout = GoLayout::Struct(&[
    ("Queues", "queues", GoLayout::Number),
    ("HandSize", "handSize", GoLayout::Number),
    ("QueueLengthLimit", "queueLengthLimit", GoLayout::Number),
]);
const LIMITED: GoLayout = GoLayout::Struct(&[
    ("NominalConcurrencyShares", "nominalConcurrencyShares", GoLayout::Number),
    (
        "LimitResponse",
        "limitResponse",
        GoLayout::Struct(&[
            ("Type", "type", GoLayout::Text),
            ("Queuing", "queuing", GoLayout::Pointer(&QUEUING)),
        ]),
    ),
    ("LendablePercent", "lendablePercent", GoLayout::Plain),
    ("BorrowingLimitPercent", "borrowingLimitPercent", GoLayout::Plain),
]);
const EXEMPT: GoLayout = GoLayout::Struct(&[
    ("NominalConcurrencyShares", "nominalConcurrencyShares", GoLayout::Plain),
    ("LendablePercent", "lendablePercent", GoLayout::Plain),
]);
const SPEC: GoLayout = GoLayout::Struct(&[
    ("Type", "type", GoLayout::Text),
    ("Limited", "limited", GoLayout::Pointer(&LIMITED)),
    ("Exempt", "exempt", GoLayout::Pointer(&EXEMPT)),
]);

/// Rules of PriorityLevelConfiguration.
pub struct PriorityLevel;

impl Rules for PriorityLevel {
    fn default(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        let zero_unless = |map: &mut Map, shares: i64| {
            check::set_default_with(map, "nominalConcurrencyShares", || shares.into());
            check::set_default_with(map, "lendablePercent", || 0.into());
        };
        if let Some(exempt) = spec.get_mut("exempt").and_then(Value::as_map_mut) {
            zero_unless(exempt, 0);
        }
        if let Some(limited) = spec.get_mut("limited").and_then(Value::as_map_mut) {
            zero_unless(limited, 30);
        }
        let queuing = spec.at_mut(&["limited", "limitResponse", "queuing"]).and_then(Value::as_map_mut);
        if let Some(queuing) = queuing {
            check::set_default_if_empty_with(queuing, "handSize", || 8.into());
            check::set_default_if_empty_with(queuing, "queues", || 64.into());
            check::set_default_if_empty_with(queuing, "queueLengthLimit", || 50.into());
        }
    }

    fn status_reset_fields(&self) -> &'static [&'static str] {
        ALL_BUT_STATUS
    }

    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (name, given) = (object.str_at(&["metadata", "name"]), check::field(object, "spec"));
        if object.at(&["metadata", "annotations", ANNOTATION_KEEP_ZERO]).is_some() {
            let path = Path::root("metadata");
            let detail = format!("annotation '{ANNOTATION_KEEP_ZERO}' is forbidden");
            errors.push(FieldError::forbidden(&path.child("annotations"), detail));
        }
        let mut declarative = ErrorList::new();
        check_spec(errors, &mut declarative, given, name);
        check_mandatory(errors, given, name);
        check_status(errors, object);
        errors.append(declarative);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check_status(errors, new);
    }
}

/// Checks that mandatory levels have their fixed specs. The exempt level may be tuned.
fn check_mandatory(errors: &mut ErrorList, spec: &Value, name: &str) {
    let Some(wanted) = builtin::level_spec(name).filter(|_| builtin::is_mandatory(name)) else { return };
    let field = |name| check::field(spec, name) == check::field(&wanted, name);
    let (same, except) = match name {
        "exempt" => (field("type") && field("limited"), " except the 'spec.exempt' field"),
        _ => (wanted == *spec, ""),
    };
    if !same {
        let detail = format!("spec of '{name}'{except} must equal the fixed value");
        errors.push(FieldError::invalid(&Path::root("spec"), check::format_go(spec, &SPEC), detail));
    }
}

/// Validates a spec; errors of declarative validation go into `declarative`.
fn check_spec(errors: &mut ErrorList, declarative: &mut ErrorList, spec: &Value, name: &str) {
    let path = Path::root("spec");
    let (kind, limited, exempt) =
        (check::text(spec, "type"), check::field(spec, "limited"), check::field(spec, "exempt"));
    if (name == "exempt") != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid(&path.child("type"), BadValue::json_string(kind), detail));
    }
    if !kind.is_empty() {
        check::check_one_of(errors, &path.child("type"), kind, &["Exempt", "Limited"]);
    }
    if kind == "Exempt" {
        check_shares(errors, &path.child("exempt"), exempt);
    } else if !exempt.is_null() {
        declarative.push(FieldError::forbidden(&path.child("exempt"), ""));
    }
    match (kind, limited.is_null()) {
        ("Limited", true) => declarative.push(FieldError::required(&path.child("limited"), "")),
        ("Limited", false) => check_limited(errors, &path.child("limited"), limited),
        (_, false) => declarative.push(FieldError::forbidden(&path.child("limited"), "")),
        (_, true) => {}
    }
    if kind.is_empty() {
        declarative.push(FieldError::required(&path.child("type"), ""));
    }
    if !limited.is_null() {
        check_response_declarative(
            declarative,
            &path.child("limited"),
            check::field(limited, "limitResponse"),
        );
    }
}

fn check_shares(errors: &mut ErrorList, path: &Path<'_>, level: &Value) {
    let negative = |name| check::field(level, name).as_i64().filter(|shares| *shares < 0);
    if let Some(shares) = negative("nominalConcurrencyShares") {
        let path = path.child("nominalConcurrencyShares");
        errors.push(FieldError::invalid(&path, shares, "must be a non-negative integer"));
    }
    check_percent(errors, path, level);
}

fn check_percent(errors: &mut ErrorList, path: &Path<'_>, level: &Value) {
    let percent = check::field(level, "lendablePercent").as_i64();
    if let Some(percent) = percent.filter(|percent| !(0..=100).contains(percent)) {
        let detail = "must be between 0 and 100, inclusive";
        errors.push(FieldError::invalid(&path.child("lendablePercent"), percent, detail));
    }
}

fn check_limited(errors: &mut ErrorList, path: &Path<'_>, limited: &Value) {
    let shares = check::number(limited, "nominalConcurrencyShares");
    if shares < 0 {
        let path = path.child("nominalConcurrencyShares");
        errors.push(FieldError::invalid(&path, shares, "must be a non-negative integer"));
    }
    let (response, at) = (check::field(limited, "limitResponse"), path.child("limitResponse"));
    match (check::text(response, "type"), check::field(response, "queuing")) {
        ("Queue", queuing) if !queuing.is_null() => check_queuing(errors, &at.child("queuing"), queuing),
        ("Queue" | "Reject" | "", _) => {}
        (other, _) => check::check_one_of(errors, &at.child("type"), other, &["Queue", "Reject"]),
    }
    check_percent(errors, path, limited);
    let borrowing = check::field(limited, "borrowingLimitPercent").as_i64();
    if let Some(borrowing) = borrowing.filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        errors.push(FieldError::invalid(&path.child("borrowingLimitPercent"), borrowing, detail));
    }
}

fn check_response_declarative(declarative: &mut ErrorList, path: &Path<'_>, response: &Value) {
    let path = path.child("limitResponse");
    let kind = check::text(response, "type");
    match (kind, check::is_set(response, "queuing")) {
        ("Queue", false) => declarative.push(FieldError::required(&path.child("queuing"), "")),
        ("Queue", true) | (_, false) => {}
        (_, true) => declarative.push(FieldError::forbidden(&path.child("queuing"), "")),
    }
    if kind.is_empty() {
        declarative.push(FieldError::required(&path.child("type"), ""));
    }
}

fn check_queuing(errors: &mut ErrorList, path: &Path<'_>, queuing: &Value) {
    let number = |name| check::number(queuing, name);
    let (length, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    if length <= 0 {
        errors.push(FieldError::invalid(&path.child("queueLengthLimit"), length, "must be positive"));
    }
    let at = path.child("queues");
    if queues <= 0 {
        errors.push(FieldError::invalid(&at, queues, "must be positive"));
    } else if queues > QUEUES_MAX {
        errors.push(FieldError::invalid(&at, queues, format!("must not be greater than {QUEUES_MAX}")));
    }
    let fault = if hand <= 0 {
        "must be positive".to_owned()
    } else if hand > queues {
        format!("should not be greater than queues ({queues})")
    } else if entropy_bits(queues, hand) > HASH_BITS_MAX {
        format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS_MAX}"
        )
    } else {
        return;
    };
    errors.push(FieldError::invalid(&path.child("handSize"), hand, fault));
}

/// Bits of entropy needed to select a hand of queues.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "both numbers have at most 32 bits, and the product is compared with 60"
)]
fn entropy_bits(queues: i64, hand: i64) -> i64 {
    ((queues as f64).log2() * hand as f64).ceil() as i64
}
