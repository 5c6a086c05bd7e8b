//! Validation of projected volumes.

use super::super::internal;
use super::super::paths;
use super::{VolumePaths, check_downward_file, check_key_to_path};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::read::{
    check_optional_selector, list, optional_number, optional_text, present, push_forbidden, push_invalid,
    push_required, require_texts, shown, text, text_entries,
};
use crate::names::{dns, key, metadata};
use crate::quote::Quoted;
use crate::value::Value;

/// Minimum lifetime of a token in seconds.
const TOKEN_SECONDS_MIN: i64 = 10 * 60;
/// Maximum lifetime of a token in seconds.
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
/// Minimum lifetime of a certificate in seconds.
const CERTIFICATE_SECONDS_MIN: i64 = 3600;
/// Maximum lifetime of a certificate in seconds.
const CERTIFICATE_SECONDS_MAX: i64 = 91 * 24 * 60 * 60;
/// Maximum lifetime of a certificate of Kubernetes' own signers in seconds.
const KUBERNETES_CERTIFICATE_SECONDS_MAX: i64 = 24 * 60 * 60;
/// Maximum bytes of a signer name: a domain, a slash, a namespace, a dot, a name.
const SIGNER_BYTES_MAX: usize = 253 + 1 + 63 + 1 + 253;

/// Validates the sources of a projected volume.
pub(super) fn check_sources(errors: &mut ErrorList, path: &Path<'_>, volume: &Value) {
    let mut used_paths = VolumePaths::new();
    let sources_path = path.child("sources");
    for (i, source) in list(volume, "sources").iter().enumerate() {
        let source_path = sources_path.index(i);
        let mut count = 0;
        for field in ["secret", "configMap"] {
            if let Some(files) = present(source, field) {
                count += 1;
                check_keys(errors, path, &source_path.child(field), files, &mut used_paths);
            }
        }
        if let Some(files) = present(source, "downwardAPI") {
            count += 1;
            for file in list(files, "items") {
                check_downward_file(errors, &source_path.child("downwardAPI"), file);
                let file_path = text(file, "path");
                if !file_path.is_empty() {
                    add_file_path(errors, path, &mut used_paths, file_path, file_path);
                }
            }
        }
        if let Some(projection) = present(source, "serviceAccountToken") {
            count += 1;
            check_token(errors, path, &source_path.child("serviceAccountToken"), projection);
        }
        if let Some(bundle) = present(source, "clusterTrustBundle") {
            count += 1;
            check_trust_bundle(errors, &source_path.child("clusterTrustBundle"), bundle);
            let file_path = text(bundle, "path");
            add_file_path(errors, path, &mut used_paths, file_path, file_path);
        }
        if let Some(certificate) = present(source, "podCertificate") {
            count += 1;
            check_pod_certificate(
                errors,
                path,
                &source_path.child("podCertificate"),
                certificate,
                &mut used_paths,
            );
        }
        if count > 1 {
            push_forbidden(errors, &source_path, "may not specify more than 1 volume type per source");
        }
    }
}

/// Adds the path of a file in the volume; an error if another source uses it. `shown` is the value in the error.
fn add_file_path<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    used_paths: &mut VolumePaths<'a>,
    file_path: &'a str,
    shown: &str,
) {
    if !used_paths.insert(file_path) {
        push_invalid(errors, path, shown, "conflicting duplicate paths");
    }
}

fn check_keys<'a>(
    errors: &mut ErrorList,
    volume_path: &Path<'_>,
    path: &Path<'_>,
    files: &'a Value,
    used_paths: &mut VolumePaths<'a>,
) {
    require_texts(errors, path, files, &["name"]);
    let items = path.child("items");
    for (i, item) in list(files, "items").iter().enumerate() {
        check_key_to_path(errors, &items.index(i), item);
        let file_path = text(item, "path");
        if !file_path.is_empty() {
            add_file_path(errors, volume_path, used_paths, file_path, text(files, "name"));
        }
    }
}

fn check_token(errors: &mut ErrorList, volume_path: &Path<'_>, path: &Path<'_>, projection: &Value) {
    let seconds_path = path.child("expirationSeconds");
    match optional_number(projection, "expirationSeconds") {
        None => push_required(errors, &seconds_path, ""),
        Some(seconds) if seconds < TOKEN_SECONDS_MIN => {
            push_invalid(errors, &seconds_path, seconds, "may not specify a duration less than 10 minutes");
        }
        Some(seconds) if seconds > TOKEN_SECONDS_MAX => {
            push_invalid(
                errors,
                &seconds_path,
                seconds,
                "may not specify a duration larger than 2^32 seconds",
            );
        }
        Some(_) => {}
    }
    match text(projection, "path") {
        "" => push_required(errors, &volume_path.child("path"), ""),
        file_path => paths::check_descending_unreserved(errors, &volume_path.child("path"), file_path),
    }
}

