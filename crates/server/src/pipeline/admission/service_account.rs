//! ServiceAccount: sets the service account of a pod, its image pull secrets and its token volume.
//!
//! The default is `default`, which may be missing: in a new namespace the controller creates it later. Any other
//! account must exist. Unless the pod or the account opts out, every container mounts a volume with a token, the
//! cluster CA and the namespace.

mod secrets;

use setpoint_api::names::generate::generated_name;
use setpoint_api::status::Status;
use setpoint_api::{Key, Map, Resource, Value, json, metadata};
use setpoint_store::{Record, Snapshot};

use super::{AdmissionInput, Findings, contains_text};
use crate::codec;

const DEFAULT: &str = "default";
const SECRETS: &str = "imagePullSecrets";
const AUTOMOUNT: &str = "automountServiceAccountToken";
/// Prefix of the generated names of token volumes.
const VOLUME_PREFIX: &str = "kube-api-access-";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Sources of the token volume. Tokens are valid for an hour, plus seven seconds that mark them as injected.
const SOURCES: &str = r#"[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}]"#;
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Sets the service account of a new pod.
pub(super) fn admit(pod: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if !input.is("pods", "") {
        return Ok(());
    }
    // The kubelet deletes a mirror pod with another spec than its own.
    if !is_mirror(pod) {
        let set = set_account(pod, input.snapshot(), input.context.entropy[0]);
        set.map_err(|why| input.forbidden(pod, &why))?;
    }
    validate(pod, input, &mut Findings::default())
}

/// Rejects secrets that the service account does not allow, and those of mirror pods.
pub(super) fn validate(pod: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    let is_debugged = input.is("pods", "ephemeralcontainers");
    let is_new = input.is("pods", "") && input.is_create();
    let checked = if is_debugged {
        secrets::check_ephemeral_containers(pod, input.snapshot())
    } else if is_new && is_mirror(pod) {
        secrets::check_mirror_pod(pod)
    } else if is_new {
        secrets::check_pod(pod, input.snapshot())
    } else {
        return Ok(());
    };
    checked.map_err(|why| input.forbidden(pod, &why))
}

fn is_mirror(pod: &Value) -> bool {
    metadata::entry(pod, "annotations", MIRROR).is_some()
}

/// Sets the service account of a pod, its token volume and its pull secrets. Fails if the account does not exist.
fn set_account(pod: &mut Value, snapshot: &Snapshot, entropy: u64) -> Result<(), String> {
    let named = pod.str_at(&["spec", "serviceAccountName"]).to_owned();
    let name = if named.is_empty() { DEFAULT } else { named.as_str() };
    let account = find(metadata::namespace(pod), name, snapshot)?;
    let spec = pod.ensure_map("spec");
    if named.is_empty() {
        spec.insert("serviceAccountName", name);
        spec.insert("serviceAccount", name);
    }
    // Most accounts have neither field, and are not decoded.
    let account =
        account.filter(|account| contains_text(account, AUTOMOUNT) || contains_text(account, SECRETS));
    let account = account.map(codec::object).unwrap_or_default();
    let given = spec.get(AUTOMOUNT).and_then(Value::as_bool);
    if given.or_else(|| account.get(AUTOMOUNT)?.as_bool()).unwrap_or(true) {
        mount_token(spec, entropy);
    }
    if let Some(secrets) = account.get(SECRETS).filter(|secrets| !secrets.is_empty())
        && spec.get(SECRETS).is_none_or(Value::is_empty)
    {
        spec.insert(SECRETS, secrets.clone());
    }
    Ok(())
}

