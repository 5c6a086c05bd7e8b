//! `anyOf`, `oneOf`, `allOf` and `not`.

use std::mem;

use super::fault::{FaultList, name};
use super::{Schema, Validator};
use crate::field_error::Path;
use crate::quote::Quoted;
use crate::structural::schema::LogicChecks;
use crate::value::Value;

impl<'a> Validator<'a> {
    /// Checks all junctors, and returns the number of successful checks.
    pub(super) fn check_logic(&mut self, value: &'a Value, logic: &'a LogicChecks, at: &Path<'_>) -> u64 {
        let mut matches = 0;
        if !logic.any_of.is_empty() {
            matches += self.check_any_of(value, &logic.any_of, at);
        }
        if !logic.one_of.is_empty() {
            matches += self.check_one_of(value, &logic.one_of, at);
        }
        if !logic.all_of.is_empty() {
            matches += self.check_all_of(value, &logic.all_of, at);
        }
        if let Some(not) = &logic.not {
            let (_, faults) = self.try_branch(value, not, at);
            if faults.is_empty() {
                self.push_junctor(at, "must not validate the schema (not)");
            }
        }
        matches
    }

    /// Validates against a branch, and returns its successful checks and errors.
    fn try_branch(&mut self, value: &'a Value, schema: &'a Schema, at: &Path<'_>) -> (u64, FaultList<'a>) {
        let outer = mem::take(&mut self.faults);
        let matches = self.validate_node(value, None, schema, at);
        (matches, mem::replace(&mut self.faults, outer))
    }

    fn check_any_of(&mut self, value: &'a Value, branches: &'a [Schema], at: &Path<'_>) -> u64 {
        let mut best: Option<(u64, FaultList<'a>)> = None;
        for branch in branches {
            let (matches, faults) = self.try_branch(value, branch, at);
            if faults.is_empty() {
                return matches;
            }
            if best.as_ref().is_none_or(|(most, _)| matches > *most) {
                best = Some((matches, faults));
            }
        }
        self.push_junctor(at, "must validate at least one schema (anyOf)");
        best.map_or(0, |(matches, faults)| {
            self.faults.append(faults);
            matches
        })
    }

    fn check_one_of(&mut self, value: &'a Value, branches: &'a [Schema], at: &Path<'_>) -> u64 {
        let mut best: Option<(u64, FaultList<'a>)> = None;
        let mut first = None;
        let mut valid = 0;
        for branch in branches {
            let (matches, faults) = self.try_branch(value, branch, at);
            if faults.is_empty() {
                valid += 1;
                best = None;
                first = first.or(Some(matches));
            } else if valid == 0 && best.as_ref().is_none_or(|(most, _)| matches > *most) {
                best = Some((matches, faults));
            }
        }
        let found = match valid {
            1 => return first.unwrap_or(0),
            0 => "Found none valid".to_owned(),
            many => format!("Found {many} valid alternatives"),
        };
        self.push_junctor(at, &format!("must validate one and only one schema (oneOf). {found}"));
        best.map_or(0, |(matches, faults)| {
            self.faults.append(faults);
            matches
        })
    }

    fn check_all_of(&mut self, value: &'a Value, branches: &'a [Schema], at: &Path<'_>) -> u64 {
        let mut total = 0;
        let mut valid = 0;
        for branch in branches {
            let (matches, faults) = self.try_branch(value, branch, at);
            valid += usize::from(faults.is_empty());
            total += matches;
            self.faults.append(faults);
        }
        if valid < branches.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            self.push_junctor(at, &format!("must validate all the schemas (allOf){none}"));
        }
        total
    }

    fn push_junctor(&mut self, at: &Path<'_>, detail: &str) {
        self.faults.push_pathless(format!("{} {detail}", Quoted(&name(at))));
    }
}
