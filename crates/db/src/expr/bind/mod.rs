//! A tree bound to a schema: names become fields, constants are folded and checked against types,
//! and conditions take the form of [`Predicate`].

mod calculate;
mod calls;
mod compare;
mod fit;

use std::cell::Cell;

use super::constant::{Constant, ConstantSize, Templates};
use super::error::{FilterFault, LocatedResult, Span};
use super::instant::{Interval, parse_instant};
use super::parser::{MAX_DEPTH, MAX_EXPRESSION_BYTES, MAX_TERMS, TERM_WORK};
use super::predicate::{BoundFilter, ColumnRef, Leaf, Predicate, Target, Term};
use super::tree::{Comparison, Expr, Junction, Literal, Name, OperandKind, PathStep};
use crate::asker;
use crate::schema::Schema;
use crate::value::{DataType, ScalarType};

/// A list, as an operation in messages.
const LIST: &str = "a list";

/// What a part of an expression is.
enum Bound {
    Constant(Constant),
    Interval(Interval),
    /// A value of the row, and its type.
    Term(Term, Target),
    Predicate(Predicate),
}

impl Bound {
    /// Its type, in the words of messages.
    fn describe(&self) -> String {
        match self {
            Self::Constant(constant) => constant.type_name().to_owned(),
            Self::Interval(_) => "an interval".to_owned(),
            Self::Term(_, target) => type_name(*target).to_owned(),
            Self::Predicate(_) => "a condition".to_owned(),
        }
    }
}

/// The name of a type in messages.
fn type_name(target: Target) -> &'static str {
    match target {
        Target::Scalar(scalar) => scalar_name(scalar),
        Target::Array(_) => "Array",
        Target::Json => "JSON",
    }
}

fn scalar_name(scalar: ScalarType) -> &'static str {
    match scalar {
        ScalarType::Bool => "Bool",
        ScalarType::Int8 => "Int8",
        ScalarType::Int16 => "Int16",
        ScalarType::Int32 => "Int32",
        ScalarType::Int64 => "Int64",
        ScalarType::Float => "Float",
        ScalarType::Double => "Double",
        ScalarType::Timestamptz => "Timestamptz",
        ScalarType::VarChar => "VarChar",
    }
}

/// Binds a whole expression; none selects every row.
pub(super) fn bind(
    expr: Option<&Expr>,
    schema: &Schema,
    templates: &Templates,
) -> LocatedResult<BoundFilter> {
    let binder = Binder { schema, templates, put_in: Cell::default() };
    let (mut predicate, mut sample) = (Predicate::Const(true), None);
    if let Some(expr) = expr {
        let (terms, last): (&[Expr], _) = match &expr.kind {
            OperandKind::Junction(Junction::And, terms) => match terms.split_last() {
                Some((last, rest)) => (rest, last),
                None => (&[], expr),
            },
            _ => (&[], expr),
        };
        sample = binder.sample(last)?;
        predicate = match sample {
            None => binder.predicate(expr)?,
            Some(_) => {
                let terms = terms.iter().map(|term| binder.predicate(term));
                Predicate::all(terms.collect::<LocatedResult<_>>()?)
            }
        };
    }
    let (schema_version, template_bytes) = (schema.version(), binder.put_in.get().bytes());
    Ok(BoundFilter { predicate, sample, schema_version, template_bytes })
}

struct Binder<'s> {
    schema: &'s Schema,
    templates: &'s Templates,
    /// What templates have put in so far: each time that one is named, its value is copied.
    put_in: Cell<ConstantSize>,
}

