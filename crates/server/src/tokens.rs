//! Service account tokens: issued, verified and bound to objects.
//!
//! A token is a JWT signed with the server's own key (ES256). It is valid while it has not expired and its
//! ServiceAccount and bound object exist with the same UIDs: deleting a pod revokes its tokens.
//!
//! Start at [`Tokens::verify`].

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

/// Issuer, and default audience.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Tolerated clock difference, and time for which an object counts as existing after its deletion was due. Upstream's
/// value.
const LEEWAY: Duration = Duration::from_secs(60);
/// File name of the signing key.
const KEY_FILE: &str = "service-account.key";

/// Invalid token, or failure to sign one.
#[derive(Debug, Error)]
pub(crate) enum TokenError {
    /// Malformed, or signed with another key.
    #[error("invalid bearer token")]
    Invalid,
    /// Expired.
    #[error("service account token has expired")]
    Expired,
    /// Not valid yet.
    #[error("service account token is not valid yet")]
    Early,
    /// For another audience.
    #[error("token audiences {0} is invalid for the target audiences {1}")]
    Audience(String, String),
    /// The bound object does not exist.
    #[error("{0}")]
    Unbound(String),
    /// The key file could not be read or written.
    #[error("cannot store the token signing key in {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The key file is damaged.
    #[error("the token signing key is damaged: remove {KEY_FILE} to create a new one")]
    Damaged,
}

/// Signing key, loaded or created at its first use.
pub(crate) struct Tokens {
    dir: Option<PathBuf>,
    key: OnceLock<Result<Key, TokenError>>,
}

struct Key {
    pair: EcdsaKeyPair,
    id: String,
}

/// Claims of a valid token.
pub(crate) struct Verified {
    /// User and groups.
    pub identity: Identity,
    /// UID of the service account.
    pub uid: String,
    /// Token id (`jti`).
    pub id: String,
    /// Name and UID of the bound pod.
    pub pod: Option<(String, String)>,
    /// Name and UID of the bound node, or of the bound pod's node.
    pub node: Option<(String, String)>,
    /// Audiences.
    pub audiences: Vec<String>,
}

impl Tokens {
    /// Creates a key that is kept in `dir`, or in memory only.
    #[must_use]
    pub fn new(dir: Option<PathBuf>) -> Tokens {
        Tokens { dir, key: OnceLock::new() }
    }

    fn key(&self) -> Result<&Key, &TokenError> {
        self.key.get_or_init(|| Key::load_or_create(self.dir.as_deref())).as_ref()
    }

    /// Signs a token.
    ///
    /// # Errors
    /// If there is no key.
    pub fn sign(&self, claims: &Value) -> Result<String, &TokenError> {
        let key = self.key()?;
        let header = value!({"alg": "ES256", "kid": (key.id.as_str()), "typ": "JWT"});
        let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(json::to_vec(part));
        let signed = format!("{}.{}", encoded(&header), encoded(claims));
        let signature =
            key.pair.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|_| &TokenError::Damaged)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Verifies a token for one of `audiences`.
    ///
    /// # Errors
    /// If it is invalid.
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
        let claimed: Vec<String> = list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let matching: Vec<String> =
            claimed.into_iter().filter(|audience| audiences.contains(&audience.as_str())).collect();
        if matching.is_empty() {
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
            audiences: matching,
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

    /// Public key as a JWK.
    ///
    /// # Errors
    /// If there is no key.
    pub fn public(&self) -> Result<Value, &TokenError> {
        let key = self.key()?;
        // The uncompressed point: 4, x, y.
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
    fn load_or_create(dir: Option<&Path>) -> Result<Key, TokenError> {
        let path = dir.map(|dir| dir.join(KEY_FILE));
        let failed = |source| TokenError::Io { path: path.clone().unwrap_or_default(), source };
        let existing = match &path {
            Some(path) => match std::fs::read(path) {
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(failed(error)),
            },
            None => None,
        };
        let bytes = match existing {
            Some(bytes) => bytes,
            None => {
                let generated =
                    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
                let generated = generated.map_err(|_| TokenError::Damaged)?.as_ref().to_vec();
                if let (Some(path), Some(dir)) = (&path, dir) {
                    private_file::make_dir(dir).map_err(failed)?;
                    private_file::write_all(&[(path.clone(), &generated)])
                        .map_err(|(_, error)| failed(error))?;
                }
                generated
            }
        };
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes)
            .map_err(|_| TokenError::Damaged)?;
        let id = discovery::tag(pair.public_key().as_ref()).trim_matches('"').to_owned();
        Ok(Key { pair, id })
    }
}

/// User and groups of a service account.
#[must_use]
pub fn identity(namespace: &str, name: &str) -> Identity {
    Identity::new(
        format!("system:serviceaccount:{namespace}:{name}"),
        vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
    )
}

/// Checks the validity period, with upstream's leeway for clock differences.
fn check_times(claims: &Value, now: Time) -> Result<(), TokenError> {
    let at = |claim: &str| claims.get(claim).and_then(Value::as_i64).map(Time::from_seconds);
    if at("exp").is_none_or(|end| now.before(LEEWAY) > end) {
        return Err(TokenError::Expired);
    }
    let is_early = |claim: &str| at(claim).is_some_and(|begin| now.after(LEEWAY) < begin);
    if is_early("nbf") || is_early("iat") { Err(TokenError::Early) } else { Ok(()) }
}

/// Checks that the service account and the bound object exist with the UIDs of the claims. The node of a token that
/// is bound to a pod is informational: the pod's deletion revokes it.
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

/// Returns an object.
fn find(snapshot: &Snapshot, resource: &str, namespace: &str, name: &str) -> Option<Value> {
    let resource = Resource::new(resource).ok()?;
    let key = if namespace.is_empty() {
        setpoint_api::Key::cluster(&resource, name)
    } else {
        setpoint_api::Key::namespaced(&resource, namespace, name)
    };
    snapshot.get(&key.ok()?).map(codec::object)
}

/// `true` if the deletion of an object that finalizers or a grace period hold has been due for longer than the
/// leeway.
fn is_deleted(object: &Value, now: Time) -> bool {
    let at = rfc3339::parse(metadata::text(object, "deletionTimestamp"));
    at.is_ok_and(|at| at < now.before(LEEWAY))
}

/// Authentication scheme of tokens.
const SCHEME: &str = "bearer";
/// Prefix of the WebSocket subprotocol by which browsers, which cannot set headers, send a token.
const SUBPROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Bearer token of a request: in the first `Authorization` header, whose scheme is case-insensitive, or, if that has
/// none, in a WebSocket subprotocol beside at least one other subprotocol. `None` for requests without a token.
///
/// As upstream, only the text between the first two spaces counts, so a token after two spaces is empty.
#[must_use]
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let authorization =
        headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::trim).unwrap_or_default();
    let mut parts = authorization.split(' ');
    if parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
        && let Some(token) = parts.next().filter(|token| !token.is_empty())
    {
        return Some(Cow::Borrowed(token));
    }
    subprotocol_token(headers).map(Cow::Owned)
}

fn subprotocol_token(headers: &HeaderMap) -> Option<String> {
    let is_listed = |name: HeaderName, token: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
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

/// Claims of a new token.
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
    fn bearer_scheme_is_case_insensitive() {
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
    fn websocket_request_can_send_its_token_as_a_subprotocol() {
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
