//! Private keys that sign tokens.

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use setpoint_api::{Value, value};

use super::{KeyError, VerifyingKey};
use crate::jwt::signing_input;

/// Curves of ECDSA keys.
const ECDSA: [&EcdsaSigningAlgorithm; 3] =
    [&ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P384_SHA384_FIXED_SIGNING, &ECDSA_P521_SHA512_FIXED_SIGNING];

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
}

/// Private key that signs tokens: RS256, ES256, ES384 or ES512.
pub struct SigningKey {
    pair: Pair,
    public: VerifyingKey,
}

impl SigningKey {
    /// Generates an ES256 key in PKCS#8.
    ///
    /// # Errors
    /// If the random number generator fails.
    pub fn generate_pkcs8() -> Result<Vec<u8>, KeyError> {
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Ok(key.map_err(|_| KeyError::Signing)?.as_ref().to_vec())
    }

    /// Reads a private key in DER: PKCS#8, PKCS#1 or SEC 1.
    ///
    /// # Errors
    /// If it is malformed or of an unsupported type.
    pub fn from_der(der: &[u8]) -> Result<SigningKey, KeyError> {
        for curve in ECDSA {
            let pair = EcdsaKeyPair::from_pkcs8(curve, der)
                .or_else(|_| EcdsaKeyPair::from_private_key_der(curve, der));
            if let Ok(pair) = pair {
                let spki = pair.public_key().as_der().map_err(|_| KeyError::Unsupported)?;
                let public = VerifyingKey::from_spki(spki.as_ref())?;
                return Ok(SigningKey { pair: Pair::Ecdsa(Box::new(pair)), public });
            }
        }
        let pair = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der));
        let pair = pair.map_err(|_| KeyError::Unsupported)?;
        let spki = pair.public_key().as_der().map_err(|_| KeyError::Unsupported)?;
        let public = VerifyingKey::from_spki(spki.as_ref())?;
        Ok(SigningKey { pair: Pair::Rsa(Box::new(pair)), public })
    }

    /// Public key.
    #[must_use]
    pub fn public(&self) -> &VerifyingKey {
        &self.public
    }

    /// Signs a token with these claims.
    ///
    /// # Errors
    /// If the signature cannot be computed.
    pub fn sign(&self, claims: &Value) -> Result<String, KeyError> {
        let header = value!({"alg": (self.public.algorithm().name()), "kid": (self.public.id())});
        let signed = signing_input(&header, claims);
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Ecdsa(pair) => {
                let signature = pair.sign(&random, signed.as_bytes()).map_err(|_| KeyError::Signing)?;
                URL_SAFE_NO_PAD.encode(signature)
            }
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let signing = pair.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature);
                signing.map_err(|_| KeyError::Signing)?;
                URL_SAFE_NO_PAD.encode(signature)
            }
        };
        Ok(format!("{signed}.{signature}"))
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}
