//! Interned strings of conditions: types, statuses and reasons. Most are in a static table and need no allocation.

use std::fmt;
use std::ops::Deref;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Types, statuses and reasons of most conditions.
const INTERNED: [&str; 24] = [
    "",
    "True",
    "False",
    "Unknown",
    "Ready",
    "ContainersReady",
    "Initialized",
    "PodScheduled",
    "PodReadyToStartContainers",
    "DisruptionTarget",
    "PodResizePending",
    "PodResizeInProgress",
    "ContainersNotReady",
    "PodCompleted",
    "Unschedulable",
    "SchedulingGated",
    "Available",
    "Progressing",
    "ReplicaFailure",
    "NewReplicaSetAvailable",
    "MinimumReplicasAvailable",
    "Complete",
    "Failed",
    "SuccessCriteriaMet",
];

/// String of a condition: an index into a static table, or an allocated string. It derefs to `str`.
#[derive(Clone, PartialEq, Eq)]
pub struct InternedStr(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    /// Index into [`INTERNED`].
    Interned(u8),
    Allocated(Box<str>),
}

impl InternedStr {
    fn find_interned(text: &str) -> Option<InternedStr> {
        let index = INTERNED.iter().position(|entry| *entry == text)?;
        Some(InternedStr(Repr::Interned(u8::try_from(index).ok()?)))
    }

    /// Returns the string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self
    }
}

impl Default for InternedStr {
    fn default() -> InternedStr {
        InternedStr(Repr::Interned(0))
    }
}

impl Deref for InternedStr {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Repr::Interned(index) => INTERNED[usize::from(*index)],
            Repr::Allocated(text) => text,
        }
    }
}

impl From<&str> for InternedStr {
    fn from(text: &str) -> InternedStr {
        InternedStr::find_interned(text).unwrap_or_else(|| InternedStr(Repr::Allocated(text.into())))
    }
}

impl From<String> for InternedStr {
    fn from(text: String) -> InternedStr {
        InternedStr::find_interned(&text)
            .unwrap_or_else(|| InternedStr(Repr::Allocated(text.into_boxed_str())))
    }
}

impl PartialEq<str> for InternedStr {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for InternedStr {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Debug for InternedStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for InternedStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Serialize for InternedStr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for InternedStr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<InternedStr, D::Error> {
        struct StrVisitor;
        impl Visitor<'_> for StrVisitor {
            type Value = InternedStr;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<InternedStr, E> {
                Ok(InternedStr::from(text))
            }
        }
        deserializer.deserialize_str(StrVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interned_and_allocated_strings_survive_a_round_trip() {
        for text in INTERNED.into_iter().chain(["ready", "Readyy", "ü", "a \"quoted\" word"]) {
            let interned = InternedStr::from(text);
            assert_eq!(interned, text);
            assert_eq!(interned, InternedStr::from(text.to_owned()));
            let json = serde_json::to_string(&interned).unwrap();
            assert_eq!(json, serde_json::to_string(text).unwrap());
            assert_eq!(serde_json::from_str::<InternedStr>(&json).unwrap(), interned);
            assert_eq!(
                (format!("{interned}"), format!("{interned:?}")),
                (text.to_owned(), format!("{text:?}"))
            );
        }
        assert_ne!(InternedStr::from("Ready"), InternedStr::from("ready"));
        assert!(InternedStr::default().is_empty());
        assert_eq!(size_of::<InternedStr>(), 16);
    }
}
