//! Default image pull policy, by the tag of the image.

/// Maximum bytes of a repository name, including the registry.
const NAME_BYTES_MAX: usize = 255;

/// Pull policy of an image: `Always` for `latest` or no tag, else `IfNotPresent`. An invalid reference has no
/// tag, so it is `IfNotPresent` too.
#[must_use]
pub(crate) fn pull_policy(image: &str) -> &'static str {
    if tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// Tag of a reference, `latest` if it has neither tag nor digest; `None` for an invalid reference.
fn tag(image: &str) -> Option<&str> {
    let is_identifier = image.len() == 64 && image.bytes().all(|b| matches!(b, b'a'..=b'f' | b'0'..=b'9'));
    if is_identifier {
        return None;
    }
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let (domain, rest) = split_domain(rest);
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let good = domain.is_none_or(is_domain)
        && domain.map_or(0, |domain| domain.len() + 1) + path.len() <= NAME_BYTES_MAX
        && path.split('/').all(is_path_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    match (good, tag, digest) {
        (false, ..) => None,
        (true, Some(tag), _) => Some(tag),
        (true, None, None) => Some("latest"),
        (true, None, Some(_)) => Some(""),
    }
}

/// Splits off the registry before the first slash, if it is one.
fn split_domain(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, rest))
            if first == "localhost"
                || first.contains(['.', ':'])
                || first.bytes().any(|b| b.is_ascii_uppercase()) =>
        {
            (Some(first), rest)
        }
        _ => (None, name),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let good = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
            return good && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_number));
        }
        None => match domain.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (domain, None),
        },
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    host.split('.').all(is_label) && port.is_none_or(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// `true` for runs of lower case letters and digits, joined by a dot, one or two underscores, or any number
/// of dashes.
fn is_path_component(component: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut joint = "";
    let mut start = 0;
    let bytes = component.as_bytes();
    if bytes.is_empty() || !is_word(bytes[0]) || !is_word(bytes[bytes.len() - 1]) || !component.is_ascii() {
        return false;
    }
    for (at, b) in bytes.iter().enumerate() {
        if is_word(*b) {
            let good = matches!(joint, "" | "." | "_" | "__") || joint.bytes().all(|b| b == b'-');
            if !good {
                return false;
            }
            joint = "";
            start = at + 1;
        } else {
            joint = &component[start..=at];
        }
    }
    true
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let len = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == len && hex.bytes().all(|b| matches!(b, b'a'..=b'f' | b'0'..=b'9'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_latest_is_always_pulled() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for image in [
            "nginx",
            "nginx:latest",
            "library/nginx",
            "registry.example/team/app",
            "registry.example:5000/app",
            "localhost/app",
            "Host/app",
            "[::1]:5000/app",
            "a__b/c--d/e.f",
            &format!("app:latest@{digest}"),
        ] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        for image in [
            "",
            "nginx:1.25",
            "Nginx",
            "nginx:",
            "nginx:-x",
            "a..b",
            "a___b",
            "-a",
            "a/",
            "/a",
            "docker.io/",
            "-x.y/app",
            "a b",
            "registry.example:5000/app:1",
            &"f".repeat(64),
            &"a/".repeat(200),
            &format!("app@{digest}"),
            "app@sha256:abc",
            "app:latest@md5:abc",
        ] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }
}
