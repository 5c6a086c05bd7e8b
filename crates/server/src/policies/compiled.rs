//! Compiled policies and their bindings.

use std::fmt;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use setpoint_api::labels::Selector;
use setpoint_api::{Resource, Revision, Value, metadata};
use setpoint_extensions::SMALL_COST_MAX;
use setpoint_extensions::policy::{MutatingPolicy, ValidatingPolicy};
use setpoint_store::{Snapshot, Table};

use super::matching::MatchResources;
use crate::codec;
use crate::webhooks::config::{selector, texts};

/// Policies, their bindings, mutating policies, their bindings.
const TABLES: usize = 4;

/// Kind of the parameters of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamKind {
    /// API group.
    pub group: Box<str>,
    /// API version, without the group.
    pub version: Box<str>,
    /// Kind.
    pub kind: Box<str>,
}

impl fmt::Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// Parameters of a binding.
#[derive(Debug)]
pub struct ParamRef {
    /// Name; empty to use the selector.
    pub name: Box<str>,
    /// Namespace; empty for that of the request.
    pub namespace: Box<str>,
    /// Labels of the parameters; the text of the error if the selector is invalid. `None` without a selector.
    pub selector: Option<Result<Selector, String>>,
    /// `true` if a binding without parameters rejects the request.
    pub denies_missing: bool,
}

/// A binding of a policy.
#[derive(Debug)]
pub struct PolicyBinding {
    /// Name.
    pub name: Box<str>,
    /// Requests that the binding applies to; all if there are none.
    pub resources: Option<MatchResources>,
    /// Parameters.
    pub params: Option<ParamRef>,
    /// Actions for failed validations.
    pub actions: Vec<Box<str>>,
}

/// A compiled policy with its bindings.
#[derive(Debug)]
pub struct PolicyHook<P> {
    /// Name.
    pub name: Box<str>,
    /// Compiled expressions.
    pub policy: P,
    /// Requests that the policy applies to.
    pub constraints: Option<MatchResources>,
    /// Kind of the parameters.
    pub param_kind: Option<ParamKind>,
    /// Bindings, at least one, ordered by name.
    pub bindings: Vec<PolicyBinding>,
}

impl<P> PolicyHook<P> {
    /// Requests that the policy applies to.
    pub(super) fn constraints(&self) -> Option<&MatchResources> {
        self.constraints.as_ref()
    }

    /// Estimated cost of all bindings. A selector can select any number of parameters.
    fn cost_max(&self, once: u64) -> u64 {
        let selects = |binding: &PolicyBinding| {
            binding.params.as_ref().is_some_and(|reference| reference.selector.is_some())
        };
        if self.bindings.iter().any(selects) {
            return u64::MAX;
        }
        once.saturating_mul(self.bindings.len() as u64)
    }

    fn read(
        policy: &Value,
        bindings: Vec<PolicyBinding>,
        compile: impl FnOnce(&Value) -> P,
    ) -> PolicyHook<P> {
        let spec = policy.get("spec").unwrap_or(&Value::Null);
        let param_kind = spec.get("paramKind").filter(|kind| !kind.is_null()).map(|kind| {
            let api_version = kind.str_at(&["apiVersion"]);
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            ParamKind { group: group.into(), version: version.into(), kind: kind.str_at(&["kind"]).into() }
        });
        PolicyHook {
            name: metadata::name(policy).into(),
            policy: compile(policy),
            constraints: spec
                .get("matchConstraints")
                .filter(|found| !found.is_null())
                .map(MatchResources::read),
            param_kind,
            bindings,
        }
    }
}

impl PolicyBinding {
    fn read(binding: &Value) -> PolicyBinding {
        let spec = binding.get("spec").unwrap_or(&Value::Null);
        let given = |field: &str| spec.get(field).filter(|value| !value.is_null());
        let params = given("paramRef").map(|reference| ParamRef {
            name: reference.str_at(&["name"]).into(),
            namespace: reference.str_at(&["namespace"]).into(),
            selector: reference
                .get("selector")
                .filter(|found| !found.is_null())
                .map(|found| selector(Some(found))),
            denies_missing: reference.str_at(&["parameterNotFoundAction"]) == "Deny",
        });
        PolicyBinding {
            name: metadata::name(binding).into(),
            resources: given("matchResources").map(MatchResources::read),
            params,
            actions: texts(spec, "validationActions"),
        }
    }
}

