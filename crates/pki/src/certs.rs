//! The server's own certificate authority, its certificate and the administrator's.
//!
//! Names are those of kubeadm, so that people and policies know them. [`Pki::load_or_create`] holds them as PEM in a
//! directory that only its owner reads and uses them again after a restart; [`Pki::ephemeral`] holds them in memory.
//! Keys come from the library's generator; time and serial numbers are arguments.
//!
//! Every credential hangs on the authority, so an authority that exists is never replaced: if a part of it is missing
//! or damaged, or if the clock is outside of its life, [`Pki::load_or_create`] fails. In the last third of its life its
//! certificate is extended, with the same key and name, and what it signed stays valid. The certificates of the server
//! and the administrator are issued again when they are missing, damaged, of another authority or in the last third of
//! their life, and that of the server when it lacks a name.

pub mod signing;

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
/// The start of 2023: a clock before it is wrong, for this program is younger.
const CLOCK_MIN: i64 = 1_672_531_200;
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
    /// The authority cannot be used as it is.
    #[error("{} {problem}: {remedy}", path.display())]
    Authority {
        /// The file of it that is missing or wrong.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// An authority cannot be made at this time.
    #[error(
        "the clock of this machine says {}, and an authority that is made now would be unusable once it is right: set the \
         clock right, and start again", Seconds(*.0)
    )]
    Clock(Time),
    /// They could not be made.
    #[error("cannot make certificates: {0}")]
    Make(#[from] rcgen::Error),
}

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct CertifiedKey {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
    /// When its life begins.
    begin: Time,
    /// When it should be made anew: when a third of its life is left.
    renew_at: Time,
}

/// The authority and what it has signed.
#[derive(Clone, PartialEq, Eq)]
pub struct Pki {
    /// The authority.
    pub ca: CertifiedKey,
    /// The server.
    pub server: CertifiedKey,
    /// The administrator.
    pub admin: CertifiedKey,
}

impl Pki {
    /// New certificates, kept nowhere. `names` are the server's DNS names and addresses.
    ///
    /// # Errors
    /// If one of the names is none.
    pub fn ephemeral(names: &[String], now: Time, entropy: u64) -> Result<Pki, CertError> {
        CertificateIssuer { names, now, serial: entropy }.complete(None, None, None)
    }

    /// The certificates in `dir`, completed and renewed.
    ///
    /// # Errors
    /// If the directory cannot be read or written, or there is an authority that cannot be used.
    pub fn load_or_create(dir: &Path, names: &[String], now: Time, entropy: u64) -> Result<Pki, CertError> {
        private_file::make_dir(dir).map_err(failed("create", dir))?;
        let ca = load_authority(dir, now)?;
        if ca.is_none() && now < Time::from_seconds(CLOCK_MIN) {
            return Err(CertError::Clock(now));
        }
        let kept = |stem| load_leaf(dir, stem, ca.as_ref());
        let (server, admin) = (kept("apiserver")?, kept("admin")?);
        let old = [ca.clone(), server.clone(), admin.clone()];
        let pki = CertificateIssuer { names, now, serial: entropy }.complete(ca, server, admin)?;
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

    /// `true` if something should be made anew, by asking again: it is in the last third of its life, or its life has
    /// not begun, because the clock was ahead when it was made and has been set right since.
    #[must_use]
    pub fn is_renewal_due(&self, now: Time) -> bool {
        now < self.server.begin.max(self.admin.begin) || self.renew_at() <= now
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CertError + use<> {
    let path = path.to_owned();
    move |source| CertError::Io { action, path, source }
}

/// The text of a file; none if there is no such file. What is no text is damaged, and read as far as it goes.
fn read(dir: &Path, name: &str) -> Result<Option<String>, CertError> {
    let path = dir.join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &path)(error)),
    }
}

