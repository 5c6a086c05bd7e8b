//! Planners: controllers as pure functions from a key and the [`WorldReader`] to a [`Plan`].
//!
//! A [`Planner`] does no I/O, takes no lock, reads no clock, draws no random number and has no state of its own: its
//! arguments are its only inputs. Equal arguments give equal plans, in a server, in a simulator and in a fork.
//!
//! Start at [`Planner::plan`] and [`Watch`].

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::{Key, Resource, Time, Value};

use crate::clock::Jump;
use crate::engine::QueryLimiter;
use crate::object::Object;
use crate::plan::Plan;
use crate::world::WorldReader;

/// Watch of all resources.
pub const ALL_RESOURCES: &str = "*";
/// Watch of all resources that are added while the loop runs, such as custom resources.
pub const SERVED_LATER: &str = "+";

/// Identity that several planners share.
#[derive(Clone, Copy, Debug)]
pub struct ClientIdentity {
    /// User of the writes that are not attributed to a node; see [`Planner::node`].
    pub user: &'static str,
    /// Field manager.
    pub manager: &'static str,
    /// Reporting component of Events.
    pub source: &'static str,
}

/// A controller.
pub trait Planner: Send + Sync + 'static {
    /// State between plans of one key. Losing it may cost time, never safety.
    type Memo: Clone + Default + Send + Sync + 'static;

    /// Name in upstream: `replicaset-controller`.
    fn name(&self) -> &'static str;

    /// Watched resources, and the keys that their changes concern.
    fn watches(&self) -> &'static [Watch];

    /// Plans a key. Level-triggered: the input is the current world, never the change that enqueued the key.
    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Self::Memo>,
        now: Time,
        seed: Seed,
    ) -> Plan<Self::Memo>;

    /// Like [`Planner::plan`], with an owned memo, for memos that are too large to be copied.
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

    /// Corrects the times in a memo after a step of the clock or a suspension; `now` is the time after it. Only needed for
    /// times of local observations; see [`Jump::shift`].
    fn clock_jumped(&self, _memo: &mut Self::Memo, _jump: Jump, _now: Time) {}

    /// Identity that it shares with other planners; `None` if it has its own.
    fn identity(&self) -> Option<ClientIdentity> {
        None
    }

    /// User of its writes. By default the controller's service account in upstream.
    fn user(&self) -> String {
        match self.identity() {
            Some(identity) => identity.user.to_owned(),
            None => format!("system:serviceaccount:kube-system:{}", self.name()),
        }
    }

    /// Node that the writes of a key are attributed to; `None` for [`Planner::user`].
    fn node(&self, _: &Key, _: &WorldReader<'_>) -> Option<String> {
        None
    }

    /// Field manager of its writes.
    fn manager(&self) -> &'static str {
        self.identity().map_or("kube-controller-manager", |identity| identity.manager)
    }

    /// Reporting component of its Events. By default its name.
    fn source(&self) -> &'static str {
        self.identity().map_or(self.name(), |identity| identity.source)
    }

    /// All keys, for the resync. By default every object of its primary resources.
    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let primary = self.watches().iter().filter(|watch| watch.is_primary);
        primary.flat_map(|watch| world.all(watch.resource)).map(|object| object.key().clone()).collect()
    }
}

