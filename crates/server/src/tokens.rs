//! Tokens of service accounts: signed words that say who somebody is, until when, and bound to what.
//!
//! A token is a JWT signed with a key of our own (ES256). It holds while its time runs and while the account, and
//! whatever it is bound to, are the ones that they were: deleting a pod ends the tokens made for it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName};
use setpoint_api::{Map, Resource, Time, Value, json, metadata, rfc3339, value};
use setpoint_store::Snapshot;
use thiserror::Error;

use crate::codec;
use crate::discovery;
use crate::exchange::Identity;
use setpoint_pki::private_file;

/// Who issues tokens, and for whom they are if nobody says otherwise.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The shortest time that a token can be asked for.
pub const DURATION_MIN: Duration = Duration::from_secs(10 * 60);
/// How long a token holds if nobody says otherwise.
pub const DURATION_DEFAULT: Duration = Duration::from_secs(60 * 60);
/// By how much the clock of a client or another server may differ, and for how long an object counts as there after its
/// deletion was due. Upstream's value.
const LEEWAY: Duration = Duration::from_secs(60);
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
    /// Its time is yet to come.
    #[error("service account token is not valid yet")]
    Early,
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
    /// The node it is bound to, or that of its pod, by name and identity.
    pub node: Option<(String, String)>,
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
        check_times(&claims, now)?;
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
        check_bindings(&bound, namespace, snapshot, now)?;
        let reference = |kind: &str| {
            let part = |field: &str| bound.str_at(&[kind, field]).to_owned();
            Some((part("name"), part("uid"))).filter(|(name, _)| !name.is_empty())
        };
        Ok(Verified {
            identity: identity(namespace, &account("name")),
            uid: account("uid"),
            id: claims.str_at(&["jti"]).to_owned(),
            pod: reference("pod"),
            node: reference("node"),
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

/// Checks that a token's time has begun and is not over, with upstream's leeway for clocks that differ.
fn check_times(claims: &Value, now: Time) -> Result<(), TokenError> {
    let at = |claim: &str| claims.get(claim).and_then(Value::as_i64).map(Time::from_seconds);
    if at("exp").is_none_or(|end| now.before(LEEWAY) > end) {
        return Err(TokenError::Expired);
    }
    let is_early = |claim: &str| at(claim).is_some_and(|begin| now.after(LEEWAY) < begin);
    if is_early("nbf") || is_early("iat") { Err(TokenError::Early) } else { Ok(()) }
}

/// Checks that the account of a token, and what it is bound to, are there and the same as when it was issued. The node
/// of a token that is bound to a pod is only information: the pod ends it.
fn check_bindings(bound: &Value, namespace: &str, snapshot: &Snapshot, now: Time) -> Result<(), TokenError> {
    let name_of = |kind: &str| bound.str_at(&[kind, "name"]);
    let account = (name_of("serviceaccount"), bound.str_at(&["serviceaccount", "uid"]));
    let gone = || TokenError::Unbound(format!("serviceaccounts \"{}\" not found", account.0));
    let object = find(snapshot, "serviceaccounts", namespace, account.0).ok_or_else(gone)?;
    if is_deleted(&object, now) {
        let why = format!("service account {namespace}/{} has been deleted", account.0);
        return Err(TokenError::Unbound(why));
    }
    let uid = metadata::text(&object, "uid");
    if uid != account.1 {
        let why = format!("service account UID ({uid}) does not match claim ({})", account.1);
        return Err(TokenError::Unbound(why));
    }
    let kinds = [("secret", "secrets", namespace), ("pod", "pods", namespace), ("node", "nodes", "")];
    for (kind, resource, namespace) in kinds {
        let name = name_of(kind);
        if name.is_empty() || (kind == "node" && !name_of("pod").is_empty()) {
            continue;
        }
        let invalidated = || TokenError::Unbound("service account token has been invalidated".to_owned());
        let object = find(snapshot, resource, namespace, name).ok_or_else(invalidated)?;
        if is_deleted(&object, now) {
            return Err(invalidated());
        }
        let (uid, claim) = (metadata::text(&object, "uid"), bound.str_at(&[kind, "uid"]));
        if uid != claim {
            let why = format!("{kind} UID ({uid}) does not match service account {kind} ref claim ({claim})");
            return Err(TokenError::Unbound(why));
        }
    }
    Ok(())
}

/// An object, as a value.
fn find(snapshot: &Snapshot, resource: &str, namespace: &str, name: &str) -> Option<Value> {
    let resource = Resource::new(resource).ok()?;
    let key = if namespace.is_empty() {
        setpoint_api::Key::cluster(&resource, name)
    } else {
        setpoint_api::Key::namespaced(&resource, namespace, name)
    };
    snapshot.get(&key.ok()?).map(codec::object)
}

/// `true` if the deletion of an object that finalizers or a grace period keep is due for longer than the leeway.
fn is_deleted(object: &Value, now: Time) -> bool {
    let at = rfc3339::parse(metadata::text(object, "deletionTimestamp"));
    at.is_ok_and(|at| at < now.before(LEEWAY))
}

/// The scheme under which tokens are sent.
const SCHEME: &str = "bearer";
/// The prefix of the WebSocket subprotocol by which browsers, which cannot set headers, send a token.
const SUBPROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The bearer token that a request carries: in the first `Authorization` header, whose scheme is compared without
/// regard to case, or, if that has none, in a subprotocol of a WebSocket request beside at least one other subprotocol.
/// None if there is no token: such a request is anonymous, or has proved itself by other means.
///
/// As upstream does, only what stands between the first two spaces counts, so that a token after two spaces is empty.
#[must_use]
pub fn bearer_token(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let sent =
        headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::trim).unwrap_or_default();
    let mut parts = sent.split(' ');
    if parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
        && let Some(token) = parts.next().filter(|token| !token.is_empty())
    {
        return Some(Cow::Borrowed(token));
    }
    subprotocol_token(headers).map(Cow::Owned)
}

fn subprotocol_token(headers: &HeaderMap) -> Option<String> {
    let is_listed = |name: HeaderName, wanted: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(wanted))
    };
    if !(is_listed(CONNECTION, "upgrade") && is_listed(UPGRADE, "websocket")) {
        return None;
    }
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    let protocols = values.flat_map(|value| value.split(',')).map(str::trim);
    let (tokens, others): (Vec<&str>, Vec<&str>) = protocols.partition(|name| name.starts_with(SUBPROTOCOL));
    let [token] = tokens[..] else { return None };
    let token = URL_SAFE_NO_PAD.decode(token.strip_prefix(SUBPROTOCOL)?).ok()?;
    String::from_utf8(token).ok().filter(|token| !token.is_empty() && !others.is_empty())
}

