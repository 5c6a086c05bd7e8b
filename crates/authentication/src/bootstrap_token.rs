//! Bootstrap tokens: Secrets of the type `bootstrap.kubernetes.io/token` in `kube-system`.

use std::collections::BTreeSet;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use setpoint_api::{Identity, Time, Value, metadata, rfc3339};

/// Namespace of the Secrets.
pub const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const NAME_PREFIX: &str = "bootstrap-token-";
const USER_PREFIX: &str = "system:bootstrap:";
const DEFAULT_GROUP: &str = "system:bootstrappers";
const GROUP_PREFIX: &str = "system:bootstrappers:";
/// Characters of the rest of a group's name.
const GROUP_CHARS_MAX: usize = 256;
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 16;

/// Parsed bootstrap token: `abcdef.0123456789abcdef`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BootstrapToken<'a> {
    id: &'a str,
    secret: &'a str,
}

impl<'a> BootstrapToken<'a> {
    /// Parses a token; `None` if it has another form.
    #[must_use]
    pub fn parse(token: &'a str) -> Option<BootstrapToken<'a>> {
        let (id, secret) = token.split_once('.')?;
        let is_word =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
        let is_valid = id.len() == ID_BYTES && secret.len() == SECRET_BYTES && is_word(id) && is_word(secret);
        is_valid.then_some(BootstrapToken { id, secret })
    }

    /// Name of the Secret with the token.
    #[must_use]
    pub fn secret_name(&self) -> String {
        format!("{NAME_PREFIX}{}", self.id)
    }

    /// Returns the identity that the token proves; `None` if its Secret does not match, is expired, is being deleted or
    /// is not for authentication.
    #[must_use]
    pub fn identity(&self, secret: &Value, now: Time) -> Option<Identity> {
        let data = |key: &str| STANDARD.decode(secret.str_at(&["data", key])).unwrap_or_default();
        let is_live = metadata::deletion_timestamp(secret).is_none() && secret.str_at(&["type"]) == TYPE;
        let is_equal = verify_slices_are_equal(&data("token-secret"), self.secret.as_bytes()).is_ok();
        let is_valid = is_equal
            && data("token-id") == self.id.as_bytes()
            && data("usage-bootstrap-authentication") == b"true"
            && !is_expired(&data("expiration"), now);
        let groups = groups(&data("auth-extra-groups")).filter(|_| is_live && is_valid)?;
        Some(Identity::new(format!("{USER_PREFIX}{}", self.id), groups))
    }
}

impl std::fmt::Debug for BootstrapToken<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BootstrapToken").field("id", &self.id).finish_non_exhaustive()
    }
}

/// `true` if the expiration has passed, or cannot be read.
fn is_expired(expiration: &[u8], now: Time) -> bool {
    if expiration.is_empty() {
        return false;
    }
    let at = std::str::from_utf8(expiration).ok().and_then(|text| rfc3339::parse(text).ok());
    at.is_none_or(|at| at <= now)
}

/// Expiration of a Secret; `None` if it does not expire, or the expiration cannot be read.
#[must_use]
pub fn expiration(secret: &Value) -> Option<Time> {
    let text = STANDARD.decode(secret.str_at(&["data", "expiration"])).ok()?;
    rfc3339::parse(std::str::from_utf8(&text).ok()?).ok()
}

/// Groups of a token, sorted; `None` if a name is invalid.
fn groups(extra: &[u8]) -> Option<Vec<String>> {
    let mut groups = BTreeSet::from([DEFAULT_GROUP.to_owned()]);
    if !extra.is_empty() {
        for group in std::str::from_utf8(extra).ok()?.split(',') {
            let rest = group.strip_prefix(GROUP_PREFIX)?;
            let is_word = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
            let ends_well = rest.bytes().last().is_some_and(is_word);
            let is_valid = rest.bytes().all(|byte| is_word(byte) || byte == b':' || byte == b'-');
            if !(ends_well && is_valid && rest.len() <= GROUP_CHARS_MAX) {
                return None;
            }
            groups.insert(group.to_owned());
        }
    }
    Some(groups.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use setpoint_api::value;

    use super::*;

    const TOKEN: &str = "abcdef.0123456789abcdef";
    const NOW: Time = Time::from_seconds(1_700_000_000);

    fn secret(data: &[(&str, &str)]) -> Value {
        let mut secret = value!({"type": (TYPE), "metadata": {"name": "bootstrap-token-abcdef"}});
        let fields = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
        ];
        let map = secret.ensure_map("data");
        for (key, text) in fields.iter().chain(data) {
            map.insert(*key, STANDARD.encode(text));
        }
        secret
    }

    fn identity(data: &[(&str, &str)]) -> Option<Identity> {
        BootstrapToken::parse(TOKEN).unwrap().identity(&secret(data), NOW)
    }

    #[test]
    fn valid_bootstrap_token_has_its_user_and_groups() {
        let found =
            identity(&[("auth-extra-groups", "system:bootstrappers:workers,system:bootstrappers:a:b")])
                .unwrap();
        assert_eq!(found.user, "system:bootstrap:abcdef");
        assert_eq!(
            found.groups,
            ["system:bootstrappers", "system:bootstrappers:a:b", "system:bootstrappers:workers"]
        );
        assert!(identity(&[("expiration", "2023-11-14T22:13:21Z")]).is_some());
    }

    #[test]
    fn expired_unusable_or_wrong_bootstrap_token_is_rejected() {
        for data in [
            ("expiration", "2023-11-14T22:13:20Z"),
            ("expiration", "soon"),
            ("usage-bootstrap-authentication", "yes"),
            ("token-secret", "0123456789abcdeg"),
            ("token-id", "abcdeg"),
            ("auth-extra-groups", "system:masters"),
            ("auth-extra-groups", "system:bootstrappers:"),
            ("auth-extra-groups", "system:bootstrappers:A"),
        ] {
            assert_eq!(identity(&[data]), None, "{data:?}");
        }
        let mut other = secret(&[]);
        other.make_map().insert("type", "Opaque");
        assert_eq!(BootstrapToken::parse(TOKEN).unwrap().identity(&other, NOW), None);
        let mut deleted = secret(&[]);
        deleted.ensure_map("metadata").insert("deletionTimestamp", "2023-11-14T22:13:20Z");
        assert_eq!(BootstrapToken::parse(TOKEN).unwrap().identity(&deleted, NOW), None);
    }

    proptest! {
        #[test]
        fn only_the_documented_form_is_a_bootstrap_token(token in "[a-zA-Z0-9.]{0,30}") {
            let (id, secret) = token.split_once('.').unwrap_or_default();
            let is_word = |text: &str| text.chars().all(|one| one.is_ascii_digit() || one.is_ascii_lowercase());
            let expected = id.len() == 6 && secret.len() == 16 && is_word(id) && is_word(secret);
            prop_assert_eq!(BootstrapToken::parse(&token).is_some(), expected);
        }
    }
}
