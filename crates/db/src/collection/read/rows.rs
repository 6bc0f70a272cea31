//! Reading rows by key, and counting them. `query` finds them otherwise.
//!
//! A read looks at one moment: it sees every write that was answered before it began, and each
//! write as a whole or not at all.

use crate::asker;
use crate::catalog::CollectionEntry as Entry;
use crate::collection::components::ReadSnapshot;
use crate::collection::formats::Formats;
use crate::collection::partitions::partition_number;
use crate::collection::pinned_snapshot::PinnedSnapshot;
use crate::collection::{Collection, CollectionError};
use crate::expr::BoundFilter;
use crate::ids::{RowId, Seq};
use crate::schema::{PrimaryKey, PrimaryKeyRef, Schema};
use crate::value::{Value, ValueRef};

/// Rows read at once.
const ROWS_AT_ONCE: usize = 1024;

/// A row that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundRow {
    /// Its id.
    pub row: RowId,
    /// Its primary key.
    pub key: PrimaryKey,
    /// The values of the fields that were asked for, in that order.
    pub values: Vec<Value>,
}

/// What a read looks at.
#[derive(Clone, Copy)]
pub(in crate::collection) struct ReadView<'a> {
    /// Of the collection, now.
    pub(in crate::collection) entry: &'a Entry,
    /// The moment has what it asks for.
    pub(in crate::collection) filter: Option<&'a BoundFilter>,
    /// The moment; now, unless given.
    pub(in crate::collection) held: Option<&'a PinnedSnapshot>,
}

/// A field to be read.
pub(in crate::collection) enum Source {
    /// A column of the stored row.
    Column(usize),
    /// The vectors of a field, by their place among the components.
    Vectors(usize),
}

/// What is read of rows, and as of when.
#[derive(Clone, Copy)]
pub(in crate::collection) struct RowReading<'a> {
    pub(in crate::collection) formats: &'a Formats,
    pub(in crate::collection) moment: &'a ReadSnapshot<'a>,
    pub(in crate::collection) sources: &'a [Source],
}

impl Collection {
    /// The rows with these keys, in the order of the keys; a key that no row has is passed over.
    /// Of several rows with one key the newest is read.
    ///
    /// # Errors
    /// [`CollectionError::KeyType`], [`CollectionError::Field`], or a failed read.
    pub fn get(
        &self,
        keys: &[PrimaryKey],
        fields: &[&str],
    ) -> Result<Vec<FoundRow>, CollectionError> {
        let entry = self.entry()?;
        let formats = self.formats(&entry);
        self.check_keys(&formats.schema, keys)?;
        let sources = self.sources(&formats, fields)?;
        self.at_one_moment(
            ReadView { entry: &entry, filter: None, held: None },
            || (),
            |(), moment| {
                let mut rows = Vec::new();
                for key in keys {
                    let found = moment.rows.rows_of_key(&key.as_ref().to_bytes())?;
                    let shown = |row: &&RowId| moment.live.contains(**row);
                    rows.extend(found.last().filter(shown));
                }
                self.read(&RowReading { formats: &formats, moment, sources: &sources }, &rows)
            },
        )
    }

