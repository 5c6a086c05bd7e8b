//! Packing: stores a record as its difference from sample records of its table.
//!
//! Records that expire (Events above all) are written often, read rarely, and nearly all alike. Each table
//! of them keeps a [`Dictionary`] of samples. A packed record is a list of sequences in the manner of LZ4:
//! literal bytes, then a match, which is a copy of bytes from the dictionary or from earlier in the record.
//! Packing applies to memory only: logs store records unpacked.
//!
//! A sequence is a byte with two lengths (of the literal, and of the match beyond [`MATCH_BYTES_MIN`]; 15
//! means that a varint adds to it), the literal, and a 16-bit offset of the match: in the dictionary, or
//! behind it in the record. The last sequence may have no match. With a dictionary of one sample of 59 bytes
//! (real records have at least [`RECORD_BYTES_MIN`]), a record of 60 bytes takes 10:
//!
//! ```text
//! sample    {"reason":"Started","object":{"kind":"Pod","name":"web-1"}}
//! record    {"reason":"Started","object":{"kind":"Pod","name":"web-27"}}
//!
//! 0f 22 0000        no literal, match of 6 + 15 + 34 = 55 bytes at offset 0
//! 50 "27"}}"        literal of 5 bytes, no match
//! ```
//!
//! A record that packs badly becomes a sample itself. A new dictionary keeps the old one alive for the
//! records that refer to it, so new dictionaries are limited by what packing saved: see [`Samples`]. A record
//! holds a reference to its dictionary, so it can always be unpacked.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::codec::put_varint;

/// Minimum bytes of a match, which itself takes up to four bytes.
const MATCH_BYTES_MIN: usize = 6;
/// Maximum bytes of samples in a dictionary.
const DICTIONARY_BYTES_MAX: usize = 16 << 10;
/// Minimum bytes of a record that is packed.
const RECORD_BYTES_MIN: usize = 128;
/// Maximum bytes of a record that is packed: offsets into dictionary and record have 16 bits.
const RECORD_BYTES_MAX: usize = 32 << 10;
/// Bytes of dictionaries that a table may create before it has saved anything.
const CREDIT_INITIAL: usize = 128 << 10;
/// Maximum bytes that can be saved up for new dictionaries.
const CREDIT_MAX: usize = 1 << 20;

/// Number of slots of a dictionary's hash index, as a power of two.
const DICTIONARY_INDEX_BITS: u32 = 14;
const RECORD_INDEX_BITS: u32 = 9;
/// Empty slot of an index.
const EMPTY_SLOT: u16 = u16::MAX;

/// Concatenated sample records.
#[derive(Default)]
pub(crate) struct Dictionary(Box<[u8]>);

/// Samples of a table, and the bytes that may be spent on more of them.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    packer: Option<Arc<Packer>>,
    /// Bytes that new dictionaries may take: a quarter of the bytes that packing saved.
    credit: usize,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { packer: None, credit: CREDIT_INITIAL }
    }
}

/// Packed record: a list of sequences.
pub(crate) struct Packed {
    pub bytes: Box<[u8]>,
    pub dictionary: Arc<Dictionary>,
}

impl Samples {
    /// Packs `data`, which may repeat parts of `prefix`. Returns `None` if that saves too little.
    pub fn pack(&mut self, prefix: &[u8], data: &[u8]) -> Option<Packed> {
        if !(RECORD_BYTES_MIN..=RECORD_BYTES_MAX).contains(&(prefix.len() + data.len())) {
            return None;
        }
        let (record, prefix_len) = (&*[prefix, data].concat(), prefix.len());
        let saves = |packed: &Packed| record.len().saturating_sub(packed.bytes.len());
        let packed = self.packer.as_ref().map(|packer| packer.pack(record, prefix_len));
        let packed = match packed {
            Some(packed) if saves(&packed) >= record.len() / 3 * 2 => Some(packed),
            packed => self.add_sample(record).map(|packer| packer.pack(record, prefix_len)).or(packed),
        };
        let packed = packed.filter(|packed| saves(packed) >= record.len() / 2)?;
        self.credit = (self.credit + saves(&packed) / 4).min(CREDIT_MAX);
        Some(packed)
    }

