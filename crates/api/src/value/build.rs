//! Values written as they look.

/// A value written as JSON looks: `value!({"kind": "Pod", "spec": {"nodeName": (name)}, "x": [1, (y)]})`. What
/// is not a literal stands in parentheses and is anything that becomes a [`Value`](crate::Value).
#[macro_export]
macro_rules! value {
    (null) => { $crate::Value::Null };
    ({ $($key:literal : $value:tt),* $(,)? }) => {{
        #[allow(unused_mut, reason = "an empty object is not changed")]
        let mut map = $crate::Map::new();
        $(map.insert($key, $crate::value!($value));)*
        $crate::Value::Map(map)
    }};
    ([ $($value:tt),* $(,)? ]) => { $crate::Value::List(vec![$($crate::value!($value)),*]) };
    (($value:expr)) => { $crate::Value::from($value) };
    ($value:literal) => { $crate::Value::from($value) };
}

#[cfg(test)]
mod tests {
    use crate::json;

    #[test]
    fn a_value_looks_as_it_is_written() {
        let name = String::from("n");
        let built = value!({"a": [1, true, null, {}], "b": {"c": (name), "d": (Some(2_i64))}});
        assert_eq!(json::to_text(&built), r#"{"a":[1,true,null,{}],"b":{"c":"n","d":2}}"#);
    }
}
