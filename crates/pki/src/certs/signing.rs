//! Signer of certificate requests, with kube-controller-manager's policy.
//!
//! Only the names of a request are copied, never its extensions, and no signed certificate is a CA. Key usages and
//! lifetime follow upstream's policy. The certificate is encoded here because the library that issues ours holds one
//! value per name attribute, and a user in several groups has several organizations.
//!
//! Start at [`Signer::sign`].

use std::time::Duration;

use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256,
    SignatureAlgorithm, SigningKey,
};
use setpoint_api::Time;
use x509_parser::extensions::ParsedExtension;
use yasna::models::{GeneralizedTime, ObjectIdentifier, UTCTime};
use yasna::{DERWriter, DERWriterSeq, Tag, construct_der};

use super::{BACKDATE, CertifiedKey, date, inspect, validity_of};
use crate::x509::{CertificateRequest, SubjectAltNames};

/// Default and maximum lifetime of a certificate.
pub const LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Minimum lifetime of a certificate.
pub const LIFETIME_MIN: Duration = Duration::from_secs(10 * 60);
/// Certificates with a shorter lifetime expire at the requested time although they are backdated.
const SHORT_LIFETIME: Duration = Duration::from_secs(8 * 60 * 60);
/// Last year that UTCTime can encode.
const SHORT_FORM_YEAR_MAX: i32 = 2049;

