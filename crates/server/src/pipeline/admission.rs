//! Admission: built-in mutating and validating admission plugins.
//!
//! One file per plugin; [`plugins`] lists them in upstream's order, with those that are enabled by default. [`admit`] runs
//! after defaulting and may change the object; [`validate`] runs after the kind's own validation. Both are functions of
//! the object and the context. Objects that they read are not preconditions of the commit: a concurrent change of a
//! class counts as later than the write.

pub mod always_deny;
pub mod always_pull_images;
mod annotations;
pub mod anti_affinity;
pub mod certificate_approval;
pub mod certificate_request;
pub mod certificate_signing;
pub mod claim_resize;
pub mod config;
pub mod context;
pub mod default_class;
pub mod event_rate_limit;
pub mod extended_resource_toleration;
pub mod external_ips;
pub mod limit_range;
pub mod namespace_exists;
pub mod namespace_lifecycle;
pub mod node_features;
pub mod node_restriction;
pub mod node_taint;
pub mod owner_references;
pub mod plugins;
pub mod pod_node_selector;
pub mod pod_resize;
pub mod pod_security;
pub mod pod_toleration_restriction;
pub mod pod_topology_labels;
pub mod priority;
pub mod protection;
pub mod runtime_class;
pub mod service_account;
pub mod tolerations;
pub mod trust_bundle_attest;

use memchr::memmem;
use setpoint_api::ResourceType;
use setpoint_api::field_error::ErrorList;
use setpoint_api::request_info::RequestInfo;
use setpoint_api::status::Status;
use setpoint_api::{Key, Resource, Value, metadata};
use setpoint_authorization::{Attributes, Decision};
use setpoint_store::{Record, Snapshot, Table};

pub use self::annotations::AuditAnnotations;
pub use self::context::{AdmissionConfig, AdmissionContext, AdmissionControl, Findings};
use super::RequestContext;
use crate::codec;
use crate::webhooks::{AdmissionRequest, Operation};

/// A write in admission, without its object.
#[derive(Clone, Copy)]
pub struct AdmissionInput<'a> {
    /// Resource, operation and author.
    pub request: &'a AdmissionRequest<'a>,
    /// Stored object of an update or delete.
    pub old: Option<&'a Value>,
    /// Context of the decision.
    pub context: &'a RequestContext<'a>,
}

impl<'a> AdmissionInput<'a> {
    /// `true` if the write is one of the resource, given by name and group, and of the subresource.
    fn is(&self, resource: &str, subresource: &str) -> bool {
        self.request.subresource == subresource && self.request.resource_type.resource.as_str() == resource
    }

    fn is_create(&self) -> bool {
        self.request.operation == Operation::Create
    }

    fn snapshot(&self) -> &'a Snapshot {
        self.context.snapshot
    }

    fn config(&self) -> &'a AdmissionConfig {
        self.context.admission.config
    }

    /// The namespace of the write; `None` if it does not exist.
    fn namespace(&self) -> Option<Value> {
        find(self.context.snapshot, "namespaces", self.request.namespace)
    }

    /// 403 for the object of the write; for a delete, which has none, for its name.
    fn forbidden(&self, object: &Value, why: &str) -> Status {
        let name = match (self.request.name, metadata::name(object), metadata::text(object, "generateName")) {
            ("", "", "") => "Unknown",
            ("", "", prefix) => prefix,
            ("", name, _) | (name, _, _) => name,
        };
        Status::forbidden(self.request.resource_type.qualified(), name, why)
    }

    /// Asks the authorizer whether the author may send another request.
    fn authorize(&self, request: RequestInfo<'_>) -> Decision {
        let user = &self.request.writer.identity;
        let attributes = Attributes {
            user,
            request,
            field_selector: Default::default(),
            label_selector: Default::default(),
        };
        self.context.authorize(&attributes)
    }

    /// `true` if the author has the permission `verb` for a signer, or for all signers of its domain.
    fn is_authorized_for_signer(&self, verb: &str, signer: &str) -> bool {
        let domain = signer.split('/').next().unwrap_or_default();
        let is_allowed = |name: &str| {
            let request = RequestInfo {
                is_resource: true,
                verb,
                group: "certificates.k8s.io",
                version: "*",
                resource: "signers",
                name,
                ..RequestInfo::default()
            };
            matches!(self.authorize(request), Decision::Allowed(_))
        };
        is_allowed(signer) || is_allowed(&format!("{domain}/*"))
    }
}

