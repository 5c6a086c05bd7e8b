//! Packing: stores a record as its difference from sample records of its table.
//!
//! Records that expire (Events above all) are written often, read rarely, and nearly all alike. Each table
//! of them keeps a [`Book`] of samples. A packed record is a sequence of steps: literal bytes, then a copy
//! of bytes from the book or from earlier in the record. Packing applies to memory only: logs store records
//! unpacked.
//!
//! A step is a byte with two lengths (of the literal, and of the copy beyond [`COPY_MIN`]; 15 means that a
//! varint adds to it), the literal, and a 16-bit offset of the copy: in the book, or behind it in the
//! record. The last step may have no copy. A record holds a reference to its book, so it can always be
//! unpacked.
//!
//! A record that packs badly becomes a sample itself. A new book keeps the old one alive for the records
//! that refer to it, so new books are limited by what packing saved: see [`Samples`].

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::codec::put_varint;

/// Minimum bytes of a copy, which itself takes up to four bytes.
const COPY_MIN: usize = 6;
/// Maximum bytes of samples in a book.
const BOOK_BYTES_MAX: usize = 16 << 10;
/// Minimum bytes of a record that is packed.
const RECORD_BYTES_MIN: usize = 128;
/// Maximum bytes of a record that is packed: offsets into book and record have 16 bits.
const RECORD_BYTES_MAX: usize = 32 << 10;
/// Bytes of books that a table may create before it has saved anything.
const CREDIT_FIRST: usize = 128 << 10;
/// Maximum bytes that can be saved up for new books.
const CREDIT_MAX: usize = 1 << 20;

/// Number of slots of a book's hash index, as a power of two.
const BOOK_INDEX_BITS: u32 = 14;
const OWN_INDEX_BITS: u32 = 9;
/// Empty slot of an index.
const NOWHERE: u16 = u16::MAX;

/// Concatenated sample records.
#[derive(Default)]
pub(crate) struct Book(Box<[u8]>);

/// Samples of a table, and the bytes that may be spent on more of them.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    packer: Option<Arc<Packer>>,
    /// Bytes that new books may take: a quarter of the bytes that packing saved.
    credit: usize,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { packer: None, credit: CREDIT_FIRST }
    }
}

/// Packed record: a sequence of steps.
pub(crate) struct Packed {
    pub bytes: Box<[u8]>,
    pub book: Arc<Book>,
}

impl Samples {
    /// Packs `data`, which may repeat parts of `start`. Returns `None` if that saves too little.
    pub fn pack(&mut self, start: &[u8], data: &[u8]) -> Option<Packed> {
        if !(RECORD_BYTES_MIN..=RECORD_BYTES_MAX).contains(&(start.len() + data.len())) {
            return None;
        }
        let (record, plain) = (&*[start, data].concat(), start.len());
        let saves = |packed: &Packed| record.len().saturating_sub(packed.bytes.len());
        let known = self.packer.as_ref().map(|packer| packer.pack(record, plain));
        let packed = match known {
            Some(well) if saves(&well) >= record.len() / 3 * 2 => Some(well),
            badly => self.learn(record).map(|packer| packer.pack(record, plain)).or(badly),
        };
        let packed = packed.filter(|packed| saves(packed) >= record.len() / 2)?;
        self.credit = (self.credit + saves(&packed) / 4).min(CREDIT_MAX);
        Some(packed)
    }

    /// Makes a record a sample if the credit allows it: in the current book, or in a new one if that is
    /// full.
    fn learn(&mut self, record: &[u8]) -> Option<&Packer> {
        let known = self.packer.as_deref().filter(|old| old.book.0.len() + record.len() <= BOOK_BYTES_MAX);
        let cost = known.map_or(0, |old| old.book.0.len()) + record.len();
        if cost > BOOK_BYTES_MAX || cost > self.credit {
            return None;
        }
        self.credit -= cost;
        let next = Packer::extended(known, record);
        Some(self.packer.insert(Arc::new(next)))
    }
}

/// Book with its hash index.
struct Packer {
    book: Arc<Book>,
    index: BookIndex,
}

impl Packer {
    fn extended(known: Option<&Packer>, sample: &[u8]) -> Packer {
        let old = known.map_or(&[][..], |known| &known.book.0);
        let book = [old, sample].concat().into_boxed_slice();
        let mut index = known.map_or_else(Index::new, |known| known.index.clone());
        index.note_all(&book, old.len()..book.len());
        Packer { book: Arc::new(Book(book)), index }
    }

