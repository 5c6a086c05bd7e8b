//! Modes of impersonation, in the order in which they are tried.

use std::borrow::Cow;
use std::collections::BTreeMap;

use setpoint_api::field_error::{ErrorList, Path};
use setpoint_api::names::key::domain_prefixed_path;
use setpoint_api::status::Status;
use setpoint_api::{Identity, RequestInfo};
use setpoint_authorization::{Attributes, Decision};

use super::{ImpersonatedUser, Permissions, authorize, forbidden};
use crate::service_account::quoted;
use crate::user::{
    ANONYMOUS, AUTHENTICATED, MASTERS, NODE_NAME, NODES, UNAUTHENTICATED, node_name, service_account_groups,
    split_service_account,
};

/// API group of the resources of impersonation.
const GROUP: &str = "authentication.k8s.io";
/// Extra field of a requester whose own ones are left out.
const ASSOCIATED_NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
/// Number of groups or extra values from which on a permission for all is checked first.
const MANY: usize = 4;

/// Mode of impersonation.
pub(super) struct Mode {
    /// Name of the mode; `legacy` permits impersonation for all requests.
    name: &'static str,
    verb: &'static str,
    applies: fn(wanted: &Identity, requester: &Identity) -> bool,
}

/// All modes.
pub(super) const MODES: [Mode; 5] = [
    Mode {
        name: "associated-node",
        verb: "impersonate:associated-node",
        applies: |wanted, requester| has_only_name(wanted) && is_associated(requester, &wanted.user),
    },
    Mode {
        name: "arbitrary-node",
        verb: "impersonate:arbitrary-node",
        applies: |wanted, _| has_only_name(wanted) && node_name(&wanted.user).is_some(),
    },
    Mode {
        name: "serviceaccount",
        verb: "impersonate:serviceaccount",
        applies: |wanted, _| has_only_name(wanted) && split_service_account(&wanted.user).is_some(),
    },
    Mode {
        name: "user-info",
        verb: "impersonate:user-info",
        applies: |wanted, _| {
            node_name(&wanted.user).is_none() && split_service_account(&wanted.user).is_none()
        },
    },
    Mode { name: LEGACY, verb: "impersonate", applies: |_, _| true },
];

const LEGACY: &str = "legacy";

fn has_only_name(user: &Identity) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

/// `true` if the requester is a service account whose token is bound to this node.
fn is_associated(requester: &Identity, wanted: &str) -> bool {
    let own = match requester.extra.get(NODE_NAME).map(Vec::as_slice) {
        Some([name]) => name.as_str(),
        _ => "",
    };
    split_service_account(&requester.user).is_some() && node_name(wanted) == Some(own)
}

impl Mode {
    /// Checks the impersonation in this mode; `None` if the mode does not apply to the users.
    pub(super) fn check(
        &self,
        wanted: &Identity,
        attributes: &Attributes<'_>,
        permissions: &dyn Permissions,
    ) -> Result<Option<ImpersonatedUser>, Box<Status>> {
        if !(self.applies)(wanted, attributes.user) {
            return Ok(None);
        }
        let requester = self.requester(attributes.user);
        if self.name != LEGACY {
            let verb = format!("impersonate-on:{}:{}", self.name, attributes.request.verb);
            let request = RequestInfo { verb: &verb, ..attributes.request };
            authorize(&Attributes { user: &requester, request, ..*attributes }, permissions)?;
        }
        let check = Check { mode: self, requester: &requester, permissions };
        let mut identity = wanted.clone();
        identity.groups = check.authorize_user(wanted)?;
        check.authorize_uid(&wanted.uid)?;
        check.authorize_groups(&wanted.groups)?;
        check.authorize_extra(&wanted.extra)?;
        let group = if identity.user == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        let decides = |one: &String| one == group || one == UNAUTHENTICATED;
        if !identity.groups.iter().any(decides) {
            identity.groups.push(group.to_owned());
        }
        let constraint = if self.name == LEGACY { "" } else { self.verb };
        Ok(Some(ImpersonatedUser { identity, constraint }))
    }

    /// Requester that the checks are about. The permission of an associated node must hold for all nodes, so the extra
    /// fields of the requester are left out.
    fn requester<'a>(&self, requester: &'a Identity) -> Cow<'a, Identity> {
        if self.name != "associated-node" {
            return Cow::Borrowed(requester);
        }
        let keys = requester.extra.keys().cloned().collect();
        let extra = BTreeMap::from([(ASSOCIATED_NODE_KEYS.to_owned(), keys)]);
        Cow::Owned(Identity { extra, ..requester.clone() })
    }
}

