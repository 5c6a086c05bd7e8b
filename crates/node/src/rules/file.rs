//! Rules in a file: which containers they select, and what they say of them.
//!
//! ```yaml
//! rules:
//! - match:
//!     image: "*/flaky:*"        # a pattern, as all of these
//!     command: "*--once*"       # command and arguments, joined by spaces
//!     labels: {app: web}
//!   exit-after: 30s
//!   exit-code: 1
//!   log: ["starting", "ready"]
//! ```
//!
//! The names are those of the annotations. The first rule that selects a container counts.

use setpoint_api::{Value, yaml};
use setpoint_reconcile::object::Pairs;
use thiserror::Error;

use super::{Said, Unclear};
use crate::pod::Container;

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    image: Option<String>,
    command: Option<String>,
    labels: Vec<(String, String)>,
    /// What it says.
    pub said: Said,
}

/// A file that holds no rules.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadRules {
    /// It is no YAML.
    #[error(transparent)]
    Syntax(#[from] yaml::YamlError),
    /// It is not built as rules are.
    #[error("{place}: {problem}")]
    Shape {
        /// Where.
        place: String,
        /// What is wrong.
        problem: String,
    },
}

/// Reads rules.
///
/// # Errors
/// If the text is no YAML, or says what cannot be.
pub fn read(text: &[u8]) -> Result<Vec<Rule>, BadRules> {
    let (file, _) = yaml::parse_strict(text)?;
    let wrong =
        |place: &str, problem: &str| BadRules::Shape { place: place.to_owned(), problem: problem.to_owned() };
    let entries = file.as_map().ok_or_else(|| wrong("the file", "must have a list of `rules`"))?;
    if let Some((other, _)) = entries.iter().find(|(name, _)| *name != "rules") {
        return Err(wrong(other, "only `rules` can stand here"));
    }
    let list = entries.get("rules").and_then(Value::as_list);
    let list = list.ok_or_else(|| wrong("rules", "must be a list"))?;
    list.iter().enumerate().map(|(at, value)| rule(&format!("rules[{at}]"), value)).collect()
}

fn rule(place: &str, value: &Value) -> Result<Rule, BadRules> {
    let wrong = |place: String, problem: &str| BadRules::Shape { place, problem: problem.to_owned() };
    let entries = value.as_map().ok_or_else(|| wrong(place.to_owned(), "must be an object"))?;
    let mut rule = Rule::default();
    for (name, value) in entries.iter() {
        if name == "match" {
            selection(&mut rule, &format!("{place}.match"), value)?;
            continue;
        }
        let unclear = |Unclear { problem, .. }| wrong(format!("{place}.{name}"), &problem);
        let text = match value {
            Value::List(lines) => lines.iter().map(text).collect::<Vec<String>>().join("\n"),
            other => text(other),
        };
        rule.said.say(name, &text).map_err(unclear)?;
    }
    Ok(rule)
}

fn selection(rule: &mut Rule, place: &str, value: &Value) -> Result<(), BadRules> {
    let wrong = |name: &str, problem: &str| BadRules::Shape {
        place: format!("{place}.{name}"),
        problem: problem.to_owned(),
    };
    for (name, value) in value.as_map().into_iter().flat_map(|map| map.iter()) {
        match (name, value) {
            ("image", value) => rule.image = Some(text(value)),
            ("command", value) => rule.command = Some(text(value)),
            ("labels", Value::Map(labels)) => {
                rule.labels = labels.iter().map(|(name, value)| (name.to_owned(), text(value))).collect();
            }
            _ => return Err(wrong(name, "only image, command and labels select")),
        }
    }
    Ok(())
}

/// A plain value as text.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| setpoint_api::json::to_text(value), str::to_owned)
}

impl Rule {
    /// Whether it is about a container that runs these words.
    #[must_use]
    pub fn selects(&self, container: &Container, words: &[String], labels: &Pairs) -> bool {
        self.image.as_ref().is_none_or(|pattern| fits(pattern, &container.image))
            && self.command.as_ref().is_none_or(|pattern| fits(pattern, &words.join(" ")))
            && self
                .labels
                .iter()
                .all(|(name, pattern)| labels.get(name).is_some_and(|value| fits(pattern, value)))
    }
}

/// Whether a text fits a pattern, in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(before) = last.replace(part) {
            match rest.find(before) {
                Some(at) => rest = &rest[at + before.len()..],
                None => return false,
            }
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit() {
        for (pattern, text, expected) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx:1", false),
            ("nginx*", "nginx:1", true),
            ("*/flaky:*", "a/b/flaky:v1", true),
            ("*/flaky:*", "flaky:v1", false),
            ("*", "", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn rules_select_by_image_command_and_labels() {
        let text = br#"
rules:
- match: {image: "busybox*", command: "*--once*", labels: {app: "web*"}}
  exit-after: 5s
  exit-code: 2
  hangs: true
  log: [one, two]
"#;
        let rules = read(text).unwrap();
        let container = Container { image: "busybox:1".to_owned(), ..Container::default() };
        let labels: Pairs = serde_json::from_str(r#"{"app":"web-1"}"#).unwrap();
        let words = ["run".to_owned(), "--once".to_owned()];
        assert!(rules[0].selects(&container, &words, &labels));
        assert!(!rules[0].selects(&container, &words[..1], &labels));
        assert!(!rules[0].selects(&container, &words, &Pairs::default()));
        assert_eq!((rules[0].said.exit_code, rules[0].said.hangs), (Some(2), Some(true)));
        assert_eq!(rules[0].said.log, ["one", "two"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, place) in [
            ("rules: 1", "rules"),
            ("rulez: []", "rulez"),
            ("rules: [{exit-code: 300}]", "rules[0].exit-code"),
            ("rules: [{match: {name: x}}]", "rules[0].match.name"),
        ] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(place), "{text}: {error}");
        }
    }
}
