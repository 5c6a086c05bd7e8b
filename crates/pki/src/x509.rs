//! Parser of certificate requests (PKCS#10) and certificates (X.509).
//!
//! Parsing is pure. A parsed request is complete: every name in it could be read, and its signature proves possession
//! of the key. Error messages that clients match on are upstream's.
//!
//! Start at [`CertificateRequest::from_base64`].

use aws_lc_rs::signature::{
    ECDSA_P521_SHA256_ASN1, ECDSA_P521_SHA384_ASN1, ECDSA_P521_SHA512_ASN1,
    RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
    UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_api::kinds::certificates::pem;
use setpoint_api::{Time, Value, value};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Object identifier of the curve P-521.
const P521: &str = "1.3.132.0.35";

/// Prefix of the object identifiers of standard attributes: 2.5.4.
const STANDARD_ATTRIBUTE: [u8; 2] = [0x55, 4];
const COMMON_NAME: u8 = 3;
/// Standard attributes of a signed subject: common name, serial number, country, locality, province, street, organization,
/// organizational unit and postal code.
const ATTRIBUTES: [u8; 9] = [COMMON_NAME, 5, 6, 7, 8, 9, 10, 11, 17];
const OID_TAG: u8 = 6;
const SEQUENCE_TAG: u8 = 0x30;
const SET_TAG: u8 = 0x31;
/// Bit of a length that is followed by its bytes.
const LONG_LENGTH: u8 = 0x80;

/// Failure to parse a request or a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseX509Error {
    /// Not PEM of the expected type.
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    Wrapping,
    /// Data follows the structure.
    #[error("asn1: syntax error: trailing data")]
    Trailing,
    /// Malformed structure.
    #[error("asn1: structure error: {0}")]
    Form(String),
    /// Invalid IP address.
    #[error("x509: cannot parse IP address of length {0}")]
    Address(usize),
    /// The key or signature algorithm is not supported.
    #[error("x509: cannot verify signature: algorithm unimplemented")]
    Algorithm,
    /// The signature does not match the key of the request.
    #[error("{0}")]
    Signature(&'static str),
}

/// Subject alternative names, by type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectAltNames {
    /// DNS names.
    pub dns: Vec<String>,
    /// Email addresses.
    pub emails: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<std::net::IpAddr>,
    /// URIs.
    pub uris: Vec<String>,
}

impl SubjectAltNames {
    /// `true` if there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dns.is_empty() && self.emails.is_empty() && self.addresses.is_empty() && self.uris.is_empty()
    }
}

/// A well-formed request with a valid signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// Subject for the certificate, DER-encoded: see [`signable_subject`].
    pub subject: Vec<u8>,
    /// Public key, DER-encoded.
    pub public_key: Vec<u8>,
    /// The last common name; empty if there is none.
    pub common_name: String,
    /// The organizations, in their order.
    pub organizations: Vec<String>,
    /// Subject alternative names.
    pub names: SubjectAltNames,
}

impl CertificateRequest {
    /// Parses a request as API objects hold it: base64 of PEM.
    ///
    /// # Errors
    /// If it is malformed, or not signed with its own key.
    pub fn from_base64(text: &str) -> Result<CertificateRequest, ParseX509Error> {
        let text = STANDARD.decode(text).map_err(|_| ParseX509Error::Wrapping)?;
        match pem::next_block(&text) {
            Some((block, _)) if block.label == "CERTIFICATE REQUEST" => {
                CertificateRequest::from_der(&block.bytes)
            }
            _ => Err(ParseX509Error::Wrapping),
        }
    }

    /// Parses a request in DER.
    ///
    /// # Errors
    /// If it is malformed, or not signed with its own key.
    pub(crate) fn from_der(der: &[u8]) -> Result<CertificateRequest, ParseX509Error> {
        let (rest, request) = X509CertificationRequest::from_der(der)
            .map_err(|error| ParseX509Error::Form(X509Error::from(error).to_string()))?;
        if !rest.is_empty() {
            return Err(ParseX509Error::Trailing);
        }
        check_signature(&request)?;
        let info = &request.certification_request_info;
        let text = |name: &AttributeTypeAndValue<'_>| {
            name.as_str().map(str::to_owned).map_err(|error| ParseX509Error::Form(error.to_string()))
        };
        let organizations = info.subject.iter_organization().map(text).collect::<Result<_, _>>()?;
        // Of several common names the last one counts, as in Go's parser.
        let common_name = info.subject.iter_common_name().last().map(text).transpose()?;
        Ok(CertificateRequest {
            subject: signable_subject(&info.subject),
            public_key: info.subject_pki.raw.to_vec(),
            common_name: common_name.unwrap_or_default(),
            organizations,
            names: names(&request)?,
        })
    }

    /// Fields of the request, as the answer to a planner's query.
    #[must_use]
    pub fn to_answer(&self) -> Value {
        let texts = |list: &[String]| Value::from(list.to_vec());
        let addresses: Vec<String> = self.names.addresses.iter().map(ToString::to_string).collect();
        value!({
            "commonName": (self.common_name.as_str()),
            "organizations": (texts(&self.organizations)),
            "dnsNames": (texts(&self.names.dns)),
            "emailAddresses": (texts(&self.names.emails)),
            "ipAddresses": (texts(&addresses)),
            "uris": (texts(&self.names.uris)),
        })
    }
}