/// What a token says: who, for whom, from when to when, and bound to what.
#[must_use]
pub fn claims(
    account: &Value,
    audiences: &[String],
    bound: &[(&'static str, Value)],
    (now, end): (Time, Time),
    id: &str,
) -> Value {
    let seconds = |time: Time| time.0.div_euclid(1_000_000);
    let reference = |object: &Value| {
        let mut reference = value!({"name": (metadata::name(object))});
        let uid = metadata::text(object, "uid");
        if !uid.is_empty() {
            reference.make_map().insert("uid", uid);
        }
        reference
    };
    let mut private = Map::new();
    private.insert("namespace", metadata::namespace(account));
    private.insert("serviceaccount", reference(account));
    for (kind, object) in bound {
        private.insert(*kind, reference(object));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn token(pairs: &[(&str, &str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        bearer_token(&headers).map(Cow::into_owned)
    }

    #[test]
    fn the_scheme_of_a_token_is_compared_without_regard_to_case() {
        for sent in ["Bearer abc", "bearer abc", "BEARER abc", "  bEaReR abc  ", "Bearer abc def"] {
            assert_eq!(token(&[("authorization", sent)]).as_deref(), Some("abc"), "{sent:?}");
        }
        for sent in ["", "Bearer", "Bearer ", "Bearer  abc", "Bearerabc", "Basic abc", "abc", "Bearer\tabc"] {
            assert_eq!(token(&[("authorization", sent)]), None, "{sent:?}");
        }
        assert_eq!(token(&[]), None);
        let two = [("authorization", "Bearer first"), ("authorization", "Bearer second")];
        assert_eq!(token(&two).as_deref(), Some("first"));
    }

    #[test]
    fn a_websocket_request_may_send_its_token_as_a_subprotocol() {
        let encoded = format!("{SUBPROTOCOL}{}", URL_SAFE_NO_PAD.encode("abc"));
        let ask = |connection: &str, protocols: &[&str]| {
            let mut pairs = vec![("connection", connection), ("upgrade", "WebSocket")];
            pairs.extend(protocols.iter().map(|protocol| ("sec-websocket-protocol", *protocol)));
            token(&pairs)
        };
        let both = format!("v5.channel.k8s.io, {encoded}");
        assert_eq!(ask("keep-alive, Upgrade", &[&both]).as_deref(), Some("abc"));
        assert_eq!(ask("Upgrade", &[&encoded, "v5.channel.k8s.io"]).as_deref(), Some("abc"));
        assert_eq!(ask("Upgrade", &[&encoded]), None, "no other subprotocol to answer with");
        assert_eq!(ask("Upgrade", &[&both, &encoded]), None, "two tokens");
        assert_eq!(ask("close", &[&both]), None, "not a WebSocket request");
        assert_eq!(ask("Upgrade", &["v5", &format!("{SUBPROTOCOL}%%")]), None);
        assert_eq!(ask("Upgrade", &["v5", SUBPROTOCOL]), None);
    }
}
