//! Tokens of service accounts: signed words that say who somebody is, until when, and bound to what.
//!
//! A token is a JWT signed with a key of our own (ES256). It holds while its time runs and while the account, and
//! whatever it is bound to, are the ones that they were: deleting a pod ends the tokens made for it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use setpoint_api::{Map, Resource, Time, Value, json, metadata, value};
use setpoint_store::Snapshot;
use thiserror::Error;

use crate::certs::private_file;
use crate::discovery;
use crate::exchange::Identity;
use crate::stored;

/// Who issues tokens, and for whom they are if nobody says otherwise.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The shortest time that a token can be asked for.
pub const DURATION_MIN: Duration = Duration::from_secs(10 * 60);
/// How long a token holds if nobody says otherwise.
pub const DURATION_DEFAULT: Duration = Duration::from_secs(60 * 60);
/// What the key is called in its directory.
const KEY_FILE: &str = "service-account.key";

/// Why a token does not hold, or there is none.
#[derive(Debug, Error)]
pub enum TokenError {
    /// It is none, or somebody else signed it.
    #[error("invalid bearer token")]
    Invalid,
    /// Its time is over.
    #[error("service account token has expired")]
    Expired,
    /// It is meant for somebody else.
    #[error("token audiences {0} is invalid for the target audiences {1}")]
    Audience(String, String),
    /// What it is bound to is gone.
    #[error("{0}")]
    Unbound(String),
    /// The key cannot be kept.
    #[error("cannot keep the key for tokens in {}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The key is damaged.
    #[error("the key for tokens is damaged; remove {KEY_FILE} to have another made")]
    Damaged,
}

/// The key, read or made when it is first needed.
pub struct Tokens {
    dir: Option<PathBuf>,
    key: OnceLock<Result<Key, TokenError>>,
}

struct Key {
    pair: EcdsaKeyPair,
    id: String,
}

/// What a token says that holds.
pub struct Verified {
    /// Who it is.
    pub identity: Identity,
    /// The identity of the account.
    pub uid: String,
    /// The token's own number.
    pub id: String,
    /// The pod it is bound to, by name and identity.
    pub pod: Option<(String, String)>,
    /// For whom it is meant.
    pub audiences: Vec<String>,
}

impl Tokens {
    /// A key that is kept in `dir`, or in memory alone.
    #[must_use]
    pub fn new(dir: Option<PathBuf>) -> Tokens {
        Tokens { dir, key: OnceLock::new() }
    }

    fn key(&self) -> Result<&Key, &TokenError> {
        self.key.get_or_init(|| Key::keep(self.dir.as_deref())).as_ref()
    }

    /// Signs a token.
    ///
    /// # Errors
    /// If there is no key to sign with.
    pub fn sign(&self, claims: &Value) -> Result<String, &TokenError> {
        let key = self.key()?;
        let header = value!({"alg": "ES256", "kid": (key.id.as_str()), "typ": "JWT"});
        let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(json::to_vec(part));
        let signed = format!("{}.{}", encoded(&header), encoded(claims));
        let signature =
            key.pair.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|_| &TokenError::Damaged)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Checks a token: who it names, if it holds. `audiences` are those of which it must name one.
    ///
    /// # Errors
    /// If it does not hold.
    pub fn verify(
        &self,
        token: &str,
        audiences: &[&str],
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<Verified, TokenError> {
        let claims = self.claims(token)?;
        let seconds = now.0.div_euclid(1_000_000);
        if claims.get("exp").and_then(Value::as_i64).is_none_or(|end| end <= seconds) {
            return Err(TokenError::Expired);
        }
        let list = claims.get("aud").and_then(Value::as_list).unwrap_or_default();
        let said: Vec<String> = list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let wanted: Vec<String> = said.into_iter().filter(|one| audiences.contains(&one.as_str())).collect();
        if wanted.is_empty() {
            return Err(TokenError::Audience(
                json::to_text(&Value::List(list.to_vec())),
                audiences.join(" "),
            ));
        }
        let bound = claims.get("kubernetes.io").cloned().unwrap_or_default();
        let namespace = bound.str_at(&["namespace"]);
        let account = |field: &str| bound.str_at(&["serviceaccount", field]).to_owned();
        still(snapshot, "serviceaccounts", namespace, &account("name"), &account("uid"))?;
        for (kind, resource) in [("pod", "pods"), ("secret", "secrets")] {
            let part = |field: &str| bound.str_at(&[kind, field]);
            if !part("name").is_empty() {
                still(snapshot, resource, namespace, part("name"), part("uid"))?;
            }
        }
        let pod = |field: &str| bound.str_at(&["pod", field]).to_owned();
        Ok(Verified {
            identity: identity(namespace, &account("name")),
            uid: account("uid"),
            id: claims.str_at(&["jti"]).to_owned(),
            pod: Some((pod("name"), pod("uid"))).filter(|(name, _)| !name.is_empty()),
            audiences: wanted,
        })
    }

    fn claims(&self, token: &str) -> Result<Value, TokenError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Invalid)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Invalid)?;
        let key = self.key().map_err(|_| TokenError::Invalid)?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.pair.public_key().as_ref());
        public.verify(signed.as_bytes(), &signature).map_err(|_| TokenError::Invalid)?;
        let (_, claims) = signed.split_once('.').ok_or(TokenError::Invalid)?;
        let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| TokenError::Invalid)?;
        json::parse(&claims).map_err(|_| TokenError::Invalid)
    }

    /// The public part of the key, for those who check tokens themselves.
    ///
    /// # Errors
    /// If there is no key.
    pub fn public(&self) -> Result<Value, &TokenError> {
        let key = self.key()?;
        // The point is written as 4, x and y.
        let point = key.pair.public_key().as_ref();
        let half =
            |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(point.get(range).unwrap_or_default());
        Ok(value!({"keys": [{
            "use": "sig", "kty": "EC", "kid": (key.id.as_str()), "crv": "P-256", "alg": "ES256",
            "x": (half(1..33)), "y": (half(33..65)),
        }]}))
    }
}

