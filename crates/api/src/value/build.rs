//! The `value!` macro: values as JSON literals.

/// Builds a [`Value`](crate::Value) from a JSON literal: `value!({"kind": "Pod", "spec": {"nodeName":
/// (name)}, "x": [1, (y)]})`. An expression stands in parentheses and has any type that converts into a
/// `Value`.
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
    fn macro_builds_the_value_of_its_literal() {
        let name = String::from("n");
        let built = value!({"a": [1, true, null, {}], "b": {"c": (name), "d": (Some(2_i64))}});
        assert_eq!(json::to_text(&built), r#"{"a":[1,true,null,{}],"b":{"c":"n","d":2}}"#);
    }
}