/// Verifies that a request is signed with its own key.
fn check_signature(request: &X509CertificationRequest<'_>) -> Result<(), ParseX509Error> {
    let info = &request.certification_request_info;
    let algorithm = request.signature_algorithm.algorithm.to_id_string();
    let curve = info.subject_pki.algorithm.parameters.as_ref();
    let curve = curve.and_then(|curve| curve.as_oid().ok()).map(|curve| curve.to_id_string());
    // Key sizes and curves that the parsing library does not support.
    let supported: Option<&'static dyn VerificationAlgorithm> = match (algorithm.as_str(), curve.as_deref()) {
        ("1.2.840.113549.1.1.11", _) => Some(&RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY),
        ("1.2.840.113549.1.1.13", _) => Some(&RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY),
        ("1.2.840.10045.4.3.2", Some(P521)) => Some(&ECDSA_P521_SHA256_ASN1),
        ("1.2.840.10045.4.3.3", Some(P521)) => Some(&ECDSA_P521_SHA384_ASN1),
        ("1.2.840.10045.4.3.4", Some(P521)) => Some(&ECDSA_P521_SHA512_ASN1),
        _ => None,
    };
    let checked = match supported {
        Some(supported) => {
            let key = UnparsedPublicKey::new(supported, &info.subject_pki.subject_public_key.data);
            let verified = key.verify(info.raw, &request.signature_value.data);
            verified.map_err(|_| X509Error::SignatureVerificationError)
        }
        None => request.verify_signature(),
    };
    checked.map_err(|error| match error {
        X509Error::SignatureUnsupportedAlgorithm => ParseX509Error::Algorithm,
        _ if algorithm.starts_with("1.2.840.10045.") => {
            ParseX509Error::Signature("x509: ECDSA verification failure")
        }
        _ if algorithm.starts_with("1.2.840.113549.") => {
            ParseX509Error::Signature("crypto/rsa: verification error")
        }
        _ => ParseX509Error::Signature("x509: Ed25519 verification failure"),
    })
}

/// Returns a subject without the attributes that upstream's signer drops: those that are not of a standard type, such as
/// the UID of a user, which nothing approves, and all common names but the last.
fn signable_subject(subject: &X509Name<'_>) -> Vec<u8> {
    let is_common_name = |id: &[u8]| id == [STANDARD_ATTRIBUTE[0], STANDARD_ATTRIBUTE[1], COMMON_NAME];
    let mut names_left = subject.iter_common_name().count();
    let mut sets = Vec::new();
    for set in subject.iter_rdn() {
        let mut attributes = Vec::new();
        for attribute in set.iter() {
            let id = attribute.attr_type().as_bytes();
            let is_last = !is_common_name(id) || {
                names_left -= 1;
                names_left == 0
            };
            let kind = id.strip_prefix(&STANDARD_ATTRIBUTE);
            if is_last && kind.is_some_and(|kind| matches!(kind, [kind] if ATTRIBUTES.contains(kind))) {
                let value = attribute.attr_value();
                let tag = u8::try_from(value.tag().0).unwrap_or(OID_TAG);
                attributes
                    .extend(der(SEQUENCE_TAG, &[der(OID_TAG, id), der(tag, value.as_bytes())].concat()));
            }
        }
        if !attributes.is_empty() {
            sets.extend(der(SET_TAG, &attributes));
        }
    }
    der(SEQUENCE_TAG, &sets)
}

/// Encodes a value with its tag and length.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length = &length[content.len().leading_zeros() as usize / 8..];
    let mut encoded = vec![tag];
    match length {
        [] => encoded.push(0),
        [short] if *short < LONG_LENGTH => encoded.push(*short),
        long => {
            encoded.push(LONG_LENGTH | u8::try_from(long.len()).unwrap_or_default());
            encoded.extend_from_slice(long);
        }
    }
    encoded.extend_from_slice(content);
    encoded
}

