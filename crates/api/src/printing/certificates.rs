//! Printers of the group `certificates.k8s.io`.

use std::time::Duration;

use super::cell::{age, labels, list, name, or};
use super::{AGE, Column, Doc, NAME, Printer, cells, field, human_duration};
use crate::time::Time;
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "CertificateSigningRequest" => &SIGNING_REQUEST,
        "ClusterTrustBundle" => &TRUST_BUNDLE,
        "PodCertificateRequest" => &POD_REQUEST,
        _ => return None,
    })
}

static SIGNING_REQUEST: Printer = Printer::new(
    &[
        NAME,
        AGE,
        Column::text("SignerName", field!("certificates.v1.CertificateSigningRequestSpec", "signerName")),
        Column::text("Requestor", field!("certificates.v1.CertificateSigningRequestSpec", "username")),
        Column::text(
            "RequestedDuration",
            field!("certificates.v1.CertificateSigningRequestSpec", "expirationSeconds"),
        ),
        Column::text("Condition", field!("certificates.v1.CertificateSigningRequestStatus", "conditions")),
    ],
    |object, now| {
        cells![
            name(object),
            age(object, now),
            or(object.str_at(&["spec", "signerName"]), "<none>"),
            object.str_at(&["spec", "username"]),
            requested(object),
            signing_status(object),
        ]
    },
);

fn requested(object: &Value) -> String {
    match object.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64) {
        Some(seconds) => {
            let end = Time::EPOCH.after(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
            human_duration(Time::EPOCH, end)
        }
        None => "<none>".to_owned(),
    }
}

fn signing_status(object: &Value) -> String {
    let conditions = list(object, &["status", "conditions"]);
    let has = |kind: &str| conditions.iter().any(|condition| condition.str_at(&["type"]) == kind);
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if object.str_at(&["status", "certificate"]).is_empty() { "" } else { ",Issued" };
    format!("{decision}{failed}{issued}")
}

static TRUST_BUNDLE: Printer = Printer::new(
    &[NAME, Column::text("SignerName", field!("certificates.v1.ClusterTrustBundleSpec", "signerName"))],
    |object, _| cells![name(object), or(object.str_at(&["spec", "signerName"]), "<none>")],
);

static POD_REQUEST: Printer = Printer::new(
    &[
        NAME,
        Column::text("PodName", field!("certificates.v1.PodCertificateRequestSpec", "podName")),
        Column::text(
            "ServiceAccountName",
            field!("certificates.v1.PodCertificateRequestSpec", "serviceAccountName"),
        ),
        Column::text("NodeName", field!("certificates.v1.PodCertificateRequestSpec", "nodeName")),
        Column::text("SignerName", field!("certificates.v1.PodCertificateRequestSpec", "signerName")),
        Column::text("State", Doc::Own("State of the request: Pending, Issued, Denied or Failed.")),
        Column::text(
            "UnverifiedUserAnnotations",
            field!("certificates.v1.PodCertificateRequestSpec", "unverifiedUserAnnotations"),
        ),
    ],
    |object, _| {
        let conditions = list(object, &["status", "conditions"]).iter().rev();
        let state = conditions
            .map(|condition| condition.str_at(&["type"]))
            .find(|kind| matches!(*kind, "Issued" | "Denied" | "Failed"));
        let spec = |field: &str| object.str_at(&["spec", field]);
        cells![
            name(object),
            spec("podName"),
            spec("serviceAccountName"),
            spec("nodeName"),
            spec("signerName"),
            state.unwrap_or("Pending"),
            labels(object.at(&["spec", "unverifiedUserAnnotations"])),
        ]
    },
);
