//! Policies of Pod Security: levels and versions, from the labels of a namespace or the configuration.

use std::collections::BTreeSet;
use std::fmt;

use setpoint_api::Value;
use setpoint_api::field_error::{ErrorList, FieldError, Path};

/// Prefix of the labels of policies and of audit annotations.
pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

/// Details of invalid labels.
const INVALID_LEVEL: &str = "must be one of privileged, baseline, restricted";
const INVALID_VERSION: &str = "must be \"latest\" or \"v1.x\"";

/// Levels of the Pod Security Standards, from permissive to strict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything is allowed.
    #[default]
    Privileged,
    /// Known privilege escalations are forbidden.
    Baseline,
    /// Current best practices are required.
    Restricted,
}

impl Level {
    /// Parses a level.
    #[must_use]
    pub fn parse(text: &str) -> Option<Level> {
        match text {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

/// Version of the rules of a policy: the minor version of Kubernetes in which they applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyVersion {
    /// `v1.MINOR`.
    Minor(u32),
    /// The newest rules.
    #[default]
    Latest,
}

impl PolicyVersion {
    /// Parses a version: `latest`, or `v1.` and a number without leading zeros.
    #[must_use]
    pub fn parse(text: &str) -> Option<PolicyVersion> {
        if text == "latest" {
            return Some(PolicyVersion::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let is_canonical =
            minor.bytes().all(|byte| byte.is_ascii_digit()) && (minor == "0" || !minor.starts_with('0'));
        is_canonical.then(|| minor.parse().ok()).flatten().map(PolicyVersion::Minor)
    }

    /// `true` if rules of the minor version apply.
    pub(super) fn has(self, minor: u32) -> bool {
        self >= PolicyVersion::Minor(minor)
    }
}

impl fmt::Display for PolicyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyVersion::Minor(minor) => write!(f, "v1.{minor}"),
            PolicyVersion::Latest => f.write_str("latest"),
        }
    }
}

/// A level and the version of its rules, which print as `baseline:latest`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelVersion {
    /// Level.
    pub level: Level,
    /// Version.
    pub version: PolicyVersion,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

impl LevelVersion {
    fn is_equivalent(self, other: LevelVersion) -> bool {
        self == other || self.level == Level::Privileged && other.level == Level::Privileged
    }
}

/// Policy of a namespace: what is rejected, audited and warned about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Pods that violate it are rejected.
    pub enforce: LevelVersion,
    /// Violations are annotated in the audit log.
    pub audit: LevelVersion,
    /// Violations cause a warning.
    pub warn: LevelVersion,
}

impl Policy {
    /// Reads the policy of a namespace. Returns the errors of invalid labels too: such a label enforces the strictest
    /// level, but audits and warns about nothing.
    pub(super) fn of(namespace: &Value, defaults: Policy) -> (Policy, ErrorList) {
        let mut labels = PolicyLabels { namespace, errors: ErrorList::new() };
        let mut policy = defaults;
        let enforced = labels.level("enforce", Level::Restricted);
        let has_valid_level = enforced.is_some_and(|(_, is_valid)| is_valid);
        policy.enforce.level = enforced.map_or(policy.enforce.level, |(level, _)| level);
        policy.enforce.version = labels.version("enforce-version").unwrap_or(policy.enforce.version);
        let audited = labels.level("audit", Level::Privileged);
        policy.audit.level = audited.map_or(policy.audit.level, |(level, _)| level);
        policy.audit.version = labels.version("audit-version").unwrap_or(policy.audit.version);
        let warned = labels.level("warn", Level::Privileged);
        policy.warn.level = warned.map_or(policy.warn.level, |(level, _)| level);
        let warn_version = labels.version("warn-version");
        policy.warn.version = warn_version.unwrap_or(policy.warn.version);
        // An explicitly enforced level is also the one that is warned about: workloads are not rejected, but their pods would be.
        if warned.is_none() && has_valid_level && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if warn_version.is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, labels.errors)
    }

    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }

    /// `true` if both forbid the same.
    pub(super) fn is_equivalent(&self, other: &Policy) -> bool {
        self.enforce.is_equivalent(other.enforce)
            && self.audit.is_equivalent(other.audit)
            && self.warn.is_equivalent(other.warn)
    }

    /// Modes that the labels of a namespace set to something else than `privileged`, for a warning.
    pub(super) fn labeled_modes(&self, namespace: &Value) -> String {
        let modes = [("enforce", self.enforce), ("audit", self.audit), ("warn", self.warn)];
        let is_labeled = |mode: &str| {
            label(namespace, mode).is_some() || label(namespace, &format!("{mode}-version")).is_some()
        };
        let shown = modes.iter().filter(|(name, mode)| mode.level != Level::Privileged && is_labeled(name));
        let shown: Vec<String> = shown.map(|(name, mode)| format!("{name}={mode}")).collect();
        shown.join(", ")
    }
}

/// Labels of a namespace, and the errors found in them.
struct PolicyLabels<'a> {
    namespace: &'a Value,
    errors: ErrorList,
}

impl PolicyLabels<'_> {
    /// A level, and `true` if it is valid; an invalid one is replaced.
    fn level(&mut self, name: &str, replacement: Level) -> Option<(Level, bool)> {
        let text = label(self.namespace, name)?;
        let level = Level::parse(text);
        if level.is_none() {
            self.push(name, INVALID_LEVEL);
        }
        Some((level.unwrap_or(replacement), level.is_some()))
    }

    fn version(&mut self, name: &str) -> Option<PolicyVersion> {
        let text = label(self.namespace, name)?;
        let version = PolicyVersion::parse(text);
        if version.is_none() {
            self.push(name, INVALID_VERSION);
        }
        Some(version.unwrap_or_default())
    }

    fn push(&mut self, name: &str, detail: &'static str) {
        let root = Path::root("metadata");
        let labels = root.child("labels");
        let given = label(self.namespace, name).unwrap_or_default();
        self.errors.push(FieldError::invalid(&labels.key(&format!("{PREFIX}{name}")), given, detail));
    }
}

fn label<'a>(namespace: &'a Value, name: &str) -> Option<&'a str> {
    namespace.at(&["metadata", "labels", &format!("{PREFIX}{name}")])?.as_str()
}

/// Defaults and exemptions of PodSecurity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSecurityConfig {
    /// Policy of namespaces without labels.
    pub defaults: Policy,
    /// Users whose writes are exempt.
    pub exempt_users: BTreeSet<String>,
    /// Namespaces that are exempt.
    pub exempt_namespaces: BTreeSet<String>,
    /// Runtime classes whose pods are exempt.
    pub exempt_runtime_classes: BTreeSet<String>,
}

impl PodSecurityConfig {
    /// Parses a level of the configuration.
    pub(in crate::pipeline::admission) fn level(text: &str) -> Result<Level, &'static str> {
        Level::parse(text).ok_or(INVALID_LEVEL)
    }

    /// Parses a version of the configuration.
    pub(in crate::pipeline::admission) fn version(text: &str) -> Result<PolicyVersion, &'static str> {
        PolicyVersion::parse(text).ok_or(INVALID_VERSION)
    }
}
