//! The one shape of every controller.
//!
//! A [`Planner`] is a pure function from a key and the world to a [`Plan`]. It does no I/O, takes no lock,
//! reads no clock, draws no random number and keeps no memory: what it is told is all there is, so the same
//! question gets the same answer, in a server, in a simulator and in a fork.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::{Key, Resource, Time, Value};

use crate::clock::Jump;
use crate::engine::QueryLimiter;
use crate::object::Object;
use crate::plan::Plan;
use crate::world::WorldReader;

/// In whose name several planners write and speak.
#[derive(Clone, Copy, Debug)]
pub struct ClientIdentity {
    /// Who writes, where no node does ([`Planner::node`]).
    pub user: &'static str,
    /// Under which name fields are owned.
    pub manager: &'static str,
    /// Who speaks in Events.
    pub source: &'static str,
}

/// A controller.
pub trait Planner: Send + Sync + 'static {
    /// What it may remember from one plan to the next. Losing it may cost time, never safety.
    type Memo: Clone + Default + Send + Sync + 'static;

    /// Its name, as upstream calls it: `replicaset-controller`.
    fn name(&self) -> &'static str;

    /// Which changes concern which keys.
    fn watches(&self) -> &'static [Watch];

    /// What to do about a key. Level-triggered: it sees the world as it is, never the event that woke it.
    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Self::Memo>,
        now: Time,
        seed: Seed,
    ) -> Plan<Self::Memo>;

    /// As [`Planner::plan`], for a planner whose memo is too large to be copied: it gets it for its own.
    fn plan_owning(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: Seen<'_, Self::Memo>,
        now: Time,
        seed: Seed,
    ) -> Plan<Self::Memo> {
        self.plan(key, world, &seen, now, seed)
    }

    /// Corrects the times in a memo after the clock was set, or the machine slept: `now` is the time afterwards. Only a
    /// planner that remembers when it observed something has to; see [`Jump::shift`].
    fn clock_jumped(&self, _memo: &mut Self::Memo, _jump: Jump, _now: Time) {}

    /// In whose name it writes and speaks, if it is one of several that do so in the same.
    fn identity(&self) -> Option<ClientIdentity> {
        None
    }

    /// Who writes. By default the service account that upstream gives the controller.
    fn user(&self) -> String {
        match self.identity() {
            Some(identity) => identity.user.to_owned(),
            None => format!("system:serviceaccount:kube-system:{}", self.name()),
        }
    }

    /// The node in whose name it acts for a key, as that node's own account; nothing if it acts as [`Planner::user`].
    fn node(&self, _: &Key, _: &WorldReader<'_>) -> Option<String> {
        None
    }

    /// Under which name fields are owned.
    fn manager(&self) -> &'static str {
        self.identity().map_or("kube-controller-manager", |identity| identity.manager)
    }

    /// Who speaks in its Events. By default the controller by its name.
    fn source(&self) -> &'static str {
        self.identity().map_or(self.name(), |identity| identity.source)
    }

    /// All keys there are to look at, for the resync: by default every object of the resources that it watches for
    /// their own sake.
    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let own = self.watches().iter().filter(|watch| watch.is_primary);
        own.flat_map(|watch| world.all(watch.resource)).map(|object| object.key().clone()).collect()
    }
}

