//! Store keys: resource, namespace and name of an object.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// Maximum bytes of a resource name: a plural and a group, each a DNS name.
const RESOURCE_BYTES_MAX: usize = 512;
/// Maximum bytes of a path: a namespace (63), a slash and a name (253), with room for names that are not DNS
/// names.
const PATH_BYTES_MAX: usize = 1024;

/// Group-resource of a stored object: the plural and the group, as in `deployments.apps`, or `pods` in the
/// core group.
///
/// All versions of a resource share it: they are encodings of the same stored object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource(Arc<str>);

impl PartialOrd for Resource {
    fn partial_cmp(&self, other: &Resource) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares pointers first: most comparisons are between keys of one table, which share the name.
impl Ord for Resource {
    fn cmp(&self, other: &Resource) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl Resource {
    /// Creates a resource from its name.
    ///
    /// # Errors
    /// If the name is empty, too long, or contains a slash or a control character.
    pub fn new(name: &str) -> Result<Resource, KeyError> {
        check_segment(name, RESOURCE_BYTES_MAX)?;
        Ok(Resource(name.into()))
    }

    /// Name of the resource, as in `deployments.apps`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Resource {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Key of an object: its resource, and its path `namespace/name`, or `name` if the resource is
/// cluster-scoped.
///
/// Keys of a resource are ordered by the bytes of the path, the order of lists over all namespaces: `a-b/x`
/// comes before `a/x`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    resource: Resource,
    path: Arc<str>,
}

impl Key {
    /// Creates the key of a namespaced object.
    ///
    /// # Errors
    /// If a part is empty, too long, or contains a slash or a control character.
    pub fn namespaced(resource: &Resource, namespace: &str, name: &str) -> Result<Key, KeyError> {
        check_segment(namespace, PATH_BYTES_MAX)?;
        check_segment(name, PATH_BYTES_MAX)?;
        let path = [namespace, "/", name].concat();
        check_length(&path, PATH_BYTES_MAX)?;
        Ok(Key { resource: resource.clone(), path: path.into() })
    }

    /// Creates the key of a cluster-scoped object.
    ///
    /// # Errors
    /// If the name is empty, too long, or contains a slash or a control character.
    pub fn cluster(resource: &Resource, name: &str) -> Result<Key, KeyError> {
        check_segment(name, PATH_BYTES_MAX)?;
        Ok(Key { resource: resource.clone(), path: name.into() })
    }

    /// Creates a key from its path, `name` or `namespace/name`.
    ///
    /// # Errors
    /// If the path is not of that form.
    pub fn from_path(resource: &Resource, path: &str) -> Result<Key, KeyError> {
        check_length(path, PATH_BYTES_MAX)?;
        let (namespace, name) = path.split_once('/').map_or((None, path), |(ns, name)| (Some(ns), name));
        namespace.map_or(Ok(()), |ns| check_segment(ns, PATH_BYTES_MAX))?;
        check_segment(name, PATH_BYTES_MAX)?;
        Ok(Key { resource: resource.clone(), path: path.into() })
    }

    /// Returns a key with the path of another one, which is shared.
    #[must_use]
    pub fn of_path(resource: &Resource, path: &Arc<str>) -> Key {
        Key { resource: resource.clone(), path: Arc::clone(path) }
    }

    /// Path of the object, to be shared.
    #[must_use]
    pub fn shared_path(&self) -> &Arc<str> {
        &self.path
    }

    /// Resource of the object.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Path of the object: `namespace/name`, or `name`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Namespace; `None` if the object is cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.path.split_once('/').map(|(namespace, _)| namespace)
    }

    /// Name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.split_once('/').map_or(&self.path, |(_, name)| name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.resource, self.path)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Invalid part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// A resource, namespace or name is empty.
    #[error("a part of the key is empty")]
    Empty,
    /// A part is too long.
    #[error("a part of the key has {bytes} bytes, at most {bytes_max} are allowed")]
    TooLong {
        /// Length of the part.
        bytes: usize,
        /// Maximum length of the part.
        bytes_max: usize,
    },
    /// A part contains a slash or a control character.
    #[error("a part of the key holds the character {0:?}")]
    BadCharacter(char),
}

fn check_length(text: &str, bytes_max: usize) -> Result<(), KeyError> {
    if text.len() > bytes_max {
        return Err(KeyError::TooLong { bytes: text.len(), bytes_max });
    }
    Ok(())
}

fn check_segment(segment: &str, bytes_max: usize) -> Result<(), KeyError> {
    if segment.is_empty() {
        return Err(KeyError::Empty);
    }
    check_length(segment, bytes_max)?;
    // Fast path: almost every name consists of printable ASCII, which is checked without decoding characters.
    let plain = |byte: u8| matches!(byte, b' '..=b'~') & (byte != b'/');
    if segment.bytes().fold(true, |all, byte| all & plain(byte)) {
        return Ok(());
    }
    match segment.chars().find(|c| *c == '/' || c.is_control()) {
        Some(c) => Err(KeyError::BadCharacter(c)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_by_path_bytes() {
        let pods = Resource::new("pods").unwrap();
        let key = |ns, name| Key::namespaced(&pods, ns, name).unwrap();
        assert!(key("a-b", "x") < key("a", "x"));
        assert!(key("a", "x") < key("a", "y"));
    }

    #[test]
    fn namespace_and_name_are_split_at_the_slash() {
        let pods = Resource::new("pods").unwrap();
        let key = Key::namespaced(&pods, "shop", "web").unwrap();
        assert_eq!((key.namespace(), key.name()), (Some("shop"), "web"));
        assert_eq!(key.to_string(), "pods/shop/web");
        let node = Key::cluster(&Resource::new("nodes").unwrap(), "n1").unwrap();
        assert_eq!((node.namespace(), node.name()), (None, "n1"));
    }

    #[test]
    fn ambiguous_keys_are_rejected() {
        let pods = Resource::new("pods").unwrap();
        assert_eq!(Key::namespaced(&pods, "", "x"), Err(KeyError::Empty));
        assert_eq!(Key::namespaced(&pods, "a/b", "x"), Err(KeyError::BadCharacter('/')));
        assert_eq!(Key::cluster(&pods, "a\0b"), Err(KeyError::BadCharacter('\0')));
        assert_eq!(Key::from_path(&pods, "a/b/c"), Err(KeyError::BadCharacter('/')));
        assert!(matches!(Key::cluster(&pods, &"x".repeat(2000)), Err(KeyError::TooLong { .. })));
        assert_eq!(Resource::new("a/b"), Err(KeyError::BadCharacter('/')));
    }
}