/// Watch of a resource, with the keys that a change concerns.
#[derive(Clone, Copy)]
pub struct Watch {
    /// Resource; [`ALL_RESOURCES`] for all, [`SERVED_LATER`] for those that are added while the loop runs.
    pub resource: &'static str,
    /// `true` if the objects themselves are the keys.
    pub is_primary: bool,
    /// Enqueues the keys that an object concerns. Called with the old and with the new state of a changed object.
    pub mapper: fn(&Object, &WorldReader<'_>, &mut dyn FnMut(Key)),
    /// `true` if the difference between the old and the new state matters. Not called for creations and deletions, which
    /// always matter.
    pub predicate: fn(&Object, &Object) -> bool,
}

impl Watch {
    /// Watches the resource whose objects are the keys.
    #[must_use]
    pub const fn primary(resource: &'static str) -> Watch {
        let mapper: fn(&Object, &WorldReader<'_>, &mut dyn FnMut(Key)) =
            |object, _, enqueue| enqueue(object.key().clone());
        Watch { resource, is_primary: true, mapper, predicate: |_, _| true }
    }

    /// Watches a resource whose changes concern other keys.
    #[must_use]
    pub const fn mapped(
        resource: &'static str,
        mapper: fn(&Object, &WorldReader<'_>, &mut dyn FnMut(Key)),
    ) -> Watch {
        Watch { resource, is_primary: false, mapper, predicate: |_, _| true }
    }

    /// Restricts the watch to updates that fulfill a predicate.
    #[must_use]
    pub const fn when(self, predicate: fn(&Object, &Object) -> bool) -> Watch {
        Watch { predicate, ..self }
    }
}

/// Enqueues the controller owner of an object if it is of a kind; for [`Watch::mapped`].
pub fn enqueue_owner(object: &Object, kind: &str, resource: &str, enqueue: &mut dyn FnMut(Key)) {
    if let Some(owner) = object.meta().controller()
        && &*owner.kind == kind
        && let Some(key) = key_of(resource, &object.meta().namespace, &owner.name)
    {
        enqueue(key);
    }
}

/// Returns the key of an object; `None` if a name is invalid. An empty namespace means cluster-scoped.
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

/// Input of a planner besides the world: soft state, which may be lost at any time.
pub struct Seen<'a, M> {
    /// Memo of the last plan.
    pub memo: M,
    /// Answers of the queries of earlier plans, by query id.
    pub answers: &'a BTreeMap<String, QueryAnswer>,
    /// Failure of the last plan; `None` if it was carried out.
    pub failure: Option<&'a Failure>,
}

/// Answer of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryAnswer {
    /// The answer, or the error of the query handler.
    pub answer: Result<Value, String>,
    /// Time of arrival.
    pub at: Time,
}

/// Failed write of the last plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Verb: `create`, `patch`, `delete`; `plan` if the planner panicked.
    pub verb: &'static str,
    /// Resource.
    pub resource: Resource,
    /// Reason of the API status: `Forbidden`.
    pub reason: String,
    /// Message of the API status.
    pub message: String,
    /// Time of the outcome.
    pub at: Time,
}

/// Seed of the random numbers of one plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// Returns the `n`th random number, uniformly distributed.
    #[must_use]
    pub const fn draw(self, n: u64) -> u64 {
        // SplitMix64: one chain of multiplications per number, and no state.
        let mut z = self.0.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

pub(crate) type Memo = Option<Arc<dyn Any + Send + Sync>>;

/// State of a key from earlier plans, with an erased memo. May be lost at any time.
#[derive(Default)]
pub(crate) struct SoftState {
    pub memo: Memo,
    pub answers: BTreeMap<String, QueryAnswer>,
    pub query_limiter: QueryLimiter,
    pub failure: Option<Failure>,
}

impl SoftState {
    /// Drops all queries and answers, when the object of the key is gone or the clock was set.
    pub fn clear_queries(&mut self) {
        self.answers.clear();
        self.query_limiter = QueryLimiter::default();
    }
}

/// Planner with an erased memo type, as the loop holds it.
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

/// Soft state of a key during its plan. The plan takes the memo out, so a plan that panics loses it.
pub struct SoftStateMut<'a>(pub(crate) &'a mut SoftState);

/// Plans one key without a loop, and keeps its memo and answers as the loop does. Sends nothing; for tests.
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

    /// Answers a query of the last plan.
    pub fn answer(&mut self, id: &str, answer: Value, at: Time) {
        self.0.answers.insert(id.to_owned(), QueryAnswer { answer: Ok(answer), at });
    }
}

/// Memo of a plan whose type is erased.
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
        // Most planners have no memo; nothing is allocated for these.
        let erased: Memo = (size_of::<P::Memo>() > 0).then(|| Arc::new(memo) as Arc<dyn Any + Send + Sync>);
        plan.with_memo(ErasedMemo(erased))
    }
}
