//! Fast skipping over stored JSON, eight bytes at a time, for readers that need few fields of an object.
//!
//! The text is trusted: it must be compact JSON as this crate writes it. Nothing is checked.

use super::scan::{EndsPlain, HIGHS, WORD, plain, repeat};

/// End of the object or array that starts at `at`; `None` if the text ends before.
pub(super) fn end_of(bytes: &[u8], at: usize) -> Option<usize> {
    let mut scan = Scan { bytes, at: at + 1, open: 1, quoted: 0 };
    loop {
        let word = scan.bytes.get(scan.at..)?.first_chunk::<WORD>();
        let is_passed = word.is_some_and(|word| scan.advance_word(u64::from_le_bytes(*word)));
        if !is_passed && scan.advance_bytes()? {
            return Some(scan.at);
        }
    }
}

/// Scan position and the nesting there.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Number of open objects and arrays.
    open: u64,
    /// String state: all of [`HIGHS`] inside a string, zero outside.
    quoted: u64,
}

impl Scan<'_> {
    /// Advances over a word without a branch on its contents. Returns `false` without advancing if the word
    /// contains an escape, or if the end may be in it.
    fn advance_word(&mut self, word: u64) -> bool {
        // Each quote inverts the string state of all bytes after it in the word.
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
        // The state after the last byte is the state before the next word.
        self.quoted = (quoted >> 63).wrapping_neg() & HIGHS;
        self.at += WORD;
        true
    }

    /// Advances over a word byte by byte; `true` if the end was reached.
    fn advance_bytes(&mut self) -> Option<bool> {
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

/// Marks exactly the bytes of a word that equal `byte`.
const fn matches(word: u64, byte: u8) -> u64 {
    let other = word ^ repeat(byte);
    !(((other & !HIGHS) + !HIGHS) | other) & HIGHS
}

/// Number of marked bytes, summed into the highest byte: not every target has a popcount instruction.
const fn count(marks: u64) -> u64 {
    (marks >> 7).wrapping_mul(repeat(1)) >> 56
}

/// Iterator over the members of an object in stored JSON, without parsing their values.
pub struct Members<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Members<'a> {
    /// Iterates over the members of the object that starts at `at`.
    #[must_use]
    pub fn of(text: &'a str, at: usize) -> Members<'a> {
        Members { text, at }
    }

    /// End of the object, after the last member.
    #[must_use]
    pub fn end(&self) -> usize {
        // An empty object leaves the position on its opening brace.
        let is_at_end = self.text.as_bytes().get(self.at) == Some(&b'}');
        self.at + if is_at_end { 1 } else { 2 }
    }
}

/// A member of an object in stored JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Name as it is between the quotes, with its escapes.
    pub name: &'a str,
    /// Position of the name's opening quote.
    pub start: usize,
    /// Start of the value.
    pub value: usize,
    /// End of the value.
    pub end: usize,
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let bytes = self.text.as_bytes();
        // After the brace or the comma.
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

/// Position of the quote that ends a string.
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
        fn skipping_ends_where_parsing_ends(value in any_value(), before in 0_usize..9, behind in "[\\]}{\\[\"a]{0,12}") {
            for nested in [Value::List(vec![value.clone()]), Value::Map(Map::from_iter([("a", value)]))] {
                let text = json::to_text(&nested);
                let whole = format!("{}{text}{behind}", " ".repeat(before));
                prop_assert_eq!(end_of(whole.as_bytes(), before), Some(before + text.len()));
                prop_assert_eq!(end_of(&whole.as_bytes()[..before + text.len() - 1], before), None);
            }
        }

        #[test]
        fn members_equal_those_of_the_parser(
            members in prop::collection::btree_map(".{0,12}", any_value(), 0..6), before in 0_usize..9,
        ) {
            let object = Value::Map(members.iter().map(|(name, value)| (name.as_str(), value.clone())).collect());
            let text = format!("{}{}}}", " ".repeat(before), json::to_text(&object));
            let mut found = Map::default();
            let mut members = Members::of(&text, before);
            for member in members.by_ref() {
                let name = Parser::new(&text.as_bytes()[member.start..member.value - 1]).parse_value();
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
    fn count_includes_every_byte_of_a_word() {
        for len in 0..=WORD {
            let mut word = [b'a'; WORD];
            word[..len].fill(b'{');
            assert_eq!(count(matches(u64::from_le_bytes(word), b'{')), len as u64);
        }
    }

    #[test]
    fn matches_marks_only_equal_bytes() {
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
