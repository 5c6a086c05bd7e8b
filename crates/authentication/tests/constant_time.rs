//! Comparisons of secrets: each takes a time that does not depend on where the secrets differ.
//!
//! Timings cannot be asserted, so each row names a secret and the comparison that its source must have.

/// Source, secret, and its comparison.
const COMPARISONS: [(&str, &str, &str); 7] = [
    (
        include_str!("../src/bootstrap_token.rs"),
        "secret of a bootstrap token",
        "verify_slices_are_equal(&data(\"token-secret\"), self.secret.as_bytes())",
    ),
    (
        include_str!("../src/service_account/legacy.rs"),
        "token in a Secret",
        "verify_slices_are_equal(&stored, token.as_bytes())",
    ),
    (
        include_str!("../src/token_file.rs"),
        "token of the token file: found by its HMAC with a random key",
        "fn identity(&self, digest: &TokenDigest)",
    ),
    (
        include_str!("../src/token_cache.rs"),
        "cached token: found by its HMAC with a random key",
        "fn get(&self, digest: &TokenDigest)",
    ),
    (include_str!("../src/token_cache.rs"), "HMAC of tokens", "hmac::Context::with_key(&self.0)"),
    (
        include_str!("../src/keys.rs"),
        "RSA signature of a token",
        "key.verify(parameters, message, signature)",
    ),
    (include_str!("../src/keys.rs"), "ECDSA signature of a token", "key.verify(message, signature)"),
];

#[test]
fn secrets_are_compared_in_constant_time() {
    for (source, secret, comparison) in COMPARISONS {
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(code.contains(comparison), "{secret}");
        let suspicious =
            ["== token", "token ==", "== self.secret", "self.secret ==", "== stored", "signature =="];
        for comparison in suspicious {
            assert!(!code.contains(comparison), "{secret}: {comparison}");
        }
    }
}