    /// Makes a record a sample if the credit allows it: in the current dictionary, or in a new one if that is
    /// full.
    fn add_sample(&mut self, record: &[u8]) -> Option<&Packer> {
        let current = self
            .packer
            .as_deref()
            .filter(|old| old.dictionary.0.len() + record.len() <= DICTIONARY_BYTES_MAX);
        let cost = current.map_or(0, |old| old.dictionary.0.len()) + record.len();
        if cost > DICTIONARY_BYTES_MAX || cost > self.credit {
            return None;
        }
        self.credit -= cost;
        let next = Packer::extended(current, record);
        Some(self.packer.insert(Arc::new(next)))
    }
}

/// Dictionary with its hash index.
struct Packer {
    dictionary: Arc<Dictionary>,
    index: DictionaryIndex,
}

impl Packer {
    fn extended(current: Option<&Packer>, sample: &[u8]) -> Packer {
        let old = current.map_or(&[][..], |current| &current.dictionary.0);
        let dictionary = [old, sample].concat().into_boxed_slice();
        let mut index = current.map_or_else(Index::new, |current| current.index.clone());
        index.insert_all(&dictionary, old.len()..dictionary.len());
        Packer { dictionary: Arc::new(Dictionary(dictionary)), index }
    }

    fn pack(&self, record: &[u8], prefix_len: usize) -> Packed {
        let dictionary = &*self.dictionary.0;
        let mut record_index = RecordIndex::new();
        record_index.insert_all(record, 0..prefix_len);
        let mut sequences = SequenceEncoder { out: Vec::with_capacity(512), record, done: prefix_len };
        // Offset in the dictionary at which the match would continue if the record only replaced words by
        // others of equal length.
        let mut aligned = 0;
        let mut at = prefix_len;
        while let Some(word) = word(record, at) {
            let Some(found) = self.find(record, at, word, aligned, &record_index) else {
                record_index.insert(word, at);
                // Skip faster the longer the literal is. A match that begins in a skipped part is extended
                // backwards.
                let skip = 1 + (at - sequences.done) / 8;
                (at, aligned) = (at + skip, aligned + skip);
                continue;
            };
            let source = if found.in_record { &record[..at] } else { dictionary };
            let mut back = common_suffix(&source[..found.from], &record[sequences.done..at]);
            if found.in_record {
                // A match may only refer to bytes that are unpacked before it.
                back = back.min(at - found.from - found.length);
            }
            let offset = if found.in_record { dictionary.len() } else { 0 } + found.from - back;
            sequences.put(at - back, found.length + back, offset);
            at = sequences.done;
            aligned = if found.in_record { aligned } else { found.from } + found.length;
        }
        Packed { bytes: sequences.finish(), dictionary: Arc::clone(&self.dictionary) }
    }

    /// Returns the longest match for the bytes at `at`, which begin with `word`.
    fn find(
        &self,
        record: &[u8],
        at: usize,
        word: u64,
        aligned: usize,
        record_index: &RecordIndex,
    ) -> Option<Match> {
        let (dictionary, rest) = (&*self.dictionary.0, &record[at..]);
        let continued = common_prefix(dictionary, aligned, word, rest);
        if continued >= 4 * MATCH_BYTES_MIN {
            return Some(Match { from: aligned, length: continued, in_record: false });
        }
        let (indexed_from, record_from) = (self.index.find(word), record_index.find(word));
        let indexed = common_prefix(dictionary, indexed_from, word, rest);
        let repeated = common_prefix(&record[..at], record_from, word, rest);
        // Of equally long matches, prefer the one that continues the sample.
        let length = continued.max(indexed).max(repeated);
        let (from, in_record) = if length == continued {
            (aligned, false)
        } else if length == indexed {
            (indexed_from, false)
        } else {
            (record_from, true)
        };
        (length >= MATCH_BYTES_MIN).then_some(Match { from, length, in_record })
    }
}

/// Range of bytes to copy.
struct Match {
    from: usize,
    length: usize,
    /// `true` if the range is in the record itself, not in the dictionary.
    in_record: bool,
}

/// Encoder of sequences.
struct SequenceEncoder<'a> {
    out: Vec<u8>,
    record: &'a [u8],
    /// Bytes of the record that have been encoded.
    done: usize,
}

