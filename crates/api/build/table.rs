//! Parser of the project's own tables, which hold the facts that `k8s-openapi` lacks.
//!
//! One file per package of the API. The first line is `package DEFINITION-PREFIX GROUP/VERSION`. A type starts
//! with `[Name]`, optionally followed by `map=atomic`. Its fields follow, one per line, in encoding order:
//!
//! ```text
//! name number flags attributes…
//! ```
//!
//! The number is the protobuf number: `-` for none, `2/1` for number 1 in the embedded message with number 2,
//! whose fields JSON inlines. Flags: `o` is `omitempty`, `z` is `omitzero`, `p` is a pointer, `e`
//! distinguishes absent from empty until it is stored, `-` is none of these. The line `TypeMeta` stands for
//! `kind` and `apiVersion`. Attributes:
//!
//! | | |
//! |---|---|
//! | `go=v1.Protocol` | Go type in decoding errors, where it does not follow from the structure |
//! | `in=VolumeSource` | embedded Go struct, which decoding errors name too |
//! | `list=map:a,b` | list type and keys |
//! | `map=atomic` | map type |
//! | `patch=merge,retainKeys:name` | patch strategy and merge key |
//! | `wrapped` | protobuf has the list as a message of its own |
//! | `type=[]ref:…` | structure, where `k8s-openapi` lacks it |
//! | `enum=A,B` | enum values, `~` for a space |
//! | `default=…` | default as JSON, up to the end of the line |

use std::fs;
use std::path::Path;

/// A package: the types of one version of a group.
pub struct Package {
    pub prefix: String,
    pub group: String,
    pub version: String,
    pub types: Vec<Type>,
}

/// Table entry of a type.
pub struct Type {
    pub name: String,
    pub map_type: Option<String>,
    pub fields: Vec<Field>,
}

/// Table entry of a field.
#[derive(Clone, Default)]
pub struct Field {
    pub name: String,
    /// Path of protobuf numbers; empty for none.
    pub numbers: Vec<u16>,
    pub omit_empty: bool,
    pub omit_zero: bool,
    pub pointer: bool,
    pub empty_counts: bool,
    pub go: Option<String>,
    pub embedded: Option<String>,
    pub list: Option<(String, Vec<String>)>,
    pub map_type: Option<String>,
    pub patch: Option<(Vec<String>, Option<String>)>,
    pub wrapped: bool,
    pub structure: Option<String>,
    pub values: Vec<String>,
    pub default: Option<String>,
}

/// Reads every package in the directory, sorted by name.
pub fn read(directory: &Path) -> Vec<Package> {
    let mut paths: Vec<_> = fs::read_dir(directory)
        .expect("the tables are there")
        .map(|entry| entry.expect("the tables are readable").path())
        .filter(|path| path.file_name().is_some_and(|name| name != "resources"))
        .collect();
    paths.sort();
    paths.iter().map(|path| package(&fs::read_to_string(path).expect("a table is readable"))).collect()
}

fn package(text: &str) -> Package {
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let head: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let ["package", prefix, api_version] = head[..] else { panic!("a table starts with {head:?}") };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut types: Vec<Type> = Vec::new();
    for line in lines {
        if let Some(rest) = line.strip_prefix('[') {
            let (name, marker) = rest.split_once(']').expect("a type is in brackets");
            let map_type = marker.trim().strip_prefix("map=").map(str::to_owned);
            types.push(Type { name: name.to_owned(), map_type, fields: Vec::new() });
            continue;
        }
        let fields = &mut types.last_mut().expect("fields follow a type").fields;
        if line == "TypeMeta" {
            fields.extend(type_meta());
        } else {
            fields.push(field(line));
        }
    }
    Package { prefix: prefix.to_owned(), group: group.to_owned(), version: version.to_owned(), types }
}

/// `kind` and `apiVersion`. Protobuf has them in the envelope.
pub fn type_meta() -> [Field; 2] {
    ["kind", "apiVersion"].map(|name| Field {
        name: name.to_owned(),
        omit_empty: true,
        embedded: Some("TypeMeta".to_owned()),
        structure: Some("string".to_owned()),
        ..Field::default()
    })
}

fn field(line: &str) -> Field {
    let (line, default) = match line.split_once(" default=") {
        Some((line, default)) => (line, Some(default.to_owned())),
        None => (line, None),
    };
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap_or_else(|| panic!("too few words in {line:?}"));
    let mut field = Field { name: next().to_owned(), default, ..Field::default() };
    let numbers = next();
    if numbers != "-" {
        field.numbers = numbers.split('/').map(|n| n.parse().expect("a protobuf number")).collect();
    }
    let flags = next();
    field.omit_empty = flags.contains('o');
    field.omit_zero = flags.contains('z');
    field.pointer = flags.contains('p');
    field.empty_counts = flags.contains('e');
    for word in words {
        attribute(&mut field, word);
    }
    field
}

fn attribute(field: &mut Field, word: &str) {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let (first, second) = value.split_once(':').map_or((value, None), |(a, b)| (a, Some(b)));
    match key {
        "go" => field.go = Some(value.to_owned()),
        "in" => field.embedded = Some(value.to_owned()),
        "list" => field.list = Some((first.to_owned(), second.map(names).unwrap_or_default())),
        "map" => field.map_type = Some(value.to_owned()),
        "patch" => field.patch = Some((names(first), second.map(str::to_owned))),
        "wrapped" => field.wrapped = true,
        "type" => field.structure = Some(value.to_owned()),
        "enum" => field.values = names(&value.replace('~', " ")),
        _ => panic!("unknown attribute {word:?} of {}", field.name),
    }
}
