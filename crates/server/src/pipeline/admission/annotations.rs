//! Audit annotations of a request, and the names of its object: what the audit event needs from the handling of a
//! request.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::Value;
use setpoint_audit::objects::ObjectNames;

/// Annotation with the decision of the authorizers.
const DECISION: &str = "authorization.k8s.io/decision";
/// Annotation with the reason of the decision.
const REASON: &str = "authorization.k8s.io/reason";

/// Audit annotations of a request. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct AuditAnnotations {
    recorded: Arc<Mutex<RecordedAnnotations>>,
    /// `true` if the request is audited, so that what only its event needs is recorded.
    is_audited: bool,
}

#[derive(Debug, Default)]
struct RecordedAnnotations {
    /// Annotations of admission plugins, from the newest decision.
    plugins: BTreeMap<String, String>,
    /// Annotations of policies, webhooks and endpoints.
    others: BTreeMap<String, String>,
    /// Decision of the authorizers and its reason.
    authorization: Option<(bool, String)>,
    object: Option<ObjectNames>,
}

impl AuditAnnotations {
    /// Annotations of a request that is audited.
    #[must_use]
    pub fn audited() -> AuditAnnotations {
        AuditAnnotations { is_audited: true, ..AuditAnnotations::default() }
    }

    /// Returns the annotations, by key.
    #[must_use]
    pub fn get(&self) -> BTreeMap<String, String> {
        let recorded = self.recorded.lock();
        let mut all = recorded.others.clone();
        all.extend(recorded.plugins.iter().map(|(key, value)| (key.clone(), value.clone())));
        if let Some((is_allowed, reason)) = &recorded.authorization {
            let decision = if *is_allowed { "allow" } else { "forbid" };
            all.insert(DECISION.to_owned(), decision.to_owned());
            all.insert(REASON.to_owned(), reason.clone());
        }
        all
    }

    /// Replaces the annotations of admission plugins by those of a newer decision about the request.
    pub(crate) fn replace(&self, annotations: BTreeMap<String, String>) {
        self.recorded.lock().plugins = annotations;
    }

    /// Adds annotations of policies, webhooks or endpoints. A key that is there gets the new value.
    pub(crate) fn extend(&self, annotations: impl IntoIterator<Item = (String, String)>) {
        if self.is_audited {
            self.recorded.lock().others.extend(annotations);
        }
    }

    /// Records the decision of the authorizers.
    pub(crate) fn record_authorization(&self, is_allowed: bool, reason: &str) {
        if self.is_audited {
            self.recorded.lock().authorization = Some((is_allowed, reason.to_owned()));
        }
    }

    /// Records the names of the object in the body of the request.
    pub(crate) fn record_object(&self, object: &Value) {
        if self.is_audited {
            self.recorded.lock().object = Some(ObjectNames::of(object));
        }
    }

    /// Returns the names of the object in the body of the request.
    #[must_use]
    pub(crate) fn object(&self) -> Option<ObjectNames> {
        self.recorded.lock().object.clone()
    }
}