    /// Reads as of a moment that is held, or of now, and then anew where vectors of rows that were deleted meanwhile have left the
    /// disk under the reader. What `before` does comes before the moment, which has the indexes
    /// for a filter.
    pub(in crate::collection) fn at_one_moment<B, T>(
        &self,
        when: ReadView<'_>,
        before: impl Fn() -> B,
        read: impl Fn(&B, &ReadSnapshot<'_>) -> Result<T, CollectionError>,
    ) -> Result<T, CollectionError> {
        self.at_moment_of(when, before, |_| true, read)
    }

    /// As [`at_one_moment`](Self::at_one_moment), where what comes before a moment of now has to hold
    /// still when the moment is there; else both are taken anew.
    pub(in crate::collection) fn at_moment_of<B, T>(
        &self,
        when: ReadView<'_>,
        before: impl Fn() -> B,
        holds: impl Fn(&B) -> bool,
        read: impl Fn(&B, &ReadSnapshot<'_>) -> Result<T, CollectionError>,
    ) -> Result<T, CollectionError> {
        if let Some(held) = when.held {
            self.check_held(Some(held));
            return read(&before(), &held.moment);
        }
        loop {
            let before = before();
            #[cfg(test)]
            super::moment_tests::between();
            let moment = self.moment_for(when.entry, when.filter);
            if !holds(&before) {
                continue;
            }
            match read(&before, &moment) {
                Err(CollectionError::Missing { .. })
                    if self.components.live().applied != moment.live.applied => {}
                other => return other,
            }
        }
    }

    /// Now, with what a filter asks for.
    pub(in crate::collection) fn moment_for(
        &self,
        entry: &Entry,
        filter: Option<&BoundFilter>,
    ) -> ReadSnapshot<'_> {
        let moment = match filter {
            Some(_) => self.components.moment_with_scalars(),
            None => self.components.moment(),
        };
        self.showing(entry, moment)
    }

    /// A moment of another collection would name rows that mean something else here.
    pub(in crate::collection) fn check_held(&self, held: Option<&PinnedSnapshot>) {
        assert!(
            held.is_none_or(|held| held.collection() == self.identity.id),
            "a moment is read from the collection that it is of"
        );
    }

    /// How many rows live, of one partition or of all. Exact.
    ///
    /// # Errors
    /// [`CollectionError::Catalog`] for a partition that there is not.
    pub fn count(&self, partition: Option<&str>) -> Result<u64, CollectionError> {
        let entry = self.entry()?;
        let live = self.unexpired(&entry, self.components.live());
        match partition {
            None => Ok(live.len()),
            Some(name) => Ok(live.len_in(partition_number(entry.partition(name)?)?)),
        }
    }

    /// The last record of the log that readers see.
    pub fn visible(&self) -> Seq {
        self.components.live().applied
    }

    pub(in crate::collection) fn check_keys(
        &self,
        schema: &Schema,
        keys: &[PrimaryKey],
    ) -> Result<(), CollectionError> {
        let expected = schema.key_type();
        for (position, key) in keys.iter().enumerate() {
            let found = key.as_ref().key_type();
            if found != expected {
                return Err(CollectionError::KeyType { expected, found, position });
            }
        }
        Ok(())
    }

    /// Where the values of these fields are read.
    pub(in crate::collection) fn sources<N: AsRef<str>>(
        &self,
        formats: &Formats,
        fields: &[N],
    ) -> Result<Vec<Source>, CollectionError> {
        let source = |name: &N| {
            let name = name.as_ref();
            let unknown = || CollectionError::Field { wanted: "field", field: name.to_owned() };
            let position = formats.schema.position(name).ok_or_else(unknown)?;
            let apart = self.components.fields.iter().position(|f| f.position == position);
            Ok(match (formats.stored.column_of(position), apart) {
                (Some(column), _) => Source::Column(column),
                (None, Some(field)) => Source::Vectors(field),
                (None, None) => unreachable!("a field stands in the row or apart"),
            })
        };
        fields.iter().map(source).collect()
    }

    /// Reads rows that live at this moment.
    pub(in crate::collection) fn read(
        &self,
        reading: &RowReading<'_>,
        rows: &[RowId],
    ) -> Result<Vec<FoundRow>, CollectionError> {
        let RowReading { formats, moment, .. } = *reading;
        let key_column = formats.stored.column_of(formats.schema.primary_key_position());
        let key_column = key_column.expect("the primary key stands in the row");
        let mut found = Vec::with_capacity(rows.len().min(ROWS_AT_ONCE));
        for rows in rows.chunks(ROWS_AT_ONCE) {
            asker::go_on()?;
            let mut failed = Ok(());
            moment.rows.get(rows, &mut |at, blob| {
                if failed.is_ok() {
                    match self.read_row(reading, rows[at], blob, key_column) {
                        Ok(row) => found.push(row),
                        Err(error) => failed = Err(error),
                    }
                }
            })?;
            failed?;
        }
        Ok(found)
    }

    fn read_row(
        &self,
        &RowReading { formats, sources, .. }: &RowReading<'_>,
        row: RowId,
        blob: Option<&[u8]>,
        key_column: usize,
    ) -> Result<FoundRow, CollectionError> {
        let missing = |what: &str| CollectionError::Missing { row, what: what.to_owned() };
        let stored = formats.open_stored(row, blob.ok_or_else(|| missing("row"))?)?;
        let bad = |source| CollectionError::Row { row, source };
        let key = match stored.get(key_column).map_err(bad)? {
            ValueRef::Int64(key) => PrimaryKeyRef::Int64(key).to_key(),
            ValueRef::VarChar(key) => PrimaryKeyRef::VarChar(key).to_key(),
            other => unreachable!("a primary key is int64 or varchar, not {other:?}"),
        };
        let mut values = Vec::with_capacity(sources.len());
        for source in sources {
            values.push(match *source {
                Source::Column(column) => stored.get(column).map_err(bad)?.to_value(),
                Source::Vectors(field) => {
                    let field = &self.components.fields[field];
                    let mut vector = vec![0; field.vector_bytes()];
                    let there = field.vectors.get(row, &mut vector);
                    if !there.map_err(CollectionError::vectors(&field.name))? {
                        return Err(missing(&format!("vector of field `{}`", field.name)));
                    }
                    Value::Vector(vector)
                }
            });
        }
        if !sources.is_empty() {
            let bytes = values.iter().map(Value::bytes).sum::<usize>() + size_of::<FoundRow>();
            asker::grows(bytes as u64)?;
        }
        Ok(FoundRow { row, key, values })
    }
}
