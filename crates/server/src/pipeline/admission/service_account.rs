//! As whom a pod runs.
//!
//! A pod that names no account runs as `default`. Nothing makes that account in a new namespace yet, so that a pod
//! may run as `default` before it is there; any other account must exist. Tokens are not mounted.

use setpoint_api::{Key, Resource, Value, metadata};
use setpoint_store::{Record, Snapshot};

use super::mentions;
use crate::stored;

const DEFAULT: &str = "default";
const SECRETS: &str = "imagePullSecrets";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Gives a pod its account, and what the account says of pulling images.
///
/// # Errors
/// If the pod names an account that is not there, or is a mirror and names one.
pub fn admit(pod: &mut Value, snapshot: &Snapshot) -> Result<(), String> {
    let named = pod.str_at(&["spec", "serviceAccountName"]).to_owned();
    if metadata::entry(pod, "annotations", MIRROR).is_some() {
        return match named.as_str() {
            "" => Ok(()),
            _ => Err("a mirror pod may not reference service accounts".to_owned()),
        };
    }
    let name = if named.is_empty() { DEFAULT } else { named.as_str() };
    let account = find(metadata::namespace(pod), name, snapshot);
    if account.is_none() && name != DEFAULT {
        let namespace = metadata::namespace(pod);
        return Err(format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        ));
    }
    let spec = pod.ensure_map("spec");
    if named.is_empty() {
        spec.insert("serviceAccountName", name);
        spec.insert("serviceAccount", name);
    }
    if let Some(account) = account.filter(|account| mentions(account, SECRETS))
        && spec.get(SECRETS).is_none_or(Value::is_empty)
        && let Some(secrets) = stored::object(account).get(SECRETS).filter(|secrets| !secrets.is_empty())
    {
        spec.insert(SECRETS, secrets.clone());
    }
    Ok(())
}

fn find<'a>(namespace: &str, name: &str, snapshot: &'a Snapshot) -> Option<&'a Record> {
    let key = Key::namespaced(&Resource::new("serviceaccounts").ok()?, namespace, name).ok()?;
    snapshot.get(&key)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{object, world};
    use super::*;

    const ACCOUNT: &str = r#"{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"robot","namespace":"a"},
        "imagePullSecrets":[{"name":"s"}]}"#;

    #[test]
    fn a_pod_without_account_runs_as_the_default_one() {
        let mut pod = object(r#"{"metadata":{"namespace":"a"},"spec":{}}"#);
        admit(&mut pod, &world(&[])).unwrap();
        assert_eq!(pod.str_at(&["spec", "serviceAccountName"]), "default");
        assert_eq!(pod.str_at(&["spec", "serviceAccount"]), "default");
    }

    #[test]
    fn a_named_account_must_exist_and_lends_its_secrets() {
        let text = r#"{"metadata":{"namespace":"a"},"spec":{"serviceAccountName":"robot"}}"#;
        let mut pod = object(text);
        let refused = admit(&mut pod, &world(&[])).unwrap_err();
        assert_eq!(refused, "error looking up service account a/robot: serviceaccount \"robot\" not found");
        admit(&mut pod, &world(&[("", "v1", "serviceaccounts", ACCOUNT)])).unwrap();
        assert_eq!(pod.at(&["spec", "imagePullSecrets"]), object(ACCOUNT).get("imagePullSecrets"));
    }

    #[test]
    fn a_mirror_pod_has_no_account() {
        let text = r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{}}"#;
        let mut pod = object(text);
        admit(&mut pod, &world(&[])).unwrap();
        assert_eq!(pod, object(text));
    }
}
