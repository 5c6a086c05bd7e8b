//! Passes over what was written here, eight bytes at a time: of most of a stored object only the end is wanted.
//!
//! Nothing is checked. That a text is JSON, without spaces, is taken on trust.

use super::scan::{EndsPlain, HIGHS, WORD, plain, repeat};

/// Where the object or array ends that starts at `at`; nothing if the text ends before.
pub(super) fn end_of(bytes: &[u8], at: usize) -> Option<usize> {
    let mut scan = Scan { bytes, at: at + 1, open: 1, quoted: 0 };
    loop {
        let word = scan.bytes.get(scan.at..)?.first_chunk::<WORD>();
        let is_passed = word.is_some_and(|word| scan.pass(u64::from_le_bytes(*word)));
        if !is_passed && scan.crawl()? {
            return Some(scan.at);
        }
    }
}

/// How far it is, and what is open there.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    /// How many objects and arrays.
    open: u64,
    /// Whether a string is: all of [`HIGHS`] if so.
    quoted: u64,
}

impl Scan<'_> {
    /// Passes over a word, without a branch for what is in it; not if something is escaped there, or if the end may be.
    fn pass(&mut self, word: u64) -> bool {
        // Each quote turns over all that follows it in the word.
        let mut quoted = matches(word, b'"');
        quoted ^= quoted << 8;
        quoted ^= quoted << 16;
        quoted ^= quoted << 32;
        quoted ^= self.quoted;
        // Braces and brackets differ in one bit.
        let folded = word | repeat(b'{' ^ b'[');
        let opening = count(matches(folded, b'{') & !quoted);
        let closing = count(matches(folded, b'}') & !quoted);
        if closing >= self.open || matches(word, b'\\') != 0 {
            return false;
        }
        self.open = self.open + opening - closing;
        // The last byte says how the next word begins.
        self.quoted = (quoted >> 63).wrapping_neg() & HIGHS;
        self.at += WORD;
        true
    }

    /// Goes over a word byte by byte; says whether it came to the end.
    fn crawl(&mut self) -> Option<bool> {
        let until = self.at + WORD;
        while self.at < until {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'"' => self.quoted ^= HIGHS,
                _ if self.quoted != 0 => {}
                b'{' | b'[' => self.open += 1,
                b'}' | b']' => self.open -= 1,
                _ => {}
            }
            if self.open == 0 {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// Marks the bytes of a word that are this one, and no others.
const fn matches(word: u64, byte: u8) -> u64 {
    let other = word ^ repeat(byte);
    !(((other & !HIGHS) + !HIGHS) | other) & HIGHS
}

/// How many bytes are marked: each is added to the highest. Not every processor that this is built for counts bits.
const fn count(marks: u64) -> u64 {
    (marks >> 7).wrapping_mul(repeat(1)) >> 56
}

/// The members of an object, as they are written: the names without their quotes, and where the values stand.
pub struct Members<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Members<'a> {
    /// The members of the object that starts at `at`.
    #[must_use]
    pub fn of(text: &'a str, at: usize) -> Members<'a> {
        Members { text, at }
    }

    /// Where the object ends, once all members have come.
    #[must_use]
    pub fn end(&self) -> usize {
        // Without any it stands on the brace with which the object begins.
        let is_at_end = self.text.as_bytes().get(self.at) == Some(&b'}');
        self.at + if is_at_end { 1 } else { 2 }
    }
}

/// A member of an object, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name, as it is between the quotes.
    pub name: &'a str,
    /// Where the quote stands with which the name begins.
    pub start: usize,
    /// Where the value begins.
    pub value: usize,
    /// Where the value ends.
    pub end: usize,
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let bytes = self.text.as_bytes();
        // Behind the brace, or the comma.
        let start = self.at + 1;
        if bytes.get(start) != Some(&b'"') {
            return None;
        }
        let quote = end_of_string(bytes, start + 1);
        let value = quote + 2;
        let end = match bytes.get(value)? {
            b'{' | b'[' => end_of(bytes, value)?,
            b'"' => end_of_string(bytes, value + 1) + 1,
            _ => value + bytes[value..].iter().position(|byte| matches!(byte, b',' | b'}'))?,
        };
        self.at = end;
        Some(Member { name: self.text.get(start + 1..quote)?, start, value, end })
    }
}

/// Where the quote stands that ends a string.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at += plain::<EndsPlain>(bytes.get(at..).unwrap_or_default());
        match bytes.get(at) {
            Some(b'"') | None => return at,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::tests::any_value;
    use crate::json::{self, Parser};
    use crate::value::{Map, Value};

    proptest! {
        #[test]
        fn the_end_is_where_a_parser_finds_it(value in any_value(), before in 0_usize..9, behind in "[\\]}{\\[\"a]{0,12}") {
            for nested in [Value::List(vec![value.clone()]), Value::Map(Map::from_iter([("a", value)]))] {
                let text = json::to_text(&nested);
                let whole = format!("{}{text}{behind}", " ".repeat(before));
                prop_assert_eq!(end_of(whole.as_bytes(), before), Some(before + text.len()));
                prop_assert_eq!(end_of(&whole.as_bytes()[..before + text.len() - 1], before), None);
            }
        }

        #[test]
        fn members_are_those_that_a_parser_finds(
            members in prop::collection::btree_map(".{0,12}", any_value(), 0..6), before in 0_usize..9,
        ) {
            let object = Value::Map(members.iter().map(|(name, value)| (name.as_str(), value.clone())).collect());
            let text = format!("{}{}}}", " ".repeat(before), json::to_text(&object));
            let mut found = Map::default();
            let mut members = Members::of(&text, before);
            for member in members.by_ref() {
                let name = Parser::new(&text.as_bytes()[member.start..member.value - 1]).value();
                let value = json::parse(&text.as_bytes()[member.value..member.end]);
                prop_assert_eq!(&text[member.start + 1..][..member.name.len()], member.name);
                found.insert(name.unwrap().as_str().unwrap(), value.unwrap());
            }
            prop_assert_eq!(members.end(), text.len() - 1);
            let parsed = json::parse(&text.as_bytes()[..text.len() - 1]).unwrap();
            prop_assert_eq!(found.len(), parsed.as_map().unwrap().len());
            prop_assert_eq!(Value::Map(found), parsed);
        }
    }

    #[test]
    fn all_bytes_of_a_word_are_counted() {
        for len in 0..=WORD {
            let mut word = [b'a'; WORD];
            word[..len].fill(b'{');
            assert_eq!(count(matches(u64::from_le_bytes(word), b'{')), len as u64);
        }
    }

    #[test]
    fn no_byte_passes_for_another() {
        for byte in 0..=u8::MAX {
            for at in 0..WORD {
                for filler in [0, 0x1f, b'!', b'#', b'z', b'|', 0x7f, 0x80, 0xff] {
                    let mut word = [filler; WORD];
                    word[at] = byte;
                    let expected = if byte == b'"' { 0x80_u64 << (8 * at) } else { 0 };
                    let marks = matches(u64::from_le_bytes(word), b'"');
                    assert_eq!((marks, count(marks)), (expected, u64::from(byte == b'"')));
                }
            }
        }
    }
}
