//! Where an object is kept.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The longest resource name: a plural and a group, each a DNS name.
pub const RESOURCE_BYTES_MAX: usize = 512;
/// The longest path: a namespace (63), a slash and a name (253), with room for names that are not DNS names.
pub const PATH_BYTES_MAX: usize = 1024;

/// A stored resource: the plural and the group, as in `deployments.apps` or plainly `pods`.
///
/// Versions of a resource are one resource here: they are forms of the same stored object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource(Arc<str>);

impl PartialOrd for Resource {
    fn partial_cmp(&self, other: &Resource) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Most comparisons are within a table, whose keys share one name.
impl Ord for Resource {
    fn cmp(&self, other: &Resource) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl Resource {
    /// Names a resource.
    ///
    /// # Errors
    /// If the name is empty, too long, or holds a slash or a control character.
    pub fn new(name: &str) -> Result<Resource, KeyError> {
        check_segment(name, RESOURCE_BYTES_MAX)?;
        Ok(Resource(name.into()))
    }

    /// The name.
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

/// The place of one object: its resource, and its path `namespace/name`, or `name` where the resource has
/// cluster scope.
///
/// Keys of a resource order by the bytes of the path, as clients know it from lists over all namespaces:
/// `a-b/x` comes before `a/x`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    resource: Resource,
    path: Arc<str>,
}

impl Key {
    /// The key of an object in a namespace.
    ///
    /// # Errors
    /// If a part is empty, too long, or holds a slash or a control character.
    pub fn namespaced(resource: &Resource, namespace: &str, name: &str) -> Result<Key, KeyError> {
        check_segment(namespace, PATH_BYTES_MAX)?;
        check_segment(name, PATH_BYTES_MAX)?;
        let path = [namespace, "/", name].concat();
        check_length(&path, PATH_BYTES_MAX)?;
        Ok(Key { resource: resource.clone(), path: path.into() })
    }

    /// The key of an object of a resource with cluster scope.
    ///
    /// # Errors
    /// If the name is empty, too long, or holds a slash or a control character.
    pub fn cluster(resource: &Resource, name: &str) -> Result<Key, KeyError> {
        check_segment(name, PATH_BYTES_MAX)?;
        Ok(Key { resource: resource.clone(), path: name.into() })
    }

    /// The key with this path, `name` or `namespace/name`.
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

    /// The key with a path that another key has, which is shared with it.
    #[must_use]
    pub fn of_path(resource: &Resource, path: &Arc<str>) -> Key {
        Key { resource: resource.clone(), path: Arc::clone(path) }
    }

    /// The path, to be shared.
    #[must_use]
    pub fn shared_path(&self) -> &Arc<str> {
        &self.path
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// `namespace/name`, or `name`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The namespace, if the key has one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.path.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name.
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

/// Why something cannot be a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// A resource, namespace or name is empty.
    #[error("a part of the key is empty")]
    Empty,
    /// A part is longer than it may be.
    #[error("a part of the key has {bytes} bytes, at most {bytes_max} are allowed")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        bytes_max: usize,
    },
    /// A part holds a character that separates parts, or a control character.
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
    // Almost every name is of plain characters, which are told without a look at each.
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
    fn parts_are_told_apart() {
        let pods = Resource::new("pods").unwrap();
        let key = Key::namespaced(&pods, "shop", "web").unwrap();
        assert_eq!((key.namespace(), key.name()), (Some("shop"), "web"));
        assert_eq!(key.to_string(), "pods/shop/web");
        let node = Key::cluster(&Resource::new("nodes").unwrap(), "n1").unwrap();
        assert_eq!((node.namespace(), node.name()), (None, "n1"));
    }

    #[test]
    fn a_key_that_could_be_taken_for_another_is_refused() {
        let pods = Resource::new("pods").unwrap();
        assert_eq!(Key::namespaced(&pods, "", "x"), Err(KeyError::Empty));
        assert_eq!(Key::namespaced(&pods, "a/b", "x"), Err(KeyError::BadCharacter('/')));
        assert_eq!(Key::cluster(&pods, "a\0b"), Err(KeyError::BadCharacter('\0')));
        assert_eq!(Key::from_path(&pods, "a/b/c"), Err(KeyError::BadCharacter('/')));
        assert!(matches!(Key::cluster(&pods, &"x".repeat(2000)), Err(KeyError::TooLong { .. })));
        assert_eq!(Resource::new("a/b"), Err(KeyError::BadCharacter('/')));
    }
}
