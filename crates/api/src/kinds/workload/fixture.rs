//! Test fixture: a valid object of a kind, with the errors and warnings of modifications.

use crate::decode::decode;
use crate::field_error::ErrorList;
use crate::json;
use crate::kinds::{Rules, rules};
use crate::schema::builtin;
use crate::value::Value;

/// A modification as a JSON merge patch, with the expected messages.
pub(crate) type FixtureCase<'a> = (&'a str, &'a [&'a str]);

/// A kind with a valid object.
pub(crate) struct KindFixture {
    /// API group.
    pub(crate) group: &'static str,
    /// Storage version.
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    /// Valid object as JSON.
    pub(crate) good: &'static str,
}

impl KindFixture {
    pub(crate) fn rules(&self) -> &'static dyn Rules {
        rules(self.group, self.kind).unwrap()
    }

    /// Decodes an object.
    pub(crate) fn shaped(&self, value: Value) -> Value {
        let schema = builtin().kind(self.group, self.version, self.kind).unwrap();
        let decoded = decode(value, schema, &[]).unwrap();
        assert!(decoded.strict.is_empty(), "{:?}", decoded.strict);
        decoded.value
    }

    /// The modified object, decoded and defaulted.
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

    /// The modified object as a create stores it.
    pub(crate) fn created(&self, patch: &str) -> Value {
        let mut object = self.sent(patch);
        self.rules().prepare_create(&mut object);
        self.shaped(object)
    }

    /// Asserts the errors of creates.
    pub(crate) fn creates(&self, cases: &[FixtureCase<'_>]) {
        for (patch, expected) in cases {
            let mut errors = ErrorList::new();
            self.rules().validate(&self.created(patch), &mut errors);
            assert_eq!(texts(&errors), *expected, "{} {patch}", self.kind);
        }
    }

    /// Asserts the errors of updates of the object that `old` makes.
    pub(crate) fn updates(&self, old: &str, cases: &[FixtureCase<'_>]) {
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
            self.rules().validate_update(&self.shaped(new), &stored, &mut errors);
            assert_eq!(texts(&errors), *expected, "{} {patch}", self.kind);
        }
    }

    /// Asserts the errors of status updates: each row is the object, its status before and after.
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

    /// Asserts the warnings of creates.
    pub(crate) fn warns(&self, cases: &[FixtureCase<'_>]) {
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
