//! Rules of the repository that a machine can hold.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "tidy/dependencies.rs"]
mod dependencies;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/words.rs"]
mod words;

use std::path::{Path, PathBuf};

const LINES_MAX: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn sources_are_short_documented_and_without_todo() {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    assert!(files.len() > 30);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.display();
        assert!(text.lines().count() <= LINES_MAX, "{name} is longer than {LINES_MAX} lines");
        assert_ne!(file.file_name().unwrap(), "mod.rs", "{name}");
        assert!(text.starts_with("//!"), "{name} does not say what it is for");
        if !file.ends_with("tidy.rs") {
            for word in ["TODO", "FIXME", "#[ignore"] {
                assert!(!text.contains(word), "{name} holds {word}");
            }
        }
    }
}
