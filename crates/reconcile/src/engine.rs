//! The loop: observe, plan, act, for ever.
//!
//! The [`Engine`] is a state machine without I/O. A shell tells it what changed ([`Engine::observe`],
//! [`Engine::relist`]), what became of its writes ([`Engine::answer`]), and what time it is; at each
//! [`Engine::turn`] it says which writes to send and when it wants to be called at the latest. In a server the
//! shell is a thread beside the store, in a process of its own it speaks HTTP, in a simulator it is the simulator.

mod asking;
mod passing;
mod sending;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Key, Resource, Revision, Time, Value};

use crate::clock::Jump;
use crate::events::{Ended, Next, Recorder, Speaker, Spoken};
use crate::object::Object;
use crate::plan::{Act, Ask, Note, Plan, Write};
use crate::planner::{Answered, Controller, Failure, Remembered, Seed, Soft};
use crate::queue::{End, Popped, Queue, Why};
use crate::stats::{KeyState, Stats};
use crate::world::{Reads, World, WorldConfig};
use passing::Passing;
use sending::Sending;

pub(crate) use asking::Asking;
pub use asking::{ANSWERS_MAX, ASK_PATIENCE, ASK_PAUSE_MAX, ASK_PAUSE_MIN};
pub use passing::FirstPass;

/// How many keys are planned in one turn, so that changes and answers are taken in between.
pub const TURN_PLANS_MAX: usize = 256;
/// Writes on their way above which every key sends one at a time: one turn stays short however many plans are large.
pub const WRITES_OUT_MAX: usize = 4096;
/// How often every key is looked at though nothing is known to have changed.
pub const RESYNC: Duration = Duration::from_secs(30);
/// In how many slices a resync is spread out.
pub const RESYNC_SLICES: u32 = 30;
/// One in so many resyncs looks at everything. The others leave out keys for which nothing can have changed: a change of
/// anything that their controller has read would not be missed, whatever its watches say. So this one can find nothing
/// but a planner that hides from the loop what it depends on, and an hour is soon enough for that.
pub const RESYNC_WHOLE: u32 = 120;

/// A change that the shell observed.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What changed.
    pub key: Key,
    /// The revision of the change.
    pub revision: Revision,
    /// What it is now; nothing if it is gone.
    pub after: Option<Object>,
    /// The reconciler that caused it, as [`Sent::by`] said; nothing if somebody else did, or nobody knows.
    pub by: Option<Arc<str>>,
}

/// The number of a write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A write to send.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Under which number to report what became of it.
    pub ticket: Ticket,
    /// The write.
    pub write: Write,
    /// Who writes.
    pub user: Arc<str>,
    /// Under which name fields are owned.
    pub manager: &'static str,
    /// Which reconciler, for which key: goes into the cause of the commit.
    pub by: Arc<str>,
    /// The revision of the world that was planned on.
    pub seen: Revision,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is committed, or nothing had to be.
    Done {
        /// At which revision the object is now.
        revision: Revision,
        /// The name of the object.
        name: Box<str>,
    },
    /// What it wanted to change or delete is not there.
    Gone,
    /// The world had moved: the object was changed, or there is one already.
    Conflict,
    /// It may not be.
    Refused(Refusal),
    /// Nobody knows: the connection broke. If it was done, then not after this revision, which the shell learned
    /// later; the key is not planned before the world has reached it, so that nothing is done twice.
    Lost {
        /// That revision.
        by: Revision,
    },
}

/// Why a write may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, as a word of the API.
    pub reason: String,
    /// The message.
    pub message: String,
}

