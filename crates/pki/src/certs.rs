//! Cluster certificate authority, serving certificate and administrator's client certificate.
//!
//! Names are those of kubeadm, so policies that match them keep working. [`Pki::load_or_create`] keeps the
//! certificates as PEM in a directory that only its owner can read, and reuses them after a restart;
//! [`Pki::ephemeral`] keeps them in memory. Keys come from the library's generator; time and serial numbers are
//! arguments.
//!
//! Every credential depends on the CA, so an existing CA is never replaced: if a part of it is missing or damaged, or
//! if the clock is outside of its validity, [`Pki::load_or_create`] fails. In the last third of its validity the CA
//! certificate is extended with the same key and name, and everything it signed stays valid. The serving and client
//! certificates are reissued when they are missing, damaged, signed by another CA or in the last third of their
//! validity, and the serving certificate when it lacks a name.
//!
//! Start at [`Pki`].

pub mod signing;
pub mod users;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SerialNumber,
};
use setpoint_api::Time;
use setpoint_api::rfc3339::Seconds;
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;

use crate::private_file;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Start of 2023. An earlier time means that the clock is wrong: this program did not exist then.
const CLOCK_MIN: i64 = 1_672_531_200;
/// Validity of the CA.
const CA_VALIDITY_DAYS: u32 = 3650;
/// Validity of other certificates.
const LEAF_VALIDITY_DAYS: u32 = 365;
/// Tolerance for clients whose clock is behind.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// Common name of the CA.
const CA_NAME: &str = "kubernetes";
/// Common name of the serving certificate.
const SERVER_NAME: &str = "kube-apiserver";
/// The administrator's user name.
pub const ADMIN_NAME: &str = "kubernetes-admin";
/// Name of the CA of the aggregation layer.
const FRONT_PROXY_CA_NAME: &str = "front-proxy-ca";
/// User of the client certificate with which requests are forwarded to extension API servers.
pub const FRONT_PROXY_CLIENT_NAME: &str = "front-proxy-client";
/// The administrator's group, which is allowed everything.
const ADMIN_GROUP: &str = "system:masters";

/// Failure to load or issue certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The CA on disk is unusable.
    #[error("{} {problem}: {remedy}", path.display())]
    Authority {
        /// The missing or damaged file.
        path: PathBuf,
        /// The problem.
        problem: String,
        /// The suggested fix.
        remedy: String,
    },
    /// The clock is too far in the past to create a CA.
    #[error(
        "the clock of this machine says {}, and an authority that is made now would be unusable once it is right: set the \
         clock right, and start again", Seconds(*.0)
    )]
    Clock(Time),
    /// Issuing failed.
    #[error("cannot issue certificates: {0}")]
    Make(#[from] rcgen::Error),
    /// Signing failed.
    #[error(transparent)]
    Sign(#[from] signing::SignError),
}

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct CertifiedKey {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
    /// Start of the validity.
    begin: Time,
    /// Start of the last third of the validity: the certificate is due for renewal from then on.
    renew_at: Time,
}

/// The CA and the certificates it has signed.
#[derive(Clone, PartialEq, Eq)]
pub struct Pki {
    /// The CA.
    pub ca: CertifiedKey,
    /// Serving certificate.
    pub server: CertifiedKey,
    /// Client certificate of the administrator.
    pub admin: CertifiedKey,
    /// CA of the aggregation layer: extension API servers trust user headers of clients that it has certified.
    pub front_proxy_ca: CertifiedKey,
    /// Client certificate with which requests are forwarded to extension API servers.
    pub front_proxy_client: CertifiedKey,
}

/// Certificates that exist already.
#[derive(Clone, Default)]
struct ExistingCertificates {
    ca: Option<CertifiedKey>,
    server: Option<CertifiedKey>,
    admin: Option<CertifiedKey>,
    front_proxy_ca: Option<CertifiedKey>,
    front_proxy_client: Option<CertifiedKey>,
}

impl Pki {
    /// Issues new certificates without storing them. `names` are the server's DNS names and IP addresses.
    ///
    /// # Errors
    /// If a name is invalid.
    pub fn ephemeral(names: &[String], now: Time, entropy: u64) -> Result<Pki, CertError> {
        CertificateIssuer { names, now, serial: entropy }.complete(ExistingCertificates::default())
    }

    /// Loads the certificates in `dir`, and issues those that are missing or due for renewal.
    ///
    /// # Errors
    /// If the directory cannot be read or written, or the CA in it is unusable.
    pub fn load_or_create(dir: &Path, names: &[String], now: Time, entropy: u64) -> Result<Pki, CertError> {
        private_file::make_dir(dir).map_err(failed("create", dir))?;
        let ca = load_authority(dir, now)?;
        if ca.is_none() && now < Time::from_seconds(CLOCK_MIN) {
            return Err(CertError::Clock(now));
        }
        let front_proxy_ca = load_front_proxy_authority(dir, now)?;
        let kept = |stem| load_leaf(dir, stem, ca.as_ref());
        let old = ExistingCertificates {
            server: kept("apiserver")?,
            admin: kept("admin")?,
            front_proxy_client: load_leaf(dir, "front-proxy-client", front_proxy_ca.as_ref())?,
            front_proxy_ca,
            ca,
        };
        let pki = CertificateIssuer { names, now, serial: entropy }.complete(old.clone())?;
        let pairs = [
            ("ca", &pki.ca, &old.ca),
            ("apiserver", &pki.server, &old.server),
            ("admin", &pki.admin, &old.admin),
            ("front-proxy-ca", &pki.front_proxy_ca, &old.front_proxy_ca),
            ("front-proxy-client", &pki.front_proxy_client, &old.front_proxy_client),
        ];
        let new = pairs.into_iter().filter(|(_, pair, old)| old.as_ref() != Some(*pair));
        save(dir, new.map(|(stem, pair, _)| (stem, pair)))?;
        Ok(pki)
    }

    /// Earliest renewal time of the certificates. [`Pki::load_or_create`] renews them from then on.
    #[must_use]
    fn renew_at(&self) -> Time {
        let pairs = [&self.ca, &self.server, &self.admin, &self.front_proxy_ca, &self.front_proxy_client];
        pairs.map(|pair| pair.renew_at).into_iter().min().expect("there are five certificates")
    }

    /// `true` if a certificate is due for renewal: it is in the last third of its validity, or its validity has not
    /// begun, because the clock was ahead when it was issued and has been set back since.
    #[must_use]
    pub fn is_renewal_due(&self, now: Time) -> bool {
        let leaves = [&self.server, &self.admin, &self.front_proxy_client];
        leaves.iter().any(|leaf| now < leaf.begin) || self.renew_at() <= now
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CertError + use<> {
    let path = path.to_owned();
    move |source| CertError::Io { action, path, source }
}

/// Reads a file; `None` if it does not exist. Bytes that are not UTF-8 are replaced, so a damaged file fails to parse
/// later.
fn read(dir: &Path, name: &str) -> Result<Option<String>, CertError> {
    let path = dir.join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &path)(error)),
    }
}