impl Binder<'_> {
    fn bound(&self, expr: &Expr) -> LocatedResult<Bound> {
        Ok(match &expr.kind {
            OperandKind::Literal(literal) => self.literal(literal, expr.span)?,
            OperandKind::Template(name) => Bound::Constant(self.template(name, expr.span)?.clone()),
            OperandKind::List(items) => {
                let items = items.iter().map(|item| match asker::worked(TERM_WORK) {
                    true => self.constant(LIST, item),
                    false => Err(FilterFault::Unwanted.at(item.span)),
                });
                Bound::Constant(Constant::List(items.collect::<LocatedResult<_>>()?))
            }
            OperandKind::Name(name) => {
                let column = self.column(name, expr.span)?;
                let target = column.target;
                Bound::Term(Term::Column(column), target)
            }
            OperandKind::Minus(operand) => self.minus(operand, expr.span)?,
            OperandKind::Arithmetic(operator, both) => {
                self.arithmetic(*operator, &both.0, &both.1)?
            }
            OperandKind::Call(name, arguments) => self.call(name, arguments, expr.span)?,
            _ => Bound::Predicate(self.condition(expr)?),
        })
    }

    /// A condition; a field of bools is one.
    fn predicate(&self, expr: &Expr) -> LocatedResult<Predicate> {
        self.as_predicate(expr, |found| FilterFault::NotBoolean { found })
    }

    fn as_predicate(
        &self,
        expr: &Expr,
        refuse: impl FnOnce(String) -> FilterFault,
    ) -> LocatedResult<Predicate> {
        match self.bound(expr)? {
            Bound::Predicate(predicate) => Ok(predicate),
            Bound::Constant(Constant::Bool(value)) => Ok(Predicate::Const(value)),
            Bound::Term(Term::Column(column), Target::Scalar(ScalarType::Bool)) => {
                Ok(Predicate::Leaf(Leaf::Compare(column, Comparison::Eq, Constant::Bool(true))))
            }
            other => Err(refuse(other.describe()).at(expr.span)),
        }
    }

    fn condition(&self, expr: &Expr) -> LocatedResult<Predicate> {
        match &expr.kind {
            OperandKind::Junction(junction, terms) => {
                let terms = terms.iter().map(|term| self.predicate(term));
                let terms = terms.collect::<LocatedResult<Vec<_>>>()?;
                Ok(match junction {
                    Junction::And => Predicate::all(terms),
                    Junction::Or => Predicate::any(terms),
                })
            }
            OperandKind::Not(operand) => {
                let refuse = |found| FilterFault::Not { found };
                Ok(self.as_predicate(operand, refuse)?.negated())
            }
            OperandKind::Compare(comparison, both) => self.compare(*comparison, &both.0, &both.1),
            OperandKind::Range(parts) => self.range(&parts.0, &parts.1, &parts.2),
            OperandKind::In(both) => self.member(&both.0, &both.1),
            OperandKind::Like(both) => self.like(&both.0, &both.1),
            OperandKind::IsNull(operand) => {
                let column = self.column_of(operand, "is null", "fields", |_| true)?;
                Ok(Predicate::Leaf(Leaf::IsNull(column)))
            }
            OperandKind::Exists(operand) => {
                let is_json = |target| target == Target::Json;
                let column = self.column_of(operand, "exists", "JSON fields", is_json)?;
                Ok(Predicate::Leaf(Leaf::IsNull(column)).negated())
            }
            _ => self.predicate(expr),
        }
    }

    fn literal(&self, literal: &Literal, span: Span) -> LocatedResult<Bound> {
        let bad = |what| move |why| FilterFault::Time { what, why }.at(span);
        Ok(Bound::Constant(match literal {
            Literal::Bool(value) => Constant::Bool(*value),
            Literal::Integer(value) => Constant::Int(*value),
            Literal::Float(value) => Constant::Float(*value),
            Literal::Text(text) => Constant::Text(text.to_string()),
            Literal::Instant(text) => {
                Constant::Instant(parse_instant(text).map_err(bad("instant"))?)
            }
            Literal::Interval(text) => {
                return Interval::parse(text).map(Bound::Interval).map_err(bad("interval"));
            }
        }))
    }

    fn template(&self, name: &str, span: Span) -> LocatedResult<&Constant> {
        let missing = || FilterFault::Template { name: name.to_owned() }.at(span);
        let value = self.templates.get(name).ok_or_else(missing)?;
        let refuse = |why| FilterFault::TemplateValue { name: name.to_owned(), why }.at(span);
        if value.is_deeper_than(MAX_DEPTH) {
            return Err(refuse("its lists are nested too deep"));
        }
        if value.has_nan() {
            return Err(refuse("it is NaN"));
        }
        let put_in = self.put_in.get() + value.size();
        let (values, bytes) = (MAX_TERMS, MAX_EXPRESSION_BYTES);
        if put_in.values > values || put_in.text_bytes > bytes {
            return Err(FilterFault::TooMuchPutIn { values, bytes }.at(span));
        }
        self.put_in.set(put_in);
        Ok(value)
    }

    /// A value that depends on no row, for an operation that takes no other.
    fn constant(&self, operation: &str, expr: &Expr) -> LocatedResult<Constant> {
        match self.bound(expr)? {
            Bound::Constant(constant) => Ok(constant),
            other => {
                let (operation, found) = (operation.to_owned(), other.describe());
                Err(FilterFault::Operand { operation, wanted: "constants", found }.at(expr.span))
            }
        }
    }

    fn column(&self, name: &Name, span: Span) -> LocatedResult<ColumnRef> {
        let Name { name, path } = name;
        let Some(field) = self.schema.position(name) else {
            let unknown = || FilterFault::UnknownField { name: name.clone() }.at(span);
            let field = self.schema.dynamic_position().ok_or_else(unknown)?;
            let key = std::iter::once(PathStep::Key(name.clone()));
            let path = key.chain(path.iter().cloned()).collect();
            return Ok(ColumnRef { field, path, target: Target::Json });
        };
        let refuse = |operation: String, wanted, found: &str| {
            FilterFault::Operand { operation, wanted, found: found.to_owned() }.at(span)
        };
        let data_type = self.schema.fields()[field].spec.data_type;
        let target = match (data_type, path.as_slice()) {
            (DataType::Json, _) => Target::Json,
            (DataType::Scalar(scalar), []) => Target::Scalar(scalar),
            (DataType::Array(element), []) => Target::Array(element),
            (DataType::Array(element), [PathStep::Index(_)]) => Target::Scalar(element),
            (DataType::Array(_), _) => {
                let operation = format!("a path into {name}");
                return Err(refuse(operation, "one position from 0", "a longer one or a key"));
            }
            (DataType::Scalar(scalar), _) => {
                let operation = format!("a path into {name}");
                return Err(refuse(operation, "JSON and array fields", scalar_name(scalar)));
            }
            (DataType::Vector(_), _) => {
                let operation = "a filter".to_owned();
                return Err(refuse(operation, "scalar, array and JSON fields", "a vector field"));
            }
        };
        Ok(ColumnRef { field, path: path.clone(), target })
    }

    /// The column that an operand is, where an operation takes its type.
    fn column_of(
        &self,
        expr: &Expr,
        operation: &str,
        wanted: &'static str,
        takes: impl FnOnce(Target) -> bool,
    ) -> LocatedResult<ColumnRef> {
        match self.bound(expr)? {
            Bound::Term(Term::Column(column), target) if takes(target) => Ok(column),
            other => {
                let (operation, found) = (operation.to_owned(), other.describe());
                Err(FilterFault::Operand { operation, wanted, found }.at(expr.span))
            }
        }
    }
}
