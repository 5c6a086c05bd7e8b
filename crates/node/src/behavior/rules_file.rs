//! Rules file: selectors of containers, and the overrides for them.
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

use super::{BehaviorOverrides, InvalidSetting};
use crate::pod::Container;

/// Rule of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BehaviorRule {
    image: Option<String>,
    command: Option<String>,
    labels: Vec<(String, String)>,
    /// Overrides for matching containers.
    pub overrides: BehaviorOverrides,
}

/// Error of a rules file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RulesFileError {
    /// The file is not valid YAML.
    #[error(transparent)]
    Syntax(#[from] yaml::YamlError),
    /// A key is duplicated.
    #[error("{0}")]
    DuplicateKey(String),
    /// The structure is invalid.
    #[error("{path}{}: {problem}", .line.map(|line| format!(" (line {line})")).unwrap_or_default())]
    Structure {
        /// Path in the file.
        path: String,
        /// Line number, if known.
        line: Option<usize>,
        /// Description of the problem.
        problem: String,
    },
}

/// Parses rules.
///
/// # Errors
/// If the text is not valid YAML, or a rule is invalid.
pub fn parse_rules(text: &[u8]) -> Result<Vec<BehaviorRule>, RulesFileError> {
    let (file, duplicates) = yaml::parse_strict(text)?;
    if let Some(first) = duplicates.first() {
        let repeated = yaml::repeated_keys(text).into_iter().next();
        return Err(RulesFileError::DuplicateKey(format!(
            "{}: {}",
            first.path(),
            repeated.unwrap_or_else(|| "duplicate key".to_owned())
        )));
    }
    rules_of(&file).map_err(|StructureError { path, problem }| {
        let line = find_line(&String::from_utf8_lossy(text), &path);
        RulesFileError::Structure { path, line, problem }
    })
}

/// Error at a path of the file.
struct StructureError {
    path: String,
    problem: String,
}

fn structure_error(path: impl Into<String>, problem: impl Into<String>) -> StructureError {
    StructureError { path: path.into(), problem: problem.into() }
}

fn rules_of(file: &Value) -> Result<Vec<BehaviorRule>, StructureError> {
    let entries = file.as_map().ok_or_else(|| structure_error("the file", "must have a list of `rules`"))?;
    if let Some((other, _)) = entries.iter().find(|(name, _)| *name != "rules") {
        return Err(structure_error(other, "unknown field, expected `rules`"));
    }
    let list = entries.get("rules").and_then(Value::as_list);
    let list = list.ok_or_else(|| structure_error("rules", "must be a list"))?;
    list.iter().enumerate().map(|(at, value)| rule_of(&format!("rules[{at}]"), value)).collect()
}

fn rule_of(path: &str, value: &Value) -> Result<BehaviorRule, StructureError> {
    let entries = value.as_map().ok_or_else(|| structure_error(path, "must be an object"))?;
    let mut rule = BehaviorRule::default();
    for (name, value) in entries.iter() {
        let path = format!("{path}.{name}");
        if name == "match" {
            parse_selector(&mut rule, &path, value)?;
            continue;
        }
        let text = match value {
            Value::List(lines) if name == "log" => {
                let lines =
                    lines.iter().map(|line| scalar_text(&path, line)).collect::<Result<Vec<String>, _>>();
                lines?.join("\n")
            }
            other => scalar_text(&path, other)?,
        };
        rule.overrides
            .set(name, &text)
            .map_err(|InvalidSetting { problem, .. }| structure_error(path, problem))?;
    }
    Ok(rule)
}

fn parse_selector(rule: &mut BehaviorRule, path: &str, value: &Value) -> Result<(), StructureError> {
    let shape = "must be an object with image, command or labels";
    let entries = value.as_map().ok_or_else(|| structure_error(path, shape))?;
    for (name, value) in entries.iter() {
        let path = format!("{path}.{name}");
        match name {
            "image" => rule.image = Some(scalar_text(&path, value)?),
            "command" => rule.command = Some(scalar_text(&path, value)?),
            "labels" => {
                let labels = value.as_map().ok_or_else(|| structure_error(&path, "must be an object"))?;
                let label = |(name, value): (&str, &Value)| {
                    Ok((name.to_owned(), scalar_text(&format!("{path}.{name}"), value)?))
                };
                rule.labels = labels.iter().map(label).collect::<Result<_, StructureError>>()?;
            }
            _ => return Err(structure_error(path, "unknown field, expected image, command or labels")),
        }
    }
    Ok(())
}

