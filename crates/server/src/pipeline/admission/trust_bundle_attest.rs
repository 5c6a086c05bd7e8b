//! ClusterTrustBundleAttest: the author of a bundle for a signer needs the permission `attest` for the signer.

use setpoint_api::Value;
use setpoint_api::status::Status;

use super::{AdmissionInput, Findings};

/// Metadata that storage migration and garbage collection change.
const GARBAGE_COLLECTED: [&str; 5] =
    ["ownerReferences", "finalizers", "selfLink", "managedFields", "resourceVersion"];

/// Rejects a bundle for a signer without the permission.
pub(super) fn validate(bundle: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    if input.request.resource_type.resource.as_str() != "clustertrustbundles.certificates.k8s.io" {
        return Ok(());
    }
    let signer = bundle.str_at(&["spec", "signerName"]);
    if signer.is_empty()
        || input.old.is_some_and(|old| is_equal_but_for_garbage_collection(bundle, old))
        || input.is_authorized_for_signer("attest", signer)
    {
        return Ok(());
    }
    Err(input.forbidden(bundle, &format!("user not permitted to attest for signerName {signer:?}")))
}

fn is_equal_but_for_garbage_collection(new: &Value, old: &Value) -> bool {
    let compared = |object: &Value| {
        let mut object = object.clone();
        let metadata = object.ensure_map("metadata");
        GARBAGE_COLLECTED.into_iter().for_each(|field| drop(metadata.remove(field)));
        object
    };
    compared(new) == compared(old)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    #[test]
    fn author_of_a_bundle_attests_for_its_signer() {
        let bundle = |more: &str, text: &str| {
            object(&format!(
                r#"{{"metadata":{{"name":"example.org:s:b"{more}}},"spec":{{"signerName":"example.org/s","trustBundle":"{text}"}}}}"#
            ))
        };
        let stored = bundle("", "x");
        let review = || Review::update("certificates.k8s.io", "v1", "clustertrustbundles", &stored);
        let check = |new: &Value, is_allowed: bool| {
            let review = review().allowing(move |request| is_allowed && request.verb == "attest");
            review.run(|input| validate(new, input, &mut Findings::default()))
        };
        assert_eq!(check(&bundle("", "y"), true), Ok(()));
        assert_eq!(check(&bundle(r#","finalizers":["a/b"]"#, "x"), false), Ok(()));
        assert_eq!(
            check(&bundle("", "y"), false).unwrap_err().message,
            "clustertrustbundles.certificates.k8s.io \"example.org:s:b\" is forbidden: user not permitted to attest for \
             signerName \"example.org/s\""
        );
    }
}