/// What the shell is to do.
#[derive(Debug, Default)]
pub struct Turn {
    /// Writes to send.
    pub writes: Vec<Sent>,
    /// Questions to ask, each of a controller and a key.
    pub asks: Vec<(&'static str, Key, Ask)>,
    /// When to call again at the latest; nothing if only a change or an answer is worth it.
    pub wake: Option<Time>,
}

/// A controller and its keys.
struct Running {
    controller: Box<dyn Controller>,
    queue: Queue,
    sending: BTreeMap<Key, Sending>,
    stats: Stats,
    user: Arc<str>,
    resync: Vec<Key>,
    resync_slice: usize,
    /// Keys whose last plan was not quiet: nobody knows whether the next one will be.
    unquiet: BTreeSet<Key>,
    /// What its plans have read since a resync last looked at everything.
    reads: Reads,
    /// What was read when its keys were last listed.
    listed: Reads,
    /// The revision at which the last resync began.
    resync_began: Revision,
}

impl Running {
    /// Who writes for a key.
    fn user_for(&self, key: &Key, world: &World) -> Arc<str> {
        let node = self.controller.node(key, &world.reader());
        node.map_or_else(|| Arc::clone(&self.user), |node| account(&node))
    }

    /// The keys that a resync has to look at.
    fn keys_to_resync(&mut self, world: &World, is_whole: bool) -> Vec<Key> {
        let since = std::mem::replace(&mut self.resync_began, world.revision());
        if !is_whole && !world.has_changed(self.reads.and(self.listed), since) {
            return self.unquiet.iter().cloned().collect();
        }
        let reader = world.reader();
        let mut keys = self.controller.keys(&reader);
        reader.record_keys(keys.iter());
        self.listed = reader.reads();
        if is_whole {
            self.reads = Reads::default();
        } else if !world.has_changed(self.reads, since) {
            let is_changed = |key: &Key| world.get(key).is_none_or(|object| object.revision() > since);
            keys.retain(|key| is_changed(key) || self.unquiet.contains(key) || self.queue.has(key));
        }
        keys
    }

    /// Keeps in mind that a write of a key could not be done.
    fn fail(&mut self, key: &Key, act: &Awaited, reason: &str, message: &str, now: Time) {
        self.stats.failures += 1;
        self.queue.entry(key).soft.failure = Some(Failure {
            verb: act.verb,
            resource: act.resource.clone(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: now,
        });
    }
}

/// Whose write it is.
enum Flight {
    Act { running: usize, key: Key, act: Box<Awaited> },
    Note(Box<Telling>),
}

/// An Event that is being written, and for whom.
struct Telling {
    running: usize,
    note: Note,
    /// The node in whose name it is told.
    host: Option<String>,
    by: Arc<str>,
    spoken: Spoken,
}

/// What is left of an act whose write was handed out.
struct Awaited {
    verb: &'static str,
    resource: Resource,
    done: Vec<Note>,
    failed: Option<Note>,
}

/// The loop.
pub struct Engine {
    world: World,
    running: Vec<Running>,
    watchers: BTreeMap<&'static str, Vec<(usize, usize)>>,
    flights: BTreeMap<Ticket, Flight>,
    last_ticket: u64,
    recorder: Recorder,
    resync_due: Option<Time>,
    resync_slice: u32,
    resyncs: u32,
    is_narrow: bool,
    passing: Option<Passing>,
    notice: Option<String>,
}

impl Engine {
    /// A loop over these controllers, in a world that is empty as yet.
    #[must_use]
    pub fn new(controllers: Vec<Box<dyn Controller>>, config: WorldConfig) -> Engine {
        let mut watchers: BTreeMap<&'static str, Vec<(usize, usize)>> = BTreeMap::new();
        for (i, controller) in controllers.iter().enumerate() {
            for (j, watch) in controller.watches().iter().enumerate() {
                watchers.entry(watch.resource).or_default().push((i, j));
            }
        }
        let running = controllers.into_iter().map(|controller| Running {
            user: controller.user().into(),
            controller,
            queue: Queue::default(),
            sending: BTreeMap::new(),
            stats: Stats::default(),
            resync: Vec::new(),
            resync_slice: 0,
            unquiet: BTreeSet::new(),
            reads: Reads::default(),
            listed: Reads::default(),
            resync_began: Revision::ZERO,
        });
        Engine {
            world: World::new(config),
            running: running.collect(),
            watchers,
            flights: BTreeMap::new(),
            last_ticket: 0,
            recorder: Recorder::default(),
            resync_due: None,
            resync_slice: 0,
            resyncs: 0,
            is_narrow: false,
            passing: None,
            notice: None,
        }
    }

