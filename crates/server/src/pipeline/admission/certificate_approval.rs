//! CertificateApproval: the approver of a CertificateSigningRequest needs the permission `approve` for its signer.

use setpoint_api::Value;
use setpoint_api::status::Status;

use super::{AdmissionInput, Findings};

/// Rejects an approval without the permission. The signer is that of the stored object.
pub(super) fn validate(request: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    if !input.is("certificatesigningrequests.certificates.k8s.io", "approval") {
        return Ok(());
    }
    let signer = input.old.unwrap_or(request).str_at(&["spec", "signerName"]);
    if input.is_authorized_for_signer("approve", signer) {
        return Ok(());
    }
    Err(input
        .forbidden(request, &format!("user not permitted to approve requests with signerName {signer:?}")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    #[test]
    fn approver_needs_the_permission_for_the_signer_or_its_domain() {
        let stored = object(r#"{"metadata":{"name":"r"},"spec":{"signerName":"example.org/serving"}}"#);
        let approve = |allowed: &'static str| {
            let review = Review::update("certificates.k8s.io", "v1", "certificatesigningrequests", &stored)
                .subresource("approval")
                .allowing(move |request| {
                    (request.verb, request.group, request.resource)
                        == ("approve", "certificates.k8s.io", "signers")
                        && request.name == allowed
                });
            review.run(|input| validate(&stored, input, &mut Findings::default()))
        };
        assert_eq!(approve("example.org/serving"), Ok(()));
        assert_eq!(approve("example.org/*"), Ok(()));
        assert_eq!(
            approve("example.org/client").unwrap_err().message,
            "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to approve requests \
             with signerName \"example.org/serving\""
        );
    }
}
