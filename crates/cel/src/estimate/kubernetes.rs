//! Costs of Kubernetes' libraries, and of string functions that cel-go leaves without one.

use super::functions::regex_cost;
use super::walk::{CostCall, CostNode, Coster};
use super::{CallEstimate, CostEstimate, LIST_COST, OBJECT_COST, REGEX_FACTOR, STRING_FACTOR, SizeEstimate};
use crate::ast::ExprKind;
use crate::literal::Literal;
use crate::types::Type;

/// Cost of an authorization check: two fit into the limit of an expression.
const AUTHORIZATION_COST: u64 = 350_000;
/// Requirements per character of a selector: the shortest has two.
const REQUIREMENTS_FACTOR: f64 = 0.5;
/// Longest name of a format.
const FORMAT_SIZE_MAX: u64 = 64;
/// Longest regular expression of a format.
const FORMAT_REGEX_SIZE_MAX: f64 = 128.0;
/// Bytes of an IP address: 4 or 16.
const ADDRESS_SIZE: SizeEstimate = SizeEstimate { min: 4, max: 16 };

impl Coster<'_> {
    /// Returns the cost of a call as Kubernetes estimates it, or `None` if the estimate is that of cel-go.
    pub(super) fn kubernetes_cost(&self, call: &CostCall, overload: &str) -> Option<CallEstimate> {
        let first = call.args.first();
        let scan = |node: Option<&CostNode>| Some(self.node_size(node?).scale(STRING_FACTOR));
        Some(match call.function {
            "check" => CallEstimate::fixed(AUTHORIZATION_COST),
            function if is_constant_time(function) => CallEstimate::fixed(1),
            "fieldSelector" | "labelSelector" if call.args.len() == 1 => {
                CallEstimate::of(selector_cost(self.node_size(first?)))
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
                self.list_scan_cost(call.target.as_ref()?, call.function)
            }
            "url" | "jsonpatch.escapeKey" if call.args.len() == 1 => {
                CallEstimate::sized(scan(first)?, self.node_size(first?))
            }
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                let target = call.target.as_ref()?;
                CallEstimate::sized(scan(Some(target))?, self.node_size(target))
            }
            "replace" if call.args.len() >= 2 => self.replace_cost(call)?,
            "split" => self.split_cost(call)?,
            "join" => self.join_cost(call)?,
            "find" | "findAll" => {
                let size = self.node_size(call.target.as_ref()?);
                let result = SizeEstimate { min: 0, max: size.max };
                CallEstimate::sized(regex_cost(size, self.node_size(first?)), result)
            }
            "ip" if overload == "cidr_ip" => CallEstimate::fixed(1),
            "ip" | "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                CallEstimate::of(scan(first)?)
            }
            "ip.isCanonical" => CallEstimate::of(self.node_size(first?).scale(2.0 * STRING_FACTOR)),
            "containsIP" | "containsCIDR" => self.containment_cost(call, overload)?,
            "validate" => CallEstimate::of(scan(first)?.scale(FORMAT_REGEX_SIZE_MAX * REGEX_FACTOR)),
            "_==_" => return equality_cost(call),
            _ => return None,
        })
    }

    /// Functions that compare each element of a list, or search a string.
    fn list_scan_cost(&self, target: &CostNode, function: &str) -> CallEstimate {
        let size = self.node_size(target);
        let element = target.ty.parameters().next();
        let mut element_cost = CostEstimate::fixed(1);
        if matches!(element, Some(Type::String | Type::Bytes)) {
            element_cost = element_cost.plus(self.element_size(target).scale(STRING_FACTOR));
        }
        let is_list = element.is_some() || function == "includes";
        CallEstimate::of(if is_list { size.repeat(element_cost) } else { size.scale(STRING_FACTOR) })
    }

    fn replace_cost(&self, call: &CostCall) -> Option<CallEstimate> {
        let [from, to, ..] = &*call.args else { return None };
        let size = self.node_size(call.target.as_ref()?);
        let (from, to) = (self.node_size(from), self.node_size(to));
        let max = if from.min == 0 {
            // An empty pattern puts the replacement around every character.
            size.max.saturating_add(1).saturating_mul(to.max).saturating_add(size.max)
        } else if to.max <= from.min {
            size.max
        } else {
            size.max.div_ceil(from.min).saturating_mul(to.max)
        };
        let min = if from.max == 0 {
            size.min.saturating_add(1).saturating_mul(to.min).saturating_add(size.min)
        } else if from.max <= to.min {
            size.min
        } else {
            size.min.div_ceil(from.max).saturating_mul(to.min)
        };
        Some(CallEstimate::sized(size.scale(2.0 * STRING_FACTOR), SizeEstimate { min, max }))
    }

    fn split_cost(&self, call: &CostCall) -> Option<CallEstimate> {
        let size = self.node_size(call.target.as_ref()?);
        let limit = call.args.get(1).and_then(|limit| match self.kind(limit.id) {
            // Negative limits are none, and the largest numbers as unsigned ones.
            ExprKind::Literal(Literal::Int(limit)) => Some(limit.cast_unsigned()),
            _ => None,
        });
        let result = SizeEstimate { min: 0, max: limit.unwrap_or(size.max) };
        Some(CallEstimate::sized(size.scale(2.0 * STRING_FACTOR), result))
    }

    fn join_cost(&self, call: &CostCall) -> Option<CallEstimate> {
        let target = call.target.as_ref()?;
        let count = self.node_size(target);
        let mut size = SizeEstimate::fixed(0);
        if target.ty.parameters().next().is_some() {
            size = count.times(self.element_size(target));
        }
        if let Some(separator) = call.args.first() {
            let separators =
                SizeEstimate { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
            size = size.plus(self.node_size(separator).times(separators));
        }
        Some(CallEstimate::sized(size.scale(STRING_FACTOR), size))
    }

    fn containment_cost(&self, call: &CostCall, overload: &str) -> Option<CallEstimate> {
        let argument = call.args.first()?;
        let mut cost = ADDRESS_SIZE.plus(ADDRESS_SIZE).scale(STRING_FACTOR);
        if call.function == "containsCIDR" {
            // The network is masked, and its length compared.
            cost = cost.plus(ADDRESS_SIZE.scale(STRING_FACTOR)).plus(CostEstimate::fixed(1));
        }
        if matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
            cost = cost.plus(self.node_size(argument).scale(STRING_FACTOR));
        }
        Some(CallEstimate::of(cost))
    }
}

