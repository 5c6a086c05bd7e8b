//! Grammar of CEL with the functions and macros of Kubernetes: random expressions of a type.

use setpoint_cel::{ObjectType, OverloadDecl, Type, TypeParam, find_function};

/// Functions and operators that expressions may call.
pub const FUNCTIONS: [&str; 126] = [
    "_?_:_",
    "_&&_",
    "_||_",
    "!_",
    "_==_",
    "_!=_",
    "_+_",
    "_/_",
    "_%_",
    "_*_",
    "-_",
    "_-_",
    "_[_]",
    "@in",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "_[?_]",
    "size",
    "contains",
    "endsWith",
    "startsWith",
    "matches",
    "type",
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "string",
    "timestamp",
    "uint",
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "url",
    "getScheme",
    "getHost",
    "getHostname",
    "getPort",
    "getEscapedPath",
    "getQuery",
    "isURL",
    "find",
    "findAll",
    "quantity",
    "isQuantity",
    "sign",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "asApproximateFloat",
    "asInteger",
    "isInteger",
    "add",
    "sub",
    "validate",
    "format.named",
    "format.dns1123Label",
    "format.qualifiedName",
    "format.uri",
    "format.uuid",
    "format.byte",
    "format.date",
    "format.datetime",
    "semver",
    "isSemver",
    "major",
    "minor",
    "patch",
    "optional.of",
    "optional.ofNonZeroValue",
    "optional.none",
    "value",
    "hasValue",
    "or",
    "orValue",
    "first",
    "last",
    "optional.unwrap",
    "unwrapOpt",
    "charAt",
    "indexOf",
    "lastIndexOf",
    "lowerAscii",
    "replace",
    "split",
    "substring",
    "trim",
    "upperAscii",
    "format",
    "join",
    "strings.quote",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "ip",
    "family",
    "ip.isCanonical",
    "isUnspecified",
    "isLoopback",
    "isGlobalUnicast",
    "isIP",
    "cidr",
    "containsIP",
    "containsCIDR",
    "prefixLength",
    "masked",
    "isCIDR",
    "lists.range",
    "flatten",
    "distinct",
    "reverse",
    "slice",
    "sort",
    "sum",
    "min",
];

/// Texts that are quantities, addresses, patterns, formats, and none of these.
const TEXTS: [&str; 20] = [
    "",
    "a",
    "abc",
    "é😀",
    "%s %d",
    "[a-z]+",
    "(a*)*b",
    "10Mi",
    "1.2.3",
    "10.0.0.1",
    "10.0.0.0/8",
    "::1",
    "https://a.b:1/c?d=e",
    "2020-01-01T00:00:00Z",
    "1h",
    "dns1123Label",
    "UTC",
    "A",
    "-1",
    "1e3",
];

/// Generator of expressions, the same for equal seeds.
pub struct Grammar {
    state: u64,
    /// Variables of the macros around the current place.
    variables: Vec<(String, Type)>,
    named: usize,
}

impl Grammar {
    pub fn new(seed: u64) -> Grammar {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
        let mut grammar = Grammar { state, variables: Vec::new(), named: 0 };
        (0..4).for_each(|_| _ = grammar.number(2));
        grammar
    }

