//! Keys of tokens: verification with public keys, signing, and their forms as JWK and PEM.
//!
//! Algorithms are asymmetric: RS256 to RS512, PS256 to PS512 with RSA keys of at least 2048 bits, and ES256 to ES512.

mod pem;
mod signing;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rsa::{PublicKeyComponents, RsaParameters};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, EcdsaVerificationAlgorithm,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use setpoint_api::{Value, value};
use thiserror::Error;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

pub use pem::{certificates, public_keys, signing_key};
pub use signing::SigningKey;

/// Unusable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No block of a PEM file is a public or private key.
    #[error("data does not contain any valid RSA or ECDSA public keys")]
    NoPublicKey,
    /// No block of a PEM file is a private key.
    #[error("data does not contain a valid RSA or ECDSA private key")]
    NoPrivateKey,
    /// No block of a PEM file is a certificate.
    #[error("data does not contain any valid RSA or ECDSA certificates")]
    NoCertificate,
    /// Not a key, or of an unsupported type.
    #[error("unsupported key type, must be RSA or ECDSA with the curve P-256, P-384 or P-521")]
    Unsupported,
    /// The signature could not be computed.
    #[error("cannot sign with this key")]
    Signing,
}

/// Algorithm of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// ECDSA with P-256.
    Es256,
    /// ECDSA with P-384.
    Es384,
    /// ECDSA with P-521.
    Es512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// RSASSA-PKCS1 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1 with SHA-512.
    Rs512,
}

impl Algorithm {
    /// All algorithms, in the order of their names.
    pub const ALL: [Algorithm; 9] = [
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::Es512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
    ];

    /// Name in the header of a token.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::Es512 => "ES512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
        }
    }

    /// Returns the algorithm with a name; `None` if it is not supported.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
            Algorithm::Es256 | Algorithm::Es384 | Algorithm::Es512 => return None,
        })
    }
}

/// Curve of an ECDSA key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    const ALL: [Curve; 3] = [Curve::P256, Curve::P384, Curve::P521];

    const fn name(self) -> &'static str {
        match self {
            Curve::P256 => "P-256",
            Curve::P384 => "P-384",
            Curve::P521 => "P-521",
        }
    }

    /// Bytes of a coordinate.
    const fn coordinate_bytes(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }

    const fn algorithm(self) -> Algorithm {
        match self {
            Curve::P256 => Algorithm::Es256,
            Curve::P384 => Algorithm::Es384,
            Curve::P521 => Algorithm::Es512,
        }
    }

    const fn verification(self) -> &'static EcdsaVerificationAlgorithm {
        match self {
            Curve::P256 => &ECDSA_P256_SHA256_FIXED,
            Curve::P384 => &ECDSA_P384_SHA384_FIXED,
            Curve::P521 => &ECDSA_P521_SHA512_FIXED,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    /// Modulus and exponent, big-endian without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// Uncompressed point: 4, x, y.
    Ecdsa { curve: Curve, point: Vec<u8> },
}

/// Public key that verifies tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    id: String,
    material: Material,
}

