//! Short hashes of templates for names: independent of the order of fields.

use setpoint_api::{Value, json};

/// Characters without vowels or look-alikes, so hashes spell no words.
const SAFE_CHARACTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

/// Hash of a pod template, salted with the number of collisions so far.
#[must_use]
pub fn hash_template(template: &Value, collisions: Option<i64>) -> String {
    let mut text = canonical_json(template);
    if let Some(collisions) = collisions {
        text.extend(collisions.to_le_bytes());
    }
    safe_encode(text.iter().fold(FNV_OFFSET, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME)))
}

/// Hash of the content of a revision, salted with the number of collisions so far.
#[must_use]
pub fn hash_data(data: &Value, collisions: i64) -> String {
    let mut text = canonical_json(data);
    text.extend(collisions.to_string().bytes());
    safe_encode(text.iter().fold(FNV_OFFSET, |hash, byte| hash.wrapping_mul(FNV_PRIME) ^ u32::from(*byte)))
}

/// Decimal digits of a number, in characters that are valid in any name.
fn safe_encode(number: u32) -> String {
    let digits = number.to_string();
    digits
        .bytes()
        .map(|digit| char::from(SAFE_CHARACTERS[usize::from(digit) % SAFE_CHARACTERS.len()]))
        .collect()
}

fn canonical_json(value: &Value) -> Vec<u8> {
    let mut value = value.clone();
    sort_fields(&mut value);
    json::to_vec(&value)
}

fn sort_fields(value: &mut Value) {
    match value {
        Value::Map(map) => {
            map.sort();
            for (_, value) in map.iter_mut() {
                sort_fields(value);
            }
        }
        Value::List(list) => list.iter_mut().for_each(sort_fields),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;

    use super::*;

    #[test]
    fn hash_ignores_field_order_and_depends_on_collisions() {
        let (a, b) = (value!({"x": [{"p": 1, "q": 2}], "y": 3}), value!({"y": 3, "x": [{"q": 2, "p": 1}]}));
        assert_eq!(hash_template(&a, None), hash_template(&b, None));
        assert_eq!(hash_data(&a, 0), hash_data(&b, 0));
        assert_ne!(hash_template(&a, None), hash_template(&a, Some(0)));
        assert_ne!(hash_template(&a, Some(0)), hash_template(&a, Some(1)));
        assert_ne!(hash_data(&a, 0), hash_data(&a, 1));
    }

    #[test]
    fn hash_matches_upstream_spelling() {
        assert_eq!(safe_encode(1_234_567_890), "56789bcdf4");
    }
}
