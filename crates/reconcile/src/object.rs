//! Object at one revision, as planners read it: metadata, and a typed view of the other fields.
//!
//! The bytes are those that the API serves; the object refers to their storage ([`EncodedObject`]). Metadata is decoded
//! when the object is created, or on first use ([`Object::lazy`]). The [`View`], a struct with the fields that planners
//! of the kind read, is decoded on first use, once per object and commit. Start at [`Object`].

mod pairs;

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use memchr::memmem;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use setpoint_api::{Key, Revision, Time, Value, json, rfc3339};
use thiserror::Error;

pub use self::pairs::Pairs;

/// Typed view of one resource, with the fields that planners read. All planners share the one view of a resource.
pub trait View: DeserializeOwned + Send + Sync + 'static {
    /// Resource of the objects.
    const RESOURCE: &'static str;

    /// Releases unused capacity. Views with many instances implement it.
    fn shrink(&mut self) {}

    /// Shares equal parts with the view of a sibling or of a previous version. Views with many instances implement it.
    fn share(&mut self, _other: &Self) {}

    /// Decodes the body of an object in its stored form: all that follows type and metadata, such as
    /// `,"spec":{},"status":{}}`. Unchanged parts can be copied from the previous version. `None` selects the general
    /// decoder, which is the default.
    fn decode_stored(_body: &str, _previous: Option<PreviousVersion<'_, Self>>) -> Option<Self> {
        None
    }
}

/// Previous version of an object.
#[derive(Debug)]
pub struct PreviousVersion<'a, V> {
    /// Its view.
    pub view: &'a V,
    /// Bytes that the view was decoded from: all that follows type and metadata.
    pub body: &'a [u8],
}

/// Storage of an object's immutable bytes.
pub trait EncodedObject: Send + Sync + 'static {
    /// Returns the bytes. Packed bytes are unpacked by every call.
    fn bytes(&self) -> ObjectBytes<'_>;
}

/// Bytes of an object.
#[derive(Clone, Debug)]
pub enum ObjectBytes<'a> {
    /// Borrowed from the storage.
    Borrowed(&'a [u8]),
    /// Shared with the storage, or unpacked.
    Shared(Bytes),
}

impl Deref for ObjectBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            ObjectBytes::Borrowed(bytes) => bytes,
            ObjectBytes::Shared(bytes) => bytes,
        }
    }
}

impl<T: AsRef<[u8]> + Send + Sync + 'static> EncodedObject for T {
    fn bytes(&self) -> ObjectBytes<'_> {
        ObjectBytes::Borrowed(self.as_ref())
    }
}

/// Object at one revision. Cloning copies a pointer.
#[derive(Clone)]
pub struct Object(Arc<Inner>);

struct Inner {
    key: Key,
    revision: Revision,
    commit_time: Time,
    encoded: Box<dyn EncodedObject>,
    head: OnceLock<Box<Head>>,
}

/// Error for an object whose metadata cannot be decoded.
#[derive(Debug, Error)]
#[error("cannot decode {key} at revision {revision}: {source}")]
pub struct ObjectDecodeError {
    key: Key,
    revision: Revision,
    source: serde_json::Error,
}

impl Object {
    /// Decodes the metadata of an object that was committed at `revision` and `commit_time`. The fields after the
    /// metadata are not validated before the view is decoded.
    ///
    /// # Errors
    /// If the bytes are no JSON object, or their metadata is invalid.
    pub fn read(
        key: Key,
        revision: Revision,
        commit_time: Time,
        encoded: impl EncodedObject,
    ) -> Result<Object, ObjectDecodeError> {
        match Head::decode(&encoded.bytes()) {
            Ok(head) => {
                let (encoded, head) = (Box::new(encoded), OnceLock::from(Box::new(head)));
                Ok(Object(Arc::new(Inner { key, revision, commit_time, encoded, head })))
            }
            Err(source) => Err(ObjectDecodeError { key, revision, source }),
        }
    }

