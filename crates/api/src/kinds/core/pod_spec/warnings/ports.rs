//! Duplicate and overlapping ports of a pod.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_error::Path;
use crate::kinds::core::pod_spec::each_container;
use crate::kinds::read::{list, number, text};
use crate::quote::Quoted;
use crate::value::Value;

/// Maximum number of warnings about pairs of ports: n equal ports make n² pairs. Each warning has more than
/// 64 characters, so these fill the 4,096 that a response has for warnings, upstream's bound; further ones
/// would never be sent.
const PAIRS_MAX: usize = 64;

/// `true` if any two ports of a pod may need a warning. Most pods have none, and then no field path is built.
fn has_odd_ports(spec: &Value) -> bool {
    let (mut inside, mut names, mut is_odd) = (BTreeSet::new(), BTreeSet::new(), false);
    each_container(spec, &Path::NONE, |container, _| {
        for port in list(container, "ports") {
            let name = text(port, "name");
            is_odd |= !text(port, "hostIP").is_empty() && number(port, "hostPort") == 0;
            is_odd |= !inside.insert((number(port, "containerPort"), text(port, "protocol")));
            is_odd |= !name.is_empty() && !names.insert(name);
        }
    });
    is_odd
}

/// Ports with the same container port and protocol, in order.
#[derive(Default)]
struct SamePorts<'a> {
    /// Path, `hostIP` and `hostPort` of each.
    all: Vec<(String, &'a str, i64)>,
    /// Indexes by `hostPort` and `hostIP`.
    by_host: BTreeMap<(i64, &'a str), Vec<usize>>,
}

impl<'a> SamePorts<'a> {
    /// Earlier ports that conflict with this one, with the reason, in order; at most `max`.
    fn conflicts(&self, host: &'a str, outside: i64, max: usize) -> Vec<(usize, &'static str)> {
        let same_host = |at: usize| self.all[at].1 == host && self.all[at].2 == outside;
        let overlapping = |at: usize| (at, if same_host(at) { "duplicate" } else { "overlapping" });
        if outside == 0 {
            return (0..self.all.len()).take(max).map(overlapping).collect();
        }
        let mut found = Vec::new();
        let mut add = |range: &mut dyn Iterator<Item = &Vec<usize>>, how: &'static str| {
            // The first `max` in order are among the first `max` of each group.
            let firsts = range.flat_map(|places| places.iter().take(max)).take(max * max);
            found.extend(firsts.map(|at| (*at, how)));
        };
        add(&mut self.by_host.range((0, "")..(1, "")).map(|(_, places)| places), "overlapping");
        add(&mut self.by_host.get(&(outside, host)).into_iter(), "duplicate");
        let ambiguous = "dangerously ambiguous";
        if host.is_empty() {
            let named = self.by_host.range((outside, "")..(outside + 1, ""));
            add(&mut named.filter(|((_, host), _)| !host.is_empty()).map(|(_, places)| places), ambiguous);
        } else {
            add(&mut self.by_host.get(&(outside, "")).into_iter(), ambiguous);
        }
        found.sort_unstable();
        found.truncate(max);
        found
    }

    fn push(&mut self, here: String, host: &'a str, outside: i64) {
        self.by_host.entry((outside, host)).or_default().push(self.all.len());
        self.all.push((here, host, outside));
    }
}

pub(super) fn ports(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    if !has_odd_ports(spec) {
        return;
    }
    let mut seen: BTreeMap<(i64, &str), SamePorts<'_>> = BTreeMap::new();
    let mut pairs = 0;
    each_container(spec, path, |container, path| {
        let path = path.child("ports");
        for (i, port) in list(container, "ports").iter().enumerate() {
            let here = path.index(i).to_string();
            let (host, outside) = (text(port, "hostIP"), number(port, "hostPort"));
            let inside = (number(port, "containerPort"), text(port, "protocol"));
            if !host.is_empty() && outside == 0 {
                warnings.push(format!(
                    "{here}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{host}}}",
                    text(port, "name"),
                    inside.0,
                    inside.1,
                ));
            }
            let others = seen.entry(inside).or_default();
            for (at, how) in others.conflicts(host, outside, PAIRS_MAX - pairs) {
                warnings.push(format!("{here}: {how} port definition with {}", others.all[at].0));
                pairs += 1;
            }
            if pairs < PAIRS_MAX {
                others.push(here, host, outside);
            }
        }
    });
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    each_container(spec, path, |container, path| {
        let path = path.child("ports");
        for (i, port) in list(container, "ports").iter().enumerate() {
            let name = text(port, "name");
            let here = path.index(i);
            match names.get(name) {
                _ if name.is_empty() => {}
                None => drop(names.insert(name, here.to_string())),
                Some(first) => warnings.push(format!(
                    "{here}: duplicate port name {} with {first}, services and probes that select ports by name will use {first}",
                    Quoted(name)
                )),
            }
        }
    });
}