fn check_trust_bundle(errors: &mut ErrorList, path: &Path<'_>, bundle: &Value) {
    match (optional_text(bundle, "name"), optional_text(bundle, "signerName")) {
        (Some(_), Some(_)) => {
            let shown = internal::shown(bundle, "ClusterTrustBundleProjection");
            push_invalid(errors, path, shown, "only one of name and signerName may be used");
        }
        (Some(name), None) => {
            if name.is_empty() {
                push_required(errors, &path.child("name"), "must be a valid object name");
            }
            for fault in bundle_name_faults(name) {
                let detail = format!("not a valid clustertrustbundlename: {fault}");
                push_invalid(errors, &path.child("name"), name, detail);
            }
            if let Some(selector) = present(bundle, "labelSelector") {
                let detail = "labelSelector must be unset if name is specified";
                push_invalid(errors, &path.child("labelSelector"), shown(Some(selector)), detail);
            }
        }
        (None, Some(signer)) => {
            if signer.is_empty() {
                push_required(errors, &path.child("signerName"), "must be a valid signer name");
            }
            check_signer_name(errors, &path.child("signerName"), signer);
            check_optional_selector(errors, &path.child("labelSelector"), present(bundle, "labelSelector"));
        }
        (None, None) => push_required(errors, path, "either name or signerName must be specified"),
    }
    require_texts(errors, path, bundle, &["path"]);
    paths::check_descending_unreserved(errors, &path.child("path"), text(bundle, "path"));
}

/// The name of a bundle is prefixed with its signer, with colons in file_path of slashes, or has no colon.
fn bundle_name_faults(name: &str) -> crate::names::Faults {
    match name.rsplit_once(':') {
        // The prefix comes from the name itself, so only the rest can be invalid, unless the prefix contains
        // a slash.
        Some((prefix, rest)) if !prefix.contains('/') => dns::subdomain(rest),
        Some((prefix, _)) => {
            let signer = prefix.replace(':', "/");
            let wanted = signer.replace('/', ":") + ":";
            vec![
                format!("ClusterTrustBundle for signerName {signer} must be named with prefix {wanted}")
                    .into(),
            ]
        }
        None => dns::subdomain(name),
    }
}

fn check_pod_certificate<'a>(
    errors: &mut ErrorList,
    volume_path: &Path<'_>,
    path: &Path<'_>,
    certificate: &'a Value,
    used_paths: &mut VolumePaths<'a>,
) {
    let signer = text(certificate, "signerName");
    check_signer_name(errors, &path.child("signerName"), signer);
    let annotations_path = path.child("userAnnotations");
    let mut bytes = 0;
    for (annotation, value) in text_entries(certificate, "userAnnotations") {
        bytes += annotation.len() + value.len();
        key::domain_prefixed_key(errors, &annotations_path, &annotation.to_lowercase());
    }
    if bytes > metadata::ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(&annotations_path, metadata::ANNOTATIONS_BYTES_MAX));
    }
    let kinds = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    let kind = text(certificate, "keyType");
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("keyType"), kind, &kinds));
    }
    if let Some(seconds) = optional_number(certificate, "maxExpirationSeconds") {
        check_certificate_seconds(errors, &path.child("maxExpirationSeconds"), seconds, signer);
    }
    let mut has_path = false;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let file_path = text(certificate, field);
        if !file_path.is_empty() {
            has_path = true;
            paths::check_descending_unreserved(errors, &path.child(field), file_path);
            add_file_path(errors, volume_path, used_paths, file_path, file_path);
        }
    }
    if !has_path {
        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        push_required(errors, path, detail);
    }
}

fn check_certificate_seconds(errors: &mut ErrorList, path: &Path<'_>, seconds: i64, signer: &str) {
    let host = signer.split_once('/').map_or(signer, |(host, _)| host);
    let is_own = host == "kubernetes.io" || host.ends_with(".kubernetes.io");
    let max = if is_own { KUBERNETES_CERTIFICATE_SECONDS_MAX } else { CERTIFICATE_SECONDS_MAX };
    if seconds < CERTIFICATE_SECONDS_MIN {
        let detail = format!("if provided, maxExpirationSeconds must be >= {CERTIFICATE_SECONDS_MIN}");
        push_invalid(errors, path, seconds, detail);
    }
    if seconds > max {
        push_invalid(errors, path, seconds, format!("if provided, maxExpirationSeconds must be <= {max}"));
    }
}

/// Validates the name of a certificate signer: `example.com/name`.
fn check_signer_name(errors: &mut ErrorList, path: &Path<'_>, signer: &str) {
    if signer.is_empty() {
        return push_required(errors, path, "");
    }
    let (domain, rest) = match signer.split_once('/') {
        Some((domain, rest)) if !rest.contains('/') => (domain, rest),
        _ => {
            let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            return push_invalid(errors, path, signer, detail);
        }
    };
    if domain.len() > dns::SUBDOMAIN_BYTES_MAX {
        errors.push(FieldError::too_long(path, dns::SUBDOMAIN_BYTES_MAX));
    }
    // Only the first invalid part is reported, the other messages would be equal.
    for (of, rule) in [(domain, dns::label as fn(&str) -> _), (rest, dns::subdomain)] {
        let bad = of.split('.').map(|label| (label, rule(label))).find(|(_, faults)| !faults.is_empty());
        for (label, fault) in
            bad.into_iter().flat_map(|(label, faults)| faults.into_iter().map(move |one| (label, one)))
        {
            push_invalid(errors, path, of, format!("validating label {}: {fault}", Quoted(label)));
        }
        if of == domain && !domain.contains('.') {
            let detail = "should be a domain with at least two segments separated by dots";
            push_invalid(errors, path, domain, detail);
        }
    }
    if signer.len() > SIGNER_BYTES_MAX {
        errors.push(FieldError::too_long(path, SIGNER_BYTES_MAX));
    }
}
