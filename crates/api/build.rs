//! Generates the schema table: structure and descriptions come from the `k8s-openapi` crate, everything else
//! from the project's own `tables/`. The result is three files that `schema` embeds.

use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "build/encode.rs"]
mod encode;
#[path = "src/schema/layout.rs"]
mod layout;
#[path = "build/model.rs"]
mod model;
#[path = "build/table.rs"]
mod table;
#[path = "build/typed.rs"]
mod typed;

fn main() {
    for path in ["build.rs", "build", "tables", "src/schema/layout.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let tables = Path::new("tables");
    let resources = fs::read_to_string(tables.join("resources")).expect("the resource table is readable");
    let model = model::join(table::read(tables), &typed::definitions(), &kinds_with_lists(&resources));
    let encoded = encode::encode(&model);
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the output directory"));
    let write = |name: &str, bytes: &[u8]| fs::write(out.join(name), bytes).expect("the output is writable");
    write("schema.bin", &encoded.table);
    write("texts.txt", encoded.texts.as_bytes());
    write("descriptions.txt", encoded.descriptions.as_bytes());
}

/// Kinds with a list, with their API versions.
fn kinds_with_lists(resources: &str) -> Vec<(String, String)> {
    let mut kinds = Vec::new();
    let mut api_version = "";
    for line in resources.lines().filter(|line| !line.starts_with(' ')) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["group", name] => api_version = name,
            [_, kind, _, _, verbs, ..] if verbs == "*" || verbs.split(',').any(|verb| verb == "list") => {
                kinds.push((api_version.to_owned(), kind.to_owned()));
            }
            _ => {}
        }
    }
    kinds
}