/// Accessors, builders and comparisons of values of one size.
fn is_constant_time(function: &str) -> bool {
    const AUTHORIZER: [&str; 11] = [
        "serviceAccount",
        "path",
        "group",
        "resource",
        "subresource",
        "namespace",
        "name",
        "allowed",
        "reason",
        "error",
        "errored",
    ];
    const NETWORK: [&str; 8] = [
        "masked",
        "prefixLength",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
    ];
    const QUANTITY_AND_SEMVER: [&str; 12] = [
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
    ];
    const URL_AND_FORMAT: [&str; 7] =
        ["format.named", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"];
    AUTHORIZER.contains(&function)
        || NETWORK.contains(&function)
        || QUANTITY_AND_SEMVER.contains(&function)
        || URL_AND_FORMAT.contains(&function)
}

/// Returns the cost of a parse into requirements, each of which is an object with a list.
fn selector_cost(size: SizeEstimate) -> CostEstimate {
    #[expect(clippy::cast_precision_loss, reason = "the sum of two small constants")]
    let requirement_cost = (LIST_COST + OBJECT_COST) as f64;
    let requirements = size.scale(REQUIREMENTS_FACTOR);
    CostEstimate::fixed(LIST_COST).plus(size.scale(STRING_FACTOR)).plus(requirements.scale(requirement_cost))
}

/// Returns the cost of the equality of two values of a type of Kubernetes.
fn equality_cost(call: &CostCall) -> Option<CallEstimate> {
    let [left, right] = &*call.args else { return None };
    if left.ty.name() != right.ty.name() {
        return None;
    }
    let up_to = |max| CallEstimate::of(CostEstimate { min: 1, max }.scale(STRING_FACTOR));
    match (left.ty, left.ty.name()) {
        (Type::Opaque(_), "net.IP" | "net.CIDR") => Some(CallEstimate::fixed(1)),
        (Type::Object(_), "kubernetes.NamedFormat") => Some(up_to(FORMAT_SIZE_MAX)),
        (Type::Object(_), "kubernetes.URL") => Some(up_to(right.size.map_or(1, |size| size.max))),
        (Type::Object(_), "kubernetes.Quantity" | "kubernetes.Semver") => Some(CallEstimate::fixed(1)),
        (Type::Object(_), name) if name.starts_with("kubernetes.authorization.") => {
            Some(CallEstimate::fixed(1))
        }
        _ => None,
    }
}
