//! Binary layout of the schema table, shared by the build script that writes it and the code that reads it.
//!
//! All numbers are little endian. The header has the offset and the number of records of each section; the
//! sections follow. Texts are stored apart, back to back, and referenced by offset times 256 plus length; 0
//! is the empty text. Field names are stored as they are written before a value, quoted and with a colon.
//! Structs are sorted by definition name, kinds by group, version and kind. The fields of a struct are in
//! encoding order; in addition, each struct has a hash table of their names.
//!
//! Example: a text of 4 bytes at offset 100 has the reference 100 × 256 + 4 = 25604.

/// Sections in the order of the header.
#[derive(Clone, Copy)]
pub enum Section {
    /// Definitions.
    Structs,
    /// Fields of all structs.
    Fields,
    /// Hash tables of all structs: index of the field within its struct plus one; zero for an empty slot.
    Slots,
    /// Types of fields and items.
    Nodes,
    /// Lists of texts: list map keys and enum values.
    Lists,
    /// Texts of the lists.
    Items,
    /// Paths through embedded structs.
    Embeds,
    /// Indexes of the structs that are kinds.
    Kinds,
}

/// Number of sections.
pub const SECTIONS: usize = 8;
/// Bytes of the header.
pub const HEADER_BYTES: usize = SECTIONS * 8;

/// Struct record. Name, group, version: text; first field u32; fields u16; map type u8; fields always encoded
/// u8; first slot u32; slots (a power of two) u32; description offset u32, length u32.
pub const STRUCT_BYTES: usize = 36;
/// Field record. Name: text; node u16; number u16; flags u16; values (list) u16; merge key, default: text;
/// embed u16; zero u16; description offset u32, length u32.
pub const FIELD_BYTES: usize = 32;
/// Slot record. Index u16.
pub const SLOT_BYTES: usize = 2;
/// Node record. Tag u8; list type u8; map type u8; wrapped u8; of u16; keys (list) u16; Go type: text.
pub const NODE_BYTES: usize = 12;
/// List record. First item u32; items u32.
pub const LIST_BYTES: usize = 8;
/// Embed record. Path of Go names: text; up to four protobuf numbers u8, zero if there are fewer.
pub const EMBED_BYTES: usize = 8;

/// Slot at which the search for a name begins; it continues with linear probing. `slots` is a power of two.
/// Hashes few bytes of the name, which is enough to distinguish most fields of one struct.
pub fn first_slot(name: &str, slots: usize) -> usize {
    let bytes = name.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return 0 };
    let middle = bytes[bytes.len() / 2];
    let mixed = (bytes.len() & 0xff) as u32
        | u32::from(*first) << 8
        | u32::from(middle) << 16
        | u32::from(*last) << 24;
    (mixed.wrapping_mul(0x9e37_79b1) >> 16) as usize & (slots - 1)
}

/// Flags of a field.
pub mod flag {
    /// The field is required by OpenAPI.
    pub const REQUIRED: u16 = 1;
    /// `omitempty`.
    pub const OMIT_EMPTY: u16 = 2;
    /// `omitzero`.
    pub const OMIT_ZERO: u16 = 4;
    /// Pointer in Go: absent and empty differ.
    pub const POINTER: u16 = 8;
    /// Patch strategy `merge`.
    pub const PATCH_MERGE: u16 = 16;
    /// Patch strategy `retainKeys`.
    pub const PATCH_RETAIN_KEYS: u16 = 32;
    /// Patch strategy `replace`.
    pub const PATCH_REPLACE: u16 = 64;
    /// Encoded even if absent.
    pub const ALWAYS: u16 = 128;
    /// Validation distinguishes an empty value from an absent one, although both are stored as absent.
    pub const DISTINGUISHES_EMPTY: u16 = 256;
}

/// Tags of a node.
pub mod tag {
    /// A definition with fields; `of` is its index.
    pub const STRUCT: u8 = 0;
    /// Any keys; `of` is the node of the values.
    pub const MAP: u8 = 1;
    /// `of` is the node of the items.
    pub const LIST: u8 = 2;
    /// String.
    pub const STRING: u8 = 3;
    /// Bytes, base64 in JSON.
    pub const BYTES: u8 = 4;
    /// 32-bit integer.
    pub const INT32: u8 = 5;
    /// 64-bit integer.
    pub const INT64: u8 = 6;
    /// Double.
    pub const DOUBLE: u8 = 7;
    /// Boolean.
    pub const BOOL: u8 = 8;
    /// Integer or string.
    pub const INT_OR_STRING: u8 = 9;
    /// Quantity.
    pub const QUANTITY: u8 = 10;
    /// Timestamp with seconds.
    pub const TIME: u8 = 11;
    /// Timestamp with microseconds.
    pub const MICRO_TIME: u8 = 12;
    /// Field set (`fieldsV1`).
    pub const FIELDS: u8 = 13;
    /// Any object.
    pub const RAW: u8 = 14;
    /// Any value.
    pub const ANY: u8 = 15;
    /// A JSON schema (`of` is its node) or a list of them.
    pub const SCHEMA_OR_ARRAY: u8 = 16;
    /// A JSON schema or a boolean.
    pub const SCHEMA_OR_BOOL: u8 = 17;
    /// A JSON schema or a list of strings.
    pub const SCHEMA_OR_STRINGS: u8 = 18;
}

/// List types and map types; zero is unmarked.
pub mod marker {
    /// Replaced as a whole.
    pub const ATOMIC: u8 = 1;
    /// Unique items.
    pub const SET: u8 = 2;
    /// Items with keys.
    pub const MAP: u8 = 3;
    /// Fields are owned one by one.
    pub const GRANULAR: u8 = 4;
}
