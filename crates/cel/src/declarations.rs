//! Functions that expressions may call: the standard library of CEL and the libraries that Kubernetes 1.37 enables.
//!
//! Each library is a table of [`Signature`]s. The table of all functions is built once and shared.

mod authorizer;
mod kubernetes;
mod lists;
mod network;
mod optionals;
mod signature;
mod standard;
mod strings;
mod time;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::types::{Type, TypeParam};

/// Row of a library: function name, overload id, and signature such as `list(A).(A) -> int`, where a receiver stands
/// before the dot.
type Signature = (&'static str, &'static str, &'static str);

/// Libraries in the order in which Kubernetes enables them.
const LIBRARIES: [&[Signature]; 16] = [
    standard::OPERATORS,
    standard::COMPARISONS,
    standard::CONVERSIONS,
    time::FUNCTIONS,
    kubernetes::URLS,
    kubernetes::REGEX,
    authorizer::FUNCTIONS,
    optionals::FUNCTIONS,
    kubernetes::QUANTITY,
    strings::FUNCTIONS,
    network::FUNCTIONS,
    kubernetes::FORMAT,
    kubernetes::MAP_INSERT,
    kubernetes::SEMVER,
    lists::EXTENSIONS,
    lists::KUBERNETES,
];

/// Functions that Kubernetes 1.36 does not have.
pub(crate) const NEWEST_FUNCTIONS: [&str; 1] = ["includes"];

/// Function with its overloads.
#[derive(Debug)]
pub struct FunctionDecl {
    /// Name.
    pub name: &'static str,
    /// Overloads in the order in which they are tried.
    pub overloads: Vec<OverloadDecl>,
}

/// Overload of a function.
#[derive(Debug)]
pub struct OverloadDecl {
    /// Identity, as in cel-go.
    pub id: &'static str,
    /// `true` for `receiver.function(arguments)`.
    pub is_member: bool,
    /// Types of the receiver and the arguments.
    pub parameters: Box<[Type]>,
    /// Type of the result.
    pub result: Type,
    /// Parameters of the types.
    pub(crate) type_params: Box<[TypeParam]>,
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, FunctionDecl>> = LazyLock::new(|| {
    let mut functions: BTreeMap<&'static str, FunctionDecl> = BTreeMap::new();
    for (name, id, signature) in LIBRARIES.into_iter().flatten() {
        let overload = signature::parse(id, signature).expect("the libraries have valid signatures");
        let function = functions.entry(name).or_insert(FunctionDecl { name, overloads: Vec::new() });
        function.overloads.push(overload);
    }
    functions
});

static MUTATION_FUNCTIONS: LazyLock<BTreeMap<&'static str, FunctionDecl>> = LazyLock::new(|| {
    let (name, id, signature) = kubernetes::ESCAPE_KEY;
    let overload = signature::parse(id, signature).expect("the libraries have valid signatures");
    BTreeMap::from([(name, FunctionDecl { name, overloads: vec![overload] })])
});

/// Returns a function of the libraries.
#[must_use]
pub fn find_function(name: &str) -> Option<&'static FunctionDecl> {
    FUNCTIONS.get(name)
}

/// Returns a function that only expressions of mutations may call.
pub(crate) fn find_mutation_function(name: &str) -> Option<&'static FunctionDecl> {
    MUTATION_FUNCTIONS.get(name)
}

/// Returns the type that a name denotes as a value: `int`, `google.protobuf.Timestamp`, `net.IP`.
pub(crate) fn find_type(name: &str) -> Option<Type> {
    let a = || Type::Param(TypeParam::Declared('A'));
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "int" => Type::Int,
        "list" => Type::list(a()),
        "map" => Type::map(a(), Type::Param(TypeParam::Declared('B'))),
        "null_type" => Type::Null,
        "string" => Type::String,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "type" => Type::Type(None),
        "uint" => Type::Uint,
        "optional_type" => Type::optional(a()),
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_ids_are_unique() {
        let mut ids: Vec<&str> = LIBRARIES.into_iter().flatten().map(|(_, id, _)| *id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn functions_have_overloads_of_all_libraries() {
        let ids = |name| {
            find_function(name).unwrap().overloads.iter().map(|overload| overload.id).collect::<Vec<_>>()
        };
        assert_eq!(ids("ip"), ["string_to_ip", "cidr_ip"]);
        assert_eq!(
            ids("indexOf"),
            ["string_index_of_string", "string_index_of_string_int", "list_a_index_of_int"]
        );
        assert_eq!(
            ids("_[_]"),
            ["index_list", "index_map", "optional_list_index_int", "optional_map_index_value"]
        );
        assert!(find_function("jsonpatch.escapeKey").is_none());
        assert!(find_mutation_function("jsonpatch.escapeKey").is_some());
    }

    #[test]
    fn signatures_are_overloads() {
        let function = find_function("orValue").unwrap();
        let overload = &function.overloads[0];
        let parameters: Vec<String> = overload.parameters.iter().map(Type::to_string).collect();
        assert!(overload.is_member);
        assert_eq!(parameters, ["optional_type(V)", "V"]);
        assert_eq!(overload.result.to_string(), "V");
        assert_eq!(*overload.type_params, [TypeParam::Declared('V')]);
    }
}
