//! Records that are alike, packed: what one has in common with a few samples of its kind is not kept again.
//!
//! News (what the store deletes by itself) is written often, read seldom, and nearly all alike. So each table of it keeps
//! a [`Book`] of samples, and a packed record is a sequence of steps: some bytes as they are, then a copy of
//! bytes that are known already, which stand in the book or earlier in the record itself. Both are in memory alone: logs
//! keep what a client wrote.
//!
//! A step is a byte with two lengths (of the bytes, and of the copy beyond [`COPY_MIN`]; 15 means that a varint adds
//! to it), the bytes, and two bytes that say where the copy begins: in the book, or behind it in the record. The last
//! step may end with its bytes. A record holds on to its book, so it can always be unpacked.
//!
//! A record that packs badly becomes a sample itself. A new book leaves the old one to the records that need it, so it
//! must have been earned: see [`Samples`].

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::codec::put_varint;

/// The shortest copy: one takes up to four bytes itself.
const COPY_MIN: usize = 6;
/// The most bytes of samples in a book.
const BOOK_BYTES_MAX: usize = 16 << 10;
/// The shortest record that is packed.
const RECORD_BYTES_MIN: usize = 128;
/// The longest record that is packed: all of it, behind a book, has a place of 16 bits.
const RECORD_BYTES_MAX: usize = 32 << 10;
/// How many bytes of books a table may make before it has saved anything.
const CREDIT_FIRST: usize = 128 << 10;
/// The most that is saved up for new books.
const CREDIT_MAX: usize = 1 << 20;

/// An index of places by the hash of what stands there has 2 to the power of this many.
const BOOK_INDEX_BITS: u32 = 14;
const OWN_INDEX_BITS: u32 = 9;
/// No place.
const NOWHERE: u16 = u16::MAX;

/// Samples, one after another.
#[derive(Default)]
pub(crate) struct Book(Box<[u8]>);

/// The samples of a table, and what may be spent on more of them.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    packer: Option<Arc<Packer>>,
    /// How many bytes of new books have been earned: a quarter of what packing saved.
    credit: usize,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { packer: None, credit: CREDIT_FIRST }
    }
}

/// What [`Samples::pack`] makes: steps.
pub(crate) struct Packed {
    pub bytes: Box<[u8]>,
    pub book: Arc<Book>,
}

impl Samples {
    /// Packs `data`, which may repeat what stands in `start`. Nothing if that does not pay.
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

    /// Makes a sample of a record, if that has been earned: in the book that there is, or in a new one if it is full.
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

/// A book, and where to look in it.
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
        // Where the book would go on if the record only replaced words by others of the same length.
        let mut beside = 0;
        let mut at = plain;
        while let Some(word) = word(record, at) {
            let Some(copy) = self.find(record, at, word, beside, &own) else {
                own.note(word, at);
                // What is new goes on for a while. If a copy begins where nobody looked, it is followed back.
                let step = 1 + (at - steps.done) / 8;
                (at, beside) = (at + step, beside + step);
                continue;
            };
            let source = if copy.is_own { &record[..at] } else { book };
            let mut back = alike_before(&source[..copy.from], &record[steps.done..at]);
            if copy.is_own {
                // What is copied must be there when it is unpacked.
                back = back.min(at - copy.from - copy.length);
            }
            let place = if copy.is_own { book.len() } else { 0 } + copy.from - back;
            steps.put(at - back, copy.length + back, place);
            at = steps.done;
            beside = if copy.is_own { beside } else { copy.from } + copy.length;
        }
        Packed { bytes: steps.end(), book: Arc::clone(&self.book) }
    }

    /// The longest copy that is found for what stands at `at`, where there is `word`.
    fn find(&self, record: &[u8], at: usize, word: u64, beside: usize, own: &OwnIndex) -> Option<Copy> {
        let (book, rest) = (&*self.book.0, &record[at..]);
        let straight = alike(book, beside, word, rest);
        if straight >= 4 * COPY_MIN {
            return Some(Copy { from: beside, length: straight, is_own: false });
        }
        let (other_from, own_from) = (self.index.find(word), own.find(word));
        let other = alike(book, other_from, word, rest);
        let own = alike(&record[..at], own_from, word, rest);
        // Of equals the one is taken that keeps to its sample.
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

/// Bytes that are known already.
struct Copy {
    from: usize,
    length: usize,
    /// Whether they stand in the record itself.
    is_own: bool,
}

/// Steps that are being written.
struct Steps<'a> {
    out: Vec<u8>,
    record: &'a [u8],
    /// Up to where the record has been written.
    done: usize,
}

impl Steps<'_> {
    /// A step with a copy of `length` bytes from `place`, which stands at `at` in the record.
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
        // Allocators shrink in place what is more than half full, and the rest would stay taken.
        Box::from(self.out.as_slice())
    }
}

impl Packed {
    /// Unpacks the first bytes of the record, at least up to `until`: what it was packed with, then the data.
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

/// A length whose first 15 were said already.
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

/// Where words stand, by their hash; where two have the same one, the later.
#[derive(Clone)]
struct Index<const SIZE: usize>(Box<[u16; SIZE]>);

type BookIndex = Index<{ 1 << BOOK_INDEX_BITS }>;
type OwnIndex = Index<{ 1 << OWN_INDEX_BITS }>;

impl<const SIZE: usize> Index<SIZE> {
    fn new() -> Index<SIZE> {
        Index(Box::new([NOWHERE; SIZE]))
    }

    fn slot(word: u64) -> usize {
        // Fibonacci hashing of as many bytes as the shortest copy has.
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

/// The eight bytes at a place.
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

/// How many bytes from `from` on are those that `with` begins with, first of all `first`. Few are as good as none.
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

/// How many bytes both end with.
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
    fn news_that_is_alike_shrinks_to_what_is_new_in_it() {
        let mut samples = Samples::default();
        for i in 0..2000 {
            let record = news(i);
            let packed = round_trip(&mut samples, &record, 12).expect("it pays");
            assert!(packed < record.len() / 3, "news {i} of {} bytes takes {packed}", record.len());
        }
    }

    #[test]
    fn what_cannot_be_packed_stays_as_it_is_and_its_books_are_bounded() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut samples = Samples::default();
        let mut noise = || -> Vec<u8> { (0..1000).map(|_| random.u8(..)).collect() };
        let kept = (0..1000).filter_map(|_| samples.pack(b"", &noise())).count();
        assert!(kept < 50, "{kept} records became samples");
        assert!(samples.pack(b"", &[b'a'; RECORD_BYTES_MAX + 1]).is_none());
    }

    #[test]
    fn a_new_kind_of_news_is_learnt_when_the_book_is_full() {
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
        fn whatever_was_packed_is_unpacked(
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
