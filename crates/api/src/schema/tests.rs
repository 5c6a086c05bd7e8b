//! Comparison of the schema table with the source tables.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::json;

fn definition(name: &str) -> Struct<'static> {
    let full = format!("io.k8s.api.{name}");
    builtin().definition(&full).unwrap_or_else(|| panic!("no definition {full}"))
}

fn field(definition_name: &str, name: &str) -> Field<'static> {
    definition(definition_name).field(name).unwrap_or_else(|| panic!("no field {definition_name}.{name}"))
}

/// Source tables, parsed by a minimal parser: definition, field, rest of the line.
fn written() -> Vec<(String, String, String)> {
    let mut lines = Vec::new();
    let mut paths: Vec<_> = std::fs::read_dir("tables").unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.file_name().unwrap() != "resources");
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let prefix = text.split(' ').nth(1).unwrap();
        let mut definition = String::new();
        for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
            if let Some((name, rest)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
                definition = format!("{prefix}.{name}");
                lines.push((definition.clone(), String::new(), rest.to_owned()));
            } else if let Some((name, rest)) = line.split_once(' ') {
                lines.push((definition.clone(), name.to_owned(), rest.to_owned()));
            }
        }
    }
    lines
}

fn attribute<'a>(rest: &'a str, key: &str) -> Option<&'a str> {
    rest.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// Markers of a field in the syntax of the source tables.
fn markers_of(field: Field<'_>) -> (Option<String>, Option<String>, Option<String>) {
    let ty = field.ty();
    let keys = ty.list_keys().collect::<Vec<_>>().join(",");
    let list = ty.list_type().map(|kind| match kind {
        ListType::Atomic => "atomic".to_owned(),
        ListType::Set => "set".to_owned(),
        ListType::Map => format!("map:{keys}"),
    });
    let map =
        ty.map_type().map(|kind| if kind == MapType::Atomic { "atomic" } else { "granular" }.to_owned());
    let PatchStrategy { merge, retain_keys, replace } = field.patch_strategy();
    let words = [(merge, "merge"), (retain_keys, "retainKeys"), (replace, "replace")];
    let words: Vec<&str> = words.into_iter().filter_map(|(set, word)| set.then_some(word)).collect();
    let key = field.merge_key().map_or(String::new(), |key| format!(":{key}"));
    (list, map, Some(words.join(",") + &key).filter(|patch| !patch.is_empty()))
}

#[test]
fn every_table_line_is_in_the_schema() {
    let lines = written();
    assert!(lines.len() > 2500, "{}", lines.len());
    for (definition, name, rest) in &lines {
        let found = builtin().definition(definition).unwrap_or_else(|| panic!("{definition}"));
        if name.is_empty() {
            assert_eq!(found.map_type().is_some(), rest.contains("map="), "{definition}");
            continue;
        }
        let field = found.field(name).unwrap_or_else(|| panic!("{definition} {name}"));
        let own = |key| attribute(rest, key).map(str::to_owned);
        assert_eq!(markers_of(field), (own("list"), own("map"), own("patch")), "{definition} {name}");
        let values: Vec<String> = field.values().map(|value| value.replace(' ', "~")).collect();
        assert_eq!(own("enum").unwrap_or_default(), values.join(","), "{definition} {name}");
        assert_eq!(rest.split_once("default=").map(|(_, json)| json), field.default_json());
        let mut words = rest.split(' ');
        let numbers: Vec<String> = field.embedded_numbers().iter().map(ToString::to_string).collect();
        let number = field.number().map_or("-".to_owned(), |number| number.to_string());
        let numbers = if numbers.is_empty() { number } else { format!("{}/{number}", numbers.join("/")) };
        assert_eq!(words.next(), Some(numbers.as_str()), "{definition} {name}");
        let flags = [
            (field.omits_empty(), 'o'),
            (field.omits_zero(), 'z'),
            (field.is_pointer(), 'p'),
            (field.distinguishes_empty(), 'e'),
        ];
        let flags: String = flags.into_iter().filter_map(|(set, flag)| set.then_some(flag)).collect();
        assert_eq!(
            words.next(),
            Some(if flags.is_empty() { "-" } else { flags.as_str() }),
            "{definition} {name}"
        );
    }
}

