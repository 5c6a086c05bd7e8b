//! Identities of client certificates.

use aws_lc_rs::digest::{SHA256, digest};
use setpoint_api::Identity;
use thiserror::Error;

use crate::user::CREDENTIAL_ID;

/// Attribute of the subject with the UID of the user.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// Certificate without a usable subject.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CertificateError {
    /// Not a certificate.
    #[error("x509: malformed certificate")]
    Malformed,
    /// The UID is not a string.
    #[error("unable to parse UID into a string")]
    UidType,
    /// The subject has several UIDs.
    #[error("expected 1 UID, but found multiple: [{}]", .0.join(" "))]
    SeveralUids(Vec<String>),
    /// The UID is empty.
    #[error("UID cannot be an empty string")]
    EmptyUid,
}

/// Returns the identity of the holder of a certificate, in DER, that has been verified: the common name is the user,
/// organizations are its groups. `None` if the subject has no common name.
///
/// # Errors
/// If the certificate is malformed, or its UID is invalid.
pub fn identity(der: &[u8]) -> Result<Option<Identity>, CertificateError> {
    let (_, certificate) =
        x509_parser::parse_x509_certificate(der).map_err(|_| CertificateError::Malformed)?;
    let subject = certificate.subject();
    // Of several common names the last one counts, as in Go's parser.
    let name = subject.iter_common_name().filter_map(|name| name.as_str().ok()).last().unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned);
    let mut identity = Identity::new(name, groups.collect());
    let named = subject.iter_attributes().filter(|attribute| attribute.attr_type().to_id_string() == UID_OID);
    let uids = named.map(|attribute| attribute.as_str().map(str::to_owned));
    let mut uids = uids.collect::<Result<Vec<_>, _>>().map_err(|_| CertificateError::UidType)?;
    identity.uid = match uids.len() {
        0 => String::new(),
        1 => uids.pop().filter(|uid| !uid.is_empty()).ok_or(CertificateError::EmptyUid)?,
        _ => return Err(CertificateError::SeveralUids(uids)),
    };
    identity.extra.insert(CREDENTIAL_ID.to_owned(), vec![credential_id(der)]);
    Ok(Some(identity))
}

/// Common name of a certificate in DER; empty if there is none.
#[must_use]
pub fn common_name(der: &[u8]) -> String {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(der) else { return String::new() };
    let names = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    names.last().unwrap_or_default().to_owned()
}

/// Id of a certificate: the hash of its DER form.
#[must_use]
pub fn credential_id(der: &[u8]) -> String {
    let hash = digest(&SHA256, der);
    let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("X509SHA256={hash}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    const UID: [u64; 9] = [1, 3, 6, 1, 4, 1, 57683, 2, 0];

    fn certificate(attributes: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in attributes {
            params.distinguished_name.push(kind.clone(), DnValue::Utf8String((*value).to_owned()));
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    fn uid_type() -> DnType {
        DnType::CustomDnType(UID[..8].to_vec())
    }

    #[test]
    fn subject_gives_user_group_uid_and_credential_id() {
        let der = certificate(&[
            (DnType::CommonName, "ann"),
            (DnType::OrganizationName, "devs"),
            (uid_type(), "u-1"),
        ]);
        let identity = identity(&der).unwrap().unwrap();
        assert_eq!((identity.user.as_str(), identity.uid.as_str()), ("ann", "u-1"));
        assert_eq!(identity.groups, ["devs"]);
        let id = &identity.extra[CREDENTIAL_ID][0];
        assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
    }

    #[test]
    fn subject_without_common_name_has_no_identity() {
        let der = certificate(&[(DnType::OrganizationName, "devs")]);
        assert_eq!(identity(&der), Ok(None));
        assert_eq!(common_name(&der), "");
        let der = certificate(&[(DnType::CommonName, "ann"), (uid_type(), "")]);
        assert_eq!(identity(&der), Err(CertificateError::EmptyUid));
    }

    proptest! {
        #[test]
        fn no_certificate_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0..300usize, flip in 1..=255u8) {
            let _ = identity(&bytes);
            let mut der = certificate(&[(DnType::CommonName, "ann"), (uid_type(), "u")]);
            let at = at % der.len();
            der[at] ^= flip;
            let _ = identity(&der);
            let _ = common_name(&der);
        }
    }
}
