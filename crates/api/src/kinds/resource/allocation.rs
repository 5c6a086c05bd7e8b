//! Validation of the status of a ResourceClaim: allocated devices and their state.

use std::collections::BTreeSet;

use super::{Report, claim_spec, name, taint};
use crate::field_error::{BadValue, FieldError, Path};
use crate::json;
use crate::kinds::check;
use crate::names::{dns, ip};
use crate::quote::json_string;
use crate::value::Value;

const RESULTS_MAX: usize = 32;
const RESERVED_MAX: usize = 256;
const BINDING_CONDITIONS_MAX: usize = 4;
const STATUS_CONDITIONS_MAX: usize = 8;
const STATUS_DATA_BYTES_MAX: usize = 10 << 10;
const INTERFACE_NAME_BYTES_MAX: usize = 256;
const HARDWARE_ADDRESS_BYTES_MAX: usize = 128;
const IPS_MAX: usize = 16;

/// Identity of an allocated device: driver, pool, device and share ID.
pub(super) fn device_id(device: &Value) -> [&str; 4] {
    ["driver", "pool", "device", "shareID"].map(|name| check::text(device, name))
}

/// Validates the status of a claim.
pub(super) fn check_status(report: &mut Report, claim: &Value, old: &Value) {
    let (status, old, path) =
        (check::field(claim, "status"), check::field(old, "status"), Path::root("status"));
    let (reserved, at) = (check::list(status, "reservedFor"), path.child("reservedFor"));
    report.check_items(&at, reserved, RESERVED_MAX, |report, path, one| {
        for name in ["resource", "name", "uid"] {
            if check::text(one, name).is_empty() {
                report.handwritten.push(FieldError::required(&path.child(name), ""));
            }
        }
    });
    report.check_unique(&at, reserved, |one| check::text(one, "uid").to_owned());
    let allocation = check::field(status, "allocation");
    let results = check::list(check::field(allocation, "devices"), "results");
    let (devices, at_devices) = (check::list(status, "devices"), path.child("devices"));
    let allocated: BTreeSet<[&str; 4]> = results.iter().map(device_id).collect();
    report.check_items(&at_devices, devices, usize::MAX, |report, path, one| {
        check_device(report, path, one, &allocated)
    });
    report.check_unique(&at_devices, devices, |one| device_id(one).map(str::to_owned));
    if !reserved.is_empty() {
        if allocation.is_null() {
            let detail = "may not be specified when `allocated` is not set";
            report.handwritten.push(FieldError::forbidden(&at, detail));
        } else if claim.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null()) {
            let before: BTreeSet<String> =
                check::list(old, "reservedFor").iter().map(json::to_text).collect();
            if reserved.iter().any(|one| !before.contains(&json::to_text(one))) {
                let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
                report.handwritten.push(FieldError::forbidden(&at, detail));
            }
        }
    }
    let (at, before) = (path.child("allocation"), check::field(old, "allocation"));
    if !before.is_null() && !allocation.is_null() {
        if before != allocation {
            let detail = "field cannot be modified once set";
            report.declarative.push(FieldError::invalid(&at, BadValue::Null, detail));
        }
    } else if !allocation.is_null() {
        check_allocation(report, &at, allocation, claim);
    }
}

fn check_allocation(report: &mut Report, path: &Path<'_>, allocation: &Value, claim: &Value) {
    let requested = claim.at(&["spec", "devices"]).unwrap_or(check::ABSENT);
    let (devices, at) = (check::field(allocation, "devices"), path.child("devices"));
    report.check_items(
        &at.child("results"),
        check::list(devices, "results"),
        RESULTS_MAX,
        |report, path, one| {
            check_result(report, path, one, requested);
        },
    );
    report.check_items(&at.child("config"), check::list(devices, "config"), 64, |report, path, one| {
        match check::text(one, "source") {
            "" => report.declarative.push(FieldError::required(&path.child("source"), "")),
            source => {
                let supported = ["FromClaim", "FromClass"];
                check::check_one_of(&mut report.declarative, &path.child("source"), source, &supported);
            }
        }
        claim_spec::check_request_names(report, path, one, requested);
        claim_spec::check_configuration(report, path, one);
    });
    let selector = check::field(allocation, "nodeSelector");
    if !selector.is_null() {
        check::check_node_selector(&mut report.handwritten, &path.child("nodeSelector"), selector);
    }
}