    /// Returns an object whose metadata is decoded on first use. Invalid metadata reads as empty.
    #[must_use]
    pub fn lazy(key: Key, revision: Revision, commit_time: Time, encoded: impl EncodedObject) -> Object {
        let (encoded, head) = (Box::new(encoded), OnceLock::new());
        Object(Arc::new(Inner { key, revision, commit_time, encoded, head }))
    }

    fn head(&self) -> &Head {
        self.0.head.get_or_init(|| Box::new(Head::decode(&self.bytes()).unwrap_or_default()))
    }

    /// Returns its key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// Returns the revision of its last write.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// Returns the time of its last write, by the clock of the store.
    #[must_use]
    pub fn commit_time(&self) -> Time {
        self.0.commit_time
    }

    /// Returns its metadata.
    #[must_use]
    pub fn meta(&self) -> &ObjectMeta {
        &self.head().meta
    }

    /// Returns its bytes, as the API serves them.
    #[must_use]
    pub fn bytes(&self) -> ObjectBytes<'_> {
        self.0.encoded.bytes()
    }

    /// Parses the whole object, for the rare plan that copies fields which no view has.
    #[must_use]
    pub fn value(&self) -> Value {
        json::parse(&self.bytes()).unwrap_or(Value::Null)
    }

    /// Returns its view; `None` if the object is of another resource, or cannot be decoded.
    #[must_use]
    pub fn view<V: View>(&self) -> Option<&V> {
        if self.0.key.resource().as_str() != V::RESOURCE {
            return None;
        }
        self.head().view.get_or_init(|| self.decode_view::<V>(None, None)).as_ref()?.downcast_ref()
    }

    /// Decodes the view now if that of the previous version is decoded: unchanged parts are copied or shared.
    pub(crate) fn decode_view_after<V: View>(&self, previous: &Object) {
        let Some((head, view)) = previous.decoded_view::<V>() else { return };
        if head.body_start > 0 {
            let bytes = previous.bytes();
            let previous = PreviousVersion { view, body: &bytes[head.body_start..] };
            self.head().view.get_or_init(|| self.decode_view(Some(previous), Some(view)));
        }
    }

    /// Decodes the view now if that of a sibling is decoded: equal parts are shared with it.
    pub(crate) fn decode_view_beside<V: View>(&self, sibling: &Object) {
        if let Some((_, view)) = sibling.decoded_view::<V>() {
            self.head().view.get_or_init(|| self.decode_view(None, Some(view)));
        }
    }

    fn decoded_view<V: View>(&self) -> Option<(&Head, &V)> {
        let head = self.0.head.get()?;
        Some((head, head.view.get()?.as_ref()?.downcast_ref()?))
    }

    fn decode_view<V: View>(
        &self,
        previous: Option<PreviousVersion<'_, V>>,
        share_with: Option<&V>,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        let (bytes, start) = (self.bytes(), self.head().body_start);
        let body = if start > 0 { std::str::from_utf8(&bytes[start..]).ok() } else { None };
        let view = body.and_then(|body| V::decode_stored(body, previous)).or_else(|| self.decode::<V>());
        let mut view = Box::new(view?);
        if let Some(other) = share_with {
            view.share(other);
        }
        view.shrink();
        Some(view)
    }

    /// Decodes the object without type and metadata, and caches nothing: for data that only one plan reads. `None` if it
    /// cannot be decoded.
    #[must_use]
    pub fn decode<T: DeserializeOwned>(&self) -> Option<T> {
        let (bytes, start) = (self.bytes(), self.head().body_start);
        // One UTF-8 validation of all bytes is cheaper than one per string. Only `from_str` is used: every other reader
        // would instantiate the decoder of each type again.
        if start == 0 {
            return serde_json::from_str(std::str::from_utf8(&bytes).ok()?).ok();
        }
        // `managedFields` can be half of an object: it is not even skipped by the parser.
        let mut body = String::with_capacity(bytes.len() - start);
        body.push('{');
        body.push_str(std::str::from_utf8(&bytes[start + 1..]).ok()?);
        serde_json::from_str(&body).ok()
    }
}