impl VerifyingKey {
    /// Reads a SubjectPublicKeyInfo in DER. The id of the key is its hash, as upstream derives it.
    ///
    /// # Errors
    /// If it is malformed or of an unsupported type.
    pub fn from_spki(der: &[u8]) -> Result<VerifyingKey, KeyError> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| KeyError::Unsupported)?;
        if !rest.is_empty() {
            return Err(KeyError::Unsupported);
        }
        let material = match info.parsed().map_err(|_| KeyError::Unsupported)? {
            PublicKey::RSA(key) => {
                Material::Rsa { modulus: trimmed(key.modulus), exponent: trimmed(key.exponent) }
            }
            PublicKey::EC(point) => {
                let size = |curve: &Curve| point.data().len() == 1 + 2 * curve.coordinate_bytes();
                let curve = Curve::ALL.into_iter().find(size).ok_or(KeyError::Unsupported)?;
                Material::Ecdsa { curve, point: point.data().to_vec() }
            }
            _ => return Err(KeyError::Unsupported),
        };
        Ok(VerifyingKey { id: URL_SAFE_NO_PAD.encode(digest(&SHA256, der)), material })
    }

    /// Reads a JSON Web Key.
    ///
    /// # Errors
    /// If it is malformed or of an unsupported type.
    pub fn from_jwk(key: &Value) -> Result<VerifyingKey, KeyError> {
        let number =
            |field: &str| URL_SAFE_NO_PAD.decode(key.str_at(&[field])).map_err(|_| KeyError::Unsupported);
        let material = match key.str_at(&["kty"]) {
            "RSA" => Material::Rsa { modulus: trimmed(&number("n")?), exponent: trimmed(&number("e")?) },
            "EC" => {
                let named = |curve: &Curve| curve.name() == key.str_at(&["crv"]);
                let curve = Curve::ALL.into_iter().find(named).ok_or(KeyError::Unsupported)?;
                let (x, y) = (number("x")?, number("y")?);
                let size = curve.coordinate_bytes();
                if x.len() != size || y.len() != size {
                    return Err(KeyError::Unsupported);
                }
                Material::Ecdsa { curve, point: [&[4], &x[..], &y[..]].concat() }
            }
            _ => return Err(KeyError::Unsupported),
        };
        if let Material::Rsa { modulus, exponent } = &material
            && (modulus.is_empty() || exponent.is_empty())
        {
            return Err(KeyError::Unsupported);
        }
        Ok(VerifyingKey { id: key.str_at(&["kid"]).to_owned(), material })
    }

    /// Id, `kid` of tokens.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Algorithm with which service account tokens are signed.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match &self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::Ecdsa { curve, .. } => curve.algorithm(),
        }
    }

    /// `true` if the signature of a message is valid. An algorithm of another type of key is not.
    #[must_use]
    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { modulus, exponent } => algorithm.rsa().is_some_and(|parameters| {
                let key = PublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, signature).is_ok()
            }),
            Material::Ecdsa { curve, point } => {
                let key = UnparsedPublicKey::new(curve.verification(), point);
                curve.algorithm() == algorithm && key.verify(message, signature).is_ok()
            }
        }
    }

    /// Returns the key as a JSON Web Key.
    #[must_use]
    pub fn to_jwk(&self) -> Value {
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (id, algorithm) = (self.id.as_str(), self.algorithm().name());
        match &self.material {
            Material::Rsa { modulus, exponent } => value!({
                "use": "sig", "kty": "RSA", "kid": (id), "alg": (algorithm),
                "n": (encoded(modulus)), "e": (encoded(exponent)),
            }),
            Material::Ecdsa { curve, point } => {
                let (x, y) = point.get(1..).unwrap_or_default().split_at(curve.coordinate_bytes());
                value!({
                    "use": "sig", "kty": "EC", "kid": (id), "crv": (curve.name()), "alg": (algorithm),
                    "x": (encoded(x)), "y": (encoded(y)),
                })
            }
        }
    }
}

/// Number without leading zeros.
fn trimmed(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}

/// Keys of a JSON Web Key Set. Keys of unsupported types are left out, as are those that are not for signatures.
#[must_use]
pub fn keys_of_jwks(document: &Value) -> Option<Vec<VerifyingKey>> {
    let keys = document.get("keys")?.as_list()?;
    let is_for_signatures = |key: &&Value| matches!(key.str_at(&["use"]), "" | "sig");
    Some(keys.iter().filter(is_for_signatures).filter_map(|key| VerifyingKey::from_jwk(key).ok()).collect())
}

/// JSON Web Key Set of these keys.
#[must_use]
pub fn jwks(keys: &[VerifyingKey]) -> Value {
    value!({"keys": (keys.iter().map(VerifyingKey::to_jwk).collect::<Vec<_>>())})
}

#[cfg(test)]
mod tests;
