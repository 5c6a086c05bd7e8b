//! Set of field paths as a sorted tree, with its stored form `fieldsV1`.
//!
//! A path can be a member, a prefix of members, or both: in `{"f:spec":{"f:replicas":{}}}`, `.spec.replicas`
//! is a member and `.spec` is not; in `{"f:labels":{".":{},"f:app":{}}}`, `.labels` and `.labels.app` are
//! members. Every node of the tree is a member or has children, so equal sets are equal trees. Nodes are
//! sorted, so set operations are one pass over both trees.

use std::fmt;

use compact_str::CompactString;
use thiserror::Error;

use super::element::{Element, ElementError};
use super::field_set_writer::{FieldSetWriter, SELF};
use crate::json::{self, JsonError, Parser};
use crate::value::Value;

#[cfg(test)]
mod tests;

/// A path from the root of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<Element>);

/// A set of field paths.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: Vec<SetNode>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct SetNode {
    pub(super) element: Element,
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

/// Invalid `fieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FieldsError {
    /// A value that should be an object is not.
    #[error("expected an object, found {0}")]
    NoObject(&'static str),
    /// The text is not JSON.
    #[error("{0}")]
    Json(#[from] JsonError),
    /// A key is not a path element.
    #[error("parsing key as path element: {0}")]
    Element(#[from] ElementError),
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl FieldPath {
    /// Creates a path of field names.
    #[must_use]
    pub fn from_fields(names: &[&str]) -> FieldPath {
        FieldPath(names.iter().map(|name| Element::field(name)).collect())
    }
}

impl FieldSet {
    /// Returns an empty set.
    #[must_use]
    pub const fn new() -> FieldSet {
        FieldSet { nodes: Vec::new() }
    }

    /// Creates the set of these paths.
    #[must_use]
    pub fn from_paths<'a>(paths: impl IntoIterator<Item = &'a FieldPath>) -> FieldSet {
        let mut set = FieldSet::new();
        paths.into_iter().for_each(|path| set.insert(path));
        set
    }

    /// Creates a set from unsorted nodes with unique elements.
    pub(super) fn from_nodes(mut nodes: Vec<SetNode>) -> FieldSet {
        debug_assert!(
            nodes.iter().all(|node| node.member || !node.below.is_empty()),
            "every node is a member or has children"
        );
        if !nodes.is_sorted_by(|a, b| a.element < b.element) {
            nodes.sort_unstable_by(|a, b| a.element.cmp(&b.element));
        }
        FieldSet { nodes }
    }

    pub(super) fn nodes(&self) -> &[SetNode] {
        &self.nodes
    }

    pub(super) fn nodes_mut(&mut self) -> &mut [SetNode] {
        &mut self.nodes
    }

    /// `true` if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Number of paths in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    /// Adds a path. The empty path stands for the whole object, which is never owned, and is ignored.
    pub fn insert(&mut self, path: &FieldPath) {
        let Some((last, parents)) = path.0.split_last() else { return };
        let parent = parents.iter().fold(self, |set, element| &mut set.ensure(element).below);
        parent.ensure(last).member = true;
    }

    fn ensure(&mut self, element: &Element) -> &mut SetNode {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).unwrap_or_else(|at| {
            let node = SetNode { element: element.clone(), member: false, below: FieldSet::new() };
            self.nodes.insert(at, node);
            at
        });
        &mut self.nodes[at]
    }

    pub(super) fn node(&self, element: &Element) -> Option<&SetNode> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        Some(&self.nodes[at])
    }

    pub(super) fn field(&self, name: &str) -> Option<&SetNode> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp_field(name)).ok()?;
        Some(&self.nodes[at])
    }

    /// `true` if the path is a member.
    #[must_use]
    pub fn has(&self, path: &FieldPath) -> bool {
        let Some((last, parents)) = path.0.split_last() else { return false };
        let parent = parents.iter().try_fold(self, |set, element| Some(&set.node(element)?.below));
        parent.and_then(|set| set.node(last)).is_some_and(|node| node.member)
    }

    /// Adds all paths of another set.
    pub fn union(&mut self, other: FieldSet) {
        if self.is_empty() {
            *self = other;
            return;
        }
        if other.is_empty() {
            return;
        }
        let mut merged = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut theirs = other.nodes.into_iter().peekable();
        for mut own in std::mem::take(&mut self.nodes) {
            while let Some(node) = theirs.next_if(|node| node.element < own.element) {
                merged.push(node);
            }
            if let Some(node) = theirs.next_if(|node| node.element == own.element) {
                own.member |= node.member;
                own.below.union(node.below);
            }
            merged.push(own);
        }
        merged.extend(theirs);
        self.nodes = merged;
    }

    /// Removes the paths of another set; `true` if there were any. Paths below them stay.
    pub fn subtract(&mut self, other: &FieldSet) -> bool {
        let mut changed = false;
        self.retain_by(other, |own, theirs| {
            changed |= own.member && theirs.member;
            own.member &= !theirs.member;
            changed |= own.below.subtract(&theirs.below);
            own.member || !own.below.is_empty()
        });
        changed
    }

    /// Removes the paths of another set and all paths below them.
    pub(crate) fn subtract_trees(&mut self, other: &FieldSet) {
        self.retain_by(other, |own, theirs| {
            if theirs.member {
                return false;
            }
            own.below.subtract_trees(&theirs.below);
            own.member || !own.below.is_empty()
        });
    }

    /// Keeps the nodes that the other set does not have, and those for which `keep` returns `true`.
    fn retain_by(&mut self, other: &FieldSet, mut keep: impl FnMut(&mut SetNode, &SetNode) -> bool) {
        if other.is_empty() {
            return;
        }
        let mut theirs = other.nodes.as_slice();
        self.nodes.retain_mut(|own| match seek(&mut theirs, &own.element) {
            Some(node) => keep(own, node),
            None => true,
        });
    }

    /// Paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut nodes = Vec::new();
        let mut theirs = other.nodes.as_slice();
        for own in &self.nodes {
            if let Some(node) = seek(&mut theirs, &own.element) {
                let (member, below) = (own.member && node.member, own.below.intersection(&node.below));
                if member || !below.is_empty() {
                    nodes.push(SetNode { element: own.element.clone(), member, below });
                }
            }
        }
        FieldSet { nodes }
    }

    /// `true` if every path of this set is in the other.
    #[must_use]
    pub fn is_subset(&self, other: &FieldSet) -> bool {
        let mut theirs = other.nodes.as_slice();
        self.nodes.iter().all(|own| {
            let found = seek(&mut theirs, &own.element);
            found.is_some_and(|node| (!own.member || node.member) && own.below.is_subset(&node.below))
        })
    }

    /// Paths without others below them, in the form of messages; `None` if there are more than `most`.
    #[must_use]
    pub fn leaf_texts(&self, most: usize) -> Option<Vec<String>> {
        let mut found = Vec::new();
        self.collect_texts(&mut String::new(), most, &mut found).then_some(found)
    }

    fn collect_texts(&self, prefix: &mut String, most: usize, found: &mut Vec<String>) -> bool {
        self.nodes.iter().all(|node| {
            let length = prefix.len();
            match &node.element {
                Element::Field(name) => {
                    prefix.push('.');
                    prefix.push_str(name);
                }
                other => prefix.push_str(&other.to_string()),
            }
            let fits = if node.below.is_empty() {
                found.push(prefix.clone());
                found.len() <= most
            } else {
                node.below.collect_texts(prefix, most, found)
            };
            prefix.truncate(length);
            fits
        })
    }

    /// Keeps the nodes for which `keep` returns `true`.
    pub(super) fn retain(&mut self, keep: impl FnMut(&mut SetNode) -> bool) {
        self.nodes.retain_mut(keep);
    }

    /// Paths in order: those of one level before those below them.
    #[must_use]
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, prefix: &mut Vec<Element>, found: &mut Vec<FieldPath>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let path = prefix.iter().chain([&node.element]).cloned().collect();
            found.push(FieldPath(path));
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            prefix.push(node.element.clone());
            node.below.collect(prefix, found);
            prefix.pop();
        }
    }

    /// Parses the stored form, `fieldsV1`. Elements with an unknown prefix are dropped with everything below
    /// them.
    ///
    /// # Errors
    /// If the value is not a field set.
    pub fn from_value(value: &Value) -> Result<FieldSet, FieldsError> {
        match value {
            Value::Raw(json) => FieldSet::from_json(json.as_bytes()),
            other => FieldSet::from_json(&json::to_vec(other)),
        }
    }

    /// Parses the stored form from its text, as [`FieldSet::from_value`] does.
    ///
    /// # Errors
    /// If the text is not a field set.
    pub(crate) fn from_json(json: &[u8]) -> Result<FieldSet, FieldsError> {
        let mut parser = Parser::new(json);
        let (_, set) = read(&mut parser, &mut Vec::new())?;
        parser.expect_end()?;
        Ok(set)
    }

    /// Stored form, `fieldsV1`.
    #[must_use]
    pub fn to_json(&self) -> CompactString {
        let mut text = FieldSetWriter::new();
        self.write(&mut text);
        text.finish()
    }

    fn write(&self, text: &mut FieldSetWriter) {
        for node in &self.nodes {
            let opened = text.open(node.member, |out| node.element.write_escaped(out));
            node.below.write(text);
            text.close(opened);
        }
    }
}

