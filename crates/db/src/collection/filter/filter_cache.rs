//! Filters that were compiled lately, so that one asked for often is compiled once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lru::LruCache;

use crate::expr::{BoundFilter, Constant, FilterError, Templates, compile};
use crate::schema::Schema;

/// Filters that are kept, and so answers, which are those of kept filters: clients that filter by
/// the values of few fields come back to each of them.
pub(in crate::collection) const MOST: usize = 4096;
/// Bytes of expression and templates beyond which a filter is not kept: a long list of keys comes
/// once. Nor is one in which the values of templates, put in as often as they are named, take more.
const LONG: usize = 16 << 10;
/// Bytes of the expressions and templates of all that are kept, and of the values put in.
const MOST_BYTES: usize = 4 << 20;

#[derive(Debug)]
struct CacheEntry {
    expression: String,
    templates: Templates,
    bound: Arc<BoundFilter>,
    bytes: usize,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(in crate::collection) struct FilterCache {
    /// Made by the first filter: most of many collections meet none.
    kept: OnceLock<Box<Mutex<KeptFilter>>>,
}

#[derive(Debug)]
struct KeptFilter {
    /// By a hash of what they are found by; one of two with the same gives way.
    entries: LruCache<u64, CacheEntry>,
    /// Of all entries.
    bytes: usize,
}

impl FilterCache {
    /// The filter bound to this schema.
    ///
    /// # Errors
    /// What compiling says; that is not kept.
    pub(in crate::collection) fn bound(
        &self,
        expression: &str,
        schema: &Schema,
        templates: &Templates,
    ) -> Result<Arc<BoundFilter>, FilterError> {
        let compiled = || compile(expression, schema, templates).map(Arc::new);
        let bytes = expression.len().saturating_add(bytes_of_all(templates));
        if bytes > LONG {
            return compiled();
        }
        let key = key(expression, schema.version(), templates);
        if let Some(entry) = self.kept().entries.get(&key)
            && entry.bound.schema_version == schema.version()
            && entry.expression == expression
            && entry.templates == *templates
        {
            return Ok(Arc::clone(&entry.bound));
        }
        let bound = compiled()?;
        if bound.template_bytes > LONG {
            return Ok(bound);
        }
        let bytes = bytes + bound.template_bytes;
        let (expression, templates) = (expression.to_owned(), templates.clone());
        self.kept()
            .add(key, CacheEntry { expression, templates, bound: Arc::clone(&bound), bytes });
        Ok(bound)
    }

    fn kept(&self) -> MutexGuard<'_, KeptFilter> {
        let none = || KeptFilter { entries: LruCache::unbounded(), bytes: 0 };
        let kept = self.kept.get_or_init(|| Box::new(Mutex::new(none())));
        kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptFilter {
    /// Adds an entry; those that were not used for longest give way.
    fn add(&mut self, key: u64, entry: CacheEntry) {
        while self.entries.len() >= MOST || self.bytes + entry.bytes > MOST_BYTES {
            self.bytes -= self.entries.pop_lru().map_or(0, |(_, oldest)| oldest.bytes);
        }
        self.bytes += entry.bytes;
        self.bytes -= self.entries.put(key, entry).map_or(0, |before| before.bytes);
    }
}

fn key(expression: &str, version: u32, templates: &Templates) -> u64 {
    let mut hasher = DefaultHasher::new();
    (expression, version, templates).hash(&mut hasher);
    hasher.finish()
}

fn bytes_of_all(templates: &Templates) -> usize {
    let bytes = templates.iter().map(|(name, value)| name.len().saturating_add(bytes_of(value)));
    bytes.fold(0, usize::saturating_add)
}

fn bytes_of(constant: &Constant) -> usize {
    match constant {
        Constant::Text(text) => text.len(),
        // A list in a list is not looked into: it is refused where it is long or deep.
        Constant::List(items) if items.len() > LONG / size_of::<Constant>() => usize::MAX / 2,
        Constant::List(items) => items
            .iter()
            .map(|item| match item {
                Constant::Text(text) => text.len(),
                Constant::List(_) => LONG + 1,
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
        cache.bound(&format!("a == 1{}", " ".repeat(LONG)), &schema, &Templates::new()).unwrap();
        assert!(cache.bound("nope == 1", &schema, &Templates::new()).is_err());
        let kept = cache.kept();
        let expressions = || kept.entries.iter().map(|(_, entry)| entry.expression.as_str());
        assert_eq!(kept.entries.len(), MOST);
        assert!(expressions().any(|expression| expression == "a == 0"), "it was used lately");
        assert!(expressions().all(|expression| expression.len() < 20));
        assert_eq!(kept.bytes, expressions().map(str::len).sum::<usize>());
    }

    #[test]
    fn values_of_templates_count_as_often_as_they_are_named() {
        let (cache, schema) = (FilterCache::default(), schema());
        let list = Constant::List((0..100).map(Constant::Int).collect());
        let templates = Templates::from([("t".to_owned(), list)]);
        let named = |times: usize| vec!["a in {t}"; times].join(" or ");
        for times in [1, 3, 900] {
            cache.bound(&named(times), &schema, &templates).unwrap();
        }
        let given = bytes_of_all(&templates);
        let bytes = |times| named(times).len() + given + times * 101 * size_of::<Constant>();
        let kept = cache.kept();
        assert_eq!(kept.entries.len(), 2, "that with 900 lists is not kept");
        assert_eq!(kept.bytes, bytes(1) + bytes(3));
        assert!(named(900).len() + given < LONG);
    }

    #[test]
    fn long_ones_give_way_sooner() {
        let (cache, schema) = (FilterCache::default(), schema());
        for n in 0..1000 {
            let expression = format!("a == {n}{}", " ".repeat(LONG - 20));
            cache.bound(&expression, &schema, &Templates::new()).unwrap();
        }
        let kept = cache.kept();
        let bytes = kept.entries.iter().map(|(_, entry)| entry.bytes).sum::<usize>();
        assert_eq!((kept.bytes, kept.entries.len()), (bytes, MOST_BYTES / (LONG - 12)));
        assert!(bytes <= MOST_BYTES);
    }
}