    /// Returns a number below `end`.
    pub fn number(&mut self, end: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap() % end
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.number(texts.len())]
    }

    /// Returns a type with up to `depth` levels of parameters.
    pub fn any_type(&mut self, depth: usize) -> Type {
        let compound = if depth == 0 { 0 } else { 4 };
        match self.number(9 + compound) {
            0 | 1 => Type::Bool,
            2 => Type::Int,
            3 | 4 => Type::String,
            5 => Type::Double,
            6 => Type::Uint,
            7 => [Type::Bytes, Type::Timestamp, Type::Duration][self.number(3)].clone(),
            8 => Type::Dyn,
            9 | 10 => Type::list(self.any_type(depth - 1)),
            11 => Type::map(Type::String, self.any_type(depth - 1)),
            _ => Type::optional(self.any_type(depth - 1)),
        }
    }

    /// Returns an expression of a type.
    pub fn expression(&mut self, ty: &Type, depth: usize) -> String {
        // Sometimes the type is wrong.
        let other = (self.number(60) == 0).then(|| self.any_type(1));
        let ty = other.as_ref().unwrap_or(ty);
        if depth == 0 || self.number(8) == 0 {
            return self.leaf(ty);
        }
        if self.number(3) == 0
            && let Some(source) = self.macro_of(ty, depth - 1)
        {
            return source;
        }
        let first = self.number(FUNCTIONS.len());
        for at in 0..FUNCTIONS.len() {
            let name = FUNCTIONS[(first + at) % FUNCTIONS.len()];
            let overloads = find_function(name).map_or(&[][..], |function| &function.overloads[..]);
            let mut fitting = Vec::new();
            for overload in overloads {
                let mut bound = Vec::new();
                if unify(&overload.result, ty, &mut bound) {
                    fitting.push((overload, bound));
                }
            }
            if !fitting.is_empty() {
                let (overload, bound) = fitting.swap_remove(self.number(fitting.len()));
                return self.call_overload(name, overload, bound, depth - 1);
            }
        }
        self.leaf(ty)
    }

    /// Returns a call of a function; `None` if there is no such function.
    pub fn call(&mut self, name: &str, depth: usize) -> Option<String> {
        let overloads = &find_function(name)?.overloads;
        let overload = &overloads[self.number(overloads.len())];
        Some(self.call_overload(name, overload, Vec::new(), depth))
    }

    fn call_overload(
        &mut self,
        name: &str,
        overload: &OverloadDecl,
        mut bound: Vec<(TypeParam, Type)>,
        depth: usize,
    ) -> String {
        let types: Vec<Type> =
            overload.parameters.iter().map(|parameter| self.instantiate(parameter, &mut bound)).collect();
        let args: Vec<String> = types.iter().map(|ty| self.expression(ty, depth)).collect();
        match (name, &args[..]) {
            ("_?_:_", [test, yes, no]) => format!("({test} ? {yes} : {no})"),
            ("_[_]", [list, index]) => format!("{list}[{index}]"),
            ("_[?_]", [list, index]) => format!("{list}[?{index}]"),
            ("@in", [value, list]) => format!("({value} in {list})"),
            (_, [only]) if name.ends_with("_") => format!("{}({only})", &name[..1]),
            (_, [left, right]) if name.starts_with('_') => {
                format!("({left} {} {right})", name.trim_matches('_'))
            }
            (_, [receiver, rest @ ..]) if overload.is_member => {
                format!("{receiver}.{name}({})", rest.join(", "))
            }
            _ => format!("{name}({})", args.join(", ")),
        }
    }

    /// Replaces the parameters of a signature by types.
    fn instantiate(&mut self, ty: &Type, bound: &mut Vec<(TypeParam, Type)>) -> Type {
        match ty {
            Type::Param(param) => {
                if let Some((_, known)) = bound.iter().find(|(other, _)| other == param) {
                    return known.clone();
                }
                let ty = self.any_type(1);
                bound.push((*param, ty.clone()));
                ty
            }
            Type::List(item) => Type::list(self.instantiate(item, bound)),
            Type::Map(key, value) => {
                // Keys of other types are errors.
                let key = if matches!(**key, Type::Param(_)) {
                    unify(key, &Type::String, bound);
                    self.instantiate(key, bound)
                } else {
                    (**key).clone()
                };
                Type::map(key, self.instantiate(value, bound))
            }
            Type::Optional(value) => Type::optional(self.instantiate(value, bound)),
            other => other.clone(),
        }
    }

    /// Returns a macro whose result has the type; `None` if there is none.
    fn macro_of(&mut self, ty: &Type, depth: usize) -> Option<String> {
        self.named += 1;
        let name = format!("v{}", self.named);
        let item = self.any_type(1);
        let inside = |grammar: &mut Grammar, item: &Type, result: &Type| {
            grammar.variables.push((name.clone(), item.clone()));
            let source = grammar.expression(result, depth);
            grammar.variables.pop();
            source
        };
        if self.number(3) == 0 {
            let value = self.expression(&item, depth);
            let body = inside(self, &item, ty);
            return Some(format!("cel.bind({name}, {value}, {body})"));
        }
        match ty {
            Type::Bool if self.number(4) == 0 => {
                Some(self.one_of(&["has(self.s)", "has(self.ms)", "has(self.i)"]).to_owned())
            }
            Type::Bool => {
                let range = self.expression(&Type::list(item.clone()), depth);
                let test = inside(self, &item, &Type::Bool);
                let quantifier = self.one_of(&["all", "exists", "exists_one"]);
                Some(format!("{range}.{quantifier}({name}, {test})"))
            }
            Type::String => {
                let args: Vec<String> = (0..2).map(|_| self.expression(&Type::Int, depth)).collect();
                let format = self.one_of(&["%s %s", "%d-%d", "%x%b", "%.3f %e"]);
                Some(format!("'{format}'.format([{}])", args.join(", ")))
            }
            Type::List(result) => {
                let range = self.expression(&Type::list(item.clone()), depth);
                if self.number(2) == 0 {
                    let body = inside(self, &item, result);
                    return Some(format!("{range}.map({name}, {body})"));
                }
                let range = self.expression(ty, depth);
                let keep = inside(self, result, &Type::Bool);
                let end = if self.number(3) == 0 { "" } else { ".reverse()" };
                Some(format!("{range}.filter({name}, {keep}){end}"))
            }
            Type::Map(_, value) => {
                let range = self.expression(&Type::map(Type::String, item.clone()), depth);
                let body = inside(self, &item, value);
                Some(format!("{range}.transformMap(k{name}, {name}, {body})"))
            }
            Type::Optional(result) => {
                let value = self.expression(&Type::optional(item.clone()), depth);
                let body = inside(self, &item, result);
                Some(format!("{value}.optMap({name}, {body})"))
            }
            _ => None,
        }
    }

    /// Returns a variable, field or literal.
    fn leaf(&mut self, ty: &Type) -> String {
        let known: Vec<&String> =
            self.variables.iter().filter(|(_, other)| other == ty).map(|(name, _)| name).collect();
        let known: Vec<String> = known.into_iter().cloned().collect();
        if !known.is_empty() && self.number(3) > 0 {
            return known[self.number(known.len())].clone();
        }
        if self.number(2) == 0
            && let Some(field) = field_of(ty)
        {
            return field.to_owned();
        }
        self.literal(ty)
    }

    fn literal(&mut self, ty: &Type) -> String {
        let text = self.one_of(&TEXTS);
        match ty {
            Type::Bool => self.one_of(&["true", "false"]).to_owned(),
            Type::Int => self.one_of(&["0", "1", "-1", "2", "7", "100", "9223372036854775807"]).to_owned(),
            Type::Uint => self.one_of(&["0u", "1u", "7u", "18446744073709551615u"]).to_owned(),
            Type::Double => self.one_of(&["0.0", "1.5", "-2.5", "1e308", "3.0"]).to_owned(),
            Type::String => format!("'{text}'"),
            Type::Bytes => format!("b'{text}'"),
            Type::Null => "null".to_owned(),
            Type::Timestamp => "timestamp('2020-01-01T00:00:00Z')".to_owned(),
            Type::Duration => self.one_of(&["duration('1h')", "duration('-3ms')"]).to_owned(),
            Type::Type(_) => self.one_of(&["int", "string", "type(1)"]).to_owned(),
            Type::List(item) => {
                let items: Vec<String> = (0..self.number(4)).map(|_| self.leaf(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Type::Map(key, value) => {
                let entries: Vec<String> = (0..self.number(3))
                    .map(|_| format!("{}: {}", self.literal(key), self.leaf(value)))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            Type::Optional(value) => match self.number(3) {
                0 => "optional.none()".to_owned(),
                _ => format!("optional.of({})", self.leaf(value)),
            },
            Type::Opaque(name) => opaque(name).to_owned(),
            Type::Object(ObjectType::Named(name)) => opaque(name).to_owned(),
            _ => {
                let ty = self.any_type(1);
                if ty == Type::Dyn { "dyn(self.s)".to_owned() } else { format!("dyn({})", self.leaf(&ty)) }
            }
        }
    }
}

/// Field of `self` with the type.
fn field_of(ty: &Type) -> Option<&'static str> {
    Some(match ty {
        Type::Bool => "self.b",
        Type::Int => "self.i",
        Type::Double => "self.d",
        Type::String => "self.s",
        Type::Bytes => "self.y",
        Type::List(item) if **item == Type::Int => "self.li",
        Type::List(item) if **item == Type::String => "self.ls",
        Type::List(item) if **item == Type::list(Type::Int) => "self.ll",
        Type::Map(_, value) if **value == Type::String => "self.ms",
        Type::Map(_, value) if **value == Type::Int => "self.mi",
        _ => return None,
    })
}

/// Value of a type without literals.
fn opaque(name: &str) -> &'static str {
    match name {
        "net.IP" => "ip('10.0.0.1')",
        "net.CIDR" => "cidr('10.0.0.0/8')",
        "kubernetes.URL" => "url('https://a.b:1/c?d=e')",
        "kubernetes.Quantity" => "quantity('10Mi')",
        "kubernetes.Semver" => "semver('1.2.3')",
        "kubernetes.NamedFormat" => "format.dns1123Label()",
        _ => "dyn(1)",
    }
}

/// Binds the parameters of a signature so that it gives the type; `false` if it cannot.
fn unify(signature: &Type, wanted: &Type, bound: &mut Vec<(TypeParam, Type)>) -> bool {
    match (signature, wanted) {
        (Type::Param(param), _) => match bound.iter().find(|(other, _)| other == param) {
            Some((_, known)) => known == wanted,
            None => {
                bound.push((*param, wanted.clone()));
                true
            }
        },
        (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
            unify(one, other, bound)
        }
        (Type::Map(key, value), Type::Map(other_key, other_value)) => {
            unify(key, other_key, bound) && unify(value, other_value, bound)
        }
        _ => signature == wanted,
    }
}
