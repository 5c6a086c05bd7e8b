//! Names generated from `generateName`.

/// Maximum bytes of a generated name, for every kind.
pub const NAME_BYTES_MAX: usize = 63;
/// Bytes of the random suffix.
const SUFFIX_BYTES: usize = 5;
/// Characters of the random suffix: no vowels, so that it spells no words, and none of `0`, `1` and `3`.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Generates a name: `base`, truncated if necessary, and five characters drawn from `entropy`.
#[must_use]
pub fn generated_name(base: &str, entropy: u64) -> String {
    let mut room = base.len().min(NAME_BYTES_MAX - SUFFIX_BYTES);
    while !base.is_char_boundary(room) {
        room -= 1;
    }
    let mut name = String::with_capacity(room + SUFFIX_BYTES);
    name.push_str(&base[..room]);
    let mut rest = entropy;
    for _ in 0..SUFFIX_BYTES {
        // 27^5 is so small beside 2^64 that the bias of any character is below 10^-12.
        let index = usize::try_from(rest % 27).expect("less than 27");
        name.push(char::from(SUFFIX_ALPHABET[index]));
        rest /= 27;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_begin_with_the_base_and_are_bounded() {
        let name = generated_name("web-", 0);
        assert_eq!(name, "web-bbbbb");
        assert_eq!(generated_name("web-", 26), "web-9bbbb");
        assert_eq!(generated_name("web-", 27_u64.pow(5) - 1), "web-99999");
        let long = generated_name(&"a".repeat(100), 7);
        assert_eq!(long.len(), 63);
        assert!(long.starts_with(&"a".repeat(58)));
    }

    #[test]
    fn base_is_truncated_at_a_character_boundary() {
        assert_eq!(generated_name(&"é".repeat(40), 0), format!("{}bbbbb", "é".repeat(29)));
        assert_eq!(generated_name(&format!("a{}", "é".repeat(40)), 0).len(), 62);
    }

    #[test]
    fn different_entropy_generates_different_names() {
        assert_ne!(generated_name("a", 1), generated_name("a", 2));
    }
}
