//! Rules of the repository that a machine can hold.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/words.rs"]
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Licences that a dependency may have, one of the alternatives it offers.
const LICENSES: [&str; 14] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "MPL-2.0+",
    "OpenSSL",
    "Unicode-3.0",
    "Zlib",
];

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
fn every_dependency_has_a_license_that_fits() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform"])
        .arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 20);
    for package in packages {
        let license = package["license"].as_str().unwrap_or("none");
        // `A OR B` and the older `A/B` offer a choice; `A AND B` asks for both.
        let fits = license.replace('/', " OR ").split(" OR ").any(|choice| {
            let choice = choice.trim().trim_matches(['(', ')']);
            choice.split(" AND ").all(|one| LICENSES.contains(&one.trim().trim_matches(['(', ')'])))
        });
        assert!(fits, "{} has the license {license}", package["name"]);
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
