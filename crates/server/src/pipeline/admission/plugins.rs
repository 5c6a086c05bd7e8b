//! Admission plugins: names, defaults and order.
//!
//! [`ENTRIES`] is upstream's list in upstream's order. A plugin changes objects ([`Admit`]), checks them
//! ([`Validate`]), or does both, for some operations. Plugins without a function here run elsewhere in the pipeline:
//! policies, webhooks and the quota.

use super::{
    AdmissionInput, Findings, always_deny, always_pull_images, anti_affinity, certificate_approval,
    certificate_request, certificate_signing, claim_resize, default_class, event_rate_limit,
    extended_resource_toleration, external_ips, limit_range, namespace_exists, namespace_lifecycle,
    node_features, node_restriction, node_taint, owner_references, pod_node_selector, pod_resize,
    pod_security, pod_toleration_restriction, pod_topology_labels, priority, protection, runtime_class,
    service_account, tolerations, trust_bundle_attest,
};
use crate::webhooks::Operation;
use setpoint_api::Value;
use setpoint_api::status::Status;

/// Function that changes an object.
pub(super) type Admit = fn(&mut Value, &AdmissionInput<'_>) -> Result<(), Status>;
/// Function that checks an object; null for a delete.
pub(super) type Validate = fn(&Value, &AdmissionInput<'_>, &mut Findings) -> Result<(), Status>;

/// An admission plugin. The order is that in which plugins run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are upstream's")]
pub enum Plugin {
    AlwaysAdmit,
    NamespaceAutoProvision,
    NamespaceLifecycle,
    NamespaceExists,
    LimitPodHardAntiAffinityTopology,
    LimitRanger,
    ServiceAccount,
    NodeRestriction,
    TaintNodesByCondition,
    AlwaysPullImages,
    ImagePolicyWebhook,
    PodSecurity,
    PodNodeSelector,
    Priority,
    DefaultTolerationSeconds,
    PodTolerationRestriction,
    EventRateLimit,
    ExtendedResourceToleration,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    PodGroupProtection,
    OwnerReferencesPermissionEnforcement,
    PersistentVolumeClaimResize,
    RuntimeClass,
    CertificateApproval,
    CertificateSigning,
    ClusterTrustBundleAttest,
    CertificateSubjectRestriction,
    DefaultIngressClass,
    DenyServiceExternalIPs,
    PodTopologyLabels,
    NodeDeclaredFeatureValidator,
    PodResizeValidator,
    MutatingAdmissionPolicy,
    MutatingAdmissionWebhook,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionWebhook,
    ResourceQuota,
    AlwaysDeny,
}

/// Row of the table of plugins.
pub(super) struct PluginEntry {
    pub plugin: Plugin,
    /// Name in flags and configurations.
    pub name: &'static str,
    /// `true` if it is enabled unless disabled.
    pub is_default: bool,
    /// Operations whose objects it changes, and how.
    admit: (u8, Option<Admit>),
    /// Operations whose objects it validates, and how.
    validate: (u8, Option<Validate>),
}

const CREATE: u8 = 1 << Operation::Create as u8;
const UPDATE: u8 = 1 << Operation::Update as u8;
const DELETE: u8 = 1 << Operation::Delete as u8;
const CONNECT: u8 = 1 << Operation::Connect as u8;
const ALL: u8 = CREATE | UPDATE | DELETE | CONNECT;

impl PluginEntry {
    /// A plugin that is enabled by default.
    const fn on(plugin: Plugin, name: &'static str) -> PluginEntry {
        PluginEntry { plugin, name, is_default: true, admit: (0, None), validate: (0, None) }
    }

    /// A plugin that must be enabled.
    const fn off(plugin: Plugin, name: &'static str) -> PluginEntry {
        PluginEntry { is_default: false, ..PluginEntry::on(plugin, name) }
    }

    const fn admits(self, operations: u8, admit: Admit) -> PluginEntry {
        PluginEntry { admit: (operations, Some(admit)), ..self }
    }

    const fn validates(self, operations: u8, validate: Validate) -> PluginEntry {
        PluginEntry { validate: (operations, Some(validate)), ..self }
    }

    /// Change of objects by an operation; `None` if the plugin makes none.
    pub fn admit(&self, operation: Operation) -> Option<Admit> {
        self.admit.1.filter(|_| self.admit.0 & 1 << operation as u8 != 0)
    }

    /// Validation of objects of an operation; `None` if the plugin makes none.
    pub fn validate(&self, operation: Operation) -> Option<Validate> {
        self.validate.1.filter(|_| self.validate.0 & 1 << operation as u8 != 0)
    }
}

/// All plugins, in the order in which they run.
pub(super) static ENTRIES: [PluginEntry; 39] = [
    PluginEntry::off(Plugin::AlwaysAdmit, "AlwaysAdmit"),
    PluginEntry::off(Plugin::NamespaceAutoProvision, "NamespaceAutoProvision"),
    PluginEntry::on(Plugin::NamespaceLifecycle, "NamespaceLifecycle")
        .admits(DELETE, namespace_lifecycle::admit),
    PluginEntry::off(Plugin::NamespaceExists, "NamespaceExists")
        .validates(CREATE | UPDATE | DELETE, namespace_exists::validate),
    PluginEntry::off(Plugin::LimitPodHardAntiAffinityTopology, "LimitPodHardAntiAffinityTopology")
        .validates(CREATE | UPDATE, anti_affinity::validate),
    PluginEntry::on(Plugin::LimitRanger, "LimitRanger")
        .admits(CREATE | UPDATE, limit_range::admit)
        .validates(CREATE | UPDATE, limit_range::validate),
    PluginEntry::on(Plugin::ServiceAccount, "ServiceAccount")
        .admits(CREATE, service_account::admit)
        .validates(CREATE | UPDATE, service_account::validate),
    // Upstream enables it by flag. It belongs to the node authorizer, which this server always has.
    PluginEntry::on(Plugin::NodeRestriction, "NodeRestriction")
        .admits(CREATE | UPDATE | DELETE, node_restriction::admit),
    PluginEntry::on(Plugin::TaintNodesByCondition, "TaintNodesByCondition").admits(CREATE, node_taint::admit),
    PluginEntry::off(Plugin::AlwaysPullImages, "AlwaysPullImages")
        .admits(CREATE | UPDATE, always_pull_images::admit)
        .validates(CREATE | UPDATE, always_pull_images::validate),
    PluginEntry::off(Plugin::ImagePolicyWebhook, "ImagePolicyWebhook"),
    PluginEntry::on(Plugin::PodSecurity, "PodSecurity").validates(CREATE | UPDATE, pod_security::validate),
    PluginEntry::off(Plugin::PodNodeSelector, "PodNodeSelector")
        .admits(CREATE, pod_node_selector::admit)
        .validates(CREATE, pod_node_selector::validate),
    PluginEntry::on(Plugin::Priority, "Priority")
        .admits(CREATE | UPDATE, priority::admit)
        .validates(CREATE | UPDATE, priority::validate),
    PluginEntry::on(Plugin::DefaultTolerationSeconds, "DefaultTolerationSeconds")
        .admits(CREATE | UPDATE, tolerations::admit),
    PluginEntry::off(Plugin::PodTolerationRestriction, "PodTolerationRestriction")
        .admits(CREATE | UPDATE, pod_toleration_restriction::admit)
        .validates(CREATE | UPDATE, pod_toleration_restriction::validate),
    PluginEntry::off(Plugin::EventRateLimit, "EventRateLimit")
        .validates(CREATE | UPDATE, event_rate_limit::validate),
    PluginEntry::off(Plugin::ExtendedResourceToleration, "ExtendedResourceToleration")
        .admits(CREATE | UPDATE, extended_resource_toleration::admit),
    PluginEntry::on(Plugin::DefaultStorageClass, "DefaultStorageClass")
        .admits(CREATE, default_class::admit_claim),
    PluginEntry::on(Plugin::StorageObjectInUseProtection, "StorageObjectInUseProtection")
        .admits(CREATE, protection::admit),
    // Protects PodGroups, which no served version has.
    PluginEntry::on(Plugin::PodGroupProtection, "PodGroupProtection"),
    PluginEntry::off(Plugin::OwnerReferencesPermissionEnforcement, "OwnerReferencesPermissionEnforcement")
        .validates(CREATE | UPDATE, owner_references::validate),
    PluginEntry::on(Plugin::PersistentVolumeClaimResize, "PersistentVolumeClaimResize")
        .validates(UPDATE, claim_resize::validate),
    PluginEntry::on(Plugin::RuntimeClass, "RuntimeClass")
        .admits(CREATE, runtime_class::admit)
        .validates(CREATE, runtime_class::validate),
    PluginEntry::on(Plugin::CertificateApproval, "CertificateApproval")
        .validates(UPDATE, certificate_approval::validate),
    PluginEntry::on(Plugin::CertificateSigning, "CertificateSigning")
        .validates(UPDATE, certificate_signing::validate),
    PluginEntry::on(Plugin::ClusterTrustBundleAttest, "ClusterTrustBundleAttest")
        .validates(CREATE | UPDATE, trust_bundle_attest::validate),
    PluginEntry::on(Plugin::CertificateSubjectRestriction, "CertificateSubjectRestriction")
        .validates(CREATE, certificate_request::validate),
    PluginEntry::on(Plugin::DefaultIngressClass, "DefaultIngressClass")
        .admits(CREATE, default_class::admit_ingress),
    PluginEntry::off(Plugin::DenyServiceExternalIPs, "DenyServiceExternalIPs")
        .validates(CREATE | UPDATE, external_ips::validate),
    PluginEntry::on(Plugin::PodTopologyLabels, "PodTopologyLabels")
        .admits(CREATE, pod_topology_labels::admit),
    PluginEntry::on(Plugin::NodeDeclaredFeatureValidator, "NodeDeclaredFeatureValidator")
        .validates(UPDATE, node_features::validate),
    PluginEntry::on(Plugin::PodResizeValidator, "PodResizeValidator").validates(UPDATE, pod_resize::validate),
    PluginEntry::on(Plugin::MutatingAdmissionPolicy, "MutatingAdmissionPolicy"),
    PluginEntry::on(Plugin::MutatingAdmissionWebhook, "MutatingAdmissionWebhook"),
    PluginEntry::on(Plugin::ValidatingAdmissionPolicy, "ValidatingAdmissionPolicy"),
    PluginEntry::on(Plugin::ValidatingAdmissionWebhook, "ValidatingAdmissionWebhook"),
    PluginEntry::on(Plugin::ResourceQuota, "ResourceQuota"),
    PluginEntry::off(Plugin::AlwaysDeny, "AlwaysDeny")
        .admits(ALL, always_deny::admit)
        .validates(ALL, always_deny::validate),
];

/// Plugins that this server knows but does not implement.
const UNIMPLEMENTED: [Plugin; 1] = [Plugin::ImagePolicyWebhook];

impl Plugin {
    /// Returns the plugin with a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Plugin> {
        ENTRIES.iter().find(|entry| entry.name == name).map(|entry| entry.plugin)
    }

    /// Name in flags and configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        ENTRIES[self as usize].name
    }

    /// `true` if the server can run the plugin.
    #[must_use]
    pub fn is_implemented(self) -> bool {
        !UNIMPLEMENTED.contains(&self)
    }
}

