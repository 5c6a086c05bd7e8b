//! Attributes of a request, and the decision of an authorizer.

use setpoint_api::{Identity, RequestInfo};

/// Attributes of a request that authorizers read.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// Authenticated user, after impersonation.
    pub user: &'a Identity,
    /// Verb, resource and path.
    pub request: RequestInfo<'a>,
    /// Requirements of the field selector of a list, watch or deletecollection.
    pub field_selector: &'a [SelectorRequirement],
    /// Requirements of the label selector of a list, watch or deletecollection.
    pub label_selector: &'a [SelectorRequirement],
}

/// Requirement of a selector: `key operator values`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorRequirement {
    /// Label, or path of a field.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: &'static str,
    /// Values; empty for `Exists` and `DoesNotExist`.
    pub values: Vec<String>,
}

/// Decision of an authorizer, with the reason that a user sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request may proceed; no further authorizer is asked.
    Allowed(String),
    /// The request is forbidden; no further authorizer is asked.
    Denied(String),
    /// The next authorizer decides. A request on which no authorizer has an opinion is forbidden.
    NoOpinion(String),
}