/// Policies with bindings, ordered by name.
#[derive(Debug, Default)]
pub struct CompiledPolicies {
    /// Validating policies.
    pub validating: Vec<PolicyHook<ValidatingPolicy>>,
    /// Mutating policies.
    pub mutating: Vec<PolicyHook<MutatingPolicy>>,
    /// `true` if their evaluation for a small object may take milliseconds.
    is_costly: bool,
}

impl CompiledPolicies {
    fn read(
        [validating, of_validating, mutating, of_mutating]: [Option<&Table>; TABLES],
    ) -> CompiledPolicies {
        let validating = hooks(validating, of_validating, ValidatingPolicy::compile);
        let mutating = hooks(mutating, of_mutating, MutatingPolicy::compile);
        let costs = validating.iter().map(|hook| hook.cost_max(hook.policy.cost_max()));
        let costs = costs.chain(mutating.iter().map(|hook| hook.cost_max(hook.policy.cost_max())));
        let is_costly = costs.fold(0, u64::saturating_add) > SMALL_COST_MAX;
        CompiledPolicies { validating, mutating, is_costly }
    }
}

fn hooks<P>(
    policies: Option<&Table>,
    bindings: Option<&Table>,
    compile: impl Fn(&Value) -> P,
) -> Vec<PolicyHook<P>> {
    let bindings: Vec<Value> = bindings.into_iter().flat_map(Table::iter).map(codec::object).collect();
    let policies = policies.into_iter().flat_map(Table::iter);
    let hook = |policy: Value| {
        let name = metadata::name(&policy);
        let own = bindings.iter().filter(|binding| binding.str_at(&["spec", "policyName"]) == name);
        let own: Vec<PolicyBinding> = own.map(PolicyBinding::read).collect();
        (!own.is_empty()).then(|| PolicyHook::read(&policy, own, &compile))
    };
    policies.map(codec::object).filter_map(hook).collect()
}

fn tables(snapshot: &Snapshot) -> [Option<&Table>; TABLES] {
    static RESOURCES: LazyLock<[Resource; TABLES]> = LazyLock::new(|| {
        [
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ]
        .map(|plural| Resource::new(&format!("{plural}.{}", super::GROUP)).expect("a valid resource name"))
    });
    RESOURCES.each_ref().map(|resource| snapshot.table(resource))
}

/// Last changes of the tables, and their numbers of objects: a table that was not changed since the store was opened has
/// the revision zero.
type TableVersions = [(Revision, usize); TABLES];

/// Memo of the compiled policies of one store.
#[derive(Debug, Default)]
pub struct PolicyRegistry {
    compiled: Mutex<Option<(TableVersions, Arc<CompiledPolicies>)>>,
}

impl PolicyRegistry {
    /// Returns the compiled policies of a snapshot; `None` if no policy has a binding.
    #[must_use]
    pub fn compiled(&self, snapshot: &Snapshot) -> Option<Arc<CompiledPolicies>> {
        let tables = tables(snapshot);
        let versions = versions(tables)?;
        let mut memo = self.compiled.lock();
        if let Some((_, compiled)) = memo.as_ref().filter(|(of, _)| *of == versions) {
            return Some(Arc::clone(compiled));
        }
        let compiled = Arc::new(CompiledPolicies::read(tables));
        *memo = Some((versions, Arc::clone(&compiled)));
        Some(compiled)
    }

    /// `true` if the policies of a snapshot may take milliseconds for a small object, or are not compiled yet.
    #[must_use]
    pub fn is_costly(&self, snapshot: &Snapshot) -> bool {
        let Some(versions) = versions(tables(snapshot)) else { return false };
        // The lock is held during a compilation.
        let Some(memo) = self.compiled.try_lock() else { return true };
        !memo.as_ref().is_some_and(|(of, compiled)| *of == versions && !compiled.is_costly)
    }
}

/// Versions of the tables; `None` if no policy has a binding.
fn versions(tables: [Option<&Table>; TABLES]) -> Option<TableVersions> {
    let [validating, of_validating, mutating, of_mutating] =
        tables.map(|table| table.is_none_or(Table::is_empty));
    if (validating || of_validating) && (mutating || of_mutating) {
        return None;
    }
    Some(tables.map(|table| table.map_or((Revision(0), 0), |table| (table.changed(), table.len()))))
}
