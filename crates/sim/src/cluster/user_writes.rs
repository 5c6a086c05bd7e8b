//! Writes of users of a simulated control plane.

use std::sync::Arc;

use setpoint_api::metadata::options::DeleteOptions;
use setpoint_api::patch::PatchType;
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Key, Resource, Revision, Value, value};
use setpoint_server::codec;
use setpoint_server::exchange::Identity;
use setpoint_server::pipeline::update::Subresource;
use setpoint_server::pipeline::{
    DesiredObject, PipelineResult, RequestContext, WriteOrigin, binding, create, delete, eviction, update,
};
use setpoint_server::webhooks::Operation;
use setpoint_store::{CommitError, Record, RejectReason};

use super::Cluster;

/// Write of a user. It is decided on the newest state, and again after calls of webhooks.
#[derive(Clone, Debug)]
pub enum UserWrite {
    /// Creates an object.
    Create {
        /// Resource.
        resource: Resource,
        /// Namespace; empty for cluster-scoped objects.
        namespace: String,
        /// The object.
        object: Value,
    },
    /// Merges a patch into an object or a subresource of it.
    Patch {
        /// Key of the object.
        key: Key,
        /// Subresource; empty for the object itself.
        subresource: String,
        /// The patch.
        patch: Value,
    },
    /// Deletes an object.
    Delete {
        /// Key of the object.
        key: Key,
        /// Delete options.
        options: Value,
    },
    /// Evicts a pod.
    Evict(Key),
    /// Binds a pod to a node.
    Bind {
        /// Namespace of the pod.
        namespace: String,
        /// The Binding.
        object: Value,
    },
}

impl UserWrite {
    /// Creation of an object.
    ///
    /// # Panics
    /// If the name of the resource is invalid.
    #[must_use]
    pub fn create(resource: &str, namespace: &str, object: Value) -> UserWrite {
        let resource = Resource::new(resource).expect("a resource");
        UserWrite::Create { resource, namespace: namespace.to_owned(), object }
    }

    /// Merge patch of an object.
    ///
    /// # Panics
    /// If the name of the resource or the path is invalid.
    #[must_use]
    pub fn patch(resource: &str, path: &str, subresource: &str, patch: Value) -> UserWrite {
        UserWrite::Patch { key: key(resource, path), subresource: subresource.to_owned(), patch }
    }

    /// Deletion of an object.
    ///
    /// # Panics
    /// If the name of the resource or the path is invalid.
    #[must_use]
    pub fn delete(resource: &str, path: &str, options: &Value) -> UserWrite {
        UserWrite::Delete { key: key(resource, path), options: options.clone() }
    }

    /// Resource that is written.
    #[must_use]
    pub fn resource(&self) -> &str {
        match self {
            UserWrite::Create { resource, .. } => resource.as_str(),
            UserWrite::Patch { key, .. } | UserWrite::Delete { key, .. } | UserWrite::Evict(key) => {
                key.resource().as_str()
            }
            UserWrite::Bind { .. } => "pods",
        }
    }

    /// Operation on the resource itself; `None` for a subresource.
    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        match self {
            UserWrite::Create { .. } => Some(Operation::Create),
            UserWrite::Patch { subresource, .. } if subresource.is_empty() => Some(Operation::Update),
            UserWrite::Delete { .. } => Some(Operation::Delete),
            UserWrite::Patch { .. } | UserWrite::Evict(_) | UserWrite::Bind { .. } => None,
        }
    }

    pub(super) fn decide(
        &self,
        writer: &WriteOrigin,
        context: &RequestContext<'_>,
    ) -> Result<PipelineResult, Status> {
        match self {
            UserWrite::Create { resource, namespace, object } => {
                let resource_type = served_type(resource, context)?;
                let desired = DesiredObject::new(typed(&resource_type, object.clone())?);
                Ok(create::create(&resource_type, namespace, desired, writer, context)?.step)
            }
            UserWrite::Patch { key, subresource, patch } => {
                let resource_type = served_type(key.resource(), context)?;
                let record = find(&resource_type, key, context)?;
                let live = codec::live(&resource_type, record);
                let patched = PatchType::Merge
                    .apply(patch, live, resource_type.stored_schema.built_in())
                    .map_err(|error| error.to_status())?;
                let desired = DesiredObject::new(typed(&resource_type, patched)?);
                let subresource = Subresource::from_name(subresource)
                    .ok_or_else(|| Status::bad_request("unknown subresource"))?;
                Ok(update::update(&resource_type, subresource, desired, record, writer, context)?.step)
            }
            UserWrite::Delete { key, options } => {
                let resource_type = served_type(key.resource(), context)?;
                let record = find(&resource_type, key, context)?;
                delete::delete(&resource_type, record, &DeleteOptions::from_value(options), writer, context)
            }
            UserWrite::Evict(key) => {
                let resource_type = served_type(key.resource(), context)?;
                let record = find(&resource_type, key, context)?;
                eviction::evict(&resource_type, record, &Value::map(), writer, context)
            }
            UserWrite::Bind { namespace, object } => binding::bind(object, namespace, writer, context),
        }
    }
}

/// Resource type of a request. A custom resource is requested in any of its versions.
fn served_type(resource: &Resource, context: &RequestContext<'_>) -> Result<Arc<ResourceType>, Status> {
    let missing = || Status::not_found(Qualified { group: "", name: "" }, resource.as_str());
    let storage_type = context.catalog.storage_type(resource).ok_or_else(missing)?;
    if storage_type.custom.is_none() {
        return Ok(Arc::clone(storage_type));
    }
    let is_same = |served: &&Arc<ResourceType>| served.resource == *resource;
    let versions: Vec<&Arc<ResourceType>> = context.catalog.custom().filter(is_same).collect();
    let number = context.entropy[2] % (versions.len() as u64).max(1);
    let chosen = usize::try_from(number).ok().and_then(|number| versions.get(number));
    Ok(Arc::clone(chosen.copied().unwrap_or(storage_type)))
}