impl SequenceEncoder<'_> {
    /// Appends a sequence with a match of `length` bytes from `offset` to the record's offset `at`.
    fn put(&mut self, at: usize, length: usize, offset: usize) {
        let bytes = &self.record[self.done..at];
        let more = length - MATCH_BYTES_MIN;
        self.put_lengths(bytes.len(), more);
        self.out.extend_from_slice(bytes);
        let offset = u16::try_from(offset).expect("dictionary and record have at most 64 KiB");
        self.out.extend_from_slice(&offset.to_le_bytes());
        self.done = at + length;
    }

    fn put_lengths(&mut self, bytes: usize, more: usize) {
        self.out.push((bytes.min(15) << 4 | more.min(15)) as u8);
        for length in [bytes, more].into_iter().filter(|length| *length >= 15) {
            put_varint(&mut self.out, (length - 15) as u64);
        }
    }

    fn finish(mut self) -> Box<[u8]> {
        let rest = &self.record[self.done..];
        if !rest.is_empty() {
            self.put_lengths(rest.len(), 0);
            self.out.extend_from_slice(rest);
        }
        // Copied, because allocators shrink in place what is more than half full, and the rest would stay
        // allocated.
        Box::from(self.out.as_slice())
    }
}

impl Packed {
    /// Unpacks the first bytes of the record, at least up to `until`: the `prefix` that it was packed with,
    /// then the data.
    pub fn unpack(&self, prefix: &[u8], until: usize) -> Vec<u8> {
        let dictionary = &*self.dictionary.0;
        let mut sequences = &*self.bytes;
        let mut out = Vec::with_capacity(until);
        out.extend_from_slice(prefix);
        while out.len() < until {
            let lengths = take(&mut sequences, 1)[0];
            let bytes = length(&mut sequences, lengths >> 4);
            let more = length(&mut sequences, lengths & 15);
            out.extend_from_slice(take(&mut sequences, bytes));
            if sequences.is_empty() {
                break;
            }
            let offset = take(&mut sequences, 2);
            let offset = usize::from(u16::from_le_bytes([offset[0], offset[1]]));
            let length = more + MATCH_BYTES_MIN;
            match offset.checked_sub(dictionary.len()) {
                Some(earlier) => out.extend_from_within(earlier..earlier + length),
                None => out.extend_from_slice(&dictionary[offset..offset + length]),
            }
        }
        out
    }
}

fn take<'a>(from: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = from.split_at(count);
    *from = rest;
    taken
}

