//! An object as planners see it: its metadata, and a view of what they read of the rest.
//!
//! The bytes are those the API serves; the object refers to whoever keeps them ([`Kept`]). Metadata is read when the object arrives, or when somebody first asks
//! ([`Object::unread`]); the view, a plain struct with the few fields that planners of the kind need, is decoded when
//! somebody first asks, once per object and commit.

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

/// What planners read of one kind. There is one view per resource, shared by all planners.
pub trait View: DeserializeOwned + Send + Sync + 'static {
    /// The resource it is a view of.
    const RESOURCE: &'static str;

    /// Gives back what room was left for more than there is: views of which there are many, and which stay, do so.
    fn shrink(&mut self) {}

    /// Refers to parts of a like object, or of an earlier commit of this one, where they are equal: views of which there
    /// are many do so.
    fn share(&mut self, _like: &Self) {}

    /// Reads what follows type and metadata of an object in its stored form: a comma, fields, a brace. What did not change
    /// since an earlier commit of the object can be taken from there. Nothing if it has to be read as any other text; so
    /// it is unless a view is worth more.
    fn read_stored(_body: &str, _before: Option<Before<'_, Self>>) -> Option<Self> {
        None
    }
}

/// An earlier commit of an object.
#[derive(Debug)]
pub struct Before<'a, V> {
    /// What was read of it.
    pub view: &'a V,
    /// What it was read from: all that followed type and metadata.
    pub body: &'a [u8],
}

/// Whoever keeps the bytes of an object. They never change.
pub trait Kept: Send + Sync + 'static {
    /// The bytes: made for each who asks, if they are not kept as they are.
    fn bytes(&self) -> ObjectBytes<'_>;
}

/// The bytes of an object.
#[derive(Clone, Debug)]
pub enum ObjectBytes<'a> {
    /// Where they lie.
    Borrowed(&'a [u8]),
    /// Shared with whoever keeps them, or unpacked.
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

impl<T: AsRef<[u8]> + Send + Sync + 'static> Kept for T {
    fn bytes(&self) -> ObjectBytes<'_> {
        ObjectBytes::Borrowed(self.as_ref())
    }
}

/// One object at one revision. Cloning it copies a pointer.
#[derive(Clone)]
pub struct Object(Arc<Inner>);

struct Inner {
    key: Key,
    revision: Revision,
    committed: Time,
    kept: Box<dyn Kept>,
    head: OnceLock<Box<Head>>,
}

/// An object that cannot be read.
#[derive(Debug, Error)]
#[error("{key} at revision {revision} cannot be read: {source}")]
pub struct Unreadable {
    key: Key,
    revision: Revision,
    source: serde_json::Error,
}

impl Object {
    /// Takes in the bytes of an object, committed at `revision` and `committed`. What follows the metadata is not looked
    /// at before somebody asks for the view.
    ///
    /// # Errors
    /// If they are no object with metadata.
    pub fn read(
        key: Key,
        revision: Revision,
        committed: Time,
        kept: impl Kept,
    ) -> Result<Object, Unreadable> {
        match Head::read(&kept.bytes()) {
            Ok(head) => {
                let (kept, head) = (Box::new(kept), OnceLock::from(Box::new(head)));
                Ok(Object(Arc::new(Inner { key, revision, committed, kept, head })))
            }
            Err(source) => Err(Unreadable { key, revision, source }),
        }
    }

    /// Takes in the bytes of an object whose metadata hardly anybody will ask for.
    #[must_use]
    pub fn unread(key: Key, revision: Revision, committed: Time, kept: impl Kept) -> Object {
        let (kept, head) = (Box::new(kept), OnceLock::new());
        Object(Arc::new(Inner { key, revision, committed, kept, head }))
    }

    fn head(&self) -> &Head {
        self.0.head.get_or_init(|| Box::new(Head::read(&self.bytes()).unwrap_or_default()))
    }

