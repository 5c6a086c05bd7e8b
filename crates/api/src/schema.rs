//! The schemas of all built-in kinds: structure, markers, defaults, enums, protobuf numbers, descriptions.
//!
//! The table is made at build time and embedded; nothing is decoded when it is opened, and what is asked for is
//! read in place. Looking up a kind, a definition or a field is a binary search without an allocation. Texts
//! borrow from the binary, so pages of the table that nobody asks for are never loaded; descriptions lie apart
//! from the rest for that reason.
//!
//! Start with [`builtin`], then [`Schemas::kind`].

use std::cmp::Ordering;
use std::fmt;

mod layout;
mod types;

#[cfg(test)]
mod tests;

use layout::{
    EMBED_BYTES, FIELD_BYTES, HEADER_BYTES, LIST_BYTES, NODE_BYTES, RANK_BYTES, SECTIONS, STRUCT_BYTES,
    Section,
};
pub use types::{Field, ListType, MapType, Patch, SchemaOr, Shape, Struct, TypeRef};

/// The package of the types that every group shares.
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// A table of schemas.
pub struct Schemas {
    table: &'static [u8],
    texts: &'static str,
    descriptions: &'static str,
    /// Where each section starts, and how many records it has.
    sections: [(usize, usize); SECTIONS],
}

/// The schemas of the built-in kinds.
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

    /// The definition of a kind; the group of the oldest kinds is empty.
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

    /// The definition with this name, as in `io.k8s.api.core.v1.PodSpec`.
    #[must_use]
    pub fn definition(&self, name: &str) -> Option<Struct<'_>> {
        let at = search(self.count(Section::Structs), |at| self.struct_at(at).definition().cmp(name))?;
        Some(self.struct_at(at))
    }

    /// The definition of a type that all groups share, as in `Status` or `DeleteOptions`.
    #[must_use]
    pub fn meta(&self, name: &str) -> Option<Struct<'_>> {
        let wanted = META.bytes().chain(name.bytes());
        let at = search(self.count(Section::Structs), |at| {
            self.struct_at(at).definition().bytes().cmp(wanted.clone())
        })?;
        Some(self.struct_at(at))
    }

    /// All definitions with fields, by name.
    pub fn definitions(&self) -> impl ExactSizeIterator<Item = Struct<'_>> {
        (0..self.count(Section::Structs)).map(|at| self.struct_at(at))
    }

    /// All kinds, by group, version and kind.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = Struct<'_>> {
        (0..self.count(Section::Kinds)).map(|at| self.kind_at(at))
    }

    fn kind_at(&self, at: usize) -> Struct<'_> {
        let at = self.u16(self.sections[Section::Kinds as usize].0 + at * 2);
        self.struct_at(at.into())
    }

    fn struct_at(&self, at: usize) -> Struct<'_> {
        Struct::new(self, self.record(Section::Structs, STRUCT_BYTES, at))
    }

    fn count(&self, section: Section) -> usize {
        self.sections[section as usize].1
    }

    /// The offset of a record.
    #[inline]
    fn record(&self, section: Section, bytes: usize, at: usize) -> usize {
        self.sections[section as usize].0 + at * bytes
    }

    fn field_record(&self, at: usize) -> usize {
        self.record(Section::Fields, FIELD_BYTES, at)
    }

    fn node_record(&self, at: u16) -> usize {
        self.record(Section::Nodes, NODE_BYTES, at.into())
    }

    fn embed_record(&self, at: u16) -> usize {
        self.record(Section::Embeds, EMBED_BYTES, at.into())
    }

    /// The hashes of the names of a struct's fields, in order, with their places in the order of the struct.
    #[inline]
    fn ranks(&self, first_field: usize, fields: usize) -> &'static [[u8; RANK_BYTES]] {
        let at = self.record(Section::Ranks, RANK_BYTES, first_field);
        self.table[at..at + fields * RANK_BYTES].as_chunks().0
    }

    #[inline]
    fn u8(&self, at: usize) -> u8 {
        self.table[at]
    }

    #[inline]
    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(*self.table[at..].first_chunk().expect("a record is whole"))
    }

    #[inline]
    fn u32(&self, at: usize) -> u32 {
        u32_at(self.table, at)
    }

    /// The text named at an offset.
    #[inline]
    fn text(&self, at: usize) -> &str {
        let named = self.u32(at);
        let start = (named >> 8) as usize;
        &self.texts[start..start + (named & 0xff) as usize]
    }

    /// Whether the text named at an offset is this one: mostly its length says all.
    #[inline]
    fn is_text(&self, at: usize, other: &str) -> bool {
        let named = self.u32(at);
        let (start, len) = ((named >> 8) as usize, (named & 0xff) as usize);
        len == other.len() && self.texts.as_bytes()[start..start + len] == *other.as_bytes()
    }

    /// The texts of a list.
    fn list(&self, at: u16) -> impl ExactSizeIterator<Item = &str> + Clone {
        let record = self.record(Section::Lists, LIST_BYTES, at.into());
        let first = self.u32(record) as usize;
        let items = self.sections[Section::Items as usize].0;
        (0..self.u32(record + 4) as usize).map(move |at| self.text(items + (first + at) * 4))
    }

    fn description(&self, at: usize) -> &str {
        let start = self.u32(at) as usize;
        &self.descriptions[start..start + self.u32(at + 4) as usize]
    }
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} schemas", self.count(Section::Structs))
    }
}

const fn u32_at(table: &[u8], at: usize) -> u32 {
    // Taken as a chunk, its bounds are looked at once and it is read at once.
    u32::from_le_bytes(*table.split_at(at).1.first_chunk().expect("a record is whole"))
}

/// The index among `count` sorted records that compares equal.
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