/// Decoded metadata and view.
#[derive(Default)]
struct Head {
    meta: ObjectMeta,
    /// Offset of the comma that follows type and metadata; 0 if other fields precede them.
    body_start: usize,
    view: OnceLock<Option<Box<dyn Any + Send + Sync>>>,
}

impl Head {
    /// Decodes an object up to its metadata.
    fn decode(bytes: &[u8]) -> Result<Head, serde_json::Error> {
        match Head::decode_stored(bytes) {
            Some(head) => Ok(head),
            None => Head::decode_any(bytes),
        }
    }

    /// Decodes an object whose metadata ends with `managedFields`, as in the stored form: they are long, and are skipped
    /// without parsing. `None` for any other form.
    fn decode_stored(bytes: &[u8]) -> Option<Head> {
        // No string contains this, because its quotes would be escaped.
        let managed_fields = memmem::find(bytes, b",\"managedFields\":[{")?;
        let end = managed_fields_end(bytes, managed_fields)?;
        let start = std::str::from_utf8(&bytes[..managed_fields]).ok()?;
        let mut text = String::with_capacity(start.len() + 2);
        text.push_str(start);
        text.push_str("}}");
        let mut found = HeadReader { meta: None, is_first: true };
        serde_json::Deserializer::from_str(&text).deserialize_map(&mut found).ok()?;
        let mut meta = found.meta.filter(|_| found.is_first)?;
        meta.owner_references.shrink_to_fit();
        Some(Head { meta, body_start: end + 1, view: OnceLock::new() })
    }

    /// Decodes any object up to its metadata.
    fn decode_any(bytes: &[u8]) -> Result<Head, serde_json::Error> {
        let mut found = HeadReader { meta: None, is_first: true };
        let text = std::str::from_utf8(bytes).map_err(serde_json::Error::custom)?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let result = reader.deserialize_map(&mut found);
        match (found.meta, result) {
            (None, Err(error)) => Err(error),
            // serde reports the fields after the metadata as trailing input; that is expected here.
            (meta, _) => {
                let end = if found.is_first { reader.into_iter::<IgnoredAny>().byte_offset() } else { 0 };
                let mut meta = meta.unwrap_or_default();
                meta.owner_references.shrink_to_fit();
                let body_start = if bytes.get(end) == Some(&b',') { end } else { 0 };
                Ok(Head { meta, body_start, view: OnceLock::new() })
            }
        }
    }
}

/// Returns the end of `managedFields`, if the metadata ends with them and a field follows.
///
/// `managedFields` contain no other list, so the first `}]` ends them. If the `}]` is inside a string, no field name can
/// follow: the next quote ends that string.
fn managed_fields_end(bytes: &[u8], managed_fields: usize) -> Option<usize> {
    const END: &[u8] = b"}]";
    let end = managed_fields + memmem::find(&bytes[managed_fields..], END)? + END.len();
    let name = bytes[end..].strip_prefix(b"},\"")?;
    name.first().is_some_and(u8::is_ascii_alphabetic).then_some(end)
}