/// Loads the CA in `dir`; `None` if there is neither a CA nor a certificate signed by one.
fn load_authority(dir: &Path, now: Time) -> Result<Option<CertifiedKey>, CertError> {
    let unusable = |name: &str, problem: String, remedy: &str| {
        let replace_ca_hint = format!(
            "{remedy}, or remove {} to have a new authority made (all kubeconfigs and client certificates then stop \
             working)",
            dir.display()
        );
        CertError::Authority { path: dir.join(name), problem, remedy: replace_ca_hint }
    };
    const RESTORE: &str = "restore it from a backup";
    let (certificate, key) = match (read(dir, "ca.crt")?, read(dir, "ca.key")?) {
        (Some(certificate), Some(key)) => (certificate, key),
        (certificate, key) => {
            // The first start writes the CA key first: after a crash the key may be there alone, before anything is
            // signed.
            let signed = read(dir, "apiserver.crt")?.or(read(dir, "admin.crt")?);
            let (missing, there) = match (certificate, key, signed) {
                (None, _, None) => return Ok(None),
                (Some(_), _, _) => ("ca.key", "ca.crt is there"),
                (None, _, Some(_)) => ("ca.crt", "certificates that it signed are there"),
            };
            return Err(unusable(missing, format!("is missing, but {there}"), RESTORE));
        }
    };
    let Some((begin, end)) = inspect(&certificate, validity_of) else {
        return Err(unusable("ca.crt", "does not hold a certificate".to_owned(), RESTORE));
    };
    if KeyPair::from_pem(&key).is_err() {
        return Err(unusable("ca.key", "does not hold a private key".to_owned(), RESTORE));
    }
    let pair = CertifiedKey { certificate, key, begin, renew_at: renew_at(begin, end) };
    if !pair.matches_key() {
        return Err(unusable("ca.key", "is not the key of ca.crt".to_owned(), RESTORE));
    }
    let clock = "set the clock of this machine right";
    if now < begin {
        let problem = format!("is valid from {} on, and the clock says {}", Seconds(begin), Seconds(now));
        let clock = format!("{clock} (if it is right now, it was ahead when the authority was made)");
        return Err(unusable("ca.crt", problem, &clock));
    }
    if now >= end {
        let problem = format!("has expired at {}, and the clock says {}", Seconds(end), Seconds(now));
        return Err(unusable("ca.crt", problem, clock));
    }
    Ok(Some(pair))
}

