//! Schemas of all built-in kinds: structure, list and map types, defaults, enums, protobuf numbers,
//! descriptions.
//!
//! The table is generated at build time and embedded in the binary; opening it decodes nothing, and records
//! are read in place. Looking up a kind, definition or field takes a binary search or a hash lookup without
//! an allocation. Strings borrow from the binary, so unused pages of the table are never loaded; descriptions
//! are stored apart from the rest for that reason.
//!
//! Start with [`builtin`], then [`Schemas::kind`].

use std::cmp::Ordering;
use std::fmt;

mod layout;
mod types;

#[cfg(test)]
mod tests;

use layout::{EMBED_BYTES, FIELD_BYTES, HEADER_BYTES, LIST_BYTES, NODE_BYTES, SECTIONS, SLOT_BYTES, Section};
pub use types::{Field, ListType, MapType, PatchStrategy, SchemaOr, Shape, Struct, TypeRef};

/// Package of `meta/v1`, which every group shares.
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// A table of schemas.
pub struct Schemas {
    table: &'static [u8],
    texts: &'static str,
    descriptions: &'static str,
    /// Start and number of records of each section.
    sections: [(usize, usize); SECTIONS],
}

/// Schemas of the built-in kinds.
#[must_use]
pub fn builtin() -> &'static Schemas {
    static BUILTIN: Schemas = Schemas::open(
        include_bytes!(concat!(env!("OUT_DIR"), "/schema.bin")),
        include_str!(concat!(env!("OUT_DIR"), "/texts.txt")),
        include_str!(concat!(env!("OUT_DIR"), "/descriptions.txt")),
    );
    &BUILTIN
}

impl Schemas {
    const fn open(table: &'static [u8], texts: &'static str, descriptions: &'static str) -> Schemas {
        assert!(table.len() > HEADER_BYTES, "the table has a header");
        let mut sections = [(0, 0); SECTIONS];
        let mut at = 0;
        while at < SECTIONS {
            sections[at] = (u32_at(table, at * 8) as usize, u32_at(table, at * 8 + 4) as usize);
            at += 1;
        }
        Schemas { table, texts, descriptions, sections }
    }

    /// Definition of a kind; the core group is empty.
    #[must_use]
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<Struct<'_>> {
        let count = self.count(Section::Kinds);
        let wanted = (group, version, kind);
        let at = search(count, |at| {
            let found = self.kind_at(at);
            (found.group(), found.version(), found.name()).cmp(&wanted)
        })?;
        Some(self.kind_at(at))
    }

    /// Definition with this name, as in `io.k8s.api.core.v1.PodSpec`.
    #[must_use]
    pub fn definition(&self, name: &str) -> Option<Struct<'_>> {
        let at = search(self.count(Section::Structs), |at| self.struct_at(at).definition().cmp(name))?;
        Some(self.struct_at(at))
    }

    /// Definition in `meta/v1`, as in `Status` or `DeleteOptions`.
    #[must_use]
    pub fn meta(&self, name: &str) -> Option<Struct<'_>> {
        let wanted = META.bytes().chain(name.bytes());
        let at = search(self.count(Section::Structs), |at| {
            self.struct_at(at).definition().bytes().cmp(wanted.clone())
        })?;
        Some(self.struct_at(at))
    }

    /// All definitions with fields, sorted by name.
    pub fn definitions(&self) -> impl ExactSizeIterator<Item = Struct<'_>> {
        (0..self.count(Section::Structs)).map(|at| self.struct_at(at))
    }

    /// All kinds, sorted by group, version and kind.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = Struct<'_>> {
        (0..self.count(Section::Kinds)).map(|at| self.kind_at(at))
    }

    fn kind_at(&self, at: usize) -> Struct<'_> {
        let at = u16::from_le_bytes(*self.record(Section::Kinds, at));
        self.struct_at(at.into())
    }

    #[inline]
    fn struct_at(&self, at: usize) -> Struct<'_> {
        Struct::new(self, self.record(Section::Structs, at))
    }

    fn count(&self, section: Section) -> usize {
        self.sections[section as usize].1
    }

    /// Returns a record of a section whose records have this many bytes.
    #[inline]
    fn record<const BYTES: usize>(&self, section: Section, at: usize) -> &'static [u8; BYTES] {
        let start = self.sections[section as usize].0 + at * BYTES;
        self.table[start..].first_chunk().expect("records are complete")
    }

    #[inline]
    fn field_record(&self, at: usize) -> &'static [u8; FIELD_BYTES] {
        self.record(Section::Fields, at)
    }

    #[inline]
    fn node_record(&self, at: u16) -> &'static [u8; NODE_BYTES] {
        self.record(Section::Nodes, at.into())
    }

    fn embed_record(&self, at: u16) -> &'static [u8; EMBED_BYTES] {
        self.record(Section::Embeds, at.into())
    }

    /// Hash table of the field names of a struct.
    #[inline]
    fn slots(&self, first: usize, slots: usize) -> &'static [[u8; SLOT_BYTES]] {
        let start = self.sections[Section::Slots as usize].0 + first * SLOT_BYTES;
        self.table[start..start + slots * SLOT_BYTES].as_chunks().0
    }

    /// Resolves a text reference.
    #[inline]
    fn text(&self, named: u32) -> &'static str {
        let start = (named >> 8) as usize;
        &self.texts[start..start + (named & 0xff) as usize]
    }

    /// Name of a field as written before a value: quoted and with a colon.
    #[inline]
    fn quoted(&self, named: u32) -> &'static [u8] {
        let start = (named >> 8) as usize;
        &self.texts.as_bytes()[start - 1..start + (named & 0xff) as usize + 2]
    }

    /// `true` if the reference resolves to this text: mostly the lengths differ.
    #[inline]
    fn is_text(&self, named: u32, other: &str) -> bool {
        let (start, len) = ((named >> 8) as usize, (named & 0xff) as usize);
        len == other.len() && self.texts.as_bytes()[start..start + len] == *other.as_bytes()
    }

    /// Texts of a list.
    fn list(&self, at: u16) -> impl ExactSizeIterator<Item = &str> + Clone {
        let record: &[u8; LIST_BYTES] = self.record(Section::Lists, at.into());
        let first = u32_in(record, 0) as usize;
        (0..u32_in(record, 4) as usize)
            .map(move |at| self.text(u32::from_le_bytes(*self.record(Section::Items, first + at))))
    }

    fn description(&self, start: u32, len: u32) -> &'static str {
        &self.descriptions[start as usize..][..len as usize]
    }
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} schemas", self.count(Section::Structs))
    }
}

/// Number at an offset of a record. Records have a constant size, so the bounds check is resolved at compile
/// time.
#[inline]
fn u16_in<const BYTES: usize>(record: &[u8; BYTES], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

/// Number at an offset of a record.
#[inline]
fn u32_in<const BYTES: usize>(record: &[u8; BYTES], at: usize) -> u32 {
    u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
}

const fn u32_at(table: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*table.split_at(at).1.first_chunk().expect("records are complete"))
}

/// Binary search for the index among `count` sorted records that compares equal.
#[inline]
fn search(count: usize, compare: impl Fn(usize) -> Ordering) -> Option<usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        match compare(middle) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Some(middle),
        }
    }
    None
}