/// Bit of each key usage, in encoding order.
const KEY_USAGES: [(&str, u16); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];
/// Object identifier of each extended key usage, in encoding order.
const PURPOSES: [(&str, &[u64]); 13] = [
    ("any", &[2, 5, 29, 37, 0]),
    ("server auth", &[1, 3, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[1, 3, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    ("s/mime", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    ("ipsec end system", &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
];

/// Failure to sign a request.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The CA certificate cannot be parsed.
    #[error("cannot parse the CA certificate")]
    Authority,
    /// The CA has expired.
    #[error("refusing to sign a certificate that expired in the past: the authority ended at {0}")]
    Ended(setpoint_api::rfc3339::Seconds),
    /// The request has unknown usages.
    #[error("unrecognized usage values: {0:?}")]
    Usages(Vec<String>),
    /// The algorithm of the CA key is not supported.
    #[error("the algorithm of the CA key is not supported")]
    Algorithm,
    /// The library failed to sign.
    #[error("failed to sign certificate: {0}")]
    Sign(#[from] rcgen::Error),
}

/// A CA that is ready to sign.
pub struct Signer {
    certificate: String,
    key: KeyPair,
}

/// A request to sign, with its signing options.
pub struct SigningRequest<'a> {
    /// The certificate request.
    pub csr: &'a CertificateRequest,
    /// Key usages, by their API names.
    pub usages: &'a [&'a str],
    /// Requested lifetime; at most [`LIFETIME_MAX`].
    pub lifetime: Option<Duration>,
}

impl Signer {
    /// Creates a signer.
    ///
    /// # Errors
    /// If the key cannot be parsed.
    pub fn new(authority: &CertifiedKey) -> Result<Signer, SignError> {
        let key = KeyPair::from_pem(&authority.key)?;
        Ok(Signer { certificate: authority.certificate.clone(), key })
    }

    /// Signs a request. Returns the certificate in PEM; `entropy` becomes its serial number.
    ///
    /// # Errors
    /// If a usage is unknown or the CA has expired.
    pub fn sign(
        &self,
        request: &SigningRequest<'_>,
        now: Time,
        entropy: [u64; 2],
    ) -> Result<String, SignError> {
        let authority = inspect(&self.certificate, |parsed| {
            let identifier =
                parsed.extensions().iter().find_map(|extension| match extension.parsed_extension() {
                    ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
                    _ => None,
                });
            (parsed.subject().as_raw().to_vec(), validity_of(parsed).1, identifier)
        });
        let (issuer, end, identifier) = authority.ok_or(SignError::Authority)?;
        if now >= end {
            return Err(SignError::Ended(setpoint_api::rfc3339::Seconds(end)));
        }
        let uses = KeyUsages::of(request.usages)?;
        let algorithm = algorithm(self.key.algorithm())?;
        let lifetime = request.lifetime.unwrap_or(LIFETIME_MAX).clamp(LIFETIME_MIN, LIFETIME_MAX);
        let last = if lifetime < SHORT_LIFETIME {
            now.after(lifetime)
        } else {
            now.after(lifetime).before(BACKDATE)
        };
        let body = construct_der(|writer| {
            writer.write_sequence(|body| {
                body.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
                body.next().write_bigint_bytes(&serial(entropy), true);
                body.next().write_der(&algorithm);
                body.next().write_der(&issuer);
                body.next().write_sequence(|validity| {
                    write_time(validity.next(), now.before(BACKDATE));
                    write_time(validity.next(), last.min(end));
                });
                body.next().write_der(&request.csr.subject);
                body.next().write_der(&request.csr.public_key);
                body.next().write_tagged(Tag::context(3), |writer| {
                    writer.write_sequence(|list| {
                        write_extensions(list, &uses, identifier.as_deref(), request.csr);
                    });
                });
            });
        });
        let signature = self.key.sign(&body)?;
        let certificate = construct_der(|writer| {
            writer.write_sequence(|fields| {
                fields.next().write_der(&body);
                fields.next().write_der(&algorithm);
                fields.next().write_bitvec_bytes(&signature, signature.len() * 8);
            });
        });
        Ok(to_pem(&certificate))
    }
}

/// Key usages and extended key usages of a certificate.
struct KeyUsages {
    bits: u16,
    purposes: Vec<&'static [u64]>,
}

impl KeyUsages {
    fn of(usages: &[&str]) -> Result<KeyUsages, SignError> {
        let is_known = |usage: &&str| {
            KEY_USAGES.iter().any(|(name, _)| name == usage) || PURPOSES.iter().any(|(name, _)| name == usage)
        };
        let unknown: Vec<String> =
            usages.iter().filter(|usage| !is_known(usage)).map(|usage| (*usage).to_owned()).collect();
        if !unknown.is_empty() {
            return Err(SignError::Usages(unknown));
        }
        let selected = KEY_USAGES.iter().filter(|(name, _)| usages.contains(name));
        let bits = selected.fold(0, |bits, (_, bit)| bits | 1 << bit);
        let selected = PURPOSES.iter().filter(|(name, _)| usages.contains(name));
        let mut purposes: Vec<&[u64]> = selected.map(|(_, purpose)| *purpose).collect();
        purposes.dedup();
        Ok(KeyUsages { bits, purposes })
    }
}

/// Returns a positive serial number.
fn serial(entropy: [u64; 2]) -> [u8; 16] {
    let number = u128::from(entropy[0]) << 64 | u128::from(entropy[1]);
    (number >> 1 | 1).to_be_bytes()
}

/// Encodes the algorithm identifier of signatures by a key.
fn algorithm(of: &SignatureAlgorithm) -> Result<Vec<u8>, SignError> {
    let supported: [(&SignatureAlgorithm, &[u64], bool); 4] = [
        (&PKCS_ECDSA_P256_SHA256, &[1, 2, 840, 10045, 4, 3, 2], false),
        (&PKCS_ECDSA_P384_SHA384, &[1, 2, 840, 10045, 4, 3, 3], false),
        (&PKCS_ED25519, &[1, 3, 101, 112], false),
        (&PKCS_RSA_SHA256, &[1, 2, 840, 113_549, 1, 1, 11], true),
    ];
    let found = supported.iter().find(|(algorithm, _, _)| *algorithm == of);
    let (_, name, has_null) = found.ok_or(SignError::Algorithm)?;
    Ok(construct_der(|writer| {
        writer.write_sequence(|parts| {
            parts.next().write_oid(&ObjectIdentifier::from_slice(name));
            if *has_null {
                parts.next().write_null();
            }
        });
    }))
}

fn write_time(writer: DERWriter<'_>, time: Time) {
    let date = date(time);
    if date.year() <= SHORT_FORM_YEAR_MAX {
        writer.write_utctime(&UTCTime::from_datetime(date));
    } else {
        writer.write_generalized_time(&GeneralizedTime::from_datetime(date));
    }
}

fn write_extensions(
    list: &mut DERWriterSeq<'_>,
    uses: &KeyUsages,
    authority: Option<&[u8]>,
    request: &CertificateRequest,
) {
    if uses.bits != 0 {
        write_extension(list, 15, true, |writer| {
            // Bits count from the left, and trailing zeros are left out.
            let bits = uses.bits.reverse_bits();
            let length = 16 - bits.trailing_zeros() as usize;
            writer.write_bitvec_bytes(&bits.to_be_bytes()[..length.div_ceil(8)], length);
        });
    }
    if !uses.purposes.is_empty() {
        write_extension(list, 37, false, |writer| {
            writer.write_sequence_of(|purposes| {
                for purpose in &uses.purposes {
                    purposes.next().write_oid(&ObjectIdentifier::from_slice(purpose));
                }
            });
        });
    }
    // Basic constraints without the CA flag.
    write_extension(list, 19, true, |writer| writer.write_sequence(|_| ()));
    if let Some(identifier) = authority {
        write_extension(list, 35, false, |writer| {
            writer.write_sequence(|parts| {
                let part = parts.next();
                part.write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(identifier));
            });
        });
    }
    if !request.names.is_empty() {
        // Without a subject, the alternative names are critical.
        let nameless = request.subject == construct_der(|writer| writer.write_sequence(|_| ()));
        write_extension(list, 17, nameless, |writer| write_names(writer, &request.names));
    }
}

/// Writes an extension of the 2.5.29 arc.
fn write_extension(
    list: &mut DERWriterSeq<'_>,
    number: u64,
    is_critical: bool,
    content: impl FnOnce(DERWriter<'_>),
) {
    list.next().write_sequence(|extension| {
        extension.next().write_oid(&ObjectIdentifier::from_slice(&[2, 5, 29, number]));
        if is_critical {
            extension.next().write_bool(true);
        }
        extension.next().write_bytes(&construct_der(content));
    });
}

fn write_names(writer: DERWriter<'_>, names: &SubjectAltNames) {
    writer.write_sequence(|list| {
        let mut texts = |number: u64, texts: &[String]| {
            for text in texts {
                let name = list.next();
                name.write_tagged_implicit(Tag::context(number), |writer| writer.write_ia5_string(text));
            }
        };
        texts(2, &names.dns);
        texts(1, &names.emails);
        texts(6, &names.uris);
        for address in &names.addresses {
            let bytes = match address {
                std::net::IpAddr::V4(address) => address.octets().to_vec(),
                std::net::IpAddr::V6(address) => address.octets().to_vec(),
            };
            let name = list.next();
            name.write_tagged_implicit(Tag::context(7), |writer| writer.write_bytes(&bytes));
        }
    });
}

fn to_pem(der: &[u8]) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut unwritten = text.as_str();
    while !unwritten.is_empty() {
        let (line, tail) = unwritten.split_at(unwritten.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        unwritten = tail;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests;
