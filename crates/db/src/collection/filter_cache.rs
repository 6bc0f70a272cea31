//! Filters that were compiled lately, so that one asked for often is compiled once.

use std::sync::{Arc, Mutex, PoisonError};

use crate::expr::{BoundFilter, Constant, FilterError, Templates, compile};
use crate::schema::Schema;

/// Filters that are kept: as many as answers are, which are those of kept filters.
const MOST: usize = 256;
/// Bytes of expression and templates beyond which a filter is not kept: a long list of keys comes
/// once. So all that are kept are bounded as well.
const MOST_BYTES: usize = 16 << 10;

#[derive(Debug)]
struct Entry {
    expression: String,
    templates: Templates,
    bound: Arc<BoundFilter>,
}

/// The most recently used last.
#[derive(Debug, Default)]
pub(super) struct FilterCache {
    entries: Mutex<Vec<Entry>>,
}

impl FilterCache {
    /// The filter bound to this schema.
    ///
    /// # Errors
    /// What compiling says; that is not kept.
    pub(super) fn bound(
        &self,
        expression: &str,
        schema: &Schema,
        templates: &Templates,
    ) -> Result<Arc<BoundFilter>, FilterError> {
        let compiled = || compile(expression, schema, templates).map(Arc::new);
        if expression.len() > MOST_BYTES || !are_small(templates) {
            return compiled();
        }
        if let Some(bound) = self.find(expression, schema.version(), templates) {
            return Ok(bound);
        }
        let bound = compiled()?;
        let (expression, templates) = (expression.to_owned(), templates.clone());
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MOST {
            entries.remove(0);
        }
        entries.push(Entry { expression, templates, bound: Arc::clone(&bound) });
        Ok(bound)
    }

    fn find(
        &self,
        expression: &str,
        version: u32,
        templates: &Templates,
    ) -> Option<Arc<BoundFilter>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|entry| {
            entry.bound.schema_version == version
                && entry.expression == expression
                && entry.templates == *templates
        })?;
        let entry = entries.remove(at);
        let bound = Arc::clone(&entry.bound);
        entries.push(entry);
        Some(bound)
    }
}

fn are_small(templates: &Templates) -> bool {
    let bytes = templates.iter().map(|(name, value)| name.len() + bytes_of(value));
    bytes.sum::<usize>() <= MOST_BYTES
}

fn bytes_of(constant: &Constant) -> usize {
    match constant {
        Constant::Text(text) => text.len(),
        // A list in a list is not looked into: it is refused where it is long or deep.
        Constant::List(items) if items.len() > MOST_BYTES / size_of::<Constant>() => usize::MAX / 2,
        Constant::List(items) => items
            .iter()
            .map(|item| match item {
                Constant::Text(text) => text.len(),
                Constant::List(_) => MOST_BYTES,
                _ => size_of::<Constant>(),
            })
            .sum(),
        _ => size_of::<Constant>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::FieldSpec;
    use crate::value::{DataType, ScalarType, VectorKind};

    fn schema() -> Schema {
        let scalar = |name: &str| FieldSpec::new(name, DataType::Scalar(ScalarType::Int64));
        let builder = Schema::builder().field(scalar("id").primary_key());
        let v = FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(2);
        builder.field(v).field(scalar("a")).build().unwrap()
    }

    #[test]
    fn the_same_filter_is_compiled_once_and_others_are_others() {
        let (cache, schema) = (FilterCache::default(), schema());
        let templates = |n| Templates::from([("n".to_owned(), Constant::Int(n))]);
        let bound = |text: &str, n| cache.bound(text, &schema, &templates(n)).unwrap();
        let first = bound("a == {n}", 1);
        assert!(Arc::ptr_eq(&first, &bound("a == {n}", 1)));
        assert!(!Arc::ptr_eq(&first, &bound("a == {n}", 2)));
        assert_ne!(first, bound("a == {n}", 2));
        let added = FieldSpec::new("b", DataType::Json).nullable();
        let newer = schema.with_field(added).unwrap();
        let again = cache.bound("a == {n}", &newer, &templates(1)).unwrap();
        assert!(!Arc::ptr_eq(&first, &again));
        assert_eq!(again.schema_version, 2);
    }

    #[test]
    fn few_are_kept_and_no_long_ones() {
        let (cache, schema) = (FilterCache::default(), schema());
        for n in 0..2 * MOST {
            cache.bound(&format!("a == {n}"), &schema, &Templates::new()).unwrap();
            cache.bound("a == 0", &schema, &Templates::new()).unwrap();
        }
        let long = Constant::List((0..100_000).map(Constant::Int).collect());
        let long = Templates::from([("list".to_owned(), long)]);
        cache.bound("a in {list}", &schema, &long).unwrap();
        cache
            .bound(&format!("a == 1{}", " ".repeat(MOST_BYTES)), &schema, &Templates::new())
            .unwrap();
        assert!(cache.bound("nope == 1", &schema, &Templates::new()).is_err());
        let entries = cache.entries.lock().unwrap();
        assert_eq!(entries.len(), MOST);
        assert!(entries.iter().any(|entry| entry.expression == "a == 0"), "it was used lately");
        assert!(entries.iter().all(|entry| entry.expression.len() < 20));
    }
}