fn find<'a>(
    resource_type: &ResourceType,
    key: &Key,
    context: &'a RequestContext<'_>,
) -> Result<&'a Record, Status> {
    context.snapshot.get(key).ok_or_else(|| Status::not_found(resource_type.qualified(), key.path()))
}

fn typed(resource_type: &ResourceType, mut object: Value) -> Result<Value, Status> {
    resource_type.set_type(&mut object);
    let decoded = resource_type.stored_schema.decode(object, &[]);
    decoded.map(|decoded| decoded.value).map_err(|error| Status::bad_request(error.to_string()))
}

fn key(resource: &str, path: &str) -> Key {
    Key::from_path(&Resource::new(resource).expect("a resource"), path).expect("a path")
}

impl Cluster {
    /// Writes as a user. The revision is zero if the write waits for webhooks.
    ///
    /// # Errors
    /// If the write is rejected.
    pub fn write_as_user(&mut self, write: UserWrite) -> Result<Revision, Status> {
        let is_known = self.serves(write.resource()) || write.resource().contains(".example.");
        assert!(is_known, "unknown resource {}", write.resource());
        let origin = self.writer();
        self.begin_user_write(write, origin).unwrap_or(Ok(Revision::ZERO))
    }

    /// Creates an object as a user.
    ///
    /// # Panics
    /// If it is rejected.
    pub fn create(&mut self, resource: &str, namespace: &str, object: Value) {
        let made = self.try_create(resource, namespace, object);
        made.unwrap_or_else(|status| panic!("{resource}: {status}"));
    }

    /// Creates an object as a user.
    ///
    /// # Errors
    /// If it is rejected.
    pub fn try_create(&mut self, resource: &str, namespace: &str, object: Value) -> Result<Revision, Status> {
        self.write_as_user(UserWrite::create(resource, namespace, object))
    }

    /// Writes as concurrent users: all writes are decided on one snapshot before the first is committed. Returns the
    /// result of the last, and the number of conflicts.
    pub fn write_at_once(&mut self, writes: Vec<UserWrite>) -> (Result<Revision, Status>, usize) {
        let snapshot = self.store.snapshot();
        let writer = self.writer();
        let mut steps = Vec::new();
        for write in writes {
            let entropy = [self.rng.u64(..), self.rng.u64(..), self.rng.u64(..)];
            let step = self.decide_user_write(&write, &writer, &snapshot, entropy);
            steps.push((write, step));
        }
        let (mut last, mut overtaken) = (Ok(snapshot.revision()), 0);
        for (write, step) in steps {
            let proposal = match step {
                Ok(PipelineResult::Commit(proposal) | PipelineResult::Remove(proposal, _)) => proposal,
                Ok(PipelineResult::Call(_)) => {
                    last = self.write_as_user(write);
                    continue;
                }
                step => {
                    last = step.map(|_| snapshot.revision());
                    continue;
                }
            };
            let committed = self.commit(*proposal);
            if self.keeps_history {
                let revision = committed.as_ref().map(|committed| committed.revision);
                self.history.push(format!("{}, at once with others: {write:?}: {revision:?}", self.user));
            }
            overtaken +=
                usize::from(matches!(committed, Err(CommitError::Rejected(RejectReason::Conflict(_)))));
            last = committed.map(|done| done.revision).map_err(Status::internal_error);
        }
        (last, overtaken)
    }

    /// Identity of writes that are not the loop's.
    fn writer(&self) -> WriteOrigin {
        let identity = Identity::new(self.user.to_owned(), vec!["system:masters".to_owned()]);
        WriteOrigin {
            identity,
            manager: "test".to_owned(),
            dry_run: false,
            reconciler: String::new(),
            takes_over: false,
        }
    }

    /// Merges a patch into an object or a subresource of it, as a user or a node.
    ///
    /// # Errors
    /// If it is rejected.
    pub fn patch(
        &mut self,
        resource: &str,
        path: &str,
        part: &str,
        patch: Value,
    ) -> Result<Revision, Status> {
        self.write_as_user(UserWrite::patch(resource, path, part, patch))
    }

    /// Deletes an object as a user, with options such as `{"propagationPolicy": "Orphan"}`.
    ///
    /// # Errors
    /// If it is rejected.
    pub fn delete(&mut self, resource: &str, path: &str, options: &Value) -> Result<Revision, Status> {
        self.write_as_user(UserWrite::delete(resource, path, options))
    }

    /// Evicts a pod, as `kubectl drain` does.
    ///
    /// # Errors
    /// If it is rejected, for example by a disruption budget.
    pub fn evict(&mut self, path: &str) -> Result<Revision, Status> {
        self.write_as_user(UserWrite::Evict(key("pods", path)))
    }

    /// Binds a pod to a node, as a scheduler.
    ///
    /// # Errors
    /// If it is rejected.
    pub fn bind(&mut self, path: &str, node: &str) -> Result<Revision, Status> {
        let key = key("pods", path);
        let object = value!({"metadata": {"name": (key.name())}, "target": {"kind": "Node", "name": (node)}});
        let namespace = key.namespace().unwrap_or_default().to_owned();
        self.write_as_user(UserWrite::Bind { namespace, object })
    }
}
