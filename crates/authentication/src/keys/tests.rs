//! Tests of signing and verification keys.

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512,
};

use super::*;
use crate::jwt::Jwt;

fn rsa_key() -> SigningKey {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    SigningKey::from_der(pair.as_der().unwrap().as_ref()).unwrap()
}

fn ecdsa_key() -> SigningKey {
    SigningKey::from_der(&SigningKey::generate_pkcs8().unwrap()).unwrap()
}

fn is_verified(key: &VerifyingKey, token: &str) -> bool {
    let jwt = Jwt::parse(token).unwrap();
    jwt.key_id == key.id()
        && key.verifies(jwt.signature_algorithm().unwrap(), jwt.signed.as_bytes(), &jwt.signature)
}

#[test]
fn tokens_of_every_key_type_are_verified_with_its_jwk() {
    let curves = [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ECDSA_P521_SHA512];
    let mut keys: Vec<SigningKey> = curves
        .map(|curve| signing_key(KeyPair::generate_for(curve).unwrap().serialize_pem().as_bytes()).unwrap())
        .into();
    keys.push(rsa_key());
    let names: Vec<&str> = keys.iter().map(|key| key.public().algorithm().name()).collect();
    assert_eq!(names, ["ES256", "ES384", "ES512", "RS256"]);
    let set = keys_of_jwks(&jwks(&keys.iter().map(|key| key.public().clone()).collect::<Vec<_>>())).unwrap();
    for (position, key) in keys.iter().enumerate() {
        let token = key.sign(&value!({"sub": "ann"})).unwrap();
        for (other, verifying) in set.iter().enumerate() {
            assert_eq!(is_verified(verifying, &token), position == other);
        }
        assert_eq!(&set[position], key.public());
    }
}

#[test]
fn public_key_certificate_and_private_key_give_the_same_key() {
    let pair = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&pair).unwrap().pem();
    let file = format!("{}\n{}\n{certificate}", pair.public_key_pem(), pair.serialize_pem());
    let keys = public_keys(file.as_bytes()).unwrap();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| key == &keys[0]));
    assert_eq!(public_keys(b"").unwrap_err(), KeyError::NoPublicKey);
    assert_eq!(signing_key(certificate.as_bytes()).unwrap_err(), KeyError::NoPrivateKey);
    assert_eq!(certificates(file.as_bytes()).unwrap().len(), 1);
    assert_eq!(certificates(b"x").unwrap_err(), KeyError::NoCertificate);
}

#[test]
fn algorithm_of_another_key_type_is_rejected() {
    let (rsa, ecdsa) = (rsa_key(), ecdsa_key());
    for (key, wrong) in [(&rsa, Algorithm::Es256), (&ecdsa, Algorithm::Rs256), (&ecdsa, Algorithm::Es384)] {
        let token = key.sign(&value!({})).unwrap();
        let jwt = Jwt::parse(&token).unwrap();
        assert!(!key.public().verifies(wrong, jwt.signed.as_bytes(), &jwt.signature));
    }
    assert_eq!(Algorithm::from_name("none"), None);
    assert_eq!(Algorithm::from_name("HS256"), None);
}

#[test]
fn unusable_keys_of_a_set_are_left_out() {
    let key = ecdsa_key();
    let mut encryption = key.public().to_jwk();
    encryption.make_map().insert("use", "enc");
    let set = value!({"keys": [
        (key.public().to_jwk()), (encryption), {"kty": "oct", "k": "AAAA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, {"kty": "RSA"}, 7,
    ]});
    assert_eq!(keys_of_jwks(&set).unwrap(), [key.public().clone()]);
    assert_eq!(keys_of_jwks(&value!({"keys": {}})), None);
}

proptest! {
    #[test]
    fn no_key_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,80}") {
        let _ = VerifyingKey::from_spki(&bytes);
        let _ = SigningKey::from_der(&bytes);
        let _ = public_keys(&bytes);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(&bytes));
        let _ = public_keys(pem.as_bytes());
        let _ = signing_key(pem.as_bytes());
        let _ = VerifyingKey::from_jwk(&value!({"kty": "RSA", "n": (text.as_str()), "e": (text.as_str())}));
    }

    #[test]
    fn tampered_token_is_never_verified(at in 0..200usize, flip in 1..=127u8) {
        let key = ecdsa_key();
        let token = key.sign(&value!({"sub": "ann", "exp": 1_700_000_000})).unwrap();
        let mut bytes = token.into_bytes();
        let at = at % bytes.len();
        bytes[at] ^= flip;
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        if let Some(jwt) = Jwt::parse(text) && let Some(algorithm) = jwt.signature_algorithm() {
            prop_assert!(!key.public().verifies(algorithm, jwt.signed.as_bytes(), &jwt.signature));
        }
    }
}
