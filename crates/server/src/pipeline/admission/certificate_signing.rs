//! CertificateSigning: the signer of a CertificateSigningRequest needs the permission `sign` for its signer name.

use setpoint_api::Value;
use setpoint_api::status::Status;

use super::{AdmissionInput, Findings};

/// Rejects a change of the certificate or the conditions without the permission.
pub(super) fn validate(request: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    let Some(old) = input.old else { return Ok(()) };
    if !input.is("certificatesigningrequests.certificates.k8s.io", "status") || !is_signed(request, old) {
        return Ok(());
    }
    let signer = old.str_at(&["spec", "signerName"]);
    if input.is_authorized_for_signer("sign", signer) {
        return Ok(());
    }
    Err(input.forbidden(request, &format!("user not permitted to sign requests with signerName {signer:?}")))
}

fn is_signed(new: &Value, old: &Value) -> bool {
    let conditions = |it: &Value| it.at(&["status", "conditions"]).filter(|list| !list.is_empty()).cloned();
    new.str_at(&["status", "certificate"]) != old.str_at(&["status", "certificate"])
        || conditions(new) != conditions(old)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    #[test]
    fn only_an_authorized_signer_sets_the_certificate() {
        let stored = object(r#"{"metadata":{"name":"r"},"spec":{"signerName":"example.org/serving"}}"#);
        let signed = object(
            r#"{"metadata":{"name":"r"},"spec":{"signerName":"example.org/serving"},"status":{"certificate":"eA=="}}"#,
        );
        let sign = |new: &Value, verb: &'static str| {
            let review = Review::update("certificates.k8s.io", "v1", "certificatesigningrequests", &stored)
                .subresource("status")
                .allowing(move |request| request.verb == verb);
            review.run(|input| validate(new, input, &mut Findings::default()))
        };
        assert_eq!(sign(&stored, "none"), Ok(()), "nothing is signed");
        assert_eq!(sign(&signed, "sign"), Ok(()));
        assert_eq!(
            sign(&signed, "approve").unwrap_err().message,
            "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to sign requests with \
             signerName \"example.org/serving\""
        );
    }
}