fn names(request: &X509CertificationRequest<'_>) -> Result<SubjectAltNames, ParseX509Error> {
    let mut names = SubjectAltNames::default();
    for extension in request.requested_extensions().into_iter().flatten() {
        let ParsedExtension::SubjectAlternativeName(alternative) = extension else { continue };
        for name in &alternative.general_names {
            match name {
                GeneralName::DNSName(name) => names.dns.push(ascii(name)?),
                GeneralName::RFC822Name(name) => names.emails.push(ascii(name)?),
                GeneralName::URI(name) => names.uris.push(ascii(name)?),
                GeneralName::IPAddress(bytes) => names.addresses.push(address(bytes)?),
                // Names of other types are not copied to the certificate.
                _ => {}
            }
        }
    }
    Ok(names)
}

fn ascii(name: &str) -> Result<String, ParseX509Error> {
    let error = || ParseX509Error::Form("a name that is not ASCII".to_owned());
    name.is_ascii().then(|| name.to_owned()).ok_or_else(error)
}

fn address(bytes: &[u8]) -> Result<std::net::IpAddr, ParseX509Error> {
    let four = <[u8; 4]>::try_from(bytes).map(std::net::IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(std::net::IpAddr::from))
        .map_err(|_| ParseX509Error::Address(bytes.len()))
}

/// Subject of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The last common name; never empty.
    pub common_name: String,
    /// All organizations.
    pub organizations: Vec<String>,
}

/// Returns the subject of a certificate; `None` if it has no common name or cannot be read.
#[must_use]
pub fn subject(der: &[u8]) -> Option<Subject> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let subject = certificate.subject();
    let common_name = subject.iter_common_name().last()?.as_str().ok().filter(|name| !name.is_empty())?;
    let organizations = subject.iter_organization().filter_map(|name| name.as_str().ok());
    Some(Subject {
        common_name: common_name.to_owned(),
        organizations: organizations.map(str::to_owned).collect(),
    })
}

