//! Secrets that a pod may reference: those of its service account, if the account is annotated with
//! `kubernetes.io/enforce-mountable-secrets`; none for mirror pods.

use std::collections::BTreeSet;

use setpoint_api::{Value, metadata};
use setpoint_store::Snapshot;

use super::find;
use crate::codec;
use crate::pipeline::admission::contains_text;

/// Annotation of a service account whose pods may reference only its secrets.
const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";

/// Service account that limits the secrets of its pods.
struct LimitedAccount {
    name: String,
    account: Value,
}

impl LimitedAccount {
    /// Returns the account of a pod; `None` if it does not limit secrets.
    fn of(pod: &Value, snapshot: &Snapshot) -> Result<Option<LimitedAccount>, String> {
        let namespace = metadata::namespace(pod);
        let name = pod.str_at(&["spec", "serviceAccountName"]);
        if name.is_empty() {
            return Err(format!("no service account specified for pod {namespace}/{}", metadata::name(pod)));
        }
        let account = find(namespace, name, snapshot)?.filter(|account| contains_text(account, ENFORCED));
        let account = account.map(codec::object).unwrap_or_default();
        let is_enforced = metadata::entry(&account, "annotations", ENFORCED).is_some_and(parses_as_true);
        Ok(is_enforced.then(|| LimitedAccount { name: name.to_owned(), account }))
    }

    fn names(&self, field: &str) -> BTreeSet<&str> {
        items(&self.account, &[field]).iter().map(|secret| secret.str_at(&["name"])).collect()
    }

