//! What people see in `kubectl describe`: notes become Events, told apart, counted and bounded.
//!
//! The same note again raises the count of the Event that is there. Notes about one object that differ only in
//! their words are combined when they become many, and a source that says too much about one object is silenced
//! for a while; the bounds are those that people know. What is remembered here is soft: losing it makes another
//! Event, nothing worse.
//!
//! While a write of an Event is under way nobody knows whether the Event is there. What is said in the meantime waits for
//! the answer, and is then told at once.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Key, Time, Value};

use crate::clock::Jump;
use crate::int32;
use crate::news::News;
use crate::plan::{Note, Severity, Sort, Write};
use crate::planner::key_of;

/// How many notes are remembered.
pub const REMEMBERED_MAX: usize = 4096;
/// With how many different words a topic is combined.
pub const SIMILAR_MAX: u32 = 10;
/// After how long without a word on it a topic is a new one.
pub const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// How many Events a source may write about one object at once.
pub const BURST_MAX: u32 = 25;
/// After how long it may write one more.
pub const BURST_REFILL: Duration = Duration::from_secs(300);
/// For how long after it was last told an Event may still be there.
pub const KEPT_FOR: Duration = Duration::from_secs(3600);
/// How often a write of an Event is sent once more, where nobody knows whether it was done.
pub const RETRIES_MAX: u32 = 2;

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
    /// What has been said.
    talks: BTreeMap<Whom, Talk>,
    /// How many notes are remembered in all of them.
    told: usize,
    /// How much was left of it all when some was last forgotten.
    left: usize,
}

/// Who speaks about whom, in which tone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Whom {
    source: &'static str,
    severity: Severity,
    about: Key,
    uid: Box<str>,
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
    reason: &'static str,
    /// When it was last talked about, and how often it has been a new one.
    last: Time,
    round: u32,
    told: Vec<Told>,
}

/// A note that was told.
struct Told {
    /// Its words; none if it stands for all that are combined, whatever their words are.
    words: Option<Box<str>>,
    event: Key,
    count: i64,
    /// When it was last told.
    last: Time,
    /// The round of its topic in which it was last told.
    round: u32,
    /// Whether a write of its Event is under way.
    is_under_way: bool,
    /// What was said since that write went out.
    behind: Option<Box<Behind>>,
}

/// What was said while nobody knew whether there is an Event to say it in.
struct Behind {
    words: String,
    last: Time,
}

/// Which note a write tells, for when the answer comes.
pub(crate) struct Spoken {
    whom: Whom,
    event: Key,
    /// Whether the Event was believed to be there.
    is_again: bool,
    /// When the note was told, so that the same write can be made once more.
    at: Time,
    /// How often it was.
    retries: u32,
}

/// How a write of an Event ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The Event is there.
    There,
    /// Nobody knows: the connection broke, or something had changed, which may be another thing than the Event.
    Unsure,
    /// There is no such Event.
    Gone,
    /// It may not be.
    Refused,
}

/// What follows from how a write of an Event ended.
pub(crate) enum Next {
    /// This is to be written, which tells the note in these words if others came since.
    Write(Write, Option<String>),
    /// The note is to be told anew, in these words if others came since.
    Anew(Option<String>),
}

impl Recorder {
    /// The write that tells people; nothing if enough was said, or if it waits for the answer to what was said before.
    pub fn record(
        &mut self,
        speaker: Speaker<'_>,
        note: &Note,
        now: Time,
        nonce: u64,
    ) -> Option<(Write, Spoken)> {
        self.forget_some();
        let about = &note.about;
        let (source, severity) = (speaker.source, note.severity);
        let whom = Whom { source, severity, about: about.key.clone(), uid: about.uid.clone() };
        let talk = self.talks.entry(whom.clone());
        let talk =
            talk.or_insert_with(|| Talk { left: BURST_MAX, since: now, last: now, topics: Vec::new() });
        talk.last = now;
        if !talk.may_go_on(now) {
            return None;
        }
        let topic = talk.topic(note, now);
        self.told -= topic.go_on(now);
        let words = if topic.is_combined(&note.message) { None } else { Some(note.message.as_str()) };
        if let Some(told) = topic.told.iter_mut().find(|told| told.words.as_deref() == words) {
            told.count = int32::saturating_increment(told.count);
            let write = told.again(&note.message, now)?;
            let event = told.event.clone();
            return Some((write, Spoken { whom, event, is_again: true, at: now, retries: 0 }));
        }
        let namespace = about.key.namespace().unwrap_or("default");
        let name = format!("{}.{nonce:x}", about.key.name());
        let event = key_of("events", namespace, &name)?;
        let spoken = Spoken { whom, event: event.clone(), is_again: false, at: now, retries: 0 };
        let (words, round) = (words.map(Into::into), topic.round);
        let told = Told { words, event, count: 1, last: now, round, is_under_way: true, behind: None };
        let write = told.first(speaker, note, now);
        topic.told.push(told);
        self.told += 1;
        Some((write, spoken))
    }

