//! The server's own certificate authority, its certificate and the administrator's.
//!
//! Names are those of kubeadm, so that people and policies know them. [`Pki::keep`] holds them as PEM in a
//! directory that only its owner reads, uses them again after a restart, and makes anew what is missing, what has
//! less than a third of its life left, and a server certificate that lacks a name; [`Pki::ephemeral`] holds them
//! in memory. Keys come from the library's generator; time and serial numbers are arguments.

pub(crate) mod private_file;
pub mod signing;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SerialNumber,
};
use setpoint_api::Time;
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the authority lives.
const CA_LIFE_DAYS: u32 = 3650;
/// How long other certificates live.
const LEAF_LIFE_DAYS: u32 = 365;
/// Clients whose clock is a little behind are not turned away.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// The common name of the authority.
const CA_NAME: &str = "kubernetes";
/// The common name of the server.
const SERVER_NAME: &str = "kube-apiserver";
/// The administrator's user name.
pub const ADMIN_NAME: &str = "kubernetes-admin";
/// The administrator's group, which may do everything.
pub const ADMIN_GROUP: &str = "system:masters";

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// The file system refuses.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} does not hold a {what}: remove it and the other files beside it, and all are made anew (old kubeconfigs then stop working)", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// They could not be made.
    #[error("cannot make certificates: {0}")]
    Make(#[from] rcgen::Error),
}

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
    /// When it should be made anew: when a third of its life is left.
    renew_at: Time,
}

/// The authority and what it has signed.
#[derive(Clone, PartialEq, Eq)]
pub struct Pki {
    /// The authority.
    pub ca: Pair,
    /// The server.
    pub server: Pair,
    /// The administrator.
    pub admin: Pair,
}

impl Pki {
    /// New certificates, kept nowhere. `names` are the server's DNS names and addresses.
    ///
    /// # Errors
    /// If one of the names is none.
    pub fn ephemeral(names: &[String], now: Time, entropy: u64) -> Result<Pki, CertError> {
        Maker { names, now, serial: entropy }.complete(None, None, None)
    }

    /// The certificates in `dir`, completed and renewed.
    ///
    /// # Errors
    /// If the directory cannot be read or written, or what is in it is damaged.
    pub fn keep(dir: &Path, names: &[String], now: Time, entropy: u64) -> Result<Pki, CertError> {
        private_file::make_dir(dir).map_err(failed("create", dir))?;
        let kept = |stem| load(dir, stem);
        let (ca, server, admin) = (kept("ca")?, kept("apiserver")?, kept("admin")?);
        let old = [ca.clone(), server.clone(), admin.clone()];
        let pki = Maker { names, now, serial: entropy }.complete(ca, server, admin)?;
        let pairs = [("ca", &pki.ca), ("apiserver", &pki.server), ("admin", &pki.admin)];
        let new = pairs.into_iter().zip(&old).filter(|((_, pair), old)| old.as_ref() != Some(pair));
        save(dir, new.map(|(named, _)| named))?;
        Ok(pki)
    }

    /// When something should be made anew, by asking again.
    #[must_use]
    pub fn renew_at(&self) -> Time {
        self.ca.renew_at.min(self.server.renew_at).min(self.admin.renew_at)
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CertError + use<> {
    let path = path.to_owned();
    move |source| CertError::Io { action, path, source }
}

/// A kept pair; none if a part of it is missing.
fn load(dir: &Path, stem: &str) -> Result<Option<Pair>, CertError> {
    let read = |extension: &str| {
        let path = dir.join(format!("{stem}.{extension}"));
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some((path, text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &path)(error)),
        }
    };
    let (Some((path, certificate)), Some((key_path, key))) = (read("crt")?, read("key")?) else {
        return Ok(None);
    };
    let life = inspect(&certificate, life);
    let (begin, end) = life.ok_or(CertError::Malformed { path, what: "certificate" })?;
    if KeyPair::from_pem(&key).is_err() {
        return Err(CertError::Malformed { path: key_path, what: "private key" });
    }
    Ok(Some(Pair { certificate, key, renew_at: renew_at(begin, end) }))
}

/// Of each pair the key goes first: a certificate that is there has its key.
fn save<'a>(dir: &Path, pairs: impl Iterator<Item = (&'a str, &'a Pair)>) -> Result<(), CertError> {
    let files: Vec<_> = pairs
        .flat_map(|(stem, pair)| [(stem, "key", &pair.key), (stem, "crt", &pair.certificate)])
        .map(|(stem, extension, text)| (dir.join(format!("{stem}.{extension}")), text.as_bytes()))
        .collect();
    private_file::write_all(&files).map_err(|(path, error)| failed("write", &path)(error))
}