    /// The same loop with a follower of its first pass.
    #[must_use]
    pub fn followed(mut self, follower: Box<dyn FirstPass>) -> Engine {
        self.passing = Some(Passing::new(follower));
        self
    }

    /// The same loop with a notice for operators, such as why it has no controllers.
    #[must_use]
    pub fn with_notice(mut self, notice: String) -> Engine {
        self.notice = Some(notice);
        self
    }

    /// The notice for operators, if there is one.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// The same loop over controllers that read nothing but what they watch: it need not hear of the rest.
    #[must_use]
    pub fn narrow(mut self) -> Engine {
        self.is_narrow = true;
        self
    }

    /// Whether it wants to hear of a resource.
    #[must_use]
    pub fn follows(&self, resource: &Resource) -> bool {
        !self.is_narrow || ["*", resource.as_str()].iter().any(|watched| self.watchers.contains_key(watched))
    }

    /// The world as it is known.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Takes in a change. Changes of a resource come in order, so one that is older than what is known of the
    /// resource was told before, and changes nothing; least of all does it bring back what is gone.
    pub fn observe(&mut self, observed: Observed, now: Time) {
        if self.world.last_change(observed.key.resource()) < observed.revision {
            self.take_in(observed, now);
        }
    }

    fn take_in(&mut self, observed: Observed, now: Time) {
        let Observed { key, revision, after, by } = observed;
        if self.world.get(&key).is_some_and(|known| known.revision() >= revision) {
            return;
        }
        let before = match &after {
            Some(object) => self.world.put(object.clone()),
            None => self.world.remove(&key, revision),
        };
        let every = self.watchers.get("*").into_iter().flatten();
        let concerned = self.watchers.get(key.resource().as_str()).into_iter().flatten().chain(every);
        for (i, j) in concerned {
            let running = &mut self.running[*i];
            let watch = running.controller.watches()[*j];
            let name = running.controller.name();
            if before
                .as_ref()
                .zip(after.as_ref())
                .is_some_and(|(before, after)| !(watch.matters)(before, after))
            {
                continue;
            }
            for object in before.iter().chain(&after) {
                let queue = &mut running.queue;
                (watch.wakes)(object, &self.world.reader(), &mut |key| {
                    let own = by.as_deref().is_some_and(|by| is_by(by, name, &key));
                    queue.wake(key, if own { Why::Own } else { Why::Other }, now);
                });
            }
        }
    }

    /// Takes in a whole resource, as it is at a revision: what is not in it is gone.
    pub fn relist(&mut self, resource: &Resource, objects: Vec<Object>, revision: Revision, now: Time) {
        let known = self.world.reader().all(resource.as_str()).filter(|object| object.revision() < revision);
        let mut gone: BTreeSet<Key> = known.map(|object| object.key().clone()).collect();
        for object in objects {
            gone.remove(object.key());
            let (key, revision) = (object.key().clone(), object.revision());
            self.take_in(Observed { key, revision, after: Some(object), by: None }, now);
        }
        for key in gone {
            self.take_in(Observed { key, revision, after: None, by: None }, now);
        }
        self.world.advance_resource_to(resource, revision);
    }

    /// Says that all changes up to a revision have been taken in.
    pub fn reach(&mut self, revision: Revision) {
        self.world.advance_to(revision);
    }

    /// Says that all changes of a resource up to a revision have been taken in: a watch that has nothing to tell says so.
    pub fn reach_of(&mut self, resource: &Resource, revision: Revision) {
        self.world.advance_resource_to(resource, revision);
    }