/// Set of enabled plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginSet(u64);

impl Default for PluginSet {
    fn default() -> PluginSet {
        let defaults = ENTRIES.iter().filter(|entry| entry.is_default);
        defaults.fold(PluginSet(0), |set, entry| set.with(entry.plugin))
    }
}

impl PluginSet {
    /// `true` if the plugin is enabled.
    #[must_use]
    pub fn contains(self, plugin: Plugin) -> bool {
        self.0 & 1 << plugin as u8 != 0
    }

    /// Returns the set with a plugin enabled.
    #[must_use]
    pub fn with(self, plugin: Plugin) -> PluginSet {
        PluginSet(self.0 | 1 << plugin as u8)
    }

    /// Returns the set with a plugin disabled.
    #[must_use]
    pub fn without(self, plugin: Plugin) -> PluginSet {
        PluginSet(self.0 & !(1 << plugin as u8))
    }

    /// Enabled plugins, in the order in which they run.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        ENTRIES.iter().map(|entry| entry.plugin).filter(move |plugin| self.contains(*plugin))
    }

    /// Rows of the enabled plugins, in the order in which they run.
    pub(super) fn entries(self) -> impl Iterator<Item = &'static PluginEntry> {
        ENTRIES.iter().filter(move |entry| self.contains(entry.plugin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_the_order_of_the_plugins() {
        for (at, entry) in ENTRIES.iter().enumerate() {
            assert_eq!(entry.plugin as usize, at, "{}", entry.name);
            assert_eq!(format!("{:?}", entry.plugin), entry.name);
            assert_eq!(Plugin::from_name(entry.name), Some(entry.plugin));
        }
        assert_eq!(Plugin::from_name("alwaysadmit"), None);
    }

    /// The document lists the plugins in upstream's order.
    #[test]
    fn every_plugin_is_documented_with_its_default() {
        let document = include_str!("../../../../../docs/admission-plugins.md");
        let rows = document.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        let rows: Vec<(&str, bool)> = rows
            .filter(|(name, _)| *name != "plugin")
            .map(|(name, rest)| (name, rest.starts_with("on ")))
            .collect();
        let entries: Vec<(&str, bool)> = ENTRIES.iter().map(|entry| (entry.name, entry.is_default)).collect();
        assert_eq!(rows, entries);
        for entry in ENTRIES.iter().filter(|entry| !entry.plugin.is_implemented()) {
            assert!(document.contains(&format!("| {} | off | not implemented", entry.name)));
        }
    }

    #[test]
    fn default_plugins_are_those_of_upstream_and_node_restriction() {
        let off: Vec<&str> =
            ENTRIES.iter().filter(|entry| !entry.is_default).map(|entry| entry.name).collect();
        let expected = [
            "AlwaysAdmit",
            "NamespaceAutoProvision",
            "NamespaceExists",
            "LimitPodHardAntiAffinityTopology",
            "AlwaysPullImages",
            "ImagePolicyWebhook",
            "PodNodeSelector",
            "PodTolerationRestriction",
            "EventRateLimit",
            "ExtendedResourceToleration",
            "OwnerReferencesPermissionEnforcement",
            "DenyServiceExternalIPs",
            "AlwaysDeny",
        ];
        assert_eq!(off, expected);
        let set = PluginSet::default();
        assert!(set.contains(Plugin::PodSecurity) && !set.contains(Plugin::AlwaysDeny));
        let set = set.with(Plugin::AlwaysDeny).without(Plugin::PodSecurity);
        assert!(!set.contains(Plugin::PodSecurity) && set.contains(Plugin::AlwaysDeny));
        assert_eq!(set.iter().last(), Some(Plugin::AlwaysDeny));
    }
}
