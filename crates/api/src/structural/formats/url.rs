//! URIs and email addresses, as Go's `net/url` and `net/mail` parse them.

/// `true` if Go's `url.ParseRequestURI` accepts the text: an absolute URI or path.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !rest.starts_with('/') {
        // A scheme with an opaque part, such as `mailto:a`.
        return !scheme.is_empty();
    }
    let mut path = rest;
    if !scheme.is_empty()
        && let Some(authority) = rest.strip_prefix("//")
    {
        let end = authority.find('/').unwrap_or(authority.len());
        if !is_authority(&authority[..end]) {
            return false;
        }
        path = &authority[end..];
    }
    has_valid_escapes(path)
}

/// Scheme and rest; the scheme may be empty. `None` if the text begins with a colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return None,
            b':' => return Some((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

fn is_authority(text: &str) -> bool {
    let (user, host) = text.rsplit_once('@').map_or(("", text), |(user, host)| (user, host));
    let is_user_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(is_user_byte) || !has_valid_escapes(user) {
        return false;
    }
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.rsplit_once(']') else { return false };
        return is_optional_port(port) && is_host(address.split("%25").next().unwrap_or_default());
    }
    let port_at = host.rfind(':').unwrap_or(host.len());
    is_optional_port(&host[port_at..]) && is_host(host)
}

fn is_optional_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Host characters; escapes only of bytes beyond ASCII.
fn is_host(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let Some([high, low]) = bytes.get(at + 1..at + 3) else { return false };
                if !high.is_ascii_hexdigit() || !low.is_ascii_hexdigit() || *high < b'8' {
                    return false;
                }
                at += 3;
            }
            byte if !byte.is_ascii()
                || byte.is_ascii_alphanumeric()
                || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte) =>
            {
                at += 1;
            }
            _ => return false,
        }
    }
    true
}

fn has_valid_escapes(text: &str) -> bool {
    let mut parts = text.as_bytes().split(|byte| *byte == b'%');
    parts.next();
    parts.all(|part| part.len() >= 2 && part[..2].iter().all(u8::is_ascii_hexdigit))
}

/// `true` for an address, or a display name and an address in angle brackets.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let Some(start) = text.strip_suffix('>') else { return is_address(text) };
    let Some((name, address)) = start.rsplit_once('<') else { return false };
    is_phrase(name.trim_matches([' ', '\t'])) && is_address(address)
}

/// Words and quoted strings; may be empty.
fn is_phrase(text: &str) -> bool {
    if text.len() >= 2 && text.starts_with('"') && text.ends_with('"') {
        return is_quoted(&text[1..text.len() - 1]);
    }
    text.split([' ', '\t']).filter(|word| !word.is_empty()).all(is_dot_atom_lenient)
}

fn is_dot_atom_lenient(word: &str) -> bool {
    word.chars().all(|c| c == '.' || is_atom_char(c))
}

fn is_address(text: &str) -> bool {
    let (local, domain) = if let Some(rest) = text.strip_prefix('"') {
        let Some((quoted, domain)) = rest.rsplit_once("\"@") else { return false };
        if !is_quoted(quoted) {
            return false;
        }
        ("quoted", domain)
    } else {
        let Some(parts) = text.split_once('@') else { return false };
        parts
    };
    is_dot_atom(local) && (is_dot_atom(domain) || is_domain_literal(domain))
}

fn is_quoted(text: &str) -> bool {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next().is_none() => return false,
            '"' => return false,
            c if c.is_control() && c != '\t' => return false,
            _ => {}
        }
    }
    true
}

fn is_domain_literal(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    inner.is_some_and(|address| address.parse::<std::net::IpAddr>().is_ok())
}

/// Atoms separated by single dots.
fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_atom_char(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}