    /// Where it is kept.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// The revision it was written at.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// When it was written, by the clock of the store.
    #[must_use]
    pub fn committed(&self) -> Time {
        self.0.committed
    }

    /// What all objects have.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.head().meta
    }

    /// Its bytes, as the API serves them.
    #[must_use]
    pub fn bytes(&self) -> ObjectBytes<'_> {
        self.0.kept.bytes()
    }

    /// The whole object, parsed anew: for the rare plan that must copy what no view holds.
    #[must_use]
    pub fn value(&self) -> Value {
        json::parse(&self.bytes()).unwrap_or(Value::Null)
    }

    /// What planners read of it. Nothing if it is of another kind, or cannot be read as this one.
    #[must_use]
    pub fn view<V: View>(&self) -> Option<&V> {
        if self.0.key.resource().as_str() != V::RESOURCE {
            return None;
        }
        self.head().view.get_or_init(|| self.read_view::<V>(None, None)).as_ref()?.downcast_ref()
    }

    /// Reads the view now, if that of an earlier commit of the same object has been read: what did not change is taken from
    /// there.
    pub(crate) fn decode_view_after<V: View>(&self, before: &Object) {
        let Some((head, view)) = before.known_view::<V>() else { return };
        if head.body > 0 {
            let bytes = before.bytes();
            let before = Before { view, body: &bytes[head.body..] };
            self.head().view.get_or_init(|| self.read_view(Some(before), Some(view)));
        }
    }

    /// Reads the view now, if that of a like object has been read: equal parts are shared with it.
    pub(crate) fn decode_view_beside<V: View>(&self, other: &Object) {
        if let Some((_, view)) = other.known_view::<V>() {
            self.head().view.get_or_init(|| self.read_view(None, Some(view)));
        }
    }

    fn known_view<V: View>(&self) -> Option<(&Head, &V)> {
        let head = self.0.head.get()?;
        Some((head, head.view.get()?.as_ref()?.downcast_ref()?))
    }

    fn read_view<V: View>(
        &self,
        before: Option<Before<'_, V>>,
        like: Option<&V>,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        let (bytes, body) = (self.bytes(), self.head().body);
        let body = if body > 0 { std::str::from_utf8(&bytes[body..]).ok() } else { None };
        let view = body.and_then(|body| V::read_stored(body, before)).or_else(|| self.decode::<V>());
        let mut view = Box::new(view?);
        if let Some(like) = like {
            view.share(like);
        }
        view.shrink();
        Some(view)
    }

    /// Reads the object, but for type and metadata, anew: for what is dropped again with the plan. Nothing if it cannot be
    /// read as this.
    #[must_use]
    pub fn decode<T: DeserializeOwned>(&self) -> Option<T> {
        let (bytes, body) = (self.bytes(), self.head().body);
        // All of it is looked at for what is no text at once, which is cheaper than string by string. Everything is read
        // from text: each way to read makes code for every type that is read so.
        if body == 0 {
            return serde_json::from_str(std::str::from_utf8(&bytes).ok()?).ok();
        }
        // Who owns which field can be half of an object; so it is not even passed over.
        let mut rest = String::with_capacity(bytes.len() - body);
        rest.push('{');
        rest.push_str(std::str::from_utf8(&bytes[body + 1..]).ok()?);
        serde_json::from_str(&rest).ok()
    }
}

/// How an object begins, and what was read of the rest.
#[derive(Default)]
struct Head {
    meta: Meta,
    /// Where the comma stands after which there is all but type and metadata; 0 if they do not come first.
    body: usize,
    view: OnceLock<Option<Box<dyn Any + Send + Sync>>>,
}

impl Head {
    /// Reads an object up to its metadata.
    fn read(bytes: &[u8]) -> Result<Head, serde_json::Error> {
        match Head::read_stored(bytes) {
            Some(head) => Ok(head),
            None => Head::read_any(bytes),
        }
    }