    fn pack(&self, record: &[u8], plain: usize) -> Packed {
        let book = &*self.book.0;
        let mut own = OwnIndex::new();
        own.note_all(record, 0..plain);
        let mut steps = Steps { out: Vec::with_capacity(512), record, done: plain };
        // Offset in the book at which the copy would continue if the record only replaced words by others of
        // equal length.
        let mut beside = 0;
        let mut at = plain;
        while let Some(word) = word(record, at) {
            let Some(copy) = self.find(record, at, word, beside, &own) else {
                own.note(word, at);
                // Skip faster the longer the literal is. A copy that begins in a skipped part is extended
                // backwards.
                let step = 1 + (at - steps.done) / 8;
                (at, beside) = (at + step, beside + step);
                continue;
            };
            let source = if copy.is_own { &record[..at] } else { book };
            let mut back = alike_before(&source[..copy.from], &record[steps.done..at]);
            if copy.is_own {
                // A copy may only refer to bytes that are unpacked before it.
                back = back.min(at - copy.from - copy.length);
            }
            let place = if copy.is_own { book.len() } else { 0 } + copy.from - back;
            steps.put(at - back, copy.length + back, place);
            at = steps.done;
            beside = if copy.is_own { beside } else { copy.from } + copy.length;
        }
        Packed { bytes: steps.end(), book: Arc::clone(&self.book) }
    }

    /// Returns the longest known copy for the bytes at `at`, which begin with `word`.
    fn find(&self, record: &[u8], at: usize, word: u64, beside: usize, own: &OwnIndex) -> Option<Copy> {
        let (book, rest) = (&*self.book.0, &record[at..]);
        let straight = alike(book, beside, word, rest);
        if straight >= 4 * COPY_MIN {
            return Some(Copy { from: beside, length: straight, is_own: false });
        }
        let (other_from, own_from) = (self.index.find(word), own.find(word));
        let other = alike(book, other_from, word, rest);
        let own = alike(&record[..at], own_from, word, rest);
        // Of equally long copies, prefer the one that continues the sample.
        let length = straight.max(other).max(own);
        let (from, is_own) = if length == straight {
            (beside, false)
        } else if length == other {
            (other_from, false)
        } else {
            (own_from, true)
        };
        (length >= COPY_MIN).then_some(Copy { from, length, is_own })
    }
}

/// Range of known bytes.
struct Copy {
    from: usize,
    length: usize,
    /// `true` if the range is in the record itself, not in the book.
    is_own: bool,
}

/// Encoder of steps.
struct Steps<'a> {
    out: Vec<u8>,
    record: &'a [u8],
    /// Bytes of the record that have been encoded.
    done: usize,
}

