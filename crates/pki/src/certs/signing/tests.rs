//! Signed certificates as other implementations parse them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use setpoint_api::rfc3339::Seconds;
use x509_parser::certificate::X509Certificate;

use super::super::{DAY, Pki};
use super::*;

const NOW: Time = Time::from_seconds(1_790_000_000);
/// Request of user ann in groups a and b, with alternative names of every type and the CA flag.
const REQUEST: &str = "MIIBSTCB8AIBADAmMQowCAYDVQQKDAFhMQowCAYDVQQKDAFiMQwwCgYDVQQDDANhbm4wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQOmf1MPYgfYwvIWef+uHb6MDITJAaBHfpwRWF/bV0gT9M6kE9Y+hl4fe3EktGMKC/4pzBwOiiyBg9TJZbunc5eoGgwZgYJKoZIhvcNAQkOMVkwVzBHBgNVHREEQDA+gglhLmV4YW1wbGWBDWFAZXhhbXBsZS5vcmeGCnNwaWZmZTovL2GHBAoAAAGHEP0AAAAAAAAAAAAAAAAAAAEwDAYDVR0TBAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiAXtHTEXFvE0Kg/ccL6cUBjWEOyPQoo1MLOHo+wuhA3xgIhANS9/SFJteFZLlwBHZmNQSgA0ZOE15Io+DQinaRl4ZV9";

fn request() -> CertificateRequest {
    CertificateRequest::from_der(&STANDARD.decode(REQUEST).unwrap()).unwrap()
}

fn pki() -> Pki {
    Pki::ephemeral(&["localhost".to_owned()], NOW, 1).unwrap()
}

fn signed(usages: &[&str], lifetime: Option<u64>, now: Time) -> Result<String, SignError> {
    let signing_request =
        SigningRequest { csr: &request(), usages, lifetime: lifetime.map(Duration::from_secs) };
    Signer::new(&pki().ca).unwrap().sign(&signing_request, now, [3, 4])
}

fn with<T>(pem: &str, look: impl FnOnce(&X509Certificate<'_>) -> T) -> T {
    inspect(pem, look).expect("a certificate")
}

#[test]
fn signed_certificate_chains_to_the_ca_and_has_all_groups() {
    let pki = pki();
    let request = request();
    let signing_request =
        SigningRequest { csr: &request, usages: &["client auth", "digital signature"], lifetime: None };
    let pem = Signer::new(&pki.ca).unwrap().sign(&signing_request, NOW, [3, 4]).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.ca.certificate.as_bytes()).unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let own = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let at = |time: Time| UnixTime::since_unix_epoch(time.since(Time::EPOCH));
    verifier.verify_client_cert(&own, &[], at(NOW)).unwrap();
    verifier.verify_client_cert(&own, &[], at(NOW.before(BACKDATE))).unwrap();
    assert!(verifier.verify_client_cert(&own, &[], at(NOW.after(LIFETIME_MAX))).is_err(), "for ever");
    with(&pem, |parsed| {
        assert_eq!(parsed.subject().to_string(), "O=a, O=b, CN=ann");
        assert_eq!(parsed.issuer().to_string(), "CN=kubernetes");
        assert!(!parsed.is_ca(), "a request made an authority");
        let names = parsed.subject_alternative_name().unwrap().unwrap();
        assert_eq!(names.value.general_names.len(), 5);
        assert!(!names.critical);
        let usage = parsed.key_usage().unwrap().unwrap();
        assert!(usage.critical && usage.value.digital_signature() && !usage.value.key_cert_sign());
        let purposes = parsed.extended_key_usage().unwrap().unwrap();
        assert!(purposes.value.client_auth && !purposes.value.server_auth);
    });
}

#[test]
fn certificate_lifetimes_equal_upstreams() {
    let lifetime = |seconds: Option<u64>| {
        let pem = signed(&["client auth"], seconds, NOW).unwrap();
        let (begin, end) = with(&pem, validity_of);
        assert_eq!(begin, NOW.before(BACKDATE));
        end.since(NOW).as_secs()
    };
    assert_eq!(lifetime(None), 365 * 86400 - 300, "the end moves with the beginning");
    assert_eq!(lifetime(Some(3600)), 3600, "but not of a short life");
    assert_eq!(lifetime(Some(8 * 3600)), 8 * 3600 - 300);
    assert_eq!(lifetime(Some(1)), 600);
    assert_eq!(lifetime(Some(u64::from(u32::MAX))), 365 * 86400 - 300);
}

#[test]
fn certificate_never_outlives_the_ca() {
    let end = with(&pki().ca.certificate, validity_of).1;
    let pem = signed(&["client auth"], None, end.before(DAY)).unwrap();
    assert_eq!(with(&pem, validity_of).1, end);
    let error = signed(&["client auth"], None, end).unwrap_err().to_string();
    assert!(error.ends_with(&Seconds(end).to_string()), "{error}");
}

#[test]
fn every_usage_has_its_key_usage_bit_or_extended_usage() {
    let all: Vec<&str> =
        KEY_USAGES.iter().map(|(name, _)| *name).chain(PURPOSES.map(|(name, _)| name)).collect();
    let pem = signed(&all, None, NOW).unwrap();
    with(&pem, |parsed| {
        assert_eq!(parsed.key_usage().unwrap().unwrap().value.flags, 0b1_1111_1111);
        let purposes = parsed.extended_key_usage().unwrap().unwrap().value;
        assert!(purposes.any && purposes.server_auth && purposes.ocsp_signing && purposes.time_stamping);
        assert_eq!(purposes.other.len(), 5);
    });
    with(&signed(&["client auth"], None, NOW).unwrap(), |parsed| {
        assert!(parsed.key_usage().unwrap().is_none());
    });
    let error = signed(&["client auth", "flying"], None, NOW).unwrap_err().to_string();
    assert_eq!(error, "unrecognized usage values: [\"flying\"]");
}

#[test]
fn serial_numbers_are_positive_for_any_entropy() {
    for entropy in [[0, 0], [u64::MAX, u64::MAX], [1 << 63, 0]] {
        let signing_request = SigningRequest { csr: &request(), usages: &["client auth"], lifetime: None };
        let pem = Signer::new(&pki().ca).unwrap().sign(&signing_request, NOW, entropy).unwrap();
        with(&pem, |parsed| {
            assert!(parsed.raw_serial()[0] & 0x80 == 0 && parsed.raw_serial().iter().any(|byte| *byte != 0));
        });
    }
}
