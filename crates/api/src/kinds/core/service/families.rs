//! IP families of a Service.
//!
//! Combines `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` of the request with the old Service and the
//! configuration of the cluster; addresses are then allocated from the result. [`prepare_create`] and
//! [`prepare_update`] run after admission and before the other rules of the kind.

use super::update::{keep_allocated, normalize_cluster_ips};
use super::{NO_CLUSTER_IP, Spec, is_ipv6, validate};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::value::Value;

const IPV4: &str = "IPv4";
const IPV6: &str = "IPv6";
const SINGLE: &str = "SingleStack";
const REQUIRE_DUAL: &str = "RequireDualStack";
const PREFER_DUAL: &str = "PreferDualStack";

/// IP families of the Service network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// `true` if the default family is IPv6.
    pub primary_is_ipv6: bool,
    /// `true` if both families are available.
    pub dual_stack: bool,
}

impl Families {
    fn primary(self) -> &'static str {
        if self.primary_is_ipv6 { IPV6 } else { IPV4 }
    }

    fn has(self, family: &str) -> bool {
        family == self.primary() || (self.dual_stack && family == other(self.primary()))
    }
}

fn other(family: &str) -> &'static str {
    if family == IPV4 { IPV6 } else { IPV4 }
}

/// Resolves the families of a new Service.
///
/// # Errors
/// If the request contradicts itself or the cluster. The response has these errors only.
pub fn prepare_create(service: &mut Value, families: Families) -> Result<(), ErrorList> {
    normalize_cluster_ips(service, None);
    resolve(service, None, families)
}

/// Resolves the families of an updated Service, after it took over allocated values.
///
/// # Errors
/// As [`prepare_create`].
pub fn prepare_update(new: &mut Value, old: &Value, families: Families) -> Result<(), ErrorList> {
    keep_allocated(new, old);
    normalize_cluster_ips(new, Some(old));
    resolve(new, Some(old), families)
}

fn resolve(service: &mut Value, old: Option<&Value>, families: Families) -> Result<(), ErrorList> {
    let was = old.map(Spec::of);
    if !Spec::of(service).needs_cluster_ip()
        || was.is_some_and(|was| is_unchanged_prefer_dual(Spec::of(service), was))
    {
        return Ok(());
    }
    default_policy(service, was);
    let mut errors = ErrorList::new();
    validate::check_cluster_ips(&mut errors, service, old);
    reject(errors)?;

    let mut errors = ErrorList::new();
    if let Some(was) = was {
        release_second(service, was, &mut errors);
    }
    check_single(Spec::of(service), &mut errors);
    infer_from_ips(service, families, &mut errors);
    reject(errors)?;

    let spec = Spec::of(service);
    let any_family = spec.cluster_ip() == NO_CLUSTER_IP && !spec.has_selector();
    if !any_family {
        reject(check_configured(spec, families))?;
    }
    // Endpoints of a headless Service without a selector are manual, of any family, configured or not.
    complete(service, families.primary(), any_family || families.dual_stack);
    Ok(())
}

fn reject(errors: ErrorList) -> Result<(), ErrorList> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// `true` if the update does not touch the families of a Service with PreferDualStack. A cluster that becomes
/// dual-stack, or no longer is, must not change such a Service implicitly.
fn is_unchanged_prefer_dual(is: Spec<'_>, was: Spec<'_>) -> bool {
    is.text("ipFamilyPolicy") == PREFER_DUAL
        && matches!(was.text("ipFamilyPolicy"), "" | PREFER_DUAL)
        && was.kind() == is.kind()
        && matches!(is.kind(), "ClusterIP" | "NodePort" | "LoadBalancer")
        && was.cluster_ips() == is.cluster_ips()
        && was.list("ipFamilies") == is.list("ipFamilies")
}

fn default_policy(service: &mut Value, was: Option<Spec<'_>>) {
    let spec = Spec::of(service);
    if spec.get("ipFamilyPolicy").is_some() {
        return;
    }
    let before = was.and_then(|was| was.get("ipFamilyPolicy")).and_then(Value::as_str);
    let policy = match before {
        Some(before) => before,
        None if spec.cluster_ip() == NO_CLUSTER_IP && !spec.has_selector() => REQUIRE_DUAL,
        None => SINGLE,
    };
    service.ensure_map("spec").insert("ipFamilyPolicy", policy);
}