/// Visitor that stops after the metadata.
struct HeadReader {
    meta: Option<ObjectMeta>,
    /// `true` if only `kind` and `apiVersion` precede the metadata.
    is_first: bool,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum HeadField {
    Metadata,
    Kind,
    ApiVersion,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for &mut HeadReader {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key()? {
            match field {
                HeadField::Metadata => {
                    self.meta = Some(map.next_value()?);
                    break;
                }
                HeadField::Kind | HeadField::ApiVersion => {}
                HeadField::Other => self.is_first = false,
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

impl PartialEq for Object {
    /// Compares key and revision.
    fn eq(&self, other: &Object) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.revision == other.0.revision && self.0.key == other.0.key)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.0.key, self.0.revision)
    }
}

/// Metadata of an object; fields mirror those of the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "fields mirror the API fields of the same name")]
pub struct ObjectMeta {
    pub name: Box<str>,
    /// Empty for cluster-scoped objects.
    #[serde(deserialize_with = "or_default")]
    pub namespace: Box<str>,
    pub uid: Box<str>,
    pub generation: i64,
    #[serde(deserialize_with = "deserialize_time")]
    pub creation_timestamp: Option<Time>,
    /// Time at which the grace period ends; absent unless the object is being deleted.
    #[serde(deserialize_with = "deserialize_time")]
    pub deletion_timestamp: Option<Time>,
    pub deletion_grace_period_seconds: Option<i64>,
    pub labels: Pairs,
    pub annotations: Pairs,
    pub owner_references: Vec<OwnerReference>,
    pub finalizers: Vec<Box<str>>,
}

impl ObjectMeta {
    /// `true` if the object is being deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns the owner reference of its controller.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// `true` if the UID is that of its controller.
    #[must_use]
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| &*owner.uid == uid)
    }

    /// `true` if it has the finalizer.
    #[must_use]
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| &**finalizer == name)
    }

    /// Returns the creation timestamp; the epoch if absent.
    #[must_use]
    pub fn created(&self) -> Time {
        self.creation_timestamp.unwrap_or(Time::EPOCH)
    }
}

/// Reference to an owner of an object; fields mirror those of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "fields mirror the API fields of the same name")]
pub struct OwnerReference {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    pub controller: bool,
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// Returns the API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Deserializes an RFC 3339 time or `null`, for fields of views:
/// `#[serde(default, deserialize_with = "setpoint_reconcile::object::deserialize_time")]`.
///
/// # Errors
/// If the time is invalid.
pub fn deserialize_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    struct Reader;
    impl<'de> Visitor<'de> for Reader {
        type Value = Option<Time>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a time")
        }

        fn visit_unit<E>(self) -> Result<Option<Time>, E> {
            Ok(None)
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Option<Time>, E> {
            rfc3339::parse(text).map(Some).map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Reader)
}

/// Deserializes a value; `null` becomes the default.
///
/// # Errors
/// If the value is invalid.
pub fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use setpoint_api::Resource;

    use super::*;

    fn object(text: &'static str) -> Object {
        let key = Key::from_path(&Resource::new("pods").unwrap(), "a/x").unwrap();
        Object::read(key, Revision(7), Time::EPOCH, text).unwrap()
    }

    #[derive(Deserialize)]
    struct Pod {
        spec: Spec,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        node_name: String,
    }

    impl View for Pod {
        const RESOURCE: &'static str = "pods";
    }