fn check_result(report: &mut Report, path: &Path<'_>, result: &Value, requested: &Value) {
    claim_spec::check_request_name(report, &path.child("request"), check::text(result, "request"), requested);
    name::check_driver_declarative(report, &path.child("driver"), check::text(result, "driver"));
    name::check_pool_declarative(report, &path.child("pool"), check::text(result, "pool"));
    let device = check::text(result, "device");
    report.handwritten.push_invalid(&path.child("device"), device, dns::label(device));
    check_binding_conditions(report, path, result);
    let at = path.child("tolerations");
    for (i, one) in check::list(result, "tolerations").iter().enumerate() {
        taint::check_toleration(report, &at.index(i), one);
    }
    name::check_share_declarative(report, &path.child("shareID"), check::field(result, "shareID"));
}

/// Validates the binding conditions of a device.
pub(super) fn check_binding_conditions(report: &mut Report, path: &Path<'_>, device: &Value) {
    let names = ["bindingConditions", "bindingFailureConditions"];
    for name in names {
        report.check_items(
            &path.child(name),
            check::list(device, name),
            BINDING_CONDITIONS_MAX,
            |report, path, one| {
                check::check_label_key(&mut report.handwritten, path, one.as_str().unwrap_or_default());
            },
        );
    }
    let [success, failure] = names.map(|name| check::texts(device, name));
    let [success_path, failure_path] = names.map(|name| path.child(name));
    let (mut seen_success, mut seen_failure) = (BTreeSet::new(), BTreeSet::new());
    for (i, one) in success.iter().enumerate().filter(|(_, one)| !seen_success.insert(**one)) {
        report.handwritten.push(FieldError::duplicate(&success_path.index(i), *one));
    }
    for (i, one) in failure.iter().enumerate() {
        if !seen_failure.insert(*one) {
            report.handwritten.push(FieldError::duplicate(&failure_path.index(i), *one));
        }
        if seen_success.contains(one) {
            let detail = "bindingFailureConditions must not overlap with bindingConditions";
            report.handwritten.push(FieldError::invalid(&failure_path.index(i), *one, detail));
        }
    }
    if success.is_empty() && !failure.is_empty() {
        let detail = "bindingConditions are required to use bindingFailureConditions";
        report.handwritten.push(FieldError::invalid(&success_path, BadValue::Null, detail));
    }
    if failure.is_empty() && !success.is_empty() {
        let detail = "bindingFailureConditions are required to use bindingConditions";
        report.handwritten.push(FieldError::invalid(&failure_path, BadValue::Null, detail));
    }
}

fn check_device(report: &mut Report, path: &Path<'_>, device: &Value, allocated: &BTreeSet<[&str; 4]>) {
    let text = |name| check::text(device, name);
    check::check_csi_driver_name(&mut report.handwritten, &path.child("driver"), text("driver"));
    name::check_pool(&mut report.handwritten, &path.child("pool"), text("pool"));
    report.handwritten.push_invalid(&path.child("device"), text("device"), dns::label(text("device")));
    name::check_share_declarative(report, &path.child("shareID"), check::field(device, "shareID"));
    if !allocated.contains(&device_id(device)) {
        let [driver, pool, device, share] =
            ["driver", "pool", "device", "shareID"].map(|name| json_string(text(name)));
        let id = format!(r#"{{"Driver":{driver},"Pool":{pool},"Device":{device},"ShareID":{share}}}"#);
        let detail = "must be an allocated device in the claim";
        report.handwritten.push(FieldError::invalid(path, BadValue::Json(id.into()), detail));
    }
    let conditions = check::list(device, "conditions").len();
    if conditions > STATUS_CONDITIONS_MAX {
        let at = path.child("conditions");
        report.handwritten.push(FieldError::too_many(&at, Some(conditions), STATUS_CONDITIONS_MAX));
    }
    check::check_conditions(&mut report.handwritten, path, device, "conditions");
    if check::is_set(device, "data") {
        let data = check::field(device, "data");
        claim_spec::check_raw(report, &path.child("data"), data, STATUS_DATA_BYTES_MAX);
    }
    check_network_data(report, &path.child("networkData"), check::field(device, "networkData"));
}

fn check_network_data(report: &mut Report, path: &Path<'_>, data: &Value) {
    for (name, max) in
        [("interfaceName", INTERFACE_NAME_BYTES_MAX), ("hardwareAddress", HARDWARE_ADDRESS_BYTES_MAX)]
    {
        if check::text(data, name).len() > max {
            report.declarative.push(FieldError::too_long(&path.child(name), max));
        }
    }
    let (ips, at) = (check::list(data, "ips"), path.child("ips"));
    report.check_items(&at, ips, IPS_MAX, |report, path, one| {
        ip::interface_address(&mut report.handwritten, path, one.as_str().unwrap_or_default());
    });
    report.check_unique(&at, ips, json::to_text);
}