impl Key {
    fn keep(dir: Option<&Path>) -> Result<Key, TokenError> {
        let path = dir.map(|dir| dir.join(KEY_FILE));
        let failed = |source| TokenError::Io { path: path.clone().unwrap_or_default(), source };
        let kept = match &path {
            Some(path) => match std::fs::read(path) {
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(failed(error)),
            },
            None => None,
        };
        let bytes = match kept {
            Some(bytes) => bytes,
            None => {
                let made =
                    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
                let made = made.map_err(|_| TokenError::Damaged)?.as_ref().to_vec();
                if let (Some(path), Some(dir)) = (&path, dir) {
                    private_file::make_dir(dir).map_err(failed)?;
                    private_file::write_all(&[(path.clone(), &made)]).map_err(|(_, error)| failed(error))?;
                }
                made
            }
        };
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes)
            .map_err(|_| TokenError::Damaged)?;
        let id = discovery::tag(pair.public_key().as_ref()).trim_matches('"').to_owned();
        Ok(Key { pair, id })
    }
}

/// Who a service account is.
#[must_use]
pub fn identity(namespace: &str, name: &str) -> Identity {
    Identity {
        user: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
    }
}

/// Demands that an object is still the one it was.
fn still(
    snapshot: &Snapshot,
    resource: &str,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<(), TokenError> {
    let gone = || TokenError::Unbound(format!("{resource} \"{namespace}/{name}\" has been deleted"));
    let resource = Resource::new(resource).map_err(|_| gone())?;
    let key = setpoint_api::Key::namespaced(&resource, namespace, name).map_err(|_| gone())?;
    let record = snapshot.get(&key).ok_or_else(gone)?;
    if metadata::text(&stored::object(record), "uid") == uid { Ok(()) } else { Err(gone()) }
}

/// What a token says: who, for whom, from when to when, and bound to what.
#[must_use]
pub fn claims(
    account: &Value,
    audiences: &[String],
    bound: Option<(&'static str, &Value)>,
    (now, end): (Time, Time),
    id: &str,
) -> Value {
    let seconds = |time: Time| time.0.div_euclid(1_000_000);
    let reference =
        |object: &Value| value!({"name": (metadata::name(object)), "uid": (metadata::text(object, "uid"))});
    let mut private = Map::new();
    private.insert("namespace", metadata::namespace(account));
    private.insert("serviceaccount", reference(account));
    if let Some((kind, object)) = bound {
        private.insert(kind, reference(object));
    }
    let audiences: Vec<Value> = audiences.iter().map(|one| Value::from(one.as_str())).collect();
    value!({
        "aud": (audiences),
        "exp": (seconds(end)),
        "iat": (seconds(now)),
        "iss": (ISSUER),
        "jti": (id),
        "kubernetes.io": (private),
        "nbf": (seconds(now)),
        "sub": (format!("system:serviceaccount:{}:{}", metadata::namespace(account), metadata::name(account))),
    })
}
