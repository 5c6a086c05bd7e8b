//! Environments of the expressions of policies: variables and their types.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use setpoint_cel::{
    Decl, DeclKind, Environment, FieldDecl, ListDecl, ObjectDecl, ObjectFields, ObjectType, Type,
    is_valid_pattern,
};

/// Optional variables of an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// `params` is declared.
    pub has_params: bool,
    /// `authorizer` is declared.
    pub has_authorizer: bool,
    /// `Object` and `JSONPatch` can be constructed.
    pub has_mutation_types: bool,
}

/// Types of the composed variables by name; `None` if `variables` is not declared.
pub(super) type VariableTypes = BTreeMap<Box<str>, Type>;

static REQUEST: LazyLock<Decl> = LazyLock::new(request);
static NAMESPACE: LazyLock<Decl> = LazyLock::new(namespace);

/// Returns the environment of an expression.
pub(super) fn environment(options: Options, variables: Option<&VariableTypes>) -> Environment {
    let mut environment = Environment::new()
        .with_regex_test(is_valid_pattern)
        .with_variable("object", Type::Dyn)
        .with_variable("oldObject", Type::Dyn)
        .with_variable("namespaceObject", &*NAMESPACE)
        .with_variable("request", &*REQUEST);
    if options.has_params {
        environment = environment.with_variable("params", Type::Dyn);
    }
    if options.has_authorizer {
        environment = environment
            .with_variable("authorizer", Type::named("kubernetes.authorization.Authorizer"))
            .with_variable(
                "authorizer.requestResource",
                Type::named("kubernetes.authorization.ResourceCheck"),
            );
    }
    if options.has_mutation_types {
        environment = environment.with_mutation_types();
    }
    if let Some(variables) = variables {
        let fields = ObjectFields { name: "kubernetes.variables".into(), fields: variables.clone() };
        environment =
            environment.with_variable("variables", Type::Object(ObjectType::Fields(Arc::new(fields))));
    }
    environment
}

/// Type of a composed variable: scalars, lists and maps keep their types, anything else is dynamic.
pub(super) fn variable_type(ty: &Type) -> Type {
    match ty {
        Type::Null
        | Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::Timestamp
        | Type::Duration => ty.clone(),
        Type::List(element) => Type::list(variable_type(element)),
        Type::Map(key, value) => Type::map(variable_type(key), variable_type(value)),
        _ => Type::Dyn,
    }
}

fn object(name: &str, fields: &[(&str, bool, Decl)]) -> Decl {
    let fields = fields.iter().map(|(name, is_required, decl)| {
        (Box::from(*name), FieldDecl { decl: decl.clone(), is_required: *is_required })
    });
    Decl::new(DeclKind::Object(Arc::new(ObjectDecl { name: name.into(), fields: fields.collect() })))
}

const STRING: Decl = Decl::new(DeclKind::String);
const INT: Decl = Decl::new(DeclKind::Int);
const TIMESTAMP: Decl = Decl::new(DeclKind::Timestamp);

fn list(item: Decl) -> Decl {
    Decl::new(DeclKind::List { item: Arc::new(item), list_type: ListDecl::Atomic })
}

fn map(value: Decl) -> Decl {
    Decl::new(DeclKind::Map { value: Arc::new(value), key_size_max: 0 })
}

fn request() -> Decl {
    let kind = object(
        "kubernetes.GroupVersionKind",
        &[("group", true, STRING), ("version", true, STRING), ("kind", true, STRING)],
    );
    let resource = object(
        "kubernetes.GroupVersionResource",
        &[("group", true, STRING), ("version", true, STRING), ("resource", true, STRING)],
    );
    let user = object(
        "kubernetes.UserInfo",
        &[
            ("username", false, STRING),
            ("uid", false, STRING),
            ("groups", false, list(STRING)),
            ("extra", false, map(list(STRING))),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", true, kind.clone()),
            ("resource", true, resource.clone()),
            ("subResource", false, STRING),
            ("requestKind", true, kind),
            ("requestResource", true, resource),
            ("requestSubResource", false, STRING),
            ("name", true, STRING),
            ("namespace", false, STRING),
            ("operation", true, STRING),
            ("userInfo", true, user),
            ("dryRun", false, Decl::new(DeclKind::Bool)),
            ("options", false, Decl::new(DeclKind::Dyn)),
        ],
    )
}

fn namespace() -> Decl {
    let spec = object("kubernetes.NamespaceSpec", &[("finalizers", true, list(STRING))]);
    let condition = object(
        "kubernetes.NamespaceCondition",
        &[
            ("status", true, STRING),
            ("type", true, STRING),
            ("lastTransitionTime", true, TIMESTAMP),
            ("message", true, STRING),
            ("reason", true, STRING),
        ],
    );
    let status = object(
        "kubernetes.NamespaceStatus",
        &[("conditions", true, list(condition)), ("phase", true, STRING)],
    );
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", true, STRING),
            ("generateName", true, STRING),
            ("namespace", true, STRING),
            ("labels", true, map(STRING)),
            ("annotations", true, map(STRING)),
            ("UID", true, STRING),
            ("creationTimestamp", true, TIMESTAMP),
            ("deletionGracePeriodSeconds", true, INT),
            ("deletionTimestamp", true, TIMESTAMP),
            ("generation", true, INT),
            ("resourceVersion", true, STRING),
            ("finalizers", true, list(STRING)),
        ],
    );
    object(
        "kubernetes.Namespace",
        &[("metadata", true, metadata), ("spec", true, spec), ("status", true, status)],
    )
}
