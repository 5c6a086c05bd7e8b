//! ConversionReviews: requests to conversion webhooks, and checks of their responses.

use aws_lc_rs::digest;
use bytes::Bytes;
use setpoint_api::custom::ConversionWebhook;
use setpoint_api::field_error::{ErrorList, Path};
use setpoint_api::go_format::type_name;
use setpoint_api::quote::Quoted;
use setpoint_api::{Map, Value, json, metadata, names};

use super::metrics::FailureType;
use crate::uuid;

/// API group of ConversionReviews.
const GROUP: &str = "apiextensions.k8s.io";
/// Versions of ConversionReview that are spoken.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// Fields of the metadata that a webhook may change.
const CHANGEABLE_FIELDS: [&str; 2] = ["labels", "annotations"];

/// A failed conversion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConversionError {
    /// Message, in upstream's words.
    pub message: String,
    /// Type of the failure, for metrics.
    pub failure_type: FailureType,
}

/// A request to a conversion webhook.
#[derive(Clone, Debug)]
pub struct ConversionReview {
    version: &'static str,
    uid: String,
    /// Requested `group/version`.
    api_version: Box<str>,
    /// The encoded review.
    pub body: Bytes,
}

impl ConversionReview {
    /// Encodes the review of objects, JSON texts, in the first version that the webhook and this server know.
    ///
    /// # Errors
    /// If there is none.
    pub fn encode(
        webhook: &ConversionWebhook,
        api_version: &str,
        objects: &[Bytes],
        entropy: [u64; 2],
    ) -> Result<ConversionReview, ConversionError> {
        let known = webhook
            .review_versions
            .iter()
            .find_map(|version| VERSIONS.into_iter().find(|known| *known == version.as_str()));
        let Some(version) = known else {
            let message = "no supported conversion review versions".to_owned();
            return Err(ConversionError { message, failure_type: FailureType::Call });
        };
        let uid = uuid::text(entropy[0], entropy[1]);
        let mut body = format!(
            r#"{{"kind":"ConversionReview","apiVersion":"{GROUP}/{version}","request":{{"uid":"{uid}","desiredAPIVersion":"{api_version}","objects":["#
        )
        .into_bytes();
        for (i, object) in objects.iter().enumerate() {
            if i > 0 {
                body.push(b',');
            }
            body.extend_from_slice(object);
        }
        body.extend_from_slice(b"]}}");
        Ok(ConversionReview { version, uid, api_version: api_version.into(), body: body.into() })
    }

    /// Reads the response: the converted objects, in the order of the request, with the metadata of the originals but
    /// for labels and annotations.
    ///
    /// # Errors
    /// If it is not a proper response to this review.
    pub fn decode(&self, sources: &[Bytes], response: &[u8]) -> Result<Vec<Value>, ConversionError> {
        let first = sources.first().and_then(|source| json::parse(source).ok()).unwrap_or_default();
        let kind = kind_text(&first);
        let failed = |failure_type, why: String| ConversionError {
            message: format!("conversion webhook for {kind} {why}"),
            failure_type,
        };
        let malformed = |why: String| failed(FailureType::MalformedResponse, format!("failed: {why}"));
        let review = json::parse(response).map_err(|error| malformed(error.to_string()))?;
        let objects = self.converted_objects(&review).map_err(malformed)?;
        if objects.len() != sources.len() {
            let why = format!("returned {} objects, expected {}", objects.len(), sources.len());
            return Err(failed(FailureType::PartialResponse, why));
        }
        let pairs = sources.iter().zip(objects).enumerate();
        let converted = pairs.map(|(at, (source, object))| {
            let original = json::parse(source).unwrap_or_default();
            self.restore(&original, object.clone()).map_err(|why| {
                let why = format!("returned invalid object at index {at}: {why}");
                failed(FailureType::InvalidConvertedObject, why)
            })
        });
        converted.collect()
    }

