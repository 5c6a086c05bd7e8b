//! ServiceAccount: the identity of a pod.

use crate::field_error::ErrorList;
use crate::kinds::Rules;
use crate::metadata::entry;
use crate::value::{Map, Value};

const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// Rules of ServiceAccount.
pub struct ServiceAccount;

impl Rules for ServiceAccount {
    fn prepare_create(&self, object: &mut Value) {
        clean_secrets(object);
    }

    fn prepare_update(&self, new: &mut Value, _old: &Value) {
        clean_secrets(new);
    }

    fn validate(&self, _object: &Value, _errors: &mut ErrorList) {}

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let has = |object: &Value| entry(object, "annotations", ENFORCE_MOUNTABLE_SECRETS).is_some();
        if !has(new) || old.is_some_and(has) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    }
}

/// Keeps only the name of secret references, which are always in the same namespace.
fn clean_secrets(object: &mut Value) {
    let Some(Value::List(secrets)) = object.get_mut("secrets") else { return };
    for secret in secrets.iter_mut().filter_map(Value::as_map_mut) {
        let name = secret.remove("name");
        let name = name.filter(|name| !name.is_empty());
        *secret = name.map(|name| ("name", name)).into_iter().collect::<Map>();
    }
}