/// Validity of a certificate in DER, both ends included; `None` if it cannot be parsed.
#[must_use]
pub fn validity(der: &[u8]) -> Option<(Time, Time)> {
    let (rest, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let validity = certificate.validity();
    let time = |asn1: x509_parser::time::ASN1Time| Time::from_seconds(asn1.timestamp());
    rest.is_empty().then(|| (time(validity.not_before), time(validity.not_after)))
}

/// Error of the first invalid certificate in base64 of PEM, as API objects hold it.
#[must_use]
pub fn invalid_certificate_error(text: &str) -> Option<String> {
    let text = STANDARD.decode(text).ok()?;
    let mut rest = &text[..];
    while let Some((block, after)) = pem::next_block(rest) {
        match x509_parser::parse_x509_certificate(&block.bytes) {
            Ok(([], _)) => {}
            Ok(_) => return Some("x509: trailing data".to_owned()),
            Err(_) => return Some("x509: malformed certificate".to_owned()),
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SanType};

    use super::*;

    fn request_der(key: &KeyPair) -> Vec<u8> {
        let mut params = CertificateParams::new(["a.example".to_owned(), "10.0.0.1".to_owned()]).unwrap();
        params.subject_alt_names.push(SanType::URI("spiffe://x".try_into().unwrap()));
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, "system:node:n");
        params.serialize_request(key).unwrap().der().to_vec()
    }

    #[test]
    fn certificate_request_is_parsed_with_all_its_names() {
        for algorithm in [&PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let request = CertificateRequest::from_der(&request_der(&key)).unwrap();
            assert_eq!(request.common_name, "system:node:n");
            assert_eq!(request.organizations, ["system:nodes"]);
            assert_eq!(request.names.dns, ["a.example"]);
            let answer = request.to_answer();
            assert_eq!(setpoint_api::json::to_text(answer.get("ipAddresses").unwrap()), r#"["10.0.0.1"]"#);
            assert_eq!(setpoint_api::json::to_text(answer.get("uris").unwrap()), r#"["spiffe://x"]"#);
        }
    }

    #[test]
    fn signed_subject_has_standard_attributes_and_one_common_name() {
        let key = KeyPair::generate().unwrap();
        let plain = CertificateRequest::from_der(&request_der(&key)).unwrap();
        let mut params = CertificateParams::new(["a.example".to_owned(), "10.0.0.1".to_owned()]).unwrap();
        // The attribute with the UID of a user.
        params.distinguished_name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "u-1");
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, "system:node:n");
        let with_uid = params.serialize_request(&key).unwrap();
        let with_uid = CertificateRequest::from_der(with_uid.der()).unwrap();
        assert_eq!(with_uid.common_name, "system:node:n");
        let (rest, subject) = X509Name::from_der(&with_uid.subject).unwrap();
        assert!(rest.is_empty());
        let mut types: Vec<String> =
            subject.iter_attributes().map(|one| one.attr_type().to_id_string()).collect();
        types.sort();
        assert_eq!(types, ["2.5.4.10", "2.5.4.3"]);
        let (_, subject) = X509Name::from_der(&plain.subject).unwrap();
        assert_eq!(subject.iter_common_name().next().unwrap().as_str(), Ok("system:node:n"));
        // Lengths of one, two and three bytes.
        for count in [0, 1, 127, 128, 255, 256, 70_000] {
            let encoded = der(0x04, &vec![7; count]);
            let (rest, any) = x509_parser::asn1_rs::Any::from_der(&encoded).unwrap();
            assert!(rest.is_empty() && any.as_bytes().len() == count, "{count}");
        }
    }

    #[test]
    fn certificate_validity_is_read_from_der() {
        let mut params = CertificateParams::default();
        params.not_before = time::OffsetDateTime::from_unix_timestamp(1_700_000_000).unwrap();
        params.not_after = time::OffsetDateTime::from_unix_timestamp(1_700_003_600).unwrap();
        let key = KeyPair::generate().unwrap();
        let der = params.self_signed(&key).unwrap().der().to_vec();
        let life = validity(&der).unwrap();
        assert_eq!(life, (Time::from_seconds(1_700_000_000), Time::from_seconds(1_700_003_600)));
        assert_eq!(validity(&der[..der.len() - 1]), None);
        assert_eq!(validity(&[&der[..], b"x"].concat()), None);
        assert_eq!(validity(b""), None);
    }

    #[test]
    fn requests_with_small_and_large_keys_are_verified() {
        const LARGE: &str = "MIIBUTCBswIBADAOMQwwCgYDVQQDDANhbm4wgZswEAYHKoZIzj0CAQYFK4EEACMDgYYABAFW6K7sxYzFmrUaaGqorapKtnr2SmJPYQ3u7nKRc+UUhEzTPjKEIAJCcFNUwGiTDgd+I4F0owX0n9wglpcLueirMwG8SuLwaKBLtdqdCtJloBxcJ3jv0gjgNCEV5/plSl0fiKlTF2y8z/C8NVv0esLUgCWj62+U/XPvC6SUyVC5qMR3BqAAMAoGCCqGSM49BAMEA4GMADCBiAJCAQfmwBWnhpddEOlMpkE78HBa9mYhGHBeeeQbTkqRn7/MFTCC7qjuUpHIKhdME68XLRWBHZqr2DclOaR6WI2AnVZvAkIBftd52TZVEXu++7us8phbQf+wUrAVV8SjSmguE7Cc7AQd7EH+WSeOk9QDyWqm2o2TJGlakEO3fHtxWSVRN6LQEn4=";
        assert_eq!(
            CertificateRequest::from_der(&STANDARD.decode(LARGE).unwrap()).unwrap().common_name,
            "ann"
        );
        let small = include_str!("../tests/request.b64").trim();
        assert_eq!(CertificateRequest::from_base64(small).unwrap().common_name, "someone");
    }

    #[test]
    fn tampered_request_is_rejected() {
        let key = KeyPair::generate().unwrap();
        let der = request_der(&key);
        let at = der.windows(6).position(|word| word == b"system").unwrap();
        let mut other = der.clone();
        other[at] = b'S';
        let error = CertificateRequest::from_der(&other).unwrap_err();
        assert_eq!(error.to_string(), "x509: ECDSA verification failure");
        let mut longer = der.clone();
        longer.push(0);
        assert_eq!(CertificateRequest::from_der(&longer).unwrap_err(), ParseX509Error::Trailing);
        assert!(matches!(CertificateRequest::from_der(&der[..der.len() - 1]), Err(ParseX509Error::Form(_))));
        assert!(matches!(CertificateRequest::from_der(&[]), Err(ParseX509Error::Form(_))));
        assert_eq!(CertificateRequest::from_base64("AAAA").unwrap_err(), ParseX509Error::Wrapping);
    }

    proptest::proptest! {
        #[test]
        fn every_tampered_byte_is_detected(at in 0..300usize, flip in 1..=255u8) {
            let key = KeyPair::generate().unwrap();
            let mut der = request_der(&key);
            let at = at % der.len();
            der[at] ^= flip;
            // A signature has more than one encoding, so only the decoded content must match.
            if let Ok(read) = CertificateRequest::from_der(&der) {
                assert_eq!(read, CertificateRequest::from_der(&request_der(&key)).unwrap());
            }
        }
    }
}
