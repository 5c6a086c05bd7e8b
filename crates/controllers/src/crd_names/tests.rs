//! Tests of names of custom resources in a control plane.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use setpoint_api::value;
use setpoint_api::value::Value;
use setpoint_sim::cluster::Cluster;

use super::*;
use crate::testing;

/// A control plane with the controllers of every server.
pub(crate) fn cluster() -> Cluster {
    seeded(7)
}

fn seeded(seed: u64) -> Cluster {
    Cluster::new(|| (crd::server_controllers(), crate::indexes::all()), seed)
}

/// Definition of a resource, with these names besides the plural and the kind.
pub(crate) fn definition(plural: &str, group: &str, names: Value) -> Value {
    let mut all = names;
    let kind = format!("Kind{plural}");
    let map = all.make_map();
    map.insert("plural", plural);
    map.ensure("kind", || kind.as_str().into());
    let schema = value!({"openAPIV3Schema": {"type": "object"}});
    value!({
        "metadata": {"name": (format!("{plural}.{group}"))},
        "spec": {
            "group": (group), "scope": "Namespaced", "names": (all),
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": (schema)}],
        },
    })
}

pub(crate) fn create(cluster: &mut Cluster, plural: &str, group: &str, names: Value) {
    cluster.create(DEFINITIONS, "", definition(plural, group, names));
}

pub(crate) fn condition_of(cluster: &Cluster, name: &str, kind: &str) -> String {
    testing::condition(cluster, DEFINITIONS, name, kind)
}

fn accepted(cluster: &Cluster, name: &str) -> Value {
    let object = cluster.get(DEFINITIONS, name).unwrap();
    object.at(&["status", "acceptedNames"]).cloned().unwrap_or_default()
}

/// Removes a definition, with its finalizers if it has any.
fn remove(cluster: &mut Cluster, name: &str) {
    let released = value!({"metadata": {"finalizers": []}});
    cluster.patch(DEFINITIONS, name, "", released).unwrap();
    let _ = cluster.delete(DEFINITIONS, name, &value!({}));
}

const ESTABLISHED: &str = "True InitialNamesAccepted the initial names have been accepted";
const ACCEPTED: &str = "True NoConflicts no conflicts found";

#[test]
fn definition_without_conflicts_is_established_with_its_names() {
    let mut cluster = cluster();
    create(&mut cluster, "foos", "example.com", value!({"shortNames": ["fo"], "categories": ["all"]}));
    cluster.settle();
    let name = "foos.example.com";
    assert_eq!(condition_of(&cluster, name, "NamesAccepted"), ACCEPTED);
    assert_eq!(condition_of(&cluster, name, "Established"), ESTABLISHED);
    let stored = cluster.get(DEFINITIONS, name).unwrap();
    assert_eq!(Some(&accepted(&cluster, name)), stored.at(&["spec", "names"]));
    cluster.assert_quiet();
    cluster.run(Duration::from_secs(600));
    let later = cluster.get(DEFINITIONS, name).unwrap();
    assert_eq!(stored.at(&["metadata", "resourceVersion"]), later.at(&["metadata", "resourceVersion"]));
}

#[test]
fn conflicts_name_the_name_in_use_and_free_names_are_accepted() {
    let mut cluster = cluster();
    create(&mut cluster, "foos", "example.com", value!({"singular": "foo", "shortNames": ["f", "g"]}));
    cluster.settle();
    let cases = [
        (value!({"singular": "foo"}), "SingularConflict \"foo\" is already in use"),
        (value!({"shortNames": ["h", "g"]}), "ShortNamesConflict \"g\" is already in use"),
        (
            value!({"shortNames": ["f", "g"]}),
            "ShortNamesConflict [\"f\" is already in use, \"g\" is already in use]",
        ),
        (value!({"shortNames": ["foos"]}), "ShortNamesConflict \"foos\" is already in use"),
        (value!({"kind": "Kindfoos"}), "ListKindConflict \"KindfoosList\" is already in use"),
        (value!({"kind": "Kindfoos", "listKind": "L"}), "KindConflict \"Kindfoos\" is already in use"),
    ];
    for (number, (names, expected)) in cases.into_iter().enumerate() {
        let (plural, name) = (format!("bars{number}"), format!("bars{number}.example.com"));
        create(&mut cluster, &plural, "example.com", names);
        cluster.settle();
        assert_eq!(condition_of(&cluster, &name, "NamesAccepted"), format!("False {expected}"));
        assert_eq!(
            condition_of(&cluster, &name, "Established"),
            "False NotAccepted not all names are accepted"
        );
        assert_eq!(accepted(&cluster, &name).str_at(&["plural"]), plural, "free names are accepted");
        cluster.assert_quiet();
    }
    create(&mut cluster, "foos", "example.org", value!({"singular": "foo", "shortNames": ["f"]}));
    cluster.settle();
    assert_eq!(condition_of(&cluster, "foos.example.org", "NamesAccepted"), ACCEPTED, "another group");
}

#[test]
fn established_definition_stays_established_when_its_new_names_conflict() {
    let mut cluster = cluster();
    create(&mut cluster, "foos", "example.com", value!({"shortNames": ["f"]}));
    create(&mut cluster, "bars", "example.com", value!({}));
    cluster.settle();
    let name = "bars.example.com";
    cluster.patch(DEFINITIONS, name, "", value!({"spec": {"names": {"shortNames": ["f"]}}})).unwrap();
    cluster.settle();
    assert_eq!(
        condition_of(&cluster, name, "NamesAccepted"),
        "False ShortNamesConflict \"f\" is already in use"
    );
    assert_eq!(condition_of(&cluster, name, "Established"), ESTABLISHED);
    let other = value!({"spec": {"names": {"shortNames": ["b"]}}});
    cluster.patch(DEFINITIONS, name, "", other).unwrap();
    cluster.settle();
    assert_eq!(condition_of(&cluster, name, "NamesAccepted"), ACCEPTED);
    cluster.assert_quiet();
}