/// Returns a scalar as text.
fn scalar_text(path: &str, value: &Value) -> Result<String, StructureError> {
    match value {
        Value::Map(_) | Value::List(_) | Value::Null => Err(structure_error(path, "must be a string")),
        value => Ok(value.as_str().map_or_else(|| setpoint_api::json::to_text(value), str::to_owned)),
    }
}

/// Finds the line of a path in a conventionally formatted file: a rule begins with a dash, and keys stand at
/// the beginning of a line or of a flow mapping.
fn find_line(text: &str, path: &str) -> Option<usize> {
    let (at, inner) = path.strip_prefix("rules[")?.split_once(']')?;
    let indent = |line: &str| line.len() - line.trim_start().len();
    let dashes = || text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("- "));
    let outer = dashes().map(|(_, line)| indent(line)).min()?;
    let mut begins = dashes().filter(|(_, line)| indent(line) == outer).map(|(number, _)| number);
    let begin = begins.nth(at.parse().ok()?)?;
    let end = begins.next().unwrap_or(usize::MAX);
    let mut found = begin;
    for name in inner.split('.').filter(|name| !name.is_empty()) {
        let has_key = |(_, line): &(usize, &str)| {
            line.match_indices(name).any(|(at, _)| {
                let before = line[..at].trim_end_matches(['"', '\'']);
                let after = line[at + name.len()..].trim_start_matches(['"', '\'']);
                after.trim_start().starts_with(':')
                    && !before.ends_with(|c: char| c.is_alphanumeric() || "-_./".contains(c))
            })
        };
        let lines = text.lines().enumerate().skip(found).take_while(|(number, _)| *number < end);
        match lines.into_iter().find(has_key) {
            Some((number, _)) => found = number,
            None => break,
        }
    }
    Some(found + 1)
}

impl BehaviorRule {
    /// `true` if the rule matches a container with this command line.
    #[must_use]
    pub fn matches(&self, container: &Container, words: &[String], labels: &Pairs) -> bool {
        self.image.as_ref().is_none_or(|pattern| matches_pattern(pattern, &container.image))
            && self.command.as_ref().is_none_or(|pattern| matches_pattern(pattern, &words.join(" ")))
            && self
                .labels
                .iter()
                .all(|(name, pattern)| labels.get(name).is_some_and(|value| matches_pattern(pattern, value)))
    }
}

/// `true` if the text matches a pattern, in which `*` stands for anything.
fn matches_pattern(pattern: &str, text: &str) -> bool {
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
    fn patterns_match() {
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
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn rules_match_image_command_and_labels() {
        let text = br#"
rules:
- match: {image: "busybox*", command: "*--once*", labels: {app: "web*"}}
  exit-after: 5s
  exit-code: 2
  hangs: true
  log: [one, two]
"#;
        let rules = parse_rules(text).unwrap();
        let container = Container { image: "busybox:1".to_owned(), ..Container::default() };
        let labels: Pairs = serde_json::from_str(r#"{"app":"web-1"}"#).unwrap();
        let words = ["run".to_owned(), "--once".to_owned()];
        assert!(rules[0].matches(&container, &words, &labels));
        assert!(!rules[0].matches(&container, &words[..1], &labels));
        assert!(!rules[0].matches(&container, &words, &Pairs::default()));
        assert_eq!((rules[0].overrides.exit_code, rules[0].overrides.hangs), (Some(2), Some(true)));
        assert_eq!(rules[0].overrides.log, ["one", "two"]);
    }

    #[test]
    fn errors_name_path_and_line() {
        for (text, path) in [
            ("rules: 1", "rules"),
            ("rulez: []", "rulez"),
            ("rules: [{exit-code: 300}]", "rules[0].exit-code"),
            ("rules:\n- hangs: true\n- match: nginx\n", "rules[1].match (line 3): must be an object"),
            ("rules:\n- match:\n    image: a\n    name: x\n", "rules[0].match.name (line 4)"),
            ("rules:\n- match: {labels: {a: [b]}}\n", "rules[0].match.labels.a (line 2)"),
            ("rules:\n- log: {a: b}\n", "rules[0].log (line 2)"),
            ("rules:\n- match:\n", "rules[0].match (line 2)"),
            ("rules:\n- log:\n  - a: b\n", "rules[0].log (line 2)"),
            ("rules:\n- exit-after: [1s, 2s]\n", "rules[0].exit-after (line 2)"),
            ("rules:\n- cpu: -1\n", "rules[0].cpu (line 2): must not be negative"),
            ("rules:\n- hangs: true\n  hangs: false\n", "rules[0].hangs: "),
            ("rules: [{match: {name: x}}]", "rules[0].match.name"),
        ] {
            let error = parse_rules(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(path), "{text}: {error}");
        }
    }
}
