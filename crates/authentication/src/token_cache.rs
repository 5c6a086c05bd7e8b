//! Verified tokens by a keyed hash, bounded.
//!
//! Tokens are neither stored nor compared: the key of an entry is an HMAC with a random key, so that neither memory
//! nor timing reveals a token.

use std::collections::BTreeMap;

use aws_lc_rs::hmac;

/// Entries of a generation. The cache holds two.
pub const GENERATION_ENTRIES_MAX: usize = 16 << 10;

/// Keyed hash of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenDigest([u8; 32]);

/// Hash function of tokens with a key of its own.
pub struct TokenHasher(hmac::Key);

impl TokenHasher {
    /// Creates a hasher. The key is made of random numbers.
    #[must_use]
    pub fn new(entropy: [u64; 4]) -> TokenHasher {
        let key: Vec<u8> = entropy.iter().flat_map(|number| number.to_le_bytes()).collect();
        TokenHasher(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }

    /// Hashes a token for some audiences.
    #[must_use]
    pub fn digest(&self, token: &str, audiences: &[String]) -> TokenDigest {
        let mut context = hmac::Context::with_key(&self.0);
        // Lengths keep texts apart.
        let mut update = |text: &str| {
            context.update(&(text.len() as u64).to_le_bytes());
            context.update(text.as_bytes());
        };
        update(token);
        audiences.iter().for_each(|audience| update(audience));
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        TokenDigest(digest)
    }
}

impl std::fmt::Debug for TokenHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenHasher")
    }
}

/// Values by token, of bounded size: when the young generation is full, it replaces the old one.
#[derive(Debug)]
pub struct TokenCache<V> {
    young: BTreeMap<TokenDigest, V>,
    old: BTreeMap<TokenDigest, V>,
    entries_max: usize,
}

impl<V> Default for TokenCache<V> {
    fn default() -> TokenCache<V> {
        TokenCache::with_entries(GENERATION_ENTRIES_MAX)
    }
}

impl<V> TokenCache<V> {
    /// Creates a cache of two generations with at most this many entries each.
    #[must_use]
    pub fn with_entries(entries_max: usize) -> TokenCache<V> {
        TokenCache { young: BTreeMap::new(), old: BTreeMap::new(), entries_max: entries_max.max(1) }
    }

    /// Returns the value of a token.
    #[must_use]
    pub fn get(&self, digest: &TokenDigest) -> Option<&V> {
        self.young.get(digest).or_else(|| self.old.get(digest))
    }

    /// Sets the value of a token.
    pub fn insert(&mut self, digest: TokenDigest, value: V) {
        if self.young.len() >= self.entries_max && !self.young.contains_key(&digest) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, value);
    }

    /// Removes a token.
    pub fn remove(&mut self, digest: &TokenDigest) {
        self.young.remove(digest);
        self.old.remove(digest);
    }

    /// Removes all tokens.
    pub fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// `true` if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_token_audiences_and_key() {
        let hasher = TokenHasher::new([1, 2, 3, 4]);
        let audiences = |list: &[&str]| list.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let digest = hasher.digest("token", &audiences(&["a", "b"]));
        assert_eq!(digest, hasher.digest("token", &audiences(&["a", "b"])));
        assert_ne!(digest, hasher.digest("token", &audiences(&["ab"])));
        assert_ne!(digest, hasher.digest("tokena", &audiences(&["b"])));
        assert_ne!(digest, TokenHasher::new([1, 2, 3, 5]).digest("token", &audiences(&["a", "b"])));
    }

    #[test]
    fn cache_is_bounded_and_keeps_recent_tokens() {
        let hasher = TokenHasher::new([0; 4]);
        let mut cache = TokenCache::with_entries(10);
        for number in 0..1000 {
            cache.insert(hasher.digest(&number.to_string(), &[]), number);
            assert!(cache.len() <= 20);
            for recent in (number - 9).max(0)..=number {
                assert_eq!(cache.get(&hasher.digest(&recent.to_string(), &[])), Some(&recent));
            }
        }
        cache.remove(&hasher.digest("999", &[]));
        assert_eq!(cache.get(&hasher.digest("999", &[])), None);
        cache.clear();
        assert!(cache.is_empty());
    }
}
