//! A controller in one file: every namespace with the label `team` gets a ConfigMap `team` with the name and address of
//! the team. Delete or edit the ConfigMap, or change the label, and it is corrected within a moment.
//!
//! It is a pure function, and a few lines that run it against any server of the Kubernetes API:
//!
//! ```text
//! cargo run --release -- up --kubeconfig /tmp/kc &
//! cargo run --release --example own_controller -- /tmp/kc &
//! kubectl --kubeconfig /tmp/kc label namespace default team=red
//! kubectl --kubeconfig /tmp/kc get configmap team -o yaml
//! ```

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use setpoint_api::{Clock, Key, Time, Value, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Engine, Object, Plan, Planner, Seed, Seen, Watch, WorldConfig, WorldReader, Write};
use setpoint_runtime::client::Client;
use setpoint_runtime::remote::{REQUEST_TIMEOUT, Remote};

struct TeamCards;

impl Planner for TeamCards {
    type Memo = ();

    fn name(&self) -> &'static str {
        "team-cards"
    }

    fn manager(&self) -> &'static str {
        "team-cards"
    }

    /// Maps a namespace to its own key, and a ConfigMap named `team` to the key of its namespace.
    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [Watch::primary("namespaces"), Watch::mapped("configmaps", of_card)];
        &WATCHES
    }

    /// Compares the ConfigMap with the label, and returns the write that corrects it. It is called again after every
    /// change of either; a plan can be repeated, since each write has a precondition.
    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(namespace) = world.get(key).filter(|namespace| !namespace.meta().is_deleted()) else {
            return plan;
        };
        let card = world.find("configmaps", key.name(), "team");
        match (namespace.meta().labels.get("team"), card) {
            (Some(team), None) => {
                let object = value!({
                    "metadata": {"name": "team", "labels": {"made-by": (self.name())}},
                    "data": (data(team)),
                });
                plan.push(Write::create("configmaps", key.name(), object));
            }
            (Some(team), Some(card)) if card.value().get("data") != Some(&data(team)) => {
                plan.push(Write::merge(card, "", value!({"data": (data(team))})));
            }
            (None, Some(card)) if card.meta().labels.get("made-by") == Some(self.name()) => {
                plan.push(Write::delete(card));
            }
            _ => {}
        }
        plan
    }
}

fn data(team: &str) -> Value {
    value!({"team": (team), "mail": (format!("{team}@example.org"))})
}

fn of_card(card: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if &*card.meta().name == "team"
        && let Some(key) = key_of("namespaces", "", &card.meta().namespace)
    {
        enqueue(key);
    }
}

struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "a program of its own has a clock of its own")]
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).ok_or_else(|| anyhow::anyhow!("usage: own_controller KUBECONFIG"))?;
    let text = std::fs::read(path)?;
    let client = || Client::from_kubeconfig(&text, "team-cards").map(Arc::new);
    let chance = || RandomState::new().hash_one(SystemClock.now());
    let remote = Remote {
        watches: client()?,
        writes: client()?,
        lease: "team-cards",
        identity: format!("team-cards_{:x}", chance()),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(chance),
        queries: Arc::default(),
        timeout: REQUEST_TIMEOUT,
        timing: Default::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(remote.run(|| Engine::new(vec![Box::new(TeamCards)], WorldConfig::default())))?)
}