/// Finds the node of an element, and drops it and all before it. Galloping search: step widths double until
/// the element is passed, so a small set against a large one costs O(small × log large); there may be as many
/// small sets as the large one has paths.
fn seek<'a>(nodes: &mut &'a [SetNode], element: &Element) -> Option<&'a SetNode> {
    let mut step = 1;
    while nodes.get(step - 1).is_some_and(|node| node.element < *element) {
        step *= 2;
    }
    let range = &nodes[step / 2..nodes.len().min(step)];
    let at = step / 2 + range.partition_point(|node| node.element < *element);
    *nodes = &nodes[at.min(nodes.len())..];
    let (first, rest) = nodes.split_first().filter(|(first, _)| first.element == *element)?;
    *nodes = rest;
    Some(first)
}

/// Parses a node: `true` if it is a member, with its children. The nodes of all enclosing levels are in
/// `open`, so that each level ends in a vector of exact size.
fn read(parser: &mut Parser<'_>, open: &mut Vec<SetNode>) -> Result<(bool, FieldSet), FieldsError> {
    if !parser.is_object()? {
        return match parser.parse_value()? {
            Value::Null => Ok((true, FieldSet::new())),
            other => Err(FieldsError::NoObject(other.type_name())),
        };
    }
    let first = open.len();
    let mut member = false;
    parser.for_each_member(|parser, key| {
        if key == SELF {
            member = true;
            parser.parse_value()?;
        } else if let Some(element) = Element::parse(&key)? {
            let (member, below) = read(parser, open)?;
            open.push(SetNode { element, member, below });
        } else {
            parser.parse_value()?;
        }
        Ok::<(), FieldsError>(())
    })?;
    let mut nodes: Vec<SetNode> = open.drain(first..).collect();
    // Stored sets are sorted, except those that a client made; in these, two texts can denote the same
    // element, of which one is kept.
    if !nodes.is_sorted_by(|a, b| a.element < b.element) {
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        nodes.dedup_by(|a, b| a.element == b.element);
    }
    let set = FieldSet { nodes };
    Ok((member || set.is_empty(), set))
}

impl fmt::Debug for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.paths().iter().map(ToString::to_string)).finish()
    }
}
