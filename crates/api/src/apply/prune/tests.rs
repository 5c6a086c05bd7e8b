//! Comparison of one-pass pruning with upstream's algorithm.

use proptest::prelude::*;

use super::super::field_set::FieldPath;
use super::super::managers::ManagedOperation;
use super::super::writer::OneVersion;
use super::*;
use crate::json;
use crate::schema::builtin;
use crate::time::Time;

/// Sets of paths into the objects below, members and non-members.
fn sets() -> impl Strategy<Value = FieldSet> {
    let field = |names: &[&str]| FieldPath::from_fields(names);
    let below = |item: &str, field: Option<&str>| {
        let mut path = FieldPath::from_fields(&["spec", "containers"]).0;
        path.push(Element::key(vec![("name".into(), item.into())]));
        path.extend(field.map(Element::field));
        FieldPath(path)
    };
    let mut all = vec![
        field(&["metadata"]),
        field(&["metadata", "labels"]),
        field(&["metadata", "labels", "a"]),
        field(&["metadata", "labels", "b"]),
        field(&["spec"]),
        field(&["spec", "hostname"]),
        field(&["spec", "nodeSelector"]),
        field(&["spec", "containers"]),
        field(&["spec", "securityContext"]),
        field(&["spec", "securityContext", "runAsUser"]),
    ];
    for item in ["a", "b", "c"] {
        all.extend([below(item, None), below(item, Some("name")), below(item, Some("image"))]);
    }
    let count = all.len();
    prop::sample::subsequence(all, 0..=count).prop_map(move |paths| {
        let mut set = FieldSet::from_paths(&paths);
        // The owner of an item owns its key.
        for item in ["a", "b", "c"].into_iter().filter(|item| paths.contains(&below(item, None))) {
            set.insert(&below(item, Some("name")));
        }
        set
    })
}

fn objects() -> impl Strategy<Value = Value> {
    let parts = vec![
        r#""metadata":{"labels":{"a":"1","b":"2"}}"#,
        r#""spec":{"hostname":"h","nodeSelector":{"x":"y"},"securityContext":{"runAsUser":1,"runAsGroup":2},"containers":[{"name":"a","image":"i","imagePullPolicy":"Always"},{"name":"b","image":"j"}]}"#,
        r#""spec":{"securityContext":{"runAsUser":1},"containers":[{"name":"b","image":"i"},{"name":"a"},{"name":"b","image":"j"}]}"#,
        r#""metadata":{"labels":{"b":"2"}},"spec":{"containers":[{"name":"c"}]}"#,
    ];
    prop::sample::select(parts)
        .prop_map(|part| json::parse(format!(r#"{{"kind":"Pod",{part}}}"#).as_bytes()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn one_pass_pruning_equals_pruning_by_version(
        object in objects(), fields in sets(), last in sets(), others in prop::collection::vec(sets(), 0..3)
    ) {
        let of = builtin().kind("", "v1", "Pod").unwrap();
        let versions = OneVersion { api_version: "v1", of: of.into(), filter: None };
        let writer = ApplyContext { versions: &versions, api_version: "v1", of: of.into(), subresource: "", manager: "m", now: Time::EPOCH };
        let entry = |at: usize, fields: FieldSet| Entry {
            manager: format!("m{at}").into(),
            operation: ManagedOperation::Update,
            api_version: "v1".into(),
            subresource: "".into(),
            time: None,
            fields: fields.into(),
        };
        let mut managers = Managers::default();
        others.into_iter().enumerate().for_each(|(at, set)| managers.put(entry(at, set)));
        let last = entry(9, last);
        let (mut short, mut long) = (object.clone(), object);
        let owned: Vec<&FieldSet> = managers.entries().iter().map(|entry| &*entry.fields).chain([&fields]).collect();
        Pruner { in_last: false, gone: false }.prune_value(&mut short, Type::Kind(of), &last.fields, &owned);
        prune_versions(&writer, &mut long, &managers, &fields, &last);
        prop_assert_eq!(json::to_text(&short), json::to_text(&long));
    }
}
