//! What the database says of how it answers filters: of one, and of all filters of a search.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use pipeann_cli::measure::rounded;
use pipeann_cli::table::{count, print_json, print_line, print_pairs};
use pipeann_db::collection::{Collection, Filter, FilterPlan};
use serde_json::{Value, json};

use super::opening::{DatabaseArgs, collection};

/// Run a filter, and tell how its rows were found and how a search among them would go
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Name of the collection
    #[arg(long, default_value = "rows")]
    collection: String,
    /// The filter
    #[arg(long, value_name = "EXPRESSION")]
    filter: String,
    /// Print the plan as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ExplainArgs) -> Result<()> {
    let database = args.database.open()?;
    let rows = collection(&database, &args.collection)?;
    let plan = rows.explain(Filter::new(&args.filter), None)?;
    if args.json { print_json(&plan_json(&plan)) } else { print_plan(&plan) }
}

fn plan_json(plan: &FilterPlan) -> Value {
    let guess = |e: pipeann_db::scalar::MatchEstimate| json!([e.least, e.guess, e.most]);
    let conditions = plan.conditions.iter().map(|c| {
        json!({
            "field": c.field, "operation": c.operation, "negated": c.negated,
            "answered": c.answered.to_string(), "estimate": guess(c.estimate),
        })
    });
    let searches = plan.searches.iter().map(|s| {
        json!({
            "field": s.field, "linked": s.linked, "exact": s.exact, "walk": s.walk.to_string(),
        })
    });
    json!({
        "expression": plan.expression, "rows": plan.rows, "estimate": guess(plan.estimate),
        "source": plan.source.to_string(), "conditions": conditions.collect::<Vec<_>>(),
        "certain": plan.certain, "rows_read": plan.rows_read, "matches": plan.matches,
        "searches": searches.collect::<Vec<_>>(),
    })
}

fn print_plan(plan: &FilterPlan) -> Result<()> {
    let among = |n: u64| {
        let share = 100.0 * n as f64 / plan.rows.max(1) as f64;
        format!("{} of {} rows ({share:.4}%)", count(n), count(plan.rows))
    };
    let guess = plan.estimate;
    print_pairs(&[
        ("filter", plan.expression.clone()),
        ("looked for in", plan.source.to_string()),
        ("estimate", format!("{}, {} to {}", among(guess.guess), guess.least, guess.most)),
        ("certain", count(plan.certain)),
        ("rows read", count(plan.rows_read)),
        ("matches", among(plan.matches)),
    ])?;
    for c in &plan.conditions {
        let field = c.field.as_deref().unwrap_or("several fields");
        let not = if c.negated { "not " } else { "" };
        let (by, rows) = (&c.answered, among(c.estimate.guess));
        print_line(&format!("condition: {not}{field} {}, by {by}, about {rows}", c.operation))?;
    }
    for s in &plan.searches {
        let linked =
            s.linked.map_or_else(|| "no graph".to_owned(), |n| format!("{n} in the graph"));
        let walk = &s.walk;
        print_line(&format!("search of {}: {walk}; {linked}, {} compared", s.field, s.exact))?;
    }
    Ok(())
}

/// How the filters of a search are answered: how often in which way, and means of what is counted.
#[derive(Debug, Default)]
pub(super) struct Plans {
    ways: BTreeMap<String, usize>,
    filters: usize,
    matches: u64,
    rows_read: u64,
    /// Rows that were read and do not match.
    read_in_vain: u64,
    conditions_answered: BTreeMap<String, usize>,
}

impl Plans {
    /// Asks for the plans of these filters, for searches of a field.
    ///
    /// # Errors
    /// What a filter fails at.
    pub(super) fn of<'f>(
        collection: &Collection,
        field: &str,
        filters: impl Iterator<Item = &'f str>,
    ) -> Result<Self> {
        let mut plans = Self::default();
        let mut known: BTreeMap<&str, FilterPlan> = BTreeMap::new();
        for filter in filters {
            if !known.contains_key(filter) {
                known.insert(filter, collection.explain(Filter::new(filter), None)?);
            }
            plans.add(&known[filter], field);
        }
        Ok(plans)
    }

    fn add(&mut self, plan: &FilterPlan, field: &str) {
        let search = plan.searches.iter().find(|search| search.field == field);
        let walk = search.map_or_else(|| "no search".to_owned(), |s| s.walk.to_string());
        *self.ways.entry(format!("{}/{walk}", plan.source)).or_default() += 1;
        for condition in &plan.conditions {
            *self.conditions_answered.entry(condition.answered.to_string()).or_default() += 1;
        }
        self.filters += 1;
        self.matches += plan.matches;
        self.rows_read += plan.rows_read;
        self.read_in_vain += plan.rows_read - (plan.matches - plan.certain).min(plan.rows_read);
    }

    /// All of it, as means over the queries that have a filter.
    pub(super) fn json(&self) -> Value {
        let mean = |sum: u64| rounded(sum as f64 / self.filters.max(1) as f64, 2);
        json!({
            "plans": self.ways, "conditions": self.conditions_answered,
            "matches": mean(self.matches), "rows_read": mean(self.rows_read),
            "read_in_vain": mean(self.read_in_vain),
        })
    }

    /// How often each way was taken, in one line.
    pub(super) fn line(&self) -> String {
        let ways = self.ways.iter().map(|(way, times)| format!("{way} {times}"));
        let mean = |sum: u64| rounded(sum as f64 / self.filters.max(1) as f64, 1);
        let (matches, read) = (mean(self.matches), mean(self.rows_read));
        let ways = ways.collect::<Vec<_>>().join(", ");
        format!("plans: {ways}; {matches} rows match, {read} were read to know")
    }
}
