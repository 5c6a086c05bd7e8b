//! The variables of a container, as far as they are known from its pod.
//!
//! What comes from elsewhere, a ConfigMap or a Secret, is not: then a text keeps the name of the variable, and what
//! depends on its value is not guessed. Nor is what depends on a variable of which nobody knows whether there is one,
//! but a text has nothing in its place, as with one that is not set.

use std::collections::BTreeMap;

use setpoint_reconcile::Meta;

use crate::pod::{Container, Pod, Variable};

/// The value of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value {
    /// What people read where it is used.
    pub text: String,
    /// Whether it is known.
    pub sure: bool,
}

impl Value {
    /// A value that is known.
    #[must_use]
    pub fn sure(text: &str) -> Value {
        Value { text: text.to_owned(), sure: true }
    }

    /// One that nobody knows here, though people may read this in its place.
    #[must_use]
    pub fn unsure(text: String) -> Value {
        Value { text, sure: false }
    }

    /// The value of a variable that is not known here.
    fn elsewhere(name: &str) -> Value {
        Value::unsure(format!("${name}"))
    }
}

/// Variables with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Env {
    known: BTreeMap<String, Value>,
    /// Whether there are others.
    is_open: bool,
}

/// How many bytes the variables of a container take at most, and its words: no system gives a program more.
pub const ROOM: usize = 2 << 20;

/// How the names of variables end that tell of services.
const SERVICE: [&str; 3] = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"];

impl Env {
    /// The variables of a container of a pod, where these have so many bytes.
    #[must_use]
    pub fn of(container: &Container, pod: &Pod, meta: &Meta, mut room: usize) -> Env {
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

    /// What is said of a variable, where those before it are known and there is room for so many bytes.
    fn value(&self, variable: &Variable, pod: &Pod, meta: &Meta, room: usize) -> Value {
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
            // These come with time, so nothing may depend on them.
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

    /// Gives a variable a value.
    pub fn set(&mut self, name: &str, value: Value) {
        self.known.insert(name.to_owned(), value);
    }

    /// The value of a variable; nothing if it has none.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Value> {
        let tells_of_service = SERVICE.iter().any(|end| name.ends_with(end));
        self.known.get(name).cloned().or_else(|| {
            // Every pod is told where the API server is.
            let is_set = tells_of_service && name.starts_with("KUBERNETES_");
            let may_be = || (self.is_open || tells_of_service).then(|| Value::unsure(String::new()));
            if is_set { Some(Value::elsewhere(name)) } else { may_be() }
        })
    }

    /// The value of a variable as a shell sees it: one that has none is empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Value {
        self.find(name).unwrap_or_else(|| Value::sure(""))
    }

    /// Estimates its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.known.iter().map(|(name, value)| name.len() + value.text.len()).sum()
    }

    /// A text with `$(NAME)` replaced as nodes do it in commands and arguments: `$$` is a plain dollar sign, and the name
    /// of what nobody knows stays, and of what is too long for a text of so many bytes.
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
        let meta: Meta =
            serde_json::from_str(r#"{"name":"web-0","namespace":"shop","labels":{"app":"web"}}"#).unwrap();
        let pod: Pod = serde_json::from_str(r#"{"spec":{"nodeName":"node-3"}}"#).unwrap();
        Env::of(&container, &pod, &meta, ROOM)
    }

    #[test]
    fn commands_are_expanded_as_nodes_do_it() {
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
    fn what_a_pod_says_of_itself_is_known_and_what_others_say_is_not() {
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
    fn values_that_grow_without_end_are_left_out() {
        let doubling =
            (1..40).map(|at| format!(r#"{{"name":"V{at}","value":"$(V{})$(V{})"}}"#, at - 1, at - 1));
        let all: Vec<String> =
            [r#"{"name":"V0","value":"0123456789"}"#.to_owned()].into_iter().chain(doubling).collect();
        let env = env(&format!(r#"{{"env":[{}]}}"#, all.join(",")));
        assert_eq!(env.get("V3").text.len(), 80);
        assert!(env.size() < ROOM + 10_000, "{}", env.size());
        assert!(env.expand(&"$(V13)".repeat(100_000), 500_000).len() < 500_000 + 600_000);
        assert_eq!(env.expand(&"$(".repeat(500_000), 1), "$(".repeat(500_000), "what ends nowhere");
        assert_eq!(env.expand("$(V0)$($$", ROOM), "0123456789$($");
    }
}