/// A change of this resource concerns these keys.
#[derive(Clone, Copy)]
pub struct Watch {
    /// The resource; `*` for every one.
    pub resource: &'static str,
    /// Whether the objects are themselves the keys.
    pub is_primary: bool,
    /// The keys that an object concerns: asked of what it was and of what it became.
    pub mapper: fn(&Object, &WorldReader<'_>, &mut dyn FnMut(Key)),
    /// Whether it predicate that an object is no longer what it was. That one comes or goes always predicate.
    pub predicate: fn(&Object, &Object) -> bool,
}

impl Watch {
    /// The objects of the resource are the keys.
    #[must_use]
    pub const fn primary(resource: &'static str) -> Watch {
        let mapper: fn(&Object, &WorldReader<'_>, &mut dyn FnMut(Key)) =
            |object, _, enqueue| enqueue(object.key().clone());
        Watch { resource, is_primary: true, mapper, predicate: |_, _| true }
    }

    /// Changes of the resource concern other keys.
    #[must_use]
    pub const fn mapped(
        resource: &'static str,
        mapper: fn(&Object, &WorldReader<'_>, &mut dyn FnMut(Key)),
    ) -> Watch {
        Watch { resource, is_primary: false, mapper, predicate: |_, _| true }
    }

    /// The same, but only for changes that matter.
    #[must_use]
    pub const fn when(self, predicate: fn(&Object, &Object) -> bool) -> Watch {
        Watch { predicate, ..self }
    }
}

/// Wakes the owner that manages an object, if it is of a kind: for [`Watch::mapped`].
pub fn enqueue_owner(object: &Object, kind: &str, resource: &str, enqueue: &mut dyn FnMut(Key)) {
    if let Some(owner) = object.meta().controller()
        && &*owner.kind == kind
        && let Some(key) = key_of(resource, &object.meta().namespace, &owner.name)
    {
        enqueue(key);
    }
}

/// The key of an object of a resource; nothing if the names cannot be any.
#[must_use]
pub fn key_of(resource: &str, namespace: &str, name: &str) -> Option<Key> {
    let resource = Resource::new(resource).ok()?;
    let key = if namespace.is_empty() {
        Key::cluster(&resource, name)
    } else {
        Key::namespaced(&resource, namespace, name)
    };
    key.ok()
}

/// What a planner is told beside the world: soft state, which may be lost at any time.
pub struct Seen<'a, M> {
    /// What the last plan wanted to be reminded of.
    pub memo: M,
    /// What the last plans asked for, by the id of the question.
    pub answers: &'a BTreeMap<String, QueryAnswer>,
    /// ReconcileReason the last plan could not be carried out; nothing if it was.
    pub failure: Option<&'a Failure>,
}

/// An answer from outside, and when it came.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryAnswer {
    /// The answer, or why there is none.
    pub answer: Result<Value, String>,
    /// When it came.
    pub at: Time,
}

/// A write of the last plan that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it was: `create`, `patch`, `delete`.
    pub verb: &'static str,
    /// Of which resource.
    pub resource: Resource,
    /// The reason, as a word of the API: `Forbidden`.
    pub reason: String,
    /// The message.
    pub message: String,
    /// When.
    pub at: Time,
}

