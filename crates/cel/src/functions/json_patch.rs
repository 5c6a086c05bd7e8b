//! `jsonpatch.escapeKey`.

use super::{Call, Function, Returned};
use crate::runtime_cost::CostRule;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] =
    &[Function::new("jsonpatch.escapeKey", escape_key, CostRule::Scan { times: 1 })];

fn escape_key<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let key = call.text(0)?;
    call.meter.allocate(key.len() * 2)?;
    Ok(Value::string(key.replace('~', "~0").replace('/', "~1")))
}
