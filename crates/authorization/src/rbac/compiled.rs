//! Compiled rules of a user: an index by verb, group and resource.
//!
//! ```text
//! verb ─► group ─► resource ─► names
//! get     ""       pods         all: binding 3
//! get     ""       */scale      web: binding 7
//! *       *        *            all: binding 1
//! ```
//!
//! Each level has its named entries and one for `*`, so a decision visits at most 2 × 2 × 3 entries. Of those that
//! allow the request the first binding is the reason, as if all rules were tried one after the other. A rule that would
//! make too many entries is kept as it is, so that a small role cannot expand to a large index.

use std::collections::BTreeMap;

use setpoint_api::RequestInfo;

use super::rule::{ALL, PolicyRule};

/// Entries of one rule; a rule with more is tried one by one.
const RULE_ENTRIES_MAX: usize = 4096;
/// Entries of an index; further rules are tried one by one.
const INDEX_ENTRIES_MAX: usize = 1 << 18;

/// Position of a binding in the order of evaluation.
pub(super) type Position = u32;

/// One level of the index: entries by name, and the entry of `*`.
#[derive(Clone, Debug)]
struct Level<T> {
    all: Option<Box<T>>,
    named: BTreeMap<Box<str>, T>,
}

impl<T> Default for Level<T> {
    fn default() -> Level<T> {
        Level { all: None, named: BTreeMap::new() }
    }
}

impl<T: Default> Level<T> {
    fn entry(&mut self, name: &str) -> &mut T {
        if name == ALL {
            return self.all.get_or_insert_default();
        }
        // An entry would need an owned key even if it exists.
        if !self.named.contains_key(name) {
            self.named.insert(name.into(), T::default());
        }
        self.named.get_mut(name).expect("the entry exists")
    }

    /// Entries that match a name.
    fn find(&self, name: &str) -> impl Iterator<Item = &T> {
        self.all.as_deref().into_iter().chain(self.named.get(name))
    }
}

/// First bindings that allow objects of one resource.
#[derive(Clone, Debug, Default)]
struct Grants {
    /// For all names.
    all: Option<Position>,
    by_name: BTreeMap<Box<str>, Position>,
}

impl Grants {
    fn add(&mut self, names: &[Box<str>], position: Position) {
        // Positions are added in ascending order, so the first one stays.
        if names.is_empty() {
            self.all.get_or_insert(position);
        }
        for name in names {
            self.by_name.entry(name.clone()).or_insert(position);
        }
    }

    /// First binding for a name; for all names if there is none.
    fn find(&self, name: Option<&str>) -> Option<Position> {
        let named =
            name.filter(|_| !self.by_name.is_empty()).and_then(|name| self.by_name.get(name)).copied();
        first(self.all, named)
    }
}

/// Grants by resource.
#[derive(Clone, Debug, Default)]
struct Resources {
    /// By `resource` or `resource/subresource`.
    exact: Level<Grants>,
    /// By the subresource of `*/subresource`.
    subresources: BTreeMap<Box<str>, Grants>,
}

impl Resources {
    fn entry(&mut self, resource: &str) -> &mut Grants {
        match resource.strip_prefix("*/") {
            Some(subresource) => self.subresources.entry(subresource.into()).or_default(),
            None => self.exact.entry(resource),
        }
    }

    /// First binding for a resource, joined with its subresource, and a name.
    fn find(&self, resource: &str, subresource: &str, name: Option<&str>) -> Option<Position> {
        let exact = self.exact.find(resource);
        let by_subresource = if subresource.is_empty() { None } else { self.subresources.get(subresource) };
        exact.chain(by_subresource).filter_map(|grants| grants.find(name)).min()
    }
}

/// First bindings that allow paths.
#[derive(Clone, Debug, Default)]
struct Paths {
    exact: BTreeMap<Box<str>, Position>,
    /// By the text in front of `*`.
    prefixes: BTreeMap<Box<str>, Position>,
    /// Distinct lengths of the prefixes.
    lengths: Vec<usize>,
}