    /// Hears how a write of this note ended.
    pub fn answered(
        &mut self,
        speaker: Speaker<'_>,
        note: &Note,
        spoken: &mut Spoken,
        end: Ended,
    ) -> Option<Next> {
        let talk = self.talks.get_mut(&spoken.whom)?;
        for topic in &mut talk.topics {
            let Some(at) = topic.told.iter().position(|told| told.event == spoken.event) else { continue };
            match end {
                Ended::Unsure if spoken.retries < RETRIES_MAX => {
                    return Some(topic.told[at].once_more(speaker, note, spoken));
                }
                // If it is not there after all, the next to tell it again will find it gone.
                Ended::There | Ended::Unsure => return topic.told[at].arrive(spoken),
                Ended::Gone | Ended::Refused => {}
            }
            let told = topic.told.swap_remove(at);
            self.told -= 1;
            // Events go after a while, and people delete them. Where even a first one is not taken, no other would be.
            if end == Ended::Gone && spoken.is_again {
                talk.left += 1;
                return Some(Next::Anew(told.behind.map(|behind| behind.words)));
            }
        }
        None
    }

    /// Keeps memory bounded: when too much is remembered, what was not talked about lately goes, unless somebody waits
    /// for an answer about it. Where many wait, little can go, so that it looks again only when there is half as much
    /// more: else it would look at everything at every note.
    fn forget_some(&mut self) {
        if self.size() < REMEMBERED_MAX.max(self.left + self.left / 2) {
            return;
        }
        let middle = median(self.talks.values().map(|talk| talk.last));
        self.talks.retain(|_, talk| talk.last > middle || talk.told().any(|told| told.is_under_way));
        self.told = self.talks.values().map(|talk| talk.told().count()).sum();
        self.left = self.size();
    }

    /// Keeps ages as they were when the clock steps: windows neither stay open for hours nor close at once.
    pub fn clock_jumped(&mut self, jump: Jump) {
        for talk in self.talks.values_mut() {
            talk.since = jump.shift(talk.since);
            talk.last = jump.shift(talk.last);
            for topic in &mut talk.topics {
                topic.last = jump.shift(topic.last);
                for told in &mut topic.told {
                    told.last = jump.shift(told.last);
                }
            }
        }
    }

    fn size(&self) -> usize {
        self.talks.len().max(self.told)
    }
}

impl Talk {
    fn told(&self) -> impl Iterator<Item = &Told> {
        self.topics.iter().flat_map(|topic| &topic.told)
    }

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
        let is_same = |topic: &Topic| topic.reason == *reason && *topic.part == *about.part;
        let at = self.topics.iter().position(is_same).unwrap_or_else(|| {
            let (part, told) = (about.part.as_str().into(), Vec::with_capacity(1));
            self.topics.push(Topic { part, reason, last: now, round: 0, told });
            self.topics.len() - 1
        });
        &mut self.topics[at]
    }
}

impl Topic {
    /// Talks about it at a time. After a pause it is a new one, and what was told in Events that are gone by now is
    /// forgotten, unless somebody waits for an answer about it. Says how many notes were forgotten.
    fn go_on(&mut self, now: Time) -> usize {
        let before = self.told.len();
        if now.since(self.last) > SIMILAR_WITHIN {
            self.round = self.round.wrapping_add(1);
            self.told.retain(|told| told.is_under_way || now.since(told.last) <= KEPT_FOR);
        }
        self.last = now;
        before - self.told.len()
    }

