//! Validation of containers, init containers and ephemeral containers.

use std::collections::{BTreeMap, BTreeSet};

use super::mounts::{self, Volumes};
use super::resources::{self, Scope};
use super::{env, probes, security};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::read::{
    check_required_enum, check_supported, list, number, optional_text, present, push_forbidden, push_invalid,
    push_invalid_enum, push_number_faults, push_required, text,
};
use crate::names::{dns, key};
use crate::value::Value;

/// Fields of the pod that the validation of a container needs.
pub(crate) struct PodContext<'a> {
    /// Valid volumes.
    pub volumes: Volumes<'a>,
    /// Names of the pod's resource claims.
    pub claim_names: BTreeSet<&'a str>,
    /// Termination grace period in seconds.
    pub grace: Option<i64>,
    /// Restart policy of the pod.
    pub restarts: &'a str,
    /// `true` if the pod uses the user namespace of the host.
    pub host_users: bool,
}

/// Maximum number of restart policy rules of a container.
const RESTART_RULES_MAX: usize = 20;
/// Maximum number of exit codes in a rule.
const EXIT_CODES_MAX: usize = 255;
/// Fields that an ephemeral container must not have, in the order of their errors.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Validates the main containers.
pub(crate) fn check_regular(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, context: &PodContext<'_>) {
    let containers = list(spec, "containers");
    if containers.is_empty() {
        return push_required(errors, path, "");
    }
    let mut names = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let path = path.index(i);
        check_common(errors, &path, container, context);
        if !names.insert(text(container, "name")) {
            errors.push(FieldError::duplicate(&path.child("name"), text(container, "name")));
        }
        probes::check_probes_and_hooks(errors, &path, container, context.grace);
        check_restart_policy(errors, &path, container, false);
    }
    check_host_ports(errors, path, containers);
}

/// Validates the init containers.
pub(crate) fn check_init(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, context: &PodContext<'_>) {
    let mut names: BTreeSet<&str> = list(spec, "containers").iter().map(|one| text(one, "name")).collect();
    let list_path = path;
    for (i, container) in list(spec, "initContainers").iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let path = list_path.index(i);
        check_common(errors, &path, container, context);
        check_restart_policy(errors, &path, container, true);
        let name = text(container, "name");
        if names.contains(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        } else if !name.is_empty() {
            names.insert(name);
        }
        // Init containers run one by one, so only ports of the same container can conflict; its index is
        // shown as 0.
        check_host_ports(errors, list_path, std::slice::from_ref(container));
        if resources::is_sidecar(container) {
            probes::check_probes_and_hooks(errors, &path, container, context.grace);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if present(container, field).is_some() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                push_forbidden(errors, &path.child(field), detail);
            }
        }
        let policies = path.child("resizePolicy");
        for (j, policy) in list(container, "resizePolicy").iter().enumerate() {
            if text(policy, "restartPolicy") == "RestartContainer" {
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                let path = policies.index(j);
                push_invalid_enum(errors, &path.child("restartPolicy"), "RestartContainer", detail);
            }
        }
    }
}

