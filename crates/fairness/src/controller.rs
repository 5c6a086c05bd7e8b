//! Priority levels of a server, and their configuration.
//!
//! Each level has a lock of its own. The state lock comes before the locks of levels, and those are taken in the order
//! of their names.

pub mod configuration;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use self::configuration::{Configuration, Schema};
use crate::level::Level;
use crate::level::report::{LevelDump, LevelReport};
use crate::limits::{Adjustment, LevelLimits, adjust, nominal_limits};
use crate::objects::flow_schema::FlowSchema;
use crate::objects::priority_level::{CATCH_ALL, EXEMPT, LevelSpec, LimitResponse, PriorityLevel};

/// Time between two adjustments of the limits to the demands.
pub const ADJUSTMENT_PERIOD: Duration = Duration::from_secs(10);
/// Part of the server's seats that utilization of a level without seats refers to.
const DENOMINATOR_PART: u32 = 10;

/// A priority level that requests share.
#[derive(Debug)]
pub struct LevelHandle<W> {
    level: Mutex<Level<W>>,
}

impl<W> LevelHandle<W> {
    /// Locks the level.
    pub fn lock(&self) -> MutexGuard<'_, Level<W>> {
        self.level.lock()
    }
}

/// All priority levels of a server.
#[derive(Debug)]
pub struct Controller<W> {
    /// Seats of the server.
    server_limit: u32,
    state: Mutex<State<W>>,
}

#[derive(Debug)]
struct State<W> {
    levels: BTreeMap<Box<str>, Arc<LevelHandle<W>>>,
    /// Configured levels, by name; those that only drain are missing.
    specs: BTreeMap<Box<str>, PriorityLevel>,
    schemas: Vec<FlowSchema>,
    generation: u64,
    /// Time of the last adjustment by demand.
    adjusted_at: Duration,
    fair_fraction: f64,
}

impl<W> Controller<W> {
    /// Creates a controller of a server with so many seats. It has no levels before [`Controller::reconfigure`].
    #[must_use]
    pub fn new(server_limit: u32, now: Duration) -> Controller<W> {
        let state = State {
            levels: BTreeMap::new(),
            specs: BTreeMap::new(),
            schemas: Vec::new(),
            generation: 0,
            adjusted_at: now,
            fair_fraction: 0.0,
        };
        Controller { server_limit, state: Mutex::new(state) }
    }

    /// Applies objects as configuration `generation`, which is larger than that of any earlier configuration. Missing
    /// mandatory objects are supplied. Returns the configuration, and the waiters of requests that it dispatches.
    ///
    /// Levels that are gone stay while they have requests, and get seats by their former shares.
    pub fn reconfigure(
        &self,
        now: Duration,
        generation: u64,
        schemas: Vec<FlowSchema>,
        levels: Vec<PriorityLevel>,
    ) -> (Arc<Configuration<W>>, Vec<W>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.generation = generation;
        state.specs = levels.into_iter().map(|level| (level.name.clone(), level)).collect();
        for name in [EXEMPT, CATCH_ALL] {
            if !state.specs.contains_key(name) {
                state.specs.extend(PriorityLevel::built_in(name).map(|level| (name.into(), level)));
            }
        }
        state.schemas = ordered_schemas(schemas, &state.specs);
        for (name, level) in &state.specs {
            if !state.levels.contains_key(name) {
                let level = LevelHandle { level: Mutex::new(Level::new(level, now)) };
                state.levels.insert(name.clone(), Arc::new(level));
            }
        }
        let dispatched = self.apply(state, now, 1);
        (Arc::new(configuration(state)), dispatched)
    }

    /// Adjusts the limits to the demands if a period has passed. Returns the waiters of requests that it dispatches.
    pub fn adjust(&self, now: Duration) -> Vec<W> {
        let Some(mut state) = self.state.try_lock() else { return Vec::new() };
        let elapsed = now.saturating_sub(state.adjusted_at);
        if elapsed < ADJUSTMENT_PERIOD {
            return Vec::new();
        }
        state.adjusted_at = now;
        let periods = elapsed.as_secs() / ADJUSTMENT_PERIOD.as_secs();
        self.apply(&mut state, now, u32::try_from(periods).unwrap_or(u32::MAX))
    }

    /// Seats of the server.
    #[must_use]
    pub fn server_limit(&self) -> u32 {
        self.server_limit
    }

    /// Fraction of its demand that each level gets.
    #[must_use]
    pub fn fair_fraction(&self) -> f64 {
        self.state.lock().fair_fraction
    }

