//! Metadata of creates, updates and deletes.

use proptest::prelude::*;

use super::create::{NamespaceMismatch, Stamp, clear_system_fields, ensure_namespace, ensure_new, stamp};
use super::delete::{Deletion, GarbagePolicy, delete, returns_deleted_object};
use super::options::{DeleteOptions, ListOptions, WriteOptions};
use super::update::{RevisionError, check_name, check_revision, is_released, keep, update_generation};
use super::validate::MetadataRules;
use super::{owners, validate};
use crate::field_error::ErrorList;
use crate::names::NameRule;
use crate::time::Time;
use crate::value::Value;
use crate::{json, kinds};

const NOW: Time = Time::from_seconds(1_767_225_600);
const RULES: MetadataRules =
    MetadataRules { name: NameRule::Subdomain, namespaced: true, standard_finalizers: true };
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// An object with this metadata.
fn with(metadata: &str) -> Value {
    json::parse(format!(r#"{{"metadata":{{{metadata}}}}}"#).as_bytes()).unwrap()
}

fn meta(object: &Value) -> String {
    json::to_text(object.get("metadata").unwrap())
}

fn texts(errors: ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn create_faults(metadata: &str) -> Vec<String> {
    let mut errors = ErrorList::new();
    validate::create(&mut errors, &with(metadata), &RULES);
    texts(errors)
}

fn update_faults(old: &str, new: &str) -> Vec<String> {
    let mut errors = ErrorList::new();
    validate::update(&mut errors, &with(new), &with(old), &RULES);
    texts(errors)
}

#[test]
fn system_fields_of_a_new_object_are_set_by_the_server() {
    let mut object = with(
        r#""generateName":"web-","uid":"mine","creationTimestamp":"2000-01-01T00:00:00Z","deletionTimestamp":"2000-01-01T00:00:00Z","deletionGracePeriodSeconds":3,"selfLink":"/x""#,
    );
    clear_system_fields(&mut object);
    assert_eq!(meta(&object), r#"{"generateName":"web-"}"#);
    stamp(&mut object, &Stamp { now: NOW, uid: "u", entropy: 0 }, true);
    assert_eq!(
        meta(&object),
        r#"{"generateName":"web-","name":"web-bbbbb","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z","generation":1}"#
    );
    let mut object = with(r#""name":"n","generateName":"web-""#);
    stamp(&mut object, &Stamp { now: NOW, uid: "u", entropy: 0 }, false);
    assert_eq!(
        meta(&object),
        r#"{"name":"n","generateName":"web-","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"}"#
    );
}

#[test]
fn namespace_must_match_the_request() {
    for (metadata, request_namespace, expected) in [
        (r#""namespace":"a""#, "a", Ok(r#"{"namespace":"a"}"#)),
        ("", "a", Ok(r#"{"namespace":"a"}"#)),
        (r#""namespace":"a""#, "", Ok("{}")),
        (r#""namespace":"a""#, "b", Err(NamespaceMismatch)),
    ] {
        let mut object = with(metadata);
        let result = ensure_namespace(&mut object, request_namespace);
        assert_eq!(result.map(|()| meta(&object)), expected.map(str::to_owned));
    }
}

#[test]
fn metadata_errors_have_the_texts_of_upstream() {
    let good = r#""name":"n","namespace":"a""#;
    let reference = r#""apiVersion":"v1","kind":"Pod","name":"p","uid":"u""#;
    let bad_name = format!("metadata.name: Invalid value: \"N\": {SUBDOMAIN}");
    let bad_prefix = format!("metadata.generateName: Invalid value: \"N\": {SUBDOMAIN}");
    let bad_label = format!("metadata.labels: Invalid value: \"b c\": {LABEL_VALUE}");
    let two = format!(r#"[{{{reference},"controller":true}},{{{reference},"controller":true}}]"#);
    let only_one = format!(
        "metadata.ownerReferences: Invalid value: {two}: Only one reference can have Controller set to true. Found \"true\" in references for Pod/p and Pod/p"
    );
    for (metadata, expected) in [
        (good.to_owned(), vec![]),
        (
            r#""namespace":"a""#.to_owned(),
            vec!["metadata.name: Required value: name or generateName is required"],
        ),
        (r#""name":"N","namespace":"a""#.to_owned(), vec![&*bad_name]),
        (format!(r#"{good},"generateName":"N""#), vec![&*bad_prefix]),
        (r#""name":"n""#.to_owned(), vec!["metadata.namespace: Required value"]),
        (
            format!(r#"{good},"generation":-1"#),
            vec!["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (format!(r#"{good},"labels":{{"a":"b c"}}"#), vec![&*bad_label]),
        (format!(r#"{good},"annotations":{{"a.B/c":"any thing"}}"#), vec![]),
        (format!(r#"{good},"ownerReferences":[{{{reference}}}]"#), vec![]),
        (format!(r#"{good},"ownerReferences":{two}"#), vec![&*only_one]),
        (
            format!(r#"{good},"ownerReferences":[{{"apiVersion":"","kind":"","name":"","uid":""}}]"#),
            vec![
                "metadata.ownerReferences[0].apiVersion: Required value: must not be empty",
                "metadata.ownerReferences[0].kind: Required value: must not be empty",
                "metadata.ownerReferences[0].name: Required value: must not be empty",
                "metadata.ownerReferences[0].uid: Required value: must not be empty",
            ],
        ),
        (
            format!(r#"{good},"ownerReferences":[{{"apiVersion":"a/b/c","kind":"K","name":"n","uid":"u"}}]"#),
            vec![
                "metadata.ownerReferences[0].apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>",
            ],
        ),
        (
            format!(
                r#"{good},"ownerReferences":[{{"apiVersion":"v1","kind":"Event","name":"n","uid":"u"}}]"#
            ),
            vec![
                "metadata.ownerReferences[0]: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"n\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner",
            ],
        ),
        (format!(r#"{good},"finalizers":["a.b/c","orphan"]"#), vec![]),
        (
            format!(r#"{good},"finalizers":["nope"]"#),
            vec![
                "metadata.finalizers[0]: Invalid value: \"nope\": name is neither a standard finalizer name nor is it fully qualified",
            ],
        ),
        (
            format!(r#"{good},"finalizers":["orphan","foregroundDeletion"]"#),
            vec![
                "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
            ],
        ),
    ] {
        assert_eq!(create_faults(&metadata), expected, "{metadata}");
    }
}

#[test]
fn cluster_scoped_object_has_no_namespace() {
    let rules = MetadataRules { namespaced: false, standard_finalizers: false, ..RULES };
    let mut errors = ErrorList::new();
    validate::create(&mut errors, &with(r#""name":"n","namespace":"a","finalizers":["any"]"#), &rules);
    assert_eq!(texts(errors), ["metadata.namespace: Forbidden: not allowed on this type"]);
}

#[test]
fn managed_fields_entries_are_validated() {
    let long = "x".repeat(129);
    let entries = format!(
        r#""name":"n","namespace":"a","managedFields":[{{"operation":"Apply","fieldsType":"FieldsV1","manager":"m"}},{{}},{{"operation":"Odd","fieldsType":"V2","manager":"{long}\u0007","subresource":"{}"}}]"#,
        "s".repeat(257)
    );
    assert_eq!(
        create_faults(&entries),
        [
            "metadata.managedFields[1].operation: Required value: must not be empty".to_owned(),
            "metadata.managedFields[2].operation: Unsupported value: \"Odd\": supported values: \"Apply\", \"Update\"".to_owned(),
            "metadata.managedFields[2].fieldsType: Invalid value: \"V2\": must be `FieldsV1`".to_owned(),
            "metadata.managedFields[2].manager: Too long: may not be more than 128 bytes".to_owned(),
            format!("metadata.managedFields[2].manager: Invalid value: \"{long}\\a\": invalid character U+0007 (at position 129)"),
            "metadata.managedFields[2].subresource: Too long: may not be more than 256 bytes".to_owned(),
        ]
    );
}

#[test]
fn changes_of_immutable_metadata_are_rejected() {
    let old = r#""name":"n","namespace":"a","uid":"u","generation":3,"resourceVersion":"7""#;
    let immutable = "field is immutable";
    for (new, expected) in [
        (old.to_owned(), vec![]),
        (
            old.replace(r#","resourceVersion":"7""#, ""),
            vec!["metadata.resourceVersion: Invalid value: \"\": must be specified for an update".to_owned()],
        ),
        (
            old.replace(":3", ":2"),
            vec!["metadata.generation: Invalid value: 2: must not be decremented".to_owned()],
        ),
        (old.replace("\"n\"", "\"m\""), vec![format!("metadata.name: Invalid value: \"m\": {immutable}")]),
        (old.replace("\"u\"", "\"v\""), vec![format!("metadata.uid: Invalid value: \"v\": {immutable}")]),
        (
            format!(r#"{old},"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0"#),
            vec![
                format!("metadata.deletionTimestamp: Invalid value: \"2026-01-01T00:00:00Z\": {immutable}"),
                format!("metadata.deletionGracePeriodSeconds: Invalid value: 0: {immutable}"),
            ],
        ),
    ] {
        assert_eq!(update_faults(old, &new), expected, "{new}");
    }
    let deleted = format!(r#"{old},"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a/b"]"#);
    assert!(update_faults(&deleted, &deleted.replace(r#","finalizers":["a/b"]"#, "")).is_empty());
    assert_eq!(
        update_faults(&deleted, &deleted.replace("[\"a/b\"]", "[\"a/b\",\"c/d\"]")),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}"
        ]
    );
}

#[test]
fn update_requires_the_current_resource_version() {
    let old = with(r#""uid":"u","resourceVersion":"7""#);
    let check = |new: &str, unconditional| {
        let mut new = with(new);
        check_revision(&mut new, &old, unconditional).map(|()| meta(&new))
    };
    assert_eq!(check(r#""resourceVersion":"7""#, false), Ok(r#"{"resourceVersion":"7"}"#.to_owned()));
    assert_eq!(check("", true), Ok(r#"{"resourceVersion":"7"}"#.to_owned()));
    assert_eq!(check(r#""resourceVersion":"0""#, true), Ok(r#"{"resourceVersion":"7"}"#.to_owned()));
    assert_eq!(check("", false), Err(RevisionError::Missing));
    assert_eq!(check(r#""resourceVersion":"6""#, true), Err(RevisionError::Modified));
    for (text, why) in [("x", "invalid syntax"), ("99999999999999999999", "value out of range")] {
        let error = check(&format!(r#""resourceVersion":"{text}""#), true).unwrap_err();
        assert_eq!(error.to_string(), format!("strconv.ParseUint: parsing \"{text}\": {why}"));
    }
    let missing = RevisionError::Missing.field_errors().unwrap();
    assert_eq!(texts(missing), [RevisionError::Missing.to_string()]);
    assert_eq!(RevisionError::Modified.field_errors(), None);
}

#[test]
fn update_keeps_system_fields() {
    let old = with(
        r#""uid":"u","generation":3,"creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-02T00:00:00Z","deletionGracePeriodSeconds":30"#,
    );
    let mut new = with(r#""generation":9,"creationTimestamp":"1999-01-01T00:00:00Z","labels":{"a":"b"}"#);
    keep(&mut new, &old);
    assert_eq!(
        meta(&new),
        r#"{"generation":3,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"a":"b"},"deletionTimestamp":"2026-01-02T00:00:00Z","uid":"u","deletionGracePeriodSeconds":30}"#
    );
    let mut new = with(r#""uid":"v","generation":5"#);
    keep(&mut new, &with(r#""uid":"u""#));
    assert_eq!(meta(&new), r#"{"uid":"v"}"#);
}

struct Counted;

impl kinds::Rules for Counted {
    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, _object: &Value, _errors: &mut ErrorList) {}
}

#[test]
fn generation_rises_with_the_spec() {
    let old = json::parse(br#"{"metadata":{"generation":3},"spec":{"a":1}}"#).unwrap();
    for (spec, expected) in [(r#"{"a":1}"#, 3), (r#"{"a":2}"#, 4)] {
        let mut new =
            json::parse(format!(r#"{{"metadata":{{"generation":3}},"spec":{spec}}}"#).as_bytes()).unwrap();
        update_generation(&mut new, &old, &Counted);
        assert_eq!(super::generation(&new), expected);
    }
}

#[test]
fn duplicate_owner_references_are_dropped_with_a_warning() {
    let reference = r#"{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}"#;
    let other = reference.replace("\"u\"", "\"v\"");
    let mut object = with(&format!(r#""ownerReferences":[{reference},{other},{reference}]"#));
    assert_eq!(
        owners::deduplicate(&mut object, false).unwrap(),
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u"
    );
    assert_eq!(meta(&object), format!(r#"{{"ownerReferences":[{reference},{other}]}}"#));
    assert_eq!(owners::deduplicate(&mut object, true), None);
}

/// Result of a delete as a word, with the metadata.
fn deleted(
    metadata: &str,
    options: &str,
    policy: GarbagePolicy,
    grace: Option<i64>,
) -> (&'static str, String) {
    let options = json::parse(options.as_bytes()).unwrap();
    match delete(with(metadata), &DeleteOptions::from_value(&options), policy, grace, NOW).unwrap() {
        Deletion::Pending => ("pending", String::new()),
        Deletion::Mark(object) => ("mark", meta(&object)),
        Deletion::Remove(object) => ("remove", meta(&object)),
    }
}

#[test]
fn object_waits_for_its_finalizers() {
    let default = GarbagePolicy::DeleteDependents;
    let marked = |finalizers: &str| {
        format!(
            r#"{{"finalizers":{finalizers},"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0}}"#
        )
    };
    assert_eq!(deleted("", "{}", default, None), ("remove", "{}".to_owned()));
    for (metadata, options, policy, finalizers) in [
        (r#""finalizers":["a/b"]"#, "{}", default, r#"["a/b"]"#),
        ("", r#"{"propagationPolicy":"Foreground"}"#, default, r#"["foregroundDeletion"]"#),
        ("", r#"{"propagationPolicy":"Orphan"}"#, default, r#"["orphan"]"#),
        ("", r#"{"orphanDependents":true}"#, default, r#"["orphan"]"#),
        ("", "{}", GarbagePolicy::OrphanDependents, r#"["orphan"]"#),
        (
            r#""finalizers":["orphan","a/b"]"#,
            r#"{"propagationPolicy":"Foreground"}"#,
            default,
            r#"["a/b","foregroundDeletion"]"#,
        ),
        (r#""finalizers":["a/b","orphan"]"#, "{}", default, r#"["a/b","orphan"]"#),
        (r#""finalizers":["foregroundDeletion"]"#, "{}", default, r#"["foregroundDeletion"]"#),
    ] {
        assert_eq!(
            deleted(metadata, options, policy, None),
            ("mark", marked(finalizers)),
            "{metadata} {options}"
        );
    }
    for (metadata, options, policy) in [
        ("", r#"{"propagationPolicy":"Background"}"#, GarbagePolicy::OrphanDependents),
        ("", r#"{"orphanDependents":false}"#, GarbagePolicy::OrphanDependents),
        (r#""finalizers":["orphan"]"#, r#"{"propagationPolicy":"Background"}"#, default),
        ("", r#"{"propagationPolicy":"Foreground"}"#, GarbagePolicy::Unsupported),
    ] {
        assert_eq!(
            deleted(metadata, options, policy, None),
            ("remove", "{}".to_owned()),
            "{metadata} {options}"
        );
    }
}

#[test]
fn deletion_timestamp_increments_the_generation_once() {
    let (word, first) =
        deleted(r#""generation":1,"finalizers":["a/b"]"#, "{}", GarbagePolicy::default(), None);
    assert_eq!(word, "mark");
    assert_eq!(
        first,
        r#"{"generation":2,"finalizers":["a/b"],"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0}"#
    );
    let inner = &first[1..first.len() - 1];
    assert_eq!(deleted(inner, "{}", GarbagePolicy::default(), None), ("mark", first.clone()));
}

#[test]
fn grace_period_starts_once_and_can_be_shortened() {
    let policy = GarbagePolicy::default();
    let running = r#""deletionTimestamp":"2026-01-01T00:00:30Z","deletionGracePeriodSeconds":30"#;
    let ends = |time: &str, seconds: i64| {
        format!(
            r#"{{"deletionTimestamp":"2026-01-01T00:00:{time}Z","deletionGracePeriodSeconds":{seconds}}}"#
        )
    };
    assert_eq!(deleted("", "{}", policy, Some(30)), ("mark", ends("30", 30)));
    assert_eq!(deleted("", "{}", policy, Some(-5)), ("mark", ends("01", 1)));
    assert_eq!(deleted("", r#"{"gracePeriodSeconds":0}"#, policy, Some(0)), ("remove", ends("00", 0)));
    assert_eq!(deleted(running, "{}", policy, Some(30)).0, "pending");
    assert_eq!(deleted(running, r#"{"gracePeriodSeconds":60}"#, policy, Some(60)).0, "pending");
    assert_eq!(deleted(running, r#"{"gracePeriodSeconds":10}"#, policy, Some(10)), ("mark", ends("10", 10)));
    assert_eq!(deleted(running, r#"{"gracePeriodSeconds":0}"#, policy, Some(0)), ("remove", ends("00", 0)));
    let late = r#""deletionTimestamp":"2025-12-31T23:59:50Z","deletionGracePeriodSeconds":30"#;
    assert_eq!(deleted(late, r#"{"gracePeriodSeconds":20}"#, policy, Some(20)), ("mark", ends("00", 1)));
}

#[test]
fn delete_preconditions_are_checked() {
    let run = |options: &str| {
        let options = json::parse(options.as_bytes()).unwrap();
        let object = with(r#""uid":"u","resourceVersion":"7""#);
        delete(object, &DeleteOptions::from_value(&options), GarbagePolicy::default(), None, NOW)
    };
    assert!(run(r#"{"preconditions":{"uid":"u","resourceVersion":"7"}}"#).is_ok());
    assert_eq!(
        run(r#"{"preconditions":{"uid":"v"}}"#).unwrap_err().to_string(),
        "the UID in the precondition (v) does not match the UID in record (u). The object might have been deleted and then recreated"
    );
    assert_eq!(
        run(r#"{"preconditions":{"resourceVersion":"6"}}"#).unwrap_err().to_string(),
        "the ResourceVersion in the precondition (6) does not match the ResourceVersion in record (7). The object might have been modified"
    );
}

#[test]
fn removing_the_last_finalizer_releases_the_object() {
    let waiting = with(r#""deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0"#);
    assert!(is_released(&with(""), &waiting));
    assert!(!is_released(&with(r#""finalizers":["a/b"]"#), &waiting));
    assert!(!is_released(&with(""), &with("")));
    let graceful = with(r#""deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":30"#);
    assert!(!is_released(&with(""), &graceful));
}

#[test]
fn write_options_are_validated() {
    let check = |options: WriteOptions<'_>| {
        let mut errors = ErrorList::new();
        options.validate(&mut errors);
        texts(errors)
    };
    assert!(
        check(WriteOptions { field_manager: "kubectl edit", dry_run: &["All"], field_validation: "Warn" })
            .is_empty()
    );
    assert_eq!(
        check(WriteOptions { field_manager: "a\nb", dry_run: &["All", "no"], field_validation: "x" }),
        [
            "fieldManager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)",
            "dryRun: Unsupported value: [\"All\",\"no\"]: supported values: \"All\"",
            "fieldValidation: Unsupported value: \"x\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        ]
    );
    let patch = |manager: &str, is_apply, force| {
        let mut errors = ErrorList::new();
        let options = WriteOptions { field_manager: manager, ..WriteOptions::default() };
        options.validate_patch(&mut errors, is_apply, force);
        texts(errors)
    };
    assert!(patch("me", true, Some(true)).is_empty());
    assert!(patch("", false, None).is_empty());
    assert_eq!(patch("", true, None), ["fieldManager: Required value: is required for apply patch"]);
    assert_eq!(patch("", false, Some(false)), ["force: Forbidden: may not be specified for non-apply patch"]);
}

#[test]
fn delete_options_are_validated() {
    let check = |options: &str| {
        let options = json::parse(options.as_bytes()).unwrap();
        let mut errors = ErrorList::new();
        DeleteOptions::from_value(&options).validate(&mut errors);
        texts(errors)
    };
    assert!(
        check(r#"{"propagationPolicy":"Foreground","dryRun":["All"],"gracePeriodSeconds":-1}"#).is_empty()
    );
    assert_eq!(
        check(r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#),
        [
            "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set"
        ]
    );
    assert_eq!(
        check(r#"{"propagationPolicy":"Odd","dryRun":["no"]}"#),
        [
            "propagationPolicy: Unsupported value: \"Odd\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
            "dryRun: Unsupported value: [\"no\"]: supported values: \"All\"",
        ]
    );
    let path =
        "ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: cannot be set together with";
    assert_eq!(
        check(
            r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true,"preconditions":{},"gracePeriodSeconds":1}"#
        ),
        [format!("{path} .gracePeriodSeconds"), format!("{path} .preconditions")]
    );
}

#[test]
fn list_and_watch_options_are_validated() {
    let check = |options: ListOptions<'_>| {
        let mut errors = ErrorList::new();
        options.validate(&mut errors);
        texts(errors)
    };
    let list = ListOptions::default();
    let watch = ListOptions { watch: true, ..list };
    assert!(check(ListOptions { resource_version: "5", resource_version_match: "Exact", ..list }).is_empty());
    assert!(
        check(ListOptions {
            send_initial_events: Some(true),
            resource_version_match: "NotOlderThan",
            ..watch
        })
        .is_empty()
    );
    for (options, expected) in [
        (
            ListOptions { resource_version_match: "Odd", continue_token: "t", ..list },
            vec![
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
                "resourceVersionMatch: Unsupported value: \"Odd\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ],
        ),
        (
            ListOptions { resource_version: "0", resource_version_match: "Exact", ..list },
            vec![
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ],
        ),
        (
            ListOptions { send_initial_events: Some(false), ..list },
            vec!["sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"],
        ),
        (
            ListOptions { send_initial_events: Some(true), ..watch },
            vec![
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ],
        ),
        (
            ListOptions { resource_version_match: "Exact", continue_token: "t", ..watch },
            vec![
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ],
        ),
    ] {
        assert_eq!(check(options), expected, "{options:?}");
    }
}

#[test]
fn update_requires_the_name_of_its_path() {
    let check = |metadata: &str| check_name(&with(metadata), "n").map_err(|error| error.to_string());
    assert_eq!(check(r#""name":"n""#), Ok(()));
    let other = check(r#""name":"m""#).unwrap_err();
    assert_eq!(other, "the name of the object (m) does not match the name on the URL (n)");
    let none = check("").unwrap_err();
    assert_eq!(none, "the name of the object (n based on URL) was undeterminable: name must be provided");
}

#[test]
fn create_rejects_a_resource_version() {
    assert!(ensure_new(&with("")).is_ok());
    let error = ensure_new(&with(r#""resourceVersion":"7""#)).unwrap_err();
    assert_eq!(error.to_string(), "resourceVersion should not be set on objects to be created");
}

#[test]
fn garbage_policy_and_delete_response_depend_on_the_kind() {
    assert_eq!(GarbagePolicy::of("events.k8s.io", "Event"), GarbagePolicy::Unsupported);
    assert_eq!(GarbagePolicy::of("batch", "Job"), GarbagePolicy::OrphanDependents);
    assert_eq!(GarbagePolicy::of("apps", "Deployment"), GarbagePolicy::DeleteDependents);
    assert!(returns_deleted_object("", "Service"));
    assert!(!returns_deleted_object("", "Secret"));
    let error = delete(
        with(r#""uid":"u""#),
        &DeleteOptions { uid: Some("v"), ..DeleteOptions::default() },
        GarbagePolicy::default(),
        None,
        NOW,
    );
    assert_eq!(
        error.unwrap_err().store_message(),
        "Precondition failed: UID in precondition: v, UID in object meta: u"
    );
}

fn any_finalizers() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(vec!["a/b", "c/d", "orphan", "foregroundDeletion"], 0..=4)
}

fn any_policy() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![Just(None), Just(Some("Orphan")), Just(Some("Foreground")), Just(Some("Background"))]
}

proptest! {
    /// For any finalizers and options: at most one finalizer concerns dependents afterwards, no other is
    /// lost, the object is removed exactly if none is left, and a second equal delete changes nothing.
    #[test]
    fn delete_keeps_finalizers_and_is_idempotent(finalizers in any_finalizers(), policy in any_policy()) {
        let mut object = with("");
        if !finalizers.is_empty() {
            object.ensure_map("metadata").insert("finalizers", finalizers.clone());
        }
        let options = DeleteOptions { propagation_policy: policy, ..DeleteOptions::default() };
        let run = |object: Value| delete(object, &options, GarbagePolicy::default(), None, NOW).unwrap();
        let first = run(object);
        let (Deletion::Mark(left) | Deletion::Remove(left)) = &first else {
            return Err(TestCaseError::fail("nothing was pending"));
        };
        let kept = super::finalizers(left);
        let is_ours = |name: &&str| matches!(*name, "orphan" | "foregroundDeletion");
        prop_assert!(kept.iter().copied().filter(|name| is_ours(name)).count() <= 1);
        let others = |list: &[&'static str]| list.iter().copied().filter(|name| !is_ours(name)).count();
        prop_assert_eq!(kept.iter().filter(|name| !is_ours(name)).count(), others(&finalizers));
        prop_assert_eq!(matches!(first, Deletion::Remove(_)), kept.is_empty());
        if let Deletion::Mark(marked) = &first {
            prop_assert_eq!(run(marked.clone()), first.clone());
        }
    }
}
