//! Client certificates of users, signed by the CA of a data directory without a server.
//!
//! The certificate names the user and the groups, as kube-apiserver reads them: the common name and the organizations.
//! Start at [`issue`].

use std::path::Path;
use std::time::Duration;

use rcgen::{KeyPair, PublicKeyData};
use setpoint_api::Time;
use yasna::models::ObjectIdentifier;
use yasna::{DERWriterSeq, construct_der};

use super::signing::{Signer, SigningRequest};
use super::{CertError, inspect, load_authority, validity_of};
use crate::x509::{CertificateRequest, SubjectAltNames};

pub use super::signing::{LIFETIME_MAX, LIFETIME_MIN};

/// Key usages of the certificates of users.
const USAGES: [&str; 2] = ["digital signature", "client auth"];
/// Maximum number of characters in a common name or an organization (X.520).
pub const NAME_CHARACTERS_MAX: usize = 64;

/// Certificate of a user, with its key, in PEM.
pub struct UserCertificate {
    /// Certificate of the CA.
    pub ca: String,
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
    /// End of the validity: that of the CA, if it is earlier than requested.
    pub end: Time,
}

/// Issues a client certificate for a user in these groups, signed by the CA in `dir`.
///
/// # Errors
/// If there is no usable CA in `dir`.
pub fn issue(
    dir: &Path,
    (name, groups): (&str, &[String]),
    lifetime: Duration,
    now: Time,
    entropy: [u64; 2],
) -> Result<UserCertificate, CertError> {
    let missing = || CertError::Authority {
        path: dir.join("ca.crt"),
        problem: "is missing".to_owned(),
        remedy: "run `setpoint up` once on this data directory, which makes an authority".to_owned(),
    };
    let authority = load_authority(dir, now)?.ok_or_else(missing)?;
    let key = KeyPair::generate()?;
    let csr = CertificateRequest {
        subject: subject(name, groups),
        public_key: key.subject_public_key_info(),
        common_name: name.to_owned(),
        organizations: groups.to_vec(),
        names: SubjectAltNames::default(),
    };
    let request = SigningRequest { csr: &csr, usages: &USAGES, lifetime: Some(lifetime) };
    let certificate = Signer::new(&authority)?.sign(&request, now, entropy)?;
    let end = inspect(&certificate, |parsed| validity_of(parsed).1).unwrap_or(now);
    Ok(UserCertificate { ca: authority.certificate, certificate, key: key.serialize_pem(), end })
}

/// Encodes a subject: the organizations, then the common name.
fn subject(name: &str, groups: &[String]) -> Vec<u8> {
    construct_der(|writer| {
        writer.write_sequence(|names| {
            groups.iter().for_each(|group| write_name(names, 10, group));
            write_name(names, 3, name);
        });
    })
}

/// Writes an attribute of the 2.5.4 arc.
fn write_name(names: &mut DERWriterSeq<'_>, number: u64, text: &str) {
    names.next().write_set(|set| {
        set.next().write_sequence(|attribute| {
            attribute.next().write_oid(&ObjectIdentifier::from_slice(&[2, 5, 4, number]));
            attribute.next().write_utf8_string(text);
        });
    });
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::certs::Pki;
    use crate::x509;

    const NOW: Time = Time::from_seconds(1_790_000_000);
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn user_certificate_has_name_and_groups_and_is_signed_by_the_ca() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::load_or_create(dir.path(), &["localhost".to_owned()], NOW, 1).unwrap();
        let groups = ["dev".to_owned(), "ops & more".to_owned()];
        let issued = issue(dir.path(), ("ann", &groups), 10 * HOUR, NOW, [1, 2]).unwrap();
        assert!(issued.ca == pki.ca.certificate);
        let der = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
        let subject = x509::subject(&der).unwrap();
        assert_eq!((subject.common_name.as_str(), subject.organizations), ("ann", groups.to_vec()));
        assert_eq!(x509::validity(&der).unwrap().1, issued.end);
        assert!(issued.end > NOW.after(9 * HOUR) && issued.end <= NOW.after(10 * HOUR));
        let is_signed = inspect(&issued.certificate, |parsed| {
            inspect(&pki.ca.certificate, |ca| parsed.verify_signature(Some(ca.public_key())).is_ok())
        });
        assert_eq!(is_signed.flatten(), Some(true));
    }

    #[test]
    fn directory_without_an_authority_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let error = issue(dir.path(), ("ann", &[]), HOUR, NOW, [1, 2]).err().unwrap().to_string();
        assert!(
            error.ends_with(
                "ca.crt is missing: run `setpoint up` once on this data directory, which makes an authority"
            ),
            "{error}"
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// The two readers of certificates agree.
    #[test]
    fn summary_of_a_certificate_is_what_the_parser_reads() {
        use setpoint_api::kinds::certificates::expiry::read_pem;
        let pki = Pki::ephemeral(&["localhost".to_owned()], NOW, 1).unwrap();
        for pair in [&pki.ca, &pki.server, &pki.admin, &pki.front_proxy_ca, &pki.front_proxy_client] {
            let summary = read_pem(pair.certificate.as_bytes()).pop().unwrap();
            let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
            assert_eq!(Some((summary.begin, summary.end)), x509::validity(&der));
            let name = x509::subject(&der).unwrap().common_name;
            assert!(summary.subject.ends_with(&format!("CN={name}")), "{summary:?}");
        }
    }
}