    /// Takes in what became of a write.
    pub fn answer(&mut self, ticket: Ticket, outcome: Outcome, now: Time, turn: &mut Turn) {
        let Some(flight) = self.flights.remove(&ticket) else { return };
        let (at, key, act) = match flight {
            Flight::Act { running, key, act } => (running, key, *act),
            Flight::Note(telling) => {
                self.go_on_telling(*telling, &outcome, now, turn);
                return;
            }
        };
        let running = &mut self.running[at];
        let Some(sending) = running.sending.get_mut(&key) else { return };
        sending.out -= 1;
        let mut told = Vec::new();
        match outcome {
            Outcome::Done { revision, name } => {
                running.stats.writes += 1;
                running.queue.entry(&key).note_write(act.resource, revision);
                told.extend(act.done.into_iter().map(|note| fill(note, "{name}", &name)));
            }
            // What was to go is gone: that is what was wanted.
            Outcome::Gone if act.verb == "delete" => {}
            Outcome::Gone | Outcome::Conflict => {
                running.stats.conflicts += 1;
                sending.stop(End::Conflict);
            }
            Outcome::Lost { by } => {
                sending.stop(End::Failed);
                running.queue.entry(&key).note_write(act.resource.clone(), by);
                running.fail(&key, &act, "Unknown", "the connection broke", now);
            }
            Outcome::Refused(Refusal { reason, message }) => {
                sending.stop(End::Failed);
                running.fail(&key, &act, &reason, &message, now);
                told.extend(act.failed.map(|note| fill(note, "{error}", &message)));
            }
        }
        for note in told {
            self.tell(at, &key, note, now, turn);
        }
        self.go_on(at, &key, now, turn);
    }

    /// Takes in the answer to a question, or why there is none. A question that cannot be answered goes out again only
    /// after a pause, whatever the planner wants; see [`ASK_PAUSE_MAX`].
    pub fn reply(&mut self, controller: &str, key: &Key, id: &str, answer: Result<Value, String>, now: Time) {
        let found = self.running.iter_mut().find(|running| running.controller.name() == controller);
        let Some(running) = found else { return };
        let soft = &mut running.queue.entry(key).soft;
        soft.asking.answered(id, answer.is_err(), now);
        soft.answers.insert(id.to_owned(), Answered { answer, at: now });
        if soft.answers.len() > ANSWERS_MAX
            && let Some((oldest, _)) = soft.answers.iter().min_by_key(|(_, answered)| answered.at)
        {
            let oldest = oldest.clone();
            soft.answers.remove(&oldest);
        }
        // It was asked for by the key itself, so it is no reason to try a refused write again sooner.
        running.queue.wake(key.clone(), Why::Own, now);
    }

    /// Plans what is due, and says what to send.
    pub fn turn(&mut self, now: Time, seed: Seed) -> Turn {
        let mut turn = Turn::default();
        self.resync(now);
        for running in &mut self.running {
            running.queue.refill(now);
            running.stats.waiting_max = running.stats.waiting_max.max(running.queue.depth());
        }
        let depths = self.running.iter().map(|running| running.queue.depth());
        if self.passing.as_mut().is_some_and(|passing| passing.begin_turn(depths)) {
            self.passing = None;
        }
        let mut plans = 0;
        // One key of each controller in turn, so that a long line delays nobody else.
        while plans < TURN_PLANS_MAX {
            let before = plans;
            for at in 0..self.running.len() {
                let running = &mut self.running[at];
                if let Some(popped) = running.queue.pop(&self.world) {
                    if let Some(passing) = &mut self.passing {
                        passing.begin_plan(at, running.controller.name(), &popped.key);
                    }
                    self.plan(at, popped, now, Seed(seed.draw(plans as u64)), &mut turn);
                    plans += 1;
                }
            }
            if plans == before {
                break;
            }
        }
        let dues = self.running.iter().filter_map(|running| running.queue.next_due());
        turn.wake = dues.chain(self.resync_due).min();
        if self.running.iter().any(|running| running.queue.has_ready()) {
            turn.wake = Some(now);
        }
        turn
    }