/// A downgrade to a single stack releases the second address; the first one stays.
fn release_second(service: &mut Value, was: Spec<'_>, errors: &mut ErrorList) {
    let spec = Spec::of(service);
    let (ips, families) = (spec.cluster_ips(), spec.list("ipFamilies"));
    let (old_ips, old_families) = (was.cluster_ips(), was.list("ipFamilies"));
    if spec.text("ipFamilyPolicy") != SINGLE {
        if !ips.is_empty() && ips.len() < old_ips.len() {
            push_policy(errors, spec, "must be 'SingleStack' to release the secondary cluster IP");
        }
        if !families.is_empty() && families.len() < old_families.len() {
            push_policy(errors, spec, "must be 'SingleStack' to release the secondary IP family");
        }
        return;
    }
    let cuts = [("clusterIPs", ips == old_ips), ("ipFamilies", families == old_families)];
    for (field, unchanged) in cuts {
        if unchanged && let Some(Value::List(list)) = service.at_mut(&["spec", field]) {
            list.truncate(1);
        }
    }
}

fn check_single(spec: Spec<'_>, errors: &mut ErrorList) {
    if spec.text("ipFamilyPolicy") != SINGLE {
        return;
    }
    if spec.cluster_ips().len() == 2 {
        let detail =
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified";
        push_policy(errors, spec, detail);
    }
    if spec.list("ipFamilies").len() == 2 {
        let detail =
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
        push_policy(errors, spec, detail);
    }
}

fn push_policy(errors: &mut ErrorList, spec: Spec<'_>, detail: &'static str) {
    let value = BadValue::json_string(spec.text("ipFamilyPolicy"));
    errors.push(FieldError::invalid(&Path::root("spec").child("ipFamilyPolicy"), value, detail));
}

/// Infers the families from the addresses.
fn infer_from_ips(service: &mut Value, families: Families, errors: &mut ErrorList) {
    let spec = Spec::of(service);
    let ips = spec.cluster_ips();
    let mut inferred: Vec<Value> = Vec::new();
    let known = spec.list("ipFamilies").len();
    for (i, ip) in ips.iter().enumerate().take_while(|(_, ip)| **ip != NO_CLUSTER_IP).skip(known) {
        let family = if is_ipv6(ip) { IPV6 } else { IPV4 };
        if families.has(family) {
            inferred.push(family.into());
        } else if !errors.is_full() {
            let root = Path::root("spec");
            let detail = format!("{family} is not configured on this cluster");
            let path = root.child("clusterIPs");
            errors.push(FieldError::invalid(&path.index(i), BadValue::json_strings(&ips), detail));
        }
    }
    add_families(service, inferred);
}

fn check_configured(spec: Spec<'_>, families: Families) -> ErrorList {
    let mut errors = ErrorList::new();
    if spec.text("ipFamilyPolicy") == REQUIRE_DUAL && !families.dual_stack {
        push_policy(&mut errors, spec, "this cluster is not configured for dual-stack services");
    }
    let root = Path::root("spec");
    let path = root.child("ipFamilies");
    for (i, family) in spec.list("ipFamilies").into_iter().enumerate() {
        if !families.has(family) {
            let value = BadValue::json_string(family);
            errors.push(FieldError::invalid(&path.index(i), value, "not configured on this cluster"));
        }
    }
    errors
}

/// Adds the default family if there is none, and the second one for a dual-stack Service.
fn complete(service: &mut Value, primary: &str, may_have_two: bool) {
    let spec = Spec::of(service);
    let families = spec.list("ipFamilies");
    let first = families.first().copied().unwrap_or(primary);
    let second = other(first);
    let wants_two = may_have_two && spec.text("ipFamilyPolicy") != SINGLE;
    let missing: Vec<Value> = match families.len() {
        0 if wants_two => vec![first.into(), second.into()],
        0 => vec![first.into()],
        1 if wants_two => vec![second.into()],
        _ => Vec::new(),
    };
    add_families(service, missing);
}

fn add_families(service: &mut Value, families: Vec<Value>) {
    if families.is_empty() {
        return;
    }
    let list = service.ensure_map("spec").ensure("ipFamilies", || Value::List(Vec::new()));
    match list {
        Value::List(list) => list.extend(families),
        other => *other = Value::List(families),
    }
}
