//! Configurations of single plugins.

use std::collections::BTreeSet;

use setpoint_api::Value;
use setpoint_api::field_error::{BadValue, ErrorList, FieldError, Path};
use setpoint_api::names::dns;
use setpoint_views::quota::ScopeRequirement;

use crate::pipeline::admission::context::{AdmissionConfig, list};
use crate::pipeline::admission::event_rate_limit::{EventLimitType, EventRateLimit};
use crate::pipeline::admission::plugins::Plugin;
use crate::pipeline::admission::pod_security::{LevelVersion, PodSecurityConfig};
use crate::pipeline::admission::pod_toleration_restriction::TolerationConfig;
use crate::pipeline::quota::limited::LimitedResource;

/// Fields of the type of a configuration.
const TYPE: [&str; 2] = ["apiVersion", "kind"];

/// Reads the configuration of a plugin.
///
/// # Errors
/// If it is invalid, or the plugin has no configuration.
pub(super) fn configure(plugin: Plugin, value: &Value, config: &mut AdmissionConfig) -> Result<(), String> {
    match plugin {
        Plugin::ResourceQuota => config.limited_resources = limited_resources(value)?,
        Plugin::PodSecurity => config.pod_security = pod_security(value)?,
        Plugin::EventRateLimit => config.event_rate_limits = event_rate_limits(value)?,
        Plugin::PodNodeSelector => {
            check_fields(value, &["podNodeSelectorPluginConfig"], "")?;
            let selectors = value.get("podNodeSelectorPluginConfig").and_then(Value::as_map);
            let selectors = selectors.into_iter().flat_map(|map| map.iter());
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            config.node_selectors = selectors.map(|(name, value)| (name.to_owned(), text(value))).collect();
        }
        Plugin::PodTolerationRestriction => {
            check_type(value, &["podtolerationrestriction.admission.k8s.io/v1alpha1"], &["Configuration"])?;
            check_fields(value, &[&TYPE[..], &["default", "whitelist"]].concat(), "")?;
            let (default, allowed) = (list(value, "default").to_vec(), list(value, "whitelist").to_vec());
            config.tolerations = TolerationConfig { default, allowed };
        }
        Plugin::ValidatingAdmissionWebhook | Plugin::MutatingAdmissionWebhook
            if !value.str_at(&["kubeConfigFile"]).is_empty() =>
        {
            return Err("credentials for webhooks (kubeConfigFile) are not supported".to_owned());
        }
        Plugin::ValidatingAdmissionWebhook | Plugin::MutatingAdmissionWebhook => {
            let kinds = ["WebhookAdmissionConfiguration", "WebhookAdmission"];
            check_type(value, &["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1"], &kinds)?;
            check_fields(value, &[&TYPE[..], &["kubeConfigFile"]].concat(), "")?;
        }
        _ => return Err("it has no configuration".to_owned()),
    }
    Ok(())
}

/// Checks the version and kind of a configuration.
pub(super) fn check_type(value: &Value, api_versions: &[&str], kinds: &[&str]) -> Result<(), String> {
    let (api_version, kind) = (value.str_at(&["apiVersion"]), value.str_at(&["kind"]));
    if api_versions.contains(&api_version) && kinds.contains(&kind) {
        return Ok(());
    }
    Err(format!(
        "no kind {kind:?} is registered for version {api_version:?}: expected {} of {}",
        kinds[0], api_versions[0]
    ))
}

/// Rejects unknown fields.
pub(super) fn check_fields(value: &Value, fields: &[&str], at: &str) -> Result<(), String> {
    let Some(map) = value.as_map() else { return Err(format!("{at}: must be an object")) };
    let separator = if at.is_empty() { "" } else { "." };
    match map.keys().find(|field| !fields.contains(field)) {
        Some(field) => Err(format!("strict decoding error: unknown field \"{at}{separator}{field}\"")),
        None => Ok(()),
    }
}

fn check(errors: ErrorList) -> Result<(), String> {
    if errors.is_empty() { Ok(()) } else { Err(errors.to_string()) }
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    list(value, field).iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect()
}

fn limited_resources(value: &Value) -> Result<Vec<LimitedResource>, String> {
    let versions = [
        "apiserver.config.k8s.io/v1",
        "resourcequota.admission.k8s.io/v1beta1",
        "resourcequota.admission.k8s.io/v1alpha1",
    ];
    check_type(value, &versions, &["ResourceQuotaConfiguration", "Configuration"])?;
    check_fields(value, &[&TYPE[..], &["limitedResources"]].concat(), "")?;
    let mut errors = ErrorList::new();
    let mut limited = Vec::new();
    let root = Path::root("limitedResources");
    for (at, item) in list(value, "limitedResources").iter().enumerate() {
        check_fields(item, &["apiGroup", "resource", "matchContains", "matchScopes"], "limitedResources")?;
        let resource = item.str_at(&["resource"]);
        if resource.is_empty() {
            errors.push(FieldError::required(&root.index(at).child("resource"), ""));
        }
        let resource = match item.str_at(&["apiGroup"]) {
            "" => resource.to_owned(),
            group => format!("{resource}.{group}"),
        };
        let mut match_scopes = Vec::new();
        for scope in list(item, "matchScopes") {
            check_fields(scope, &["scopeName", "operator", "values"], "limitedResources.matchScopes")?;
            match_scopes.push(ScopeRequirement {
                scope_name: scope.str_at(&["scopeName"]).to_owned(),
                operator: scope.str_at(&["operator"]).to_owned(),
                values: texts(scope, "values").into_iter().collect(),
            });
        }
        limited.push(LimitedResource {
            resource,
            match_contains: texts(item, "matchContains"),
            match_scopes,
        });
    }
    check(errors).map(|()| limited)
}