/// Chance as an argument: the same for the same plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The `n`th number drawn from it, evenly spread.
    #[must_use]
    pub const fn draw(self, n: u64) -> u64 {
        // SplitMix64: one multiplication chain per number, no state to keep.
        let mut z = self.0.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

pub(crate) type Memo = Option<Arc<dyn Any + Send + Sync>>;

/// What the loop knows of a key from earlier plans, with the type of the memo forgotten.
#[derive(Default)]
pub(crate) struct SoftState {
    pub memo: Memo,
    pub answers: BTreeMap<String, QueryAnswer>,
    pub query_limiter: QueryLimiter,
    pub failure: Option<Failure>,
}

impl SoftState {
    /// Forgets what was asked and answered, when it is of no use to anybody any more.
    pub fn clear_queries(&mut self) {
        self.answers.clear();
        self.query_limiter = QueryLimiter::default();
    }
}

/// A planner of any type, as the loop holds it.
pub trait Controller: Send + Sync {
    /// See [`Planner::name`].
    fn name(&self) -> &'static str;
    /// See [`Planner::watches`].
    fn watches(&self) -> &'static [Watch];
    /// See [`Planner::user`].
    fn user(&self) -> String;
    /// See [`Planner::node`].
    fn node(&self, key: &Key, world: &WorldReader<'_>) -> Option<String>;
    /// See [`Planner::manager`].
    fn manager(&self) -> &'static str;
    /// See [`Planner::source`].
    fn source(&self) -> &'static str;
    /// See [`Planner::keys`].
    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key>;
    /// See [`Planner::clock_jumped`].
    #[doc(hidden)]
    fn clock_jumped_any(&self, memo: &mut Arc<dyn Any + Send + Sync>, jump: Jump, now: Time);
    /// See [`Planner::plan`].
    #[doc(hidden)]
    fn plan_any(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        soft: SoftStateMut<'_>,
        now: Time,
        seed: Seed,
    ) -> Plan<ErasedMemo>;
}

/// SoftStateMut state on its way to a planner, which takes the memo out of it: a plan that panics loses it.
pub struct SoftStateMut<'a>(pub(crate) &'a mut SoftState);

/// Plans of one key without a loop, with what the loop would keep of it. For tests: nothing is sent.
#[derive(Default)]
pub struct PlannerHarness(SoftState);

impl PlannerHarness {
    /// Plans the key, with the memo of the last plan.
    pub fn plan(
        &mut self,
        controller: &dyn Controller,
        key: &Key,
        world: &WorldReader<'_>,
        now: Time,
        seed: Seed,
    ) -> Plan<ErasedMemo> {
        let mut plan = controller.plan_any(key, world, SoftStateMut(&mut self.0), now, seed);
        self.0.memo = std::mem::take(&mut plan.memo).0;
        plan
    }

    /// `true` if the last plan left a memo.
    #[must_use]
    pub fn has_memo(&self) -> bool {
        self.0.memo.is_some()
    }

    /// Answers a question of the last plan.
    pub fn answer(&mut self, id: &str, answer: Value, at: Time) {
        self.0.answers.insert(id.to_owned(), QueryAnswer { answer: Ok(answer), at });
    }
}

/// A memo on its way back.
#[derive(Clone, Default)]
pub struct ErasedMemo(pub(crate) Memo);

impl<P: Planner> Controller for P {
    fn name(&self) -> &'static str {
        Planner::name(self)
    }

    fn watches(&self) -> &'static [Watch] {
        Planner::watches(self)
    }

    fn user(&self) -> String {
        Planner::user(self)
    }

    fn node(&self, key: &Key, world: &WorldReader<'_>) -> Option<String> {
        Planner::node(self, key, world)
    }

    fn manager(&self) -> &'static str {
        Planner::manager(self)
    }

    fn source(&self) -> &'static str {
        Planner::source(self)
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        Planner::keys(self, world)
    }

    fn clock_jumped_any(&self, memo: &mut Arc<dyn Any + Send + Sync>, jump: Jump, now: Time) {
        // Between plans the queue holds the only handle.
        if let Some(memo) = Arc::get_mut(memo).and_then(|memo| memo.downcast_mut::<P::Memo>()) {
            Planner::clock_jumped(self, memo, jump, now);
        }
    }

    fn plan_any(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        soft: SoftStateMut<'_>,
        now: Time,
        seed: Seed,
    ) -> Plan<ErasedMemo> {
        let SoftState { memo, answers, failure, .. } = soft.0;
        let memo = memo.take().and_then(|memo| memo.downcast::<P::Memo>().ok());
        let memo = memo.map(Arc::unwrap_or_clone).unwrap_or_default();
        let seen = Seen { memo, answers, failure: failure.as_ref() };
        let mut plan = self.plan_owning(key, world, seen, now, seed);
        let memo = std::mem::take(&mut plan.memo);
        // Most planners remember nothing, and then nothing is kept.
        let kept: Memo = (size_of::<P::Memo>() > 0).then(|| Arc::new(memo) as Arc<dyn Any + Send + Sync>);
        plan.with_memo(ErasedMemo(kept))
    }
}
