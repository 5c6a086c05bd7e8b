//! Replica calculator: desired number of pods from the usage that metrics report.
//!
//! Pods without metrics are assumed to have the usage that changes the result least: zero when scaling up,
//! the full target when scaling down.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::quantity::Quantity;
use setpoint_api::{Time, Value};
use setpoint_views::condition;
use setpoint_views::pod::{Container, Pod};

use crate::pods;

/// Time after the start of a pod in which CPU samples count only if the pod is ready for a whole window.
const CPU_INITIALIZATION_PERIOD: Duration = Duration::from_secs(300);
/// Time after the start in which a pod that was never ready counts as unready, and its CPU samples are
/// ignored.
const INITIAL_READINESS_DELAY: Duration = Duration::from_secs(30);

/// Metric sample of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Value in thousandths.
    pub value: i64,
    /// Time of the sample.
    pub at: Time,
    /// Window of the sample.
    pub window: Duration,
}

pub(super) type Samples = BTreeMap<String, Sample>;

/// Relative deviations from the target within which nothing is scaled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerances {
    pub down: f64,
    pub up: f64,
}

impl Tolerances {
    pub fn is_within(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// Usage compared with the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub ratio: f64,
    /// Usage in percent of the requests, for utilization targets.
    pub percent: Option<i64>,
    /// Average per pod, in thousandths.
    pub average: i64,
}

/// Pods of the scale target, and the settings to evaluate them.
pub(super) struct ReplicaCalculator<'a> {
    pub pods: Vec<pods::PodRef<'a>>,
    pub current: i64,
    pub tolerances: Tolerances,
    pub now: Time,
}

impl ReplicaCalculator<'_> {
    /// Number of pods for a target in percent of the requests.
    pub fn replicas_for_utilization(
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
        let request_of = |name: &str| match requests.get(name) {
            Some(Ok(request)) => *request,
            _ => 0,
        };
        let measure = |samples: &Samples| {
            // A pod without a request has no utilization.
            for request in requests.values() {
                request.as_ref().map_err(Clone::clone)?;
            }
            let matched = samples.iter().filter(|(name, _)| requests.contains_key(*name));
            let (mut used, mut requested, mut count) = (0i64, 0i64, 0i64);
            for (name, sample) in matched {
                used = used.saturating_add(sample.value);
                requested = requested.saturating_add(request_of(name));
                count += 1;
            }
            if requested == 0 {
                return Err("no metrics returned matched known pods".to_owned());
            }
            let percent = used.saturating_mul(100) / requested;
            let ratio = percent as f64 / target as f64;
            Ok(Usage { ratio, percent: Some(percent), average: used / count })
        };
        self.compute_replicas(samples, resource == "cpu", measure, |name| {
            request_of(name).saturating_mul(target.max(100)) / 100
        })
    }

    /// Number of pods for a target average per pod, in thousandths.
    pub fn replicas_for_average(
        &self,
        samples: Samples,
        is_cpu: bool,
        target: i64,
    ) -> Result<(i64, Usage), String> {
        let measure = |samples: &Samples| {
            let used = samples.values().fold(0i64, |result, sample| result.saturating_add(sample.value));
            let average = used / i64::try_from(samples.len()).unwrap_or(i64::MAX).max(1);
            Ok(Usage { ratio: average as f64 / target as f64, percent: None, average })
        };
        self.compute_replicas(samples, is_cpu, measure, |_| target)
    }

    fn compute_replicas(
        &self,
        mut samples: Samples,
        is_cpu: bool,
        measure: impl Fn(&Samples) -> Result<Usage, String>,
        full: impl Fn(&str) -> i64,
    ) -> Result<(i64, Usage), String> {
        if self.pods.is_empty() {
            return Err("no pods returned by selector while calculating replica count".to_owned());
        }
        let groups = self.group_pods(&samples, is_cpu);
        samples.retain(|name, _| !groups.ignored.contains(name) && !groups.unready.contains(name));
        if samples.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        let usage = measure(&samples)?;
        let scales_up_with_unready = !groups.unready.is_empty() && usage.ratio > 1.0;
        if !scales_up_with_unready && groups.missing.is_empty() {
            let desired = (usage.ratio * groups.ready as f64).ceil() as i64;
            return Ok((if self.tolerances.is_within(usage.ratio) { self.current } else { desired }, usage));
        }
        let assumed = |value: i64| Sample { value, at: self.now, window: Duration::ZERO };
        for name in &groups.missing {
            if usage.ratio < 1.0 {
                samples.insert(name.clone(), assumed(full(name)));
            } else if usage.ratio > 1.0 {
                samples.insert(name.clone(), assumed(0));
            }
        }
        if scales_up_with_unready {
            samples.extend(groups.unready.iter().map(|name| (name.clone(), assumed(0))));
        }
        let adjusted_ratio = measure(&samples)?.ratio;
        let changes_direction =
            (usage.ratio < 1.0) != (adjusted_ratio < 1.0) && (usage.ratio > 1.0) != (adjusted_ratio > 1.0);
        if self.tolerances.is_within(adjusted_ratio) || changes_direction {
            return Ok((self.current, usage));
        }
        let desired = (adjusted_ratio * samples.len() as f64).ceil() as i64;
        let is_against =
            adjusted_ratio < 1.0 && desired > self.current || adjusted_ratio > 1.0 && desired < self.current;
        Ok((if is_against { self.current } else { desired }, usage))
    }

    /// Number of pods for a metric of another object, given as its ratio to the target.
    pub fn replicas_for_ratio(&self, ratio: f64) -> Result<i64, String> {
        if self.current == 0 {
            return Ok(ratio.ceil() as i64);
        }
        if self.tolerances.is_within(ratio) {
            return Ok(self.current);
        }
        if self.pods.is_empty() {
            let reason = "no pods returned by selector while calculating replica count";
            return Err(format!("unable to calculate ready pods: {reason}"));
        }
        let ready =
            self.pods.iter().filter(|(_, pod)| pod.status.phase == "Running" && pod.is_ready()).count();
        Ok((ratio * ready as f64).ceil() as i64)
    }

    fn group_pods(&self, samples: &Samples, is_cpu: bool) -> PodGroups {
        let mut groups = PodGroups::default();
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
                    Some(sample) if is_cpu && self.is_cpu_unready(pod, sample) => {
                        groups.unready.insert(name);
                    }
                    Some(_) => groups.ready += 1,
                }
            }
        }
        groups
    }

    /// `true` if the CPU usage of a pod still includes its start.
    fn is_cpu_unready(&self, pod: &Pod, sample: &Sample) -> bool {
        let Some(ready) = condition(&pod.status.conditions, "Ready") else { return true };
        let Some(start) = pod.status.start_time else { return true };
        let since = ready.last_transition_time.unwrap_or(Time::EPOCH);
        if start.after(CPU_INITIALIZATION_PERIOD) > self.now {
            ready.status == "False" || sample.at < since.after(sample.window)
        } else {
            ready.status == "False" && start.after(INITIAL_READINESS_DELAY) > since
        }
    }
}

