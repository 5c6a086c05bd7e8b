//! Expansion of words: assignments, variables and word splitting.

use super::super::tokenizer::{Word, WordPart};
use super::Evaluator;
use super::builtins::pid;
use crate::behavior::env::EnvValue;

impl Evaluator {
    /// Parses an assignment; `None` if the word is not one.
    pub(super) fn assignment<'a>(&mut self, word: &'a Word) -> Option<(&'a str, EnvValue)> {
        let Some((WordPart::Text(first), rest)) = word.parts.split_first() else { return None };
        let (name, text) = first.split_once('=')?;
        // The name is scanned and copied like the text.
        self.budget.charge_bytes(first.len());
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let rest = self.value_of(rest);
        Some((name, EnvValue { text: format!("{text}{}", rest.text), is_known: rest.is_known }))
    }

    /// Expands a word without splitting; the result is truncated once the budget is used up.
    pub(super) fn value_of(&mut self, parts: &[WordPart]) -> EnvValue {
        let mut whole = EnvValue::known("");
        for part in parts {
            let value = self.part(part);
            if self.budget.is_exhausted() {
                break;
            }
            whole.text.push_str(&value.text);
            whole.is_known &= value.is_known;
        }
        whole
    }

    /// Expands words with splitting. Returns `true` if all values are known; the result is truncated once the
    /// budget is used up.
    pub(super) fn expand(&mut self, words: &[Word]) -> (Vec<String>, bool) {
        let (mut all, mut are_known) = (Vec::new(), true);
        for word in words {
            // An empty quoted word has no parts, but still costs an item.
            if !self.budget.charge_bytes(0) {
                return (all, false);
            }
            let mut open = word.is_quoted.then(String::new);
            for part in &word.parts {
                let value = self.part(part);
                if self.budget.is_exhausted() {
                    return (all, false);
                }
                are_known &= value.is_known;
                if !matches!(part, WordPart::Variable { is_quoted: false, .. }) {
                    open.get_or_insert_default().push_str(&value.text);
                    continue;
                }
                // Unquoted expansions are split at whitespace.
                for (at, piece) in value.text.split(char::is_whitespace).enumerate() {
                    if at > 0 && open.is_some() {
                        self.budget.charge_bytes(0);
                        all.extend(open.take());
                    }
                    if !piece.is_empty() {
                        open.get_or_insert_default().push_str(piece);
                    }
                }
            }
            all.extend(open);
        }
        (all, are_known)
    }

    /// Expands a part of a word.
    pub(super) fn part(&mut self, part: &WordPart) -> EnvValue {
        let value = match part {
            WordPart::Text(text) => EnvValue::known(text),
            WordPart::Variable { name, fallback, .. } => self.variable(name, fallback.as_ref()),
        };
        self.budget.charge_bytes(value.text.len());
        value
    }

    pub(super) fn variable(&self, name: &str, fallback: Option<&(String, bool)>) -> EnvValue {
        let shell = &self.shell;
        let number = name.parse::<usize>().ok();
        let value = match (name, number) {
            ("?", _) => Some(EnvValue::known(&shell.last_exit_code.to_string())),
            ("!", _) => Some(EnvValue::known(&pid(shell.jobs.len()))),
            ("$", _) => Some(EnvValue::known("1")),
            (_, Some(number)) => shell.positional.get(number).map(|word| EnvValue::known(word)),
            (name, None) => shell.env.find(name),
        };
        match (value, fallback) {
            (Some(value), Some((_, true))) if value.is_known && value.text.is_empty() => None,
            // A variable that may be unset is taken as unset.
            (Some(value), Some((text, _))) if value.text.is_empty() && !value.is_known => {
                Some(EnvValue::unknown(text.clone()))
            }
            (value, _) => value,
        }
        .unwrap_or_else(|| EnvValue::known(fallback.map_or("", |(text, _)| text)))
    }
}