    fn plan(&mut self, at: usize, popped: Popped, now: Time, seed: Seed, turn: &mut Turn) {
        let running = &mut self.running[at];
        let Popped { key, woken, only_resync } = popped;
        running.stats.plans += 1;
        running.stats.note_lag(now.since(woken));
        let entry = running.queue.entry(&key);
        if entry.failures > 0 {
            running.stats.retries += 1;
        }
        let (controller, world) = (&running.controller, &self.world);
        let reader = world.reader_for(&key);
        let soft = Soft(&mut entry.soft);
        let planned = catch_unwind(AssertUnwindSafe(|| controller.plan_any(&key, &reader, soft, now, seed)));
        running.reads = running.reads.and(reader.reads());
        let planned = planned.map(|mut plan| {
            plan.cut();
            plan
        });
        let Ok(Plan { stages, notes, mut asks, mut look_again, deferred, memo: Remembered(memo) }) = planned
        else {
            running.stats.panics += 1;
            entry.soft.failure = Some(Failure {
                verb: "plan",
                resource: key.resource().clone(),
                reason: "Panic".to_owned(),
                message: format!("{} panicked", running.controller.name()),
                at: now,
            });
            running.queue.finish(&key, End::Failed, None, now);
            return;
        };
        entry.soft.memo = memo;
        asks.retain(|ask| match entry.soft.asking.ask(&ask.id, now) {
            Ok(()) => true,
            Err(again) => {
                look_again = Some(look_again.map_or(again, |planned| planned.min(again)));
                false
            }
        });
        // Without an act nothing would change until then, and the key would keep the loop busy.
        if deferred > 0 && stages.iter().any(|stage| !stage.is_empty()) {
            running.stats.cut_plans += 1;
            look_again = Some(look_again.map_or(now, |planned| planned.min(now)));
        }
        let sending = Sending::new(stages, deferred, look_again, world.revision());
        let quiet = sending.is_finished() && notes.is_empty() && asks.is_empty();
        if quiet && world.get(&key).is_none() {
            entry.soft.forget_answers();
        }
        if quiet {
            running.unquiet.remove(&key);
        } else {
            running.unquiet.insert(key.clone());
        }
        running.stats.quiet += u64::from(quiet);
        running.stats.resync_gaps += u64::from(only_resync && !quiet);
        let name = running.controller.name();
        turn.asks.extend(asks.into_iter().map(|ask| (name, key.clone(), ask)));
        running.sending.insert(key.clone(), sending);
        for note in notes {
            self.tell(at, &key, note, now, turn);
        }
        self.go_on(at, &key, now, turn);
    }

    /// Sends the next batch of a plan, or ends it.
    fn go_on(&mut self, at: usize, key: &Key, now: Time, turn: &mut Turn) {
        let running = &mut self.running[at];
        let Some(sending) = running.sending.get_mut(key) else { return };
        if sending.out > 0 {
            return;
        }
        let room = WRITES_OUT_MAX.saturating_sub(self.flights.len());
        let (batch, seen) = (sending.next_batch(room), sending.seen);
        if batch.is_empty() {
            let (end, look_again) = (sending.end(), sending.look_again);
            running.sending.remove(key);
            if end == End::Done {
                running.queue.entry(key).soft.failure = None;
            }
            running.stats.contentions += u64::from(running.queue.finish(key, end, look_again, now));
            return;
        }
        let by: Arc<str> = tag(running.controller.name(), key).into();
        let (user, manager) = (running.user_for(key, &self.world), running.controller.manager());
        for Act { write, done, failed } in batch {
            self.last_ticket += 1;
            let ticket = Ticket(self.last_ticket);
            let act = Awaited { verb: write.verb(), resource: write.resource().clone(), done, failed };
            self.flights.insert(ticket, Flight::Act { running: at, key: key.clone(), act: Box::new(act) });
            let (user, by) = (Arc::clone(&user), Arc::clone(&by));
            turn.writes.push(Sent { ticket, write, user, manager, by, seen });
        }
    }

    /// Tells people.
    fn tell(&mut self, at: usize, key: &Key, note: Note, now: Time, turn: &mut Turn) {
        let running = &self.running[at];
        let host = running.controller.node(key, &self.world.reader());
        let by: Arc<str> = tag(running.controller.name(), &note.about.key).into();
        self.tell_for(at, note, host, by, now, turn);
    }

