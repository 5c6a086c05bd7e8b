//! Function libraries: the standard functions, and those that Kubernetes 1.37 enables.

pub(crate) mod authz;
mod cidr;
mod conversions;
mod ext_lists;
mod format;
mod formats;
mod ip;
mod json_patch;
mod lists;
mod optional;
mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
mod sets;
mod strings;
mod time;
mod url;

use ::regex::Regex;

use crate::eval::EvalError;
use crate::runtime_cost::{CostRule, Meter};
use crate::value::{Opaque, Value};

/// Function of a library. The overload follows from the types of the arguments; a receiver is the first argument.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) implementation: Implementation,
    pub(crate) cost: CostRule,
    /// `true` if the second argument is a regular expression.
    pub(crate) has_pattern: bool,
}

/// Code of a function.
pub(crate) type Implementation = for<'a> fn(&mut Call<'_, 'a>) -> Result<Value<'a>, EvalError>;

/// Result of a function.
type Returned<'a> = Result<Value<'a>, EvalError>;

/// Arguments of a call.
pub(crate) struct Call<'c, 'a> {
    pub(crate) args: &'c [Value<'a>],
    pub(crate) meter: &'c mut Meter,
    /// Compiled second argument, if it is constant.
    pub(crate) pattern: Option<&'c Regex>,
    /// Last pattern that was not constant.
    pub(crate) cache: &'c mut PatternCache,
}

/// Pattern with its compiled form.
pub(crate) type PatternCache = Option<(Box<str>, Regex)>;

const LIBRARIES: [&[Function]; 17] = [
    conversions::FUNCTIONS,
    strings::FUNCTIONS,
    format::FUNCTIONS,
    regex::FUNCTIONS,
    lists::FUNCTIONS,
    ext_lists::FUNCTIONS,
    sets::FUNCTIONS,
    optional::FUNCTIONS,
    time::FUNCTIONS,
    url::FUNCTIONS,
    quantity::FUNCTIONS,
    ip::FUNCTIONS,
    cidr::FUNCTIONS,
    formats::FUNCTIONS,
    semver::FUNCTIONS,
    authz::FUNCTIONS,
    json_patch::FUNCTIONS,
];

/// Returns the function with a name, which is qualified for functions such as `optional.of`.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    static TABLE: [&[Function]; 17] = LIBRARIES;
    TABLE.iter().flat_map(|library| library.iter()).find(|function| function.name == name)
}

impl Function {
    const fn new(name: &'static str, implementation: Implementation, cost: CostRule) -> Function {
        Function { name, implementation, cost, has_pattern: false }
    }

    const fn with_pattern(name: &'static str, implementation: Implementation) -> Function {
        Function { name, implementation, cost: CostRule::Match, has_pattern: true }
    }

    /// Adds the signature to the error of a call whose arguments have other types.
    pub(crate) fn describe(&self, error: EvalError, args: &[Value<'_>]) -> EvalError {
        if error != EvalError::NO_SUCH_OVERLOAD {
            return error;
        }
        let types: Vec<&str> = args.iter().map(Value::type_name).collect();
        EvalError::new(format!("no such overload: {}({})", self.name, types.join(", ")))
    }
}

impl<'c, 'a> Call<'c, 'a> {
    fn arg(&self, index: usize) -> Result<&'c Value<'a>, EvalError> {
        self.args.get(index).ok_or(EvalError::NO_SUCH_OVERLOAD)
    }

    fn text(&self, index: usize) -> Result<&'c str, EvalError> {
        self.arg(index)?.as_str().ok_or(EvalError::NO_SUCH_OVERLOAD)
    }

    fn int(&self, index: usize) -> Result<i64, EvalError> {
        match self.arg(index)? {
            Value::Int(number) => Ok(*number),
            _ => Err(EvalError::NO_SUCH_OVERLOAD),
        }
    }

    fn list(&self, index: usize) -> Result<&'c crate::value::ListValue<'a>, EvalError> {
        self.arg(index)?.as_list().ok_or(EvalError::NO_SUCH_OVERLOAD)
    }

    fn opaque(&self, index: usize) -> Result<&'c Opaque<'a>, EvalError> {
        match self.arg(index)? {
            Value::Opaque(opaque) => Ok(opaque),
            _ => Err(EvalError::NO_SUCH_OVERLOAD),
        }
    }

    /// Returns a list of strings.
    fn strings(&mut self, texts: impl ExactSizeIterator<Item = String>) -> Returned<'a> {
        self.meter.work(texts.len())?;
        Ok(Value::list(texts.map(Value::string).collect()))
    }
}
