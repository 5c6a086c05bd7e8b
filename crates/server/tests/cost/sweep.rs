//! Cost of every list and map of every kind: in creates, updates and status updates.

use std::collections::BTreeSet;

use http::Method;
use setpoint_api::resources::{self, ResourceInfo, Verb};
use setpoint_api::schema::builtin;
use setpoint_api::{Value, json};
use setpoint_sim::cost::callgrind::Shard;
use setpoint_sim::cost::{PLAIN, is_long_run, measure_growth, report};

use crate::bases;
use crate::generate::{Place, Variant, fill, places};
use crate::meter::{Call, Meter};

/// Kinds of the short campaign, which is part of every test run: lists of strings and of structs, with and without keys,
/// maps, and nested lists.
const SHORT: [&str; 6] = ["ConfigMap", "Service", "Ingress", "NetworkPolicy", "EndpointSlice", "ClusterRole"];

/// Kinds whose base object is not stored, with the status code. CustomResourceDefinitions are left out: the measured API
/// does not serve them.
pub fn not_stored(meter: &Meter) -> Vec<(&'static str, u16)> {
    let updated = in_order().into_iter().filter(|info| info.verbs.contains(Verb::Update));
    let with_schema = updated.filter(|info| builtin().kind(&info.group, &info.version, &info.kind).is_some());
    let served = with_schema.filter(|info| info.kind != "CustomResourceDefinition");
    let codes = served.map(|info| (&*info.kind, stored(meter, info, &bases::base(info)).1));
    codes.filter(|(_, code)| !is_stored(*code)).collect()
}

/// Entries of [`RULES_PER_KIND`] that match no list, or only lists that are measured without them.
pub fn unneeded_exceptions() -> Vec<(&'static str, &'static str)> {
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    let mut needed: BTreeSet<(&str, &str)> = BTreeSet::new();
    for info in in_order() {
        let Some(of) = builtin().kind(&info.group, &info.version, &info.kind) else { continue };
        for place in places(of) {
            let is_shared = !seen.insert(place.identity.clone());
            let text = place.text();
            let own =
                RULES_PER_KIND.iter().filter(|(kind, start)| *kind == info.kind && text.starts_with(start));
            needed.extend(own.filter(|_| is_shared));
        }
    }
    RULES_PER_KIND.into_iter().filter(|own| !needed.contains(own)).collect()
}

/// Measures the lists of a shard.
pub fn run(meter: &mut Meter, shard: Shard) {
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    let mut number = 0;
    for info in in_order() {
        let Some(of) = builtin().kind(&info.group, &info.version, &info.kind) else { continue };
        let base = bases::base(info);
        let mut stored = None;
        for place in places(of) {
            // A definition that several kinds share, as that of pod specs, has the same rules in all of them.
            let is_new = seen.insert(place.identity.clone());
            let is_measured = is_new || has_rules_per_kind(&info.kind, &place);
            let is_short = is_new && SHORT.contains(&&*info.kind);
            if !is_measured || !(is_long_run() || is_short) {
                continue;
            }
            number += 1;
            if !shard.contains(number) || !is_selected(&info.kind, &place) {
                continue;
            }
            let stored = stored.get_or_insert_with(|| store(meter, info, &base));
            for variant in Variant::ALL {
                // In the short campaign each variant is sent once: refused objects stop early, and stored ones are
                // compared, so both requests are tried for each list.
                if is_long_run() || variant != Variant::Distinct {
                    create(meter, info, &base, &place, variant);
                }
                if let Some(stored) =
                    stored.as_ref().filter(|_| is_long_run() || variant == Variant::Distinct)
                {
                    update(meter, info, stored, &place, variant);
                }
            }
        }
    }
}

