//! The form of the schema table, known to the build that writes it and to the code that reads it.
//!
//! All numbers are little endian. The header holds, for each section, its offset and its number of records;
//! then the sections follow. Texts lie apart, one after the other, and are named by their offset times 256 plus
//! their length; 0 is the empty text. Names of fields lie there as they are written before a value, in quotes and with a
//! colon. Structs are sorted by definition name, kinds by group, version and kind. The fields of a struct lie in the order
//! in which they are written out; besides, each struct has a hash table of their names.

/// The sections, in the order of the header.
#[derive(Clone, Copy)]
pub enum Section {
    /// Definitions.
    Structs,
    /// Fields of all structs.
    Fields,
    /// The hash tables of all structs: indexes of fields within their struct, plus one; zero where there is none.
    Slots,
    /// Types of fields and items.
    Nodes,
    /// Lists of texts: keys and values that are allowed.
    Lists,
    /// Texts of the lists.
    Items,
    /// Ways through embedded structs.
    Embeds,
    /// Indexes of structs that are kinds.
    Kinds,
}

/// How many sections there are.
pub const SECTIONS: usize = 8;
/// Bytes of the header.
pub const HEADER_BYTES: usize = SECTIONS * 8;

/// name, group, version: text; first field u32; fields u16; map type u8; fields always written u8; first slot u32; slots
/// (a power of two) u32; description offset u32, length u32.
pub const STRUCT_BYTES: usize = 36;
/// name: text; node u16; number u16; flags u16; values (list) u16; merge key, default: text; embed u16; zero u16;
/// description offset u32, length u32.
pub const FIELD_BYTES: usize = 32;
/// index u16.
pub const SLOT_BYTES: usize = 2;
/// tag u8; list type u8; map type u8; wrapped u8; of u16; keys (list) u16; Go type: text.
pub const NODE_BYTES: usize = 12;
/// first item u32; items u32.
pub const LIST_BYTES: usize = 8;
/// path of Go names: text; up to four protobuf numbers u8, zero where there are fewer.
pub const EMBED_BYTES: usize = 8;

/// The slot, of a number that is a power of two, at which the search for a name begins; it goes on to the next one. This
/// looks at few bytes of the name: it only has to tell the fields of one struct apart, mostly.
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
    /// OpenAPI says that the field must be there.
    pub const REQUIRED: u16 = 1;
    /// Left out when empty.
    pub const OMIT_EMPTY: u16 = 2;
    /// Left out when all of it is zero.
    pub const OMIT_ZERO: u16 = 4;
    /// Absent and empty are told apart.
    pub const POINTER: u16 = 8;
    /// A strategic merge patch merges the field.
    pub const PATCH_MERGE: u16 = 16;
    /// A strategic merge patch drops the keys it does not name.
    pub const PATCH_RETAIN_KEYS: u16 = 32;
    /// A strategic merge patch replaces the field.
    pub const PATCH_REPLACE: u16 = 64;
    /// Written even when nothing was said about it.
    pub const ALWAYS: u16 = 128;
    /// Empty is as good as absent once it is stored, but not while it is decided upon.
    pub const EMPTY_COUNTS: u16 = 256;
}

/// Tags of a node.
pub mod tag {
    /// A definition with fields; `of` is its index.
    pub const STRUCT: u8 = 0;
    /// Any keys; `of` is the node of the values.
    pub const MAP: u8 = 1;
    /// `of` is the node of the items.
    pub const LIST: u8 = 2;
    /// Text.
    pub const STRING: u8 = 3;
    /// Bytes, base64 in JSON.
    pub const BYTES: u8 = 4;
    /// 32-bit integer.
    pub const INT32: u8 = 5;
    /// 64-bit integer.
    pub const INT64: u8 = 6;
    /// Double.
    pub const DOUBLE: u8 = 7;
    /// Truth value.
    pub const BOOL: u8 = 8;
    /// Number or text.
    pub const INT_OR_STRING: u8 = 9;
    /// Quantity.
    pub const QUANTITY: u8 = 10;
    /// Time to the second.
    pub const TIME: u8 = 11;
    /// Time to the microsecond.
    pub const MICRO_TIME: u8 = 12;
    /// Set of fields.
    pub const FIELDS: u8 = 13;
    /// Any object.
    pub const RAW: u8 = 14;
    /// Any value.
    pub const ANY: u8 = 15;
    /// A JSON schema (`of` is its node) or a list of them.
    pub const SCHEMA_OR_ARRAY: u8 = 16;
    /// A JSON schema or a truth value.
    pub const SCHEMA_OR_BOOL: u8 = 17;
    /// A JSON schema or a list of texts.
    pub const SCHEMA_OR_STRINGS: u8 = 18;
}

/// List types and map types; zero is none.
pub mod marker {
    /// One whole.
    pub const ATOMIC: u8 = 1;
    /// Items are unique.
    pub const SET: u8 = 2;
    /// Items have keys.
    pub const MAP: u8 = 3;
    /// Keys are owned one by one.
    pub const GRANULAR: u8 = 4;
}
