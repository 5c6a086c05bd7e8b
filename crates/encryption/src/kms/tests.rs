//! Tests of the messages and the states of KMS plugins.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::messages::{decrypt_request, decrypt_response, encrypt_request};
use super::*;

fn status(key_id: &str) -> StatusResponse {
    StatusResponse { version: "v2".to_owned(), healthz: "ok".to_owned(), key_id: key_id.to_owned() }
}

/// Wraps by reversing and a prefix.
fn wrap(seed: &Secret, key_id: &str) -> EncryptResponse {
    let mut ciphertext = b"wrapped:".to_vec();
    ciphertext.extend(seed.expose().iter().rev());
    let annotations = [("kms.example.com".to_owned(), b"extra".to_vec())].into();
    EncryptResponse { ciphertext, key_id: key_id.to_owned(), annotations }
}

fn unwrap(wrapped: &WrappedSeed) -> Result<Secret, String> {
    assert_eq!(wrapped.annotations["kms.example.com"], b"extra");
    let bytes = wrapped.ciphertext.strip_prefix(b"wrapped:").ok_or("not mine")?;
    Ok(Secret::new(bytes.iter().rev().copied().collect()))
}

fn random(bytes: &mut [u8]) {
    static CALL: AtomicUsize = AtomicUsize::new(1);
    let call = CALL.fetch_add(1, Ordering::Relaxed);
    bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = (call * 31 + i) as u8);
}

fn keys() -> KmsKeys {
    KmsKeys::new("vault", Box::new(unwrap))
}

fn poll(keys: &KmsKeys, key_id: &str, at: u64) -> Result<(), String> {
    let at = Duration::from_secs(at);
    match keys.apply_status(&status(key_id), at)? {
        StatusOutcome::Confirmed => Ok(()),
        StatusOutcome::NeedsSeed { key_id } => {
            let seed = KmsKeys::new_seed(&random);
            keys.install(&seed, wrap(&seed, &key_id), &key_id, at)
        }
    }
}

#[test]
fn new_key_id_makes_a_new_seed_and_old_values_stay_readable() {
    let keys = keys();
    assert_eq!(keys.seal(b"at", b"plain", &random), Err(SealError), "it is never stored as it is");
    poll(&keys, "1", 0).unwrap();
    let first = keys.seal(b"at", b"plain", &random).unwrap();
    assert_eq!(&*first.key, "k8s:enc:kms:v2:vault:1");
    poll(&keys, "1", 60).unwrap();
    let second = keys.seal(b"at", b"plain", &random).unwrap();
    let wrapped = |sealed: &Sealed| WrappedSeed::decode("", &sealed.bytes).unwrap().0.ciphertext;
    assert_eq!(wrapped(&first), wrapped(&second), "a confirmed key id keeps the seed");
    poll(&keys, "2", 120).unwrap();
    assert_eq!(&*keys.write_key(), "k8s:enc:kms:v2:vault:2");
    assert_eq!(keys.open(&first.key, b"at", &first.bytes), Ok(b"plain".to_vec()));
    assert_eq!(keys.open(&first.key, b"elsewhere", &first.bytes), Err(OpenError::Damaged));
    assert_eq!(keys.open("k8s:enc:kms:v2:other:1", b"at", &first.bytes), Err(OpenError::MissingKey));
    assert_eq!(
        keys.open("k8s:enc:kms:v2:vault:2", b"at", &first.bytes),
        Err(OpenError::Damaged),
        "the key id is bound to the value"
    );
}