/// Loads the CA of the aggregation layer; `None` if it is missing, damaged or not valid now. Extension API servers read
/// it from the cluster, so a new one replaces it without further steps.
fn load_front_proxy_authority(dir: &Path, now: Time) -> Result<Option<CertifiedKey>, CertError> {
    let (certificate, key) = (read(dir, "front-proxy-ca.crt")?, read(dir, "front-proxy-ca.key")?);
    let (Some(certificate), Some(key)) = (certificate, key) else { return Ok(None) };
    let Some((begin, end)) = inspect(&certificate, validity_of) else { return Ok(None) };
    let pair = CertifiedKey { certificate, key, begin, renew_at: renew_at(begin, end) };
    Ok(Some(pair).filter(|pair| begin <= now && now < end && pair.matches_key()))
}

/// Loads a certificate signed by the CA; `None` if it is missing or damaged, since it can be reissued.
fn load_leaf(dir: &Path, stem: &str, ca: Option<&CertifiedKey>) -> Result<Option<CertifiedKey>, CertError> {
    let certificate = read(dir, &format!("{stem}.crt"))?;
    let key = read(dir, &format!("{stem}.key"))?;
    let (Some(ca), Some(certificate), Some(key)) = (ca, certificate, key) else { return Ok(None) };
    let Some((begin, end)) = inspect(&certificate, validity_of) else { return Ok(None) };
    let pair = CertifiedKey { certificate, key, begin, renew_at: renew_at(begin, end) };
    Ok(Some(pair).filter(|pair| pair.matches_key() && pair.is_signed_by(ca)))
}

impl CertifiedKey {
    /// `true` if the certificate was issued for the key.
    fn matches_key(&self) -> bool {
        let key = KeyPair::from_pem(&self.key).ok();
        let is_matching = inspect(&self.certificate, |parsed| {
            key.is_some_and(|key| parsed.public_key().subject_public_key.data == key.public_key_raw())
        });
        is_matching == Some(true)
    }

    fn is_signed_by(&self, ca: &CertifiedKey) -> bool {
        let is_signed = inspect(&self.certificate, |parsed| {
            inspect(&ca.certificate, |ca| parsed.verify_signature(Some(ca.public_key())).is_ok())
        });
        is_signed.flatten() == Some(true)
    }
}

/// Writes the key of each pair before its certificate: a certificate on disk always has its key.
fn save<'a>(dir: &Path, pairs: impl Iterator<Item = (&'a str, &'a CertifiedKey)>) -> Result<(), CertError> {
    let files: Vec<_> = pairs
        .flat_map(|(stem, pair)| [(stem, "key", &pair.key), (stem, "crt", &pair.certificate)])
        .map(|(stem, extension, text)| (dir.join(format!("{stem}.{extension}")), text.as_bytes()))
        .collect();
    private_file::write_all(&files).map_err(|(path, error)| failed("write", &path)(error))
}

/// Parses a certificate and applies `read`; `None` if it cannot be parsed.
fn inspect<T>(pem: &str, read: impl FnOnce(&X509Certificate<'_>) -> T) -> Option<T> {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).ok()?;
    Some(read(&pem.parse_x509().ok()?))
}

fn validity_of(certificate: &X509Certificate<'_>) -> (Time, Time) {
    let validity = certificate.validity();
    (Time::from_seconds(validity.not_before.timestamp()), Time::from_seconds(validity.not_after.timestamp()))
}

/// Start of the last third of a validity: a running server renews its certificates from then on.
#[must_use]
pub fn renew_at(begin: Time, end: Time) -> Time {
    end.before(end.since(begin) / 3)
}

/// Issues certificates at one time.
struct CertificateIssuer<'a> {
    names: &'a [String],
    now: Time,
    serial: u64,
}

