//! Certificate expiry: warns about CA bundles of webhooks, conversions and aggregated APIs before they expire.
//!
//! Calls to such a server fail once its CA has expired, and only its owner can replace the bundle. So an object with an
//! expiring bundle gets the Warning Event `CertificateExpiring`, then `CertificateExpired`, when that begins and once a
//! day from then on. Upstream has no such controller; it runs in every server, as the server's own user.

use std::time::Duration;

use setpoint_api::kinds::certificates::expiry::{
    BUNDLE_RESOURCES, ExpiryState, ca_bundles, first_to_expire, may_have_ca_bundle, read_pem,
};
use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Key, Time};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, Watch, WorldReader};

/// Interval of Events on one object.
const REMINDER_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Warns about expiring CA bundles.
pub struct CertificateExpiry;

/// Certificate of an object that is due for replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    field: String,
    subject: String,
    end: Time,
    is_expired: bool,
}

/// Findings of the last Events on an object.
#[derive(Clone, Debug, Default)]
pub struct Warned {
    findings: Vec<Finding>,
    at: Option<Time>,
}

impl Planner for CertificateExpiry {
    type Memo = Warned;

    fn name(&self) -> &'static str {
        "certificate-expiry-controller"
    }

    fn user(&self) -> String {
        "system:apiserver".to_owned()
    }

    fn manager(&self) -> &'static str {
        "kube-apiserver"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 4] = [
            Watch::primary(BUNDLE_RESOURCES[0].0),
            Watch::primary(BUNDLE_RESOURCES[1].0),
            Watch::primary(BUNDLE_RESOURCES[2].0),
            Watch::primary(BUNDLE_RESOURCES[3].0),
        ];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Warned>,
        now: Time,
        _: Seed,
    ) -> Plan<Warned> {
        let mut plan = Plan::default();
        let resource = key.resource().as_str();
        let kind = BUNDLE_RESOURCES.into_iter().find(|(name, ..)| *name == resource);
        let (Some((_, api_version, kind)), Some(object)) = (kind, world.get(key)) else { return plan };
        if object.meta().is_deleted() || !may_have_ca_bundle(&object.bytes()) {
            return plan;
        }
        let (findings, next) = findings(resource, object, now);
        next.into_iter().for_each(|time| plan.requeue_at(time));
        if findings.is_empty() {
            return plan;
        }
        let is_recent = |at: Time| at <= now && now < at.after(REMINDER_INTERVAL);
        let warned_at = seen.memo.at.filter(|at| is_recent(*at) && seen.memo.findings == findings);
        if warned_at.is_none() {
            let subject = InvolvedObject::new(object, api_version, kind);
            plan.events.extend(findings.iter().map(|finding| {
                let reason = if finding.is_expired { "CertificateExpired" } else { "CertificateExpiring" };
                subject.warning(reason, message(finding))
            }));
        }
        let at = warned_at.unwrap_or(now);
        plan.requeue_at(at.after(REMINDER_INTERVAL));
        plan.with_memo(Warned { findings, at: Some(at) })
    }
}

/// Returns the certificates of an object that are due for replacement, and the next time at which that changes.
fn findings(resource: &str, object: &Object, now: Time) -> (Vec<Finding>, Option<Time>) {
    let (mut findings, mut next) = (Vec::new(), None);
    for (field, pem) in ca_bundles(resource, &object.value()) {
        let certificates = read_pem(&pem);
        let Some(certificate) = first_to_expire(&certificates) else { continue };
        let state = certificate.state(now);
        let change = match state {
            ExpiryState::Valid => Some(certificate.warn_at()),
            ExpiryState::Expiring => Some(certificate.end.after(Duration::from_secs(1))),
            ExpiryState::Expired => None,
        };
        next = next.into_iter().chain(change).min();
        if state != ExpiryState::Valid {
            let (subject, end) = (certificate.subject.clone(), certificate.end);
            findings.push(Finding { field, subject, end, is_expired: state == ExpiryState::Expired });
        }
    }
    (findings, next)
}

