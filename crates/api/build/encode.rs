//! Encoder of the schema table, in the layout of `layout`.

use std::collections::BTreeMap;

use crate::layout::{
    EMBED_BYTES, FIELD_BYTES, HEADER_BYTES, LIST_BYTES, NODE_BYTES, SECTIONS, SLOT_BYTES, STRUCT_BYTES,
    Section, first_slot, flag,
};
use crate::model::{Field, Model, Node, Of};

/// The table, its texts and, separately because they are rarely read, the descriptions.
pub struct Encoded {
    pub table: Vec<u8>,
    pub texts: String,
    pub descriptions: String,
}

/// Encodes the model.
pub fn encode(model: &Model) -> Encoded {
    let mut encoder = Encoder::default();
    encoder.list(&[]);
    encoder.embed(None, &[]);
    let indexes: BTreeMap<&str, u16> =
        model.structs.keys().zip(0..).map(|(definition, index)| (definition.as_str(), index)).collect();
    for node in &model.nodes {
        encoder.node(node, &indexes);
    }
    for (definition, entry) in &model.structs {
        let ints = [definition, &entry.group, &entry.version].map(|text| encoder.text(text));
        let first = encoder.records(Section::Fields, FIELD_BYTES);
        let slot = encoder.records(Section::Slots, SLOT_BYTES);
        let (at, len) = encoder.description(&entry.description);
        let always = entry.fields.iter().filter(|field| field.always).count();
        let out = encoder.section(Section::Structs);
        ints.into_iter().chain([first]).for_each(|int| put32(out, int));
        put16(out, entry.fields.len());
        out.extend([entry.map_type, u8::try_from(always).expect("structs are small")]);
        put32(out, slot);
        put32(out, count(slots(entry.fields.len())));
        put32(out, at);
        put32(out, len);
        entry.fields.iter().for_each(|field| encoder.field(field));
        encoder.slots(&entry.fields);
    }
    encoder.kinds(model, &indexes);
    encoder.finish()
}

#[derive(Default)]
struct Encoder {
    sections: [Vec<u8>; SECTIONS],
    texts: BTreeMap<String, u32>,
    names: BTreeMap<String, u32>,
    text_bytes: String,
    lists: BTreeMap<Vec<String>, u16>,
    embeds: BTreeMap<(String, Vec<u16>), u16>,
    descriptions: String,
    described: BTreeMap<String, u32>,
}

fn put16(out: &mut Vec<u8>, number: usize) {
    out.extend(u16::try_from(number).expect("it fits in 16 bits").to_le_bytes());
}

fn put32(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("it fits in 32 bits")
}

impl Encoder {
    fn section(&mut self, section: Section) -> &mut Vec<u8> {
        &mut self.sections[section as usize]
    }

    fn records(&self, section: Section, bytes: usize) -> u32 {
        count(self.sections[section as usize].len() / bytes)
    }

    fn text(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(at) = self.texts.get(text) {
            return *at;
        }
        let len = u8::try_from(text.len()).expect("texts are short");
        let at = (count(self.text_bytes.len()) << 8) | u32::from(len);
        self.text_bytes.push_str(text);
        self.texts.insert(text.to_owned(), at);
        at
    }

    /// Adds the name of a field, stored as it is written before a value.
    fn name(&mut self, name: &str) -> u32 {
        if let Some(at) = self.names.get(name) {
            return *at;
        }
        self.text_bytes.push('"');
        let len = u8::try_from(name.len()).expect("names are short");
        let at = (count(self.text_bytes.len()) << 8) | u32::from(len);
        self.text_bytes.push_str(name);
        self.text_bytes.push_str("\":");
        self.names.insert(name.to_owned(), at);
        at
    }

    fn description(&mut self, text: &str) -> (u32, u32) {
        let at = *self.described.entry(text.to_owned()).or_insert_with(|| {
            let at = count(self.descriptions.len());
            self.descriptions.push_str(text);
            at
        });
        (at, count(text.len()))
    }

    fn list(&mut self, texts: &[String]) -> u16 {
        if let Some(index) = self.lists.get(texts) {
            return *index;
        }
        let index = u16::try_from(self.lists.len()).expect("few lists");
        let first = self.records(Section::Items, 4);
        for text in texts {
            let text = self.text(text);
            put32(self.section(Section::Items), text);
        }
        let out = self.section(Section::Lists);
        put32(out, first);
        put32(out, count(texts.len()));
        self.lists.insert(texts.to_vec(), index);
        index
    }

