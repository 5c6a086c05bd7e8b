//! Table-driven validation tests, with cases in `cases/`.
//!
//! A case is a block of lines: a claim after `#`, the verb and the kind, the objects in YAML without
//! `apiVersion` and `kind` (for updates the old and the new one), then the expectations: an error after `!`,
//! a field of the stored object after `=`, a warning after `~`. Errors are complete and in order; one that
//! ends in `…` is a prefix.

use std::fmt::Write as _;

use super::certificates::signing_request;
use super::{Author, Rules, rules};
use crate::decode::decode;
use crate::field_error::ErrorList;
use crate::json;
use crate::resources;
use crate::schema::builtin;
use crate::time::Time;
use crate::value::Value;
use crate::yaml;

const CASES: [(&str, &str); 16] = [
    ("admissionregistration.k8s.io", "admissionregistration"),
    ("apiextensions.k8s.io", "apiextensions"),
    ("apiregistration.k8s.io", "apiregistration"),
    ("authentication.k8s.io", "authentication"),
    ("authorization.k8s.io", "authorization"),
    ("certificates.k8s.io", "certificates"),
    ("coordination.k8s.io", "coordination"),
    ("discovery.k8s.io", "discovery"),
    ("flowcontrol.apiserver.k8s.io", "flowcontrol"),
    ("networking.k8s.io", "networking"),
    ("node.k8s.io", "node"),
    ("rbac.authorization.k8s.io", "rbac"),
    ("resource.k8s.io", "resource"),
    ("scheduling.k8s.io", "scheduling"),
    ("storage.k8s.io", "storage"),
    ("storagemigration.k8s.io", "storagemigration"),
];

/// A case of a file.
struct Case {
    group: &'static str,
    text: String,
}

impl Case {
    fn claim(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// Verb and kind.
    fn verb_and_kind(&self) -> (&str, &str) {
        self.text.lines().nth(1).and_then(|line| line.split_once(' ')).expect("a verb and a kind")
    }

    fn rules(&self) -> &'static dyn Rules {
        let (_, kind) = self.verb_and_kind();
        rules(self.group, kind).unwrap_or_else(|| panic!("no rules of {} {kind}", self.group))
    }

    /// Objects as the pipeline passes them to the rules.
    fn objects(&self) -> Result<Vec<Value>, String> {
        let (_, kind) = self.verb_and_kind();
        let of = builtin().kind(self.group, "v1", kind).ok_or_else(|| "no schema".to_owned())?;
        let decoded = |text: &str| -> Result<Value, String> {
            let (value, _) = yaml::parse_strict(text.as_bytes()).map_err(|error| error.to_string())?;
            let decoded = decode(value, of, &[]).map_err(|error| error.to_string())?;
            match decoded.strict.first() {
                Some(error) => Err(error.to_string()),
                None => Ok(decoded.value),
            }
        };
        let mut objects: Vec<Value> =
            self.text.lines().filter(|line| line.starts_with('{')).map(decoded).collect::<Result<_, _>>()?;
        objects.iter_mut().for_each(|object| self.rules().default(object));
        Ok(objects)
    }
}

