//! From what pods use to how many there should be.
//!
//! Pods that tell nothing are taken for what would change least: when pods are to be added they use nothing, when
//! pods are to be taken away they use all they should.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::quantity::Quantity;
use setpoint_api::{Time, Value};
use setpoint_reconcile::views::condition;
use setpoint_reconcile::views::pod::{Container, Pod};

use crate::pods;

/// How long a new pod may burn more CPU than it will.
const START_UP: Duration = Duration::from_secs(300);
/// How long a pod that was never ready is not asked for its CPU.
const FIRST_READINESS: Duration = Duration::from_secs(30);

/// What a pod told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// In thousandths.
    pub value: i64,
    /// When it was taken.
    pub at: Time,
    /// Over which time.
    pub window: Duration,
}

pub(super) type Samples = BTreeMap<String, Sample>;

/// How far numbers may be off before anything is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerances {
    pub down: f64,
    pub up: f64,
}

impl Tolerances {
    pub fn contain(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// How much is used, compared with the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub ratio: f64,
    /// In percent of what pods ask for, where that is the target.
    pub percent: Option<i64>,
    /// For each pod, in thousandths.
    pub average: i64,
}

/// What there is to know about the pods that are scaled.
pub(super) struct Crowd<'a> {
    pub pods: Vec<pods::Seen<'a>>,
    pub current: i64,
    pub tolerances: Tolerances,
    pub now: Time,
}

impl Crowd<'_> {
    /// How many pods a target in percent of their requests needs.
    pub fn for_percent(
        &self,
        samples: Samples,
        resource: &str,
        container: &str,
        target: i64,
    ) -> Result<(i64, Usage), String> {
        let mut requests = BTreeMap::new();
        for (object, pod) in &self.pods {
            let request = request(&object.meta().name, pod, container, resource);
            requests.insert(object.meta().name.to_string(), request);
        }
        let of = |name: &str| match requests.get(name) {
            Some(Ok(request)) => *request,
            _ => 0,
        };
        let measure = |samples: &Samples| {
            // A pod that asks for nothing has no share of it.
            for request in requests.values() {
                request.as_ref().map_err(Clone::clone)?;
            }
            let known = samples.iter().filter(|(name, _)| requests.contains_key(*name));
            let (mut used, mut asked, mut count) = (0i64, 0i64, 0i64);
            for (name, sample) in known {
                used = used.saturating_add(sample.value);
                asked = asked.saturating_add(of(name));
                count += 1;
            }
            if asked == 0 {
                return Err("no metrics returned matched known pods".to_owned());
            }
            let percent = used.saturating_mul(100) / asked;
            let ratio = percent as f64 / target as f64;
            Ok(Usage { ratio, percent: Some(percent), average: used / count })
        };
        self.weigh(samples, resource == "cpu", measure, |name| of(name).saturating_mul(target.max(100)) / 100)
    }

    /// How many pods a target for each of them needs, in thousandths.
    pub fn for_average(&self, samples: Samples, is_cpu: bool, target: i64) -> Result<(i64, Usage), String> {
        let measure = |samples: &Samples| {
            let used = samples.values().fold(0i64, |sum, sample| sum.saturating_add(sample.value));
            let average = used / i64::try_from(samples.len()).unwrap_or(i64::MAX).max(1);
            Ok(Usage { ratio: average as f64 / target as f64, percent: None, average })
        };
        self.weigh(samples, is_cpu, measure, |_| target)
    }

    fn weigh(
        &self,
        mut samples: Samples,
        is_cpu: bool,
        measure: impl Fn(&Samples) -> Result<Usage, String>,
        full: impl Fn(&str) -> i64,
    ) -> Result<(i64, Usage), String> {
        if self.pods.is_empty() {
            return Err("no pods returned by selector while calculating replica count".to_owned());
        }
        let groups = self.groups(&samples, is_cpu);
        samples.retain(|name, _| !groups.ignored.contains(name) && !groups.unready.contains(name));
        if samples.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        let usage = measure(&samples)?;
        let adds_to_unready = !groups.unready.is_empty() && usage.ratio > 1.0;
        if !adds_to_unready && groups.missing.is_empty() {
            let wanted = (usage.ratio * groups.ready as f64).ceil() as i64;
            return Ok((if self.tolerances.contain(usage.ratio) { self.current } else { wanted }, usage));
        }
        let filled = |value: i64| Sample { value, at: self.now, window: Duration::ZERO };
        for name in &groups.missing {
            if usage.ratio < 1.0 {
                samples.insert(name.clone(), filled(full(name)));
            } else if usage.ratio > 1.0 {
                samples.insert(name.clone(), filled(0));
            }
        }
        if adds_to_unready {
            samples.extend(groups.unready.iter().map(|name| (name.clone(), filled(0))));
        }
        let careful = measure(&samples)?.ratio;
        let turns = (usage.ratio < 1.0) != (careful < 1.0) && (usage.ratio > 1.0) != (careful > 1.0);
        if self.tolerances.contain(careful) || turns {
            return Ok((self.current, usage));
        }
        let wanted = (careful * samples.len() as f64).ceil() as i64;
        let is_against = careful < 1.0 && wanted > self.current || careful > 1.0 && wanted < self.current;
        Ok((if is_against { self.current } else { wanted }, usage))
    }

    /// How many pods a number about something else needs, given as its ratio to the target.
    pub fn for_ratio(&self, ratio: f64) -> Result<i64, String> {
        if self.current == 0 {
            return Ok(ratio.ceil() as i64);
        }
        if self.tolerances.contain(ratio) {
            return Ok(self.current);
        }
        if self.pods.is_empty() {
            let why = "no pods returned by selector while calculating replica count";
            return Err(format!("unable to calculate ready pods: {why}"));
        }
        let ready =
            self.pods.iter().filter(|(_, pod)| pod.status.phase == "Running" && pod.is_ready()).count();
        Ok((ratio * ready as f64).ceil() as i64)
    }

    fn groups(&self, samples: &Samples, is_cpu: bool) -> Groups {
        let mut groups = Groups::default();
        for (object, pod) in &self.pods {
            let name = object.meta().name.to_string();
            if object.meta().is_deleted() || pod.status.phase == "Failed" {
                groups.ignored.insert(name);
            } else if pod.status.phase == "Pending" {
                groups.unready.insert(name);
            } else {
                match samples.get(&name) {
                    None => {
                        groups.missing.insert(name);
                    }
                    Some(sample) if is_cpu && self.is_starting(pod, sample) => {
                        groups.unready.insert(name);
                    }
                    Some(_) => groups.ready += 1,
                }
            }
        }
        groups
    }

    /// Whether what a pod burns now says nothing about what it will.
    fn is_starting(&self, pod: &Pod, sample: &Sample) -> bool {
        let Some(ready) = condition(&pod.status.conditions, "Ready") else { return true };
        let Some(start) = pod.status.start_time else { return true };
        let since = ready.last_transition_time.unwrap_or(Time::EPOCH);
        if start.after(START_UP) > self.now {
            ready.status == "False" || sample.at < since.after(sample.window)
        } else {
            ready.status == "False" && start.after(FIRST_READINESS) > since
        }
    }
}

