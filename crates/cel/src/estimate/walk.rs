//! Costs of the expressions of a tree.

use super::sizes::{INDICES, ITEMS, KEYS, Path, VALUES, declared_size};
use super::{CallEstimate, CostEstimate, LIST_COST, MAP_COST, OBJECT_COST, SELECT_COST, SizeEstimate};
use crate::ast::{Comprehension, Element, ExprId, ExprKind, MapEntry};
use crate::checker::{Checked, Reference};
use crate::decl::Decl;
use crate::literal::Literal;
use crate::macros::ACCUMULATOR;
use crate::types::Type;

/// Earlier name of the accumulator.
const OLD_ACCUMULATOR: &str = "__result__";

/// Estimate under way.
pub(super) struct Coster<'a> {
    checked: &'a Checked,
    root: Option<&'a Decl>,
    paths: Vec<Path>,
    sizes: Vec<Option<SizeEstimate>>,
    entry_sizes: Vec<Option<EntrySize>>,
    locals: Vec<Local<'a>>,
}

/// Sizes of the keys or indexes and of the values of a list or map.
#[derive(Clone, Copy)]
pub(super) struct EntrySize {
    is_list: bool,
    key: SizeEstimate,
    value: SizeEstimate,
}

/// Variable of a comprehension.
struct Local<'a> {
    name: &'a str,
    path: Path,
    size: Option<SizeEstimate>,
    entry_size: Option<EntrySize>,
}

/// Receiver or argument of a call.
pub(super) struct CostNode<'a> {
    pub(super) id: ExprId,
    pub(super) ty: &'a Type,
    pub(super) path: Path,
    pub(super) size: Option<SizeEstimate>,
}

/// Call with its costs.
pub(super) struct CostCall<'a> {
    pub(super) id: ExprId,
    pub(super) function: &'a str,
    pub(super) target: Option<CostNode<'a>>,
    pub(super) args: Vec<CostNode<'a>>,
    pub(super) arg_costs: Vec<CostEstimate>,
}

impl CostCall<'_> {
    pub(super) fn arg_cost(&self) -> CostEstimate {
        self.arg_costs.iter().fold(CostEstimate::default(), |sum, cost| sum.plus(*cost))
    }
}

impl EntrySize {
    pub(super) fn union(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

impl<'a> Coster<'a> {
    pub(super) fn new(checked: &'a Checked, root: Option<&'a Decl>) -> Self {
        let count = checked.ast().len();
        Self {
            checked,
            root,
            paths: vec![Path::default(); count],
            sizes: vec![None; count],
            entry_sizes: vec![None; count],
            locals: Vec::new(),
        }
    }

    pub(super) fn kind(&self, id: ExprId) -> &'a ExprKind {
        &self.checked.ast().expr(id).kind
    }

    fn type_of(&self, id: ExprId) -> &'a Type {
        self.checked.type_of(id).unwrap_or(&Type::Dyn)
    }

    pub(super) fn cost(&mut self, id: ExprId) -> CostEstimate {
        if let Some(Reference::Variable(name)) = self.checked.reference(id)
            && !matches!(self.kind(id), ExprKind::Message { .. })
        {
            return self.cost_of_variable(id, name);
        }
        match self.kind(id) {
            ExprKind::Literal(_) => CostEstimate::default(),
            ExprKind::Ident(name) => self.cost_of_variable(id, name),
            ExprKind::Select { operand, field, test_only } => {
                self.cost_of_selection(id, *operand, field, *test_only)
            }
            ExprKind::Operation { operands, .. } => self.cost_of_call(id, None, operands),
            ExprKind::Call { target, args, .. } => self.cost_of_call(id, *target, args),
            ExprKind::List(elements) => self.cost_of_list(id, elements),
            ExprKind::Map(entries) => self.cost_of_map(id, entries),
            ExprKind::Message { fields, .. } => {
                let costs = fields.iter().map(|field| self.cost(field.value));
                costs.fold(CostEstimate::fixed(OBJECT_COST), CostEstimate::plus)
            }
            ExprKind::Comprehension(fold) if self.is_bind(fold) => self.cost_of_bind(id, fold),
            ExprKind::Comprehension(fold) => self.cost_of_fold(id, fold),
        }
    }

