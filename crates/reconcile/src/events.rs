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
    /// Whether a write of its Event is under way.
    is_under_way: bool,
    /// What was said since that write went out.
    behind: Option<Box<Behind>>,
}

/// What was said while nobody knew whether there is an Event to say it in.
struct Behind {
    message: String,
    last: Time,
}

/// Which note a write tells, for when the answer comes.
pub(crate) struct Spoken {
    source: &'static str,
    about: Key,
    event: Key,
}

impl Recorder {
    /// The write that tells people; nothing if enough was said, or if it is said when the answer comes to what was said
    /// before.
    pub fn record(
        &mut self,
        speaker: Speaker<'_>,
        note: Note,
        now: Time,
        nonce: u64,
    ) -> Option<(Write, Spoken)> {
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
        let spoken = |event: &Key| Spoken {
            source: speaker.source,
            about: note.about.key.clone(),
            event: event.clone(),
        };
        if let Some(told) = topic.told.iter_mut().find(|told| told.words.as_deref() == words) {
            told.count += 1;
            let write = told.again(message, now)?;
            return Some((write, spoken(&told.event)));
        }
        let namespace = note.about.key.namespace().unwrap_or("default");
        let name = format!("{}.{nonce:x}", note.about.key.name());
        let event = key_of("events", namespace, &name)?;
        let spoken = spoken(&event);
        let words = words.map(Into::into);
        topic.told.push(Told { words, event, count: 1, is_under_way: true, behind: None });
        self.told += 1;
        let event = first(speaker, &note, message, namespace, &name, now);
        Some((Write::create("events", namespace, event), spoken))
    }

    /// Hears what became of a write: whether the Event can still be there. Says what is to be written now.
    pub fn answered(&mut self, spoken: &Spoken, is_there: bool) -> Option<Write> {
        let talk = self.talks.get_mut(&(spoken.source, spoken.about.clone()))?;
        for topic in &mut talk.topics {
            let Some(at) = topic.told.iter().position(|told| told.event == spoken.event) else { continue };
            if !is_there {
                // The next note makes another.
                topic.told.swap_remove(at);
                self.told -= 1;
                return None;
            }
            let told = &mut topic.told[at];
            told.is_under_way = false;
            let Behind { message, last } = *told.behind.take()?;
            return told.again(message, last);
        }
        None
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

impl Told {
    /// The write that tells it again, now or later.
    fn again(&mut self, message: String, now: Time) -> Option<Write> {
        if self.is_under_way {
            self.behind = Some(Box::new(Behind { message, last: now }));
            return None;
        }
        self.is_under_way = true;
        let patch = [
            ("count", Value::from(self.count)),
            ("lastTimestamp", Value::from(Seconds(now).to_string())),
            ("message", Value::from(message)),
        ];
        Some(Write::Patch {
            key: self.event.clone(),
            part: "",
            sort: Sort::Merge,
            patch: Value::Map(patch.into_iter().collect()),
            uid: None,
            revision: None,
        })
    }
}

fn median(times: impl Iterator<Item = Time>) -> Time {
    let mut times: Vec<Time> = times.collect();
    let middle = times.len() / 2;
    *times.select_nth_unstable(middle).1
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

    fn count(write: Write) -> (String, i64) {
        let Write::Patch { key, patch, .. } = write else { panic!("{write:?}") };
        let Some(Value::Int(count)) = patch.get("count") else { panic!("{patch:?}") };
        (key.name().to_owned(), *count)
    }

    #[test]
    fn the_same_note_again_counts_and_another_makes_another_event() {
        let mut recorder = Recorder::default();
        let note = subject().normal("Started", "it runs");
        let (first, spoken) = recorder.record(C, note.clone(), Time::EPOCH, 1).unwrap();
        let Write::Create { object, .. } = first else { panic!("{first:?}") };
        assert_eq!(object.str_at(&["metadata", "name"]), "x.1");
        assert_eq!(object.str_at(&["involvedObject", "resourceVersion"]), "3");
        assert!(recorder.answered(&spoken, true).is_none());
        let (second, spoken) = recorder.record(C, note.clone(), Time::EPOCH, 2).unwrap();
        assert_eq!(count(second), ("x.1".to_owned(), 2));
        let other = subject().normal("Started", "it runs well");
        let other = recorder.record(C, other, Time::EPOCH, 3).unwrap().0;
        assert!(matches!(other, Write::Create { .. }));
        assert!(recorder.answered(&spoken, false).is_none());
        let again = recorder.record(C, note, Time::EPOCH, 4).unwrap().0;
        assert!(matches!(again, Write::Create { .. }), "the Event was gone");
    }

    #[test]
    fn what_is_said_while_a_write_is_under_way_is_told_in_one_when_it_is_done() {
        let mut recorder = Recorder::default();
        let note = || subject().normal("Started", "it runs");
        let (_, made) = recorder.record(C, note(), Time::EPOCH, 1).unwrap();
        for nonce in 2..5 {
            assert!(recorder.record(C, note(), Time::EPOCH, nonce).is_none(), "nobody knows if there is one");
        }
        let behind = recorder.answered(&made, true).expect("three were said since");
        assert_eq!(count(behind), ("x.1".to_owned(), 4));
        assert!(recorder.record(C, note(), Time::EPOCH, 5).is_none(), "the patch is under way");
        let behind = recorder.answered(&made, true).expect("one was said since");
        assert_eq!(count(behind), ("x.1".to_owned(), 5));
        assert!(recorder.answered(&made, true).is_none());
        assert!(recorder.record(C, note(), Time::EPOCH, 6).is_some());
    }

    #[test]
    fn many_similar_notes_become_one_and_too_many_fall_silent() {
        let mut recorder = Recorder::default();
        let mut said = Vec::new();
        for i in 0..100u64 {
            let note = subject().warning("Failed", format!("try {i}"));
            if let Some((write, spoken)) = recorder.record(C, note, Time::EPOCH, i) {
                said.push(write);
                assert!(recorder.answered(&spoken, true).is_none());
            }
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
