//! Environment variables of a container, as far as they are known from its pod.
//!
//! Values from ConfigMaps and Secrets are unknown: the variable's name stands in for its value in texts, and
//! nothing that depends on the value is guessed. A variable that may or may not be set is empty in texts, and
//! nothing that depends on it is guessed either.

use std::collections::BTreeMap;

use setpoint_reconcile::ObjectMeta;

use crate::pod::{Container, EnvVar, Pod};

/// Value of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvValue {
    /// Text to show where it is used.
    pub text: String,
    /// `true` if the text is the actual value.
    pub is_known: bool,
}

impl EnvValue {
    /// Returns a known value.
    #[must_use]
    pub fn known(text: &str) -> EnvValue {
        EnvValue { text: text.to_owned(), is_known: true }
    }

    /// Returns an unknown value with a text to show in its place.
    #[must_use]
    pub fn unknown(text: String) -> EnvValue {
        EnvValue { text, is_known: false }
    }

    /// Returns the unknown value of a variable, shown as its name.
    fn placeholder(name: &str) -> EnvValue {
        EnvValue::unknown(format!("${name}"))
    }
}

/// Set of variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Env {
    variables: BTreeMap<String, EnvValue>,
    /// `true` if other variables may exist.
    may_have_others: bool,
}

/// Maximum bytes of a container's variables and arguments, as limited by the operating system.
pub const ARGUMENT_BYTES_MAX: usize = 2 << 20;

/// Suffixes of service variables.
const SERVICE_SUFFIXES: [&str; 3] = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"];

impl Env {
    /// Returns the variables of a container, bounded to `bytes_left` bytes.
    #[must_use]
    pub fn new(container: &Container, pod: &Pod, meta: &ObjectMeta, mut bytes_left: usize) -> Env {
        let mut env = Env { variables: BTreeMap::new(), may_have_others: !container.env_from.is_empty() };
        for (name, text) in
            [("HOME", "/root"), ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")]
        {
            env.set(name, EnvValue::unknown(text.to_owned()));
        }
        let host = match (pod.spec.host_network, pod.spec.hostname.as_str()) {
            (true, _) => &pod.spec.node_name,
            (false, "") => &*meta.name,
            (false, name) => name,
        };
        env.set("HOSTNAME", EnvValue::known(host));
        for variable in &container.env {
            let mut value = env.resolve(variable, pod, meta, bytes_left);
            match bytes_left.checked_sub(value.text.len()) {
                Some(left) => bytes_left = left,
                None => value = EnvValue::placeholder(&variable.name),
            }
            env.set(&variable.name, value);
        }
        env
    }

    /// Returns the value of a variable, given the earlier ones, bounded to `bytes_left` bytes.
    fn resolve(&self, variable: &EnvVar, pod: &Pod, meta: &ObjectMeta, bytes_left: usize) -> EnvValue {
        let placeholder = || EnvValue::placeholder(&variable.name);
        let Some(source) = &variable.value_from else {
            return EnvValue::known(&self.expand(&variable.value, bytes_left));
        };
        let Some(field) = &source.field_ref else { return placeholder() };
        let path = field.field_path.as_str();
        let keyed = |prefix: &str| path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']");
        match path {
            "metadata.name" => EnvValue::known(&meta.name),
            "metadata.namespace" => EnvValue::known(&meta.namespace),
            "metadata.uid" => EnvValue::known(&meta.uid),
            "spec.nodeName" => EnvValue::known(&pod.spec.node_name),
            // IPs are assigned later, so nothing may depend on them.
            "status.podIP" => EnvValue::unknown(pod.status.pod_ip.clone()),
            "status.hostIP" => EnvValue::unknown(pod.status.host_ip.clone()),
            _ => {
                let label = keyed("metadata.labels").map(|name| meta.labels.get(name));
                let annotation = || keyed("metadata.annotations").map(|name| meta.annotations.get(name));
                let found = label.or_else(annotation);
                found.map_or_else(placeholder, |value| EnvValue::known(value.unwrap_or_default()))
            }
        }
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: EnvValue) {
        self.variables.insert(name.to_owned(), value);
    }

    /// Returns the value of a variable; `None` if it is not set.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<EnvValue> {
        let is_service_variable = SERVICE_SUFFIXES.iter().any(|end| name.ends_with(end));
        self.variables.get(name).cloned().or_else(|| {
            // The variables of the API server's Service exist in every pod.
            let is_set = is_service_variable && name.starts_with("KUBERNETES_");
            let possible =
                || (self.may_have_others || is_service_variable).then(|| EnvValue::unknown(String::new()));
            if is_set { Some(EnvValue::placeholder(name)) } else { possible() }
        })
    }

