//! Tests of flags and configurations.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};

use super::super::pod_security::{Level, PolicyVersion};
use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn with_flags(enabled: &[&str], disabled: &[&str]) -> Result<AdmissionConfig, String> {
    let (enabled, disabled) = (names(enabled), names(disabled));
    let flags = AdmissionFlags { enabled: &enabled, disabled: &disabled, config_file: None };
    let no_file = |_: &Path| Err(Error::from(ErrorKind::NotFound));
    read_config(flags, &no_file).map_err(|error| error.to_string())
}

/// Reads `dir/config.yaml`, whose plugins are `plugins`, and other files.
fn with_plugins(enabled: &[&str], plugins: &str, files: &[(&str, &str)]) -> Result<AdmissionConfig, String> {
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";
    let mut all: BTreeMap<PathBuf, String> =
        files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
    all.insert(PathBuf::from("dir/config.yaml"), format!("{head}{plugins}"));
    let enabled = names(enabled);
    let config_file = Some(Path::new("dir/config.yaml"));
    let flags = AdmissionFlags { enabled: &enabled, config_file, ..AdmissionFlags::default() };
    let read = |path: &Path| {
        all.get(path).map(|text| text.clone().into_bytes()).ok_or_else(|| Error::from(ErrorKind::NotFound))
    };
    read_config(flags, &read).map_err(|error| error.to_string())
}

#[test]
fn flags_enable_and_disable_plugins() {
    let config = with_flags(&["AlwaysPullImages"], &["PodSecurity"]).unwrap();
    assert!(config.is_enabled(Plugin::AlwaysPullImages) && !config.is_enabled(Plugin::PodSecurity));
    assert!(config.is_enabled(Plugin::ServiceAccount));
    assert_eq!(with_flags(&["ServiceAccount"], &[]), with_flags(&[], &[]), "it is enabled by default");
}

#[test]
fn unknown_and_contradictory_plugins_are_rejected() {
    assert_eq!(with_flags(&["Foo"], &[]).unwrap_err(), "enable-admission-plugins plugin \"Foo\" is unknown");
    assert_eq!(with_flags(&[], &["Foo"]).unwrap_err(), "disable-admission-plugins plugin \"Foo\" is unknown");
    assert_eq!(
        with_flags(&["PodSecurity", "AlwaysDeny"], &["AlwaysDeny", "PodSecurity"]).unwrap_err(),
        "[AlwaysDeny PodSecurity] in enable-admission-plugins and disable-admission-plugins overlapped"
    );
    assert_eq!(
        with_flags(&["ImagePolicyWebhook"], &[]).unwrap_err(),
        "admission plugin \"ImagePolicyWebhook\" is not implemented: remove it from --enable-admission-plugins"
    );
    assert_eq!(
        with_flags(&["EventRateLimit"], &[]).unwrap_err(),
        "couldn't init admission plugin \"EventRateLimit\": limits: Invalid value: null: must not be empty"
    );
}

#[test]
fn plugins_are_configured_inline_or_by_file() {
    let plugins = r#"
- name: EventRateLimit
  path: events.yaml
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, enforce-version: v1.25, audit: restricted}
    exemptions: {usernames: [ann], namespaces: [kube-system], runtimeClasses: [vm]}
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - apiGroup: batch
      resource: jobs
      matchContains: [count/]
      matchScopes: [{scopeName: PriorityClass, operator: In, values: [a, b]}]
- name: PodNodeSelector
  configuration:
    podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: env=prod, a: env=test}
- name: PodTolerationRestriction
  configuration:
    apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
    kind: Configuration
    default: [{key: a, operator: Exists}]
"#;
    let events = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits:\n\
                  - {type: Namespace, qps: 50, burst: 100, cacheSize: 2000}\n";
    let config = with_plugins(&["EventRateLimit"], plugins, &[("dir/events.yaml", events)]).unwrap();
    assert_eq!(config.event_rate_limits[0].cache_size, 2000);
    let security = &config.pod_security;
    assert_eq!(
        (security.defaults.enforce.level, security.defaults.enforce.version),
        (Level::Baseline, PolicyVersion::Minor(25))
    );
    assert_eq!(
        (security.defaults.audit.level, security.defaults.warn.level),
        (Level::Restricted, Level::Privileged)
    );
    assert!(security.exempt_namespaces.contains("kube-system"));
    let limited = &config.limited_resources[0];
    assert_eq!((&*limited.resource, &*limited.match_contains[0]), ("jobs.batch", "count/"));
    assert_eq!(limited.match_scopes[0].to_string(), "{PriorityClass In [a b]}");
    assert_eq!(config.node_selectors["a"], "env=test");
    assert_eq!(config.tolerations.default.len(), 1);
}

#[test]
fn configuration_of_node_selectors_may_be_the_file_itself() {
    let read = |_: &Path| Ok(b"podNodeSelectorPluginConfig: {a: env=test}".to_vec());
    let flags = AdmissionFlags { config_file: Some(Path::new("f")), ..AdmissionFlags::default() };
    assert_eq!(read_config(flags, &read).unwrap().node_selectors["a"], "env=test");
}

#[test]
fn invalid_configurations_are_rejected() {
    for (plugins, why) in [
        ("- name: Foo\n  configuration: {}", "couldn't init admission plugin \"Foo\": it is unknown"),
        (
            "- name: Priority\n  configuration: {}",
            "couldn't init admission plugin \"Priority\": it has no configuration",
        ),
        (
            "- name: EventRateLimit\n  path: gone.yaml",
            "unable to read admission control configuration from \"dir/gone.yaml\" [entity not found]",
        ),
        (
            "- name: PodSecurity\n  configuration: {apiVersion: v1, kind: Foo}",
            "couldn't init admission plugin \"PodSecurity\": no kind \"Foo\" is registered for version \"v1\": expected \
             PodSecurityConfiguration of pod-security.admission.config.k8s.io/v1",
        ),
        (
            "- name: PodSecurity\n  configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: \
             PodSecurityConfiguration, defaults: {enforce: x}, exemptions: {namespaces: [a, a]}}",
            "couldn't init admission plugin \"PodSecurity\": [defaults.enforce: Invalid value: \"x\": must be one of \
             privileged, baseline, restricted, exemptions.namespaces[1]: Duplicate value: \"a\"]",
        ),
        (
            "- name: EventRateLimit\n  configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: \
             Configuration, limits: [{type: User, qps: 0, burst: 1}]}",
            "couldn't init admission plugin \"EventRateLimit\": limits[0].qps: Invalid value: 0: must be positive",
        ),
        (
            "- {name: PodSecurity, config: {}}",
            "admission control configuration \"dir/config.yaml\": strict decoding error: unknown field \"plugins.config\"",
        ),
    ] {
        assert_eq!(with_plugins(&[], plugins, &[]).unwrap_err(), why, "{plugins}");
    }
}