    /// Adds the path to a field through embedded structs: all protobuf numbers but the last.
    fn embed(&mut self, path: Option<&str>, numbers: &[u16]) -> u16 {
        let key = (path.unwrap_or_default().to_owned(), numbers.to_vec());
        if let Some(index) = self.embeds.get(&key) {
            return *index;
        }
        let index = u16::try_from(self.embeds.len()).expect("few embedded structs");
        let text = self.text(&key.0);
        let mut four = [0; 4];
        for (place, number) in four.iter_mut().zip(numbers) {
            *place = u8::try_from(*number).expect("embedded messages have small numbers");
        }
        let out = self.section(Section::Embeds);
        put32(out, text);
        out.extend(four);
        self.embeds.insert(key, index);
        index
    }

    fn node(&mut self, node: &Node, indexes: &BTreeMap<&str, u16>) {
        let go = self.text(&node.go);
        let keys = self.list(&node.keys);
        let of = match &node.of {
            Of::Nothing => 0,
            Of::Node(index) => *index,
            Of::Definition(definition) => indexes[definition.as_str()],
        };
        let out = self.section(Section::Nodes);
        out.extend([node.tag, node.list_type, node.map_type, u8::from(node.wrapped)]);
        put16(out, of.into());
        put16(out, keys.into());
        put32(out, go);
    }

    fn field(&mut self, field: &Field) {
        let facts = &field.facts;
        let name = self.name(&facts.name);
        let values = self.list(&facts.values);
        let merge_key = facts.patch.as_ref().and_then(|(_, key)| key.as_deref()).unwrap_or_default();
        let merge_key = self.text(merge_key);
        let default = self.text(facts.default.as_deref().unwrap_or_default());
        let (number, within) = facts.numbers.split_last().map_or((0, &[][..]), |(last, rest)| (*last, rest));
        let embed = self.embed(facts.embedded.as_deref(), within);
        let (at, len) = self.description(&field.description);
        let out = self.section(Section::Fields);
        put32(out, name);
        put16(out, field.node.into());
        put16(out, number.into());
        put16(out, flags(field).into());
        put16(out, values.into());
        put32(out, merge_key);
        put32(out, default);
        put16(out, embed.into());
        put16(out, 0);
        put32(out, at);
        put32(out, len);
    }

    fn slots(&mut self, fields: &[Field]) {
        let mut table = vec![0; slots(fields.len())];
        for (index, field) in fields.iter().enumerate() {
            let mut at = first_slot(&field.facts.name, table.len());
            while table[at] != 0 {
                at = (at + 1) % table.len();
            }
            table[at] = index + 1;
        }
        let out = self.section(Section::Slots);
        table.into_iter().for_each(|slot| put16(out, slot));
    }

    fn kinds(&mut self, model: &Model, indexes: &BTreeMap<&str, u16>) {
        let mut kinds: Vec<_> = model
            .structs
            .iter()
            .filter(|(_, entry)| entry.is_kind)
            .map(|(definition, entry)| {
                let kind = definition.rsplit('.').next().unwrap_or(definition);
                ((&entry.group, &entry.version, kind), indexes[definition.as_str()])
            })
            .collect();
        kinds.sort();
        let out = self.section(Section::Kinds);
        kinds.into_iter().for_each(|(_, index)| put16(out, index.into()));
    }

    fn finish(self) -> Encoded {
        let bytes = [STRUCT_BYTES, FIELD_BYTES, SLOT_BYTES, NODE_BYTES, LIST_BYTES, 4, EMBED_BYTES, 2];
        let mut table = Vec::new();
        let mut offset = HEADER_BYTES;
        for (section, bytes) in self.sections.iter().zip(bytes) {
            put32(&mut table, count(offset));
            put32(&mut table, count(section.len() / bytes));
            offset += section.len();
        }
        self.sections.iter().for_each(|section| table.extend_from_slice(section));
        Encoded { table, texts: self.text_bytes, descriptions: self.descriptions }
    }
}

/// Number of slots of a struct with so many fields: at least twice as many, so that most lookups take one
/// probe.
fn slots(fields: usize) -> usize {
    (2 * fields).next_power_of_two()
}

fn flags(field: &Field) -> u16 {
    let facts = &field.facts;
    let patch = |word: &str| facts.patch.as_ref().is_some_and(|(words, _)| words.iter().any(|w| w == word));
    [
        (field.required, flag::REQUIRED),
        (field.always, flag::ALWAYS),
        (facts.omit_empty, flag::OMIT_EMPTY),
        (facts.omit_zero, flag::OMIT_ZERO),
        (facts.empty_counts, flag::DISTINGUISHES_EMPTY),
        (facts.pointer, flag::POINTER),
        (patch("merge"), flag::PATCH_MERGE),
        (patch("retainKeys"), flag::PATCH_RETAIN_KEYS),
        (patch("replace"), flag::PATCH_REPLACE),
    ]
    .into_iter()
    .filter_map(|(set, flag)| set.then_some(flag))
    .sum()
}