/// What a certificate says; none if it is none.
fn inspect<T>(pem: &str, look: impl FnOnce(&X509Certificate<'_>) -> T) -> Option<T> {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).ok()?;
    Some(look(&pem.parse_x509().ok()?))
}

fn life(certificate: &X509Certificate<'_>) -> (Time, Time) {
    let validity = certificate.validity();
    (Time::from_seconds(validity.not_before.timestamp()), Time::from_seconds(validity.not_after.timestamp()))
}

fn renew_at(begin: Time, end: Time) -> Time {
    end.before(end.since(begin) / 3)
}

/// Makes what is missing.
struct Maker<'a> {
    names: &'a [String],
    now: Time,
    serial: u64,
}

impl Maker<'_> {
    fn complete(
        mut self,
        ca: Option<Pair>,
        server: Option<Pair>,
        admin: Option<Pair>,
    ) -> Result<Pki, CertError> {
        let kept = ca.filter(|ca| self.is_fresh(ca));
        let is_kept = kept.is_some();
        let ca = kept.map_or_else(|| self.authority(), Ok)?;
        let issuer = Issuer::from_ca_cert_pem(&ca.certificate, KeyPair::from_pem(&ca.key)?)?;
        let server = server.filter(|server| is_kept && self.is_fresh(server) && self.names_all(server));
        let server = server.map_or_else(|| self.server(&issuer), Ok)?;
        let admin = admin.filter(|admin| is_kept && self.is_fresh(admin));
        let admin = admin.map_or_else(|| self.admin(&issuer), Ok)?;
        Ok(Pki { ca, server, admin })
    }

    /// Whether a pair fits together, and has begun its life and not come to the last third of it.
    fn is_fresh(&self, pair: &Pair) -> bool {
        let fits = inspect(&pair.certificate, |parsed| {
            let key = KeyPair::from_pem(&pair.key).ok();
            life(parsed).0 <= self.now
                && key.is_some_and(|key| parsed.public_key().subject_public_key.data == key.public_key_raw())
        });
        fits == Some(true) && self.now < pair.renew_at
    }

    fn names_all(&self, server: &Pair) -> bool {
        let has = |parsed: &X509Certificate<'_>, wanted: &str| {
            let address = wanted.parse::<std::net::IpAddr>().ok();
            let names = parsed.subject_alternative_name().ok().flatten();
            names.is_some_and(|names| {
                names.value.general_names.iter().any(|name| match (name, address) {
                    (GeneralName::DNSName(name), None) => *name == wanted,
                    (GeneralName::IPAddress(bytes), Some(std::net::IpAddr::V4(ip))) => **bytes == ip.octets(),
                    (GeneralName::IPAddress(bytes), Some(std::net::IpAddr::V6(ip))) => **bytes == ip.octets(),
                    _ => false,
                })
            })
        };
        let all = |parsed: &X509Certificate<'_>| self.names.iter().all(|wanted| has(parsed, wanted));
        inspect(&server.certificate, all) == Some(true)
    }

    fn authority(&mut self) -> Result<Pair, CertError> {
        let mut params = self.params(CA_NAME, None, CA_LIFE_DAYS);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(pair(certificate.pem(), &key, &params))
    }

    fn server(&mut self, issuer: &Issuer<'_, KeyPair>) -> Result<Pair, CertError> {
        let mut params = self.params(SERVER_NAME, None, LEAF_LIFE_DAYS);
        params.subject_alt_names = CertificateParams::new(self.names)?.subject_alt_names;
        sign(params, ExtendedKeyUsagePurpose::ServerAuth, issuer)
    }

    fn admin(&mut self, issuer: &Issuer<'_, KeyPair>) -> Result<Pair, CertError> {
        let params = self.params(ADMIN_NAME, Some(ADMIN_GROUP), LEAF_LIFE_DAYS);
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
) -> Result<Pair, CertError> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(pair(certificate.pem(), &key, &params))
}

fn pair(certificate: String, key: &KeyPair, params: &CertificateParams) -> Pair {
    let time = |date: OffsetDateTime| Time::from_seconds(date.unix_timestamp());
    let renew_at = renew_at(time(params.not_before), time(params.not_after));
    Pair { certificate, key: key.serialize_pem(), renew_at }
}

/// A time to the second; one that no calendar knows is the epoch.
fn date(time: Time) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(time.0.div_euclid(1_000_000)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
