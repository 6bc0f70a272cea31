//! Tests of opening and searching built indexes.
