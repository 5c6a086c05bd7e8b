//! Incremental decoder of a Pod in its stored form.
//!
//! The spec is most of a pod's JSON and rarely changes after creation, while the status is written several times. If the
//! JSON of the spec equals that of the previous version, or differs only in an added `nodeName`, the decoded spec is
//! reused.

use serde::de::DeserializeOwned;
use setpoint_api::json::Members;
use setpoint_reconcile::object::PreviousVersion;

use super::{Pod, PodSpec, PodStatus};

/// Length in bytes of the JSON of the spec that a view was decoded from; 0 if unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpecLength(usize);

const SPEC: &str = ",\"spec\":";
const STATUS: &str = ",\"status\":";

/// Decodes a spec and a status. `None` if the body has any other field.
pub(super) fn decode(body: &str, previous: Option<PreviousVersion<'_, Pod>>) -> Option<Pod> {
    let text = body.strip_prefix(SPEC)?;
    let reused = previous
        .and_then(|previous| reuse_spec(previous.view, previous.body.strip_prefix(SPEC.as_bytes())?, text));
    let (spec, length) = reused.or_else(|| decode_prefix::<PodSpec>(text))?;
    let rest = text.get(length..)?;
    let (status, end) = match rest.strip_prefix(STATUS) {
        Some(text) => {
            let (status, length) = decode_prefix::<PodStatus>(text)?;
            (status, text.get(length..)?)
        }
        None => (PodStatus::default(), rest),
    };
    (end == "}").then_some(Pod { spec, status, spec_length: SpecLength(length) })
}

/// Decodes the value at the start of a text; returns it with its length.
fn decode_prefix<T: DeserializeOwned>(text: &str) -> Option<(T, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// Returns the spec at the start of `text`, with its length, if it equals that of the previous version or adds a
/// `nodeName` to it. `previous` starts with the spec that `pod` was decoded from.
fn reuse_spec(pod: &Pod, previous: &[u8], text: &str) -> Option<(PodSpec, usize)> {
    let previous = previous.get(..pod.spec_length.0).filter(|previous| !previous.is_empty())?;
    if text.as_bytes().starts_with(previous) {
        return Some((pod.spec.clone(), previous.len()));
    }
    if !pod.spec.node_name.is_empty() {
        return None;
    }
    let node = Members::of(text, 0).find(|member| member.name == "nodeName")?;
    let name = text.get(node.value..node.end)?.strip_prefix('"')?.strip_suffix('"')?;
    // A comma follows: fields are stored in schema order, and `schedulerName`, which is always set, comes later.
    let rest = text.get(node.end..)?.strip_prefix(',')?;
    let (ahead, behind) = previous.split_at_checked(node.start)?;
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

    /// Decodes versions of a pod one after another, and returns for each if it reused the spec of the previous one.
    fn decode_versions(bodies: &[&str]) -> Vec<bool> {
        let mut last: Option<(Pod, &str)> = None;
        let mut reused = Vec::new();
        for body in bodies {
            let previous = last.as_ref().map(|(view, body)| PreviousVersion { view, body: body.as_bytes() });
            let text = body.strip_prefix(SPEC).unwrap();
            reused.push(previous.as_ref().is_some_and(|previous| {
                reuse_spec(previous.view, previous.body.strip_prefix(SPEC.as_bytes()).unwrap(), text)
                    .is_some()
            }));
            let pod = decode(body, previous).unwrap();
            let expected: Pod = serde_json::from_str(&format!("{{{}", &body[1..])).unwrap();
            assert_eq!(parts(&pod), parts(&expected), "{body}");
            last = Some((pod, body));
        }
        reused
    }

    #[test]
    fn unchanged_or_bound_spec_is_reused() {
        let created = r#","spec":{"containers":[{"name":"c"}],"nodeSelector":{"a":"b"},"schedulerName":"s"},"status":{"phase":"Pending"}}"#;
        let bound = created.replace(r#""schedulerName""#, r#""nodeName":"n","schedulerName""#);
        let running = bound.replace("Pending", "Running");
        let other = running.replace(r#""name":"c""#, r#""name":"c","image":"i""#);
        let bare = r#","spec":{"containers":[]}}"#;
        assert_eq!(
            decode_versions(&[created, &bound, &running, &other, &other, bare]),
            [false, true, true, false, true, false]
        );
    }

    #[test]
    fn spec_with_another_change_is_decoded_again() {
        let created = r#","spec":{"nodeSelector":{"a":"b"},"schedulerName":"s"},"status":{}}"#;
        for changed in [
            created.replace(r#"{"a""#, r#"{"nodeName":"n","a""#),
            created.replace(r#""schedulerName":"s""#, r#""nodeName":"n","schedulerName":"t""#),
            created.replace(r#""schedulerName":"s""#, r#""nodeName":"n\"","schedulerName":"s""#),
            created.replace(r#""schedulerName":"s""#, r#""schedulerName":"s","nodeName":"n""#),
            created.replace(r#""nodeSelector":{"a":"b"}"#, r#""nodeName":"n""#),
        ] {
            assert_ne!(changed, created);
            assert_eq!(decode_versions(&[created, &changed, created]), [false, false, false], "{changed}");
        }
        let bound = created.replace(r#""schedulerName""#, r#""nodeName":"n","schedulerName""#);
        let moved = bound.replace(r#""n""#, r#""m""#);
        assert_eq!(decode_versions(&[&bound, &moved, created]), [false, false, false]);
    }

    #[test]
    fn body_with_other_fields_is_not_decoded() {
        for body in [
            r#","status":{}}"#,
            r#","spec":{},"x":1}"#,
            r#","spec":{},"status":{},"x":1}"#,
            r#","spec":3}"#,
            "",
        ] {
            assert!(decode(body, None).is_none(), "{body}");
        }
    }
}
