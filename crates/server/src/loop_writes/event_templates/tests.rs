//! Rendered Events equal those that the pipeline creates, byte for byte.

use proptest::prelude::*;
use setpoint_api::resource_types;
use setpoint_api::{Key, Revision};
use setpoint_reconcile::EventType;
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_store::Proposal;

use super::*;
use crate::pipeline::admission::testing;

const NAMESPACES: [&str; 3] = ["default", "shop", "v1"];

fn snapshot(more: &[(&str, &str, &str, &str)]) -> Snapshot {
    let namespaces = NAMESPACES.map(|name| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
    let namespaces = namespaces.iter().map(|text| ("", "v1", "namespaces", text.as_str()));
    testing::snapshot_with(&namespaces.chain(more.iter().copied()).collect::<Vec<_>>())
}

fn events() -> &'static std::sync::Arc<ResourceType> {
    resource_types::find("", "v1", "events").unwrap()
}

fn writer() -> WriteOrigin {
    WriteOrigin {
        identity: Identity::new("system:node:n", Vec::new()),
        manager: "kubelet".to_owned(),
        dry_run: false,
        reconciler: "pods pods/default/x".to_owned(),
        takes_over: false,
    }
}

/// The writes of a commit, as text.
fn written(proposal: &Proposal) -> String {
    let writes = proposal.writes().map(|write| (write.body.clone(), write.envelope.bytes().to_vec()));
    format!("{proposal:?} {:?}", writes.collect::<Vec<_>>())
}

fn render_and_create(new_event: &NewEvent, snapshot: &Snapshot) -> (Option<String>, String) {
    let context = RequestContext {
        snapshot,
        now: Time::from_seconds(1_763_280_000),
        entropy: [7, 8, 9],
        tolerations: Default::default(),
        catalog: crate::catalog::Catalog::built_in(),
        webhooks: None,
        conversions: None,
        authorization: None,
    };
    let printed = create(events(), new_event, &writer(), &context).map(outcome_text);
    let created = decode_object(events(), new_event.to_value()).and_then(|event| {
        create::create(events(), new_event.namespace(), DesiredObject::new(event), &writer(), &context)
    });
    (printed, outcome_text(created.map(|decided| decided.step)))
}

fn outcome_text(step: Result<PipelineResult, Status>) -> String {
    match step {
        Ok(PipelineResult::Commit(proposal)) => written(&proposal),
        Ok(_) => "something else".to_owned(),
        Err(status) => format!("{status:?}"),
    }
}

fn key(plural: &str, path: &str) -> Key {
    Key::from_path(&resource_types::find("", "v1", plural).unwrap().resource, path).unwrap()
}

fn new_event(namespace: Option<&str>, [name, message, host]: [&str; 3], options: [bool; 3]) -> NewEvent {
    let (plural, kind) = if namespace.is_some() { ("pods", "Pod") } else { ("nodes", "Node") };
    let path = namespace.map_or_else(|| "x".to_owned(), |namespace| format!("{namespace}/x"));
    NewEvent {
        key: key("events", &format!("{}/{name}", namespace.unwrap_or("default"))),
        involved_object: InvolvedObject {
            key: key(plural, &path),
            api_version: "v1",
            kind,
            uid: "u".into(),
            revision: Revision(7),
            field_path: if options[0] { "spec.containers{main}".to_owned() } else { String::new() },
        },
        event_type: if options[1] { EventType::Normal } else { EventType::Warning },
        reason: "Started",
        message: message.to_owned(),
        action: if options[2] { "Binding" } else { "" },
        reporter: "kubelet".into(),
        host: host.into(),
        at: Time::from_seconds(1_763_272_800),
    }
}

fn plain() -> NewEvent {
    new_event(Some("shop"), ["x.1", "it runs", "n"], [true, true, false])
}

proptest! {
    #[test]
    fn rendered_event_equals_the_pipelines(
        at in 0..=NAMESPACES.len(),
        name in "[a-z]{1,9}\\.[0-9a-f]{1,16}",
        words in prop::array::uniform2("(given-1|default|[a-zA-Z0-9<>&\"\\\\ \n\u{2028}ß日]{1,40})"),
        has_host: bool,
        options in prop::array::uniform3(any::<bool>()),
    ) {
        let [message, host] = &words;
        let host = if has_host { host.as_str() } else { "" };
        let new_event = new_event(NAMESPACES.get(at).copied(), [&name, message, host], options);
        let (printed, created) = render_and_create(&new_event, &snapshot(&[]));
        prop_assert_eq!(printed, Some(created));
    }
}

#[test]
fn event_without_template_goes_through_the_pipeline() {
    let snapshot = snapshot(&[]);
    assert!(render_and_create(&plain(), &snapshot).0.is_some());
    for odd in [
        NewEvent { message: String::new(), ..plain() },
        NewEvent { at: UNSET, ..plain() },
        NewEvent { at: Time::from_seconds(400_000_000_000), ..plain() },
        NewEvent { key: key("events", "shop/a%b"), ..plain() },
        NewEvent { key: key("events", "default/x.1"), ..plain() },
    ] {
        assert_eq!(render_and_create(&odd, &snapshot).0, None, "{odd:?}");
    }
}

#[test]
fn taken_name_and_missing_namespace_match_the_pipeline() {
    let taken = r#"{"metadata":{"name":"x.1","namespace":"shop"}}"#;
    assert_eq!(render_and_create(&plain(), &snapshot(&[("", "v1", "events", taken)])).0, None);
    let elsewhere = new_event(Some("gone"), ["x.1", "b", ""], [false, false, false]);
    let (printed, created) = render_and_create(&elsewhere, &snapshot(&[]));
    assert!(created.contains("NotFound"), "{created}");
    assert_eq!(printed, Some(created));
}