#[derive(Default)]
struct PodGroups {
    ready: usize,
    /// Pods that are pending, starting or not ready.
    unready: BTreeSet<String>,
    /// Pods without a sample.
    missing: BTreeSet<String>,
    /// Pods that are failed or being deleted.
    ignored: BTreeSet<String>,
}

/// Request of a pod, or of one of its containers, in thousandths.
fn request(name: &str, pod: &Pod, container: &str, resource: &str) -> Result<i64, String> {
    let pod_level = pod.spec.resources.as_ref().and_then(|value_target| value_target.get("requests"));
    if let Some(value_target) = pod_level.filter(|_| container.is_empty()).and_then(Value::as_map)
        && !value_target.is_empty()
    {
        let text = value_target.get_str(resource);
        return text
            .and_then(milli)
            .ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"));
    }
    let sidecars = pod.spec.init_containers.iter().filter(|container| container.restart_policy == "Always");
    let containers: Vec<&Container> = pod.spec.containers.iter().chain(sidecars).collect();
    let mut result: i64 = 0;
    for candidate in containers.iter().filter(|candidate| container.is_empty() || container == candidate.name)
    {
        let text = candidate.resources.requests.get(resource);
        let missing =
            || format!("missing request for {resource} in container {} of Pod {name}", candidate.name);
        result = result.saturating_add(text.and_then(milli).ok_or_else(missing)?);
    }
    if !container.is_empty() && containers.iter().all(|candidate| candidate.name != container) {
        return Err(format!("container {container} not found in Pod {name}"));
    }
    Ok(result)
}

/// Parses a quantity into thousandths.
pub(super) fn milli(text: &str) -> Option<i64> {
    Quantity::parse(text).ok().map(Quantity::milli_value)
}
