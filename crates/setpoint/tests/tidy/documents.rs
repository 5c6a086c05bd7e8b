//! Documents: the files, constants and tests that they name exist.

use std::path::PathBuf;

use super::{root, rust_files};

const DOCUMENTS: [&str; 10] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/README.md",
    "docs/GLOSSARY.md",
    "docs/audit.md",
    "docs/encryption.md",
    "docs/security.md",
    "docs/walks.md",
];

fn read(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap()
}

/// Returns the texts between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the sources whose path ends with `name`.
fn sources(name: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    rust_files(&root().join("examples"), &mut files);
    files.retain(|file| file.ends_with(name));
    files
}

#[test]
fn documents_name_paths_that_exist() {
    for document in DOCUMENTS {
        let text = read(document);
        for path in quoted(&text).filter(|word| word.starts_with("crates/") || word.starts_with("scripts/")) {
            assert!(root().join(path).exists(), "{document} names {path}");
        }
        let dir = root().join(document).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let link = link.0.split('#').next().unwrap_or_default();
            assert!(link.contains("://") || dir.join(link).exists(), "{document} links to {link}");
        }
    }
}

#[test]
fn documents_name_source_files_that_exist() {
    for document in DOCUMENTS {
        let text = read(document);
        for word in quoted(&text) {
            let name = word.split(':').next().unwrap_or_default();
            if name.ends_with(".rs") && !name.contains([' ', '*']) && name != "mod.rs" && name != "foo.rs" {
                assert!(!sources(name).is_empty(), "{document} names {name}, which does not exist");
            }
        }
    }
}

/// `file.rs: name` in backquotes is a test of that file.
#[test]
fn documents_name_tests_that_exist() {
    let mut tests = 0;
    for document in DOCUMENTS {
        let text = read(document);
        for (file, name) in quoted(&text).filter_map(|word| word.split_once(".rs: ")) {
            let (file, name) = (format!("{file}.rs"), name.split_whitespace().collect::<String>());
            let function = format!("fn {name}(");
            let is_there =
                |file: &PathBuf| std::fs::read_to_string(file).is_ok_and(|text| text.contains(&function));
            assert!(sources(&file).iter().any(is_there), "{document}: {file} has no test {name}");
            tests += 1;
        }
    }
    assert!(tests > 15, "{tests} tests are named");
}

/// A constant in backquotes is defined somewhere; `` `NAME` in `file.rs` `` is defined in that file.
#[test]
fn documents_name_constants_that_exist() {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    let code: Vec<String> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let is_constant = |word: &str| {
        word.contains('_') && word.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
    };
    let defines = |text: &str, name: &str| {
        text.contains(&format!("const {name}:")) || text.contains(&format!("static {name}:"))
    };
    for document in DOCUMENTS {
        let text = read(document);
        for name in quoted(&text).filter(|word| is_constant(word) && !word.starts_with("SETPOINT_")) {
            assert!(code.iter().any(|text| defines(text, name)), "{document} names {name}");
        }
        for (name, rest) in quoted(&text).zip(text.split('`').skip(2).step_by(2)) {
            if rest.trim() != "in" || !is_constant(name) {
                continue;
            }
            let at = text.find(&format!("`{name}`{rest}`")).unwrap();
            let file = text[at..].split('`').nth(3).unwrap();
            let is_there =
                |file: &PathBuf| std::fs::read_to_string(file).is_ok_and(|text| defines(&text, name));
            assert!(sources(file).iter().any(is_there), "{document}: {name} is not in {file}");
        }
    }
}