impl Steps<'_> {
    /// Appends a step with a copy of `length` bytes from `place` to the record's offset `at`.
    fn put(&mut self, at: usize, length: usize, place: usize) {
        let bytes = &self.record[self.done..at];
        let more = length - COPY_MIN;
        self.put_lengths(bytes.len(), more);
        self.out.extend_from_slice(bytes);
        let place = u16::try_from(place).expect("book and record have places of 16 bits");
        self.out.extend_from_slice(&place.to_le_bytes());
        self.done = at + length;
    }

    fn put_lengths(&mut self, bytes: usize, more: usize) {
        self.out.push((bytes.min(15) << 4 | more.min(15)) as u8);
        for length in [bytes, more].into_iter().filter(|length| *length >= 15) {
            put_varint(&mut self.out, (length - 15) as u64);
        }
    }

    fn end(mut self) -> Box<[u8]> {
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
    /// Unpacks the first bytes of the record, at least up to `until`: the `start` that it was packed with,
    /// then the data.
    pub fn unpack(&self, start: &[u8], until: usize) -> Vec<u8> {
        let book = &*self.book.0;
        let mut steps = &*self.bytes;
        let mut out = Vec::with_capacity(until);
        out.extend_from_slice(start);
        while out.len() < until {
            let lengths = take(&mut steps, 1)[0];
            let bytes = length(&mut steps, lengths >> 4);
            let more = length(&mut steps, lengths & 15);
            out.extend_from_slice(take(&mut steps, bytes));
            if steps.is_empty() {
                break;
            }
            let place = take(&mut steps, 2);
            let place = usize::from(u16::from_le_bytes([place[0], place[1]]));
            let length = more + COPY_MIN;
            match place.checked_sub(book.len()) {
                Some(own) => out.extend_from_within(own..own + length),
                None => out.extend_from_slice(&book[place..place + length]),
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

/// Decodes a length whose first 15 are in the step's byte.
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

type BookIndex = Index<{ 1 << BOOK_INDEX_BITS }>;
type OwnIndex = Index<{ 1 << OWN_INDEX_BITS }>;

impl<const SIZE: usize> Index<SIZE> {
    fn new() -> Index<SIZE> {
        Index(Box::new([NOWHERE; SIZE]))
    }

    fn slot(word: u64) -> usize {
        // Fibonacci hashing of [`COPY_MIN`] bytes.
        let hash = (word << (64 - 8 * COPY_MIN)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (64 - SIZE.ilog2())) as usize
    }

    fn note(&mut self, word: u64, place: usize) {
        self.0[Self::slot(word)] = u16::try_from(place).unwrap_or(NOWHERE);
    }

    fn note_all(&mut self, bytes: &[u8], places: Range<usize>) {
        for place in places {
            let Some(word) = word(bytes, place) else { return };
            self.note(word, place);
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
fn alike(source: &[u8], from: usize, first: u64, with: &[u8]) -> usize {
    let differ = word(source, from).map_or(1, |word| word ^ first);
    if differ != 0 {
        return differ.trailing_zeros() as usize / 8;
    }
    let (source, with) = (&source[from + 8..], &with[8..]);
    let mut same = 8;
    for (word, other) in source.as_chunks::<8>().0.iter().zip(with.as_chunks::<8>().0) {
        let differ = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if differ != 0 {
            return same + differ.trailing_zeros() as usize / 8;
        }
        same += 8;
    }
    same + source[same - 8..].iter().zip(&with[same - 8..]).take_while(|(a, b)| a == b).count()
}

/// Length of the common suffix.
fn alike_before(source: &[u8], with: &[u8]) -> usize {
    source.iter().rev().zip(with.iter().rev()).take_while(|(a, b)| a == b).count()
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Packer").field(&self.book.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(samples: &mut Samples, record: &[u8], plain: usize) -> Option<usize> {
        let (start, data) = record.split_at(plain);
        let packed = samples.pack(start, data)?;
        assert_eq!(packed.unpack(start, record.len()), record);
        let half = plain.midpoint(record.len());
        assert_eq!(packed.unpack(start, half)[..half], record[..half]);
        Some(packed.bytes.len())
    }

    fn news(i: usize) -> Vec<u8> {
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
    fn similar_records_shrink_to_their_differences() {
        let mut samples = Samples::default();
        for i in 0..2000 {
            let record = news(i);
            let packed = round_trip(&mut samples, &record, 12).expect("it pays");
            assert!(packed < record.len() / 3, "news {i} of {} bytes takes {packed}", record.len());
        }
    }

    #[test]
    fn incompressible_records_stay_unpacked_and_their_books_are_bounded() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut samples = Samples::default();
        let mut noise = || -> Vec<u8> { (0..1000).map(|_| random.u8(..)).collect() };
        let kept = (0..1000).filter_map(|_| samples.pack(b"", &noise())).count();
        assert!(kept < 50, "{kept} records became samples");
        assert!(samples.pack(b"", &[b'a'; RECORD_BYTES_MAX + 1]).is_none());
    }

    #[test]
    fn new_kind_of_record_is_sampled_when_the_book_is_full() {
        let mut samples = Samples::default();
        let mut random = fastrand::Rng::with_seed(8);
        let mut noise = |length: usize| -> Vec<u8> { (0..length).map(|_| random.u8(..)).collect() };
        for i in 0..200 {
            round_trip(&mut samples, &news(i), 12);
        }
        while samples.packer.as_ref().is_some_and(|packer| packer.book.0.len() + 2000 < BOOK_BYTES_MAX) {
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
            plain in 0usize..40,
            more in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut samples = Samples::default();
            for record in &records {
                let record = [&record[..], &more].concat();
                round_trip(&mut samples, &record, plain.min(record.len()));
            }
        }
    }
}