#[test]
fn one_call_opens_all_values_of_a_seed() {
    let sealing = keys();
    poll(&sealing, "1", 0).unwrap();
    let sealed: Vec<Sealed> = (0..3).map(|_| sealing.seal(b"at", b"plain", &random).unwrap()).collect();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let restarted = KmsKeys::new(
        "vault",
        Box::new(move |wrapped| {
            counted.fetch_add(1, Ordering::Relaxed);
            unwrap(wrapped)
        }),
    );
    for sealed in &sealed {
        assert_eq!(restarted.open(&sealed.key, b"at", &sealed.bytes), Ok(b"plain".to_vec()));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn failing_plugin_stops_writes_after_three_minutes_and_no_reads() {
    let keys = keys();
    poll(&keys, "1", 0).unwrap();
    let sealed = keys.seal(b"at", b"plain", &random).unwrap();
    keys.record_poll(Err("Status: rpc error".to_owned()));
    assert_eq!(
        keys.check_health().unwrap_err(),
        "kmsv2 Provider vault is not healthy, error: Status: rpc error"
    );
    assert_eq!(keys.check_writable(Duration::from_secs(179)), Ok(()));
    assert_eq!(
        keys.check_writable(Duration::from_secs(180)).unwrap_err(),
        "KMS provider \"vault\" has not confirmed its key for 180 seconds: Status: rpc error; restore the plugin"
    );
    assert_eq!(keys.open(&sealed.key, b"at", &sealed.bytes), Ok(b"plain".to_vec()));
    poll(&keys, "1", 300).unwrap();
    keys.record_poll(Ok(()));
    assert_eq!((keys.check_health(), keys.check_writable(Duration::from_secs(301))), (Ok(()), Ok(())));
}

#[test]
fn lying_plugin_is_rejected_and_the_seed_in_use_stays() {
    let keys = keys();
    poll(&keys, "1", 0).unwrap();
    let at = Duration::from_secs(1);
    let rejected = |status: StatusResponse| keys.apply_status(&status, at).unwrap_err();
    let healthz = StatusResponse { healthz: "no".to_owned(), ..status("1") };
    assert_eq!(rejected(healthz), "got unexpected healthz status: no");
    let version = StatusResponse { version: "v1".to_owned(), ..status("1") };
    assert_eq!(rejected(version), "expected KMSv2 API version v2, got v1");
    let version = StatusResponse { version: "v2beta1".to_owned(), ..status("1") };
    assert!(rejected(version).contains("should not change after the initial status response version v2"));
    assert_eq!(rejected(status("")), "got invalid KMSv2 KeyID hash \"\": keyID is empty");
    assert!(rejected(status(&"x".repeat(1025))).contains("1025 bytes, which exceeds the max size of 1024"));
    let seed = KmsKeys::new_seed(&random);
    let install = |response: EncryptResponse| keys.install(&seed, response, "2", at).unwrap_err();
    assert!(install(wrap(&seed, "3")).starts_with("failed to rotate DEK: the status has the key ID hash"));
    let empty = EncryptResponse { ciphertext: Vec::new(), ..wrap(&seed, "2") };
    assert!(install(empty).ends_with("encrypted DEK source is empty"));
    let large = EncryptResponse { ciphertext: vec![1; 1025], ..wrap(&seed, "2") };
    assert!(install(large).contains("1025 bytes, which exceeds the max size of 1024"));
    let plain = EncryptResponse { ciphertext: seed.expose().to_vec(), ..wrap(&seed, "2") };
    assert!(install(plain).contains("returned the seed unencrypted"));
    let named = |name: &str, value: Vec<u8>| EncryptResponse {
        annotations: [(name.to_owned(), value)].into(),
        ..wrap(&seed, "2")
    };
    assert!(install(named("nodomain", Vec::new())).contains("at least two segments separated by dots"));
    assert!(install(named("a.b", vec![0; 33 << 10])).contains("which exceeds the max size of 32768"));
    assert_eq!(&*keys.write_key(), "k8s:enc:kms:v2:vault:1");
    let short = KmsKeys::new("vault", Box::new(|_| Ok(Secret::new(vec![0; 5]))));
    let sealed = keys.seal(b"at", b"plain", &random).unwrap();
    let error = short.open(&sealed.key, b"at", &sealed.bytes).unwrap_err();
    assert!(error.to_string().contains("a seed of 5 bytes, expected 32"), "{error}");
    let other = KmsKeys::new("vault", Box::new(|_| Ok(Secret::new(vec![0; 32]))));
    assert_eq!(other.open(&sealed.key, b"at", &sealed.bytes), Err(OpenError::Damaged));
}

#[test]
fn requests_and_responses_have_the_fields_of_the_api() {
    let secret = Secret::new(b"s".to_vec());
    assert_eq!(encrypt_request(&secret, "u"), b"\x0a\x01s\x12\x01u");
    let wrapped = WrappedSeed {
        ciphertext: b"c".to_vec(),
        key_id: "k".to_owned(),
        annotations: [("a.b".to_owned(), Vec::new())].into(),
    };
    assert_eq!(decrypt_request(&wrapped, "u"), b"\x0a\x01c\x12\x01u\x1a\x01k\x22\x07\x0a\x03a.b\x12\x00");
    assert_eq!(StatusResponse::decode(b"\x0a\x02v2\x12\x02ok\x1a\x011\x20\x07"), Ok(status("1")));
    let response = EncryptResponse::decode(b"\x0a\x01c\x12\x01k\x1a\x08\x0a\x03a.b\x12\x01v").unwrap();
    assert_eq!(
        (&*response.ciphertext, &*response.key_id, &*response.annotations["a.b"]),
        (&b"c"[..], "k", &b"v"[..])
    );
    assert_eq!(decrypt_response(b"\x0a\x01s").unwrap().expose(), b"s");
    assert!(StatusResponse::decode(b"\x0a\x09v2").is_err());
}

#[test]
fn debug_output_has_no_seed() {
    let keys = keys();
    poll(&keys, "1", 0).unwrap();
    assert_eq!(
        format!("{keys:?} {:?}", KmsKeys::new_seed(&random)),
        "KmsKeys { name: \"vault\", .. } [REDACTED]"
    );
}

proptest! {
    #[test]
    fn arbitrary_messages_never_panic(bytes: Vec<u8>) {
        drop(StatusResponse::decode(&bytes));
        drop(EncryptResponse::decode(&bytes));
        drop(decrypt_response(&bytes));
        let keys = keys();
        prop_assert!(keys.open("k8s:enc:kms:v2:vault:1", b"", &bytes).is_err());
    }
}
