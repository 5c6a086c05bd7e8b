//! Pod failure policy and success policy of a Job.

use setpoint_views::job::{OnExitCodes, PodFailurePolicy, SuccessPolicy};
use setpoint_views::pod::{ContainerStatus, PodStatus};

use super::TrackedPod;
use super::indexes::IndexSet;

/// Action on a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodFailureAction {
    /// It counts toward `backoffLimit`.
    Count,
    /// It does not count.
    Ignore,
    /// Its index fails.
    FailIndex,
    /// The Job fails, with this message.
    FailJob(String),
}

/// Action on a failed pod: the first rule that matches decides.
pub(super) fn match_failure_policy(
    policy: Option<&PodFailurePolicy>,
    failed: &TrackedPod<'_>,
) -> PodFailureAction {
    let rules = policy.into_iter().flat_map(|policy| &policy.rules);
    let status = &failed.pod.status;
    let path = failed.object.key().path();
    for (index, rule) in rules.enumerate() {
        let action = rule.action.as_str();
        let message = match &rule.on_exit_codes {
            Some(codes) => find_matching_exit(status, codes).map(|(container, code)| {
                format!(
                    "Container {} for pod {path} failed with exit code {code} matching {action} rule at index {index}",
                    container.name
                )
            }),
            None => {
                let matching = status.conditions.iter().find(|condition| {
                    let is_match = |kind: &str, status: &str| condition.kind == kind && condition.status == status;
                    rule.on_pod_conditions.iter().any(|pattern| is_match(&pattern.kind, &pattern.status))
                });
                matching.map(|condition| {
                    let kind = &condition.kind;
                    format!("Pod {path} has condition {kind} matching {action} rule at index {index}")
                })
            }
        };
        match (message, action) {
            (Some(message), "FailJob") => return PodFailureAction::FailJob(message),
            (Some(_), "Ignore") => return PodFailureAction::Ignore,
            (Some(_), "FailIndex") => return PodFailureAction::FailIndex,
            (Some(_), "Count") => return PodFailureAction::Count,
            _ => {}
        }
    }
    PodFailureAction::Count
}

/// First container that terminated with one of the exit codes.
fn find_matching_exit<'a>(status: &'a PodStatus, codes: &OnExitCodes) -> Option<(&'a ContainerStatus, i64)> {
    let all = status.container_statuses.iter().chain(&status.init_container_statuses);
    let named = all.filter(|status| codes.container_name.as_ref().is_none_or(|name| *name == status.name));
    let ended = named.filter_map(|status| {
        let end = status.state.terminated.as_ref()?;
        Some((status, end.exit_code.unwrap_or(0)))
    });
    let matching = |code: i64| match codes.operator.as_str() {
        "In" => codes.values.contains(&code),
        "NotIn" => !codes.values.contains(&code),
        _ => false,
    };
    let mut failed = ended.filter(|(_, code)| *code != 0);
    failed.find(|(_, code)| matching(*code))
}

/// Message of the first success criterion that is met; `None` if none is.
pub(super) fn match_success_policy(
    policy: Option<&SuccessPolicy>,
    completions: i64,
    succeeded: &IndexSet,
) -> Option<String> {
    let rules = &policy?.rules;
    if succeeded.total() == 0 {
        return None;
    }
    let matched = rules.iter().position(|rule| match (&rule.succeeded_indexes, rule.succeeded_count) {
        (Some(indexes), count) => {
            let required = IndexSet::parse(indexes, completions);
            let shared = required.intersection_count(succeeded);
            required.total() > 0 && (shared == required.total() || count.is_some_and(|count| shared >= count))
        }
        (None, Some(count)) => succeeded.total() >= count,
        (None, None) => false,
    });
    matched.map(|index| format!("Matched rules at index {index}"))
}