    /// Whether a note in these words is told together with others. Those that stand apart already go on to do so.
    fn is_combined(&mut self, words: &str) -> bool {
        let known = self.told.iter().position(|told| told.words.as_deref() == Some(words));
        if known.is_some_and(|at| self.told[at].round == self.round) {
            return false;
        }
        // They are counted where they are remembered, so that words whose Event is gone do not count for ever.
        let stands_apart = |told: &&Told| told.words.is_some() && told.round == self.round;
        if self.told.iter().filter(stands_apart).count() + 1 >= SIMILAR_MAX as usize {
            return true;
        }
        if let Some(at) = known {
            self.told[at].round = self.round;
        }
        false
    }
}

impl Told {
    /// What its Event says where the last note is in these words.
    fn message(&self, words: &str) -> String {
        match self.words {
            Some(_) => words.to_owned(),
            None => format!("(combined from similar events): {words}"),
        }
    }

    /// The write that tells it again; nothing if that has to wait.
    fn again(&mut self, words: &str, now: Time) -> Option<Write> {
        self.last = now;
        if self.is_under_way {
            self.behind = Some(Box::new(Behind { words: words.to_owned(), last: now }));
            return None;
        }
        self.is_under_way = true;
        Some(self.patch(words, now))
    }

    /// The write that tells it for the first time.
    fn first(&self, speaker: Speaker<'_>, note: &Note, at: Time) -> Write {
        Write::Tell(Box::new(News {
            event: self.event.clone(),
            about: note.about.clone(),
            severity: note.severity,
            reason: note.reason,
            message: self.message(&note.message),
            action: note.action,
            said_by: speaker.name.into(),
            host: speaker.host.into(),
            at,
        }))
    }

    fn patch(&self, words: &str, at: Time) -> Write {
        let patch = [
            ("count", Value::from(self.count)),
            ("lastTimestamp", Value::from(Seconds(at).to_string())),
            ("message", Value::from(self.message(words))),
        ];
        Write::Patch {
            key: self.event.clone(),
            part: "",
            sort: Sort::Merge,
            patch: Value::Map(patch.into_iter().collect()),
            uid: None,
            revision: None,
        }
    }

    /// What follows when its Event is there: what was said since is told at once.
    fn arrive(&mut self, spoken: &mut Spoken) -> Option<Next> {
        spoken.retries = 0;
        let next = self.catch_up(spoken);
        self.is_under_way = next.is_some();
        next
    }

    /// The write of what was said since the last one went out.
    fn catch_up(&mut self, spoken: &mut Spoken) -> Option<Next> {
        let Behind { words, last } = *self.behind.take()?;
        spoken.is_again = true;
        spoken.at = last;
        Some(Next::Write(self.patch(&words, last), Some(words)))
    }

    /// The write that may not have been done, once more. A first one stays what it was, under the same name, so that
    /// there are never two Events; one that tells it again does so in the newest words.
    fn once_more(&mut self, speaker: Speaker<'_>, note: &Note, spoken: &mut Spoken) -> Next {
        spoken.retries += 1;
        if !spoken.is_again {
            return Next::Write(self.first(speaker, note, spoken.at), None);
        }
        let newest = self.catch_up(spoken);
        newest.unwrap_or_else(|| Next::Write(self.patch(&note.message, spoken.at), None))
    }
}

fn median(times: impl Iterator<Item = Time>) -> Time {
    let mut times: Vec<Time> = times.collect();
    let middle = times.len() / 2;
    *times.select_nth_unstable(middle).1
}

#[cfg(test)]
mod tests {
    use setpoint_api::Revision;

    use super::*;
    use crate::plan::Subject;

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

    fn write(next: Option<Next>) -> Write {
        match next {
            Some(Next::Write(write, _)) => write,
            _ => panic!("there is nothing to write"),
        }
    }

