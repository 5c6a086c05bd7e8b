//! Authorization in the pipeline.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;
use setpoint_api::Identity;
use setpoint_authorization::{Attributes, Decision};

use super::{Authorization, PendingDecision};
use crate::pipeline::RequestContext;

/// Authorizer and attributes of a decision, printed: equal only for equal requests.
type AnswerKey = (usize, String);

fn key(at: usize, attributes: &Attributes<'_>) -> AnswerKey {
    (at, format!("{attributes:?}"))
}

/// Decisions of other processes about one write: those so far, and those that the last decision missed.
#[derive(Default)]
pub struct RequestAuthorizations {
    answers: BTreeMap<AnswerKey, Decision>,
    missing: Mutex<Vec<(AnswerKey, PendingDecision)>>,
}

impl fmt::Debug for RequestAuthorizations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestAuthorizations").field("answers", &self.answers).finish_non_exhaustive()
    }
}

impl RequestAuthorizations {
    /// Returns the decision of an authorizer.
    pub(super) fn find(&self, at: usize, attributes: &Attributes<'_>) -> Option<Decision> {
        if self.answers.is_empty() { None } else { self.answers.get(&key(at, attributes)).cloned() }
    }

    pub(super) fn add_missing(&self, at: usize, attributes: &Attributes<'_>, pending: PendingDecision) {
        self.missing.lock().push((key(at, attributes), pending));
    }

    /// Awaits the decisions that the last decision of the pipeline missed. `true` if there were any: the write must be
    /// decided again.
    pub async fn receive(&mut self) -> bool {
        let missing = std::mem::take(self.missing.get_mut());
        let is_void = !missing.is_empty();
        for (key, pending) in missing {
            let decision = pending.await;
            self.answers.insert(key, decision);
        }
        is_void
    }
}

/// Authorization in the context of a decision.
#[derive(Clone, Copy)]
pub struct AuthorizationContext<'a> {
    /// Authorizers of the server.
    pub authorization: &'a Authorization,
    /// Decisions of other processes about the write; `None` if it cannot wait for them.
    pub answers: Option<&'a RequestAuthorizations>,
}

impl RequestContext<'_> {
    /// Decides on a request that is part of a write. Everything is allowed in a context without authorization: that of
    /// this server's own writes.
    #[must_use]
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        match self.authorization {
            Some(AuthorizationContext { authorization, answers }) => {
                authorization.authorize_now(attributes, self.snapshot, answers)
            }
            None => Decision::Allowed(String::new()),
        }
    }

    /// `true` if a user may send a request that is part of a write.
    #[must_use]
    pub fn is_authorized(&self, user: &Identity, request: setpoint_api::RequestInfo<'_>) -> bool {
        let attributes = Attributes { user, request, field_selector: &[], label_selector: &[] };
        matches!(self.authorize(&attributes), Decision::Allowed(_))
    }
}