#[test]
fn released_name_goes_to_the_oldest_that_requests_it() {
    let mut cluster = cluster();
    for plural in ["zoos", "bars", "foos"] {
        create(&mut cluster, plural, "example.com", value!({"shortNames": ["s"]}));
        cluster.settle();
        cluster.run(Duration::from_secs(2));
    }
    let holder = |cluster: &Cluster| holders(cluster)["resource/s"].clone();
    assert_eq!(holder(&cluster), ["zoos.example.com"]);
    let released = value!({"spec": {"names": {"shortNames": ["z"]}}});
    cluster.patch(DEFINITIONS, "zoos.example.com", "", released).unwrap();
    cluster.settle();
    assert_eq!(holder(&cluster), ["bars.example.com"]);
    remove(&mut cluster, "bars.example.com");
    cluster.settle();
    assert_eq!(holder(&cluster), ["foos.example.com"]);
    assert_eq!(condition_of(&cluster, "foos.example.com", "Established"), ESTABLISHED);
    cluster.assert_quiet();
}

#[test]
fn invalid_ca_bundle_of_the_conversion_webhook_delays_establishment() {
    let mut cluster = cluster();
    let mut object = definition("foos", "example.com", value!({}));
    let webhook = |bundle: &str| {
        value!({
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://localhost/convert", "caBundle": (bundle)},
        })
    };
    let conversion = value!({"strategy": "Webhook", "webhook": (webhook("bm90IGEgY2VydGlmaWNhdGU="))});
    object.ensure_map("spec").insert("conversion", conversion);
    cluster.create(DEFINITIONS, "", object);
    cluster.settle();
    let name = "foos.example.com";
    assert_eq!(condition_of(&cluster, name, "NamesAccepted"), ACCEPTED);
    assert_eq!(
        condition_of(&cluster, name, "Established"),
        "False InvalidCABundle The conversion webhook CABundle is invalid"
    );
    cluster.assert_quiet();
    let repaired = value!({"spec": {"conversion": {"webhook": (webhook(testing::CERTIFICATE))}}});
    cluster.patch(DEFINITIONS, name, "", repaired).unwrap();
    cluster.settle();
    assert_eq!(condition_of(&cluster, name, "Established"), ESTABLISHED);
}

/// Definitions by each accepted name, with its space.
fn holders(cluster: &Cluster) -> BTreeMap<String, Vec<String>> {
    let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for object in cluster.list(DEFINITIONS) {
        let names = object.at(&["status", "acceptedNames"]).cloned().unwrap_or_default();
        let short = names.get("shortNames").and_then(Value::as_list).unwrap_or_default().to_vec();
        let mut all: BTreeSet<String> = BTreeSet::new();
        for (space, field) in
            [("resource", "plural"), ("resource", "singular"), ("kind", "kind"), ("kind", "listKind")]
        {
            all.insert(format!("{space}/{}", names.str_at(&[field])));
        }
        all.extend(short.iter().filter_map(Value::as_str).map(|name| format!("resource/{name}")));
        for name in all {
            holders.entry(name).or_default().push(object.str_at(&["metadata", "name"]).to_owned());
        }
    }
    holders
}

/// Checks that each name has one holder at most, and that every name that a definition requests has one.
fn check_holders(cluster: &Cluster) {
    let holders = holders(cluster);
    for (name, by) in holders.iter().filter(|(name, _)| !name.ends_with('/')) {
        assert_eq!(by.len(), 1, "{name} is held by {by:?}");
    }
    for object in cluster.list(DEFINITIONS) {
        let requested = object.at(&["spec", "names", "shortNames"]).and_then(Value::as_list);
        for name in requested.unwrap_or_default().iter().filter_map(Value::as_str) {
            // A definition with a conflict among its short names gets none of them.
            let is_alone = requested.is_some_and(|names| names.len() == 1);
            assert!(!is_alone || holders.contains_key(&format!("resource/{name}")), "{name} is free");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_order_ends_with_one_holder_per_name(
        steps in prop::collection::vec((0..5_usize, 0..3_usize, 0..4_u8, any::<bool>()), 1..24),
        seed in any::<u64>(),
    ) {
        let plurals = ["as", "bs", "cs", "ds", "es"];
        let mut cluster = seeded(seed);
        for (which, short, action, settles) in steps {
            let (plural, short) = (plurals[which], ["x", "y", "as"][short]);
            let name = format!("{plural}.example.com");
            let names = value!({"shortNames": [(short)], "kind": (if short == "y" { "Shared" } else { plural })});
            match (cluster.get(DEFINITIONS, &name).is_some(), action) {
                (false, _) => create(&mut cluster, plural, "example.com", names),
                (true, 0) => remove(&mut cluster, &name),
                (true, 1) => cluster.crash_after(2),
                (true, _) => {
                    let patch = value!({"spec": {"names": {"shortNames": [(short)]}}});
                    cluster.patch(DEFINITIONS, &name, "", patch).unwrap();
                }
            }
            if settles {
                cluster.run_steps(3, |_| ());
            }
            for (name, by) in holders(&cluster).iter().filter(|(name, _)| !name.ends_with('/')) {
                prop_assert_eq!(by.len(), 1, "{} is held by {:?}", name, by);
            }
        }
        cluster.run(Duration::from_secs(120));
        check_holders(&cluster);
        cluster.assert_quiet();
    }
}