    #[test]
    fn the_same_note_again_counts_and_another_makes_another_event() {
        let mut recorder = Recorder::default();
        let note = subject().normal("Started", "it runs");
        let (first, mut spoken) = recorder.record(C, &note, Time::EPOCH, 1).unwrap();
        let Write::Tell(news) = first else { panic!("{first:?}") };
        assert_eq!(news.to_value().str_at(&["metadata", "name"]), "x.1");
        assert_eq!(news.to_value().str_at(&["involvedObject", "resourceVersion"]), "3");
        assert!(recorder.answered(C, &note, &mut spoken, Ended::There).is_none());
        let (second, mut spoken) = recorder.record(C, &note, Time::EPOCH, 2).unwrap();
        assert_eq!(count(second), ("x.1".to_owned(), 2));
        assert!(recorder.answered(C, &note, &mut spoken, Ended::There).is_none());
        let other = subject().normal("Started", "it runs well");
        let other = recorder.record(C, &other, Time::EPOCH, 3).unwrap().0;
        assert!(matches!(other, Write::Tell(_)));
    }

    #[test]
    fn what_is_said_while_a_write_is_under_way_is_told_in_one_when_it_is_done() {
        let mut recorder = Recorder::default();
        let note = subject().normal("Started", "it runs");
        let (_, mut made) = recorder.record(C, &note, Time::EPOCH, 1).unwrap();
        for nonce in 2..5 {
            assert!(recorder.record(C, &note, Time::EPOCH, nonce).is_none(), "nobody knows if there is one");
        }
        let behind = write(recorder.answered(C, &note, &mut made, Ended::There));
        assert_eq!(count(behind), ("x.1".to_owned(), 4));
        assert!(recorder.record(C, &note, Time::EPOCH, 5).is_none(), "the patch is under way");
        let behind = write(recorder.answered(C, &note, &mut made, Ended::There));
        assert_eq!(count(behind), ("x.1".to_owned(), 5));
        assert!(recorder.answered(C, &note, &mut made, Ended::There).is_none());
        assert!(recorder.record(C, &note, Time::EPOCH, 6).is_some());
    }

    #[test]
    fn a_note_whose_event_is_gone_is_told_anew_and_one_that_is_not_taken_is_not() {
        let mut recorder = Recorder::default();
        let note = subject().normal("Started", "it runs");
        let (_, mut made) = recorder.record(C, &note, Time::EPOCH, 1).unwrap();
        assert!(recorder.answered(C, &note, &mut made, Ended::There).is_none());
        let (_, mut again) = recorder.record(C, &note, Time::EPOCH, 2).unwrap();
        assert!(matches!(recorder.answered(C, &note, &mut again, Ended::Gone), Some(Next::Anew(None))));
        let (anew, mut made) = recorder.record(C, &note, Time::EPOCH, 3).unwrap();
        assert!(matches!(anew, Write::Tell(_)));
        assert!(recorder.answered(C, &note, &mut made, Ended::Gone).is_none(), "its namespace is gone");
        let (anew, mut made) = recorder.record(C, &note, Time::EPOCH, 4).unwrap();
        assert!(matches!(anew, Write::Tell(_)));
        assert!(recorder.answered(C, &note, &mut made, Ended::Refused).is_none());
        assert_eq!(recorder.told, 0);
    }

    /// Tells notes one after another, and counts the Events.
    fn tell(recorder: &mut Recorder, notes: impl IntoIterator<Item = Note>, now: Time) -> (usize, usize) {
        let (mut made, mut said) = (0, 0);
        for (i, note) in notes.into_iter().enumerate() {
            if let Some((write, mut spoken)) = recorder.record(C, &note, now, i as u64) {
                said += 1;
                made += usize::from(matches!(write, Write::Tell(_)));
                assert!(recorder.answered(C, &note, &mut spoken, Ended::There).is_none());
            }
        }
        (made, said)
    }