/// Runs mutating admission.
///
/// # Errors
/// If a referenced object is missing or contradicts it.
pub fn admit(object: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    for entry in input.config().plugins.entries() {
        if let Some(admit) = entry.admit(input.request.operation) {
            admit(object, input)?;
        }
    }
    Ok(())
}

/// Validates encoded fields that the kind's own rules do not decode.
pub fn validate_fields(
    resource_type: &ResourceType,
    object: &Value,
    old: Option<&Value>,
    errors: &mut ErrorList,
) {
    if resource_type.resource.as_str() == "certificatesigningrequests.certificates.k8s.io" {
        certificate_request::validate_fields(object, old, errors);
    }
    if resource_type.resource.as_str() == "customresourcedefinitions.apiextensions.k8s.io" {
        setpoint_extensions::validate_definition(object, old, errors);
    }
}

/// Runs validating admission on a valid object, or on a delete, whose object is null. Returns warnings for the client.
///
/// # Errors
/// If a plugin rejects it.
pub fn validate(object: &Value, input: &AdmissionInput<'_>) -> Result<Vec<String>, Status> {
    let mut findings = Findings::default();
    let mut entries = input.config().plugins.entries();
    let outcome = entries.try_for_each(|entry| match entry.validate(input.request.operation) {
        Some(validate) => validate(object, input, &mut findings),
        None => Ok(()),
    });
    // Annotations of a rejected request are audited too.
    if let Some(annotations) = input.context.admission.annotations {
        annotations.replace(findings.annotations);
    }
    outcome.map(|()| findings.warnings)
}

/// Objects of the resource `name`.
pub(super) fn table<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Table> {
    snapshot.table(&Resource::new(name).ok()?)
}

/// All objects of a cluster-wide resource.
fn all<'a>(snapshot: &'a Snapshot, name: &str) -> impl Iterator<Item = &'a Record> {
    table(snapshot, name).into_iter().flat_map(Table::iter)
}

/// Returns a cluster-scoped object.
fn find(snapshot: &Snapshot, resource: &str, name: &str) -> Option<Value> {
    let key = Key::cluster(&Resource::new(resource).ok()?, name).ok()?;
    snapshot.get(&key).map(codec::object)
}

/// `true` if the stored bytes contain the text: a cheap filter before decoding.
fn contains_text(record: &Record, text: &str) -> bool {
    memmem::find(&record.value(), text.as_bytes()).is_some()
}

#[cfg(test)]
pub(crate) mod testing {
    //! Snapshots and reviews for the tests of plugins.

    use std::sync::Arc;

    use setpoint_api::{Identity, RequestInfo, ResourceType, Time, Value, json, resource_types};
    use setpoint_authorization::{Attributes, Decision};
    use setpoint_store::{CommitCause, Precondition, Proposal, Retention, Snapshot, Store};

    use super::{AdmissionConfig, AdmissionContext, AdmissionInput};
    use crate::authorization::{Answer, Authorization, AuthorizationContext, Authorizer, UserRules};
    use crate::codec;
    use crate::pipeline::{RequestContext, WriteOrigin};
    use crate::webhooks::{AdmissionRequest, Operation};

    /// Requests that the authorizer of a review allows.
    struct AllowedRequests(Box<dyn Fn(&RequestInfo<'_>) -> bool + Send + Sync>);

    impl Authorizer for AllowedRequests {
        fn name(&self) -> &'static str {
            "test"
        }

        fn authorize(&self, attributes: &Attributes<'_>, _: &Snapshot) -> Answer {
            Answer::Now(match (self.0)(&attributes.request) {
                true => Decision::Allowed(String::new()),
                false => Decision::NoOpinion("no rule".to_owned()),
            })
        }

        fn add_rules(&self, _: &Identity, _: &str, _: &Snapshot, _: &mut UserRules) {}
    }

    /// Inputs of one call of a plugin.
    pub(crate) struct Review<'a> {
        resource_type: &'static ResourceType,
        operation: Operation,
        subresource: &'static str,
        namespace: &'static str,
        old: Option<&'a Value>,
        snapshot: Snapshot,
        config: AdmissionConfig,
        /// `None` if everything is allowed.
        authorization: Option<Authorization>,
        writer: WriteOrigin,
    }

