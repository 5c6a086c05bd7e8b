//! What is printed is what the pipeline makes, to the byte.

use proptest::prelude::*;
use setpoint_api::{Revision, value};
use setpoint_store::Proposal;

use super::*;
use crate::pipeline::admission::testing;
use crate::served;

const NAMESPACES: [&str; 3] = ["default", "shop", "v1"];

fn snapshot(more: &[(&str, &str, &str, &str)]) -> Snapshot {
    let namespaces = NAMESPACES.map(|name| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
    let namespaces = namespaces.iter().map(|text| ("", "v1", "namespaces", text.as_str()));
    testing::world(&namespaces.chain(more.iter().copied()).collect::<Vec<_>>())
}

fn events() -> &'static Served {
    served::find("", "v1", "events").unwrap()
}

fn writer() -> Writer {
    Writer {
        identity: Identity { user: "system:node:n".to_owned(), groups: Vec::new() },
        manager: "kubelet".to_owned(),
        dry_run: false,
        reconciler: "pods pods/default/x".to_owned(),
    }
}

/// What a commit writes, as text.
fn written(proposal: &Proposal) -> String {
    format!("{proposal:?} {:?}", proposal.writes().map(|write| write.body.clone()).collect::<Vec<_>>())
}

fn both(namespace: &str, event: &Value, snapshot: &Snapshot) -> (Option<String>, String) {
    let world = World {
        snapshot,
        now: Time::from_seconds(1_763_280_000),
        entropy: [7, 8, 9],
        tolerations: Default::default(),
    };
    let printed = create(events(), namespace, event, &writer(), &world).map(told);
    let wish = Wish::of(typed(events(), event.clone()).unwrap());
    (printed, told(create::create(events(), namespace, wish, &writer(), &world).map(|decided| decided.step)))
}

fn told(step: Result<Step, Status>) -> String {
    match step {
        Ok(Step::Commit(proposal)) => written(&proposal),
        Ok(_) => "something else".to_owned(),
        Err(status) => format!("{status:?}"),
    }
}

fn event(namespace: Option<&str>, texts: &[String; 4], options: [bool; 3]) -> Value {
    let [name, reason, message, host] = texts;
    let mut event = value!({
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": (name.as_str()), "namespace": (namespace.unwrap_or("default"))},
        "involvedObject": {
            "kind": "Pod", "name": "x", "uid": "u", "apiVersion": "v1",
            "resourceVersion": (Revision(7).to_string()),
        },
        "reason": (reason.as_str()),
        "message": (message.as_str()),
        "source": {"component": "kubelet"},
        "firstTimestamp": "2026-11-16T06:00:00Z",
        "lastTimestamp": "2026-11-16T06:00:00Z",
        "count": 1,
        "type": "Normal",
        "reportingComponent": "kubelet",
    });
    if let Some(namespace) = namespace {
        event.ensure_map("involvedObject").insert("namespace", namespace);
    }
    if options[0] {
        event.ensure_map("involvedObject").insert("fieldPath", "spec.containers{main}");
    }
    if options[1] {
        event.ensure_map("source").insert("host", host.as_str());
        event.make_map().insert("reportingInstance", host.as_str());
    }
    if options[2] {
        event.make_map().insert("action", "Binding");
    }
    event
}

fn plain() -> Value {
    event(Some("shop"), &["x.1", "Started", "it runs", "n"].map(str::to_owned), [true, true, false])
}

proptest! {
    #[test]
    fn what_is_printed_is_what_the_pipeline_makes(
        at in 0..=NAMESPACES.len(),
        name in "[a-z]{1,9}\\.[0-9a-f]{1,16}",
        words in prop::array::uniform3("(given-1|default|[a-zA-Z0-9<>&\"\\\\ \n\u{2028}ß日]{1,40})"),
        options in prop::array::uniform3(any::<bool>()),
    ) {
        let [reason, message, host] = words;
        let namespace = NAMESPACES.get(at).copied();
        let event = event(namespace, &[name, reason, message, host], options);
        let (printed, made) = both(namespace.unwrap_or("default"), &event, &snapshot(&[]));
        prop_assert_eq!(printed, Some(made));
    }
}

#[test]
fn what_fits_no_form_takes_the_pipelines_way() {
    let snapshot = snapshot(&[]);
    assert!(both("shop", &plain(), &snapshot).0.is_some());
    let changes: [fn(&mut Value); 8] = [
        |event| drop(event.make_map().insert("series", Value::map())),
        |event| drop(event.make_map().insert("count", 2_i64)),
        |event| drop(event.make_map().insert("message", "")),
        |event| drop(event.make_map().remove("source")),
        |event| drop(event.make_map().insert("lastTimestamp", "2026-11-16T06:00:01Z")),
        |event| drop(event.ensure_map("metadata").insert("labels", Value::map())),
        |event| drop(event.ensure_map("metadata").insert("name", "a%b")),
        |event| drop(event.ensure_map("involvedObject").insert("namespace", "default")),
    ];
    for change in changes {
        let mut event = plain();
        change(&mut event);
        assert_eq!(both("shop", &event, &snapshot).0, None, "{event:?}");
    }
}

#[test]
fn a_taken_name_is_for_the_pipeline_and_a_missing_namespace_is_refused_alike() {
    let taken = r#"{"metadata":{"name":"x.1","namespace":"shop"}}"#;
    assert_eq!(both("shop", &plain(), &snapshot(&[("", "v1", "events", taken)])).0, None);
    let elsewhere = event(Some("gone"), &["x.1", "A", "b", "n"].map(str::to_owned), [false, false, false]);
    let (printed, made) = both("gone", &elsewhere, &snapshot(&[]));
    assert!(made.contains("NotFound"), "{made}");
    assert_eq!(printed, Some(made));
}
