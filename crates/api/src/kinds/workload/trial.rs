//! Objects on trial: a good object of a kind, changes of it, and what is wrong with them then.

use crate::decode::decode;
use crate::field_error::ErrorList;
use crate::json;
use crate::kinds::{Rules, rules};
use crate::schema::builtin;
use crate::value::Value;

/// A change as a JSON merge patch, and the messages that it causes.
pub(crate) type Case<'a> = (&'a str, &'a [&'a str]);

/// A kind, and a good object of it.
pub(crate) struct Trial {
    /// The group.
    pub(crate) group: &'static str,
    /// The version in which it is stored.
    pub(crate) version: &'static str,
    /// The kind.
    pub(crate) kind: &'static str,
    /// The good object, in JSON.
    pub(crate) good: &'static str,
}

impl Trial {
    pub(crate) fn rules(&self) -> &'static dyn Rules {
        rules(self.group, self.kind).unwrap()
    }

    /// The object as the schema has it.
    pub(crate) fn shaped(&self, value: Value) -> Value {
        let schema = builtin().kind(self.group, self.version, self.kind).unwrap();
        let decoded = decode(value, schema, &[]).unwrap();
        assert!(decoded.strict.is_empty(), "{:?}", decoded.strict);
        decoded.value
    }

    /// The changed object, decoded and with defaults.
    pub(crate) fn sent(&self, patch: &str) -> Value {
        let mut value = parse(self.good);
        merge(&mut value, parse(patch));
        let mut object = self.shaped(value);
        self.rules().default(&mut object);
        let once = object.clone();
        self.rules().default(&mut object);
        assert_eq!(object, once, "defaults are idempotent");
        self.shaped(object)
    }

    /// The changed object, as a create would store it.
    pub(crate) fn created(&self, patch: &str) -> Value {
        let mut object = self.sent(patch);
        self.rules().prepare_create(&mut object);
        self.shaped(object)
    }

    /// Checks what is wrong with new objects.
    pub(crate) fn creates(&self, cases: &[Case<'_>]) {
        for (patch, expected) in cases {
            let mut errors = ErrorList::new();
            self.rules().validate(&self.created(patch), &mut errors);
            assert_eq!(texts(&errors), *expected, "{} {patch}", self.kind);
        }
    }

    /// Checks what is wrong with updates of the object that `old` makes.
    pub(crate) fn updates(&self, old: &str, cases: &[Case<'_>]) {
        let mut stored = self.created(old);
        if let Some(status) = parse(old).get("status") {
            stored.make_map().insert("status", status.clone());
        }
        let stored = self.shaped(stored);
        for (patch, expected) in cases {
            let mut new = stored.clone();
            merge(&mut new, parse(patch));
            let mut new = self.shaped(new);
            self.rules().default(&mut new);
            self.rules().prepare_update(&mut new, &stored);
            let mut errors = ErrorList::new();
            self.rules().check_update(&self.shaped(new), &stored, &mut errors);
            assert_eq!(texts(&errors), *expected, "{} {patch}", self.kind);
        }
    }

    /// Checks what is wrong with status updates: each row is the object, its status before and after.
    pub(crate) fn statuses(&self, cases: &[(&str, &str, &str, &[&str])]) {
        for (patch, before, after, expected) in cases {
            let object = self.created(patch);
            let with = |status: &str| {
                let mut object = object.clone();
                object.make_map().insert("status", parse(status));
                self.shaped(object)
            };
            let (old, mut new) = (with(before), with(after));
            self.rules().prepare_status(&mut new, &old);
            let mut errors = ErrorList::new();
            self.rules().validate_status(&new, &old, &mut errors);
            assert_eq!(texts(&errors), *expected, "{} {patch} {before} {after}", self.kind);
        }
    }

    /// Checks the warnings of creates.
    pub(crate) fn warns(&self, cases: &[Case<'_>]) {
        for (patch, expected) in cases {
            assert_eq!(self.rules().warnings(&self.created(patch), None), *expected, "{patch}");
        }
    }
}

pub(crate) fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn texts(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn merge(value: &mut Value, patch: Value) {
    let Value::Map(patch) = patch else {
        *value = patch;
        return;
    };
    let map = value.make_map();
    for (key, change) in patch {
        if change.is_null() {
            map.remove(&key);
        } else {
            merge(map.ensure(&key, || Value::Null), change);
        }
    }
}