    /// Reads an object whose metadata ends with who owns which field, as everything does that is stored: that is long, and
    /// is passed over without a look. Nothing if this is another one.
    fn read_stored(bytes: &[u8]) -> Option<Head> {
        // No string has this in it, for its quotes would be escaped.
        let owners = memmem::find(bytes, b",\"managedFields\":[{")?;
        let end = end_of_owners(bytes, owners)?;
        let start = std::str::from_utf8(&bytes[..owners]).ok()?;
        let mut short = String::with_capacity(start.len() + 2);
        short.push_str(start);
        short.push_str("}}");
        let mut found = HeadReader { meta: None, is_first: true };
        serde_json::Deserializer::from_str(&short).deserialize_map(&mut found).ok()?;
        let mut meta = found.meta.filter(|_| found.is_first)?;
        meta.owner_references.shrink_to_fit();
        Some(Head { meta, body: end + 1, view: OnceLock::new() })
    }

    /// Reads any object up to its metadata.
    fn read_any(bytes: &[u8]) -> Result<Head, serde_json::Error> {
        let mut found = HeadReader { meta: None, is_first: true };
        let text = std::str::from_utf8(bytes).map_err(serde_json::Error::custom)?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = reader.deserialize_map(&mut found);
        match (found.meta, read) {
            (None, Err(error)) => Err(error),
            // Whoever stops before the end is told off for it, but has what it came for.
            (meta, _) => {
                let end = if found.is_first { reader.into_iter::<IgnoredAny>().byte_offset() } else { 0 };
                let mut meta = meta.unwrap_or_default();
                meta.owner_references.shrink_to_fit();
                let body = if bytes.get(end) == Some(&b',') { end } else { 0 };
                Ok(Head { meta, body, view: OnceLock::new() })
            }
        }
    }
}

/// Where the list of who owns which field ends, if metadata end with it and a field follows them. There is no list in this
/// one. What looks like its end may stand in a text, but then no name of a field can follow: the next quote ends the text.
fn end_of_owners(bytes: &[u8], owners: usize) -> Option<usize> {
    const END: &[u8] = b"}]";
    let end = owners + memmem::find(&bytes[owners..], END)? + END.len();
    let name = bytes[end..].strip_prefix(b"},\"")?;
    name.first().is_some_and(u8::is_ascii_alphabetic).then_some(end)
}

/// Reads an object up to its metadata, and stops.
struct HeadReader {
    meta: Option<Meta>,
    /// Whether nothing but the type stood before them.
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
    /// The same object at the same revision.
    fn eq(&self, other: &Object) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.revision == other.0.revision && self.0.key == other.0.key)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.0.key, self.0.revision)
    }
}

/// What all objects have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// The name.
    pub name: Box<str>,
    /// The namespace; empty if the object is in none.
    #[serde(deserialize_with = "or_default")]
    pub namespace: Box<str>,
    /// The identity: another object of the same name has another one.
    pub uid: Box<str>,
    /// How often what is wanted has changed.
    pub generation: i64,
    /// When it was made.
    #[serde(deserialize_with = "time")]
    pub creation_timestamp: Option<Time>,
    /// When it was, or will be, deleted; nothing if nobody deleted it.
    #[serde(deserialize_with = "time")]
    pub deletion_timestamp: Option<Time>,
    /// How long it was given to go.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Its labels.
    pub labels: Pairs,
    /// Its annotations.
    pub annotations: Pairs,
    /// Who owns it.
    pub owner_references: Vec<Owner>,
    /// What must be done before it goes.
    pub finalizers: Vec<Box<str>>,
}

impl Meta {
    /// Whether it was deleted and is on its way out.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The owner that manages it.
    #[must_use]
    pub fn controller(&self) -> Option<&Owner> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Whether this is the identity of the owner that manages it.
    #[must_use]
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| &*owner.uid == uid)
    }

    /// Whether something must be done before it goes.
    #[must_use]
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| &**finalizer == name)
    }

    /// When it was made; the beginning of time if nobody knows.
    #[must_use]
    pub fn created(&self) -> Time {
        self.creation_timestamp.unwrap_or(Time::EPOCH)
    }
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// Group and version of its kind.
    pub api_version: Box<str>,
    /// Its kind.
    pub kind: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its identity.
    pub uid: Box<str>,
    /// Whether it manages the object.
    pub controller: bool,
    /// Whether it may not go before the object, when it is deleted in the foreground.
    pub block_owner_deletion: bool,
}