    fn tell_for(
        &mut self,
        at: usize,
        note: Note,
        host: Option<String>,
        by: Arc<str>,
        now: Time,
        turn: &mut Turn,
    ) {
        // Names of Events only have to differ; time and a counter see to that.
        let nonce = now.0.unsigned_abs().wrapping_mul(1000).wrapping_add(self.last_ticket % 1000);
        let source = self.running[at].controller.source();
        let speaker = speaker_of(source, &note, host.as_deref());
        let Some((write, spoken)) = self.recorder.record(speaker, &note, now, nonce) else { return };
        self.send_note(Telling { running: at, note, host, by, spoken }, write, turn);
    }

    fn send_note(&mut self, telling: Telling, write: Write, turn: &mut Turn) {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let running = &self.running[telling.running];
        let user = telling.host.as_deref().map_or_else(|| Arc::clone(&running.user), account);
        let (manager, seen) = (running.controller.manager(), self.world.revision());
        turn.writes.push(Sent { ticket, write, user, manager, by: Arc::clone(&telling.by), seen });
        self.flights.insert(ticket, Flight::Note(Box::new(telling)));
    }

    /// Tells what was said while an Event was being written, or what could not be told in one that is gone, or may not
    /// have been told.
    fn go_on_telling(&mut self, mut telling: Telling, outcome: &Outcome, now: Time, turn: &mut Turn) {
        let end = match outcome {
            Outcome::Gone => Ended::Gone,
            Outcome::Refused(_) => Ended::Refused,
            Outcome::Done { .. } => Ended::There,
            // A create ends in a conflict where there is such an Event, and as well where its namespace just changed.
            Outcome::Conflict | Outcome::Lost { .. } => Ended::Unsure,
        };
        let source = self.running[telling.running].controller.source();
        let speaker = speaker_of(source, &telling.note, telling.host.as_deref());
        match self.recorder.answered(speaker, &telling.note, &mut telling.spoken, end) {
            Some(Next::Write(write, words)) => {
                // Should this Event be gone, then these are the words to tell anew.
                if let Some(words) = words {
                    telling.note.message = words;
                }
                self.send_note(telling, write, turn);
            }
            Some(Next::Anew(words)) => {
                let Telling { running, mut note, host, by, .. } = telling;
                note.message = words.unwrap_or(note.message);
                self.tell_for(running, note, host, by, now, turn);
            }
            None => {}
        }
    }

    /// Wakes the keys that no change wakes, since there is no such object as yet. Says when the first resync is due.
    fn begin(&mut self, now: Time) -> Time {
        for running in &mut self.running {
            for key in running.controller.keys(&self.world.reader()) {
                if self.world.get(&key).is_none() {
                    running.queue.wake(key, Why::Other, now);
                }
            }
        }
        *self.resync_due.insert(now.after(RESYNC))
    }

    /// Wakes a slice of all keys, one slice after the other.
    fn resync(&mut self, now: Time) {
        let due = match self.resync_due {
            Some(due) => due,
            None => self.begin(now),
        };
        if now < due {
            return;
        }
        let is_whole = self.resyncs.is_multiple_of(RESYNC_WHOLE);
        self.resyncs = self.resyncs.wrapping_add(u32::from(self.resync_slice == 0));
        for running in &mut self.running {
            if self.resync_slice == 0 {
                running.resync = running.keys_to_resync(&self.world, is_whole);
                running.resync_slice = running.resync.len().div_ceil(RESYNC_SLICES as usize);
            }
            let rest = running.resync.len().saturating_sub(running.resync_slice);
            for key in running.resync.drain(rest..) {
                running.queue.wake(key, Why::Resync, now);
            }
        }
        self.resync_slice += 1;
        let is_done = self.running.iter().all(|running| running.resync.is_empty());
        // Nobody is woken for slices in which there is nothing.
        let slices = if is_done { RESYNC_SLICES - std::mem::take(&mut self.resync_slice) + 1 } else { 1 };
        self.resync_due = Some(now.after(RESYNC / RESYNC_SLICES * slices));
    }