    fn find_local(&self, name: &str) -> Option<&Local<'a>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    /// Returns the name if the expression is a variable.
    fn variable_name(&self, id: ExprId) -> Option<&'a str> {
        match (self.kind(id), self.checked.reference(id)) {
            (ExprKind::Ident(_) | ExprKind::Select { .. }, Some(Reference::Variable(name))) => Some(name),
            (ExprKind::Ident(name), _) => Some(name),
            _ => None,
        }
    }

    fn path(&self, id: ExprId) -> Path {
        let local = self.variable_name(id).and_then(|name| self.find_local(name));
        local.map_or_else(|| self.paths[id.index()].clone(), |local| local.path.clone())
    }

    fn cost_of_variable(&mut self, id: ExprId, name: &str) -> CostEstimate {
        let local = self.find_local(name).map(|local| local.path.clone());
        self.paths[id.index()] = local.unwrap_or_else(|| Path::default().then(name));
        CostEstimate::fixed(SELECT_COST)
    }

    fn cost_of_selection(
        &mut self,
        id: ExprId,
        operand: ExprId,
        field: &str,
        test_only: bool,
    ) -> CostEstimate {
        let cost = self.cost(operand);
        if test_only {
            // Kubernetes disables the cost of presence tests.
            return cost;
        }
        self.paths[id.index()] = self.path(operand).then(field);
        let has_fields = matches!(self.type_of(operand), Type::Map(..) | Type::Object(_) | Type::Param(_));
        if has_fields { cost.plus(CostEstimate::fixed(SELECT_COST)) } else { cost }
    }

    fn node(&mut self, id: ExprId) -> CostNode<'a> {
        let mut path = self.path(id);
        if path.first().is_some_and(|name| name == ACCUMULATOR || name == OLD_ACCUMULATOR) {
            path = Path::default();
        }
        CostNode { id, ty: self.type_of(id), path, size: self.size(id) }
    }

    fn cost_of_call(&mut self, id: ExprId, target: Option<ExprId>, args: &[ExprId]) -> CostEstimate {
        let Some(Reference::Function { name, overloads, is_global }) = self.checked.reference(id) else {
            return CostEstimate::default();
        };
        if *name == "dyn" && args.len() == 1 {
            let cost = self.cost(args[0]);
            self.copy_sizes(id, args[0]);
            return cost.plus(CostEstimate::fixed(1));
        }
        let (mut nodes, mut arg_costs) = (Vec::new(), Vec::new());
        for arg in args {
            arg_costs.push(self.cost(*arg));
            nodes.push(self.node(*arg));
        }
        let mut sum = CostEstimate::default();
        let mut target_node = None;
        if let Some(target) = target.filter(|_| !is_global) {
            sum = self.cost(target);
            target_node = Some(self.node(target));
        }
        let call = CostCall { id, function: name, target: target_node, args: nodes, arg_costs };
        let mut cost: Option<CostEstimate> = None;
        let mut size: Option<SizeEstimate> = None;
        for overload in overloads {
            let estimate = self.function_cost(&call, overload.id);
            cost = Some(cost.map_or(estimate.cost, |earlier| earlier.union(estimate.cost)));
            size = match (size, estimate.size) {
                (Some(earlier), Some(next)) => Some(earlier.union(next)),
                (earlier, next) => earlier.or(next),
            };
            size = self.index_size(id, overload.id, args, size).or_else(|| self.size(id));
        }
        self.set_size(id, size);
        sum.plus(cost.unwrap_or_default())
    }

    /// Records the path of an index, and returns the size of its element.
    fn index_size(
        &mut self,
        id: ExprId,
        overload: &str,
        args: &[ExprId],
        size: Option<SizeEstimate>,
    ) -> Option<SizeEstimate> {
        let step = match overload {
            "index_list" => ITEMS,
            "index_map" => VALUES,
            _ => return size,
        };
        let container = *args.first()?;
        self.paths[id.index()] = self.path(container).then(step);
        self.entry_size(container).map(|entry| entry.value)
    }

    fn cost_of_list(&mut self, id: ExprId, elements: &[Element]) -> CostEstimate {
        let mut cost = CostEstimate::fixed(LIST_COST);
        let mut value = if elements.is_empty() { SizeEstimate::fixed(0) } else { SizeEstimate::NONE };
        for element in elements {
            cost = cost.plus(self.cost(element.value));
            value = value.union(self.size_or_unknown(element.value));
        }
        let entry = EntrySize { is_list: true, key: SizeEstimate::fixed(1), value };
        self.entry_sizes[id.index()] = Some(entry);
        cost
    }

    fn cost_of_map(&mut self, id: ExprId, entries: &[MapEntry]) -> CostEstimate {
        let mut cost = CostEstimate::fixed(MAP_COST);
        let first = if entries.is_empty() { SizeEstimate::fixed(0) } else { SizeEstimate::NONE };
        let (mut key, mut value) = (first, first);
        for entry in entries {
            cost = cost.plus(self.cost(entry.key)).plus(self.cost(entry.value));
            key = key.union(self.size_or_unknown(entry.key));
            value = value.union(self.size_or_unknown(entry.value));
        }
        self.entry_sizes[id.index()] = Some(EntrySize { is_list: false, key, value });
        cost
    }

    /// `true` for the expansion of `cel.bind` and its like: a fold over nothing.
    fn is_bind(&self, fold: &Comprehension) -> bool {
        matches!(self.kind(fold.iter_range), ExprKind::List(elements) if elements.is_empty())
            && matches!(self.kind(fold.loop_condition), ExprKind::Literal(Literal::Bool(false)))
            && *fold.accu_var != *OLD_ACCUMULATOR
    }

    fn cost_of_bind(&mut self, id: ExprId, fold: &'a Comprehension) -> CostEstimate {
        let cost = self.cost(fold.iter_range).plus(self.cost(fold.accu_init));
        self.push_accumulator(fold);
        let cost = cost.plus(self.cost(fold.result));
        // As in cel-go, the variable has ended when the size of the result is taken.
        self.locals.pop();
        self.copy_sizes(id, fold.result);
        cost
    }

    fn cost_of_fold(&mut self, id: ExprId, fold: &'a Comprehension) -> CostEstimate {
        let mut cost = self.cost(fold.iter_range).plus(self.cost(fold.accu_init));
        self.push_accumulator(fold);
        let outer = self.locals.len();
        self.push_iteration(fold);
        let condition = self.cost(fold.loop_condition);
        let step = self.cost(fold.loop_step);
        self.locals.truncate(outer);
        cost = cost.plus(self.cost(fold.result));
        self.locals.pop();
        let count = self.size_or_unknown(fold.iter_range);
        cost = cost.plus(count.repeat(step.plus(condition)));
        match self.kind(fold.accu_init) {
            ExprKind::Literal(_) => {
                let size = self.size(fold.accu_init);
                self.set_size(id, size);
            }
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.set_size(id, Some(count));
                if let Some(entry) = self.entry_size(fold.loop_step) {
                    self.entry_sizes[id.index()] = Some(entry);
                }
            }
            _ => {}
        }
        cost
    }

    fn push_accumulator(&mut self, fold: &'a Comprehension) {
        let (init, path) = (fold.accu_init, self.path(fold.accu_init));
        let (size, entry_size) = (self.size(init), self.entry_size(init));
        self.locals.push(Local { name: &fold.accu_var, path, size, entry_size });
    }

    /// Adds the variables of an iteration. All sizes are those of the range outside of it.
    fn push_iteration(&mut self, fold: &'a Comprehension) {
        let range = fold.iter_range;
        let entry = self.entry_size(range);
        let is_list = entry.map_or(matches!(self.type_of(range), Type::List(_)), |entry| entry.is_list);
        let path = self.path(range);
        let (key, value) = if is_list { (INDICES, ITEMS) } else { (KEYS, VALUES) };
        let key = (key, entry.map(|entry| entry.key));
        let value = (value, entry.map(|entry| entry.value));
        let first = if fold.iter_var2.is_none() && is_list { value } else { key };
        let mut push = |name, (step, size): (&str, _)| {
            self.locals.push(Local { name, path: path.then(step), size, entry_size: None });
        };
        push(&fold.iter_var, first);
        if let Some(name) = &fold.iter_var2 {
            push(name, value);
        }
    }

    fn set_size(&mut self, id: ExprId, size: Option<SizeEstimate>) {
        if size.is_some() {
            self.sizes[id.index()] = size;
        }
    }

    fn copy_sizes(&mut self, id: ExprId, from: ExprId) {
        let size = self.size(from);
        self.set_size(id, size);
        if let Some(entry) = self.entry_size(from) {
            self.entry_sizes[id.index()] = Some(entry);
        }
    }

    pub(super) fn set_entry_size(&mut self, id: ExprId, entry: EntrySize) {
        self.entry_sizes[id.index()] = Some(entry);
    }

    pub(super) fn size_or_unknown(&mut self, id: ExprId) -> SizeEstimate {
        self.size(id).unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// Returns the size of an expression: that of its literal, its declaration, its type, or its variable.
    fn size(&mut self, id: ExprId) -> Option<SizeEstimate> {
        if let Some(size) = self.sizes[id.index()].or_else(|| literal_size(self.kind(id))) {
            return Some(size);
        }
        if let Some(size) = declared_size(self.root, &self.path(id)) {
            self.sizes[id.index()] = Some(size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(id)?) {
            return Some(SizeEstimate::fixed(1));
        }
        self.variable_name(id).and_then(|name| self.find_local(name))?.size
    }

    pub(super) fn entry_size(&self, id: ExprId) -> Option<EntrySize> {
        self.entry_sizes[id.index()]
            .or_else(|| self.variable_name(id).and_then(|name| self.find_local(name))?.entry_size)
    }

    /// Returns the size of a node, or of the value that its path leads to.
    pub(super) fn node_size(&self, node: &CostNode) -> SizeEstimate {
        node.size.or_else(|| declared_size(self.root, &node.path)).unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// Returns the size of the elements of a list.
    pub(super) fn element_size(&self, list: &CostNode) -> SizeEstimate {
        let path = if list.path.is_empty() { Path::default() } else { list.path.then(ITEMS) };
        declared_size(self.root, &path).unwrap_or(SizeEstimate::UNKNOWN)
    }

    fn function_cost(&mut self, call: &CostCall, overload: &str) -> CallEstimate {
        let library = self.list_cost(call, overload).or_else(|| self.kubernetes_cost(call, overload));
        match library {
            Some(estimate) => CallEstimate { cost: estimate.cost.plus(call.arg_cost()), ..estimate },
            None => self.standard_cost(call, overload),
        }
    }
}

fn literal_size(kind: &ExprKind) -> Option<SizeEstimate> {
    let size = match kind {
        ExprKind::Literal(Literal::String(text)) => text.chars().count(),
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        ExprKind::Literal(_) => 1,
        ExprKind::List(elements) => elements.len(),
        ExprKind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(SizeEstimate::fixed(size as u64))
}

/// `true` for types whose values have one size.
fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