/// Shared lists for which a kind has additional rules: kind, and prefix of the path.
const RULES_PER_KIND: [(&str, &str); 8] = [
    ("Deployment", "spec.selector"),
    ("ReplicaSet", "spec.selector"),
    ("DaemonSet", "spec.selector"),
    ("StatefulSet", "spec.selector"),
    ("StatefulSet", "spec.volumeClaimTemplates.spec.accessModes"),
    ("Job", "spec.selector"),
    ("Job", "spec.template.metadata.labels"),
    ("PersistentVolume", "spec.nodeAffinity"),
];

fn has_rules_per_kind(kind: &str, place: &Place) -> bool {
    let text = place.text();
    RULES_PER_KIND.iter().any(|(listed, start)| *listed == kind && text.starts_with(start))
}

/// `true` if `Kind path` contains `SETPOINT_COST_ONLY`, which selects single cases.
fn is_selected(kind: &str, place: &Place) -> bool {
    let part = std::env::var("SETPOINT_COST_ONLY").unwrap_or_default();
    format!("{kind} {}", place.text()).contains(&part)
}

/// Kinds to measure, Pod first: definitions that pods share with pod templates are then measured at the smaller depth.
fn in_order() -> Vec<&'static ResourceInfo> {
    let mut all: Vec<&ResourceInfo> = resources::all().iter().collect();
    all.sort_by_key(|info| info.kind != "Pod");
    all.retain(|info| info.verbs.contains(Verb::Create));
    all
}

fn collection(info: &ResourceInfo) -> String {
    let group = if info.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", info.group) };
    let namespace = if info.namespaced { "/namespaces/default" } else { "" };
    format!("{group}/{}{namespace}/{}", info.version, info.plural)
}

/// Stores the base object under another name, for updates; `None` if the kind is not stored or cannot be updated.
fn store(meter: &Meter, info: &ResourceInfo, base: &Value) -> Option<Value> {
    let (stored, code) = stored(meter, info, base);
    (is_stored(code) && info.verbs.contains(Verb::Update)).then_some(stored)
}

/// `true` if the object is stored; 409 means that another version of its kind has stored it.
fn is_stored(code: u16) -> bool {
    matches!(code, 201 | 409)
}

/// Returns the object that is stored for updates, and the status code.
fn stored(meter: &Meter, info: &ResourceInfo, base: &Value) -> (Value, u16) {
    let mut stored = base.clone();
    stored.ensure_map("metadata").insert("name", bases::stored_name(info));
    let (code, text) = meter.call(Call::new(Method::POST, &collection(info), json::to_vec(&stored)));
    if !is_stored(code) {
        println!("{} is not stored: {code} {}", info.kind, String::from_utf8_lossy(&text));
    }
    (stored, code)
}

fn with_elements(object: &Value, place: &Place, variant: Variant, len: usize) -> Vec<u8> {
    let mut object = object.clone();
    fill(&mut object, place, variant, len);
    json::to_vec(&object)
}

fn create(meter: &mut Meter, info: &ResourceInfo, base: &Value, place: &Place, variant: Variant) {
    if place.is_status() {
        return;
    }
    let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(info));
    let mut codes = BTreeSet::new();
    let growth = measure_growth(PLAIN, meter, &mut |meter, len| {
        let (code, count) =
            meter.count(Call::new(Method::POST, &path, with_elements(base, place, variant, len)));
        codes.insert(code);
        count
    });
    report(&format!("{} {} {variant:?} create {codes:?}", info.kind, place.text()), &growth);
}

fn update(meter: &mut Meter, info: &ResourceInfo, stored: &Value, place: &Place, variant: Variant) {
    let part = match place.is_status() {
        true if info.subresource("status").is_none() => return,
        true => "/status",
        false => "",
    };
    let path = format!("{}/{}{part}?dryRun=All", collection(info), bases::stored_name(info));
    let mut codes = BTreeSet::new();
    let growth = measure_growth(PLAIN, meter, &mut |meter, len| {
        let (code, count) =
            meter.count(Call::new(Method::PUT, &path, with_elements(stored, place, variant, len)));
        codes.insert(code);
        count
    });
    report(&format!("{} {} {variant:?} update {codes:?}", info.kind, place.text()), &growth);
}