/// Decodes a length whose first 15 are in the first byte of the sequence.
fn length(from: &mut &[u8], first: u8) -> usize {
    let mut length = usize::from(first);
    if first == 15 {
        for shift in (0..).step_by(7) {
            let byte = take(from, 1)[0];
            length += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    length
}

/// Hash index of words to offsets; of two words with the same hash, the later one is kept.
#[derive(Clone)]
struct Index<const SIZE: usize>(Box<[u16; SIZE]>);

type DictionaryIndex = Index<{ 1 << DICTIONARY_INDEX_BITS }>;
type RecordIndex = Index<{ 1 << RECORD_INDEX_BITS }>;

impl<const SIZE: usize> Index<SIZE> {
    fn new() -> Index<SIZE> {
        Index(Box::new([EMPTY_SLOT; SIZE]))
    }

    fn slot(word: u64) -> usize {
        // Fibonacci hashing of [`MATCH_BYTES_MIN`] bytes.
        let hash = (word << (64 - 8 * MATCH_BYTES_MIN)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (64 - SIZE.ilog2())) as usize
    }

    fn insert(&mut self, word: u64, offset: usize) {
        self.0[Self::slot(word)] = u16::try_from(offset).unwrap_or(EMPTY_SLOT);
    }

    fn insert_all(&mut self, bytes: &[u8], offsets: Range<usize>) {
        for offset in offsets {
            let Some(word) = word(bytes, offset) else { return };
            self.insert(word, offset);
        }
    }

    fn find(&self, word: u64) -> usize {
        usize::from(self.0[Self::slot(word)])
    }
}

/// Returns the eight bytes at an offset.
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

/// Length of the common prefix of `source[from..]` and `with`, whose first eight bytes are `first`. Zero if
/// `source` has fewer than eight bytes left.
fn common_prefix(source: &[u8], from: usize, first: u64, with: &[u8]) -> usize {
    let difference = word(source, from).map_or(1, |word| word ^ first);
    if difference != 0 {
        return difference.trailing_zeros() as usize / 8;
    }
    let (source, with) = (&source[from + 8..], &with[8..]);
    let mut length = 8;
    for (word, other) in source.as_chunks::<8>().0.iter().zip(with.as_chunks::<8>().0) {
        let difference = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if difference != 0 {
            return length + difference.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length + source[length - 8..].iter().zip(&with[length - 8..]).take_while(|(a, b)| a == b).count()
}

/// Length of the common suffix.
fn common_suffix(source: &[u8], with: &[u8]) -> usize {
    source.iter().rev().zip(with.iter().rev()).take_while(|(a, b)| a == b).count()
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Packer").field(&self.dictionary.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(samples: &mut Samples, record: &[u8], prefix_len: usize) -> Option<usize> {
        let (prefix, data) = record.split_at(prefix_len);
        let packed = samples.pack(prefix, data)?;
        assert_eq!(packed.unpack(prefix, record.len()), record);
        let half = prefix_len.midpoint(record.len());
        assert_eq!(packed.unpack(prefix, half)[..half], record[..half]);
        Some(packed.bytes.len())
    }

    fn event(i: usize) -> Vec<u8> {
        let uid = format!("{:016x}", (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let [reason, message] = [["Pulled", "image present"], ["Started", "Container started"]][i % 2];
        format!(
            r#"shop/web-{i}.{uid}{{"metadata":{{"name":"web-{i}.{uid}","namespace":"shop","uid":"{uid}",
            "managedFields":[{{"manager":"kubelet","fieldsV1":{{"f:count":{{}},"f:reason":{{}},"f:source":{{}}}}}}]}},
            "involvedObject":{{"kind":"Pod","name":"web-{i}"}},"reason":"{reason}","message":"{message}"}}"#
        )
        .into_bytes()
    }

    #[test]
    fn documented_example_packs_as_described() {
        let sample = r#"{"reason":"Started","object":{"kind":"Pod","name":"web-1"}}"#;
        let record = sample.replace("web-1", "web-27");
        let packed = Packer::extended(None, sample.as_bytes()).pack(record.as_bytes(), 0);
        assert_eq!((sample.len(), record.len()), (59, 60));
        assert_eq!(*packed.bytes, *b"\x0f\x22\0\0\x5027\"}}");
        assert_eq!(packed.unpack(b"", record.len()), record.as_bytes());
    }

    #[test]
    fn similar_records_shrink_to_their_differences() {
        let mut samples = Samples::default();
        for i in 0..2000 {
            let record = event(i);
            let packed = round_trip(&mut samples, &record, 12).expect("packing saves bytes");
            assert!(packed < record.len() / 3, "event {i} of {} bytes takes {packed}", record.len());
        }
    }

    #[test]
    fn incompressible_records_stay_unpacked_and_their_dictionaries_are_bounded() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut samples = Samples::default();
        let mut noise = || -> Vec<u8> { (0..1000).map(|_| random.u8(..)).collect() };
        let packed = (0..1000).filter_map(|_| samples.pack(b"", &noise())).count();
        assert!(packed < 50, "{packed} records became samples");
        assert!(samples.pack(b"", &[b'a'; RECORD_BYTES_MAX + 1]).is_none());
    }

    #[test]
    fn new_kind_of_record_is_sampled_when_the_dictionary_is_full() {
        let mut samples = Samples::default();
        let mut random = fastrand::Rng::with_seed(8);
        let mut noise = |length: usize| -> Vec<u8> { (0..length).map(|_| random.u8(..)).collect() };
        for i in 0..200 {
            round_trip(&mut samples, &event(i), 12);
        }
        while samples
            .packer
            .as_ref()
            .is_some_and(|packer| packer.dictionary.0.len() + 2000 < DICTIONARY_BYTES_MAX)
        {
            round_trip(&mut samples, &noise(1500), 1);
        }
        let text = noise(2500);
        let other = |i: u8| [&[i], &text[..]].concat();
        round_trip(&mut samples, &other(1), 1);
        assert!(round_trip(&mut samples, &other(2), 1).is_some_and(|packed| packed < 20));
    }

    proptest! {
        #[test]
        fn packed_records_round_trip(
            records in prop::collection::vec(
                prop::collection::vec(prop::sample::select(vec![b'a', b'b', b'c', 0, 255]), 0..600), 1..20),
            prefix_len in 0usize..40,
            more in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut samples = Samples::default();
            for record in &records {
                let record = [&record[..], &more].concat();
                round_trip(&mut samples, &record, prefix_len.min(record.len()));
            }
        }
    }
}
