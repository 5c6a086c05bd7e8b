//! Expiry of X.509 certificates in PEM: their subjects and validity, read without verifying anything.
//!
//! CA bundles keep old certificates while an authority is rotated, so of several certificates with one subject only the
//! last to expire counts: see [`first_to_expire`]. Start at [`read_pem`] and [`ca_bundles`].

use std::collections::BTreeMap;
use std::time::Duration;

use super::pem;
use crate::{Time, Value, base64, rfc3339};

/// Longest time before the end of a certificate from which on it is due for replacement.
pub const WARNING_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Part of the validity after which a certificate of short validity is due: its last sixth. Issuers renew in the last
/// third.
const WARNING_PART: u32 = 6;
/// Maximum number of characters of a name.
const NAME_CHARACTERS_MAX: usize = 200;

/// Resources whose objects hold CA bundles of other servers: resource, API version, kind.
pub const BUNDLE_RESOURCES: [(&str, &str, &str); 4] = [
    (
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
    ),
    (
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
    ),
    ("customresourcedefinitions.apiextensions.k8s.io", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apiservices.apiregistration.k8s.io", "apiregistration.k8s.io/v1", "APIService"),
];

/// Names and validity of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// Subject as text, in the order of the certificate: `O=system:masters,CN=kubernetes-admin`.
    pub subject: String,
    /// Issuer as text.
    pub issuer: String,
    /// Start of the validity.
    pub begin: Time,
    /// End of the validity.
    pub end: Time,
    /// Subject, DER-encoded.
    encoded_subject: Vec<u8>,
}

/// State of a certificate at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExpiryState {
    /// Not due for replacement.
    Valid,
    /// Due for replacement.
    Expiring,
    /// Expired.
    Expired,
}

impl ExpiryState {
    /// Name in outputs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ExpiryState::Valid => "Valid",
            ExpiryState::Expiring => "Expiring",
            ExpiryState::Expired => "Expired",
        }
    }
}

impl CertificateSummary {
    /// Time from which on the certificate is due for replacement.
    #[must_use]
    pub fn warn_at(&self) -> Time {
        self.end.before(WARNING_MAX.min(self.end.since(self.begin) / WARNING_PART))
    }

    /// State at a time. A certificate is valid up to its end, the last second included.
    #[must_use]
    pub fn state(&self, now: Time) -> ExpiryState {
        if now > self.end {
            ExpiryState::Expired
        } else if now >= self.warn_at() {
            ExpiryState::Expiring
        } else {
            ExpiryState::Valid
        }
    }

    /// Reads a certificate in DER; `None` if it is malformed.
    #[must_use]
    pub fn from_der(der: &[u8]) -> Option<CertificateSummary> {
        let (certificate, rest) = element(der, SEQUENCE)?;
        let (tbs, _) = element(certificate, SEQUENCE).filter(|_| rest.is_empty())?;
        // The version is optional.
        let tbs = element(tbs, VERSION).map_or(tbs, |(_, rest)| rest);
        let (_, tbs) = element(tbs, INTEGER)?;
        let (_, tbs) = element(tbs, SEQUENCE)?;
        let (issuer, tbs) = element(tbs, SEQUENCE)?;
        let (validity, tbs) = element(tbs, SEQUENCE)?;
        let (subject, _) = element(tbs, SEQUENCE)?;
        let (begin, validity) = time(validity)?;
        let (end, _) = time(validity)?;
        let encoded_subject = subject.to_vec();
        Some(CertificateSummary { subject: name(subject), issuer: name(issuer), begin, end, encoded_subject })
    }
}

/// Reads the certificates in a PEM text. Other blocks and malformed certificates are skipped.
#[must_use]
pub fn read_pem(text: &[u8]) -> Vec<CertificateSummary> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((block, after)) = pem::next_block(rest) {
        if block.label == "CERTIFICATE" {
            found.extend(CertificateSummary::from_der(&block.bytes));
        }
        rest = after;
    }
    found
}

/// Returns the certificate that expires first, where of several with one subject the last to expire counts.
#[must_use]
pub fn first_to_expire(certificates: &[CertificateSummary]) -> Option<&CertificateSummary> {
    let mut last: BTreeMap<&[u8], &CertificateSummary> = BTreeMap::new();
    for one in certificates {
        let kept = last.entry(&one.encoded_subject).or_insert(one);
        if kept.end < one.end {
            *kept = one;
        }
    }
    last.into_values().min_by_key(|one| one.end)
}

