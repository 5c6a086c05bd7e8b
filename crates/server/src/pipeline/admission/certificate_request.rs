//! CertificateSubjectRestriction: no request of a client certificate is for `system:masters`.
//!
//! [`validate_fields`] belongs to the rules of the kind: requests and certificates are well formed.

use setpoint_api::Value;
use setpoint_api::field_error::{BadValue, ErrorList, FieldError, Path};
use setpoint_api::status::Status;
use setpoint_pki::x509::{CertificateRequest, ParseX509Error, invalid_certificate_error};

use super::{AdmissionInput, Findings};

/// Signer of client certificates.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Group that no signed certificate may contain.
const ADMINISTRATORS: &str = "system:masters";

/// Validates a new request, and new certificates. The kind's own rules check their PEM encoding.
pub fn validate_fields(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let request = object.str_at(&["spec", "request"]);
    if old.is_none()
        && let Err(fault) = CertificateRequest::from_base64(request)
        && fault != ParseX509Error::Wrapping
    {
        let (spec, value) = (Path::root("spec"), BadValue::json_string(request));
        errors.push(FieldError::invalid(&spec.child("request"), value, fault.to_string()));
    }
    let certificate = object.str_at(&["status", "certificate"]);
    let kept = old.map(|old| old.str_at(&["status", "certificate"])).unwrap_or_default();
    if certificate != kept
        && invalid_certificate_error(kept).is_none()
        && let Some(fault) = invalid_certificate_error(certificate)
    {
        let status = Path::root("status");
        errors.push(FieldError::invalid(&status.child("certificate"), "<certificate data>", fault));
    }
}

/// Rejects a client certificate request for `system:masters`.
pub(super) fn validate(object: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    if !input.is("certificatesigningrequests.certificates.k8s.io", "") {
        return Ok(());
    }
    check_subject(object).map_err(|why| input.forbidden(object, &why))
}

fn check_subject(object: &Value) -> Result<(), String> {
    if object.str_at(&["spec", "signerName"]) != CLIENT_SIGNER {
        return Ok(());
    }
    let request = CertificateRequest::from_base64(object.str_at(&["spec", "request"]));
    let request = request.map_err(|fault| format!("failed to parse CSR: {fault}"))?;
    if request.organizations.iter().any(|group| group == ADMINISTRATORS) {
        return Err(format!("use of {CLIENT_SIGNER} signer with {ADMINISTRATORS} group is not allowed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use setpoint_api::value;

    use super::*;

    fn request(organization: &str) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
        request.pem().unwrap().into_bytes()
    }

    fn object(pem: &[u8], signer: &str, certificate: &str) -> Value {
        let status = value!({"certificate": (STANDARD.encode(certificate))});
        value!({"spec": {"request": (STANDARD.encode(pem)), "signerName": (signer)}, "status": (status)})
    }

    #[test]
    fn certificate_request_for_masters_is_rejected() {
        let refused = check_subject(&object(&request("system:masters"), CLIENT_SIGNER, ""));
        let words =
            "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
        assert_eq!(refused, Err(words.to_owned()));
        assert_eq!(check_subject(&object(&request("people"), CLIENT_SIGNER, "")), Ok(()));
        assert_eq!(check_subject(&object(&request("system:masters"), "example.org/s", "")), Ok(()));
    }

    #[test]
    fn only_new_errors_are_reported() {
        let faults = |new: &Value, old: Option<&Value>| {
            let mut errors = ErrorList::new();
            validate_fields(new, old, &mut errors);
            errors.to_string()
        };
        let bad = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
        let bad = object(bad.as_bytes(), "example.org/s", "");
        assert!(faults(&bad, None).contains("spec.request: Invalid value: "), "{}", faults(&bad, None));
        assert!(faults(&bad, None).contains("asn1: structure error: "));
        assert_eq!(faults(&bad, Some(&bad)), "[]");
        let good = object(&request("people"), "example.org/s", "");
        assert_eq!(faults(&good, None), "[]");
        let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let signed = object(&request("people"), "example.org/s", no_certificate);
        assert!(faults(&signed, Some(&good)).contains("x509: malformed certificate"));
        assert_eq!(faults(&signed, Some(&signed)), "[]");
    }
}
