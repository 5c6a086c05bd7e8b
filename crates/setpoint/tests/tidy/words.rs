//! Words of comments and names of types: comments state facts, and the types of a crate have names of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{root, rust_files};

const QUESTIONS: [&str; 6] = ["Who", "Whoever", "Whom", "What", "How", "Whether"];
const POOR_WORDS: [&str; 4] = ["anew", "told", "somebody", "nobody"];

/// Returns the comments of a file: runs of lines that begin with two slashes, without the slashes.
fn comments(text: &str) -> Vec<String> {
    let mut comments = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_open = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        if !is_open || comment.is_empty() {
            comments.push(String::new());
        }
        is_open = true;
        let last = comments.last_mut().unwrap();
        last.push(' ');
        last.push_str(comment);
    }
    comments.retain(|comment| !comment.trim().is_empty());
    comments
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

fn all_comments() -> Vec<(String, String)> {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    files.retain(|file| !file.ends_with("tidy/words.rs"));
    let of = |file: &std::path::PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        comments(&text).into_iter().map(|comment| (file.display().to_string(), comment)).collect::<Vec<_>>()
    };
    files.iter().flat_map(of).collect()
}

/// Fails if there are findings.
fn assert_none(problem: &str, findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{} {problem} (docs/GLOSSARY.md, CONTRIBUTING.md); among them:\n{}",
        findings.len(),
        findings.iter().rev().take(20).map(String::as_str).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn comments_do_not_begin_with_a_question_word() {
    let questions = all_comments().into_iter().filter_map(|(file, comment)| {
        let first = words(&comment).next()?;
        QUESTIONS.contains(&first).then(|| format!("{file}:{comment}"))
    });
    assert_none("comments begin with a question word", &questions.collect::<Vec<_>>());
}

#[test]
fn comments_avoid_personification() {
    let poor = all_comments().into_iter().filter_map(|(file, comment)| {
        let word = words(&comment).find(|word| POOR_WORDS.contains(&word.to_lowercase().as_str()))?;
        Some(format!("{file}: {word}:{comment}"))
    });
    assert_none("comments have a word that is to go", &poor.collect::<Vec<_>>());
}

/// Returns the names of the types that a file defines for others to see.
fn visible_types(text: &str) -> BTreeSet<&str> {
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    text.lines()
        .filter_map(|line| {
            // Items of modules stand at the margin; what is further in is associated or in a test.
            let rest = line.strip_prefix("pub")?;
            let rest = match rest.strip_prefix('(') {
                Some(rest) => rest.split_once(')')?.1,
                None => rest,
            };
            let rest = rest.trim_start();
            let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
            words(rest).next()
        })
        .collect()
}

/// Returns type names that several files of a crate define, with the files.
fn shared_names(source: &Path) -> BTreeMap<String, Vec<String>> {
    let mut files = Vec::new();
    rust_files(source, &mut files);
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for name in visible_types(&text) {
            names.entry(name.to_owned()).or_default().push(file.display().to_string());
        }
    }
    names.retain(|_, files| files.len() > 1);
    names
}

#[test]
fn visible_types_of_a_crate_have_names_of_their_own() {
    let mut shared = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let source = entry.unwrap().path().join("src");
        shared.extend(shared_names(&source).into_iter().map(|(name, files)| format!("{name}: {files:?}")));
    }
    assert_none("type names are shared within a crate", &shared);
}

#[test]
fn comments_and_visible_types_are_parsed() {
    let text = "/// What it is.\n/// More.\nfn a() {}\n// Starts anew.\n//! Plain.\n";
    assert_eq!(comments(text), [" What it is. More.", " Starts anew. Plain."]);
    let types = visible_types("pub struct A;\npub(super) enum B<T> {}\nstruct C;\n    pub struct D;\n");
    assert_eq!(types.into_iter().collect::<Vec<_>>(), ["A", "B"]);
}