fn event_rate_limits(value: &Value) -> Result<Vec<EventRateLimit>, String> {
    check_type(value, &["eventratelimit.admission.k8s.io/v1alpha1"], &["Configuration"])?;
    check_fields(value, &[&TYPE[..], &["limits"]].concat(), "")?;
    let mut errors = ErrorList::new();
    let mut limits = Vec::new();
    let root = Path::root("limits");
    if list(value, "limits").is_empty() {
        errors.push(FieldError::invalid(&root, BadValue::Null, "must not be empty"));
    }
    for (at, item) in list(value, "limits").iter().enumerate() {
        check_fields(item, &["type", "qps", "burst", "cacheSize"], "limits")?;
        let path = root.index(at);
        let named = item.str_at(&["type"]);
        let limit_type = EventLimitType::NAMES.into_iter().find(|(name, _)| *name == named);
        if limit_type.is_none() {
            let names = ["Namespace", "Server", "SourceAndObject", "User"];
            errors.push(FieldError::not_supported(&path.child("type"), named, &names));
        }
        let number = |field: &str| item.get(field).and_then(Value::as_i64).unwrap_or(0);
        for field in ["burst", "qps"] {
            if number(field) <= 0 {
                errors.push(FieldError::invalid(&path.child(field), number(field), "must be positive"));
            }
        }
        let (_, limit_type) = limit_type.unwrap_or(EventLimitType::NAMES[0]);
        if limit_type != EventLimitType::Server && number("cacheSize") < 0 {
            errors.push(FieldError::invalid(
                &path.child("cacheSize"),
                number("cacheSize"),
                "must not be negative",
            ));
        }
        limits.push(EventRateLimit {
            limit_type,
            qps: u32::try_from(number("qps")).unwrap_or(0),
            burst: u32::try_from(number("burst")).unwrap_or(0),
            cache_size: usize::try_from(number("cacheSize")).unwrap_or(0),
        });
    }
    check(errors).map(|()| limits)
}

fn pod_security(value: &Value) -> Result<PodSecurityConfig, String> {
    let group = "pod-security.admission.config.k8s.io";
    let versions = ["v1", "v1beta1", "v1alpha1"].map(|version| format!("{group}/{version}"));
    check_type(value, &versions.each_ref().map(String::as_str), &["PodSecurityConfiguration"])?;
    check_fields(value, &[&TYPE[..], &["defaults", "exemptions"]].concat(), "")?;
    let (none, mut errors) = (Value::map(), ErrorList::new());
    let mut config = PodSecurityConfig::default();
    let defaults = value.get("defaults").filter(|defaults| !defaults.is_null()).unwrap_or(&none);
    let exemptions = value.get("exemptions").filter(|exemptions| !exemptions.is_null()).unwrap_or(&none);
    let modes = ["enforce", "warn", "audit"];
    let fields: Vec<String> =
        modes.iter().flat_map(|mode| [(*mode).to_owned(), format!("{mode}-version")]).collect();
    check_fields(defaults, &fields.iter().map(String::as_str).collect::<Vec<_>>(), "defaults")?;
    check_fields(exemptions, &["usernames", "namespaces", "runtimeClasses"], "exemptions")?;
    let policy = &mut config.defaults;
    for (mode, target) in modes.into_iter().zip([&mut policy.enforce, &mut policy.warn, &mut policy.audit]) {
        read_mode(defaults, mode, target, &mut errors);
    }
    config.exempt_namespaces = exempt(exemptions, "namespaces", &mut errors, |name| joined(dns::label(name)));
    config.exempt_runtime_classes =
        exempt(exemptions, "runtimeClasses", &mut errors, |name| joined(dns::subdomain(name)));
    config.exempt_users = exempt(exemptions, "usernames", &mut errors, |name| match name {
        "" => "username must not be empty".to_owned(),
        _ => String::new(),
    });
    check(errors).map(|()| config)
}

/// Reads the default level and version of a mode.
fn read_mode(defaults: &Value, mode: &str, target: &mut LevelVersion, errors: &mut ErrorList) {
    let root = Path::root("defaults");
    let given = |field: &str| Some(defaults.str_at(&[field]).to_owned()).filter(|text| !text.is_empty());
    if let Some(text) = given(mode) {
        match PodSecurityConfig::level(&text) {
            Ok(level) => target.level = level,
            Err(why) => errors.push(FieldError::invalid(&root.child(mode), text, why)),
        }
    }
    let field = format!("{mode}-version");
    if let Some(text) = given(&field) {
        match PodSecurityConfig::version(&text) {
            Ok(version) => target.version = version,
            Err(why) => errors.push(FieldError::invalid(&root.child(&field), text, why)),
        }
    }
}

/// Reads a list of exemptions. `fault` describes what is wrong with a name; empty if nothing is.
fn exempt(
    exemptions: &Value,
    field: &str,
    errors: &mut ErrorList,
    fault: impl Fn(&str) -> String,
) -> BTreeSet<String> {
    let root = Path::root("exemptions");
    let path = root.child(field);
    let mut names = BTreeSet::new();
    for (at, name) in texts(exemptions, field).into_iter().enumerate() {
        let why = fault(&name);
        if !why.is_empty() {
            errors.push(FieldError::invalid(&path.index(at), name, why));
        } else if names.contains(&name) {
            errors.push(FieldError::duplicate(&path.index(at), name));
        } else {
            names.insert(name);
        }
    }
    names
}

fn joined(faults: impl IntoIterator<Item = impl ToString>) -> String {
    let faults: Vec<String> = faults.into_iter().map(|fault| fault.to_string()).collect();
    faults.join(", ")
}