#[test]
fn well_known_markers_are_present() {
    for (definition, name, list, patch) in [
        ("core.v1.PodSpec", "containers", "map:name", "merge:name"),
        ("core.v1.PodSpec", "initContainers", "map:name", "merge:name"),
        ("core.v1.PodSpec", "ephemeralContainers", "map:name", "merge:name"),
        ("core.v1.PodSpec", "volumes", "map:name", "merge,retainKeys:name"),
        ("core.v1.PodSpec", "imagePullSecrets", "map:name", "merge:name"),
        ("core.v1.PodSpec", "hostAliases", "map:ip", "merge:ip"),
        ("core.v1.PodSpec", "tolerations", "atomic", ""),
        (
            "core.v1.PodSpec",
            "topologySpreadConstraints",
            "map:topologyKey,whenUnsatisfiable",
            "merge:topologyKey",
        ),
        ("core.v1.PodSpec", "schedulingGates", "map:name", "merge:name"),
        ("core.v1.Container", "ports", "map:containerPort,protocol", "merge:containerPort"),
        ("core.v1.Container", "env", "map:name", "merge:name"),
        ("core.v1.Container", "envFrom", "atomic", ""),
        ("core.v1.Container", "args", "atomic", ""),
        ("core.v1.Container", "command", "atomic", ""),
        ("core.v1.Container", "volumeMounts", "map:mountPath", "merge:mountPath"),
        ("core.v1.Container", "volumeDevices", "map:devicePath", "merge:devicePath"),
        ("core.v1.ServiceSpec", "ports", "map:port,protocol", "merge:port"),
        ("core.v1.ServiceSpec", "externalIPs", "atomic", ""),
        ("core.v1.ServiceSpec", "clusterIPs", "atomic", ""),
        ("core.v1.NamespaceSpec", "finalizers", "atomic", ""),
        ("core.v1.NodeSpec", "taints", "atomic", ""),
        ("core.v1.NodeSpec", "podCIDRs", "set", "merge"),
        ("core.v1.NodeStatus", "conditions", "map:type", "merge:type"),
        ("core.v1.NodeStatus", "addresses", "map:type", "merge:type"),
        ("core.v1.PodStatus", "podIPs", "map:ip", "merge:ip"),
        ("core.v1.PodStatus", "hostIPs", "atomic", "merge:ip"),
        ("core.v1.PodStatus", "containerStatuses", "atomic", ""),
        ("core.v1.ServiceAccount", "secrets", "map:name", "merge:name"),
        ("core.v1.ServiceAccount", "imagePullSecrets", "atomic", ""),
        ("apps.v1.DeploymentStatus", "conditions", "map:type", "merge:type"),
        ("apps.v1.DeploymentSpec", "strategy", "", "retainKeys"),
        ("apps.v1.StatefulSetSpec", "volumeClaimTemplates", "atomic", ""),
        ("batch.v1.JobStatus", "conditions", "atomic", "merge:type"),
        ("networking.v1.IngressSpec", "rules", "atomic", ""),
        ("rbac.v1.Role", "rules", "atomic", ""),
    ] {
        let (found_list, _, found_patch) = markers_of(field(definition, name));
        assert_eq!(found_list.unwrap_or_default(), list, "{definition} {name}");
        assert_eq!(found_patch.unwrap_or_default(), patch, "{definition} {name}");
    }
    let owners = builtin().meta("ObjectMeta").unwrap().field("ownerReferences").unwrap();
    assert_eq!(owners.ty().list_keys().collect::<Vec<_>>(), ["uid"]);
    assert_eq!(builtin().meta("OwnerReference").unwrap().map_type(), Some(MapType::Atomic));
    assert!(field("core.v1.PodSpec", "nodeSelector").ty().is_atomic());
    assert!(field("core.v1.ServiceSpec", "selector").ty().is_atomic());
    assert!(!builtin().meta("ObjectMeta").unwrap().field("labels").unwrap().ty().is_atomic());
}

#[test]
fn list_map_keys_have_their_defaults() {
    let ports = field("core.v1.Container", "ports").ty();
    assert_eq!(ports.list_key_default("protocol"), Some("\"TCP\""));
    assert_eq!(ports.list_key_default("containerPort"), None);
    assert_eq!(field("core.v1.ServiceSpec", "ports").ty().list_key_default("protocol"), Some("\"TCP\""));
}

#[test]
fn protobuf_numbers_are_unique_in_their_message() {
    for definition in builtin().definitions() {
        let mut seen = BTreeSet::new();
        for field in definition.fields() {
            if let Some(number) = field.number() {
                assert!(seen.insert((field.embedded_numbers(), number)), "{definition:?} {field:?}");
            }
        }
    }
    let volume = definition("core.v1.Volume");
    let host_path = volume.field("hostPath").unwrap();
    assert_eq!((host_path.embedded_numbers(), host_path.number()), (&[2][..], Some(1)));
    assert_eq!(host_path.embedded_path(), "VolumeSource");
    let rule = field("admissionregistration.v1.NamedRuleWithOperations", "apiGroups");
    assert_eq!((rule.embedded_numbers(), rule.number()), (&[2, 2][..], Some(1)));
    assert_eq!(rule.embedded_path(), "RuleWithOperations.Rule");
    assert_eq!(definition("core.v1.Pod").field_by_number(2).unwrap().name(), "spec");
    assert_eq!(field("core.v1.Pod", "kind").number(), None);
}

