//! Image names: validation, and names that can never be pulled.

/// Reason why an image can never be pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnpullableReason {
    /// The name is not a valid image reference.
    Invalid,
    /// The registry host is in a reserved domain that never resolves.
    NoSuchHost(String),
    /// The name marks the image as missing.
    NotFound,
}

/// Reserved top-level domains that never resolve (RFC 2606, RFC 6761).
const RESERVED_DOMAINS: [&str; 3] = [".invalid", ".test", ".example"];

/// Name parts that mark an image or program as missing.
const MISSING_MARKERS: [&str; 5] =
    ["nonexistent", "non-existent", "does-not-exist", "doesnotexist", "not-found"];

/// `true` if the name of an image or program marks it as missing.
#[must_use]
pub fn is_named_missing(name: &str) -> bool {
    MISSING_MARKERS.iter().any(|word| name.contains(word))
}

/// Returns the reason why an image can never be pulled; `None` if it may exist.
#[must_use]
pub fn unpullable_reason(image: &str) -> Option<UnpullableReason> {
    let Some((host, path, tag)) = parse_reference(image) else { return Some(UnpullableReason::Invalid) };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if RESERVED_DOMAINS.iter().any(|end| name.ends_with(end)) {
        return Some(UnpullableReason::NoSuchHost(name.to_owned()));
    }
    // The tag `404` marks a missing image, after the status code of a registry.
    let is_missing = tag == "404" || is_named_missing(path) || is_named_missing(tag);
    is_missing.then_some(UnpullableReason::NotFound)
}

/// Returns the last part of an image's path.
#[must_use]
pub fn short_name(image: &str) -> &str {
    let path = image.split_once('@').map_or(image, |(path, _)| path);
    let last = path.rsplit('/').next().unwrap_or(path);
    last.split_once(':').map_or(last, |(name, _)| name)
}

/// Splits an image name into registry (empty for the default), path and tag; `None` if it is invalid.
fn parse_reference(image: &str) -> Option<(&str, &str, &str)> {
    let (rest, digest) = image.split_once('@').map_or((image, None), |(rest, digest)| (rest, Some(digest)));
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return None;
    }
    let (host, path) = match rest.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path),
        _ => ("", rest),
    };
    let (path, tag) = path.rsplit_once(':').map_or((path, None), |(path, tag)| (path, Some(tag)));
    let is_valid = is_host(host) && path.split('/').all(is_path_component) && tag.is_none_or(is_tag);
    is_valid.then_some((host, path, tag.unwrap_or_default()))
}

fn is_host(host: &str) -> bool {
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    host.is_empty() || name.split('.').all(is_label) && port.is_none_or(is_port)
}

/// Path component: lower-case letters and digits, separated by single dots, one or two underscores, or
/// dashes.
fn is_path_component(part: &str) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    let ends_well = bytes.first().is_some_and(is_word) && bytes.last().is_some_and(is_word);
    ends_well
        && bytes.split(is_word).all(|between| match between {
            [] | b"." | b"_" | b"__" => true,
            dashes => dashes.iter().all(|byte| *byte == b'-'),
        })
}

fn is_tag(tag: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.bytes().next().is_some_and(is_first)
        && tag.len() <= 128
        && tag.bytes().all(|byte| is_first(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex_digest)| {
        !algorithm.is_empty()
            && hex_digest.len() >= 32
            && hex_digest.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Returns a stable hash of a text.
#[must_use]
pub fn stable_hash(text: &str) -> u64 {
    // FNV-1a, then a mixing step so that names with different last letters are far apart.
    let plain = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |stable_hash, byte| {
        (stable_hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    setpoint_reconcile::Seed(plain).draw(0)
}

/// Returns 64 hexadecimal digits derived from a text, in place of a digest.
#[must_use]
pub fn hex_digest(text: &str) -> String {
    let seed = setpoint_reconcile::Seed(stable_hash(text));
    (0..4).map(|part| format!("{:016x}", seed.draw(part))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_image_names_may_exist() {
        for image in [
            "nginx",
            "nginx:1.27",
            "library/busybox",
            "registry.k8s.io/pause:3.10",
            "localhost:5000/a/b__c:v1",
            "localhost/x",
            "quay.io/a/b-c--d@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        ] {
            assert_eq!(unpullable_reason(image), None, "{image}");
        }
    }

    #[test]
    fn invalid_names_and_reserved_hosts_are_impossible() {
        for image in ["", "Nginx", "a b", "nginx:", "nginx:-x", "a//b", "a@sha256:12", "-a", "a..b", "a___b"]
        {
            assert_eq!(unpullable_reason(image), Some(UnpullableReason::Invalid), "{image}");
        }
        for image in ["registry.invalid/x", "a.test:5000/x:1", "b.example/x/y"] {
            assert!(matches!(unpullable_reason(image), Some(UnpullableReason::NoSuchHost(_))), "{image}");
        }
        assert_eq!(unpullable_reason("example/x"), None);
        for image in ["web:404", "foo:non-existent", "nonexistent", "quay.io/a/does-not-exist:1"] {
            assert_eq!(unpullable_reason(image), Some(UnpullableReason::NotFound), "{image}");
        }
        assert_eq!(unpullable_reason("web404:1.404"), None);
    }

    #[test]
    fn different_names_have_different_hashes() {
        assert_ne!(stable_hash("node-1"), stable_hash("node-2"));
        assert_eq!(
            (hex_digest("a").len(), hex_digest("a") == hex_digest("a"), hex_digest("a") == hex_digest("b")),
            (64, true, false)
        );
    }
}