impl Paths {
    fn add(&mut self, path: &str, position: Position) {
        let prefix = path.trim_end_matches('*');
        if prefix.len() == path.len() {
            self.exact.entry(path.into()).or_insert(position);
            return;
        }
        self.prefixes.entry(prefix.into()).or_insert(position);
        if let Err(at) = self.lengths.binary_search(&prefix.len()) {
            self.lengths.insert(at, prefix.len());
        }
    }

    fn find(&self, path: &str) -> Option<Position> {
        let prefixes = self.lengths.iter().filter_map(|length| path.get(..*length));
        let by_prefix = prefixes.filter_map(|prefix| self.prefixes.get(prefix));
        self.exact.get(path).into_iter().chain(by_prefix).min().copied()
    }
}

/// The rules of a user in one scope, compiled.
#[derive(Clone, Debug, Default)]
pub struct RuleIndex {
    resources: Level<Level<Resources>>,
    paths: Level<Paths>,
    /// Rules with too many entries.
    wide: Vec<(Position, PolicyRule)>,
    entries: usize,
}

/// A request for one verb on one resource, or one path, that rules are searched for.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// Verb, group, resource with its subresource, subresource, and name; without a name all names.
    Resource { verb: &'a str, group: &'a str, resource: &'a str, subresource: &'a str, name: Option<&'a str> },
    /// Verb and path.
    Path { verb: &'a str, path: &'a str },
}

impl RuleIndex {
    /// Adds a rule of a binding. Bindings must be added in the order of their positions.
    pub(super) fn add(&mut self, rule: &PolicyRule, position: Position) {
        let subrules = rule.subrules();
        if subrules > RULE_ENTRIES_MAX || self.entries + subrules > INDEX_ENTRIES_MAX {
            return self.wide.push((position, rule.clone()));
        }
        self.entries += subrules;
        for verb in &rule.verbs {
            for group in &rule.groups {
                for resource in &rule.resources {
                    let resources = self.resources.entry(verb).entry(group);
                    resources.entry(resource).add(&rule.names, position);
                }
            }
            for path in &rule.paths {
                self.paths.entry(verb).add(path, position);
            }
        }
    }

    /// Position of the first binding that allows a request.
    pub(super) fn decide(&self, request: &RequestInfo<'_>) -> Option<Position> {
        let RequestInfo { verb, group, resource, subresource, name, path, .. } = *request;
        let joined;
        let wanted = match (request.is_resource, subresource) {
            (false, _) => Wanted::Path { verb, path },
            (true, "") => Wanted::Resource { verb, group, resource, subresource, name: Some(name) },
            (true, subresource) => {
                joined = [resource, "/", subresource].concat();
                Wanted::Resource { verb, group, resource: &joined, subresource, name: Some(name) }
            }
        };
        let wide = self.wide.iter().find(|(_, rule)| rule.allows(request)).map(|(position, _)| *position);
        first(self.find(wanted), wide)
    }

    /// Position of the first binding whose rule allows what is wanted; rules that are not in the index are left out.
    pub(super) fn find(&self, wanted: Wanted<'_>) -> Option<Position> {
        match wanted {
            Wanted::Resource { verb, group, resource, subresource, name } => {
                let groups = self.resources.find(verb);
                let resources = groups.flat_map(|groups| groups.find(group));
                resources.filter_map(|found| found.find(resource, subresource, name)).min()
            }
            Wanted::Path { verb, path } => self.paths.find(verb).filter_map(|paths| paths.find(path)).min(),
        }
    }

    /// Rules that are not in the index, because they have too many entries.
    pub(super) fn wide(&self) -> impl Iterator<Item = &PolicyRule> {
        self.wide.iter().map(|(_, rule)| rule)
    }

    /// Number of entries, as a measure of memory.
    pub(super) fn len(&self) -> usize {
        self.entries
            + self.wide.iter().map(|(_, rule)| rule.verbs.len() + rule.resources.len()).sum::<usize>()
    }
}

/// The smaller position, if there is any.
fn first(a: Option<Position>, b: Option<Position>) -> Option<Position> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