#[test]
fn every_protobuf_field_has_a_number() {
    // Tables are not served as protobuf; `kind` and `apiVersion` are in the envelope.
    for definition in builtin().definitions().filter(|of| !of.name().starts_with("Table")) {
        for field in definition.fields().filter(|field| !matches!(field.name(), "kind" | "apiVersion")) {
            assert!(field.number().is_some(), "{definition:?} {field:?}");
        }
    }
}

#[test]
fn shapes_match_the_json_form() {
    for (definition, name, shape, go) in [
        ("core.v1.Secret", "type", Shape::String, "v1.SecretType"),
        ("core.v1.ContainerPort", "containerPort", Shape::Int32, "int32"),
        ("core.v1.PodSpec", "activeDeadlineSeconds", Shape::Int64, "int64"),
        ("core.v1.ServicePort", "targetPort", Shape::IntOrString, "intstr.IntOrString"),
        ("core.v1.ResourceFieldSelector", "divisor", Shape::Quantity, "resource.Quantity"),
        ("coordination.v1.LeaseSpec", "renewTime", Shape::MicroTime, "v1.MicroTime"),
        ("core.v1.PodStatus", "startTime", Shape::Time, "v1.Time"),
        ("apps.v1.ControllerRevision", "data", Shape::Raw, "runtime.RawExtension"),
        ("certificates.v1.CertificateSigningRequestSpec", "request", Shape::Bytes, "[]uint8"),
        ("core.v1.Secret", "immutable", Shape::Bool, "bool"),
    ] {
        let ty = field(definition, name).ty();
        assert_eq!((ty.shape(), ty.go_type()), (shape, go), "{definition} {name}");
    }
    let data = field("core.v1.Secret", "data").ty();
    assert!(matches!(data.shape(), Shape::Map(of) if of.shape() == Shape::Bytes));
    let limits = field("core.v1.ResourceRequirements", "limits").ty();
    assert_eq!(limits.go_type(), "v1.ResourceList");
    assert!(matches!(limits.shape(), Shape::Map(of) if of.go_type() == "resource.Quantity"));
    let Shape::Map(extra) = field("authentication.v1.UserInfo", "extra").ty().shape() else { panic!() };
    assert!(extra.is_wrapped());
}

#[test]
fn descriptions_and_required_fields_are_present() {
    let pod_spec = definition("core.v1.PodSpec");
    assert!(!pod_spec.description().is_empty());
    assert!(pod_spec.field("containers").unwrap().is_required());
    assert!(!pod_spec.field("volumes").unwrap().is_required());
    assert!(!pod_spec.field("nodeName").unwrap().description().is_empty());
    assert!(pod_spec.field("nodename").is_none());
}

#[test]
fn fields_are_found_by_name_and_keep_encoding_order() {
    for definition in builtin().definitions() {
        for (index, field) in definition.fields().enumerate() {
            assert_eq!(definition.position(field.name()), Some(index));
        }
    }
    let names: Vec<&str> = definition("core.v1.Pod").fields().map(Field::name).collect();
    assert_eq!(names, ["kind", "apiVersion", "metadata", "spec", "status"]);
}

#[test]
fn schema_defaults_are_valid_json() {
    let mut defaults = BTreeMap::new();
    for definition in builtin().definitions() {
        for field in definition.fields() {
            if let Some(text) = field.default_json() {
                defaults.insert((definition.name(), field.name()), json::parse(text.as_bytes()).unwrap());
            }
        }
    }
    assert_eq!(defaults[&("ContainerPort", "protocol")], "TCP".into());
    assert_eq!(defaults[&("ReplicationControllerSpec", "replicas")], 1.into());
}

#[test]
fn meta_types_are_found_by_their_short_name() {
    for name in ["Status", "DeleteOptions", "ObjectMeta", "Table", "PartialObjectMetadata", "APIGroupList"] {
        assert_eq!(builtin().meta(name).unwrap().name(), name);
    }
    assert!(builtin().meta("Pod").is_none());
    assert!(builtin().kind("", "v1", "Nothing").is_none());
    assert_eq!(
        builtin().kind("apps", "v1", "Deployment").unwrap().definition(),
        "io.k8s.api.apps.v1.Deployment"
    );
}
