//! Encoding of events.

use proptest::prelude::*;
use setpoint_api::json;

use super::*;

const RECEIVED: Time = Time(1_700_000_000_123_400);

fn event<'a>(user: &'a Identity, annotations: &'a BTreeMap<String, String>) -> Event<'a> {
    Event {
        level: Level::Metadata,
        audit_id: "id-1",
        stage: Stage::ResponseComplete,
        request_uri: "/api/v1/pods?a=1&b=<2>",
        verb: "get",
        user,
        impersonated_user: None,
        impersonation_constraint: "",
        source_ips: &[],
        user_agent: "kubectl/v1.37",
        object: None,
        response_status: b"",
        code: 0,
        request_object: br#"{"data":{"password":"request"}}"#,
        response_object: br#"{"data":{"password":"response"}}"#,
        received_at: RECEIVED,
        stage_at: Time(RECEIVED.0 + 1),
        annotations,
        is_truncated: false,
    }
}

fn encoded(event: &Event<'_>) -> String {
    let mut out = Vec::new();
    event.write_json(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn event_has_upstreams_fields_in_upstreams_order() {
    let mut user = Identity::new("ann", vec!["devs".to_owned(), "ops".to_owned()]);
    user.uid = "u".to_owned();
    user.extra.insert("k".to_owned(), vec!["1".to_owned(), "2".to_owned()]);
    let other = Identity::new("bob", Vec::new());
    let annotations = BTreeMap::from([("authorization.k8s.io/decision".to_owned(), "allow".to_owned())]);
    let ips = ["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
    let object = ObjectReference {
        resource: "pods",
        namespace: "a",
        name: "p",
        api_version: "v1",
        ..Default::default()
    };
    let event = Event {
        impersonated_user: Some(&other),
        impersonation_constraint: "impersonate:user-info",
        source_ips: &ips,
        object: Some(object),
        response_status: br#"{"metadata":{},"code":200}"#,
        code: 200,
        ..event(&user, &annotations)
    };
    assert_eq!(
        encoded(&event),
        concat!(
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id-1","stage":"ResponseComplete","#,
            r#""requestURI":"/api/v1/pods?a=1\u0026b=\u003c2\u003e","verb":"get","user":{"username":"ann","uid":"u","#,
            r#""groups":["devs","ops"],"extra":{"k":["1","2"]}},"impersonatedUser":{"username":"bob"},"#,
            r#""authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},"sourceIPs":["10.0.0.1","::1"],"#,
            r#""userAgent":"kubectl/v1.37","objectRef":{"resource":"pods","namespace":"a","name":"p","apiVersion":"v1"},"#,
            r#""responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2023-11-14T22:13:20.123400Z","#,
            r#""stageTimestamp":"2023-11-14T22:13:20.123401Z","annotations":{"authorization.k8s.io/decision":"allow"}}"#,
            "\n"
        )
    );
}

#[test]
fn objects_are_encoded_only_at_their_level() {
    let (user, annotations) = (Identity::default(), BTreeMap::new());
    for level in Level::ALL {
        let text = encoded(&Event { level, ..event(&user, &annotations) });
        assert_eq!(text.contains(r#""requestObject":{"data""#), level >= Level::Request, "{text}");
        assert_eq!(text.contains(r#""responseObject":{"data""#), level >= Level::RequestResponse, "{text}");
        assert_eq!(text.contains("password"), level >= Level::Request);
        let cut = encoded(&Event { level, is_truncated: true, ..event(&user, &annotations) });
        assert!(
            !cut.contains("password") && cut.contains(r#""annotations":{"audit.k8s.io/truncated":"true"}"#)
        );
    }
}

#[test]
fn legacy_line_has_upstreams_fields() {
    let user = Identity::new("ann", vec!["devs".to_owned(), "ops".to_owned()]);
    let annotations = BTreeMap::new();
    let mut out = Vec::new();
    event(&user, &annotations).write_legacy(&mut out);
    let ips = ["10.0.0.1".parse().unwrap()];
    let object = Some(ObjectReference { namespace: "a", ..Default::default() });
    Event {
        code: 200,
        source_ips: &ips,
        impersonated_user: Some(&user),
        object,
        ..event(&user, &annotations)
    }
    .write_legacy(&mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"2023-11-14T22:13:20.1234Z AUDIT: id="id-1" stage="ResponseComplete" ip="<unknown>" method="get" user="ann" groups="\"devs\",\"ops\"" as="<self>" asgroups="<lookup>" user-agent="kubectl/v1.37" namespace="<none>" uri="/api/v1/pods?a=1&b=<2>" response="<deferred>"
2023-11-14T22:13:20.1234Z AUDIT: id="id-1" stage="ResponseComplete" ip="10.0.0.1" method="get" user="ann" groups="\"devs\",\"ops\"" as="ann" asgroups="\"devs\",\"ops\"" user-agent="kubectl/v1.37" namespace="a" uri="/api/v1/pods?a=1&b=<2>" response="200"
"#
    );
}

#[test]
fn list_has_items_without_their_type() {
    let (user, annotations) = (Identity::default(), BTreeMap::new());
    let mut list = EventList::default();
    list.push(encoded(&event(&user, &annotations)).as_bytes());
    list.push(encoded(&event(&user, &annotations)).as_bytes());
    let list = json::parse(&list.into_bytes()).unwrap();
    assert_eq!(list.str_at(&["kind"]), "EventList");
    let items = list.get("items").and_then(setpoint_api::Value::as_list).unwrap();
    assert_eq!(items.len(), 2);
    assert!(items.iter().all(|item| item.get("kind").is_none() && item.str_at(&["auditID"]) == "id-1"));
}

#[test]
fn long_user_agent_is_cut() {
    assert_eq!(user_agent("short"), "short");
    let long = user_agent(&"\u{e9}".repeat(600));
    assert_eq!(long, format!("{}...TRUNCATED", "\u{e9}".repeat(512)));
}

proptest! {
    #[test]
    fn event_is_one_line_of_json_whatever_its_texts_are(
        texts in proptest::collection::vec(".{0,20}", 9),
        groups in proptest::collection::vec(".{0,5}", 0..3),
        has_object: bool,
    ) {
        let mut user = Identity::new(texts[0].as_str(), groups.clone());
        user.uid.clone_from(&texts[1]);
        user.extra.insert(texts[2].clone(), groups);
        let annotations = BTreeMap::from([(texts[3].clone(), texts[4].clone())]);
        let object = ObjectReference { name: &texts[5], uid: &texts[6], ..Default::default() };
        let event = Event {
            audit_id: &texts[7],
            request_uri: &texts[8],
            object: has_object.then_some(object),
            level: Level::RequestResponse,
            ..event(&user, &annotations)
        };
        let text = encoded(&event);
        prop_assert_eq!(text.find('\n'), Some(text.len() - 1));
        let parsed = json::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(parsed.str_at(&["auditID"]), texts[7].as_str());
        prop_assert_eq!(parsed.str_at(&["user", "username"]), texts[0].as_str());
        let mut legacy = Vec::new();
        event.write_legacy(&mut legacy);
        prop_assert_eq!(legacy.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
}