    /// Checks the environment of containers.
    fn check_containers(&self, pod: &Value, field: &str, title: &str) -> Result<(), String> {
        let allowed = self.names("secrets");
        let account = &self.name;
        for container in items(pod, &["spec", field]) {
            let name = container.str_at(&["name"]);
            for variable in items(container, &["env"]) {
                let Some(secret) = present(variable, &["valueFrom", "secretKeyRef"]) else { continue };
                let (variable, secret) = (variable.str_at(&["name"]), secret.str_at(&["name"]));
                if !allowed.contains(secret) {
                    return Err(format!(
                        "{title} {name} with envVar {variable} referencing secret.secretName=\"{secret}\" is not allowed \
                         because service account {account} does not reference that secret"
                    ));
                }
            }
            for source in items(container, &["envFrom"]) {
                let Some(secret) = present(source, &["secretRef"]) else { continue };
                let secret = secret.str_at(&["name"]);
                if !allowed.contains(secret) {
                    return Err(format!(
                        "{title} {name} with envFrom referencing secret.secretName=\"{secret}\" is not allowed because \
                         service account {account} does not reference that secret"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Checks the secrets of a new pod against its service account.
pub(super) fn check_pod(pod: &Value, snapshot: &Snapshot) -> Result<(), String> {
    let Some(limited) = LimitedAccount::of(pod, snapshot)? else { return Ok(()) };
    let account = &limited.name;
    let allowed = limited.names("secrets");
    for volume in items(pod, &["spec", "volumes"]) {
        let Some(secret) = present(volume, &["secret"]) else { continue };
        let secret = secret.str_at(&["secretName"]);
        if !allowed.contains(secret) {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {account} does not \
                 reference that secret"
            ));
        }
    }
    limited.check_containers(pod, "initContainers", "init container")?;
    limited.check_containers(pod, "containers", "container")?;
    let allowed = limited.names("imagePullSecrets");
    for (at, secret) in items(pod, &["spec", "imagePullSecrets"]).iter().enumerate() {
        let secret = secret.str_at(&["name"]);
        if !allowed.contains(secret) {
            return Err(format!(
                "imagePullSecrets[{at}].name=\"{secret}\" is not allowed because service account {account} does not \
                 reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// Checks the secrets of ephemeral containers against the service account of their pod.
pub(super) fn check_ephemeral_containers(pod: &Value, snapshot: &Snapshot) -> Result<(), String> {
    match LimitedAccount::of(pod, snapshot)? {
        Some(limited) => limited.check_containers(pod, "ephemeralContainers", "ephemeral container"),
        None => Ok(()),
    }
}

/// Checks that a mirror pod references neither a service account nor secrets.
pub(super) fn check_mirror_pod(pod: &Value) -> Result<(), String> {
    let sources = || {
        items(pod, &["spec", "volumes"]).iter().flat_map(|volume| items(volume, &["projected", "sources"]))
    };
    if !pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
        Err("a mirror pod may not reference service accounts".to_owned())
    } else if has_secrets(pod) {
        Err("a mirror pod may not reference secrets".to_owned())
    } else if sources().any(|source| present(source, &["serviceAccountToken"]).is_some()) {
        Err("a mirror pod may not use ServiceAccountToken volume projections".to_owned())
    } else {
        Ok(())
    }
}

/// `true` if a pod references a secret anywhere.
fn has_secrets(pod: &Value) -> bool {
    const VOLUME_SECRETS: [&[&str]; 10] = [
        &["azureFile", "secretName"],
        &["cephfs", "secretRef", "name"],
        &["cinder", "secretRef", "name"],
        &["flexVolume", "secretRef", "name"],
        &["rbd", "secretRef", "name"],
        &["secret", "secretName"],
        &["scaleIO", "secretRef", "name"],
        &["iscsi", "secretRef", "name"],
        &["storageos", "secretRef", "name"],
        &["csi", "nodePublishSecretRef", "name"],
    ];
    let is_named = |value: &Value, path: &[&str]| !value.str_at(path).is_empty();
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    let mut containers = containers.into_iter().flat_map(|field| items(pod, &["spec", field]));
    let in_container = |container: &Value| {
        items(container, &["envFrom"]).iter().any(|source| is_named(source, &["secretRef", "name"]))
            || items(container, &["env"])
                .iter()
                .any(|variable| is_named(variable, &["valueFrom", "secretKeyRef", "name"]))
    };
    let in_volume = |volume: &Value| {
        VOLUME_SECRETS.iter().any(|path| is_named(volume, path))
            || items(volume, &["projected", "sources"]).iter().any(|it| is_named(it, &["secret", "name"]))
    };
    items(pod, &["spec", "imagePullSecrets"]).iter().any(|secret| is_named(secret, &["name"]))
        || containers.any(in_container)
        || items(pod, &["spec", "volumes"]).iter().any(in_volume)
}

fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    value.at(path).and_then(Value::as_list).unwrap_or_default()
}

fn present<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    value.at(path).filter(|value| !value.is_null())
}

/// `true` for the spellings of true that Go's `strconv.ParseBool` accepts.
fn parses_as_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{object, snapshot_with};
    use super::super::DEFAULT;
    use super::*;

    fn snapshot() -> Snapshot {
        let account = r#"{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"default","namespace":"a",
            "annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}},
            "secrets":[{"name":"own"}],"imagePullSecrets":[{"name":"pull"}]}"#;
        snapshot_with(&[("", "v1", "serviceaccounts", account)])
    }

    fn pod(spec: &str) -> Value {
        let metadata = r#"{"name":"p","namespace":"a"}"#;
        object(&format!(r#"{{"metadata":{metadata},"spec":{{"serviceAccountName":"{DEFAULT}",{spec}}}}}"#))
    }

    #[test]
    fn pod_of_an_annotated_account_references_only_its_secrets() {
        let own = r#""volumes":[{"name":"v","secret":{"secretName":"own"}}],"imagePullSecrets":[{"name":"pull"}],
            "containers":[{"name":"c","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"own"}}}]}]"#;
        assert_eq!(check_pod(&pod(own), &snapshot()), Ok(()));
        for (spec, why) in [
            (
                r#""volumes":[{"name":"v","secret":{"secretName":"x"}}]"#,
                "volume with secret.secretName=\"x\" is not allowed because service account default does not reference \
                 that secret",
            ),
            (
                r#""initContainers":[{"name":"i","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"x"}}}]}]"#,
                "init container i with envVar E referencing secret.secretName=\"x\" is not allowed because service account \
                 default does not reference that secret",
            ),
            (
                r#""containers":[{"name":"c","envFrom":[{"secretRef":{"name":"x"}}]}]"#,
                "container c with envFrom referencing secret.secretName=\"x\" is not allowed because service account \
                 default does not reference that secret",
            ),
            (
                r#""imagePullSecrets":[{"name":"own"}]"#,
                "imagePullSecrets[0].name=\"own\" is not allowed because service account default does not reference that \
                 imagePullSecret",
            ),
        ] {
            assert_eq!(check_pod(&pod(spec), &snapshot()), Err(why.to_owned()));
            assert_eq!(check_pod(&pod(spec), &snapshot_with(&[])), Ok(()), "without the annotation");
        }
        let debugged = pod(r#""ephemeralContainers":[{"name":"e","envFrom":[{"secretRef":{"name":"x"}}]}]"#);
        let error = check_ephemeral_containers(&debugged, &snapshot()).unwrap_err();
        assert!(error.starts_with("ephemeral container e with envFrom referencing secret.secretName=\"x\""));
    }

    #[test]
    fn mirror_pod_references_no_secrets_and_no_tokens() {
        let mirror = |spec: &str| check_mirror_pod(&object(&format!(r#"{{"spec":{{{spec}}}}}"#)));
        assert_eq!(mirror(r#""volumes":[{"name":"v","emptyDir":{}}]"#), Ok(()));
        for secret in [
            r#""imagePullSecrets":[{"name":"s"}]"#,
            r#""volumes":[{"name":"v","projected":{"sources":[{"secret":{"name":"s"}}]}}]"#,
            r#""containers":[{"name":"c","envFrom":[{"secretRef":{"name":"s"}}]}]"#,
        ] {
            assert_eq!(mirror(secret), Err("a mirror pod may not reference secrets".to_owned()), "{secret}");
        }
        let token =
            r#""volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]"#;
        let why = "a mirror pod may not use ServiceAccountToken volume projections";
        assert_eq!(mirror(token), Err(why.to_owned()));
        let why = "a mirror pod may not reference service accounts";
        assert_eq!(mirror(r#""serviceAccountName":"x""#), Err(why.to_owned()));
    }
}
