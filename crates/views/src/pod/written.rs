//! Reading a Pod in its stored form after an earlier commit of it.
//!
//! What is wanted of a Pod hardly ever changes once it is made, and is most of its text; how it stands is written several
//! times. So where the text of the spec is the same, or has only got the name of a node, the spec is that of before.

use serde::de::DeserializeOwned;
use setpoint_api::json::Members;
use setpoint_reconcile::object::Before;

use super::{Pod, PodSpec, PodStatus};

/// How long the text of the spec is that a view was read from; 0 if nobody knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written(usize);

const SPEC: &str = ",\"spec\":";
const STATUS: &str = ",\"status\":";

/// Reads a spec and a status. Nothing if there is anything else.
pub(super) fn read(body: &str, before: Option<Before<'_, Pod>>) -> Option<Pod> {
    let text = body.strip_prefix(SPEC)?;
    let known =
        before.and_then(|before| same_spec(before.view, before.body.strip_prefix(SPEC.as_bytes())?, text));
    let (spec, length) = known.or_else(|| first::<PodSpec>(text))?;
    let rest = text.get(length..)?;
    let (status, end) = match rest.strip_prefix(STATUS) {
        Some(text) => {
            let (status, length) = first::<PodStatus>(text)?;
            (status, text.get(length..)?)
        }
        None => (PodStatus::default(), rest),
    };
    (end == "}").then_some(Pod { spec, status, written: Written(length) })
}

/// The value with which a text begins, and how long it is.
fn first<T: DeserializeOwned>(text: &str) -> Option<(T, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// The spec with which a text begins, and how long it is, if it is that of an earlier commit, or that with a node.
fn same_spec(pod: &Pod, before: &[u8], text: &str) -> Option<(PodSpec, usize)> {
    let before = before.get(..pod.written.0).filter(|before| !before.is_empty())?;
    if text.as_bytes().starts_with(before) {
        return Some((pod.spec.clone(), before.len()));
    }
    if !pod.spec.node_name.is_empty() {
        return None;
    }
    let node = Members::of(text, 0).find(|member| member.name == "nodeName")?;
    let name = text.get(node.value..node.end)?.strip_prefix('"')?.strip_suffix('"')?;
    // With the comma that follows it: the name of a node never comes last.
    let rest = text.get(node.end..)?.strip_prefix(',')?;
    let (ahead, behind) = before.split_at_checked(node.start)?;
    let is_same =
        text.as_bytes().starts_with(ahead) && rest.as_bytes().starts_with(behind) && !name.contains('\\');
    let spec = || PodSpec { node_name: name.to_owned(), ..pod.spec.clone() };
    is_same.then(|| (spec(), text.len() - rest.len() + behind.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(pod: &Pod) -> (String, String) {
        (format!("{:?}", pod.spec), format!("{:?}", pod.status))
    }

    /// Reads one after another, and says for each which of the two spared it to read the spec.
    fn read_in_turn(bodies: &[&str]) -> Vec<bool> {
        let mut before: Option<(Pod, &str)> = None;
        let mut spared = Vec::new();
        for body in bodies {
            let known = before.as_ref().map(|(view, body)| Before { view, body: body.as_bytes() });
            let text = body.strip_prefix(SPEC).unwrap();
            spared.push(known.as_ref().is_some_and(|known| {
                same_spec(known.view, known.body.strip_prefix(SPEC.as_bytes()).unwrap(), text).is_some()
            }));
            let pod = read(body, known).unwrap();
            let anew: Pod = serde_json::from_str(&format!("{{{}", &body[1..])).unwrap();
            assert_eq!(parts(&pod), parts(&anew), "{body}");
            before = Some((pod, body));
        }
        spared
    }

    #[test]
    fn a_spec_is_read_again_only_if_it_changed() {
        let made = r#","spec":{"containers":[{"name":"c"}],"nodeSelector":{"a":"b"},"schedulerName":"s"},"status":{"phase":"Pending"}}"#;
        let bound = made.replace(r#""schedulerName""#, r#""nodeName":"n","schedulerName""#);
        let runs = bound.replace("Pending", "Running");
        let other = runs.replace(r#""name":"c""#, r#""name":"c","image":"i""#);
        let bare = r#","spec":{"containers":[]}}"#;
        assert_eq!(
            read_in_turn(&[made, &bound, &runs, &other, &other, bare]),
            [false, true, true, false, true, false]
        );
    }

    #[test]
    fn another_change_than_a_node_is_not_taken_for_one() {
        let made = r#","spec":{"nodeSelector":{"a":"b"},"schedulerName":"s"},"status":{}}"#;
        for changed in [
            made.replace(r#"{"a""#, r#"{"nodeName":"n","a""#),
            made.replace(r#""schedulerName":"s""#, r#""nodeName":"n","schedulerName":"t""#),
            made.replace(r#""schedulerName":"s""#, r#""nodeName":"n\"","schedulerName":"s""#),
            made.replace(r#""schedulerName":"s""#, r#""schedulerName":"s","nodeName":"n""#),
            made.replace(r#""nodeSelector":{"a":"b"}"#, r#""nodeName":"n""#),
        ] {
            assert_ne!(changed, made);
            assert_eq!(read_in_turn(&[made, &changed, made]), [false, false, false], "{changed}");
        }
        let bound = made.replace(r#""schedulerName""#, r#""nodeName":"n","schedulerName""#);
        let moved = bound.replace(r#""n""#, r#""m""#);
        assert_eq!(read_in_turn(&[&bound, &moved, made]), [false, false, false]);
    }

    #[test]
    fn what_is_no_spec_and_status_is_left_to_others() {
        for body in [
            r#","status":{}}"#,
            r#","spec":{},"x":1}"#,
            r#","spec":{},"status":{},"x":1}"#,
            r#","spec":3}"#,
            "",
        ] {
            assert!(read(body, None).is_none(), "{body}");
        }
    }
}