/// Returns the CA bundles of an object of [`BUNDLE_RESOURCES`]: the path of the field, and its PEM text.
#[must_use]
pub fn ca_bundles(resource: &str, object: &Value) -> Vec<(String, Vec<u8>)> {
    let decoded = |path: String, value: Option<&Value>| {
        let text = value?.as_str().filter(|text| !text.is_empty())?;
        Some((path, base64::decode(text)?))
    };
    match resource.split('.').next() {
        Some("validatingwebhookconfigurations" | "mutatingwebhookconfigurations") => {
            let webhooks = object.get("webhooks").and_then(Value::as_list).unwrap_or_default();
            let numbered = webhooks.iter().enumerate().filter_map(|(index, webhook)| {
                let path = format!("webhooks[{index}].clientConfig.caBundle");
                decoded(path, webhook.at(&["clientConfig", "caBundle"]))
            });
            numbered.collect()
        }
        Some("customresourcedefinitions") => {
            const PATH: [&str; 5] = ["spec", "conversion", "webhook", "clientConfig", "caBundle"];
            decoded(PATH.join("."), object.at(&PATH)).into_iter().collect()
        }
        Some("apiservices") => {
            decoded("spec.caBundle".to_owned(), object.at(&["spec", "caBundle"])).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// `true` if the encoded object may have a CA bundle. Most definitions have none, and need not be parsed.
#[must_use]
pub fn may_have_ca_bundle(encoded: &[u8]) -> bool {
    const FIELD: &[u8] = b"\"caBundle\"";
    encoded.windows(FIELD.len()).any(|window| window == FIELD)
}

const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;

/// Types of the names in a subject that texts show, by their object identifiers below `2.5.4`.
const NAME_TYPES: [(u8, &str); 4] = [(3, "CN"), (6, "C"), (10, "O"), (11, "OU")];

/// Splits off a DER element. Returns its tag, its content, and the bytes after it.
fn next_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Splits off a DER element of this type. Returns its content, and the bytes after it.
fn element(bytes: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    next_element(bytes).filter(|(tag, ..)| *tag == expected).map(|(_, content, rest)| (content, rest))
}

fn time(bytes: &[u8]) -> Option<(Time, &[u8])> {
    let (tag, content, rest) = next_element(bytes)?;
    let digits = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = match (tag, digits.len()) {
        // Two digits of a year are those from 1950 to 2049.
        (UTC_TIME, 12) => format!("{}{digits}", if digits < "5" { "20" } else { "19" }),
        (GENERALIZED_TIME, 14) => digits.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| &digits[from..to];
    let text = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14)
    );
    Some((rfc3339::parse(&text).ok()?, rest))
}

/// Formats a name: the parts of the types above, in their order.
fn name(mut names: &[u8]) -> String {
    let mut parts = Vec::new();
    while let Some((mut set, rest)) = element(names, SET) {
        names = rest;
        while let Some((attribute, rest)) = element(set, SEQUENCE) {
            set = rest;
            parts.extend(name_part(attribute));
        }
    }
    let text = parts.join(",");
    match text.char_indices().nth(NAME_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn name_part(attribute: &[u8]) -> Option<String> {
    let (identifier, rest) = element(attribute, OBJECT_IDENTIFIER)?;
    let &[0x55, 4, number] = identifier else { return None };
    let (_, kind) = NAME_TYPES.iter().find(|(known, _)| *known == number)?;
    let (_, text, _) = next_element(rest)?;
    let text: String =
        String::from_utf8_lossy(text).chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    Some(format!("{kind}={text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    /// Certificate of `CN=ann` from 2026-11-16T03:13:06Z to 2126-10-23T03:13:06Z.
    const PEM: &str = "-----BEGIN CERTIFICATE-----\nMIIBcjCCARmgAwIBAgIUbeG3/+/zoXPumXN8EYFu1obPf/4wCgYIKoZIzj0EAwIw\nDjEMMAoGA1UEAwwDYW5uMCAXDTI2MTExNjAzMTMwNloYDzIxMjYxMDIzMDMxMzA2\nWjAOMQwwCgYDVQQDDANhbm4wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAT0FTqr\nFrA5oKe8/cPmS8nMMhNeD+SvEAEjhi29OhqIkaLQauI5OrrCQRuJvTJN0Mtwxq6K\ndprMSRXytHfegs3ho1MwUTAdBgNVHQ4EFgQUjqt0GBc/zIAgXRUfLEpSaRMTYDsw\nHwYDVR0jBBgwFoAUjqt0GBc/zIAgXRUfLEpSaRMTYDswDwYDVR0TAQH/BAUwAwEB\n/zAKBggqhkjOPQQDAgNHADBEAiAB02/BMjUW+K6tfgaS1VikDmFKi1r1vUhlJxQ5\nVNW/qAIgIjd9WkGzZuOUS/7q/7VnCDWc3aeU9sX7H2Ctgjz30Ec=\n-----END CERTIFICATE-----\n";

    fn summary(subject: &str, begin: i64, end: i64) -> CertificateSummary {
        let (begin, end) = (Time::from_seconds(begin), Time::from_seconds(end));
        let (text, encoded_subject) = (subject.to_owned(), subject.as_bytes().to_vec());
        CertificateSummary { subject: text.clone(), issuer: text, begin, end, encoded_subject }
    }

    #[test]
    fn names_and_validity_are_read_from_a_certificate() {
        let read = read_pem(format!("text\n{PEM}{PEM}").as_bytes());
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].subject.as_str(), read[0].issuer.as_str()), ("CN=ann", "CN=ann"));
        let seconds = |time: Time| rfc3339::Seconds(time).to_string();
        assert_eq!(seconds(read[0].begin), "2026-11-16T03:13:06Z");
        assert_eq!(seconds(read[0].end), "2126-10-23T03:13:06Z");
    }

    #[test]
    fn certificate_is_due_in_its_last_sixth_but_not_more_than_thirty_days_before_its_end() {
        const DAY: i64 = 24 * 60 * 60;
        let short = summary("a", 0, 60 * DAY);
        assert_eq!(short.warn_at(), Time::from_seconds(50 * DAY));
        let long = summary("a", 0, 3650 * DAY);
        assert_eq!(long.warn_at(), Time::from_seconds(3620 * DAY));
        let state = |seconds| long.state(Time::from_seconds(seconds));
        assert_eq!(state(3620 * DAY - 1), ExpiryState::Valid);
        assert_eq!((state(3620 * DAY), state(3650 * DAY)), (ExpiryState::Expiring, ExpiryState::Expiring));
        assert_eq!(state(3650 * DAY + 1), ExpiryState::Expired);
    }

    #[test]
    fn replaced_certificate_of_a_bundle_does_not_count() {
        let bundle = [summary("a", 0, 10), summary("b", 0, 30), summary("a", 5, 40)];
        assert_eq!(first_to_expire(&bundle), Some(&bundle[1]));
        assert_eq!(first_to_expire(&bundle[..2]), Some(&bundle[0]));
        assert_eq!(first_to_expire(&[]), None);
    }

    #[test]
    fn bundles_are_found_in_every_kind_that_has_them() {
        let encoded = base64::encode(PEM.as_bytes());
        let config = value!({"caBundle": (encoded.as_str())});
        let webhooks =
            value!({"webhooks": [{"clientConfig": {"url": "u"}}, {"clientConfig": (config.clone())}]});
        let definition = value!({"spec": {"conversion": {"webhook": {"clientConfig": (config.clone())}}}});
        let service = value!({"spec": (config)});
        let expected = [
            ("webhooks[1].clientConfig.caBundle", &webhooks),
            ("webhooks[1].clientConfig.caBundle", &webhooks),
            ("spec.conversion.webhook.clientConfig.caBundle", &definition),
            ("spec.caBundle", &service),
        ];
        for ((resource, ..), (path, object)) in BUNDLE_RESOURCES.iter().zip(expected) {
            assert_eq!(ca_bundles(resource, object), [(path.to_owned(), PEM.as_bytes().to_vec())]);
            assert!(may_have_ca_bundle(&crate::json::to_vec(object)));
        }
        assert_eq!(
            ca_bundles("apiservices.apiregistration.k8s.io", &value!({"spec": {"caBundle": "?"}})),
            []
        );
        assert!(!may_have_ca_bundle(b"{}"));
    }

    proptest::proptest! {
        #[test]
        fn damaged_certificates_never_panic(at in 0..374_usize, byte: u8, cut in 0..374_usize) {
            let (block, _) = pem::next_block(PEM.as_bytes()).unwrap();
            let mut der = block.bytes;
            proptest::prop_assert_eq!(CertificateSummary::from_der(&der[..cut]), None);
            der[at] = byte;
            let _ = CertificateSummary::from_der(&der);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = CertificateSummary::from_der(&bytes);
            let _ = read_pem(&bytes);
        }
    }
}