/// The authority in `dir`; none if there is none and nothing that one has signed.
fn load_authority(dir: &Path, now: Time) -> Result<Option<CertifiedKey>, CertError> {
    let unusable = |name: &str, problem: String, remedy: &str| {
        let anew = format!(
            "{remedy}, or remove {} to have a new authority made (all kubeconfigs and client certificates then stop \
             working)",
            dir.display()
        );
        CertError::Authority { path: dir.join(name), problem, remedy: anew }
    };
    const RESTORE: &str = "restore it from a backup";
    let (certificate, key) = match (read(dir, "ca.crt")?, read(dir, "ca.key")?) {
        (Some(certificate), Some(key)) => (certificate, key),
        (certificate, key) => {
            // The first start writes the key of the authority first: a crash leaves it alone, before anything is signed.
            let signed = read(dir, "apiserver.crt")?.or(read(dir, "admin.crt")?);
            let (missing, there) = match (certificate, key, signed) {
                (None, _, None) => return Ok(None),
                (Some(_), _, _) => ("ca.key", "ca.crt is there"),
                (None, _, Some(_)) => ("ca.crt", "certificates that it signed are there"),
            };
            return Err(unusable(missing, format!("is missing, but {there}"), RESTORE));
        }
    };
    let Some((begin, end)) = inspect(&certificate, life) else {
        return Err(unusable("ca.crt", "does not hold a certificate".to_owned(), RESTORE));
    };
    if KeyPair::from_pem(&key).is_err() {
        return Err(unusable("ca.key", "does not hold a private key".to_owned(), RESTORE));
    }
    let pair = CertifiedKey { certificate, key, begin, renew_at: renew_at(begin, end) };
    if !pair.fits_together() {
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

/// A pair that the authority has signed; none if a part of it is missing or damaged, since it can be issued again.
fn load_leaf(dir: &Path, stem: &str, ca: Option<&CertifiedKey>) -> Result<Option<CertifiedKey>, CertError> {
    let certificate = read(dir, &format!("{stem}.crt"))?;
    let key = read(dir, &format!("{stem}.key"))?;
    let (Some(ca), Some(certificate), Some(key)) = (ca, certificate, key) else { return Ok(None) };
    let Some((begin, end)) = inspect(&certificate, life) else { return Ok(None) };
    let pair = CertifiedKey { certificate, key, begin, renew_at: renew_at(begin, end) };
    Ok(Some(pair).filter(|pair| pair.fits_together() && pair.is_signed_by(ca)))
}

impl CertifiedKey {
    /// `true` if the key is that of the certificate.
    fn fits_together(&self) -> bool {
        let key = KeyPair::from_pem(&self.key).ok();
        let fits = inspect(&self.certificate, |parsed| {
            key.is_some_and(|key| parsed.public_key().subject_public_key.data == key.public_key_raw())
        });
        fits == Some(true)
    }

    fn is_signed_by(&self, ca: &CertifiedKey) -> bool {
        let is_signed = inspect(&self.certificate, |parsed| {
            inspect(&ca.certificate, |ca| parsed.verify_signature(Some(ca.public_key())).is_ok())
        });
        is_signed.flatten() == Some(true)
    }
}

/// Of each pair the key goes first: a certificate that is there has its key.
fn save<'a>(dir: &Path, pairs: impl Iterator<Item = (&'a str, &'a CertifiedKey)>) -> Result<(), CertError> {
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
struct CertificateIssuer<'a> {
    names: &'a [String],
    now: Time,
    serial: u64,
}

impl CertificateIssuer<'_> {
    fn complete(
        mut self,
        ca: Option<CertifiedKey>,
        server: Option<CertifiedKey>,
        admin: Option<CertifiedKey>,
    ) -> Result<Pki, CertError> {
        let ca = match ca {
            Some(ca) if self.now < ca.renew_at => ca,
            Some(ca) => self.extended(&ca)?,
            None => self.authority(KeyPair::generate()?, None)?,
        };
        let issuer = Issuer::from_ca_cert_pem(&ca.certificate, KeyPair::from_pem(&ca.key)?)?;
        let server = server.filter(|server| self.is_fresh(server) && self.names_all(server));
        let server = server.map_or_else(|| self.server(&issuer), Ok)?;
        let admin = admin.filter(|admin| self.is_fresh(admin));
        let admin = admin.map_or_else(|| self.admin(&issuer), Ok)?;
        Ok(Pki { ca, server, admin })
    }

    /// `true` if a pair has begun its life and not come to the last third of it.
    fn is_fresh(&self, pair: &CertifiedKey) -> bool {
        pair.begin <= self.now && self.now < pair.renew_at
    }

    fn names_all(&self, server: &CertifiedKey) -> bool {
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

    /// The authority with a longer life. What it signed stays valid, for name and key are the same; it begins when it
    /// began, so that a clock that was ahead only for a while leaves no authority of the future.
    fn extended(&mut self, ca: &CertifiedKey) -> Result<CertifiedKey, CertError> {
        self.authority(KeyPair::from_pem(&ca.key)?, Some(ca.begin))
    }

    fn authority(&mut self, key: KeyPair, begin: Option<Time>) -> Result<CertifiedKey, CertError> {
        let mut params = self.params(CA_NAME, None, CA_LIFE_DAYS);
        if let Some(begin) = begin {
            params.not_before = date(begin);
        }
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?;
        Ok(pair(certificate.pem(), &key, &params))
    }

    fn server(&mut self, issuer: &Issuer<'_, KeyPair>) -> Result<CertifiedKey, CertError> {
        let mut params = self.params(SERVER_NAME, None, LEAF_LIFE_DAYS);
        params.subject_alt_names = CertificateParams::new(self.names)?.subject_alt_names;
        sign(params, ExtendedKeyUsagePurpose::ServerAuth, issuer)
    }

    fn admin(&mut self, issuer: &Issuer<'_, KeyPair>) -> Result<CertifiedKey, CertError> {
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

/// A time to the second; one that no calendar knows is the epoch.
fn date(time: Time) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(time.0.div_euclid(1_000_000)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