impl CertificateIssuer<'_> {
    fn complete(mut self, existing: ExistingCertificates) -> Result<Pki, CertError> {
        let ca = self.renewed_authority(CA_NAME, existing.ca)?;
        let issuer = Issuer::from_ca_cert_pem(&ca.certificate, KeyPair::from_pem(&ca.key)?)?;
        let server = existing.server.filter(|server| self.is_fresh(server) && self.has_all_names(server));
        let server = server.map_or_else(|| self.server(&issuer), Ok)?;
        let admin = existing.admin.filter(|admin| self.is_fresh(admin));
        let admin = admin.map_or_else(|| self.client(ADMIN_NAME, Some(ADMIN_GROUP), &issuer), Ok)?;
        let front_proxy_ca = self.renewed_authority(FRONT_PROXY_CA_NAME, existing.front_proxy_ca)?;
        let key = KeyPair::from_pem(&front_proxy_ca.key)?;
        let issuer = Issuer::from_ca_cert_pem(&front_proxy_ca.certificate, key)?;
        let front_proxy_client = existing.front_proxy_client.filter(|client| self.is_fresh(client));
        let front_proxy_client =
            front_proxy_client.map_or_else(|| self.client(FRONT_PROXY_CLIENT_NAME, None, &issuer), Ok)?;
        Ok(Pki { ca, server, admin, front_proxy_ca, front_proxy_client })
    }

    /// Returns the CA, extended if it is due for renewal, or a new one.
    fn renewed_authority(
        &mut self,
        name: &str,
        existing: Option<CertifiedKey>,
    ) -> Result<CertifiedKey, CertError> {
        match existing {
            Some(ca) if self.now < ca.renew_at => Ok(ca),
            Some(ca) => self.extended(name, &ca),
            None => self.authority(name, KeyPair::generate()?, None),
        }
    }

    /// `true` if the validity has begun and is not in its last third.
    fn is_fresh(&self, pair: &CertifiedKey) -> bool {
        pair.begin <= self.now && self.now < pair.renew_at
    }

    fn has_all_names(&self, server: &CertifiedKey) -> bool {
        let has = |parsed: &X509Certificate<'_>, required: &str| {
            let address = required.parse::<std::net::IpAddr>().ok();
            let names = parsed.subject_alternative_name().ok().flatten();
            names.is_some_and(|names| {
                names.value.general_names.iter().any(|name| match (name, address) {
                    (GeneralName::DNSName(name), None) => *name == required,
                    (GeneralName::IPAddress(bytes), Some(std::net::IpAddr::V4(ip))) => **bytes == ip.octets(),
                    (GeneralName::IPAddress(bytes), Some(std::net::IpAddr::V6(ip))) => **bytes == ip.octets(),
                    _ => false,
                })
            })
        };
        let all = |parsed: &X509Certificate<'_>| self.names.iter().all(|required| has(parsed, required));
        inspect(&server.certificate, all) == Some(true)
    }

    /// Extends the validity of the CA. Name and key stay the same, so everything it signed stays valid. The validity
    /// keeps its start, so that a CA that is extended while the clock is ahead is valid after the clock is corrected.
    fn extended(&mut self, name: &str, ca: &CertifiedKey) -> Result<CertifiedKey, CertError> {
        self.authority(name, KeyPair::from_pem(&ca.key)?, Some(ca.begin))
    }

    fn authority(
        &mut self,
        name: &str,
        key: KeyPair,
        begin: Option<Time>,
    ) -> Result<CertifiedKey, CertError> {
        let mut params = self.params(name, None, CA_VALIDITY_DAYS);
        if let Some(begin) = begin {
            params.not_before = date(begin);
        }
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?;
        Ok(pair(certificate.pem(), &key, &params))
    }

    fn server(&mut self, issuer: &Issuer<'_, KeyPair>) -> Result<CertifiedKey, CertError> {
        let mut params = self.params(SERVER_NAME, None, LEAF_VALIDITY_DAYS);
        params.subject_alt_names = CertificateParams::new(self.names)?.subject_alt_names;
        sign(params, ExtendedKeyUsagePurpose::ServerAuth, issuer)
    }

    fn client(
        &mut self,
        name: &str,
        group: Option<&str>,
        issuer: &Issuer<'_, KeyPair>,
    ) -> Result<CertifiedKey, CertError> {
        let params = self.params(name, group, LEAF_VALIDITY_DAYS);
        sign(params, ExtendedKeyUsagePurpose::ClientAuth, issuer)
    }

    fn params(&mut self, name: &str, group: Option<&str>, days: u32) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date(self.now.before(BACKDATE));
        params.not_after = date(self.now.after(DAY * days));
        params.serial_number = Some(SerialNumber::from_slice(&(self.serial >> 1 | 1).to_be_bytes()));
        self.serial = self.serial.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        params
    }
}

fn sign(
    mut params: CertificateParams,
    purpose: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<CertifiedKey, CertError> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(pair(certificate.pem(), &key, &params))
}

fn pair(certificate: String, key: &KeyPair, params: &CertificateParams) -> CertifiedKey {
    let time = |date: OffsetDateTime| Time::from_seconds(date.unix_timestamp());
    let (begin, end) = (time(params.not_before), time(params.not_after));
    CertifiedKey { certificate, key: key.serialize_pem(), begin, renew_at: renew_at(begin, end) }
}

/// Converts a time to whole seconds; a time outside of the calendar becomes the epoch.
fn date(time: Time) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(time.0.div_euclid(1_000_000)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
