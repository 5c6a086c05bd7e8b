//! Expiry times of certificates: of the server, of files that it reads, and of CA bundles in objects.
//!
//! Objects are parsed once per revision, and only if they have a bundle, so a scrape costs a walk over the objects of
//! four resources.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use setpoint_api::kinds::certificates::expiry::{
    BUNDLE_RESOURCES, CertificateSummary, ca_bundles, first_to_expire, may_have_ca_bundle, read_pem,
};
use setpoint_api::{Key, Resource, Revision, Time, json};
use setpoint_pki::certs::Pki;
use setpoint_store::{Record, Snapshot};

use super::text::{MetricType, Text};

/// Maximum number of series of objects.
const SERIES_MAX: usize = 1000;
/// Name of the family.
const NAME: &str = "setpoint_certificate_expiration_timestamp_seconds";

/// CA bundle of an object: the field, and the end of the first certificate to expire.
type Bundle = (String, Time);

/// Expiry times of certificates.
#[derive(Default)]
pub struct CertificateExpirations {
    /// Certificates of the server: name and end.
    own: Mutex<Vec<(&'static str, Time)>>,
    /// Certificates in files: path, field and end.
    files: Mutex<Vec<(String, String, Time)>>,
    /// Bundles of objects, at the revision at which they were read.
    bundles: Mutex<BTreeMap<Key, (Revision, Vec<Bundle>)>>,
}

impl CertificateExpirations {
    /// Sets the certificates of the server.
    pub fn set_own(&self, pki: &Pki) {
        let pairs = [
            ("ca", &pki.ca),
            ("apiserver", &pki.server),
            ("admin", &pki.admin),
            ("front-proxy-ca", &pki.front_proxy_ca),
            ("front-proxy-client", &pki.front_proxy_client),
        ];
        let end = |pem: &str| read_pem(pem.as_bytes()).first().map(|one| one.end);
        let ends = pairs.into_iter().filter_map(|(name, pair)| Some((name, end(&pair.certificate)?)));
        *self.own.lock() = ends.collect();
    }

    /// Sets the certificates in files: path, field and certificate.
    pub fn set_files<'a>(&self, files: impl Iterator<Item = (&'a str, &'a str, &'a CertificateSummary)>) {
        *self.files.lock() =
            files.map(|(path, field, one)| (path.to_owned(), field.to_owned(), one.end)).collect();
    }

    pub(super) fn write(&self, text: &mut Text, snapshot: &Snapshot) {
        text.family(NAME, MetricType::Gauge, "End of the validity of certificates, as seconds since 1970.");
        let mut sample = |source: &str, name: &str, field: &str, end: Time| {
            text.sample(NAME, &[("source", source), ("name", name), ("field", field)], end.0 / 1_000_000);
        };
        self.own.lock().iter().for_each(|(name, end)| sample("pki", name, "", *end));
        self.files.lock().iter().for_each(|(path, field, end)| sample("file", path, field, *end));
        let mut bundles = self.bundles.lock();
        *bundles = current(snapshot, &bundles);
        let all =
            bundles.iter().flat_map(|(key, (_, bundles))| bundles.iter().map(move |bundle| (key, bundle)));
        for (key, (field, end)) in all.take(SERIES_MAX) {
            sample(key.resource().as_str(), key.name(), field, *end);
        }
    }
}

/// Returns the bundles of a snapshot. Those of unchanged objects are taken over.
fn current(
    snapshot: &Snapshot,
    known: &BTreeMap<Key, (Revision, Vec<Bundle>)>,
) -> BTreeMap<Key, (Revision, Vec<Bundle>)> {
    let mut current = BTreeMap::new();
    for (name, ..) in BUNDLE_RESOURCES {
        let Ok(resource) = Resource::new(name) else { continue };
        for record in snapshot.table(&resource).into_iter().flat_map(|table| table.iter()) {
            let (key, revision) = (record.key(&resource), record.revision());
            let unchanged = known.get(&key).filter(|(at, _)| *at == revision);
            let bundles = unchanged.map_or_else(|| bundles(name, record), |(_, bundles)| bundles.clone());
            current.insert(key, (revision, bundles));
        }
    }
    current
}

fn bundles(resource: &str, record: &Record) -> Vec<Bundle> {
    let encoded = record.value();
    if !may_have_ca_bundle(&encoded) {
        return Vec::new();
    }
    let object = json::parse_stored(&encoded).unwrap_or_default();
    let ends = ca_bundles(resource, &object).into_iter();
    ends.filter_map(|(field, pem)| Some((field, first_to_expire(&read_pem(&pem))?.end))).collect()
}
