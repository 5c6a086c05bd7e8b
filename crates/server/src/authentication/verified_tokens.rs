//! Cache of verified tokens, invalidated by the mirror.

use setpoint_api::{Key, Resource, Revision, Time, Value};
use setpoint_authentication::authenticated_token::{AuthenticatedToken, ObjectReader, TokenObject};
use setpoint_authentication::token_cache::{TokenCache, TokenDigest};
use setpoint_store::Snapshot;

use crate::codec;

/// Objects of a snapshot.
pub(super) struct SnapshotReader<'a>(pub &'a Snapshot);

impl ObjectReader for SnapshotReader<'_> {
    fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.0.get(&key(resource, namespace, name)?).map(codec::object)
    }
}

impl SnapshotReader<'_> {
    /// Returns a Secret, and the reference to it.
    pub fn secret(&self, namespace: &str, name: &str) -> (TokenObject, Option<Value>) {
        let reference =
            TokenObject { resource: "secrets", namespace: namespace.to_owned(), name: name.to_owned() };
        (reference, self.object("secrets", namespace, name))
    }
}

fn key(resource: &str, namespace: &str, name: &str) -> Option<Key> {
    let resource = Resource::new(resource).ok()?;
    let key = if namespace.is_empty() {
        Key::cluster(&resource, name)
    } else {
        Key::namespaced(&resource, namespace, name)
    };
    key.ok()
}

/// Verified token, and the revisions of the objects that it depends on.
#[derive(Debug)]
struct VerifiedToken {
    token: AuthenticatedToken,
    objects: Vec<(Key, Revision)>,
}

/// Verified tokens by their keyed hash.
#[derive(Debug, Default)]
pub(super) struct VerifiedTokens(TokenCache<VerifiedToken>);

impl VerifiedTokens {
    /// Returns a token that is still valid: it has not expired, and no object that it depends on has changed.
    pub fn get(&self, digest: &TokenDigest, snapshot: &Snapshot, now: Time) -> Option<AuthenticatedToken> {
        let cached = self.0.get(digest)?;
        let is_unchanged = |(key, revision): &(Key, Revision)| {
            snapshot.get(key).is_some_and(|record| record.revision() == *revision)
        };
        let is_live = cached.token.valid_until.is_none_or(|until| now <= until);
        (is_live && cached.objects.iter().all(is_unchanged)).then(|| cached.token.clone())
    }

    /// Keeps a token that was verified with a snapshot.
    pub fn insert(&mut self, digest: TokenDigest, token: &AuthenticatedToken, snapshot: &Snapshot) {
        let revision = |object: &TokenObject| {
            let key = key(object.resource, &object.namespace, &object.name)?;
            let revision = snapshot.get(&key)?.revision();
            Some((key, revision))
        };
        let Some(objects) = token.objects.iter().map(revision).collect::<Option<Vec<_>>>() else { return };
        // The use is recorded by the first request.
        let token = AuthenticatedToken { unrecorded_use: None, ..token.clone() };
        self.0.insert(digest, VerifiedToken { token, objects });
    }

    /// Forgets all tokens.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
