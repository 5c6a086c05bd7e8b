//! Plausibility check of the certificate and key in a TLS Secret.
//!
//! Only the outer form is checked, for common mistakes: certificate and key swapped, a path instead of the
//! contents. Whether the key belongs to the certificate is not checked.

/// Error of a certificate and its key, with the texts of Go.
pub(super) fn key_pair_fault(certificate: &[u8], key: &[u8]) -> Option<String> {
    let types = block_types(certificate);
    if !types.iter().any(|kind| kind == "CERTIFICATE") {
        return Some(match types.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [only] if only.ends_with("PRIVATE KEY") => "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned(),
            skipped => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
                skipped.join(" ")
            ),
        });
    }
    let types = block_types(key);
    if types.iter().any(|kind| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")) {
        return None;
    }
    Some(match types.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        skipped => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            skipped.join(" ")
        ),
    })
}

/// Labels of complete PEM blocks.
fn block_types(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut types = Vec::new();
    let mut open: Option<&str> = None;
    for line in text.lines().map(str::trim_end) {
        let framed = |start| line.strip_prefix(start).and_then(|rest: &str| rest.strip_suffix("-----"));
        if let Some(kind) = framed("-----BEGIN ") {
            open = Some(kind);
        } else if let Some(kind) = framed("-----END ") {
            types.extend(open.take().filter(|begun| *begun == kind).map(str::to_owned));
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    const KEY: &[u8] = b"-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n";

    #[test]
    fn implausible_key_pairs_are_reported() {
        assert_eq!(key_pair_fault(CERTIFICATE, KEY), None);
        for (certificate, key, fault) in [
            (&b"x"[..], KEY, "tls: failed to find any PEM data in certificate input"),
            (CERTIFICATE, &b""[..], "tls: failed to find any PEM data in key input"),
            (
                KEY,
                CERTIFICATE,
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
            ),
            (
                CERTIFICATE,
                CERTIFICATE,
                "tls: found a certificate rather than a key in the PEM for the private key",
            ),
        ] {
            assert_eq!(key_pair_fault(certificate, key).as_deref(), Some(fault));
        }
    }
}
