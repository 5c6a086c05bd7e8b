//! Bootstrap: creates the objects that every cluster has, if they are missing.
//!
//! Runs at each start: namespaces, the `kubernetes` Service with its endpoints, ServiceCIDR, priority classes, flow
//! schemas, roles and bindings. Existing objects are not changed, except for the endpoints of this server, and roles and
//! bindings, to which missing permissions are added.

use std::net::SocketAddr;

use setpoint_api::kinds::flowcontrol::builtin;
use setpoint_api::kinds::scheduling::priority_class::SYSTEM_CLASSES;
use setpoint_api::resource_types;
use setpoint_api::status::Status;
use setpoint_api::{Value, metadata, value};
use setpoint_authorization::bootstrap::{self as policy, BootstrapObject, Reconciled};
use setpoint_store::{PendingCommit, Precondition, Store};

use crate::api::{Options, commit_status};
use crate::codec;
use crate::exchange::Identity;
use crate::pipeline::admission::AdmissionContext;
use crate::pipeline::create::create;
use crate::pipeline::service_network::ranges::{self, Ranges};
use crate::pipeline::update::{Subresource, update};
use crate::pipeline::{DesiredObject, PipelineResult, RequestContext, WriteOrigin};

/// Namespaces whose absence makes the server unready.
pub(crate) const REQUIRED_NAMESPACES: [&str; 2] = ["default", "kube-system"];

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// User of bootstrap writes.
const USER: &str = "system:apiserver";
/// Field manager of bootstrap objects.
const MANAGER: &str = "kube-apiserver";

/// Creates the missing objects.
///
/// # Errors
/// If one cannot be written.
pub fn bootstrap(store: &Store, options: &Options) -> Result<(), Status> {
    let bootstrapper = Bootstrapper { store, options, manager: MANAGER };
    // Independent objects are committed together, so that a start waits for few log syncs.
    let mut commits = Vec::new();
    for name in NAMESPACES {
        let namespace = value!({"metadata": {"name": (name)}});
        commits.extend(bootstrapper.create_if_absent(("", "namespaces"), "", namespace)?);
    }
    for (name, value) in SYSTEM_CLASSES {
        let class = value!({"metadata": {"name": (name)}, "value": (value), "description": (class_description(name))});
        commits.extend(bootstrapper.create_if_absent(("scheduling.k8s.io", "priorityclasses"), "", class)?);
    }
    commits.extend(propose_flow_control(&Bootstrapper {
        manager: "api-priority-and-fairness-config-producer-v1",
        ..bootstrapper
    })?);
    commits.extend(propose_service_cidr(&bootstrapper)?);
    wait_all(commits)?;
    let primary = Ranges::of(&store.snapshot()).cluster()[0];
    let first = ranges::first_address(primary)
        .ok_or_else(|| Status::internal_error("the Service CIDR has no usable address"))?;
    let service = value!({
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": (first.to_string()),
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        },
    });
    let mut commits: Vec<PendingCommit> =
        bootstrapper.create_if_absent(("", "services"), "default", service)?.into_iter().collect();
    if let Some(address) = options.advertised {
        commits.extend(propose_endpoints(&bootstrapper, address)?);
    }
    commits.extend(propose_policy(&bootstrapper)?);
    wait_all(commits)
}

/// Proposes the roles and bindings of the bootstrap policy: missing ones are created, others are reconciled.
fn propose_policy(bootstrapper: &Bootstrapper<'_>) -> Result<Vec<PendingCommit>, Status> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let snapshot = bootstrapper.store.snapshot();
    let mut commits = Vec::new();
    for BootstrapObject { resource, namespace, object } in policy::objects() {
        let stored = resource_types::find(GROUP, "v1", resource)
            .and_then(|resource_type| resource_type.key(namespace, metadata::name(&object)).ok())
            .and_then(|key| snapshot.get(&key).map(codec::object));
        let Some(stored) = stored else {
            commits.extend(bootstrapper.create_if_absent((GROUP, resource), namespace, object)?);
            continue;
        };
        match policy::reconcile(&stored, &object) {
            Reconciled::Unchanged => {}
            Reconciled::Update(updated) => {
                tracing::info!(resource, name = metadata::name(&object), "reconciled the bootstrap policy");
                commits.extend(bootstrapper.create_or_replace((GROUP, resource), namespace, updated)?);
            }
            // The update of the role of a binding is invalid, so the binding is deleted and created.
            Reconciled::Recreate(binding) => {
                tracing::info!(resource, name = metadata::name(&object), "recreated a default binding");
                commits.extend(bootstrapper.create_or_replace((GROUP, resource), namespace, binding)?);
            }
        }
    }
    Ok(commits)
}

