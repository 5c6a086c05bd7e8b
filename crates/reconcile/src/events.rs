//! What people see in `kubectl describe`: notes become Events, told apart, counted and bounded.
//!
//! The same note again raises the count of the Event that is there. Notes about one object that differ only in
//! their words are combined when they become many, and a source that says too much about one object is silenced
//! for a while; the bounds are those that people know. What is remembered here is soft: losing it makes another
//! Event, nothing worse.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Key, Time, Value};

use crate::plan::{Note, Severity, Sort, Subject, Write};
use crate::planner::key_of;

/// How many notes are remembered.
pub const REMEMBERED_MAX: usize = 4096;
/// How many similar notes within [`SIMILAR_WITHIN`] stay apart.
pub const SIMILAR_MAX: u32 = 10;
/// The time in which similar notes are counted.
pub const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// How many Events a source may write about one object at once.
pub const BURST_MAX: u32 = 25;
/// After how long it may write one more.
pub const BURST_REFILL: Duration = Duration::from_secs(300);

/// Who speaks.
#[derive(Clone, Copy)]
pub(crate) struct Speaker<'a> {
    /// Which part of the control plane.
    pub source: &'static str,
    /// Under which name it speaks.
    pub name: &'a str,
    /// On which node; empty if on none.
    pub host: &'a str,
}

/// Turns notes into writes of Events.
#[derive(Default)]
pub(crate) struct Recorder {
    /// What each source has said about each object.
    talks: BTreeMap<(&'static str, Key), Talk>,
    /// How many notes are remembered in all of them.
    told: usize,
}

/// What a source has said about an object.
struct Talk {
    /// How many Events it may still write, since when.
    left: u32,
    since: Time,
    /// When it last said anything.
    last: Time,
    topics: Vec<Topic>,
}

/// Notes that differ only in their words.
struct Topic {
    part: Box<str>,
    uid: Box<str>,
    reason: &'static str,
    /// How many there were lately, since when.
    count: u32,
    since: Time,
    told: Vec<Told>,
}

/// A note that was told.
struct Told {
    /// Its words; none if it stands for all that are combined, whatever their words are.
    words: Option<Box<str>>,
    event: Key,
    count: i64,
}

impl Recorder {
    /// The write that tells people; nothing if enough was said.
    pub fn record(&mut self, speaker: Speaker<'_>, note: Note, now: Time, nonce: u64) -> Option<Write> {
        self.forget_some();
        let talk = self.talks.entry((speaker.source, note.about.key.clone()));
        let talk =
            talk.or_insert_with(|| Talk { left: BURST_MAX, since: now, last: now, topics: Vec::new() });
        talk.last = now;
        if !talk.may_go_on(now) {
            return None;
        }
        let topic = talk.topic(&note, now);
        let is_combined = topic.count_one(now) > SIMILAR_MAX;
        let message = if is_combined {
            format!("(combined from similar events): {}", note.message)
        } else {
            note.message.clone()
        };
        let words = (!is_combined).then_some(message.as_str());
        if let Some(told) = topic.told.iter_mut().find(|told| told.words.as_deref() == words) {
            told.count += 1;
            return Some(again(told, message, now));
        }
        let namespace = note.about.key.namespace().unwrap_or("default");
        let name = format!("{}.{nonce:x}", note.about.key.name());
        let event = key_of("events", namespace, &name)?;
        topic.told.push(Told { words: words.map(Into::into), event, count: 1 });
        self.told += 1;
        Some(Write::create("events", namespace, first(speaker, &note, message, namespace, &name, now)))
    }

    /// Forgets an Event that is gone, so that the next note makes another.
    pub fn is_gone(&mut self, event: &Key) {
        for topic in self.talks.values_mut().flat_map(|talk| &mut talk.topics) {
            let before = topic.told.len();
            topic.told.retain(|told| told.event != *event);
            self.told -= before - topic.told.len();
        }
    }

    /// Keeps memory bounded: when too much is remembered, what was not talked about lately goes.
    fn forget_some(&mut self) {
        if self.talks.len() < REMEMBERED_MAX && self.told < REMEMBERED_MAX {
            return;
        }
        let middle = median(self.talks.values().map(|talk| talk.last));
        self.talks.retain(|_, talk| talk.last > middle);
        self.told = self.talks.values().flat_map(|talk| &talk.topics).map(|topic| topic.told.len()).sum();
    }
}

impl Talk {
    fn may_go_on(&mut self, now: Time) -> bool {
        let earned = now.since(self.since).as_secs() / BURST_REFILL.as_secs();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(BURST_MAX);
            self.left = self.left.saturating_add(earned).min(BURST_MAX);
            self.since = now;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }

    fn topic(&mut self, note: &Note, now: Time) -> &mut Topic {
        let Note { about, reason, .. } = note;
        let is_same =
            |topic: &Topic| topic.reason == *reason && *topic.part == *about.part && topic.uid == about.uid;
        let at = self.topics.iter().position(is_same).unwrap_or_else(|| {
            self.topics.push(Topic {
                part: about.part.as_str().into(),
                uid: about.uid.clone(),
                reason,
                count: 0,
                since: now,
                told: Vec::with_capacity(1),
            });
            self.topics.len() - 1
        });
        &mut self.topics[at]
    }
}

impl Topic {
    /// Counts one more; says how many there were lately.
    fn count_one(&mut self, now: Time) -> u32 {
        if now.since(self.since) > SIMILAR_WITHIN {
            self.count = 0;
            self.since = now;
        }
        self.count += 1;
        self.count
    }
}

fn median(times: impl Iterator<Item = Time>) -> Time {
    let mut times: Vec<Time> = times.collect();
    let middle = times.len() / 2;
    *times.select_nth_unstable(middle).1
}

fn again(told: &Told, message: String, now: Time) -> Write {
    let patch = [
        ("count", Value::from(told.count)),
        ("lastTimestamp", Value::from(Seconds(now).to_string())),
        ("message", Value::from(message)),
    ];
    Write::Patch {
        key: told.event.clone(),
        part: "",
        sort: Sort::Merge,
        patch: Value::Map(patch.into_iter().collect()),
        uid: None,
        revision: None,
    }
}

fn first(
    speaker: Speaker<'_>,
    note: &Note,
    message: String,
    namespace: &str,
    name: &str,
    now: Time,
) -> Value {
    let Speaker { name: said_by, host, .. } = speaker;
    let time = Seconds(now).to_string();
    let severity = match note.severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    let map = |pairs: Vec<(&str, Value)>| Value::Map(pairs.into_iter().collect());
    let mut component = vec![("component", said_by.into())];
    if !host.is_empty() {
        component.push(("host", host.into()));
    }
    let mut event = vec![
        ("kind", "Event".into()),
        ("apiVersion", "v1".into()),
        ("metadata", map(vec![("name", name.into()), ("namespace", namespace.into())])),
        ("involvedObject", reference(&note.about)),
        ("reason", note.reason.into()),
        ("message", message.into()),
        ("source", map(component)),
        ("firstTimestamp", time.clone().into()),
        ("lastTimestamp", time.into()),
        ("count", Value::Int(1)),
        ("type", severity.into()),
        ("reportingComponent", said_by.into()),
    ];
    if !host.is_empty() {
        event.push(("reportingInstance", host.into()));
    }
    if !note.action.is_empty() {
        event.push(("action", note.action.into()));
    }
    map(event)
}

fn reference(subject: &Subject) -> Value {
    let mut pairs = vec![
        ("kind", Value::from(subject.kind)),
        ("name", subject.key.name().into()),
        ("uid", Value::from(&*subject.uid)),
        ("apiVersion", subject.api_version.into()),
        ("resourceVersion", subject.revision.to_string().into()),
    ];
    if let Some(namespace) = subject.key.namespace() {
        pairs.push(("namespace", namespace.into()));
    }
    if !subject.part.is_empty() {
        pairs.push(("fieldPath", subject.part.as_str().into()));
    }
    Value::Map(pairs.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use setpoint_api::Revision;

    use super::*;

    const C: Speaker<'_> = Speaker { source: "c", name: "c", host: "" };

    fn subject() -> Subject {
        let key = key_of("pods", "a", "x").unwrap();
        Subject {
            key,
            api_version: "v1",
            kind: "Pod",
            uid: "u".into(),
            revision: Revision(3),
            part: String::new(),
        }
    }

    #[test]
    fn the_same_note_again_counts_and_another_makes_another_event() {
        let mut recorder = Recorder::default();
        let note = subject().normal("Started", "it runs");
        let first = recorder.record(C, note.clone(), Time::EPOCH, 1).unwrap();
        let Write::Create { object, .. } = first else { panic!("{first:?}") };
        assert_eq!(object.str_at(&["metadata", "name"]), "x.1");
        assert_eq!(object.str_at(&["involvedObject", "resourceVersion"]), "3");
        let second = recorder.record(C, note.clone(), Time::EPOCH, 2).unwrap();
        let Write::Patch { key, patch, .. } = second else { panic!("{second:?}") };
        assert_eq!((key.name(), patch.get("count")), ("x.1", Some(&Value::Int(2))));
        let other = subject().normal("Started", "it runs well");
        assert!(matches!(recorder.record(C, other, Time::EPOCH, 3), Some(Write::Create { .. })));
        recorder.is_gone(&key);
        assert!(matches!(recorder.record(C, note, Time::EPOCH, 4), Some(Write::Create { .. })));
    }

    #[test]
    fn many_similar_notes_become_one_and_too_many_fall_silent() {
        let mut recorder = Recorder::default();
        let mut said = Vec::new();
        for i in 0..100u64 {
            let note = subject().warning("Failed", format!("try {i}"));
            said.extend(recorder.record(C, note, Time::EPOCH, i));
        }
        assert_eq!(said.len(), BURST_MAX as usize);
        let made = said.iter().filter(|write| matches!(write, Write::Create { .. })).count();
        assert_eq!(made, SIMILAR_MAX as usize + 1, "ten of their own, one for all the rest");
        let later = Time::EPOCH.after(BURST_REFILL);
        assert!(recorder.record(C, subject().warning("Failed", "late"), later, 1000).is_some());
        assert!(recorder.record(C, subject().warning("Failed", "late"), later, 1001).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let mut recorder = Recorder::default();
        for i in 0..20_000 {
            let about = Subject { key: key_of("pods", "a", &format!("p{i}")).unwrap(), ..subject() };
            recorder.record(C, about.normal("Made", "made"), Time(i), 0);
        }
        assert!(recorder.told <= REMEMBERED_MAX && recorder.talks.len() <= REMEMBERED_MAX);
        assert!(recorder.told > REMEMBERED_MAX / 4, "half of it is kept");
    }
}