    impl<'a> Review<'a> {
        /// A create in the namespace `a`.
        pub(crate) fn create(group: &str, version: &str, plural: &str) -> Review<'a> {
            let resource_type = resource_types::find(group, version, plural).unwrap();
            let writer = WriteOrigin {
                identity: Identity::new("ann", Vec::new()),
                manager: "test".to_owned(),
                dry_run: false,
                reconciler: String::new(),
                takes_over: false,
            };
            Review {
                resource_type,
                operation: Operation::Create,
                subresource: "",
                namespace: if resource_type.info.namespaced { "a" } else { "" },
                old: None,
                snapshot: Snapshot::default(),
                config: AdmissionConfig::default(),
                authorization: None,
                writer,
            }
        }

        /// An update of `old`.
        pub(crate) fn update(group: &str, version: &str, plural: &str, old: &'a Value) -> Review<'a> {
            Review { operation: Operation::Update, old: Some(old), ..Review::create(group, version, plural) }
        }

        pub(crate) fn subresource(self, subresource: &'static str) -> Review<'a> {
            Review { subresource, ..self }
        }

        pub(crate) fn in_namespace(self, namespace: &'static str) -> Review<'a> {
            Review { namespace, ..self }
        }

        /// Reviews on a snapshot with these objects.
        pub(crate) fn over(self, objects: &[(&str, &str, &str, &str)]) -> Review<'a> {
            Review { snapshot: snapshot_with(objects), ..self }
        }

        pub(crate) fn with_config(self, config: AdmissionConfig) -> Review<'a> {
            Review { config, ..self }
        }

        /// Reviews with an authorizer that allows these requests.
        pub(crate) fn allowing(
            self,
            is_allowed: impl Fn(&RequestInfo<'_>) -> bool + Send + Sync + 'static,
        ) -> Review<'a> {
            let authorization = Authorization::default();
            authorization.set_chain(vec![Arc::new(AllowedRequests(Box::new(is_allowed)))]);
            Review { authorization: Some(authorization), ..self }
        }

        /// Calls a plugin.
        pub(crate) fn run<T>(&self, call: impl FnOnce(&AdmissionInput<'_>) -> T) -> T {
            let admission = AdmissionContext { config: &self.config, ..AdmissionContext::standard() };
            let authorization = self.authorization.as_ref();
            let authorization =
                authorization.map(|authorization| AuthorizationContext { authorization, answers: None });
            let context = RequestContext {
                snapshot: &self.snapshot,
                now: Time::from_seconds(1_800_000_000),
                entropy: [1, 2, 3],
                tolerations: Default::default(),
                catalog: crate::catalog::Catalog::built_in(),
                admission,
                webhooks: None,
                conversions: None,
                authorization,
            };
            let is_namespace = self.resource_type.info.kind == "Namespace";
            let at = if is_namespace { ("", self.namespace) } else { (self.namespace, "") };
            let request = AdmissionRequest::new(self.operation, self.resource_type, at, &self.writer);
            let request = request.for_subresource(self.subresource);
            call(&AdmissionInput { request: &request, old: self.old, context: &context })
        }
    }

    /// Reads an object.
    pub(crate) fn object(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    /// A snapshot that holds these objects, each given by group, version, plural and text.
    pub(crate) fn snapshot_with(objects: &[(&str, &str, &str, &str)]) -> Snapshot {
        let store = Store::in_memory(Retention::default());
        for (group, version, plural, text) in objects {
            let resource_type = resource_types::find(group, version, plural).unwrap();
            let object = object(text);
            let (namespace, name) =
                (object.str_at(&["metadata", "namespace"]), object.str_at(&["metadata", "name"]));
            let key = resource_type.key(namespace, name).unwrap();
            let draft = codec::draft(resource_type, object.clone(), Time::EPOCH).unwrap();
            let proposal =
                Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Absent, draft);
            store.commit(proposal).unwrap();
        }
        store.snapshot()
    }
}
