//! Metrics of PodSecurity, under upstream's names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::policy::{Level, LevelVersion, PolicyVersion};
use crate::metrics::{MetricType, Text};
use crate::pipeline::admission::AdmissionInput;
use crate::webhooks::Operation;

/// Minor version of the newest rules. Policies of later versions are counted under one label.
const NEWEST_MINOR: u32 = 37;

/// EvaluationMode of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EvaluationMode {
    Audit,
    Enforce,
    Warn,
}

/// Operation, resource and subresource of a write, as in labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WriteLabels {
    operation: &'static str,
    resource: &'static str,
    subresource: Box<str>,
}

impl WriteLabels {
    fn of(input: &AdmissionInput<'_>) -> WriteLabels {
        WriteLabels {
            operation: if input.request.operation == Operation::Create { "create" } else { "update" },
            resource: if &*input.request.resource_type.info.plural == "pods" { "pod" } else { "controller" },
            subresource: input.request.subresource.into(),
        }
    }

    fn labels(&self) -> [(&str, &str); 3] {
        [
            ("request_operation", self.operation),
            ("resource", self.resource),
            ("subresource", &self.subresource),
        ]
    }
}

/// Level, version and mode of a policy, and its decision.
type EvaluationLabels = (bool, Level, Option<PolicyVersion>, EvaluationMode, WriteLabels);

#[derive(Debug, Default)]
struct Counts {
    evaluations: BTreeMap<EvaluationLabels, u64>,
    exemptions: BTreeMap<WriteLabels, u64>,
    errors: BTreeMap<WriteLabels, u64>,
}

/// Counters of PodSecurity. Labels have few values, so the series are bounded.
#[derive(Debug, Default)]
pub struct PodSecurityMetrics {
    /// Pods that were created under a privileged policy: most of all.
    privileged_creates: AtomicU64,
    counts: Mutex<Counts>,
}

impl PodSecurityMetrics {
    /// Counts an evaluation.
    pub(super) fn count_evaluation(
        &self,
        is_allowed: bool,
        policy: LevelVersion,
        mode: EvaluationMode,
        input: &AdmissionInput<'_>,
    ) {
        let labels = WriteLabels::of(input);
        let is_plain =
            labels.operation == "create" && labels.resource == "pod" && labels.subresource.is_empty();
        if is_plain && is_allowed && mode == EvaluationMode::Enforce && policy.level == Level::Privileged {
            self.privileged_creates.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let version = match policy.version {
            _ if policy.level == Level::Privileged => Some(PolicyVersion::Latest),
            PolicyVersion::Minor(minor) if minor > NEWEST_MINOR => None,
            version => Some(version),
        };
        let key = (is_allowed, policy.level, version, mode, labels);
        *self.counts.lock().evaluations.entry(key).or_default() += 1;
    }

    /// Counts a write that is exempt.
    pub(super) fn count_exemption(&self, input: &AdmissionInput<'_>) {
        *self.counts.lock().exemptions.entry(WriteLabels::of(input)).or_default() += 1;
    }

    /// Counts a policy that cannot be read: the strictest is evaluated in its place.
    pub(super) fn count_error(&self, input: &AdmissionInput<'_>) {
        *self.counts.lock().errors.entry(WriteLabels::of(input)).or_default() += 1;
    }

    /// Writes all families.
    pub(in crate::pipeline::admission) fn write(&self, text: &mut Text) {
        let counts = self.counts.lock();
        let name = "pod_security_errors_total";
        let help = "Errors that prevent normal evaluation; those that are not fatal cause an evaluation of the latest \
                    restricted policy.";
        text.family(name, MetricType::Counter, help);
        for (write, count) in &counts.errors {
            let labels: Vec<(&str, &str)> = [("fatal", "false")].into_iter().chain(write.labels()).collect();
            text.sample(name, &labels, count);
        }
        let name = "pod_security_evaluations_total";
        text.family(
            name,
            MetricType::Counter,
            "Evaluations of policies, without ignored and exempt requests.",
        );
        let write = WriteLabels { operation: "create", resource: "pod", subresource: "".into() };
        let privileged =
            (true, Level::Privileged, Some(PolicyVersion::Latest), EvaluationMode::Enforce, write);
        let privileged = (&privileged, &self.privileged_creates.load(Ordering::Relaxed));
        for ((is_allowed, level, version, mode, write), count) in
            [privileged].into_iter().chain(&counts.evaluations)
        {
            let version = version.map_or_else(|| "future".to_owned(), |version| version.to_string());
            let labels = [
                ("decision", if *is_allowed { "allow" } else { "deny" }),
                ("policy_level", level.name()),
                ("policy_version", &version),
                (
                    "mode",
                    match mode {
                        EvaluationMode::Audit => "audit",
                        EvaluationMode::Enforce => "enforce",
                        EvaluationMode::Warn => "warn",
                    },
                ),
            ];
            let labels: Vec<(&str, &str)> = labels.into_iter().chain(write.labels()).collect();
            text.sample(name, &labels, count);
        }
        let name = "pod_security_exemptions_total";
        text.family(name, MetricType::Counter, "Exempt requests, without ignored ones.");
        for (write, count) in &counts.exemptions {
            text.sample(name, &write.labels(), count);
        }
    }
}