fn message(finding: &Finding) -> String {
    let Finding { field, subject, end, is_expired } = finding;
    let end = Seconds(*end);
    if *is_expired {
        format!(
            "{field}: certificate {subject:?} has expired at {end}: connections to the server fail until it is replaced"
        )
    } else {
        format!(
            "{field}: certificate {subject:?} expires at {end}: replace it before connections to the server fail"
        )
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Value, rfc3339, value};
    use setpoint_sim::cluster::Cluster;

    use super::*;
    use crate::testing::{CERTIFICATE, has_event};

    const WEBHOOKS: &str = BUNDLE_RESOURCES[0].0;

    fn cluster(now: &str) -> Cluster {
        let mut cluster = Cluster::new(|| (vec![Box::new(CertificateExpiry)], crate::indexes::all()), 5);
        cluster.now = rfc3339::parse(now).unwrap();
        cluster
    }

    fn webhook(name: &str) -> Value {
        value!({
            "metadata": {"name": (name)},
            "webhooks": [{
                "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://a.example.com", "caBundle": (CERTIFICATE)},
                "rules": [],
            }],
        })
    }

    /// Number of Events, repetitions of an Event included.
    fn events(cluster: &Cluster, reason: &str) -> i64 {
        let events = cluster.list("events");
        let of_reason = events.iter().filter(|event| event.str_at(&["reason"]) == reason);
        of_reason.map(|event| event.get("count").and_then(Value::as_i64).unwrap_or(1)).sum()
    }

    /// The certificate expires at 2126-10-23T03:13:06Z.
    #[test]
    fn expiring_bundle_is_reported_when_it_is_due_then_daily_and_when_it_has_expired() {
        let mut cluster = cluster("2126-09-22T03:00:00Z");
        cluster.create(WEBHOOKS, "", webhook("w"));
        cluster.settle();
        assert_eq!(cluster.list("events").len(), 0, "it is not due");
        let day = Duration::from_secs(24 * 60 * 60);
        cluster.run(day * 2);
        assert_eq!(events(&cluster, "CertificateExpiring"), 1);
        let message = "webhooks[0].clientConfig.caBundle: certificate \"CN=ann\" expires at 2126-10-23T03:13:06Z: replace it \
                       before connections to the server fail";
        assert!(has_event(&cluster, "CertificateExpiring", message), "{:?}", cluster.list("events"));
        cluster.run(day);
        assert_eq!(events(&cluster, "CertificateExpiring"), 2);
        assert_eq!(events(&cluster, "CertificateExpired"), 0);
        cluster.run(day * 29);
        assert!(events(&cluster, "CertificateExpired") >= 1);
    }

    #[test]
    fn bundles_of_conversions_and_aggregated_apis_are_reported() {
        let mut cluster = cluster("2127-01-01T00:00:00Z");
        let client = value!({"url": "https://a.example.com", "caBundle": (CERTIFICATE)});
        let version = value!({
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}},
        });
        let spec = value!({
            "group": "example.com", "scope": "Cluster", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [(version)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": (client), "conversionReviewVersions": ["v1"]},
            },
        });
        cluster.create(
            BUNDLE_RESOURCES[2].0,
            "",
            value!({"metadata": {"name": "foos.example.com"}, "spec": (spec)}),
        );
        let spec = value!({
            "group": "b.example.com", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "service": {"namespace": "default", "name": "s"}, "caBundle": (CERTIFICATE),
        });
        cluster.create(
            BUNDLE_RESOURCES[3].0,
            "",
            value!({"metadata": {"name": "v1.b.example.com"}, "spec": (spec)}),
        );
        cluster.settle();
        for field in ["spec.conversion.webhook.clientConfig.caBundle", "spec.caBundle"] {
            let message = format!(
                "{field}: certificate \"CN=ann\" has expired at 2126-10-23T03:13:06Z: connections to the server fail until \
                 it is replaced"
            );
            assert!(has_event(&cluster, "CertificateExpired", &message), "{:?}", cluster.list("events"));
        }
    }

    #[test]
    fn replaced_bundle_is_not_reported_again() {
        let mut cluster = cluster("2127-01-01T00:00:00Z");
        cluster.create(WEBHOOKS, "", webhook("w"));
        cluster.settle();
        assert_eq!(events(&cluster, "CertificateExpired"), 1);
        let client = value!({"url": "https://a.example.com"});
        let webhook = webhook("w").at(&["webhooks"]).and_then(Value::as_list).map(|list| list[0].clone());
        let mut webhook = webhook.unwrap();
        webhook.make_map().insert("clientConfig", client);
        cluster.patch(WEBHOOKS, "w", "", value!({"webhooks": [(webhook)]})).unwrap();
        cluster.run(Duration::from_secs(3 * 24 * 60 * 60));
        assert_eq!(events(&cluster, "CertificateExpired"), 1);
    }
}
