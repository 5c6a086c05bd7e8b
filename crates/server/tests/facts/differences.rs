//! Comparison with the facts, and the list of known differences.

use serde_json::{Map, Value, json};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts/differences");

/// Difference between this server and upstream.
fn differences(name: &str) -> Map<String, Value> {
    let text = std::fs::read_to_string(format!("{PATH}/{name}.json")).unwrap_or_else(|_| "{}".into());
    serde_json::from_str(&text).unwrap()
}

/// Replays every case, and asserts that the answers are those of upstream, or differ as known.
pub fn compare(name: &str, facts: &Value, replay: impl Fn(&Value) -> Value) {
    let known = differences(name);
    let mut found = Map::new();
    let mut wrong = String::new();
    let cases = facts["cases"].as_array().unwrap();
    assert!(cases.len() > 100, "{}", cases.len());
    for case in cases {
        let seen = replay(case);
        if seen == *case {
            continue;
        }
        let id = case["id"].as_str().unwrap();
        let ours = changes(case, &seen);
        let reason = known.get(id).map_or("unknown", |known| known["reason"].as_str().unwrap());
        if known.get(id).is_none_or(|known| known["ours"] != ours) {
            wrong.push_str(&format!("\n{name} {id}\nupstream {case}\nours     {seen}\n"));
        }
        found.insert(id.into(), json!({"reason": reason, "ours": ours}));
    }
    if std::env::var_os("SETPOINT_WRITE_DIFFERENCES").is_some() {
        let lines: Vec<String> = found.iter().map(|(id, entry)| format!("{}: {entry}", json!(id))).collect();
        std::fs::create_dir_all(PATH).unwrap();
        std::fs::write(format!("{PATH}/{name}.json"), format!("{{\n{}\n}}\n", lines.join(",\n"))).unwrap();
        return;
    }
    let agreed: Vec<&String> = known.keys().filter(|id| !found.contains_key(*id)).collect();
    assert!(agreed.is_empty(), "no longer different: {agreed:?}");
    assert!(wrong.is_empty(), "{wrong}");
    assert!(found.values().all(|entry| entry["reason"] != "unknown"), "differences need a reason");
}

/// The answers of ours that differ from those of a case.
fn changes(case: &Value, seen: &Value) -> Value {
    let mut ours = Map::new();
    for name in ["refused", "warnings", "steps", "becomes"] {
        if case.get(name) != seen.get(name) {
            ours.insert(name.into(), seen.get(name).cloned().unwrap_or_default());
        }
    }
    ours.into()
}