    #[test]
    fn metadata_and_view_are_decoded_from_the_same_bytes() {
        let pod = object(
            r#"{"metadata":{"name":"x","namespace":"a","uid":"u","creationTimestamp":"2026-11-15T20:07:00Z",
            "labels":{"b":"2","a":"1"},"ownerReferences":[{"kind":"ReplicaSet","uid":"o","controller":true}]},
            "spec":{"nodeName":"n"}}"#,
        );
        assert_eq!(pod.meta().labels.get("a"), Some("1"));
        assert_eq!(pod.meta().labels.get("c"), None);
        assert!(pod.meta().is_controlled_by("o") && !pod.meta().is_deleted());
        assert_eq!(pod.meta().creation_timestamp.map(|t| t.0 % 60_000_000), Some(0));
        assert_eq!(pod.view::<Pod>().unwrap().spec.node_name, "n");
    }

    #[test]
    fn metadata_is_decoded_at_any_position() {
        let spec = r#""spec":{"nodeName":"n"}"#;
        let metadata = r#""metadata":{"uid":"u","name":"x","managedFields":[{"spec":{}}]}"#;
        let [kind, data] = [r#""kind":"Pod""#, r#""data":{"metadata":{"name":"no"}}"#];
        let orders = [
            [kind, metadata, data, spec],
            [metadata, spec, data, kind],
            [data, metadata, spec, kind],
            [spec, kind, data, metadata],
        ];
        for order in orders {
            for comma in [",", " ,\n "] {
                let text = format!("{{{}}}", order.join(comma));
                let pod = object(text.leak());
                assert_eq!((&*pod.meta().name, &*pod.meta().uid), ("x", "u"));
                assert_eq!(pod.view::<Pod>().unwrap().spec.node_name, "n", "{order:?}");
            }
        }
        let pod = object("{}");
        let read = |text: &'static str| Object::read(pod.key().clone(), Revision(1), Time::EPOCH, text);
        assert!(read(r#"{"spec":{}}"#).unwrap().meta().name.is_empty());
        let lazy = |text: &'static str| Object::lazy(pod.key().clone(), Revision(1), Time::EPOCH, text);
        let pod = lazy(r#"{"kind":"Pod","metadata":{"uid":"u"},"spec":{"nodeName":"n"}}"#);
        assert_eq!(pod.view::<Pod>().unwrap().spec.node_name, "n");
        assert_eq!((&*pod.meta().uid, &*lazy("[]").meta().uid), ("u", ""));
        for text in [r#"{"metadata":3}"#, r#"{"metadata":{"name":"x""#, "[]", ""] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn managed_fields_are_skipped_in_the_stored_form_only() {
        let managed_fields =
            r#""managedFields":[{"manager":"m","fieldsV1":{"f:a]},":{},"k:{\"x\":\"}\"}":{}}}]"#;
        let quoted = r#""annotations":{"a":"x,\"managedFields\":[{\"}],"}"#;
        let spec = r#""spec":{"nodeName":"n"}"#;
        for (text, is_stored) in [
            (
                format!(r#"{{"kind":"Pod","metadata":{{"name":"x","uid":"u",{managed_fields}}},{spec}}}"#),
                true,
            ),
            (
                format!(
                    r#"{{"metadata":{{"name":"x","uid":"u",{quoted},{managed_fields}}},{spec},"x":{{}}}}"#
                ),
                true,
            ),
            (format!(r#"{{"metadata":{{"name":"x",{managed_fields},"uid":"u"}},{spec}}}"#), false),
            (
                format!(
                    r#"{{"metadata":{{"name":"x",{managed_fields},"uid":"u"}},"y":{{"z":[{{}}]}},{spec}}}"#
                ),
                false,
            ),
            (
                format!(
                    r#"{{"metadata":{{"name":"x","uid":"u","managedFields":[{{"manager":"a}}]}},"}}]}},{spec}}}"#
                ),
                false,
            ),
            (format!(r#"{{"metadata":{{{managed_fields},"name":"x","uid":"u"}},{spec}}}"#), false),
            (
                format!(
                    r#"{{"metadata":{{"name":"x","uid":"u",{quoted}}},"y":{{"a":1,{managed_fields}}},{spec}}}"#
                ),
                false,
            ),
            (
                format!(r#"{{"metadata":{{"y":{{"a":1,{managed_fields}}},"name":"x","uid":"u"}},{spec}}}"#),
                false,
            ),
            (format!(r#"{{{spec},"metadata":{{"name":"x","uid":"u",{managed_fields}}},"x":{{}}}}"#), false),
        ] {
            assert_eq!(Head::decode_stored(text.as_bytes()).is_some(), is_stored, "{text}");
            let pod = object(text.clone().leak());
            assert_eq!((&*pod.meta().name, &*pod.meta().uid), ("x", "u"), "{text}");
            assert_eq!(pod.view::<Pod>().unwrap().spec.node_name, "n", "{text}");
            let truncated = Object::read(
                pod.key().clone(),
                Revision(1),
                Time::EPOCH,
                pod.bytes()[..text.len() - 9].to_vec(),
            );
            assert!(truncated.is_err() || truncated.unwrap().view::<Pod>().is_none());
        }
    }

    #[test]
    fn view_of_an_invalid_object_is_none() {
        assert!(object(r#"{"metadata":{"name":"x"},"spec":3}"#).view::<Pod>().is_none());
    }
}