    #[test]
    fn many_similar_notes_become_one_and_too_many_fall_silent() {
        let mut recorder = Recorder::default();
        let failed = |i: i32| subject().warning("Failed", format!("try {i}"));
        let apart = SIMILAR_MAX as usize - 1;
        let said = tell(&mut recorder, (0..100).map(failed), Time::EPOCH);
        assert_eq!(said, (apart + 1, BURST_MAX as usize), "nine of their own, one for all the rest");
        let later = Time::EPOCH.after(BURST_REFILL);
        assert_eq!(tell(&mut recorder, (0..2).map(failed), later), (0, 1), "one more, which stands apart");
        let other = Subject { uid: "v".into(), ..subject() };
        assert_eq!(tell(&mut recorder, [other.warning("Failed", "try 1")], later), (1, 1), "another object");
        assert_eq!(tell(&mut recorder, [subject().normal("Started", "")], later), (1, 1), "in another tone");
    }

    #[test]
    fn the_same_words_are_never_combined_and_a_pause_begins_anew() {
        let mut recorder = Recorder::default();
        let same = (0..20).map(|_| subject().warning("Failed", "as ever"));
        assert_eq!(tell(&mut recorder, same, Time::EPOCH), (1, 20));
        let mut recorder = Recorder::default();
        let failed = |i: i32| subject().warning("Failed", format!("try {i}"));
        let apart = SIMILAR_MAX as usize - 1;
        tell(&mut recorder, (0..9).map(failed), Time::EPOCH);
        let later = Time::EPOCH.after(2 * SIMILAR_WITHIN);
        assert_eq!(tell(&mut recorder, (100..111).map(failed), later).0, apart + 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut recorder = Recorder::default();
        for i in 0..20_000 {
            let about = Subject { key: key_of("pods", "a", &format!("p{i}")).unwrap(), ..subject() };
            let note = about.normal("Made", "made");
            let (_, mut spoken) = recorder.record(C, &note, Time(i), 0).unwrap();
            assert!(recorder.answered(C, &note, &mut spoken, Ended::There).is_none());
        }
        assert!(recorder.told <= REMEMBERED_MAX && recorder.talks.len() <= REMEMBERED_MAX);
        assert!(recorder.told > REMEMBERED_MAX / 4, "half of it is kept");
    }

    #[test]
    fn where_no_answer_comes_everything_is_kept_and_seldom_looked_at_until_answers_come() {
        let mut recorder = Recorder::default();
        let made = |i: i64| {
            let key = key_of("pods", "a", &format!("p{i}")).unwrap();
            Subject { key, ..subject() }.normal("Made", "made")
        };
        let (mut waiting, mut looks) = (Vec::new(), 0);
        for i in 0..20_000 {
            let (note, left) = (made(i), recorder.left);
            let (_, spoken) = recorder.record(C, &note, Time(i), 0).unwrap();
            looks += usize::from(recorder.left != left);
            waiting.push((note, spoken));
        }
        assert_eq!((recorder.told, recorder.talks.len()), (20_000, 20_000), "each waits for an answer");
        assert!((1..=5).contains(&looks), "looked at everything {looks} times");
        for (note, mut spoken) in waiting {
            assert!(recorder.answered(C, &note, &mut spoken, Ended::There).is_none());
        }
        tell_each(&mut recorder, (20_000..40_000).map(made));
        assert!(recorder.told <= REMEMBERED_MAX && recorder.talks.len() <= REMEMBERED_MAX);
    }

    /// Tells notes about different objects, each later than the one before.
    fn tell_each(recorder: &mut Recorder, notes: impl Iterator<Item = Note>) {
        for (note, time) in notes.zip(20_000..) {
            assert_eq!(tell(recorder, [note], Time(time)), (1, 1));
        }
    }

    #[test]
    fn a_topic_that_comes_up_now_and_then_remembers_no_events_that_are_gone() {
        let mut recorder = Recorder::default();
        let mut now = Time::EPOCH;
        for i in 0..20 {
            let notes = (0..5).map(|j| subject().warning("Failed", format!("try {j} of {i}")));
            assert_eq!(tell(&mut recorder, notes, now), (5, 5));
            let remembered: usize = recorder.talks.values().map(|talk| talk.told().count()).sum();
            assert_eq!((recorder.told, remembered), (5, 5));
            now = now.after(2 * KEPT_FOR);
        }
        let note = subject().warning("Failed", "for long");
        let (_, mut slow) = recorder.record(C, &note, now, 77).unwrap();
        now = now.after(2 * KEPT_FOR);
        assert!(recorder.record(C, &note, now, 78).is_none(), "the write is under way");
        assert_eq!(recorder.told, 1, "what is under way is kept");
        let behind = write(recorder.answered(C, &note, &mut slow, Ended::There));
        assert_eq!(count(behind), ("x.4d".to_owned(), 2));
        assert!(recorder.answered(C, &note, &mut slow, Ended::There).is_none());
        let (again, _) = recorder.record(C, &note, now.after(2 * SIMILAR_WITHIN), 79).unwrap();
        assert_eq!(count(again), ("x.4d".to_owned(), 3), "its Event is still there");
    }

    #[test]
    fn the_same_words_whose_event_is_gone_each_time_are_never_combined() {
        let note = subject().normal("Started", "it runs");
        let made = |write: Write| {
            let Write::Tell(news) = write else { panic!("{write:?}") };
            news.message
        };
        let mut recorder = Recorder::default();
        for nonce in 0..12 {
            let (first, mut spoken) = recorder.record(C, &note, Time::EPOCH, nonce).unwrap();
            assert_eq!(made(first), "it runs");
            assert!(recorder.answered(C, &note, &mut spoken, Ended::There).is_none());
            let (_, mut again) = recorder.record(C, &note, Time::EPOCH, 100).unwrap();
            let next = recorder.answered(C, &note, &mut again, Ended::Gone);
            assert!(matches!(next, Some(Next::Anew(None))));
        }
        let mut recorder = Recorder::default();
        for nonce in 0..12 {
            let (first, mut spoken) = recorder.record(C, &note, Time::EPOCH, nonce).unwrap();
            assert_eq!(made(first), "it runs");
            assert!(recorder.answered(C, &note, &mut spoken, Ended::Refused).is_none());
        }
    }

    #[test]
    fn a_first_write_that_may_not_be_done_is_sent_again_as_it_was_a_few_times() {
        let mut recorder = Recorder::default();
        let note = subject().normal("Scheduled", "it has a node");
        let (first, mut spoken) = recorder.record(C, &note, Time::EPOCH, 1).unwrap();
        let later = Time::EPOCH.after(Duration::from_secs(5));
        assert!(recorder.record(C, &note, later, 2).is_none(), "nobody knows if there is one");
        for _ in 0..RETRIES_MAX {
            assert_eq!(write(recorder.answered(C, &note, &mut spoken, Ended::Unsure)), first);
        }
        let behind = write(recorder.answered(C, &note, &mut spoken, Ended::Unsure));
        assert_eq!(count(behind), ("x.1".to_owned(), 2), "it is taken to be there");
        assert!(recorder.answered(C, &note, &mut spoken, Ended::There).is_none());
        assert!(recorder.record(C, &note, later, 3).is_some(), "nothing is under way");
    }

    #[test]
    fn a_patch_that_may_not_be_done_is_sent_again_with_the_newest_words_a_few_times() {
        let mut recorder = Recorder::default();
        let failed = |i: u32| subject().warning("Failed", format!("try {i}"));
        tell(&mut recorder, (0..SIMILAR_MAX).map(failed), Time::EPOCH);
        let (old, new) = (failed(SIMILAR_MAX), failed(SIMILAR_MAX + 1));
        let (patch, mut spoken) = recorder.record(C, &old, Time::EPOCH, 100).unwrap();
        assert_eq!(write(recorder.answered(C, &old, &mut spoken, Ended::Unsure)), patch);
        assert!(recorder.record(C, &new, Time::EPOCH, 101).is_none(), "the patch is under way");
        let next = recorder.answered(C, &old, &mut spoken, Ended::Unsure);
        let Some(Next::Write(Write::Patch { patch, .. }, words)) = next else { panic!("nothing to patch") };
        assert_eq!(patch.str_at(&["message"]), "(combined from similar events): try 11");
        assert_eq!(words.as_deref(), Some("try 11"));
        assert!(recorder.answered(C, &new, &mut spoken, Ended::Unsure).is_none(), "enough was tried");
        assert!(recorder.record(C, &new, Time::EPOCH, 102).is_some(), "nothing is under way");
    }
}