    /// Returns the converted objects of a response.
    fn converted_objects<'r>(&self, review: &'r Value) -> Result<&'r [Value], String> {
        let expected = format!("{GROUP}/{}", self.version);
        let (found, found_kind) = (review.str_at(&["apiVersion"]), review.str_at(&["kind"]));
        if self.version == "v1" && (found != expected || found_kind != "ConversionReview") {
            return Err(format!(
                "expected webhook response of {expected}, Kind=ConversionReview, got {found}, Kind={found_kind}"
            ));
        }
        let Some(response) = review.get("response").filter(|response| !response.is_null()) else {
            return Err("no response provided".to_owned());
        };
        let uid = response.str_at(&["uid"]);
        if self.version == "v1" && uid != self.uid {
            return Err(format!("expected response.uid={}, got {}", Quoted(&self.uid), Quoted(uid)));
        }
        let (status, message) =
            (response.str_at(&["result", "status"]), response.str_at(&["result", "message"]));
        if status != "Success" {
            return Err(match message {
                "" => format!("response.result.status was '{status}', not 'Success'"),
                message => message.to_owned(),
            });
        }
        Ok(response.get("convertedObjects").and_then(Value::as_list).unwrap_or_default())
    }

    /// Checks a converted object, and restores the metadata of the original but for labels and annotations.
    fn restore(&self, original: &Value, mut converted: Value) -> Result<Value, String> {
        let api_version = converted.str_at(&["apiVersion"]);
        if api_version != &*self.api_version {
            return Err(format!(
                "invalid groupVersion (expected {}, received {api_version})",
                self.api_version
            ));
        }
        let kinds = (original.str_at(&["kind"]), converted.str_at(&["kind"]));
        if kinds.0 != kinds.1 {
            return Err(format!("invalid kind (expected {}, received {})", kinds.0, kinds.1));
        }
        for (field, title) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let (before, after) = (metadata::text(original, field), metadata::text(&converted, field));
            if before != after {
                return Err(format!("must have the same {title}: {before} != {after}"));
            }
        }
        let restored = match converted.get("metadata") {
            None => return Err("missing metadata in converted object".to_owned()),
            Some(Value::Map(response)) => restored_metadata(original, response)?,
            Some(other) => {
                return Err(format!("invalid metadata of type {} in converted object", type_name(other)));
            }
        };
        converted.make_map().insert("metadata", restored);
        Ok(converted)
    }
}

/// Metadata of the original with the labels and annotations of the response.
fn restored_metadata(original: &Value, response: &Map) -> Result<Map, String> {
    let mut restored = original.get("metadata").and_then(Value::as_map).cloned().unwrap_or_default();
    for field in CHANGEABLE_FIELDS {
        let pairs = match response.get(field) {
            None | Some(Value::Null) => {
                restored.remove(field);
                continue;
            }
            Some(Value::Map(pairs)) => pairs,
            Some(other) => {
                return Err(format!(
                    "invalid metadata.{field} of type {} in converted object",
                    type_name(other)
                ));
            }
        };
        if let Some((key, value)) = pairs.iter().find(|(_, value)| value.as_str().is_none()) {
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {} in converted object",
                type_name(value)
            ));
        }
        if restored.get(field).and_then(Value::as_map) != Some(pairs) {
            let (mut errors, root) = (ErrorList::new(), Path::root("metadata"));
            let texts = pairs.iter().filter_map(|(key, value)| Some((key, value.as_str()?)));
            match field {
                "labels" => names::metadata::labels(&mut errors, &root.child(field), texts),
                _ => names::metadata::annotations(&mut errors, &root.child(field), texts),
            }
            if !errors.is_empty() {
                return Err(errors.to_string());
            }
        }
        restored.insert(field, pairs.clone());
    }
    Ok(restored)
}

/// Kind of an object as messages name it: `group/version, Kind=kind`.
#[must_use]
pub fn kind_text(object: &Value) -> String {
    format!("{}, Kind={}", object.str_at(&["apiVersion"]), object.str_at(&["kind"]))
}

/// Bits for the UID of a review, from the entropy of the server and the objects.
#[must_use]
pub fn uid_bits(entropy: u64, objects: &[Bytes]) -> [u64; 2] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&entropy.to_be_bytes());
    objects.iter().for_each(|object| context.update(object));
    let digest = context.finish();
    let half =
        |at: usize| digest.as_ref()[at..at + 8].iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    [half(0), half(8)]
}

#[cfg(test)]
mod tests;