    /// Returns the levels, by name.
    #[must_use]
    pub fn levels(&self) -> Vec<Arc<LevelHandle<W>>> {
        self.state.lock().levels.values().cloned().collect()
    }

    /// Returns the state of all levels for metrics, by name.
    #[must_use]
    pub fn reports(&self, now: Duration) -> Vec<LevelReport> {
        self.levels().iter().map(|level| level.lock().report(now)).collect()
    }

    /// Returns the names of all levels with their queues and requests.
    pub(crate) fn dumps(&self) -> Vec<(Box<str>, LevelDump)> {
        let dump = |level: &Arc<LevelHandle<W>>| {
            let level = level.lock();
            (level.name().into(), level.dump())
        };
        self.levels().iter().map(dump).collect()
    }

    /// Sets specs and limits of all levels, after so many adjustment periods. Removes levels that are drained.
    fn apply(&self, state: &mut State<W>, now: Duration, periods: u32) -> Vec<W> {
        let State { levels, specs, schemas, generation, .. } = state;
        levels.retain(|name, level| {
            let mut level = level.lock();
            let is_kept = specs.contains_key(name) || !level.is_idle();
            if !is_kept {
                level.remove();
            }
            is_kept
        });
        let handles: Vec<(&str, &Arc<LevelHandle<W>>)> =
            levels.iter().map(|(name, level)| (&**name, level)).collect();
        let mut levels: Vec<MutexGuard<'_, Level<W>>> =
            handles.iter().map(|(_, level)| level.lock()).collect();
        for (level, (name, _)) in levels.iter_mut().zip(&handles) {
            level.configure(now, *generation, specs.get(*name).map(|level| &level.spec));
            level.retain_schemas(|schema| {
                schemas.iter().any(|one| *one.name == *schema && *one.level == **name)
            });
        }
        let level_specs: Vec<LevelSpec> = levels.iter().map(|level| level.spec().clone()).collect();
        let mut limits = nominal_limits(self.server_limit, &level_specs.iter().collect::<Vec<_>>());
        let borrowing = levels.iter_mut().zip(&mut limits).map(|(level, limits)| {
            let mut borrowing = level.take_demand(now, periods);
            limits.current = borrowing.limits.current;
            borrowing.limits = *limits;
            borrowing
        });
        let Adjustment { current, targets, fair_fraction } = adjust(&borrowing.collect::<Vec<_>>());
        let mut dispatched = Vec::new();
        for (((level, mut limits), current), target) in
            levels.iter_mut().zip(limits).zip(current).zip(targets)
        {
            limits.current = current;
            level.set_demand_target(target);
            level.set_limits(now, limits, self.denominator(limits));
            dispatched.append(&mut level.take_dispatched());
        }
        drop(levels);
        state.fair_fraction = fair_fraction;
        dispatched
    }

    /// Seats that the utilization of a level refers to.
    fn denominator(&self, limits: LevelLimits) -> u32 {
        if limits.current > 0 { limits.current } else { (self.server_limit / DENOMINATOR_PART).max(1) }
    }
}

/// Returns the FlowSchemas of existing levels in the order of matching, with the mandatory ones.
fn ordered_schemas(
    mut schemas: Vec<FlowSchema>,
    levels: &BTreeMap<Box<str>, PriorityLevel>,
) -> Vec<FlowSchema> {
    schemas.retain(|schema| levels.contains_key(&schema.level));
    schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
    let has = |schemas: &[FlowSchema], name: &str| schemas.iter().any(|schema| *schema.name == *name);
    if !has(&schemas, EXEMPT)
        && let Some(exempt) = FlowSchema::built_in(EXEMPT)
    {
        schemas.insert(0, exempt);
    }
    if !has(&schemas, CATCH_ALL) {
        schemas.extend(FlowSchema::built_in(CATCH_ALL));
    }
    schemas
}

fn configuration<W>(state: &State<W>) -> Configuration<W> {
    let schema = |schema: &FlowSchema| {
        let handle = state.levels.get(&schema.level)?;
        let level = state.specs.get(&schema.level)?;
        Some(Schema {
            schema: schema.clone(),
            level_name: level.name.clone(),
            level_uid: level.uid.clone(),
            is_exempt: level.spec.response == LimitResponse::Exempt,
            position: handle.lock().schema_position(&schema.name),
            level: Arc::clone(handle),
        })
    };
    Configuration { generation: state.generation, schemas: state.schemas.iter().filter_map(schema).collect() }
}

#[cfg(test)]
mod tests;
