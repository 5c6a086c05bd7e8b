//! Tests of the chain of authorizers.

use setpoint_store::{Retention, Store};

use super::*;

/// Authorizer with a fixed decision, made at once or later.
struct Fixed(fn() -> Answer);

impl Authorizer for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn authorize(&self, _: &Attributes<'_>, _: &Snapshot) -> Answer {
        (self.0)()
    }

    fn add_rules(&self, _: &Identity, _: &str, _: &Snapshot, _: &mut UserRules) {}
}

fn later(decision: Decision) -> Answer {
    Answer::Later(Box::pin(std::future::ready(decision)))
}

fn no_opinion() -> Answer {
    Answer::Now(Decision::NoOpinion("not mine".to_owned()))
}

async fn decide(chain: &[fn() -> Answer], user: &Identity) -> (Decision, Decision) {
    let authorization = Authorization::default();
    authorization
        .set_chain(chain.iter().map(|answer| Arc::new(Fixed(*answer)) as Arc<dyn Authorizer>).collect());
    let snapshot = Store::in_memory(Retention::default()).snapshot();
    let request = RequestInfo { is_resource: true, verb: "get", resource: "pods", ..RequestInfo::default() };
    let attributes = Attributes { user, request, field_selector: &[], label_selector: &[] };
    let mut answers = RequestAuthorizations::default();
    let in_pipeline = loop {
        let decision = authorization.authorize_now(&attributes, &snapshot, Some(&answers));
        if !answers.receive().await {
            break decision;
        }
    };
    (authorization.authorize(&attributes, &snapshot).await, in_pipeline)
}

#[tokio::test]
async fn first_authorizer_with_an_opinion_decides() {
    let allow: fn() -> Answer = || Answer::Now(Decision::Allowed("yes".to_owned()));
    let allow_later: fn() -> Answer = || later(Decision::Allowed("later".to_owned()));
    let deny_later: fn() -> Answer = || later(Decision::Denied("no".to_owned()));
    let [yes, late] = ["yes", "later"].map(|reason| Decision::Allowed(reason.to_owned()));
    let no = Decision::Denied("no".to_owned());
    let none = Decision::NoOpinion("not mine\nnot mine".to_owned());
    let user = Identity::new("u", vec!["g".to_owned()]);
    for (chain, expected) in [
        (&[no_opinion, allow, deny_later][..], yes),
        (&[no_opinion, allow_later, deny_later], late),
        (&[deny_later, allow], no),
        (&[no_opinion, no_opinion], none),
        (&[], Decision::NoOpinion(String::new())),
    ] {
        let (request, in_pipeline) = decide(chain, &user).await;
        assert_eq!((&request, &in_pipeline), (&expected, &expected));
    }
    let privileged = Identity::new("u", vec!["system:masters".to_owned()]);
    let allowed = Decision::Allowed(String::new());
    assert_eq!(decide(&[deny_later], &privileged).await, (allowed.clone(), allowed));
}

#[test]
fn forbidden_requests_have_upstreams_messages() {
    let user = Identity::new("a<b", Vec::new());
    let pods = RequestInfo { is_resource: true, verb: "list", resource: "pods", ..RequestInfo::default() };
    let scale = RequestInfo {
        verb: "update",
        group: "apps",
        resource: "deployments",
        subresource: "scale",
        namespace: "x",
        name: "d",
        ..pods
    };
    let path = RequestInfo { is_resource: false, verb: "get", path: "/metrics", ..RequestInfo::default() };
    for (request, reason, expected) in [
        (
            pods,
            "",
            r#"pods is forbidden: User "a&lt;b" cannot list resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            scale,
            "why",
            r#"deployments.apps "d" is forbidden: User "a&lt;b" cannot update resource "deployments/scale" in API group "apps" in the namespace "x": why"#,
        ),
        (path, "", r#"forbidden: User "a&lt;b" cannot get path "/metrics""#),
    ] {
        let attributes = Attributes { user: &user, request, field_selector: &[], label_selector: &[] };
        assert_eq!(forbidden(&attributes, reason).message, expected);
    }
}