/// Mounts the token volume in each container without a mount at its path.
fn mount_token(spec: &mut Map, entropy: u64) {
    let named = |volume: &Value| volume.str_at(&["name"]).starts_with(VOLUME_PREFIX);
    let volumes = spec.get("volumes").and_then(Value::as_list).unwrap_or_default();
    let found = volumes.iter().find(|volume| named(volume)).map(|volume| volume.str_at(&["name"]).to_owned());
    let has_volume = found.is_some();
    let name = found.unwrap_or_else(|| generated_name(VOLUME_PREFIX, entropy));
    let mut mounted = false;
    for field in ["initContainers", "containers"] {
        let containers = spec.get_mut(field).and_then(Value::as_list_mut);
        for container in containers.into_iter().flatten() {
            let mounts = container.get("volumeMounts").and_then(Value::as_list).unwrap_or_default();
            if mounts.iter().any(|mount| mount.str_at(&["mountPath"]) == TOKEN_PATH) {
                continue;
            }
            let mut mount = Map::with_capacity(3);
            mount.insert("name", name.as_str());
            mount.insert("readOnly", true);
            mount.insert("mountPath", TOKEN_PATH);
            push(container.make_map(), "volumeMounts", mount.into());
            mounted = true;
        }
    }
    if mounted && !has_volume {
        let text = format!(r#"{{"name":"{name}","projected":{{"sources":{SOURCES},"defaultMode":420}}}}"#);
        push(spec, "volumes", json::parse(text.as_bytes()).unwrap_or_default());
    }
}

fn push(map: &mut Map, field: &str, item: Value) {
    match map.ensure(field, || Value::List(Vec::new())) {
        Value::List(list) => list.push(item),
        other => *other = Value::List(vec![item]),
    }
}

/// Returns a service account; `None` if it is a default account that does not exist yet.
fn find<'a>(namespace: &str, name: &str, snapshot: &'a Snapshot) -> Result<Option<&'a Record>, String> {
    let accounts = Resource::new("serviceaccounts").ok();
    let key = accounts.and_then(|accounts| Key::namespaced(&accounts, namespace, name).ok());
    match key.and_then(|key| snapshot.get(&key)) {
        None if name != DEFAULT => Err(format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        )),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object, snapshot_with};
    use super::*;

    const ACCOUNT: &str = r#"{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"robot","namespace":"a"},
        "imagePullSecrets":[{"name":"s"}]}"#;

    #[test]
    fn pod_without_service_account_uses_the_default() {
        let mut pod = object(r#"{"metadata":{"namespace":"a"},"spec":{}}"#);
        set_account(&mut pod, &snapshot_with(&[]), 1).unwrap();
        assert_eq!(pod.str_at(&["spec", "serviceAccountName"]), "default");
        assert_eq!(pod.str_at(&["spec", "serviceAccount"]), "default");
    }

    #[test]
    fn named_service_account_must_exist_and_adds_pull_secrets() {
        let text = r#"{"metadata":{"namespace":"a"},"spec":{"serviceAccountName":"robot"}}"#;
        let mut pod = object(text);
        let refused = set_account(&mut pod, &snapshot_with(&[]), 1).unwrap_err();
        assert_eq!(refused, "error looking up service account a/robot: serviceaccount \"robot\" not found");
        set_account(&mut pod, &snapshot_with(&[("", "v1", "serviceaccounts", ACCOUNT)]), 1).unwrap();
        assert_eq!(pod.at(&["spec", "imagePullSecrets"]), object(ACCOUNT).get("imagePullSecrets"));
    }

    #[test]
    fn containers_mount_a_token_unless_they_opt_out() {
        let pod = |more: &str, mounts: &str| {
            let spec = format!(r#"{{"containers":[{{"name":"a"{mounts}}}]{more}}}"#);
            let mut pod = object(&format!(r#"{{"metadata":{{"namespace":"a"}},"spec":{spec}}}"#));
            set_account(&mut pod, &snapshot_with(&[]), 1).unwrap();
            pod
        };
        let mounted = pod("", "");
        let volume = mounted.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap()[0].clone();
        let container = mounted.at(&["spec", "containers"]).and_then(Value::as_list).unwrap()[0].clone();
        let mount = container.get("volumeMounts").and_then(Value::as_list).unwrap()[0].clone();
        assert!(volume.str_at(&["name"]).starts_with(VOLUME_PREFIX));
        assert_eq!(mount.str_at(&["name"]), volume.str_at(&["name"]));
        assert_eq!(
            volume.at(&["projected", "sources"]).and_then(Value::as_list).map(<[Value]>::len),
            Some(3)
        );
        let refused = pod(r#","automountServiceAccountToken":false"#, "");
        assert_eq!(refused.at(&["spec", "volumes"]), None);
        let own = format!(r#","volumeMounts":[{{"name":"x","mountPath":"{TOKEN_PATH}"}}]"#);
        assert_eq!(pod("", &own).at(&["spec", "volumes"]), None);
    }

    #[test]
    fn mirror_pod_has_no_service_account() {
        let text = r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{}}"#;
        let mut pod = object(text);
        Review::create("", "v1", "pods").run(|input| admit(&mut pod, input)).unwrap();
        assert_eq!(pod, object(text));
    }
}