/// Validates the ephemeral containers.
pub(crate) fn check_ephemeral(
    errors: &mut ErrorList,
    path: &Path<'_>,
    spec: &Value,
    context: &PodContext<'_>,
) {
    let added = list(spec, "ephemeralContainers");
    if added.is_empty() {
        return;
    }
    let others = list(spec, "containers").iter().chain(list(spec, "initContainers"));
    let others: BTreeSet<&str> = others.map(|one| text(one, "name")).collect();
    let mut names = others.clone();
    for (i, container) in added.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let path = path.index(i);
        check_common(errors, &path, container, context);
        check_only_for_pod(errors, &path, container);
        if !names.insert(text(container, "name")) {
            errors.push(FieldError::duplicate(&path.child("name"), text(container, "name")));
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(&path.child("targetContainerName"), target));
        }
        for field in NOT_EPHEMERAL {
            let is_pointer = !matches!(field, "ports" | "resources" | "resizePolicy" | "restartPolicyRules");
            if present(container, field).is_some_and(|value| is_pointer || !value.is_empty()) {
                push_forbidden(errors, &path.child(field), "cannot be set for an Ephemeral Container");
            }
        }
        let mounts_path = path.child("volumeMounts");
        for (j, mount) in list(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    let path = mounts_path.index(j);
                    push_forbidden(errors, &path.child(field), "cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

/// Validation of a container that applies to pods but not to templates.
pub(crate) fn check_only_for_pod(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    let image = text(container, "image");
    if image.len() != image.trim().len() {
        push_invalid(errors, &path.child("image"), image, "must not have leading or trailing whitespace");
    }
}

fn check_common(errors: &mut ErrorList, path: &Path<'_>, container: &Value, context: &PodContext<'_>) {
    let name = text(container, "name");
    if name.is_empty() {
        push_required(errors, &path.child("name"), "");
    } else {
        errors.push_invalid(&path.child("name"), name, dns::label(name));
    }
    if text(container, "image").is_empty() {
        push_required(errors, &path.child("image"), "");
    }
    let policy = text(container, "terminationMessagePolicy");
    check_required_enum(
        errors,
        &path.child("terminationMessagePolicy"),
        policy,
        &["File", "FallbackToLogsOnError"],
    );
    check_ports(errors, &path.child("ports"), list(container, "ports"));
    env::check_variables(errors, path, container);
    mounts::check_mounts_and_devices(errors, path, container, &context.volumes);
    check_pull_policy(errors, &path.child("imagePullPolicy"), text(container, "imagePullPolicy"));
    if let Some(own) = present(container, "resources") {
        resources::check_requirements(
            errors,
            &path.child("resources"),
            own,
            &context.claim_names,
            Scope::Container,
        );
    }
    resources::check_resize_policy(errors, &path.child("resizePolicy"), container, context.restarts);
    if let Some(security_context) = present(container, "securityContext") {
        security::check_container(
            errors,
            &path.child("securityContext"),
            security_context,
            context.host_users,
        );
    }
}

/// Validates an image pull policy.
pub(crate) fn check_pull_policy(errors: &mut ErrorList, path: &Path<'_>, policy: &str) {
    check_required_enum(errors, path, policy, &["Always", "IfNotPresent", "Never"]);
}

fn check_ports(errors: &mut ErrorList, path: &Path<'_>, ports: &[Value]) {
    let mut names = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = text(port, "name");
        if !name.is_empty() {
            let faults = key::port_name(name);
            if !faults.is_empty() {
                errors.push_invalid(&path.child("name"), name, faults);
            } else if !names.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
        }
        match number(port, "containerPort") {
            0 => push_required(errors, &path.child("containerPort"), ""),
            inside => {
                push_number_faults(errors, &path.child("containerPort"), inside, key::port_number(inside))
            }
        }
        match number(port, "hostPort") {
            0 => {}
            outside => {
                push_number_faults(errors, &path.child("hostPort"), outside, key::port_number(outside))
            }
        }
        check_required_enum(errors, &path.child("protocol"), text(port, "protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

/// Rejects host ports that several containers use.
fn check_host_ports(errors: &mut ErrorList, path: &Path<'_>, containers: &[Value]) {
    let mut seen = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in list(container, "ports").iter().enumerate() {
            let outside = number(port, "hostPort");
            if outside == 0 {
                continue;
            }
            let claim = (text(port, "protocol"), text(port, "hostIP"), outside);
            if !seen.insert(claim) {
                let path = path.index(i);
                let path = path.child("ports");
                let path = path.index(j);
                let shown = format!("{}/{}/{}", claim.0, claim.1, claim.2);
                errors.push(FieldError::duplicate(&path.child("hostPort"), shown));
            }
        }
    }
}

/// Validates the restart policy and its rules.
fn check_restart_policy(errors: &mut ErrorList, path: &Path<'_>, container: &Value, is_init: bool) {
    let rules = list(container, "restartPolicyRules");
    let policy_path = path.child("restartPolicy");
    match optional_text(container, "restartPolicy") {
        None if rules.is_empty() => return,
        None => {
            push_required(errors, &policy_path, "must specify restartPolicy when restart rules are used");
            if is_init {
                return;
            }
        }
        Some(policy) => check_supported(errors, &policy_path, policy, &["Always", "Never", "OnFailure"]),
    }
    let rules_path = path.child("restartPolicyRules");
    if rules.len() > RESTART_RULES_MAX {
        errors.push(FieldError::too_many(&rules_path, Some(rules.len()), RESTART_RULES_MAX));
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = rules_path.index(i);
        check_supported(
            errors,
            &path.child("action"),
            text(rule, "action"),
            &["Restart", "RestartAllContainers"],
        );
        let codes_path = path.child("exitCodes");
        let Some(codes) = present(rule, "exitCodes") else {
            push_required(errors, &codes_path, "must be specified");
            continue;
        };
        check_supported(errors, &codes_path.child("operator"), text(codes, "operator"), &["In", "NotIn"]);
        let values = list(codes, "values");
        if values.len() > EXIT_CODES_MAX {
            let actual = Some(values.len());
            errors.push(FieldError::too_many(&codes_path.child("values"), actual, EXIT_CODES_MAX));
        }
    }
}

/// Checks that ports on the host network equal the host ports. In a template they may be omitted.
pub(crate) fn check_ports_on_host(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, is_pod: bool) {
    let path = path.child("containers");
    for (i, container) in list(spec, "containers").iter().enumerate() {
        let path = path.index(i);
        let path = path.child("ports");
        for (j, port) in list(container, "ports").iter().enumerate() {
            let outside = number(port, "hostPort");
            if (is_pod || outside != 0) && outside != number(port, "containerPort") {
                let path = path.index(j);
                let detail = "must match `containerPort` when `hostNetwork` is true";
                push_invalid(errors, &path.child("hostPort"), outside, detail);
            }
        }
    }
}

/// Checks that file references of variables have a matching `emptyDir` volume.
pub(crate) fn check_file_references(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    volumes: &[Value],
) {
    let path = path.child("env");
    let mut by_name: Option<BTreeMap<&str, &Value>> = None;
    for (i, variable) in list(container, "env").iter().enumerate() {
        let Some(reference) =
            variable.at(&["valueFrom", "fileKeyRef"]).filter(|reference| !reference.is_null())
        else {
            continue;
        };
        // The last of equal names counts.
        let by_name = by_name
            .get_or_insert_with(|| volumes.iter().map(|volume| (text(volume, "name"), volume)).collect());
        let path = path.index(i);
        let path = path.child("valueFrom");
        let path = path.child("fileKeyRef");
        let path = path.child("volumeName");
        let name = text(reference, "volumeName");
        match by_name.get(name).copied() {
            None => errors.push(FieldError::not_found(&path, BadValue::from(name))),
            Some(volume) if present(volume, "emptyDir").is_none() => {
                push_invalid(errors, &path, name, "referenced volume must be of type emptyDir");
            }
            Some(_) => {}
        }
    }
}
