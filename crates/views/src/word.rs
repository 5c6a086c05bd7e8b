//! Words of conditions: types, statuses and reasons, nearly all of which are known beforehand and take no memory.

use std::fmt;
use std::ops::Deref;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Words that most conditions are made of.
const KNOWN: [&str; 24] = [
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

/// A word of a condition. It reads as text.
#[derive(Clone, PartialEq, Eq)]
pub struct Word(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    /// A place in [`KNOWN`].
    Known(u8),
    Other(Box<str>),
}

impl Word {
    fn known(text: &str) -> Option<Word> {
        let place = KNOWN.iter().position(|known| *known == text)?;
        Some(Word(Repr::Known(u8::try_from(place).ok()?)))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self
    }
}

impl Default for Word {
    fn default() -> Word {
        Word(Repr::Known(0))
    }
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Repr::Known(place) => KNOWN[usize::from(*place)],
            Repr::Other(text) => text,
        }
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Word {
        Word::known(text).unwrap_or_else(|| Word(Repr::Other(text.into())))
    }
}

impl From<String> for Word {
    fn from(text: String) -> Word {
        Word::known(&text).unwrap_or_else(|| Word(Repr::Other(text.into_boxed_str())))
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word")
            }

            fn visit_str<E>(self, text: &str) -> Result<Word, E> {
                Ok(Word::from(text))
            }
        }
        deserializer.deserialize_str(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_other_words_read_as_they_were_written() {
        for text in KNOWN.into_iter().chain(["ready", "Readyy", "ü", "a \"quoted\" word"]) {
            let word = Word::from(text);
            assert_eq!(word, text);
            assert_eq!(word, Word::from(text.to_owned()));
            let written = serde_json::to_string(&word).unwrap();
            assert_eq!(written, serde_json::to_string(text).unwrap());
            assert_eq!(serde_json::from_str::<Word>(&written).unwrap(), word);
            assert_eq!((format!("{word}"), format!("{word:?}")), (text.to_owned(), format!("{text:?}")));
        }
        assert_ne!(Word::from("Ready"), Word::from("ready"));
        assert!(Word::default().is_empty());
        assert_eq!(size_of::<Word>(), 16);
    }
}