#[derive(Default)]
struct Groups {
    ready: usize,
    /// They have just started, or have not.
    unready: BTreeSet<String>,
    /// They tell nothing.
    missing: BTreeSet<String>,
    /// They are on their way out.
    ignored: BTreeSet<String>,
}

/// What a pod, or one container of it, asks for, in thousandths.
fn request(name: &str, pod: &Pod, container: &str, resource: &str) -> Result<i64, String> {
    let as_a_whole = pod.spec.resources.as_ref().and_then(|whole| whole.get("requests"));
    if let Some(whole) = as_a_whole.filter(|_| container.is_empty()).and_then(Value::as_map)
        && !whole.is_empty()
    {
        let text = whole.get_str(resource);
        return text
            .and_then(milli)
            .ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"));
    }
    let beside = pod.spec.init_containers.iter().filter(|one| one.restart_policy == "Always");
    let all: Vec<&Container> = pod.spec.containers.iter().chain(beside).collect();
    let mut sum: i64 = 0;
    for one in all.iter().filter(|one| container.is_empty() || container == one.name) {
        let text = one.resources.requests.get(resource);
        let missing = || format!("missing request for {resource} in container {} of Pod {name}", one.name);
        sum = sum.saturating_add(text.and_then(milli).ok_or_else(missing)?);
    }
    if !container.is_empty() && all.iter().all(|one| one.name != container) {
        return Err(format!("container {container} not found in Pod {name}"));
    }
    Ok(sum)
}

/// A quantity in thousandths.
pub(super) fn milli(text: &str) -> Option<i64> {
    Quantity::parse(text).ok().map(Quantity::milli_value)
}