/// All cases of all groups.
fn cases() -> impl Iterator<Item = Case> {
    CASES.into_iter().flat_map(|(group, file)| {
        let path = format!("{}/src/kinds/cases/{file}.txt", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let blocks = text
            .split(
                "

",
            )
            .map(str::trim)
            .filter(|block| !block.is_empty());
        blocks.map(|block| Case { group, text: block.to_owned() }).collect::<Vec<_>>()
    })
}

/// Runs a write: returns the object, its errors and its warnings.
fn run(verb: &str, rules: &dyn Rules, mut objects: Vec<Value>) -> (Value, ErrorList, Vec<String>) {
    let mut errors = ErrorList::new();
    let mut new = objects.pop().expect("a case has an object");
    let old = objects.pop();
    match (verb, &old) {
        ("create", None) => {
            rules.prepare_create(&mut new);
            rules.validate(&new, &mut errors);
        }
        ("update", Some(old)) => {
            rules.prepare_update(&mut new, old);
            rules.validate_update(&new, old, &mut errors);
        }
        ("status", Some(old)) => {
            rules.prepare_status(&mut new, old);
            rules.validate_status(&new, old, &mut errors);
        }
        ("approval", Some(old)) => {
            signing_request::prepare_approval(&mut new, old);
            signing_request::validate_approval(&new, old, &mut errors);
        }
        _ => panic!("{verb} with {} objects", objects.len() + 1),
    }
    let warnings = rules.warnings(&new, old.as_ref());
    (new, errors, warnings)
}

/// Differences from the expectations; empty if there are none.
fn differences(expected: &[&str], new: &Value, errors: &ErrorList, warnings: &[String]) -> String {
    let mut out = String::new();
    let after = |mark: &str| -> Vec<String> {
        expected.iter().filter_map(|line| line.strip_prefix(mark)).map(str::to_owned).collect()
    };
    let wanted = after("! ");
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let alike = |wanted: &String, found: &String| match wanted.strip_suffix('…') {
        Some(start) => found.starts_with(start),
        None => wanted == found,
    };
    if wanted.len() != found.len() || !wanted.iter().zip(&found).all(|(wanted, found)| alike(wanted, found)) {
        write!(out, "\n  wanted {wanted:#?}\n  found {found:#?}").unwrap();
    }
    let mentioned = after("~ ");
    if !mentioned.is_empty() && mentioned != warnings {
        write!(out, "\n  wanted warnings {mentioned:#?}\n  found {warnings:#?}").unwrap();
    }
    for line in after("= ") {
        let (path, value) = line.split_once(' ').expect("a path and a value");
        let steps: Vec<&str> = path.split('.').collect();
        let found = steps.iter().try_fold(new, |value, step| match step.parse::<usize>() {
            Ok(i) => value.as_list()?.get(i),
            Err(_) => value.get(step),
        });
        let found = found.map_or_else(|| "nothing".to_owned(), json::to_text);
        if found != value {
            write!(out, "\n  wanted {path} {value}\n  found {found}").unwrap();
        }
    }
    out
}

#[test]
fn objects_have_the_errors_and_warnings_of_the_tables() {
    let (mut faults, mut count) = (String::new(), 0);
    for case in cases() {
        let (verb, kind) = case.verb_and_kind();
        let expected: Vec<&str> = case.text.lines().skip(2).filter(|line| !line.starts_with('{')).collect();
        let found = match case.objects() {
            Ok(objects) => {
                let (new, errors, warnings) = run(verb, case.rules(), objects);
                differences(&expected, &new, &errors, &warnings)
            }
            Err(error) => format!("\n  {error}"),
        };
        if !found.is_empty() {
            write!(faults, "\n{} {kind} {}{found}", case.group, case.claim()).unwrap();
        }
        count += 1;
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(count >= 150, "only {count} cases");
}

#[test]
fn defaults_are_idempotent() {
    for case in cases() {
        for mut object in case.objects().unwrap() {
            let once = object.clone();
            case.rules().default(&mut object);
            assert_eq!(once, object, "{} {}", case.group, case.claim());
        }
    }
}

/// Visits a value with each of its parts missing, one at a time.
fn for_each_gap(value: &Value, visit: &mut dyn FnMut(Value)) {
    match value {
        Value::Map(map) => {
            for (name, part) in map.iter() {
                let with = |part: Value| {
                    let mut map = map.clone();
                    map.insert(name, part);
                    Value::Map(map)
                };
                visit(with(Value::Null));
                for_each_gap(part, &mut |part| visit(with(part)));
            }
        }
        Value::List(list) => {
            visit(Value::List(Vec::new()));
            for (i, part) in list.iter().enumerate() {
                for_each_gap(part, &mut |part| {
                    let mut list = list.clone();
                    list[i] = part;
                    visit(Value::List(list));
                });
            }
        }
        _ => {}
    }
}

#[test]
fn rules_never_panic_on_missing_fields() {
    let mut count = 0;
    for case in cases() {
        let rules = case.rules();
        for whole in case.objects().unwrap() {
            for_each_gap(&whole, &mut |partial| {
                for (mut new, old) in [(partial.clone(), whole.clone()), (whole.clone(), partial)] {
                    let mut errors = ErrorList::new();
                    rules.default(&mut new);
                    for prepare in [Rules::prepare_update, Rules::prepare_status] {
                        prepare(rules, &mut new.clone(), &old);
                    }
                    rules.validate(&new, &mut errors);
                    rules.validate_update(&new, &old, &mut errors);
                    rules.validate_status(&new, &old, &mut errors);
                    rules.warnings(&new, Some(&old));
                    rules.fields(&new);
                    rules.prepare_create(&mut new);
                    count += errors.len();
                }
            });
        }
    }
    assert!(count > 10_000, "only {count} errors: the objects were not validated");
}

#[test]
fn has_status_matches_the_status_subresource() {
    for info in resources::all().iter().filter(|info| info.version == "v1") {
        if CASES.iter().any(|(group, _)| *group == info.group)
            && let Some(rules) = rules(&info.group, &info.kind)
        {
            assert_eq!(rules.has_status(), info.subresource("status").is_some(), "{}", info.kind);
        }
    }
}

#[test]
fn every_served_kind_of_these_groups_has_rules() {
    for info in resources::all().iter().filter(|info| info.version == "v1") {
        let ours = CASES.iter().any(|(group, _)| *group == info.group);
        if ours {
            assert!(rules(&info.group, &info.kind).is_some(), "{} {}", info.group, info.kind);
        }
    }
}

#[test]
fn reset_fields_equal_the_fields_that_are_reset() {
    for info in resources::all().iter().filter(|info| info.version == "v1") {
        let Some(rules) = rules(&info.group, &info.kind) else { continue };
        let whole = rules.reset_fields();
        match (&*info.kind, rules.has_status()) {
            ("CertificateSigningRequest", _) => assert_eq!(whole, ["spec", "status"]),
            (_, true) => assert_eq!(whole, ["status"], "{}", info.kind),
            (_, false) => assert!(whole.is_empty(), "{}", info.kind),
        }
        assert!(rules.status_reset_fields().contains(&"spec"), "{}", info.kind);
    }
    let of = |group, kind| rules(group, kind).unwrap().status_reset_fields();
    assert_eq!(of("apps", "Deployment"), ["spec", "metadata.labels"]);
    assert_eq!(of("apps", "StatefulSet"), ["spec"]);
    assert_eq!(of("", "Pod"), ["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"]);
    assert_eq!(of("storage.k8s.io", "VolumeAttachment"), ["metadata", "spec"]);
}

#[test]
fn taint_time_is_defaulted_and_renewed_with_its_effect() {
    let rules = rules("resource.k8s.io", "DeviceTaintRule").unwrap();
    let rule = |text: &str| json::parse(text.as_bytes()).unwrap();
    let author =
        Author { now: Time::from_seconds(60), user: "", uid: "", groups: &[], extra: &Default::default() };
    let mut new = rule(r#"{"spec":{"taint":{"effect":"NoExecute"}}}"#);
    rules.default_times(&mut new, Time::from_seconds(0));
    assert_eq!(new.str_at(&["spec", "taint", "timeAdded"]), "1970-01-01T00:00:00Z");
    let old = new.clone();
    rules.sign(&mut new, Some(&old), &author);
    assert_eq!(new, old);
    let mut new = rule(r#"{"spec":{"taint":{"effect":"None","timeAdded":"1970-01-01T00:00:00Z"}}}"#);
    rules.sign(&mut new, Some(&old), &author);
    assert_eq!(new.str_at(&["spec", "taint", "timeAdded"]), "1970-01-01T00:01:00Z");
}
