//! Heartbeats: writes that only renew a timestamp, as those of nodes and Leases do.
//!
//! They are most of the writes in a quiet cluster, and no plan of another object depends on them: a controller that needs
//! them watches them. So they do not cause a resync of the keys that have read a node (see `World::has_changed`).

use crate::object::Object;

/// Fields of the metadata and of its managed fields that change with every write.
const ALWAYS: [&str; 2] = ["resourceVersion", "time"];

/// `true` if two versions of an object differ at most by a heartbeat, which renews `field`.
pub(crate) fn is_heartbeat(before: &Object, after: &Object, field: &str) -> bool {
    before.meta().uid == after.meta().uid && is_same_but(&before.bytes(), &after.bytes(), field)
}

/// `true` if two JSON texts are equal except for the times in `field` and [`ALWAYS`].
fn is_same_but(mut before: &[u8], mut after: &[u8], field: &str) -> bool {
    loop {
        let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
        if same == before.len() && same == after.len() {
            return true;
        }
        // The first difference must lie within the value of such a field, which is then skipped in both texts.
        let Some(value) = before[..same].iter().rposition(|byte| *byte == b'"').map(|quote| quote + 1) else {
            return false;
        };
        let Some(name) = before[..value].strip_suffix(b":\"").and_then(last_name) else { return false };
        let is_masked = std::iter::once(field).chain(ALWAYS).any(|masked| name == masked.as_bytes());
        let (Some(old), Some(new)) = (text(&before[value..]), text(&after[value..])) else { return false };
        if !is_masked || !is_stamp(old) || !is_stamp(new) {
            return false;
        }
        (before, after) = (&before[value + old.len()..], &after[value + new.len()..]);
    }
}

/// Returns the quoted name at the end of a text.
fn last_name(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_suffix(b"\"")?;
    let quote = text.iter().rposition(|byte| *byte == b'"')?;
    Some(&text[quote + 1..])
}

/// Returns the text up to the next quote.
fn text(rest: &[u8]) -> Option<&[u8]> {
    rest.iter().position(|byte| *byte == b'"').map(|end| &rest[..end])
}

/// `true` if a text is a time or a revision: digits, and the separators of a time.
fn is_stamp(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_digit() || b"-:.TZ+".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeat_differs_only_in_its_times() {
        let node = |revision: u32, beat: &str, ready: &str| {
            format!(
                r#"{{"metadata":{{"name":"n","resourceVersion":"{revision}","managedFields":[{{"time":"{beat}"}}]}},"status":{{"conditions":[{{"lastHeartbeatTime":"{beat}","status":"{ready}"}},{{"lastHeartbeatTime":"{beat}"}}]}}}}"#
            )
        };
        let same = |a: &str, b: &str| is_same_but(a.as_bytes(), b.as_bytes(), "lastHeartbeatTime");
        let (first, later) = ("2026-01-01T00:00:00Z", "2026-01-01T00:05:09Z");
        assert!(same(&node(9, first, "True"), &node(10, later, "True")));
        assert!(same(&node(9, first, "True"), &node(9, first, "True")));
        assert!(!same(&node(9, first, "True"), &node(10, later, "False")));
        assert!(!same(&node(9, first, "True"), &node(10, "never", "True")));
        let since = |time: &str| format!(r#"{{"lastTransitionTime":"{time}"}}"#);
        assert!(!same(&since(first), &since(later)));
        assert!(!same(r#"{"a":1}"#, r#"{"a":1,"b":2}"#));
        assert!(!same(r#"{"time":"1"}"#, r#"{"time":"1""#));
        assert!(!same("", "x") && same("", ""));
    }
}