    /// Returns the value of a variable as a shell expands it: empty if it is not set.
    #[must_use]
    pub fn get(&self, name: &str) -> EnvValue {
        self.find(name).unwrap_or_else(|| EnvValue::known(""))
    }

    /// Estimates its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.variables.iter().map(|(name, value)| name.len() + value.text.len()).sum()
    }

    /// Expands `$(NAME)` in commands and arguments as a kubelet does: `$$` is a plain dollar sign. References
    /// to unknown variables, and to values that would exceed `bytes_left` bytes, stay as they are.
    #[must_use]
    pub fn expand(&self, text: &str, bytes_left: usize) -> String {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        let last_close = text.rfind(')').unwrap_or(0);
        while let Some(at) = rest.find('$') {
            expanded.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                expanded.push('$');
                rest = after;
            } else if text.len() - rest.len() < last_close
                && let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')'))
            {
                let known =
                    self.variables.get(name).filter(|value| value.is_known || !value.text.starts_with('$'));
                let known = known.filter(|value| expanded.len() + value.text.len() <= bytes_left);
                match known.filter(|_| !name.is_empty()) {
                    Some(value) => expanded.push_str(&value.text),
                    None => expanded.extend(["$(", name, ")"]),
                }
                rest = after;
            } else {
                expanded.push('$');
            }
        }
        expanded.push_str(rest);
        expanded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(container: &str) -> Env {
        let container: Container = serde_json::from_str(container).unwrap();
        let meta: ObjectMeta =
            serde_json::from_str(r#"{"name":"web-0","namespace":"shop","labels":{"app":"web"}}"#).unwrap();
        let pod: Pod = serde_json::from_str(r#"{"spec":{"nodeName":"node-3"}}"#).unwrap();
        Env::new(&container, &pod, &meta, ARGUMENT_BYTES_MAX)
    }

    #[test]
    fn commands_are_expanded_as_by_a_kubelet() {
        let env = env(
            r#"{"env":[{"name":"A","value":"1"},{"name":"B","value":"$(A)2"},{"name":"S","valueFrom":{"secretKeyRef":{}}}]}"#,
        );
        for (text, expected) in [
            ("$(A)-$(B)", "1-12"),
            ("$$(A) $$$(A)", "$(A) $1"),
            ("$(NONE) $(S) $A ${A}", "$(NONE) $(S) $A ${A}"),
            ("$(A", "$(A"),
            ("a$", "a$"),
            ("$()", "$()"),
        ] {
            assert_eq!(env.expand(text, ARGUMENT_BYTES_MAX), expected, "{text}");
        }
    }

    #[test]
    fn pod_fields_are_known_and_external_values_are_not() {
        let field = |name: &str, path: &str| {
            format!(r#"{{"name":"{name}","valueFrom":{{"fieldRef":{{"fieldPath":"{path}"}}}}}}"#)
        };
        let fields = [
            field("N", "metadata.name"),
            field("L", "metadata.labels['app']"),
            field("H", "spec.nodeName"),
            field("I", "status.podIP"),
        ];
        let env = env(&format!(
            r#"{{"env":[{}],"envFrom":[{{"configMapRef":{{"name":"x"}}}}]}}"#,
            fields.join(",")
        ));
        assert_eq!(
            ["N", "L", "H", "HOSTNAME"].map(|name| env.get(name).text),
            ["web-0", "web", "node-3", "web-0"]
        );
        assert!(env.get("N").is_known && !env.get("I").is_known && !env.get("OTHER").is_known);
        assert_eq!(Env::default().get("OTHER"), EnvValue::known(""));
        let names = ["OTHER", "WEB_SERVICE_HOST", "KUBERNETES_SERVICE_HOST"];
        assert_eq!(names.map(|name| env.get(name).text), ["", "", "$KUBERNETES_SERVICE_HOST"]);
    }

    #[test]
    fn exponentially_growing_values_are_bounded() {
        let doubling =
            (1..40).map(|at| format!(r#"{{"name":"V{at}","value":"$(V{})$(V{})"}}"#, at - 1, at - 1));
        let all: Vec<String> =
            [r#"{"name":"V0","value":"0123456789"}"#.to_owned()].into_iter().chain(doubling).collect();
        let env = env(&format!(r#"{{"env":[{}]}}"#, all.join(",")));
        assert_eq!(env.get("V3").text.len(), 80);
        assert!(env.size() < ARGUMENT_BYTES_MAX + 10_000, "{}", env.size());
        assert!(env.expand(&"$(V13)".repeat(100_000), 500_000).len() < 500_000 + 600_000);
        assert_eq!(env.expand(&"$(".repeat(500_000), 1), "$(".repeat(500_000), "unterminated references");
        assert_eq!(env.expand("$(V0)$($$", ARGUMENT_BYTES_MAX), "0123456789$($");
    }
}
