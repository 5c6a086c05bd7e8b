//! Values of the Kubernetes libraries.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use setpoint_api::names::ip::Cidr;
use setpoint_api::quantity::Quantity;

use crate::functions::authz::{AuthorizationDecision, AuthorizerRef, ResourceCheck};

/// Value of a Kubernetes library.
#[derive(Clone, Debug)]
pub enum Opaque<'a> {
    /// `quantity('1Gi')`.
    Quantity(Quantity),
    /// `ip('10.0.0.1')`.
    Ip(IpAddr),
    /// `cidr('10.0.0.0/8')`.
    Cidr(Cidr),
    /// `url('https://example.com')`.
    Url(Url),
    /// `semver('1.2.3')`.
    Semver(SemanticVersion),
    /// `format.dns1123Label()`.
    Format(&'static NamedFormat),
    /// `authorizer`.
    Authorizer(AuthorizerRef<'a>),
    /// `authorizer.path('/healthz')`.
    PathCheck(AuthorizerRef<'a>, Box<str>),
    /// `authorizer.group('apps')`.
    GroupCheck(AuthorizerRef<'a>, Box<str>),
    /// `authorizer.group('apps').resource('deployments')`.
    ResourceCheck(AuthorizerRef<'a>, Arc<ResourceCheck>),
    /// Result of `check`.
    Decision(AuthorizationDecision),
}

/// Parts of a URL, as Go's `net/url` splits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Text that was parsed.
    pub text: Box<str>,
    /// Scheme in lower case; empty if there is none.
    pub scheme: Box<str>,
    /// Host with its port.
    pub host: Box<str>,
    /// Path with its escapes.
    pub escaped_path: Box<str>,
    /// Query without the question mark.
    pub query: Box<str>,
}

/// Semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SemanticVersion {
    /// Major version.
    pub major: u64,
    /// Minor version.
    pub minor: u64,
    /// Patch version.
    pub patch: u64,
    /// Identifiers of the pre-release.
    pub pre_release: Box<[Box<str>]>,
    /// Identifiers of the build, which do not affect the order.
    pub build: Box<[Box<str>]>,
}

/// Format of strings that `format.named` returns.
#[derive(Debug)]
pub struct NamedFormat {
    /// Name in expressions.
    pub name: &'static str,
    /// Length of the pattern that the cost of a validation assumes.
    pub pattern_length: u64,
    /// Returns the faults of a text.
    pub check: fn(&str) -> Vec<String>,
}

impl Opaque<'_> {
    /// Name of the type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Opaque::Quantity(_) => "kubernetes.Quantity",
            Opaque::Ip(_) => "net.IP",
            Opaque::Cidr(_) => "net.CIDR",
            Opaque::Url(_) => "kubernetes.URL",
            Opaque::Semver(_) => "kubernetes.Semver",
            Opaque::Format(_) => "kubernetes.NamedFormat",
            Opaque::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Opaque::PathCheck(..) => "kubernetes.authorization.PathCheck",
            Opaque::GroupCheck(..) => "kubernetes.authorization.GroupCheck",
            Opaque::ResourceCheck(..) => "kubernetes.authorization.ResourceCheck",
            Opaque::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    /// Number of bytes of an address or network prefix.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Opaque::Ip(IpAddr::V4(_)) => Some(4),
            Opaque::Ip(IpAddr::V6(_)) => Some(16),
            Opaque::Cidr(cidr) => Some(u64::from(cidr.prefix_bits.div_ceil(8))),
            _ => None,
        }
    }

    pub(super) fn equal(a: &Opaque<'_>, b: &Opaque<'_>) -> bool {
        match (a, b) {
            (Opaque::Quantity(a), Opaque::Quantity(b)) => a.cmp(b) == Ordering::Equal,
            (Opaque::Ip(a), Opaque::Ip(b)) => a == b,
            (Opaque::Cidr(a), Opaque::Cidr(b)) => a == b,
            (Opaque::Url(a), Opaque::Url(b)) => a.text == b.text,
            (Opaque::Semver(a), Opaque::Semver(b)) => a.compare(b) == Ordering::Equal,
            (Opaque::Format(a), Opaque::Format(b)) => a.name == b.name,
            _ => false,
        }
    }
}

impl SemanticVersion {
    /// Compares the precedence of two versions.
    #[must_use]
    pub fn compare(&self, other: &SemanticVersion) -> Ordering {
        let numbers = |version: &SemanticVersion| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_identifiers(&self.pre_release, &other.pre_release),
            }
        })
    }
}

/// Numeric identifiers are less than others, and compare by number; a prefix is less than the longer list.
fn compare_identifiers(a: &[Box<str>], b: &[Box<str>]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = match (a.parse::<u64>(), b.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}
