//! Encoding of usage samples as objects, lists and tables.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::printing::table::{
    IncludeObject, ListMeta, MetaVersion, partial, write_partial, write_partial_list,
};
use setpoint_api::quantity::{Format, Quantity};
use setpoint_api::resource_types::api_version;
use setpoint_api::rfc3339::Seconds;
use setpoint_api::status::Status;
use setpoint_api::{Map, Time, Value, json, value};
use setpoint_runtime::queries::usage::UsageSample;

use crate::discovery::usage::{GROUP, VERSION, kind};
use crate::exchange::Response;
use crate::media::Representation;
use crate::query::QueryParams;
use crate::responses::{self, table_options};

/// Responds with one sample.
pub(super) fn answer_one(
    plural: &str,
    sample: &UsageSample,
    view: Representation,
    query: &QueryParams,
    now: Time,
) -> Result<Response, Status> {
    let plain = object(plural, sample, now);
    let mut whole = Map::new();
    whole.insert("kind", kind(plural));
    whole.insert("apiVersion", api_version(GROUP, VERSION));
    for (field, value) in plain.as_map().into_iter().flat_map(Map::iter) {
        whole.insert(field, value.clone());
    }
    let whole = Value::from(whole);
    match view {
        Representation::Whole => Ok(to_response(&whole, query)),
        Representation::Table(version) => Ok(to_response(&table(&[(sample, whole)], query, version)?, query)),
        Representation::Metadata(version) | Representation::MetadataList(version) => {
            let mut out = Vec::new();
            write_partial(&whole, version, &mut out);
            Ok(responses::json_bytes(200, vec![out.into()]))
        }
    }
}

/// Responds with a list of samples.
pub(super) fn answer_list(
    plural: &str,
    samples: &[UsageSample],
    view: Representation,
    query: &QueryParams,
    now: Time,
) -> Result<Response, Status> {
    let objects = samples.iter().map(|sample| object(plural, sample, now));
    match view {
        Representation::Whole => {
            let items: Vec<Value> = objects.collect();
            let list = value!({
                "kind": (format!("{}List", kind(plural))),
                "apiVersion": (api_version(GROUP, VERSION)),
                "metadata": {},
                "items": (items),
            });
            Ok(to_response(&list, query))
        }
        Representation::Table(version) => {
            let rows: Vec<(&UsageSample, Value)> = samples.iter().zip(objects).collect();
            Ok(to_response(&table(&rows, query, version)?, query))
        }
        Representation::Metadata(version) | Representation::MetadataList(version) => {
            let (objects, mut out): (Vec<Value>, _) = (objects.collect(), Vec::new());
            write_partial_list(&objects, ListMeta::default(), version, &mut out);
            Ok(responses::json_bytes(200, vec![out.into()]))
        }
    }
}

fn to_response(value: &Value, query: &QueryParams) -> Response {
    if query.flag("pretty") != Some(true) {
        return responses::document(value);
    }
    let mut out = Vec::new();
    json::write_pretty(value, &mut out);
    responses::json_bytes(200, vec![out.into()])
}

fn object(plural: &str, sample: &UsageSample, now: Time) -> Value {
    let mut metadata = Map::with_capacity(4);
    metadata.insert("name", sample.name.as_str());
    if !sample.namespace.is_empty() {
        metadata.insert("namespace", sample.namespace.as_str());
    }
    metadata.insert("creationTimestamp", Seconds(now).to_string());
    if !sample.labels.is_empty() {
        let labels = sample.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        metadata.insert("labels", labels.collect::<Map>());
    }
    let mut object = value!({
        "metadata": (metadata),
        "timestamp": (Seconds(sample.timestamp).to_string()),
        "window": (go_duration(sample.window)),
    });
    let fields = object.make_map();
    if plural == "nodes" {
        let usage = sample.containers.values().next().map(quantities).unwrap_or_default();
        fields.insert("usage", usage);
    } else {
        let container = |(name, usage): (&String, &BTreeMap<String, i64>)| value!({"name": (name.as_str()), "usage": (quantities(usage))});
        fields.insert("containers", sample.containers.iter().map(container).collect::<Vec<Value>>());
    }
    object
}

fn quantities(usage: &BTreeMap<String, i64>) -> Map {
    let mut map = Map::with_capacity(usage.len());
    for (resource, thousandths) in usage {
        map.insert(resource.as_str(), quantity(resource, *thousandths));
    }
    map
}

/// Formats an amount in the unit of its resource.
fn quantity(resource: &str, thousandths: i64) -> String {
    match resource {
        "cpu" => Quantity::milli(thousandths, Format::DecimalSi).to_string(),
        _ => Quantity::new(thousandths / 1000, Format::BinarySi).to_string(),
    }
}

/// Formats whole seconds as a Go duration: `1m30s`.
fn go_duration(window: Duration) -> String {
    match (window.as_secs() / 60, window.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

/// A table with one column per measured resource.
fn table(rows: &[(&UsageSample, Value)], query: &QueryParams, version: MetaVersion) -> Result<Value, Status> {
    let include = table_options(query, version)?.include;
    let resources: BTreeSet<&str> = rows
        .iter()
        .flat_map(|(sample, _)| sample.containers.values())
        .flat_map(|usage| usage.keys().map(String::as_str))
        .collect();
    let mut table = value!({"kind": "Table", "apiVersion": (version.api_version()), "metadata": {}});
    let fields = table.make_map();
    if rows.is_empty() {
        fields.insert("columnDefinitions", Value::Null);
        fields.insert("rows", Value::Null);
        return Ok(table);
    }
    let column = |name: &str, format: &str, description: &str| {
        value!({
            "name": (name), "type": "string", "format": (format), "description": (description), "priority": 0,
        })
    };
    let mut columns = vec![column("Name", "name", "Name of the resource")];
    columns.extend(resources.iter().map(|resource| column(resource, "quantity", "")));
    columns.push(column("Window", "duration", ""));
    fields.insert("columnDefinitions", columns);
    let row = |(sample, object): &(&UsageSample, Value)| {
        let mut cells = vec![Value::from(sample.name.as_str())];
        cells.extend(resources.iter().map(|resource| {
            let amounts = sample.containers.values().filter_map(|usage| usage.get(*resource));
            Value::from(quantity(resource, amounts.fold(0i64, |sum, amount| sum.saturating_add(*amount))))
        }));
        cells.push(Value::from(go_duration(sample.window)));
        let embedded = match include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial(object, version),
            IncludeObject::Object => object.clone(),
        };
        value!({"cells": (cells), "object": (embedded)})
    };
    fields.insert("rows", rows.iter().map(row).collect::<Vec<Value>>());
    Ok(table)
}