fn wait_all(commits: Vec<PendingCommit>) -> Result<(), Status> {
    commits.into_iter().try_for_each(|commit| commit.wait().map(drop).map_err(|error| commit_status(&error)))
}

/// Proposes the default ServiceCIDR.
fn propose_service_cidr(bootstrapper: &Bootstrapper<'_>) -> Result<Option<PendingCommit>, Status> {
    const RANGES: (&str, &str) = ("networking.k8s.io", "servicecidrs");
    let snapshot = bootstrapper.store.snapshot();
    let current = Ranges::of(&snapshot);
    let configured = &bootstrapper.options.service_ranges[..];
    let desired = current.cluster_with(configured);
    let cidrs: Vec<Value> = desired.iter().map(|cidr| cidr.to_string().into()).collect();
    let existing = resource_types::find(RANGES.0, "v1", RANGES.1)
        .and_then(|resource_type| resource_type.key("", ranges::DEFAULT_NAME).ok())
        .and_then(|key| snapshot.get(&key).map(codec::object));
    match existing {
        None => {
            let range = value!({"metadata": {"name": (ranges::DEFAULT_NAME)}, "spec": {"cidrs": (cidrs)}});
            bootstrapper.create_if_absent(RANGES, "", range)
        }
        Some(mut range) if desired != current.cluster() => {
            range.ensure_map("spec").insert("cidrs", cidrs);
            bootstrapper.create_or_replace(RANGES, "", range)
        }
        Some(_) if configured.is_empty() || configured == desired => Ok(None),
        Some(_) => {
            tracing::warn!(
                range = ranges::DEFAULT_NAME,
                "the Service CIDRs cannot be changed, keeping those of the ServiceCIDR"
            );
            Ok(None)
        }
    }
}

/// Proposes flow schemas and priority levels.
fn propose_flow_control(bootstrapper: &Bootstrapper<'_>) -> Result<Vec<PendingCommit>, Status> {
    let levels = builtin::level_names()
        .map(|name| ("prioritylevelconfigurations", name, builtin::level_spec(name).unwrap_or_default()));
    let schemas = builtin::schema_names()
        .map(|name| ("flowschemas", name, builtin::schema_spec(name).unwrap_or_default()));
    let mut commits = Vec::new();
    for (plural, name, spec) in levels.chain(schemas) {
        let object = value!({"metadata": {"name": (name), "annotations": (builtin::auto_update_annotation(true))}, "spec": (spec)});
        commits.extend(bootstrapper.create_if_absent(
            ("flowcontrol.apiserver.k8s.io", plural),
            "",
            object,
        )?);
    }
    Ok(commits)
}

/// Proposes endpoints of the `kubernetes` Service. The address may differ from that of the last start.
fn propose_endpoints(
    bootstrapper: &Bootstrapper<'_>,
    address: SocketAddr,
) -> Result<impl Iterator<Item = PendingCommit>, Status> {
    let ip = address.ip().to_string();
    let ports = value!([{"name": "https", "port": (i64::from(address.port())), "protocol": "TCP"}]);
    // The EndpointSlice is created here, so it must not be mirrored from the Endpoints.
    let labels = value!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let endpoints = value!({
        "metadata": {"name": "kubernetes", "labels": (labels)},
        "subsets": [{"addresses": [{"ip": (ip.as_str())}], "ports": (ports.clone())}],
    });
    let endpoints = bootstrapper.create_or_replace(("", "endpoints"), "default", endpoints)?;
    let slice = value!({
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": (if address.is_ipv4() { "IPv4" } else { "IPv6" }),
        "endpoints": [{"addresses": [(ip)], "conditions": {"ready": true}}],
        "ports": (ports),
    });
    let slice = bootstrapper.create_or_replace(("discovery.k8s.io", "endpointslices"), "default", slice)?;
    Ok(endpoints.into_iter().chain(slice))
}

