//! Environment variables of a container, as far as they are known from its pod.
//!
//! Values from ConfigMaps and Secrets are unknown: the variable's name stands in for its value in texts, and
//! nothing that depends on the value is guessed. A variable that may or may not be set is empty in texts, and
//! nothing that depends on it is guessed either.

use std::collections::BTreeMap;

use setpoint_reconcile::ObjectMeta;

use crate::pod::{Container, Pod, Variable};

/// Value of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value {
    /// Text to show where it is used.
    pub text: String,
    /// `true` if the text is the actual value.
    pub sure: bool,
}

impl Value {
    /// Returns a known value.
    #[must_use]
    pub fn sure(text: &str) -> Value {
        Value { text: text.to_owned(), sure: true }
    }

    /// Returns an unknown value with a text to show in its place.
    #[must_use]
    pub fn unsure(text: String) -> Value {
        Value { text, sure: false }
    }

    /// Returns the unknown value of a variable, shown as its name.
    fn elsewhere(name: &str) -> Value {
        Value::unsure(format!("${name}"))
    }
}

/// Set of variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Env {
    known: BTreeMap<String, Value>,
    /// `true` if other variables may exist.
    is_open: bool,
}

/// Maximum bytes of a container's variables and arguments, as limited by the operating system.
pub const ROOM: usize = 2 << 20;

/// Suffixes of service variables.
const SERVICE: [&str; 3] = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"];

impl Env {
    /// Returns the variables of a container, bounded to `room` bytes.
    #[must_use]
    pub fn of(container: &Container, pod: &Pod, meta: &ObjectMeta, mut room: usize) -> Env {
        let mut env = Env { known: BTreeMap::new(), is_open: !container.env_from.is_empty() };
        for (name, text) in
            [("HOME", "/root"), ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")]
        {
            env.set(name, Value::unsure(text.to_owned()));
        }
        let host = match (pod.spec.host_network, pod.spec.hostname.as_str()) {
            (true, _) => &pod.spec.node_name,
            (false, "") => &*meta.name,
            (false, name) => name,
        };
        env.set("HOSTNAME", Value::sure(host));
        for variable in &container.env {
            let mut value = env.value(variable, pod, meta, room);
            match room.checked_sub(value.text.len()) {
                Some(left) => room = left,
                None => value = Value::elsewhere(&variable.name),
            }
            env.set(&variable.name, value);
        }
        env
    }

    /// Returns the value of a variable, given the earlier ones, bounded to `room` bytes.
    fn value(&self, variable: &Variable, pod: &Pod, meta: &ObjectMeta, room: usize) -> Value {
        let elsewhere = || Value::elsewhere(&variable.name);
        let Some(source) = &variable.value_from else {
            return Value::sure(&self.expand(&variable.value, room));
        };
        let Some(field) = &source.field_ref else { return elsewhere() };
        let path = field.field_path.as_str();
        let keyed = |prefix: &str| path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']");
        match path {
            "metadata.name" => Value::sure(&meta.name),
            "metadata.namespace" => Value::sure(&meta.namespace),
            "metadata.uid" => Value::sure(&meta.uid),
            "spec.nodeName" => Value::sure(&pod.spec.node_name),
            // IPs are assigned later, so nothing may depend on them.
            "status.podIP" => Value::unsure(pod.status.pod_ip.clone()),
            "status.hostIP" => Value::unsure(pod.status.host_ip.clone()),
            _ => {
                let label = keyed("metadata.labels").map(|name| meta.labels.get(name));
                let annotation = || keyed("metadata.annotations").map(|name| meta.annotations.get(name));
                let found = label.or_else(annotation);
                found.map_or_else(elsewhere, |value| Value::sure(value.unwrap_or_default()))
            }
        }
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: Value) {
        self.known.insert(name.to_owned(), value);
    }

    /// Returns the value of a variable; `None` if it is not set.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Value> {
        let tells_of_service = SERVICE.iter().any(|end| name.ends_with(end));
        self.known.get(name).cloned().or_else(|| {
            // The variables of the API server's Service exist in every pod.
            let is_set = tells_of_service && name.starts_with("KUBERNETES_");
            let may_be = || (self.is_open || tells_of_service).then(|| Value::unsure(String::new()));
            if is_set { Some(Value::elsewhere(name)) } else { may_be() }
        })
    }

    /// Returns the value of a variable as a shell expands it: empty if it is not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Value {
        self.find(name).unwrap_or_else(|| Value::sure(""))
    }

    /// Estimates its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.known.iter().map(|(name, value)| name.len() + value.text.len()).sum()
    }

    /// Expands `$(NAME)` in commands and arguments as a kubelet does: `$$` is a plain dollar sign. References
    /// to unknown variables, and to values that would exceed `room` bytes, stay as they are.
    #[must_use]
    pub fn expand(&self, text: &str, room: usize) -> String {
        let mut whole = String::with_capacity(text.len());
        let mut rest = text;
        let last_close = text.rfind(')').unwrap_or(0);
        while let Some(at) = rest.find('$') {
            whole.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                whole.push('$');
                rest = after;
            } else if text.len() - rest.len() < last_close
                && let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')'))
            {
                let known = self.known.get(name).filter(|value| value.sure || !value.text.starts_with('$'));
                let known = known.filter(|value| whole.len() + value.text.len() <= room);
                match known.filter(|_| !name.is_empty()) {
                    Some(value) => whole.push_str(&value.text),
                    None => whole.extend(["$(", name, ")"]),
                }
                rest = after;
            } else {
                whole.push('$');
            }
        }
        whole.push_str(rest);
        whole
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
        Env::of(&container, &pod, &meta, ROOM)
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
            assert_eq!(env.expand(text, ROOM), expected, "{text}");
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
        assert!(env.get("N").sure && !env.get("I").sure && !env.get("OTHER").sure);
        assert_eq!(Env::default().get("OTHER"), Value::sure(""));
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
        assert!(env.size() < ROOM + 10_000, "{}", env.size());
        assert!(env.expand(&"$(V13)".repeat(100_000), 500_000).len() < 500_000 + 600_000);
        assert_eq!(env.expand(&"$(".repeat(500_000), 1), "$(".repeat(500_000), "unterminated references");
        assert_eq!(env.expand("$(V0)$($$", ROOM), "0123456789$($");
    }
}
