//! Tests of field ownership after a create.

use proptest::prelude::*;

use super::super::compare::compare;
use super::super::filter::Filter;
use super::*;
use crate::decode::{KeepEmpty, decode, decode_keeping_empty};
use crate::json;
use crate::protobuf::tests::random::RandomObjects;
use crate::schema::builtin;

/// Fields of the creator by comparison with the zero object: the slow reference.
fn by_comparison(new: &Value, of: Struct<'_>, filter: Option<&Filter>) -> FieldSet {
    let zero = decode(Value::Null, of, &[]).unwrap().value;
    let mut changed = compare(&zero, new, of);
    if let Some(filter) = filter {
        filter.apply_to(&mut changed);
    }
    let mut fields = changed.modified;
    fields.union(changed.added);
    fields.subtract(unowned());
    fields
}

fn check(new: &Value, of: Struct<'_>, filter: Option<&Filter>) {
    let expected = by_comparison(new, of, filter);
    let expected = (!expected.is_empty()).then(|| expected.to_json());
    let found = created_fields(new, of.into(), filter.and_then(Filter::excluded));
    assert_eq!(found, expected, "{of:?}: {}", json::to_text(new));
}

#[test]
fn items_with_duplicate_keys_are_owned_by_key_only() {
    let of = builtin().kind("", "v1", "Pod").unwrap();
    let pod = br#"{"metadata":{"name":"p","labels":{"a<b":"1"}},"spec":{"containers":[{"name":"b"},{"name":"a","image":"x"},{"name":"b","image":"y"}]}}"#;
    let pod = decode(json::parse(pod).unwrap(), of, &[]).unwrap().value;
    check(&pod, of, None);
    let text = created_fields(&pod, of.into(), None).unwrap();
    assert!(text.contains(r#""k:{\"name\":\"b\"}":{}"#), "{text}");
    assert!(text.contains(r#""k:{\"name\":\"a\"}":{".":{},"f:image":{}"#), "{text}");
}

#[test]
fn empty_object_has_no_owned_fields() {
    for of in builtin().kinds() {
        let zero = decode(Value::Null, of, &[]).unwrap().value;
        assert_eq!(created_fields(&zero, of.into(), None), None, "{of:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn result_equals_comparison_with_the_zero_object(seed: u64) {
        let filters = [
            None,
            Some(Filter::exclude(&["status"])),
            Some(Filter::exclude(&["spec.template.metadata", "metadata.labels.k1", "data"])),
        ];
        let mut random = RandomObjects(seed);
        for of in builtin().kinds() {
            let drawn = random.object(of, 0);
            let keep = KeepEmpty { for_ownership: random.below(2) == 0, for_validation: false };
            let Ok(decoded) = decode_keeping_empty(drawn, of, keep) else { continue };
            for filter in &filters {
                check(&decoded.value, of, filter.as_ref());
            }
        }
    }
}