fn class_description(class: &str) -> &'static str {
    match class {
        "system-node-critical" => {
            "Used for system critical pods that must not be moved from their current node."
        }
        _ => {
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
        }
    }
}

/// Proposes bootstrap objects.
#[derive(Clone, Copy)]
struct Bootstrapper<'a> {
    store: &'a Store,
    options: &'a Options,
    manager: &'static str,
}

impl Bootstrapper<'_> {
    /// Proposes an object unless it exists. An existing object is not changed.
    fn create_if_absent(
        &self,
        resource: (&str, &str),
        namespace: &str,
        object: Value,
    ) -> Result<Option<PendingCommit>, Status> {
        self.write(resource, namespace, object, false)
    }

    /// Proposes to create or replace an object.
    fn create_or_replace(
        &self,
        resource: (&str, &str),
        namespace: &str,
        object: Value,
    ) -> Result<Option<PendingCommit>, Status> {
        self.write(resource, namespace, object, true)
    }

    fn write(
        &self,
        (group, plural): (&str, &str),
        namespace: &str,
        object: Value,
        replace: bool,
    ) -> Result<Option<PendingCommit>, Status> {
        let resource_type = resource_types::find(group, "v1", plural)
            .ok_or_else(|| Status::internal_error(format!("{plural} are not served")))?;
        let identity = Identity::new(USER, vec!["system:masters".into()]);
        let writer = WriteOrigin {
            identity,
            manager: self.manager.into(),
            dry_run: false,
            reconciler: String::new(),
            takes_over: false,
        };
        let mut typed = object.clone();
        resource_type.set_type(&mut typed);
        metadata::create::ensure_namespace(&mut typed, namespace).map_err(Status::internal_error)?;
        let snapshot = self.store.snapshot();
        let key = resource_type.key(namespace, metadata::name(&typed)).map_err(Status::internal_error)?;
        let entropy = [(); 3].map(|()| (self.options.entropy)());
        let context = RequestContext {
            snapshot: &snapshot,
            now: self.options.clock.now(),
            entropy,
            tolerations: self.options.tolerations,
            catalog: crate::catalog::Catalog::built_in(),
            admission: AdmissionContext::standard(),
            webhooks: None,
            conversions: None,
            authorization: None,
        };
        let desired = DesiredObject::new(typed);
        let step = match snapshot.get(&key) {
            Some(_) if !replace => return Ok(None),
            Some(record) => {
                match update(resource_type, Subresource::None, desired, record, &writer, &context) {
                    Ok(decision) => decision.step,
                    // An object that cannot be updated, such as a slice of another family, is deleted and created.
                    Err(status) if status.code == 422 => {
                        let proposal =
                            writer.proposal(&context).delete(key, Precondition::Revision(record.revision()));
                        self.store.commit(proposal).map_err(|error| commit_status(&error))?;
                        return self.create_if_absent((group, plural), namespace, object);
                    }
                    Err(status) => return Err(status),
                }
            }
            None => create(resource_type, namespace, desired, &writer, &context)?.step,
        };
        Ok(match step {
            PipelineResult::Commit(proposal) => Some(self.store.submit(*proposal)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use setpoint_api::{ManualClock, Time, json};
    use setpoint_store::Retention;

    use super::*;

    #[test]
    fn bootstrap_creates_every_object_once() {
        let store = Store::in_memory(Retention::default());
        let count = AtomicU64::new(1);
        let mut options = Options {
            clock: Arc::new(ManualClock::new(Time(1_000_000))),
            entropy: Arc::new(move || count.fetch_add(1, Ordering::Relaxed)),
            address: "127.0.0.1:6443".into(),
            advertised: Some(([192, 0, 2, 7], 6443).into()),
            service_ranges: Vec::new(),
            tolerations: Default::default(),
            admission: Default::default(),
        };
        bootstrap(&store, &options).unwrap();
        let snapshot = store.snapshot();
        for (group, version, plural, namespace, name) in [
            ("", "v1", "namespaces", "", "kube-system"),
            ("scheduling.k8s.io", "v1", "priorityclasses", "", "system-node-critical"),
            ("flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "", "exempt"),
            ("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "", "probes"),
            ("networking.k8s.io", "v1", "servicecidrs", "", "kubernetes"),
            ("networking.k8s.io", "v1", "ipaddresses", "", "10.0.0.1"),
            ("", "v1", "services", "default", "kubernetes"),
            ("", "v1", "endpoints", "default", "kubernetes"),
            ("discovery.k8s.io", "v1", "endpointslices", "default", "kubernetes"),
        ] {
            let key = resource_types::find(group, version, plural).unwrap().key(namespace, name).unwrap();
            assert!(snapshot.get(&key).is_some(), "{plural} {name}");
        }
        bootstrap(&store, &options).unwrap();
        assert_eq!(store.snapshot().revision(), snapshot.revision());

        options.advertised = Some(([192, 0, 2, 8], 7443).into());
        bootstrap(&store, &options).unwrap();
        let object = |group, plural| {
            let key =
                resource_types::find(group, "v1", plural).unwrap().key("default", "kubernetes").unwrap();
            crate::codec::object(store.snapshot().get(&key).unwrap())
        };
        let subsets =
            r#"[{"addresses":[{"ip":"192.0.2.8"}],"ports":[{"name":"https","port":7443,"protocol":"TCP"}]}]"#;
        assert_eq!(json::to_text(object("", "endpoints").get("subsets").unwrap()), subsets);
        let endpoints = r#"[{"addresses":["192.0.2.8"],"conditions":{"ready":true}}]"#;
        let slice = || object("discovery.k8s.io", "endpointslices");
        assert_eq!(json::to_text(slice().get("endpoints").unwrap()), endpoints);
        options.advertised = Some(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 8], 7443).into());
        bootstrap(&store, &options).unwrap();
        assert_eq!(slice().str_at(&["addressType"]), "IPv6");
    }
    #[test]
    fn service_cidrs_gain_a_second_family_and_never_change() {
        let store = Store::in_memory(Retention::default());
        let count = AtomicU64::new(1);
        let mut options = Options {
            clock: Arc::new(ManualClock::new(Time(1_000_000))),
            entropy: Arc::new(move || count.fetch_add(1, Ordering::Relaxed)),
            address: "127.0.0.1:6443".into(),
            advertised: None,
            service_ranges: Vec::new(),
            tolerations: Default::default(),
            admission: Default::default(),
        };
        let cidrs = |options: &Options, text: &str| {
            let service_ranges = ranges::parse_ranges(text).unwrap();
            bootstrap(&store, &Options { service_ranges, ..options.clone() }).unwrap();
            let cidrs =
                Ranges::of(&store.snapshot()).cluster().iter().map(ToString::to_string).collect::<Vec<_>>();
            cidrs.join(",")
        };
        assert_eq!(cidrs(&options, "10.7.0.0/16"), "10.7.0.0/16");
        let resource_type = resource_types::find("", "v1", "services").unwrap();
        let service =
            store.snapshot().get(&resource_type.key("default", "kubernetes").unwrap()).map(codec::object);
        assert_eq!(service.unwrap().str_at(&["spec", "clusterIP"]), "10.7.0.1");
        assert_eq!(cidrs(&options, "10.7.0.0/16,fd00::/108"), "10.7.0.0/16,fd00::/108");
        assert_eq!(cidrs(&options, "10.8.0.0/16"), "10.7.0.0/16,fd00::/108");
        options.service_ranges = Vec::new();
        bootstrap(&store, &options).unwrap();
        assert_eq!(Ranges::of(&store.snapshot()).cluster().len(), 2);
    }
}
