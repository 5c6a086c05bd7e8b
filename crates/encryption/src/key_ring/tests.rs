//! Tests of sealing and opening with the keys of a configuration.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use setpoint_api::{ManualClock, Time};

use super::*;
use crate::config::read;

/// Returns different bytes at each call, the same in each run.
fn counting_random() -> Arc<Random> {
    let count = AtomicU64::new(0);
    Arc::new(move |bytes: &mut [u8]| {
        let call = count.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = call[i % 8] ^ i as u8);
    })
}

fn ring(rules: &str) -> KeyRing {
    let text =
        format!("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: {rules}");
    let config = read(text.as_bytes()).unwrap();
    let none = |name: &str| unreachable!("{name}");
    KeyRing::new(&config, &none, counting_random(), Arc::new(ManualClock::new(Time::EPOCH))).unwrap()
}

const FIRST: &str = "{name: first, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}";
const SECOND: &str = "{name: second, secret: YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY=}";
const CIPHERS: [&str; 3] = ["aesgcm", "aescbc", "secretbox"];

fn secrets(cipher: &str, keys: &[&str]) -> KeyRing {
    let keys = keys.join(", ");
    ring(&format!(
        "[{{resources: [secrets], providers: [{{{cipher}: {{keys: [{keys}]}}}}, {{identity: {{}}}}]}}]"
    ))
}

fn sealed(ring: &KeyRing, context: &[u8], plain: &[u8]) -> Sealed {
    ring.seal("secrets", context, plain).unwrap().unwrap()
}

fn open(ring: &KeyRing, context: &[u8], sealed: &Sealed) -> Result<Vec<u8>, OpenError> {
    ring.open("secrets", &sealed.key, context, &sealed.bytes)
}

#[test]
fn rules_select_the_provider_of_a_resource() {
    let key =
        |cipher: &str, name: &str| format!("[{{{cipher}: {{keys: [{}]}}}}]", FIRST.replace("first", name));
    let rules = format!(
        "[{{resources: [events], providers: [{{identity: {{}}}}]}}, {{resources: [secrets], providers: {}}}, \
         {{resources: ['*.apps'], providers: {}}}, {{resources: ['*.*'], providers: {}}}]",
        key("aesgcm", "a"),
        key("aescbc", "b"),
        key("secretbox", "c")
    );
    let ring = ring(&rules);
    let write_key = |resource: &str| ring.write_key(resource).as_deref().map(str::to_owned);
    assert_eq!(write_key("events"), None);
    assert_eq!(write_key("secrets").as_deref(), Some("k8s:enc:aesgcm:v1:a"));
    assert_eq!(write_key("deployments.apps").as_deref(), Some("k8s:enc:aescbc:v1:b"));
    assert_eq!(write_key("pods").as_deref(), Some("k8s:enc:secretbox:v1:c"));
    assert_eq!(secrets("aesgcm", &[FIRST]).write_key("pods"), None, "without a rule");
}

#[test]
fn rotated_key_opens_what_it_sealed_until_it_is_removed() {
    for cipher in CIPHERS {
        let before = sealed(&secrets(cipher, &[FIRST]), b"at", b"plain");
        let rotated = secrets(cipher, &[SECOND, FIRST]);
        assert_eq!(open(&rotated, b"at", &before), Ok(b"plain".to_vec()), "{cipher}");
        let after = sealed(&rotated, b"at", b"plain");
        assert!(after.key.ends_with(":second"));
        assert_eq!(open(&secrets(cipher, &[FIRST]), b"at", &after), Err(OpenError::MissingKey));
        assert_eq!(open(&secrets(cipher, &[SECOND]), b"at", &before), Err(OpenError::MissingKey));
        let renamed = secrets(cipher, &[&SECOND.replace("second", "first")]);
        assert_eq!(open(&renamed, b"at", &before), Err(OpenError::Damaged), "another key of the same name");
        let off = ring("[{resources: [secrets], providers: [{identity: {}}]}]");
        assert_eq!(off.seal("secrets", b"at", b"plain"), Ok(None));
        assert_eq!(open(&off, b"at", &before), Err(OpenError::MissingKey));
    }
}

#[test]
fn equal_values_are_sealed_to_different_bytes() {
    for cipher in CIPHERS {
        let ring = secrets(cipher, &[FIRST]);
        assert_ne!(sealed(&ring, b"at", b"plain").bytes, sealed(&ring, b"at", b"plain").bytes, "{cipher}");
    }
}

#[test]
fn debug_output_has_no_key() {
    let shown = format!("{:?}", secrets("aesgcm", &[FIRST]));
    assert!(shown.contains("secrets") && !shown.contains("0123"), "{shown}");
}

/// Computed with other implementations of the ciphers. A change of a stored form needs a new version in the key's id.
#[test]
fn stored_forms_stay() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for cipher in CIPHERS {
        let first = sealed(&secrets(cipher, &[FIRST]), b"context", b"plain");
        let expected = STORED.iter().find(|(name, _)| *name == cipher).map(|(_, text)| *text);
        assert_eq!(expected, Some(&*hex(&first.bytes)), "{cipher}");
    }
}

const STORED: [(&str, &str); 3] = [
    (
        "aesgcm",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f6266881ae0100bd826eb77b0d38d90257c65b13319",
    ),
    (
        "aescbc",
        "000102030405060708090a0b0c0d0e0f38a85661efb8a9a88346f775ad34a8b58a1ca6a80a92d13597ccf17684afddf83cff3c07b8f5271678182672b8cc2617",
    ),
    (
        "secretbox",
        "000102030405060708090a0b0c0d0e0f1011121314151617544fd5bc3fa19c4706bdb013b76d0df007ee3ecec683528a66ba757bd68cd7210e3dfa3e5411a17cd9115aa0d0d4d8068347f88dd8",
    ),
];

proptest! {
    #[test]
    fn sealed_bytes_round_trip(plain: Vec<u8>, context: Vec<u8>, cipher in 0usize..3) {
        let ring = secrets(CIPHERS[cipher], &[FIRST]);
        let sealed = sealed(&ring, &context, &plain);
        prop_assert_eq!(open(&ring, &context, &sealed), Ok(plain));
    }

    #[test]
    fn changed_or_moved_bytes_are_detected(
        plain in proptest::collection::vec(any::<u8>(), 0..40),
        at: prop::sample::Index,
        bit in 0u8..8,
        cipher in 0usize..3,
    ) {
        let ring = secrets(CIPHERS[cipher], &[FIRST]);
        let good = sealed(&ring, b"here", &plain);
        prop_assert_eq!(open(&ring, b"there", &good), Err(OpenError::Damaged));
        let mut changed = good.clone();
        let position = at.index(changed.bytes.len());
        changed.bytes[position] ^= 1 << bit;
        prop_assert_eq!(open(&ring, b"here", &changed), Err(OpenError::Damaged));
        let mut cut = good;
        cut.bytes.truncate(position);
        prop_assert_eq!(open(&ring, b"here", &cut), Err(OpenError::Damaged));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, cipher in 0usize..3) {
        let ring = secrets(CIPHERS[cipher], &[FIRST]);
        let key = format!("k8s:enc:{}:v1:first", CIPHERS[cipher]);
        prop_assert_eq!(ring.open("secrets", &key, b"", &bytes), Err(OpenError::Damaged));
    }
}