    /// Takes in that the clock was set, or that the machine slept: `now` is the time afterwards. Whatever waits for a
    /// time is planned once more, since that time may have come or may never come; what was observed locally stays as
    /// old as it was.
    pub fn clock_jumped(&mut self, jump: Jump, now: Time) {
        for running in &mut self.running {
            running.queue.clock_jumped(now);
            for soft in running.queue.soft_states() {
                if let Some(failure) = &mut soft.failure {
                    failure.at = jump.shift(failure.at);
                }
                if let Some(memo) = &mut soft.memo {
                    running.controller.clock_jumped_any(memo, jump, now);
                }
            }
        }
        self.recorder.clock_jumped(jump);
        if let Some(due) = &mut self.resync_due {
            *due = jump.shift(*due);
        }
    }

    /// Forgets all soft state: what a planner remembered and was answered. The simulator does this at random.
    pub fn forget(&mut self) {
        for running in &mut self.running {
            running.queue.forget();
        }
    }

    /// How many keys have not come to rest, over all controllers.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.running.iter().map(|running| running.queue.unsettled()).sum()
    }

    /// What each controller has done, with the length of its line.
    pub fn stats(&self) -> impl Iterator<Item = (&'static str, usize, &Stats)> {
        self.running.iter().map(|running| (running.controller.name(), running.queue.depth(), &running.stats))
    }

    /// How the keys of a controller stand about which there is anything to say.
    #[must_use]
    pub fn keys(&self, controller: &str) -> Vec<KeyState> {
        let found = self.running.iter().find(|running| running.controller.name() == controller);
        let states = found.into_iter().flat_map(|running| {
            running.queue.states().map(|state| KeyState {
                waiting_writes: running.sending.get(&state.key).map_or(0, Sending::waiting),
                deferred_writes: running.sending.get(&state.key).map_or(0, |sending| sending.deferred),
                ..state
            })
        });
        states.collect()
    }

    /// Asks every controller about every key, and gives the plans that are not quiet. For tests: nothing is sent.
    #[must_use]
    pub fn gaps(&self, now: Time, seed: Seed) -> Vec<(&'static str, Key, Vec<Act>)> {
        let mut gaps = Vec::new();
        self.try_plans(now, seed, &mut |name, key, plan| {
            let acts: Vec<Act> = plan.stages.into_iter().flatten().collect();
            if !acts.is_empty() {
                gaps.push((name, key, acts));
            }
        });
        gaps
    }

    /// Asks every controller about every key, and shows the plans as the planners made them. For tests: nothing is sent.
    pub fn try_plans(
        &self,
        now: Time,
        seed: Seed,
        show: &mut dyn FnMut(&'static str, Key, Plan<Remembered>),
    ) {
        for running in &self.running {
            for key in running.controller.keys(&self.world.reader()) {
                let mut soft = crate::planner::SoftState::default();
                let plan =
                    running.controller.plan_any(&key, &self.world.reader(), Soft(&mut soft), now, seed);
                show(running.controller.name(), key, plan);
            }
        }
    }
}

/// Who speaks in a note.
fn speaker_of<'a>(source: &'static str, note: &'a Note, host: Option<&'a str>) -> Speaker<'a> {
    let name = note.speaker.as_deref().unwrap_or(source);
    Speaker { source, name, host: host.unwrap_or_default() }
}

/// The account of a node.
fn account(node: &str) -> Arc<str> {
    format!("system:node:{node}").into()
}

/// A reconciler and a key in one word, for the cause of a commit.
fn tag(name: &str, key: &Key) -> String {
    format!("{name} {key}")
}

/// Whether a commit was caused by this reconciler for this key.
fn is_by(by: &str, name: &str, key: &Key) -> bool {
    by.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')).is_some_and(|rest| {
        rest.strip_prefix(key.resource().as_str()).and_then(|rest| rest.strip_prefix('/')) == Some(key.path())
    })
}

fn fill(mut note: Note, hole: &str, with: &str) -> Note {
    note.message = note.message.replace(hole, with);
    note
}

#[cfg(test)]
mod tests;
