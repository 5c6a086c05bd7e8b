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
    /// On which node; empty if on none.
    pub host: &'a str,
}

/// A note without its words.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    source: &'static str,
    about: Key,
    part: Box<str>,
    uid: Box<str>,
    reason: &'static str,
}

/// Turns notes into writes of Events.
#[derive(Default)]
pub(crate) struct Recorder {
    told: BTreeMap<(Class, String), Told>,
    similar: BTreeMap<Class, Similar>,
    bursts: BTreeMap<(&'static str, Key), Burst>,
}

struct Told {
    event: Key,
    count: i64,
    last: Time,
}

struct Similar {
    since: Time,
    count: u32,
}

struct Burst {
    left: u32,
    since: Time,
}

impl Recorder {
    /// The write that tells people; nothing if enough was said.
    pub fn record(&mut self, speaker: Speaker<'_>, note: Note, now: Time, nonce: u64) -> Option<Write> {
        let source = speaker.source;
        if !self.may_speak(source, &note.about.key, now) {
            return None;
        }
        let class = Class {
            source,
            about: note.about.key.clone(),
            part: note.about.part.as_str().into(),
            uid: note.about.uid.clone(),
            reason: note.reason,
        };
        let message = match self.similar_so_far(&class, now) {
            count if count > SIMILAR_MAX => format!("(combined from similar events): {}", note.message),
            _ => note.message.clone(),
        };
        // Combined notes share one Event, whatever their words are.
        let told_as = if message.starts_with("(combined") { String::new() } else { message.clone() };
        self.forget_some();
        if let Some(told) = self.told.get_mut(&(class.clone(), told_as.clone())) {
            told.count += 1;
            told.last = now;
            return Some(again(told, message, now));
        }
        let namespace = note.about.key.namespace().unwrap_or("default").to_owned();
        let name = format!("{}.{nonce:x}", note.about.key.name());
        let event = key_of("events", &namespace, &name)?;
        self.told.insert((class, told_as), Told { event, count: 1, last: now });
        Some(Write::create("events", &namespace, first(speaker, &note, message, &namespace, &name, now)))
    }

    /// Forgets an Event that is gone, so that the next note makes another.
    pub fn is_gone(&mut self, event: &Key) {
        self.told.retain(|_, told| told.event != *event);
    }

    fn may_speak(&mut self, source: &'static str, about: &Key, now: Time) -> bool {
        let full = Burst { left: BURST_MAX, since: now };
        let burst = self.bursts.entry((source, about.clone())).or_insert(full);
        let earned = now.since(burst.since).as_secs() / BURST_REFILL.as_secs();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(BURST_MAX);
            burst.left = burst.left.saturating_add(earned).min(BURST_MAX);
            burst.since = now;
        }
        let may = burst.left > 0;
        burst.left = burst.left.saturating_sub(1);
        may
    }

    fn similar_so_far(&mut self, class: &Class, now: Time) -> u32 {
        let similar = self.similar.entry(class.clone()).or_insert(Similar { since: now, count: 0 });
        if now.since(similar.since) > SIMILAR_WITHIN {
            *similar = Similar { since: now, count: 0 };
        }
        similar.count += 1;
        similar.count
    }

    /// Keeps memory bounded: when a table is full, its older half goes.
    fn forget_some(&mut self) {
        if self.told.len() >= REMEMBERED_MAX {
            let middle = median(self.told.values().map(|told| told.last));
            self.told.retain(|_, told| told.last > middle);
        }
        if self.similar.len() >= REMEMBERED_MAX {
            let middle = median(self.similar.values().map(|similar| similar.since));
            self.similar.retain(|_, similar| similar.since > middle);
        }
        if self.bursts.len() >= REMEMBERED_MAX {
            let middle = median(self.bursts.values().map(|burst| burst.since));
            self.bursts.retain(|_, burst| burst.since > middle);
        }
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
    let Speaker { source, host } = speaker;
    let time = Seconds(now).to_string();
    let severity = match note.severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    let map = |pairs: Vec<(&str, Value)>| Value::Map(pairs.into_iter().collect());
    let mut component = vec![("component", source.into())];
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
        ("reportingComponent", source.into()),
    ];
    if !host.is_empty() {
        event.push(("reportingInstance", host.into()));
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

    const C: Speaker<'_> = Speaker { source: "c", host: "" };

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
        assert!(recorder.told.len() <= REMEMBERED_MAX && recorder.bursts.len() <= REMEMBERED_MAX);
        assert!(recorder.similar.len() <= REMEMBERED_MAX);
    }
}