impl Owner {
    /// The group of its kind; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Reads a time, for views: `#[serde(default, deserialize_with = "setpoint_reconcile::object::time")]`.
///
/// # Errors
/// If it is there and is none.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
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

/// Reads a value or `null`, which stands for the default.
///
/// # Errors
/// If it is neither.
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
    fn metadata_and_view_are_read_from_the_same_bytes() {
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
    fn metadata_are_found_wherever_they_stand() {
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
        let unread = |text: &'static str| Object::unread(pod.key().clone(), Revision(1), Time::EPOCH, text);
        let late = unread(r#"{"kind":"Pod","metadata":{"uid":"u"},"spec":{"nodeName":"n"}}"#);
        assert_eq!(late.view::<Pod>().unwrap().spec.node_name, "n");
        assert_eq!((&*late.meta().uid, &*unread("[]").meta().uid), ("u", ""));
        for text in [r#"{"metadata":3}"#, r#"{"metadata":{"name":"x""#, "[]", ""] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn who_owns_which_field_is_passed_over_where_it_is_stored_and_only_there() {
        let owners = r#""managedFields":[{"manager":"m","fieldsV1":{"f:a]},":{},"k:{\"x\":\"}\"}":{}}}]"#;
        let quoted = r#""annotations":{"a":"x,\"managedFields\":[{\"}],"}"#;
        let spec = r#""spec":{"nodeName":"n"}"#;
        for (text, is_stored) in [
            (format!(r#"{{"kind":"Pod","metadata":{{"name":"x","uid":"u",{owners}}},{spec}}}"#), true),
            (format!(r#"{{"metadata":{{"name":"x","uid":"u",{quoted},{owners}}},{spec},"x":{{}}}}"#), true),
            (format!(r#"{{"metadata":{{"name":"x",{owners},"uid":"u"}},{spec}}}"#), false),
            (format!(r#"{{"metadata":{{"name":"x",{owners},"uid":"u"}},"y":{{"z":[{{}}]}},{spec}}}"#), false),
            (
                format!(
                    r#"{{"metadata":{{"name":"x","uid":"u","managedFields":[{{"manager":"a}}]}},"}}]}},{spec}}}"#
                ),
                false,
            ),
            (format!(r#"{{"metadata":{{{owners},"name":"x","uid":"u"}},{spec}}}"#), false),
            (
                format!(r#"{{"metadata":{{"name":"x","uid":"u",{quoted}}},"y":{{"a":1,{owners}}},{spec}}}"#),
                false,
            ),
            (format!(r#"{{"metadata":{{"y":{{"a":1,{owners}}},"name":"x","uid":"u"}},{spec}}}"#), false),
            (format!(r#"{{{spec},"metadata":{{"name":"x","uid":"u",{owners}}},"x":{{}}}}"#), false),
        ] {
            assert_eq!(Head::read_stored(text.as_bytes()).is_some(), is_stored, "{text}");
            let pod = object(text.clone().leak());
            assert_eq!((&*pod.meta().name, &*pod.meta().uid), ("x", "u"), "{text}");
            assert_eq!(pod.view::<Pod>().unwrap().spec.node_name, "n", "{text}");
            let short = Object::read(
                pod.key().clone(),
                Revision(1),
                Time::EPOCH,
                pod.bytes()[..text.len() - 9].to_vec(),
            );
            assert!(short.is_err() || short.unwrap().view::<Pod>().is_none());
        }
    }

    #[test]
    fn a_view_that_does_not_fit_is_nothing() {
        assert!(object(r#"{"metadata":{"name":"x"},"spec":3}"#).view::<Pod>().is_none());
    }
}