/// Checks of the values of a user in one mode.
struct Check<'a> {
    mode: &'a Mode,
    requester: &'a Identity,
    permissions: &'a dyn Permissions,
}

impl<'a> Check<'a> {
    fn is_constrained(&self) -> bool {
        self.mode.name != LEGACY
    }

    /// Attributes of a check. Users, groups and service accounts are in the core group in legacy mode.
    fn request(&self, resource: &'a str, name: &'a str) -> RequestInfo<'a> {
        let is_core = !self.is_constrained() && matches!(resource, "users" | "groups" | "serviceaccounts");
        RequestInfo {
            is_resource: true,
            verb: self.mode.verb,
            path: "",
            group: if is_core { "" } else { GROUP },
            version: "v1",
            resource,
            subresource: "",
            namespace: "",
            name,
        }
    }

    fn attributes(&self, request: RequestInfo<'a>) -> Attributes<'a> {
        Attributes { user: self.requester, request, field_selector: &[], label_selector: &[] }
    }

    fn authorize(&self, request: RequestInfo<'a>) -> Result<(), Box<Status>> {
        authorize(&self.attributes(request), self.permissions)
    }

    fn forbid(&self, request: RequestInfo<'a>, why: &str) -> Result<(), Box<Status>> {
        Err(forbidden(&self.attributes(request), why))
    }

    /// Authorizes the user name. Returns the groups of the user, of which those of nodes and service accounts are fixed.
    fn authorize_user(&self, wanted: &'a Identity) -> Result<Vec<String>, Box<Status>> {
        let mut request = self.request("users", &wanted.user);
        let mut groups = wanted.groups.clone();
        if self.is_constrained()
            && let Some(node) = node_name(&wanted.user)
        {
            let name = if self.mode.name == "associated-node" { "*" } else { node };
            request = self.request("nodes", name);
            groups = vec![NODES.to_owned()];
        }
        if let Some((namespace, name)) = split_service_account(&wanted.user) {
            request = RequestInfo { namespace, ..self.request("serviceaccounts", name) };
            if groups.is_empty() {
                groups = service_account_groups(namespace);
            }
        }
        self.authorize(request).map(|()| groups)
    }

    fn authorize_uid(&self, uid: &'a str) -> Result<(), Box<Status>> {
        if uid.is_empty() { Ok(()) } else { self.authorize(self.request("uids", uid)) }
    }

    fn authorize_groups(&self, groups: &'a [String]) -> Result<(), Box<Status>> {
        if self.is_constrained() {
            if groups.iter().any(String::is_empty) {
                return self.forbid(
                    self.request("groups", ""),
                    "impersonating the empty string group is not allowed",
                );
            }
            if groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return self.forbid(self.request("groups", MASTERS), why);
            }
            if groups.len() >= MANY && self.authorize(self.request("groups", "*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.authorize(self.request("groups", group)))
    }

    fn authorize_extra(&self, extra: &'a BTreeMap<String, Vec<String>>) -> Result<(), Box<Status>> {
        if self.is_constrained() && !extra.is_empty() {
            if let Err(why) = check_extra(extra) {
                return self.forbid(self.request("userextras", ""), &why);
            }
            let values: usize = extra.values().map(Vec::len).sum();
            let all = RequestInfo { subresource: "*", ..self.request("userextras", "*") };
            if values.max(extra.len()) >= MANY && self.authorize(all).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.authorize(RequestInfo { subresource: key, ..self.request("userextras", value) })?;
            }
        }
        Ok(())
    }
}

/// Rejects extra fields that only the legacy mode accepts.
fn check_extra(extra: &BTreeMap<String, Vec<String>>) -> Result<(), String> {
    for (key, values) in extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed".to_owned());
        }
        let mut errors = ErrorList::new();
        domain_prefixed_path(&mut errors, &Path::root("extra").child("key"), key);
        if !errors.is_empty() {
            return Err(format!("impersonating an invalid key in extra is not allowed: {errors}"));
        }
        if *key != key.to_lowercase() {
            let key = quoted(std::slice::from_ref(key));
            let key = key.trim_start_matches('[').trim_end_matches(']');
            return Err(format!("impersonating a non-lowercase key in extra is not allowed: {key}"));
        }
        if values.is_empty() {
            return Err("impersonating empty values in extra is not allowed".to_owned());
        }
        if values.iter().any(String::is_empty) {
            return Err("impersonating the empty string value in extra is not allowed".to_owned());
        }
    }
    Ok(())
}

impl<F: Fn(&Attributes<'_>) -> Decision> Permissions for F {
    fn is_allowed(&self, attributes: &Attributes<'_>) -> Decision {
        self(attributes)
    }
}
